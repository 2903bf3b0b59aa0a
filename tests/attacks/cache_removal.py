"""Attacks on what lintrain removes: other people's files, folders and links where its cache is said to be."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from lintrain.cache.whole_files import HEADS, TAG, TAGGED
from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.commands import Ended, lintrain

OWN = ".lintrain_cache"
NAME = "0123456789abcdef" * 2
LONG_AGO = time.time() - 400 * 24 * 3600


def project(folder: Path) -> Path:
    """A project with something to find, whose files are old."""
    top = folder / "project"
    top.mkdir()
    for name in ("train.py", "other.py"):
        (top / name).write_text("import torch\nprint(nowhere)\n")
    return top


def precious(location: Path, content: bytes = b"a diary\n") -> Path:
    """A file that nobody may lose, old enough to be pruned."""
    location.parent.mkdir(parents=True, exist_ok=True)
    location.write_bytes(content)
    os.utime(location, (LONG_AGO, LONG_AGO))
    return location


def check_and_clean(top: Path, named: str = ".", variables: dict[str, str] | None = None) -> Ended:
    """Fill the cache twice, and remove it."""
    variables = {"LINTRAIN_CACHE_DIR": str(top), "HOME": str(top.parent), **(variables or {})}
    for _ in range(2):
        ended = lintrain(top, "check", "--cache-dir", named, variables=variables, cached=True)
        assert ended.code == 1, ended.text
    return lintrain(top, "clean", "--cache-dir", named, variables=variables)


def contents(folder: Path) -> dict[Path, bytes]:
    """What every file of a folder holds."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


FOLDERS = ("answers", "files", "verdicts", "pages", f"{OWN}/mine", f"{OWN}/answers", f"{OWN}/files/inner")


@attack("cache-removes-its-own", cases=[f"{folder}/{name}" for folder in FOLDERS for name in ("diary.txt", NAME)])
def file_at(folder: Path, where: str) -> None:
    """A file of the user in a folder that has the name of one of the cache."""
    top = project(folder)
    precious(top / where)
    before = contents(top)
    ended = check_and_clean(top)
    assert ended.code == 0, ended.text
    assert contents(top) == before


@attack("cache-removes-its-own", cases=("option", "variable"))
def cache_beside_files(folder: Path, way: str) -> None:
    """The working folder named as the cache: files of the same name stay, those of lintrain go."""
    top = project(folder)
    precious(top / "files" / NAME, HEADS["files"] + b"a diary\n")
    before = contents(top)
    if way == "option":
        ended = check_and_clean(top)
    else:
        variables = {"LINTRAIN_CACHE_DIR": str(top), "HOME": str(folder)}
        for _ in range(2):
            lintrain(top, "check", variables=variables, cached=True)
        ended = lintrain(top, "clean", variables=variables)
    assert b"removed 2 files" in ended.errors, ended.text
    assert contents(top) == before


def planted(own: Path, content: bytes = TAGGED) -> None:
    """A folder with the tag of lintrain's."""
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    own.chmod(0o700)
    (own / TAG).write_bytes(content)
    (own / TAG).chmod(0o600)


def link_own_folder(own: Path, outside: Path) -> None:
    """The folder of our own is a link."""
    own.symlink_to(outside)


def link_store(own: Path, outside: Path) -> None:
    """A folder in it is a link."""
    planted(own)
    for store in ("answers", "files"):
        (own / store).symlink_to(outside / "answers")


def link_files(own: Path, outside: Path) -> None:
    """Its files are links, in their place and half written."""
    planted(own)
    (own / "answers").mkdir(mode=0o700)
    for name in (NAME, f"{NAME}.1.new", *(f"{number:032x}" for number in range(300))):
        (own / "answers" / name).symlink_to(outside / "answers" / NAME)


def link_tag(own: Path, outside: Path) -> None:
    """Its tag is a link."""
    own.mkdir(mode=0o700)
    (own / TAG).symlink_to(outside / TAG)


LINKS = {"own-folder": link_own_folder, "stores": link_store, "files": link_files, "tag": link_tag}


