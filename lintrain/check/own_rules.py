"""Rules of a project's own, and the trust without which their code does not run.

A configuration belongs to the repository under check, so it can only name rule files. Whether their code may run is
recorded in the user's data folder, by path and content: nothing in a repository can write there, and a file that
changes is no longer trusted. The bytes that are compared are the bytes that run.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from lintrain.builtin import BUILTINS
from lintrain.cache.folder import is_private, is_safe
from lintrain.rulebook import RuleFile, RuleFileError, digest_of, load_rules, read_rule
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.reading import read_plain
from lintrain.startup.lazy_dataclass import dataclass

TRUST_FILE = "trusted-rules.json"
LARGEST_FILE = 16 * 1024 * 1024
MOST_RULES = 1_000
"""The most rule files that a configuration may name."""

NO_RULES = ("_", ".", "test_", "conftest.")
"""How the names of files begin that lie next to rules and are none."""


@dataclass(frozen=True, slots=True)
class OwnRules:
    """The rules that a configuration names: those that may run, and the files that are not trusted."""

    rules: tuple[RuleFile, ...] = ()
    untrusted: tuple[Path, ...] = ()

    @property
    def not_trusted(self) -> Mapping[str, str]:
        """The stages of the rules that are not trusted, by name."""
        return {path.stem.replace("_", "-"): path.parent.name for path in self.untrusted}

    @property
    def remarks(self) -> Iterator[str]:
        """Which rules do not run, and what to do."""
        if self.untrusted:
            names = ", ".join(f"`{_shown(path)}`" for path in self.untrusted)
            verb = "is" if len(self.untrusted) == 1 else "are"
            yield f"{names} {verb} not trusted and did not run; read the code, then run `lintrain trust`"


def project_rules(settings: Settings) -> tuple[RuleFile, ...]:
    """The shipped rules and those of the project that are trusted, loaded; raises UsageError and RuleFileError."""
    shipped = load_rules()
    return *shipped, *(file for file in own_rules(settings, shipped).rules if file.rule)


def own_rules(settings: Settings, known: Iterable[RuleFile]) -> OwnRules:
    """The rules that a configuration names; raises UsageError for a missing path, or a name that exists already."""
    if not settings.rules:
        return OwnRules()
    trusted = trusted_files()
    taken = {rule.name: rule.path for rule in known} | {name: Path() for name in BUILTINS}
    rules: list[RuleFile] = []
    untrusted: list[Path] = []
    for path in rule_files(settings):
        name = path.stem.replace("_", "-")
        if taken.setdefault(name, path) != path:
            raise UsageError(f"{settings.file}: `rules`: {_shown(path)}: another rule has the name `{name}`")
        digest = _digest(path)
        if digest and trusted.get(os.path.realpath(path)) == digest:
            rules.append(RuleFile(path, digest=digest))
        else:
            untrusted.append(path)
    return OwnRules(tuple(rules), tuple(untrusted))


def rule_files(settings: Settings) -> list[Path]:
    """The files that the key `rules` names, in order, each once; raises UsageError for a path that does not exist."""
    found: dict[Path, None] = {}
    for named in settings.rules:
        path = settings.root / named
        if not path.exists():
            raise UsageError(f"{settings.file}: `rules`: `{named}` does not exist")
        found.update(dict.fromkeys(files_at(path)))
        if len(found) > MOST_RULES:
            raise UsageError(f"{settings.file}: `rules`: `{named}` has more than {MOST_RULES} files")
    return list(found)


def files_at(path: Path) -> Iterator[Path]:
    """The rule files of a folder and of the folders in it, which are stages; a file is itself."""
    if path.is_file():
        yield Path(os.path.normpath(path))
        return
    for entry in _entries(path):
        if entry.is_dir():
            yield from (each for each in _entries(entry) if each.suffix == ".py" and each.is_file())
        elif entry.suffix == ".py" and entry.is_file():
            yield entry


def _entries(folder: Path) -> list[Path]:
    try:
        entries = sorted(Path(os.path.normpath(folder)).iterdir())
    except OSError:
        return []
    return [entry for entry in entries[: 2 * MOST_RULES] if not entry.name.startswith(NO_RULES)]


def trusted_files() -> dict[str, str]:
    """The digest that each trusted file had; empty if others may write to the record, or if it is damaged."""
    file = trust_file()
    try:
        if not (is_private(os.lstat(file.parent)) and is_safe(os.path.realpath(file.parent.parent))):
            return {}
        read = json.loads(read_plain(file, LARGEST_FILE))
    except (OSError, ValueError, RecursionError):
        return {}
    entries = cast(dict[str, object], read).get("trusted") if isinstance(read, dict) else None
    if not isinstance(entries, dict):
        return {}
    return {name: digest for name, digest in cast(dict[str, object], entries).items() if isinstance(digest, str)}


def trust(files: Sequence[Path]) -> dict[str, str]:
    """Trust the present content of these files, and return their digests by path.

    Raises RuleFileError if one cannot be read, and OSError if the record cannot be written.
    """
    added = {os.path.realpath(file): digest_of(read_rule(file)) for file in files}
    _write({**trusted_files(), **added})
    return added


def distrust(files: Iterable[str]) -> None:
    """Trust these files no longer; raises OSError if the record cannot be written."""
    gone = {os.path.realpath(file) for file in files}
    _write({path: digest for path, digest in trusted_files().items() if path not in gone})


def state_of(path: Path, digest: str) -> str:
    """What has become of a trusted file."""
    if not path.is_file():
        return "missing"
    return "trusted" if _digest(path) == digest else "changed since, so not trusted"


def trust_file() -> Path:
    """The record of trusted files, in a folder of the user that no project can set."""
    if sys.platform == "linux":
        # What platformdirs returns, without its import; a relative folder would be one of the project under check.
        named = Path(os.environ.get("XDG_DATA_HOME", ""))
        home = named if named.is_absolute() else Path("~/.local/share").expanduser()
        return home / "lintrain" / TRUST_FILE
    from platformdirs import user_data_dir

    return Path(user_data_dir("lintrain", appauthor=False), TRUST_FILE)


def _write(trusted: Mapping[str, str]) -> None:
    """Write the record into a folder of which this user is the only writer; raises OSError otherwise."""
    file = trust_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not is_private(os.lstat(file.parent)):
        raise PermissionError(1, "other users may write into its folder", str(file))
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(json.dumps({"format": 1, "trusted": dict(sorted(trusted.items()))}, indent=2) + "\n", "utf-8")
    new.replace(file)


def _digest(path: Path) -> str:
    """The digest of a rule file; empty if it cannot be read, which counts as not trusted."""
    try:
        return digest_of(read_rule(path))
    except RuleFileError:
        return ""


def _shown(path: Path) -> str:
    return os.path.relpath(path)
