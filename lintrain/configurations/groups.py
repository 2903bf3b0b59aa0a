"""Hydra's groups: the sections of a file that are merged into files of a group, and the classes named there.

configs/trainer/default.yaml      _target_: lightning.Trainer
configs/experiment/large.yaml     trainer: {max_epochs: 10}      arguments of that class
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from lintrain.cache.noted import note, note_listed
from lintrain.configurations.document import Items, NotReadError, Scalar, Section, read_document

TARGET = "_target_"
MOST_FILES, MOST_LEVELS, MOST_FOLDERS, LARGEST = 50, 4, 3, 64 * 1024


def merged_sections(section: Section) -> Iterator[tuple[Section, str]]:
    """The sections of a file without a class of their own, each with the class that its group names."""
    file = Path(section.location.path)
    if section.get(TARGET) is None and (own := _inherited(file, section, MOST_LEVELS)):
        yield section, own
    for entry in section.entries:
        if isinstance(entry.value, Section) and entry.is_own and (group := _group_of(file, entry.key)):
            chosen = _chosen(section, entry.key)
            options = [group / f"{chosen}.yaml"] if chosen else _listed(group)
            yield from _within(entry.value, [(each, found) for each in options if (found := _read(each)) is not None])


def _within(section: Section, options: Sequence[tuple[Path, Section]]) -> Iterator[tuple[Section, str]]:
    """A section and those in it, where all options of its group agree on the class."""
    targets = {target for file, each in options if (target := _inherited(file, each, MOST_LEVELS))}
    if len(targets) == 1 and section.get(TARGET) is None:
        yield section, targets.pop()
    for entry in section.entries:
        if isinstance(entry.value, Section) and entry.is_own:
            inner = [(file, held) for file, each in options if isinstance(held := each.get(entry.key), Section)]
            yield from _within(entry.value, inner)


def _group_of(file: Path, key: str) -> Path | None:
    """The folder of a group: beside the file, or beside the folder that it is in."""
    above = [file.parent, *file.parent.parents][:MOST_FOLDERS]
    return next((folder / key for folder in above if key.isidentifier() and (folder / key).is_dir()), None)


def _chosen(section: Section, key: str) -> str:
    """The option of a group that the `defaults` of a file choose; empty if they choose none."""
    defaults = section.get("defaults")
    for item in defaults.items if isinstance(defaults, Items) else ():
        for entry in item.entries if isinstance(item, Section) else ():
            if entry.key.split()[-1].lstrip("/") == key and isinstance(entry.value, Scalar):
                return entry.value.value if isinstance(entry.value.value, str) else ""
    return ""


def _inherited(file: Path, section: Section, levels: int) -> str | None:
    """The class of a section, or that of the files of its folder that its `defaults` begin with."""
    if (own := section.text(TARGET)) is not None or not levels:
        return own
    defaults = section.get("defaults")
    for item in defaults.items if isinstance(defaults, Items) else ():
        name = item.value if isinstance(item, Scalar) else None
        if isinstance(name, str) and name.isidentifier() and name != "_self_":
            other = file.parent / f"{name}.yaml"
            found = _read(other) if other != file else None
            if found is not None and (target := _inherited(other, found, levels - 1)):
                return target
    return None


def _listed(group: Path) -> list[Path]:
    note_listed(group, "*.yaml")
    return sorted(group.glob("*.yaml"))[:MOST_FILES]


def _read(file: Path) -> Section | None:
    """The content of a file; None if it is missing, too large, or no section."""
    note(file)
    try:
        if file.stat().st_size > LARGEST:
            return None
        document = read_document(str(file), file.read_text(encoding="utf-8"))
    except (OSError, ValueError, NotReadError):
        return None
    return document if isinstance(document, Section) else None