@attack("cache-removes-its-own", cases=LINKS)
def link_in_place_of(folder: Path, plant: Callable[[Path, Path], None]) -> None:
    """A link in the place of a folder or file of the cache, to one that has the very form of the cache's."""
    top, outside = project(folder), folder / "outside"
    planted(outside)
    precious(outside / "answers" / NAME, HEADS["answers"] + b"somebody's\n")
    (outside / "answers").chmod(0o700)
    before = contents(outside)
    plant(top / OWN, outside)
    assert check_and_clean(top).code in (0, 2)
    assert contents(outside) == before


TAGS = {
    "none": b"",
    "another-program": b"Signature: 8a477f597d28d172789f06886806bc55\n# made by cargo\n",
    "longer": TAGGED + b"and more\n",
}


@attack("cache-removes-its-own", cases=TAGS)
def folder_of_another_program(folder: Path, tag: bytes) -> None:
    """A folder of the same name that another program tagged: nothing is put into it, and nothing removed."""
    top = project(folder)
    planted(top / OWN, tag)
    if not tag:
        (top / OWN / TAG).unlink()
    precious(top / OWN / "answers" / NAME, HEADS["answers"])
    before = contents(top)
    assert b"removed 0 files" in check_and_clean(top).errors
    assert contents(top) == before


@attack("cache-removes-its-own")
def second_name(folder: Path) -> None:
    """A file of the cache that is a second name of a file elsewhere: at most that name goes, the content stays."""
    top = project(folder)
    outside = precious(folder / "outside" / "report", HEADS["answers"] + b"kept elsewhere\n")
    planted(top / OWN)
    (top / OWN / "answers").mkdir(mode=0o700)
    os.link(outside, top / OWN / "answers" / NAME)
    check_and_clean(top)
    assert outside.read_bytes() == HEADS["answers"] + b"kept elsewhere\n"


@attack("cache-removes-its-own")
def pipe_in_the_cache(folder: Path) -> None:
    """Pipes under the names of the cache's files: nothing waits for them, and they stay."""
    top = project(folder)
    planted(top / OWN)
    for store in ("answers", "files", "verdicts"):
        (top / OWN / store).mkdir(mode=0o700)
        os.mkfifo(top / OWN / store / (NAME + ".json" * (store == "verdicts")))
    ended = check_and_clean(top)
    assert b"kept 3 files" in ended.errors, ended.text
    assert len(list((top / OWN).rglob(f"{NAME}*"))) == 3


@attack("cache-removes-its-own", cases=("home", "root"))
def cache_that_is(folder: Path, which: str) -> None:
    """The home folder, or the root of the disk, named as the cache."""
    top, home = project(folder), folder / "home"
    precious(home / "files" / NAME)
    precious(home / ".gitignore", b"*.log\n")
    before = contents(home)
    if which == "root" and (Path("/") / OWN).exists():
        raise NotPossibleError("a folder of lintrain in the root of the disk, to which nothing may be added")
    if which == "root":
        ended = lintrain(top, "clean", "--cache-dir", "/")
        assert b"removed 0 files" in ended.errors, ended.text
        return
    check_and_clean(top, str(home), {"HOME": str(home)})
    assert contents(home) == before


@attack("cache-removes-its-own")
def older_cache_at_the_usual_place(folder: Path) -> None:
    """What earlier versions kept goes by its form; a diary among it stays."""
    top, home = project(folder), folder / "home"
    usual = home / ".cache" / "lintrain"
    precious(usual / "answers" / NAME, HEADS["answers"])
    diary = precious(usual / "answers" / "diary.txt")
    for each in (usual, usual / "answers"):
        each.chmod(0o700)
    ended = lintrain(top, "clean", variables={"HOME": str(home), "LINTRAIN_CACHE_DIR": "", "XDG_CACHE_HOME": ""})
    assert b"removed 1 file " in ended.errors, ended.text
    assert [path for path in usual.rglob("*") if path.is_file()] == [diary]
