"""Attacks by pipes, devices and sizes in the place of what git reads."""

from __future__ import annotations

import os
import subprocess
import zlib
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path

from tests.attacks.attack import attack
from tests.support.repositories import assert_not_held_up, changed, configure, git, repository

SPARSE = 8 * 2**30


def pipe(path: Path) -> None:
    """A pipe that nobody writes to."""
    os.mkfifo(path)


def endless(path: Path) -> None:
    """A link to a device without an end."""
    path.symlink_to("/dev/zero")


def sparse(path: Path) -> None:
    """A file of 8 GiB that takes no room."""
    with path.open("wb") as file:
        file.truncate(SPARSE)


READ = (
    *("HEAD", "ORIG_HEAD", "config", "index", "packed-refs", "shallow", "refs/heads/main", "commondir", "info/exclude"),
    *(
        "info/attributes",
        "info/grafts",
        "objects/info/alternates",
        "objects/info/commit-graph",
        "objects/pack/pack-a.idx",
    ),
    *("objects/pack/multi-pack-index", "logs/HEAD"),
)
"""Files of `.git` that git opens."""

FORMS: dict[str, Callable[[Path], None]] = {"pipe": pipe, "endless": endless, "sparse": sparse}


@attack(
    "git-is-bounded",
    cases={
        f"{name}-is-{form}": (name, form)
        for name in READ
        for form in FORMS
        if not (form == "sparse" and name.startswith(("objects", "info", "logs", "ORIG")))
    },
)
def file_of_git(folder: Path, what: tuple[str, str]) -> None:
    """A file of the repository that waits for ever, has no end, or is larger than the memory."""
    top = repository(folder)
    name, form = what
    location = top / ".git" / name
    location.parent.mkdir(parents=True, exist_ok=True)
    location.unlink(missing_ok=True)
    FORMS[form](location)
    assert_not_held_up(changed(top, "main@{0}" if name.startswith("logs") else "HEAD"))


SETTINGS = {
    "attributes": "[core]\n\tattributesFile = {location}",
    "excludes": "[core]\n\texcludesFile = {location}",
    "included": "[include]\n\tpath = {location}",
    "mailmap": "[mailmap]\n\tfile = {location}\n[blame]\n\tignoreRevsFile = {location}",
}


@attack(
    "git-is-bounded",
    cases={f"{name}-{kind}": (text, kind) for name, text in SETTINGS.items() for kind in ("device", "pipe")},
)
def setting_names_a(folder: Path, what: tuple[str, str]) -> None:
    """A setting that names a device or a pipe to be read."""
    top = repository(folder)
    text, kind = what
    pipe(folder / "pipe")
    configure(top, text.format(location="/dev/zero" if kind == "device" else folder / "pipe").encode())
    ended = changed(top)
    assert_not_held_up(ended)
    assert ended.out == b"train.py\n", ended.text


@attack(
    "git-is-bounded", cases=[".gitignore", ".gitattributes", ".gitmodules", "inner/.gitignore", "inner/.gitattributes"]
)
def file_of_patterns(folder: Path, name: str) -> None:
    """A pipe in the place of a file that git reads in the work tree."""
    top = repository(folder)
    (top / "inner").mkdir()
    pipe(top / name)
    (top / "inner" / "new.py").write_text("import torch\n")
    ended = changed(top)
    assert_not_held_up(ended)
    assert ended.out == b"inner/new.py\ntrain.py\n", ended.text


@attack("git-is-bounded", cases=[*FORMS])
def repository_that_is(folder: Path, form: str) -> None:
    """Something else than a folder under the name `.git`."""
    (folder / "train.py").write_text("import torch\n")
    FORMS[form](folder / ".git")
    ended = changed(folder, variables={"GIT_CEILING_DIRECTORIES": str(folder.parent)})
    assert_not_held_up(ended)
    assert b"is in no git repository" in ended.errors, ended.text


@attack("git-is-bounded", cases=("alternate", "nested-repository", "file-of-the-index"))
def pipe_behind(folder: Path, where: str) -> None:
    """A pipe that git would reach over another file."""
    top = repository(folder)
    other = folder / "other" / "pack"
    other.mkdir(parents=True)
    if where == "alternate":
        (top / ".git" / "objects" / "info" / "alternates").write_text(f"{other.parent}\n")
        pipe(other / "pack-1.idx")
    elif where == "nested-repository":
        (top / "nested" / ".git" / "refs").mkdir(parents=True)
        (top / "nested" / ".git" / "objects").mkdir()
        pipe(top / "nested" / ".git" / "HEAD")
    else:
        (top / "same.py").unlink()
        pipe(top / "same.py")
    assert_not_held_up(changed(top))


def loose(top: Path, kind: bytes, size: int, content: bytes) -> str:
    """Put an object that claims a size into a repository, and give its name."""
    packer = zlib.compressobj(9)
    head = b"%b %d\0" % (kind, size)
    name = sha1(head + content, usedforsecurity=False).hexdigest()
    location = top / ".git" / "objects" / name[:2]
    location.mkdir(exist_ok=True)
    packed = packer.compress(head + content)
    zeros = bytes(2**20)
    packed += b"".join(packer.compress(zeros) for _ in range((size - len(content)) >> 20))
    (location / name[2:]).write_bytes(packed + packer.flush())
    return name


@attack("git-is-bounded", cases={"commit": b"commit", "tree": b"tree", "tag": b"tag"}, slow=True)
def object_that_swells(folder: Path, kind: bytes) -> None:
    """A stored object of 1 MB that takes 1 GiB once it is unpacked."""
    top = repository(folder)
    name = loose(top, kind, 2**30, b"")
    if kind == b"tree":
        who = b"a <a@b> 0 +0000"
        text = b"tree %b\nauthor %b\ncommitter %b\n\nx\n" % (name.encode(), who, who)
        name = loose(top, b"commit", len(text), text)
    ended = changed(top, name)
    assert_not_held_up(ended)
    assert ended.code == 2, ended.text


@attack("git-is-bounded", cases={"many-files": 400_000}, slow=True)
def index_of(folder: Path, count: int) -> None:
    """An index with more files than any project has, each under a name that leads out of the project."""
    top = repository(folder)
    content = git(top, "rev-parse", "HEAD:same.py")
    lines = "".join(f"100644 {content} 0\tsome/folder/of/the/project/file{number}.py\n" for number in range(count))
    (folder / "lines").write_text(lines)
    with (folder / "lines").open() as file:
        subprocess.run(["git", "update-index", "--index-info"], stdin=file, cwd=top, check=True)
    assert_not_held_up(changed(top))


@attack("git-is-bounded")
def chain_of_symbolic_refs(folder: Path) -> None:
    """Refs that name each other, and a `HEAD` that names the first."""
    top = repository(folder)
    for number in range(50):
        (top / ".git" / "refs" / "heads" / f"r{number}").write_text(f"ref: refs/heads/r{(number + 1) % 50}\n")
    (top / ".git" / "HEAD").write_text("ref: refs/heads/r0\n")
    ended = changed(top)
    assert_not_held_up(ended)
    assert ended.code == 2, ended.text


@attack("git-is-bounded")
def folders_without_an_end(folder: Path) -> None:
    """A folder of refs with links that lead back to it."""
    top = repository(folder)
    for number in range(3):
        (top / ".git" / "refs" / f"again{number}").symlink_to("..")
    assert_not_held_up(changed(top))
