"""The files of a work tree that differ from an earlier commit.

git says what the commit and the index hold. The files themselves we compare: by the times and the size that the index
has noted of each, and by their content if those differ. So no filter, attribute or hook of the repository is used.

Which files of a project depend on others: by their imports, and by the data and settings that they name.

Nothing is parsed for it: a statement of import is known by how its line begins. One in a string counts too, so that a
file may depend on more than it does, and never on less.
"""

# ruff: noqa: PTH115, PTH116, PTH118, PTH119, PTH120

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import NamedTuple

from lintrain.source.git import Git, GitError, git_for
from lintrain.source.gitignore import Ignores
from lintrain.source.project import ModuleFile, Project
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes, read_plain
from lintrain.source.repository import Repository, git_folder_of, repository_around
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LARGEST_COMPARED = 64 * 2**20
"""Bytes of a file whose content is compared; a larger one with other times counts as changed."""
MOST_COMPARED = 2**30
"""Bytes of all files whose content is compared; what is left then counts as changed."""

SUBMODULE = b"160000"
NOTED = 0xFFFFFFFF
"""The index keeps the lower 32 bits of sizes, times and inodes."""

ENTRY = lazy_pattern(
    rb"(?P<mode>\d{6}) (?P<content>[0-9a-f]{40,64}) (?P<stage>\d)\t(?P<name>[^\0]+)\0"
    rb"(?:  ctime: (\d+):(\d+)\n  mtime: (\d+):(\d+)\n  dev: \d+\tino: (\d+)\n  uid: \d+\tgid: \d+\n"
    rb"  size: (\d+)\tflags: [0-9a-f]+\n)?"
)
DIFFERENCE = lazy_pattern(rb":\d{6} \d{6} (?P<before>[0-9a-f]+) [0-9a-f]+ (?P<status>[A-Z])\d*\0(?P<name>[^\0]+)\0")

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {size}\n"
"""What git stores in place of a file that git-lfs keeps (its specification, version 1)."""


class Entry(NamedTuple):
    """A file of the index: its content's name, and the state that it had on the disk when it was noted."""

    content: str
    is_settled: bool
    state: tuple[int, ...] | None


def changed_files(folder: Path, revision: str) -> frozenset[str]:
    """The files (real, absolute paths) that differ from where this branch left a revision; raises GitError.

    Changes that are not committed count, files that git does not know yet, and what was renamed, under its new name.
    The mode of a file and the kind of its line ends are no difference.
    """
    repository = repository_around(os.fspath(folder))
    if repository is None:
        raise GitError(f"`{folder}` is in no git repository")
    with git_for(repository, revision) as git:
        start = _start(git, repository, revision)
        before = _before(git, start)
        entries, submodules = _entries(git)
        comparison = Comparison(repository.top, before, _time_of(repository.index), MOST_COMPARED)
    names = [name for name, entry in entries.items() if comparison.differs(name, entry)]
    names += _unknown_files(repository.top, entries.keys(), submodules)
    return frozenset(os.path.realpath(os.path.join(repository.top, name)) for name in names)


