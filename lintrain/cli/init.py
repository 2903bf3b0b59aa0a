"""`lintrain init`: write the configuration of a project, its pre-commit hook, and what coding agents read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import click

from lintrain.check.tiers import names_library
from lintrain.cli._output import CommandError, write_contents, write_report
from lintrain.configurations.document import NotReadError
from lintrain.knowledge.settings_files import read_yaml
from lintrain.report.text.frame import count
from lintrain.settings.loading import LARGEST_FILE, OWN_FILES, PROJECT_FILE, has_table
from lintrain.settings.settings import UsageError
from lintrain.source.discovery import Discovery
from lintrain.source.reading import UnreadableError, load_bytes, read_plain_text
from lintrain.source.repository import own_repository
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

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


def init(*, dry_run: bool, with_hook: bool, with_agents: bool = False) -> int:
    """Run the command and return its exit code; raises CommandError."""
    found = own_repository(str(Path.cwd()))
    top = Path(found) if found else None
    root = _root(top)
    contents = _contents_of(root)
    steps = [_configuration(root, contents), *(_hook(root, top) if with_hook else ())]
    steps += _for_agents(root, top) if with_agents else ()
    lines = list(_overview(root, contents))
    for step in steps:
        lines.append(step.summary)
        if step.text is not None and dry_run:
            lines += ["", *(f"    {line}".rstrip() for line in _added(step)), ""]
    if not dry_run:
        write_contents({str(step.file): step.text.encode() for step in steps if step.text is not None})
        lines += ["next: `lintrain check` shows the current findings, `lintrain baseline` records them"]
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
    from lintrain.knowledge.target import NEWEST_KNOWN
    from lintrain.knowledge.versions import find_versions

    targets = find_versions(root)
    used = [name for name in COVERED_PACKAGES if re.search(rb"\b%b\b" % name.replace("-", "_").encode(), text)]
    found = [(name, target) for name in used if (target := targets.get(name)) is not None]
    known = tuple(f"{name} {target.text} ({target.source})" for name, target in found if target.source != NEWEST_KNOWN)
    return known, tuple(name for name, target in found if target.source == NEWEST_KNOWN)


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
    text = _text_of(file)
    if text is not None and has_hook(text):
        return [PlannedFile(file, f"{_shown(file)}: already has the hook `lintrain`, not changed")]
    entry = hook_entry("" if root.samefile(top) else root.resolve().relative_to(top.resolve()).as_posix())
    after = None if text is None else with_hook(text, entry)
    if after is None:
        lines = "".join(f"\n    {line}" for line in entry.splitlines())
        return [PlannedFile(file, f"{_shown(file)}: unusual format, not changed; add this to its `repos`:{lines}")]
    where = "add the hook `lintrain`" if text else "create with the hook `lintrain` (`pre-commit install` enables it)"
    return [PlannedFile(file, f"{_shown(file)}: {where}", after)]


def _for_agents(root: Path, top: Path | None) -> Iterator[PlannedFile]:
    """The section of AGENTS.md, and the entries of the files of agents that the project is used with."""
    from lintrain.cli import _agents as agents

    section = root / agents.SECTION_FILE
    yield _planned(section, "the section about lintrain", agents.with_section, agents.SECTION)
    for entry in agents.ENTRIES:
        is_hook = entry.keys[0] == "hooks"
        if (root / entry.folder).is_dir() and (top is not None or not is_hook):
            yield _planned(
                root / entry.file, entry.summary, partial(agents.with_entry, entry=entry), agents.as_text(entry)
            )


def _planned(file: Path, what: str, change: Callable[[str], str], added: str) -> PlannedFile:
    """A file with something added; the lines to add by hand if it is written in an unusual way."""
    before = _text_of(file)
    try:
        after = None if before is None else change(before)
    except ValueError:
        after = None
    if after is None:
        lines = "".join(f"\n    {line}" for line in added.splitlines())
        return PlannedFile(file, f"{_shown(file)}: unusual format, not changed; add this by hand:{lines}")
    if after == before:
        return PlannedFile(file, f"{_shown(file)}: already has {what}, not changed")
    return PlannedFile(file, f"{_shown(file)}: {'add' if before else 'create with'} {what}", after)


def _text_of(file: Path) -> str | None:
    """The text of a file, empty if it does not exist; None if it cannot be read."""
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
@click.option("--agents", is_flag=True, help="Also write a section of AGENTS.md and the server for coding agents.")
def command(*, dry_run: bool, no_hook: bool, agents: bool) -> int:
    """Write a configuration and a pre-commit hook for this project.

    The configuration goes into pyproject.toml if it exists, otherwise into lintrain.toml. Existing entries are not
    changed, so a second run changes nothing.
    """
    return init(dry_run=dry_run, with_hook=not no_hook, with_agents=agents)


VENDORED = frozenset(
    {"3rdparty", "extern", "external", "externals", "submodules", "third-party", "third_party", "vendor"}
)
"""Usual names of folders with vendored code."""


def starting_table(exclude: Sequence[str], unknown_versions: Sequence[str]) -> str:
    """The table `[tool.lintrain]`: vendored folders, and libraries whose versions are unknown."""
    lines = ["[tool.lintrain]", "# `lintrain check --show-settings` prints every key with its value"]
    if exclude:
        lines.append(f"extend-exclude = {json.dumps(list(exclude), ensure_ascii=False)}")
    if unknown_versions:
        lines += ["", "# No lock file, requirements or environment determines these versions:"]
        lines += ["# [tool.lintrain.target-versions]", *(f'# {package} = "…"' for package in unknown_versions)]
    return "\n".join(lines) + "\n"


def as_own_file(table: str) -> str:
    """The table as a `lintrain.toml`, which has no other."""
    lines = table.splitlines()[1:]
    return "\n".join(line.replace("[tool.lintrain.", "[") for line in lines) + "\n"


def appended(text: str, table: str) -> str:
    """A pyproject.toml with the table appended."""
    return f"{text.rstrip()}\n\n{table}" if text.strip() else table


HOOK_FILE = ".pre-commit-config.yaml"
HAS_HOOK = lazy_pattern(r"""^[ \t]*(?:-[ \t]+)?id:[ \t]*["']?lintrain["']?[ \t]*(?:#.*)?$""", re.MULTILINE)
REPOS = lazy_pattern(r"^repos:[ \t]*(?:#.*)?$", re.MULTILINE)
ITEM = lazy_pattern(r"^(?P<indent>[ ]*)-(?P<gap>[ ]+)\S")

ENTRY = """\
- repo: local
  hooks:
    - id: lintrain
      name: lintrain
      entry: lintrain check --force-exclude
      language: system
      types_or: [python, jupyter, yaml, json]
      require_serial: true
"""
"""The hook runs lintrain in the project's environment, which has the library versions of the scripts."""


def hook_entry(below: str) -> str:
    """The entry for a project in a folder of its repository; `below` is empty for the top."""
    return f"{ENTRY}      files: ^{re.escape(below)}/\n" if below else ENTRY


def has_hook(text: str) -> bool:
    """Whether a hook file has a hook of lintrain."""
    return HAS_HOOK.search(text) is not None


def with_hook(text: str, entry: str) -> str | None:
    """The file with the entry at the end of `repos`; None if the file is written in an unusual way."""
    if not text.strip():
        return f"repos:\n{_indented(entry, 2)}"
    start = REPOS.search(text)
    if start is None:
        return None
    lines = text[start.end() :].splitlines()
    end = next((at for at, line in enumerate(lines) if re.match(r"[^\s#-]", line)), len(lines))
    while end and not lines[end - 1].strip():
        end -= 1
    item = next((found for line in lines[:end] if (found := ITEM.match(line))), None)
    added = _indented(entry, len(item["indent"]) if item else 2).splitlines()
    after = "\n".join([text[: start.end()] + lines[0], *lines[1:end], *added, *lines[end:]]) + "\n"
    return after if _lists_it_last(after) else None


def _indented(entry: str, indent: int) -> str:
    return "".join(f"{' ' * indent}{line}\n" for line in entry.splitlines())


def _lists_it_last(text: str) -> bool:
    """Whether the list in the new file ends with our entry; YAML that we cannot read is assumed to."""
    try:
        read = read_yaml(text)
    except NotReadError:
        return True
    repositories = cast(dict[str, object], read).get("repos") if isinstance(read, dict) else None
    last = cast(list[object], repositories)[-1] if isinstance(repositories, list) and repositories else None
    return isinstance(last, dict) and cast(dict[str, object], last).get("repo") == "local"
