"""`lintrain init`: write the configuration and the pre-commit hook of a project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from lintrain.check.tiers import names_library
from lintrain.cli._output import CommandError, write_contents, write_report
from lintrain.report.text.summary import count
from lintrain.settings.loading import LARGEST_FILE, OWN_FILES, PROJECT_FILE, has_table
from lintrain.settings.new_project import (
    HOOK_FILE,
    VENDORED,
    appended,
    as_own_file,
    has_hook,
    hook_entry,
    starting_table,
    with_hook,
)
from lintrain.settings.settings import UsageError
from lintrain.source.discovery import Discovery
from lintrain.source.plain_files import read_plain_text
from lintrain.source.reading import UnreadableError, load_bytes
from lintrain.source.repository import own_repository
from lintrain.startup.lazy_dataclass import dataclass

MOST_LISTED = 8


@dataclass(frozen=True, slots=True)
class ProjectContents:
    """What a project contains: files that use a training library, vendored folders, versions that are known or not."""

    scripts: int
    notebooks: int
    vendored: tuple[str, ...]
    unknown_versions: tuple[str, ...]
    known_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file: a line about it, and its new text; None if it is not changed."""

    file: Path
    summary: str
    text: str | None = None


def init(*, dry_run: bool, with_hook: bool) -> int:
    """Run the command and return its exit code; raises CommandError."""
    found = own_repository(str(Path.cwd()))
    top = Path(found) if found else None
    root = _root(top)
    contents = _contents_of(root)
    steps = [_configuration(root, contents), *(_hook(root, top) if with_hook else ())]
    lines = list(_overview(root, contents))
    for step in steps:
        lines.append(step.summary)
        if step.text is not None and dry_run:
            lines += ["", *(f"    {line}".rstrip() for line in _added(step)), ""]
    if not dry_run:
        write_contents({str(step.file): step.text.encode() for step in steps if step.text is not None})
        lines += ["next: `lintrain check` shows the present findings, `lintrain baseline` records them"]
    write_report("\n".join(lines) + "\n")
    return 0


def _root(top: Path | None) -> Path:
    """The project's folder: the nearest with a configuration, else the top of the repository, else this one."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in (PROJECT_FILE, *OWN_FILES)):
            return folder
        if top is None or folder == top:
            break
    return top or here


def _contents_of(root: Path) -> ProjectContents:
    files = Discovery().find([str(root)])
    ours = [(file, raw) for file in files if (raw := _bytes(file)) is not None and names_library(raw)]
    below = [Path(os.path.relpath(file, root)) for file, _ in ours]
    folders = {
        Path(*path.parts[: at + 1]).as_posix()
        for path in below
        for at, name in enumerate(path.parts[:-1])
        if name.lower() in VENDORED
    }
    notebooks = sum(path.suffix == ".ipynb" for path in below)
    known, unknown = _versions(root, b"\n".join(raw for _, raw in ours))
    return ProjectContents(
        len(ours) - notebooks, notebooks, tuple(_outermost({*folders, *_submodules(root)})), unknown, known
    )


def _bytes(file: str) -> bytes | None:
    try:
        return load_bytes(file)
    except UnreadableError:
        return None


def _submodules(root: Path) -> Iterator[str]:
    """The folders of git submodules."""
    file = root / ".gitmodules"
    try:
        text = read_plain_text(file, LARGEST_FILE, errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        name, _, path = line.partition("=")
        if name.strip() == "path" and path.strip():
            yield path.strip()


def _outermost(folders: set[str]) -> list[str]:
    return sorted(folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders))


def _versions(root: Path, text: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of the libraries that the scripts use: the known versions, and the names of the others."""
    from lintrain.knowledge.tables import COVERED_PACKAGES
    from lintrain.knowledge.versions import NOBODY_TELLS, find_versions

    targets = find_versions(root)
    used = [name for name in COVERED_PACKAGES if re.search(rb"\b%b\b" % name.replace("-", "_").encode(), text)]
    found = [(name, target) for name in used if (target := targets.get(name)) is not None]
    known = tuple(f"{name} {target.text} ({target.source})" for name, target in found if target.source != NOBODY_TELLS)
    return known, tuple(name for name, target in found if target.source == NOBODY_TELLS)


def _overview(root: Path, contents: ProjectContents) -> Iterator[str]:
    files = f"{count(contents.scripts, 'script')} and {count(contents.notebooks, 'notebook')} use a training library"
    yield f"{_shown(root)}: {files}"
    for version in contents.known_versions[:MOST_LISTED]:
        yield f"  written for {version}"


def _configuration(root: Path, contents: ProjectContents) -> PlannedFile:
    """The configuration file to write."""
    try:
        found = next((file for name in (*OWN_FILES, PROJECT_FILE) if has_table(file := root / name)), None)
    except UsageError as error:
        raise CommandError(str(error)) from error
    if found:
        return PlannedFile(found, f"{_shown(found)}: already configures lintrain, not changed")
    table = starting_table(contents.vendored, contents.unknown_versions)
    project = root / PROJECT_FILE
    if project.is_file():
        text = project.read_text(encoding="utf-8")
        return PlannedFile(project, f"{_shown(project)}: add the table `[tool.lintrain]`", appended(text, table))
    own = root / OWN_FILES[-1]
    return PlannedFile(own, f"{_shown(own)}: create", as_own_file(table))


def _hook(root: Path, top: Path | None) -> Sequence[PlannedFile]:
    """The hook file to write; nothing outside of a git repository."""
    if top is None:
        return [PlannedFile(root, "no git repository, so no pre-commit hook")]
    file = top / HOOK_FILE
    text = _text_of_hooks(file)
    if text is not None and has_hook(text):
        return [PlannedFile(file, f"{_shown(file)}: already has the hook `lintrain`, not changed")]
    entry = hook_entry("" if root.samefile(top) else root.resolve().relative_to(top.resolve()).as_posix())
    after = None if text is None else with_hook(text, entry)
    if after is None:
        lines = "".join(f"\n    {line}" for line in entry.splitlines())
        return [PlannedFile(file, f"{_shown(file)}: unusual format, not changed; add this to its `repos`:{lines}")]
    where = "add the hook `lintrain`" if text else "create with the hook `lintrain` (`pre-commit install` enables it)"
    return [PlannedFile(file, f"{_shown(file)}: {where}", after)]


def _text_of_hooks(file: Path) -> str | None:
    """The text of the hook file, empty if it does not exist; None if it cannot be read."""
    try:
        return read_plain_text(file, LARGEST_FILE)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None


def _added(step: PlannedFile) -> list[str]:
    """The lines that are added to the file."""
    before = step.file.read_text(encoding="utf-8").splitlines() if step.file.is_file() else []
    after = (step.text or "").splitlines()
    start = next((at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(before))
    return after[start : len(after) - (len(before) - start)]


def _shown(path: Path) -> str:
    return os.path.relpath(path)


@click.command(short_help="Write a configuration and a pre-commit hook.")
@click.option("--dry-run", is_flag=True, help="Show what would be written, without writing.")
@click.option("--no-hook", is_flag=True, help="Do not change `.pre-commit-config.yaml`.")
def command(*, dry_run: bool, no_hook: bool) -> int:
    """Write a configuration and a pre-commit hook for this project.

    The configuration goes into pyproject.toml if it exists, otherwise into lintrain.toml. Existing entries are not
    changed, so a second run changes nothing.
    """
    return init(dry_run=dry_run, with_hook=not no_hook)