def _start(git: Git, repository: Repository, revision: str) -> str:
    """The commit to compare with: the last one that this branch shares with the revision, else the revision itself."""
    named = git.try_asking("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if named.code:
        is_shallow = os.path.exists(os.path.join(repository.common, "shallow"))  # noqa: PTH110 - as above
        hint = "; the clone is shallow, fetch its history first (`git fetch --unshallow`)" if is_shallow else ""
        raise GitError(f"git knows no revision `{revision}`{hint}")
    commit = named.output.decode("ascii").strip()
    shared = git.try_asking("merge-base", commit, "HEAD")
    return commit if shared.code else shared.output.decode("ascii").split("\n", 1)[0]


def _before(git: Git, start: str) -> Mapping[str, str]:
    """What the commit holds of every file whose entry in the index differs; empty text for what it does not hold."""
    words = ("--cached", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
    listed = git.ask("diff-index", *words, start, "--")
    return {
        os.fsdecode(found["name"]): "" if found["status"] == b"A" else found["before"].decode("ascii")
        for found in _all(DIFFERENCE, listed, "diff-index")
    }


def _entries(git: Git) -> tuple[dict[str, Entry], frozenset[str]]:
    """The files of the index, and the folders of submodules."""
    files, submodules = dict[str, Entry](), set[str]()
    for found in _all(ENTRY, git.ask("ls-files", "--stage", "--debug", "-z"), "ls-files"):
        name = os.fsdecode(found["name"])
        if found["mode"] == SUBMODULE:
            submodules.add(name)
        else:
            files[name] = _entry(found)
    return files, frozenset(submodules)


def _entry(found: re.Match[bytes]) -> Entry:
    numbers = found.groups()[4:]
    state = tuple(map(int, numbers)) if numbers[0] is not None else None
    return Entry(found["content"].decode("ascii"), found["stage"] == b"0", state)


def _all(pattern: re.Pattern[bytes], listed: bytes, command: str) -> Iterator[re.Match[bytes]]:
    """Every entry of a list; raises GitError where something between them is not understood."""
    at = 0
    for found in pattern.finditer(listed):
        if found.start() != at:
            break
        at = found.end()
        yield found
    if at != len(listed):
        raise GitError(f"git {command} gave output that is not understood")


def _time_of(index: str) -> int:
    try:
        return os.stat(index).st_mtime_ns
    except OSError:
        return 0


@dataclass(slots=True)
class Comparison:
    """The files of a work tree against what a commit holds of them.

    `noted_at` is when the index was written, `left` how many bytes may still be compared.
    """

    top: str
    before: Mapping[str, str]
    noted_at: int
    left: int

    def differs(self, name: str, entry: Entry) -> bool:
        """Whether the file is there and does not hold what the commit holds of it."""
        path = os.path.join(self.top, name)
        try:
            state = os.lstat(path)
        except (OSError, ValueError):
            return False
        if not (stat.S_ISREG(state.st_mode) or stat.S_ISLNK(state.st_mode)):
            return False
        wanted = self.before.get(name, entry.content)
        if not entry.is_settled or not wanted:
            return True
        if _is_as_noted(state, entry.state, self.noted_at):
            return wanted != entry.content
        return not self._holds(path, state, wanted)

    def _holds(self, path: str, state: os.stat_result, wanted: str) -> bool:
        """Whether a file has a content of this name, as it is, or as git stores text and large files."""
        if state.st_size > min(LARGEST_COMPARED, self.left):
            return False
        self.left -= state.st_size
        try:
            if stat.S_ISLNK(state.st_mode):
                return _name_of(os.fsencode(os.readlink(path)), wanted) == wanted
            content = read_plain(path, LARGEST_COMPARED)
        except OSError:
            return False
        return any(_name_of(each, wanted) == wanted for each in _stored_forms(content))


def _is_as_noted(state: os.stat_result, noted: Sequence[int] | None, noted_at: int) -> bool:
    """Whether the file has the state that the index has noted, and had it for some time when that was written."""
    if noted is None:
        return False
    changed, changed_part, written, written_part, inode, size = noted
    second = 1_000_000_000
    if written * second + written_part >= (noted_at if written_part else noted_at - noted_at % second):
        return False
    return (
        state.st_size & NOTED == size
        and state.st_ino & NOTED in (inode, 0 if inode else state.st_ino & NOTED)
        and _is_time(state.st_mtime_ns, written, written_part)
        and _is_time(state.st_ctime_ns, changed, changed_part)
    )


def _is_time(now: int, seconds: int, part: int) -> bool:
    """Whether a time is the one that was noted; some programs that write the index leave the part of the second out."""
    whole, fraction = divmod(now, 1_000_000_000)
    return whole & NOTED == seconds and part in (fraction, 0)


def _stored_forms(content: bytes) -> Iterator[bytes]:
    yield content
    if b"\r\n" in content:
        yield content.replace(b"\r\n", b"\n")
    yield POINTER.format(digest=hashlib.sha256(content).hexdigest(), size=len(content)).encode()


def _name_of(content: bytes, like: str) -> str:
    """The name that git gives a content, in a repository whose names look like another one."""
    method = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return method(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _unknown_files(top: str, known: Collection[str], submodules: frozenset[str]) -> Iterator[str]:
    """The files that are neither in the index nor left out by the repository's patterns."""
    waiting = [("", Ignores.above(top))]
    while waiting:
        below, ignores = waiting.pop()
        folder = os.path.join(top, below) if below else top
        entries = _entries_of(folder)
        if below and ".git" in entries and git_folder_of(folder):
            continue  # another repository
        ignores = ignores.within(folder, set(entries))
        for name, is_folder in entries.items():
            path = f"{below}/{name}" if below else name
            if name == ".git" or path in known or path in submodules:
                continue
            if not ignores.leave_out(os.path.join(folder, name), is_folder):
                if is_folder:
                    waiting.append((path, ignores))
                else:
                    yield path


def _entries_of(folder: str) -> dict[str, bool]:
    """The names in a folder, and of each whether it is a folder."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return {}


IMPORT = lazy_pattern(
    r"^[ \t]*+(?:import[ \t]+(?P<modules>[^\n#;]+)"
    r"|from[ \t]++(?P<dots>\.*+)[ \t]*+(?P<module>(?!import\b)[\w.]*+)[ \t]*+import[ \t]*+"
    r"(?P<names>\([^)]{0,20000}+\)|[^\n#;]+))",
    re.MULTILINE,
)

READ_BESIDE = (".json", ".jsonl", ".toml", ".yaml", ".yml", ".csv", ".tsv", ".parquet")
"""Files that are read together with a script that names them."""


@dataclass(eq=False)
class Importers:
    """What the files of one project depend on; all paths are real and absolute."""

    project: Project = field(default_factory=Project)
    _meant: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict[tuple[str, str], frozenset[str]])
    """What statements mean in a folder: many of its files have the same."""

    def reaching(self, files: Iterable[str], changed: Collection[str]) -> set[str]:
        """Those of the files that are among the changed ones, or depend on one of them, over others or directly."""
        named = {os.path.basename(path): path for path in changed if path.endswith(READ_BESIDE)}
        given = list(files)
        users = self._users(given, named)
        reached = set(changed)
        waiting = list(changed)
        while waiting:
            fresh = users.get(waiting.pop(), set()) - reached
            reached |= fresh
            waiting.extend(fresh)
        return reached.intersection(given)

    def _users(self, files: Iterable[str], named: dict[str, str]) -> dict[str, set[str]]:
        """Which files depend directly on a file, among all that the given ones lead to."""
        users: dict[str, set[str]] = {}
        waiting = list(files)
        seen = set(waiting)
        while waiting:
            file = waiting.pop()
            text = _text(file)
            for used in (*self._imported(file, text), *(path for name, path in named.items() if name in text)):
                users.setdefault(used, set()).add(file)
                if used not in seen:
                    seen.add(used)
                    waiting.append(used)
        return users

    def _imported(self, file: str, text: str) -> Iterator[str]:
        """The files of the project that the imports in a file mean, with the packages around them."""
        folder = os.path.dirname(file)
        for statement in IMPORT.finditer(text.replace("\\\n", " ")):
            key = (folder, statement[0].strip())
            if key not in self._meant:
                modules = self._modules(file, statement)
                self._meant[key] = frozenset(os.path.realpath(module.file) for module in modules if module.file)
            yield from self._meant[key]

    def _modules(self, file: str, statement: re.Match[str]) -> Iterator[ModuleFile]:
        if statement["modules"]:
            for name in _names(statement["modules"]):
                yield from self._with_packages(file, name)
            return
        dots, path = statement["dots"], statement["module"]
        if dots:
            module = self.project.find_relative(file, len(dots), path)
        else:
            yield from self._with_packages(file, path)
            module = self.project.find(file, path)
        if module is None:
            return
        yield module
        below = (self.project.submodule(module, name) for name in _names(statement["names"]))
        yield from (each for each in below if each)

    def _with_packages(self, file: str, name: str) -> Iterator[ModuleFile]:
        """A module and the packages that are imported before it."""
        parts = name.split(".")
        if self.project.find(file, parts[0]) is None:
            return
        found = (self.project.find(file, ".".join(parts[: count + 1])) for count in range(len(parts)))
        yield from (each for each in found if each)


def _names(listed: str) -> list[str]:
    """The names of a statement's list, without what they are called in the file."""
    bare = re.sub(r"#.*", "", listed).strip("() \t\n")
    return [words[0] for part in bare.split(",") if (words := part.split())]


def _text(file: str) -> str:
    """The code of a file; empty where it is none or cannot be read."""
    if not file.endswith((".py", ".ipynb")):
        return ""
    try:
        return read_bytes(file, load_bytes(file)).text
    except UnreadableError:
        return ""
