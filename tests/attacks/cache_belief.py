"""Attacks on what lintrain believes: answers and verdicts where others may have written them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.commands import lintrain

OWN = ".lintrain_cache"
NOBODY = 65534


def give_away(path: Path) -> None:
    """Make a path another user's."""
    if os.geteuid() != 0:
        raise NotPossibleError("only root can give a folder to another user")
    os.chown(path, NOBODY, NOBODY)


def replace_by_link(path: Path) -> None:
    """Put a folder elsewhere, and a link in its place."""
    elsewhere = path.with_name(f"{path.name}-elsewhere")
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def each_file(change: Callable[[Path], None], pattern: str) -> Callable[[Path], None]:
    """A change of every path in the cache that fits a pattern."""

    def changed(cache: Path) -> None:
        for path in (cache / OWN).glob(pattern):
            change(path)

    return changed


OPENED: dict[str, Callable[[Path], None]] = {
    "own-folder-for-all": lambda cache: (cache / OWN).chmod(0o777),
    "own-folder-sticky": lambda cache: (cache / OWN).chmod(0o1777),
    "own-folder-for-a-group": lambda cache: (cache / OWN).chmod(0o770),
    "stores-for-all": each_file(lambda path: path.chmod(0o777), "[afv]*"),
    "named-folder-for-all": lambda cache: cache.chmod(0o777),
    "folder-above-for-all": lambda cache: cache.parent.chmod(0o777),
    "own-folder-of-another": lambda cache: give_away(cache / OWN),
    "named-folder-of-another": give_away,
    "folder-above-of-another": lambda cache: give_away(cache.parent),
    "own-folder-is-a-link": lambda cache: replace_by_link(cache / OWN),
    "stores-are-links": each_file(replace_by_link, "[afv]*"),
    "files-of-another": each_file(give_away, "[afv]*/*"),
    "files-for-all": each_file(lambda path: path.chmod(0o666), "[afv]*/*"),
}


def forge(cache: Path) -> None:
    """Change what every kept answer says, as somebody could who knows the form."""
    from lintrain.cache.whole_files import HEADS, sealed, unsealed

    for store in ("answers", "files"):
        for file in (cache / OWN / store).glob("*"):
            state = file.stat()
            content = unsealed(HEADS[store], file.read_bytes())
            assert content is not None
            assert b"nowhere" in content
            with file.open("r+b") as opened:
                opened.write(sealed(HEADS[store], content.replace(b"nowhere", b"forgery")))
            os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


@attack("cache-is-believed-if-private", cases=OPENED)
def answers_where(folder: Path, open_to_others: Callable[[Path], None]) -> None:
    """Answers that others may have written: what they say is not shown."""
    top, cache = folder / "project", folder / "around" / "cache"
    top.mkdir()
    cache.mkdir(parents=True, mode=0o700)
    for name in ("train.py", "other.py"):
        (top / name).write_text("import torch\nprint(nowhere)\n")
    variables = {"HOME": str(folder), "LINTRAIN_CACHE_DIR": str(cache)}
    for _ in range(2):
        lintrain(top, "check", variables=variables, cached=True)
    forge(cache)
    shown = lintrain(top, "check", variables=variables, cached=True)
    assert b"forgery" in shown.out, "the forged answer was not even shown from a private folder"
    open_to_others(cache)
    ended = lintrain(top, "check", variables=variables, cached=True)
    assert b"forgery" not in ended.out, ended.text
    assert b"nowhere" in ended.out, ended.text


@attack("cache-is-believed-if-private", cases=OPENED)
def verdicts_where(folder: Path, open_to_others: Callable[[Path], None]) -> None:
    """Verdicts that others may have written: a finding keeps none of them."""
    from lintrain.evidence.run import Evidence
    from lintrain.evidence.stages import Ending, EndingKind
    from lintrain.model.finding import Finding
    from lintrain.model.level import Level
    from lintrain.model.location import Location
    from lintrain.model.verdict import Verdict
    from lintrain.runtime.parent.kept_verdicts import KeptVerdicts, keep_verdicts
    from lintrain.runtime.parent.record import SCHEMA, Record

    cache = folder / "around" / "cache"
    cache.mkdir(parents=True, mode=0o700)
    script = folder / "train.py"
    script.write_text("import torch\n")
    finding = Finding("missing-num-labels", Level.ERROR, Location(str(script), 1, 1, 1, 13), "too few labels")
    evidence = Evidence(str(script), "transformers", "Trainer", None, None, "cpu", {})
    ending = Ending(EndingKind.MEASURED, files=(str(script),))
    record = Record(SCHEMA, "1.0", str(script), "", "/nowhere/bin/python", ending, (evidence,))
    before = os.environ.get("LINTRAIN_CACHE_DIR")
    os.environ["LINTRAIN_CACHE_DIR"] = str(cache)
    try:
        keep_verdicts(record, [(finding, Verdict.refuted("a forgery"))])
        assert KeptVerdicts(str(script), "1.0").of(finding) is not None
        open_to_others(cache)
        assert KeptVerdicts(str(script), "1.0").of(finding) is None
    finally:
        if before is None:
            del os.environ["LINTRAIN_CACHE_DIR"]
        else:
            os.environ["LINTRAIN_CACHE_DIR"] = before
