"""The verdicts of the last probe, cached for `lintrain check` and the editor until something that they depend on
changes.

The user's cache folder (`LINTRAIN_CACHE_DIR` names another) contains one small file for each file with findings. Its
verdicts are valid while the bytes of every file of the project that the probed run used, the installed versions and
lintrain itself are the same; a file that cannot be parsed is ignored.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lintrain.cache.folder import is_ours, store_folder
from lintrain.cache.watch import unrecorded
from lintrain.cache.whole_files import HEADS, make_folder, put, read_kept, sealed, unsealed
from lintrain.model.finding import Finding
from lintrain.model.verdict import Outcome, Verdict
from lintrain.source.reading import LARGEST_FILE, read_plain

if TYPE_CHECKING:
    from lintrain.runtime.parent.record import Record

MAGIC = HEADS["verdicts"]
SCHEMA = 1
Judged = tuple[Finding, Verdict]


INCONCLUSIVE = Verdict.inconclusive("")
NOT_KEPT = "the verdicts are not cached for later checks"


def keep_verdicts(record: Record, judged: Iterable[Judged]) -> str:
    """Cache the verdicts of a probe by file; returns why the cache cannot be written, or ""."""
    by_file: dict[Path, list[Judged]] = {_absolute(record.script): []}
    for finding, verdict in judged:
        by_file.setdefault(_absolute(finding.location.path), []).append((finding, verdict))
    texts = {str(file): digest for file in {*by_file, *map(Path, record.ending.files)} if (digest := _digest(file))}
    common: dict[str, Any] = {"schema": SCHEMA, "lintrain": record.lintrain, "texts": texts}
    # Verdicts depend on the versions that ran: a folder `NAME-VERSION.dist-info` that is gone means another version.
    common["packages"] = [str(folder) for folder in _installed(record)]
    for file, about in by_file.items():
        earlier = KeptVerdicts(str(file), record.lintrain)
        new = {json.dumps(_claim(finding)): verdict for finding, verdict in about}
        kept = _not_taken_back(new, earlier.all)
        # A verdict stays valid only while all that it was measured with is the same: this probe may have loaded less.
        rests_on = {**common, "texts": {**earlier.texts, **texts}} if kept else common
        verdicts = [{"claim": json.loads(claim), **dataclasses.asdict(one)} for claim, one in {**new, **kept}.items()]
        try:
            _write(*_location_of(file), {**rests_on, "verdicts": verdicts})
        except OSError as error:
            return f"{NOT_KEPT}: {(error.strerror or str(error)).lower()}"
    return ""


def _not_taken_back(new: Mapping[str, Verdict], earlier: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The earlier verdicts on which a probe is inconclusive: one that was cut off takes nothing back."""
    decided = {claim: one for claim, one in earlier.items() if one.outcome is not Outcome.INCONCLUSIVE}
    return {
        claim: one for claim, one in decided.items() if new.get(claim, INCONCLUSIVE).outcome is INCONCLUSIVE.outcome
    }


class KeptVerdicts:
    """The cached verdicts of one file, read when a finding needs them; `text` is given if it differs from the disk."""

    def __init__(self, path: str, lintrain: str, text: bytes | None = None) -> None:
        self._file = _absolute(path)
        self._lintrain = lintrain
        self._text = text
        self._texts: Mapping[str, str] = {}

    @property
    def all(self) -> Mapping[str, Verdict]:
        """Every valid verdict, by its claim as JSON."""
        return self._verdicts

    @property
    def texts(self) -> Mapping[str, str]:
        """The digests of the files that the verdicts rest on, while they are valid."""
        return self._texts if self._verdicts else {}

    def of(self, finding: Finding) -> Verdict | None:
        """The verdict of the last probe on a finding; None if there is none that is still valid."""
        return self._verdicts.get(json.dumps(_claim(finding)))

    @cached_property
    def _verdicts(self) -> Mapping[str, Verdict]:
        try:
            content = unsealed(MAGIC, read_kept(*_location_of(self._file)))  # first, so that a later one is noticed
            with unrecorded():
                is_believed = content is not None and is_ours(_folder())
            stored: Any = json.loads(content or b"{}") if is_believed else {}  # Any: whatever JSON holds
            return dict(self._read(stored))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _read(self, stored: Any) -> Iterable[tuple[str, Verdict]]:
        is_same = stored["schema"] == SCHEMA and stored["lintrain"] == self._lintrain
        if not is_same or str(self._file) not in stored["texts"]:
            return
        if not all(self._digest(Path(file)) == digest for file, digest in stored["texts"].items()):
            return
        if not all(os.path.isdir(folder) for folder in stored["packages"]):  # noqa: PTH112 - of strings, on every check
            return
        self._texts = stored["texts"]
        for one in stored["verdicts"]:
            measured = cast("Mapping[str, Any]", one["measured"])
            yield json.dumps(one["claim"]), Verdict(Outcome(one["outcome"]), str(one["reason"]), measured)

    def _digest(self, file: Path) -> str | None:
        if self._text is not None and file == self._file:
            return hashlib.sha256(self._text).hexdigest()
        return _digest(file)


def _folder() -> str:
    return store_folder("verdicts")


def _claim(finding: Finding) -> Sequence[str | int]:
    location = finding.location
    return [finding.rule, location.line, location.column, location.end_line, location.end_column, finding.message]


def _absolute(path: str) -> Path:
    return Path(os.path.abspath(path))  # noqa: PTH100 - `resolve` would follow links


def _location_of(file: Path) -> tuple[str, str]:
    """The folder and the name of what is stored of a file."""
    return _folder(), f"{hashlib.sha256(os.fsencode(file)).hexdigest()[:32]}.json"


def _digest(file: Path) -> str | None:
    try:
        return hashlib.sha256(read_plain(file, LARGEST_FILE)).hexdigest()
    except OSError:
        return None


def _installed(record: Record) -> Iterable[Path]:
    """The folders that show which versions the script ran with: another version is in another folder."""
    home = Path(record.python).parent.parent
    folders = [*home.glob("lib/python3*/site-packages"), home / "Lib" / "site-packages"]
    for name, version in {pair for run in record.runs for pair in run.versions.items()}:
        for folder in folders:
            if (found := folder / f"{name}-{version}.dist-info").is_dir():
                yield found


def _write(folder: str, name: str, content: Mapping[str, Any]) -> None:
    """Put a file in its place whole: two probes may end at once. Raises OSError."""
    from lintrain.runtime.parent.record import plain  # here, for every check that finds something reads this module

    make_folder(folder)
    if not is_ours(folder):
        raise OSError(errno.EACCES, f"other users can write to {folder}")
    put(folder, name, sealed(MAGIC, json.dumps(plain(content)).encode()))
