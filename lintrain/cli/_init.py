"""What `lintrain init` looks at, and what it writes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lintrain.check.tiers import names_library
from lintrain.cli._output import Refusal, write_contents, write_report
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
class Look:
    """What a project holds: the files that use a library of training, other people's folders, silent libraries."""

    scripts: int
    notebooks: int
    vendored: tuple[str, ...]
    unknown_versions: tuple[str, ...]
    told_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One file: what is said of it, and its new text; None where it is left as it is."""

    file: Path
    said: str
    text: str | None = None


def init(*, dry_run: bool, with_hook: bool) -> int:
    """Carry out the command and give its exit code; raises Refusal."""
    found = own_repository(str(Path.cwd()))
    top = Path(found) if found else None
    root = _root(top)
    look = _look_at(root)
    steps = [_configuration(root, look), *(_hook(root, top) if with_hook else ())]
    lines = list(_seen(root, look))
    for step in steps:
        lines.append(step.said)
        if step.text is not None and dry_run:
            lines += ["", *(f"    {line}".rstrip() for line in _added(step)), ""]
    if not dry_run:
        write_contents({str(step.file): step.text.encode() for step in steps if step.text is not None})
        lines += ["next: `lintrain check` shows today's findings, `lintrain baseline` puts them off"]
    write_report("\n".join(lines) + "\n")
    return 0


def _root(top: Path | None) -> Path:
    """The project's folder: the nearest with a configuration, up to the top of the repository, else that, else here."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if any((folder / name).is_file() for name in (PROJECT_FILE, *OWN_FILES)):
            return folder
        if top is None or folder == top:
            break
    return top or here


def _look_at(root: Path) -> Look:
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
    told, unknown = _versions(root, b"\n".join(raw for _, raw in ours))
    return Look(len(ours) - notebooks, notebooks, tuple(_outermost({*folders, *_submodules(root)})), unknown, told)


def _bytes(file: str) -> bytes | None:
    try:
        return load_bytes(file)
    except UnreadableError:
        return None


def _submodules(root: Path) -> Iterator[str]:
    """The folders that hold other repositories."""
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
    """Of the libraries that the scripts name: the versions that something tells, and the names of the others."""
    from lintrain.knowledge.tables import COVERED_PACKAGES
    from lintrain.knowledge.versions import NOBODY_TELLS, find_versions

    targets = find_versions(root)
    used = [name for name in COVERED_PACKAGES if re.search(rb"\b%b\b" % name.replace("-", "_").encode(), text)]
    found = [(name, target) for name in used if (target := targets.get(name)) is not None]
    told = tuple(f"{name} {target.text} ({target.source})" for name, target in found if target.source != NOBODY_TELLS)
    return told, tuple(name for name, target in found if target.source == NOBODY_TELLS)


def _seen(root: Path, look: Look) -> Iterator[str]:
    held = f"{count(look.scripts, 'script')} and {count(look.notebooks, 'notebook')} use a library of training"
    yield f"{_shown(root)}: {held}"
    for told in look.told_versions[:MOST_LISTED]:
        yield f"  written for {told}"


def _configuration(root: Path, look: Look) -> Step:
    """The step that writes the configuration."""
    try:
        found = next((file for name in (*OWN_FILES, PROJECT_FILE) if has_table(file := root / name)), None)
    except UsageError as error:
        raise Refusal(str(error)) from error
    if found:
        return Step(found, f"{_shown(found)}: has a configuration of lintrain, left as it is")
    table = starting_table(look.vendored, look.unknown_versions)
    project = root / PROJECT_FILE
    if project.is_file():
        text = project.read_text(encoding="utf-8")
        return Step(project, f"{_shown(project)}: the table `[tool.lintrain]` at the end", appended(text, table))
    own = root / OWN_FILES[-1]
    return Step(own, f"{_shown(own)}: a new file", as_own_file(table))


def _hook(root: Path, top: Path | None) -> Sequence[Step]:
    """The step that writes the hook; none where nothing could run it."""
    if top is None:
        return [Step(root, "no git repository, so no hook")]
    file = top / HOOK_FILE
    text = _text_of_hooks(file)
    if text is not None and has_hook(text):
        return [Step(file, f"{_shown(file)}: has the hook `lintrain`, left as it is")]
    entry = hook_entry("" if root.samefile(top) else root.resolve().relative_to(top.resolve()).as_posix())
    after = None if text is None else with_hook(text, entry)
    if after is None:
        lines = "".join(f"\n    {line}" for line in entry.splitlines())
        return [Step(file, f"{_shown(file)}: not understood, so left as it is; add this to its `repos`:{lines}")]
    where = (
        "the hook `lintrain`" if text else "a new file with the hook `lintrain` (`pre-commit install` switches it on)"
    )
    return [Step(file, f"{_shown(file)}: {where}", after)]


def _text_of_hooks(file: Path) -> str | None:
    """What the file of the hooks holds, nothing where there is none; None where it is no text."""
    try:
        return read_plain_text(file, LARGEST_FILE)
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError):
        return None


def _added(step: Step) -> list[str]:
    """The lines that a step adds to its file."""
    before = step.file.read_text(encoding="utf-8").splitlines() if step.file.is_file() else []
    after = (step.text or "").splitlines()
    start = next((at for at, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(before))
    return after[start : len(after) - (len(before) - start)]


def _shown(path: Path) -> str:
    return os.path.relpath(path)
