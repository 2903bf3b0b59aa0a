"""The group of commands; the file of a command is imported when it is called."""

from __future__ import annotations

from importlib import import_module
from io import StringIO
from pathlib import Path

import click

from lintrain._version import __version__
from lintrain.cli._output import CommandError, write_to_stderr


class CommandFolder(click.Group):
    """The commands in this folder: `check.py` defines the `command` `check`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - the signature of click
        """The names of the commands."""
        return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """A command, imported now."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command: object = import_module(f"lintrain.cli.{cmd_name}").command
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is called; raises CommandError for an unknown one."""
        from difflib import get_close_matches

        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = get_close_matches(args[0], known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"commands are {', '.join(known)}"
            raise CommandError(f"unknown command `{args[0]}` ({hint})")
        return super().resolve_command(ctx, args)


@click.group(cls=CommandFolder, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, "-V", "--version", message="lintrain %(version)s")
def group() -> None:
    """Find mistakes in machine-learning training scripts before they cost a run."""


def call(arguments: list[str]) -> int:
    """Run a command and return its exit code; usage errors go to stderr. Raises KeyboardInterrupt."""
    try:
        code = group.main(arguments, prog_name="lintrain", standalone_mode=False)
    except click.ClickException as error:
        text = StringIO()
        error.show(text)
        write_to_stderr(text.getvalue().removesuffix("\n"))
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return code if isinstance(code, int) else 0
