"""`lintrain probe`: run a script up to its training call and measure a real batch."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Any

import click

from lintrain.cli._output import CommandError
from lintrain.runtime.parent.launchers import KNOWN
from lintrain.runtime.parent.pass_request import EXTRAS
from lintrain.settings.settings import FORMATS

MEASUREMENTS = "\b\nMeasurements for --also:\n" + "\n".join(f"  {name:<12} {what}" for name, what in EXTRAS.items())
EXIT_CODES = """\b
Exit codes:
  0    no mistake is confirmed
  1    mistakes are confirmed, or the script fails by its own error
  2    wrong usage or configuration, or a missing file
  3    could not judge: no training call was reached, or a limit was hit
  130  interrupted; the script and all its processes were ended"""

STARTS = (".py", ".ipynb", ".yaml", ".yml")


class ProbeCommand(click.Command):
    """The command, which explains where the options of a script go."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options; raises CommandError for one that is probably the script's or its launcher's."""
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            index = next((at for at, word in enumerate(given) if not word.startswith("-") and _starts(word)), None)
            at = next((at for at, word in enumerate(given) if word.startswith(error.option_name)), 0)
            if index is None or at < index:
                raise
            # After a script; in front of a launcher, whose own options lintrain must not read either.
            cut = index + 1 if given[index].endswith(STARTS) else index
            words = shlex.join(["lintrain", "probe", *given[:cut], "--", *given[cut:]])
            raise CommandError(
                f"`{error.option_name}` is no option of lintrain; those of the script follow `--`: `{words}`"
            ) from error


def _starts(word: str) -> bool:
    """Whether a word is a script or a launcher."""
    return word.endswith(STARTS) or any(word == name.partition(" ")[0] for name in KNOWN)


ABOVE_ZERO = click.FloatRange(min=0, min_open=True)


@click.command(
    cls=ProbeCommand, short_help="Run a script up to its training call.", epilog=f"{MEASUREMENTS}\n\n{EXIT_CODES}"
)
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` does.")
@click.option("--python", metavar="PATH", help="Python that runs the script (default: this one, else .venv).")
@click.option(
    "--overfit", type=click.IntRange(min=1), metavar="N", help="Also train N steps on one batch that has every label."
)
@click.option("--also", multiple=True, metavar="NAMES", help="Extra measurements, see below; or `all`.")
@click.option("--rows", multiple=True, metavar="ROWS", help="Rows to show: 5, longest, shortest or random:10.")
@click.option(
    "--try",
    "tried",
    multiple=True,
    metavar="NAME=VALUES",
    help="Compare values in short runs, e.g. learning_rate=1e-5,5e-5,1e-4; twice: each with each.",
)
@click.option("--device-memory", metavar="SIZE", help="Also project the memory of a step on such a device, e.g. 24GiB")
@click.option(
    "--batch",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Measure this batch first, which `lintrain.watch` or a callback kept.",
)
@click.option("--full-data", is_flag=True, help="Let `Dataset.map` process all rows of a large dataset.")
@click.option("--offline", is_flag=True, help="Block all network access, downloads included.")
@click.option(
    "--stand-ins",
    is_flag=True,
    help="Replace what is not here: models and data of the hub, a GPU, packages that only log; implies --offline.",
)
@click.option(
    "--stand-in-data",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Rows for data that is not here, CSV, JSON, JSON lines or Parquet; implies --stand-ins.",
)
@click.option("--timeout", type=ABOVE_ZERO, default=300.0, metavar="SECONDS", help="Time limit (default: 300).")
@click.option("--memory", type=ABOVE_ZERO, metavar="GIB", help="Memory limit.")
@click.option("--json", "as_json", is_flag=True, help="Same as --output-format json.")
@click.option("--output-format", type=click.Choice(FORMATS), help="Report format (default: full).")
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file.")
@click.option(
    "--evidence",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the evidence to this file, for `lintrain judge`.",
)
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Also write the report as an HTML page.")
@click.option(
    "--export-repro",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write a script that reproduces the failing stage.",
)
@click.option(
    "--write-tests", type=click.Path(path_type=Path, dir_okay=False), help="Write pytest tests of the pipeline."
)
@click.option("--fix", is_flag=True, help="Write the fixes that were tried in a run of the script and held.")
@click.option("--diff", is_flag=True, help="Show what --fix would write, without changing the file.")
@click.option("--select", multiple=True, metavar="NAMES", help="Rules or stages to judge.")
@click.option("--ignore", multiple=True, metavar="NAMES", help="Rules or stages to skip.")
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file to use.")
@click.option("--no-cache", is_flag=True, help="Do not cache the verdicts for `lintrain check`.")
@click.option("-q", "--quiet", is_flag=True, help="Do not show progress.")
@click.option("-v", "--verbose", is_flag=True, help="Show the output of the script.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True)  # for the language server, which may be killed
@click.option("--with-calls", is_flag=True, hidden=True)  # for the server of agents: the next steps as its tools
def command(**given: Any) -> int:  # Any: click passes the options above, ProbeOptions types them
    """Run SCRIPT, a file or a notebook, up to its training call and judge the findings on real batches.

    The arguments of the script follow `--`: `lintrain probe train.py -- --lr 1e-4`. A launcher works too: `lintrain
    probe -- torchrun --nproc-per-node 4 train.py`. The script runs in its own process, on the CPU first, and is stopped
    at its training call. Nothing is trained, saved or uploaded. If a stage fails, the fixes of confirmed findings are
    applied in memory, and the script runs again.
    """
    from lintrain.cli._probe import ProbeOptions, probe

    return probe(ProbeOptions(**given))


if __name__ == "__main__":
    sys.exit(command(standalone_mode=False))
