"""Queries to git about what a repository has stored, with a configuration that is entirely ours.

git gets a folder of its own in place of `.git`: with a configuration that we write, links to the repository's refs,
and the places of its objects and its index. It sees no configuration of the repository, the user or the system, no
hooks and no attributes, and an empty folder as work tree. So nothing that it reads can name a program, and no file of
the work tree passes through it. Its time, memory and output are bounded.

The files of a repository that git may open: regular files only. A pipe would block, and a device has no end.
"""

# Paths are strings here: a repository has thousands of objects, and a `Path` costs ten times a string.
# ruff: noqa: PTH102, PTH110, PTH112, PTH114, PTH115, PTH118, PTH120, PTH208, PTH211, PTH113, PTH116

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from lintrain.source.bounds import find_program
from lintrain.source.reading import read_plain
from lintrain.source.repository import LONGEST_LINE, Repository
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHELL = "/bin/sh"
MOST_SECONDS = 60
"""For all queries of one command together."""
MOST_MEMORY = 768 * 2**20
MOST_OUTPUT = 128 * 2**20
LARGEST_CONFIGURATION = LARGEST_REF = 2**20
LARGEST_INDEX = 2**30
MOST_UPSTREAMS = 2000

CONFIGURATION = """\
[core]
	repositoryformatversion = {version}
	bare = false
	fsmonitor = false
	untrackedCache = false
	hooksPath = {nowhere}
	packedGitWindowSize = 32m
	packedGitLimit = 256m
[index]
	threads = 1
[extensions]
"""
EXTENSIONS = {"objectformat": ("sha1", "sha256"), "refstorage": ("files", "reftable")}
"""How a repository stores what it holds; git reads it only from a file."""

UPSTREAM = lazy_pattern(
    rb"(?:branch\..*\.(?:remote|merge|pushremote)|remote\..*\.(?:fetch|push)|remote\.pushdefault|push\.default)",
    re.DOTALL,
)
"""What decides which branch `@{upstream}` means: names of branches and remotes."""

ALONE = {
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""git's environment, with the paths that it is given: of the caller's nothing is passed on but what Windows needs."""


class GitError(Exception):
    """A query that git cannot answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What git wrote, and its exit code."""

    code: int
    output: bytes


@dataclass(frozen=True, slots=True)
class Git:
    """git, ready for queries about one repository until a deadline on the monotonic clock."""

    program: str
    folder: str
    environment: Mapping[str, str]
    until: float

    def ask(self, *words: str) -> bytes:
        """The output of git; raises GitError, also for an exit code other than 0."""
        answer = self.try_asking(*words)
        if answer.code:
            raise GitError(f"git {words[0]} failed{_last_line(answer.output)}")
        return answer.output

    def try_asking(self, *words: str) -> Answer:
        """The output of git, whatever its exit code; raises GitError without output."""
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(
                    _bounded([self.program, *words]),
                    cwd=self.folder,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise GitError(f"git could not be started: {reason.lower()}") from error
            output = self._read_all(process)
            if process.returncode < 0:
                raise GitError(f"git {words[0]} needed more than {MOST_SECONDS} seconds or {MOST_MEMORY >> 20} MiB")
            errors.seek(0)
            return Answer(process.returncode, output if process.returncode == 0 else errors.read(LONGEST_LINE))

    def _read_all(self, process: subprocess.Popen[bytes]) -> bytes:
        """All of the output, within the bounds; raises GitError."""
        timer = Timer(max(0.0, self.until - time.monotonic()), process.kill)
        timer.start()
        try:
            with process:
                output = process.stdout.read(MOST_OUTPUT + 1) if process.stdout else b""
                if len(output) > MOST_OUTPUT:
                    raise GitError(f"git answered with more than {MOST_OUTPUT >> 20} MiB")
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
        if time.monotonic() >= self.until:
            raise GitError(f"git gave no answer within {MOST_SECONDS} seconds")
        return output


def _bounded(command: Sequence[str]) -> list[str]:
    """A command that starts with bounds on what it may use and write; Windows has none.

    The shell sets them, before anything of the repository is read: to set them from here would come too late.
    """
    try:
        import resource
    except ImportError:
        return [*command]
    bounds = (
        ("c", 1, resource.RLIMIT_CORE, 0),
        ("t", 1, resource.RLIMIT_CPU, MOST_SECONDS),
        ("f", 512, resource.RLIMIT_FSIZE, LARGEST_CONFIGURATION),
        ("d", 1024, resource.RLIMIT_DATA, MOST_MEMORY),
    )
    hardest = {kind: resource.getrlimit(kind)[1] for _, _, kind, _ in bounds}
    within = ((sign, unit, most, hardest[kind]) for sign, unit, kind, most in bounds)
    allowed = [(sign, (most if hard < 0 else min(most, hard)) // unit) for sign, unit, most, hard in within]
    limits = "; ".join(f"ulimit -{sign} {number}" for sign, number in allowed)
    return [SHELL, "-c", f'{limits}; exec "$@"', SHELL, *command]


def _last_line(errors: bytes) -> str:
    lines = errors.decode("ascii", "replace").strip().splitlines()
    return f": {''.join(each for each in lines[-1][:300] if each.isprintable())}" if lines else ""


@contextmanager
def git_for(repository: Repository, revision: str) -> Generator[Git]:
    """git in a configuration of ours, able to resolve this revision; raises GitError."""
    around = (os.curdir, repository.top)
    program = find_program("git", *around)
    if program is None:
        raise GitError("git is not installed")
    with tempfile.TemporaryDirectory(prefix="lintrain-git-") as folder:
        try:
            yield _prepared(program, folder, repository, revision)
        except (UnfitError, OSError) as error:
            raise GitError(str(error) if isinstance(error, UnfitError) else _reason(error)) from error


def _reason(error: OSError) -> str:
    return f"{error.filename}: {(error.strerror or str(error)).lower()}" if error.filename else str(error).lower()


def _prepared(program: str, folder: str, repository: Repository, revision: str) -> Git:
    is_relative = "@{" in revision  # `@{upstream}`, `@{yesterday}`: needs the names of remotes, or the reflog
    logs = ("logs",) if is_relative else ()
    empty, common, own = (os.path.join(folder, name) for name in ("empty", "common", "own"))
    os.mkdir(empty)
    _stand_in(repository.common, common, ("refs", "packed-refs", "reftable", "shallow", *logs))
    is_linked = repository.own != repository.common
    if is_linked:
        _stand_in(repository.own, own, ("refs", "reftable", *logs))
        Path(own, "commondir").write_text("../common\n")
    _copy_heads(repository.own, own if is_linked else common)
    environment = {
        **ALONE,
        **{name: os.environ[name] for name in ("SYSTEMROOT", "TEMP", "TMP") if os.name == "nt" and name in os.environ},
        **_locations(repository, own if is_linked else common, empty),
        "PATH": os.path.dirname(program),
        "HOME": empty,
        "XDG_CONFIG_HOME": empty,
    }
    git = Git(program, empty, environment, time.monotonic() + MOST_SECONDS)
    return _configured(git, repository, common, is_relative)


def _locations(repository: Repository, own: str, empty: str) -> dict[str, str]:
    """Where git finds what it is asked about; raises UnfitError where something there is no plain file."""
    objects = os.path.join(repository.common, "objects")
    demand_plain_objects(objects)
    demand_plain_files(repository.index, LARGEST_INDEX)
    return {
        "GIT_DIR": own,
        "GIT_WORK_TREE": empty,
        "GIT_OBJECT_DIRECTORY": objects,
        "GIT_INDEX_FILE": repository.index,
    }


def _stand_in(real: str, folder: str, names: tuple[str, ...]) -> None:
    """A folder for git with links to what is needed of a folder of the repository."""
    os.mkdir(folder)
    for name in names:
        path, link = os.path.join(real, name), os.path.join(folder, name)
        if not os.path.exists(path):
            continue
        demand_plain_files(path, LARGEST_REF if name == "refs" else MOST_OUTPUT)
        try:
            os.symlink(path, link)
        except OSError:  # Windows requires a privilege for links
            (shutil.copytree if os.path.isdir(path) else shutil.copyfile)(path, link)
    if not os.path.exists(os.path.join(folder, "refs")):
        os.mkdir(os.path.join(folder, "refs"))


def _copy_heads(real: str, folder: str) -> None:
    """Copy `HEAD` and what is named like it, and the parts of a split index, whose times git would change."""
    for name in os.listdir(real):
        path = os.path.join(real, name)
        if name == "HEAD" and os.path.islink(path):
            content = b"ref: " + os.fsencode(os.readlink(path))
        elif name == "HEAD" or name.endswith("_HEAD"):
            demand_plain_files(path)
            content = read_plain(path, LONGEST_LINE if name == "HEAD" else LARGEST_CONFIGURATION)
        elif name.startswith("sharedindex."):
            demand_plain_files(path)
            content = read_plain(path, MOST_OUTPUT)
        else:
            continue
        Path(folder, name).write_bytes(content)


def _configured(git: Git, repository: Repository, common: str, is_relative: bool) -> Git:
    """git with the few facts of the repository's configuration that say how it is stored and what branches follow."""
    ours = Path(common, "config")
    ours.write_text(CONFIGURATION.format(version=0, nowhere=os.devnull))
    facts = list(_facts(git, repository))
    stored = [(name, value) for name, value in facts if _is_extension(name, value)]
    if stored:
        lines = (f"\t{os.fsdecode(name.partition(b'.')[2])} = {os.fsdecode(value)}\n" for name, value in stored)
        ours.write_text(CONFIGURATION.format(version=1, nowhere=os.devnull) + "".join(lines))
    upstreams = [each for each in facts if UPSTREAM.fullmatch(each[0])][:MOST_UPSTREAMS] if is_relative else []
    return Git(git.program, git.folder, {**git.environment, **_variables(upstreams)}, git.until)


def _is_extension(name: bytes, value: bytes) -> bool:
    section, _, key = os.fsdecode(name).partition(".")
    return section == "extensions" and os.fsdecode(value) in EXTENSIONS.get(key, ())


def _facts(git: Git, repository: Repository) -> Iterator[tuple[bytes, bytes]]:
    """What the repository's configuration holds, as data: git reads a copy of it that it does not obey."""
    path = os.path.join(repository.common, "config")
    if not os.path.exists(path):
        return
    demand_plain_files(path)
    copy = Path(git.folder, "theirs")
    copy.write_bytes(read_plain(path, LARGEST_CONFIGURATION))
    listed = git.try_asking("config", "--file", str(copy), "--no-includes", "--null", "--list")
    if listed.code:
        raise GitError(f"{path}: git does not understand it")
    copy.unlink()
    for each in listed.output.split(b"\0"):
        name, _, value = each.partition(b"\n")
        yield name, value


def _variables(pairs: list[tuple[bytes, bytes]]) -> dict[str, str]:
    """Settings for git as variables of its environment: in a file their names would have to be quoted."""
    found = {"GIT_CONFIG_COUNT": str(len(pairs))} if pairs else {}
    for number, (name, value) in enumerate(pairs):
        found |= {f"GIT_CONFIG_KEY_{number}": os.fsdecode(name), f"GIT_CONFIG_VALUE_{number}": os.fsdecode(value)}
    return found


MOST_ENTRIES = 2_000_000
DEEPEST = 50
MOST_ALTERNATES = 100
LARGEST_LIST = 2**20
OBJECT_FOLDERS = lazy_pattern(r"pack|info|[0-9a-f]{2}")


class UnfitError(Exception):
    """A file of the repository that git must not open; the text says which and why."""


def demand_plain_files(path: str, largest: int | None = None) -> None:
    """Do nothing if a path is not there, a plain file of this size or a folder of such; else raise UnfitError."""
    for count, (found, is_plain) in enumerate(_below(path, 0)):
        if not is_plain:
            raise UnfitError(f"{found}: a pipe or a device, not a file")
        if largest is not None and os.path.exists(found) and os.stat(found).st_size > largest:
            raise UnfitError(f"{found}: larger than {largest >> 20} MiB")
        if count >= MOST_ENTRIES:
            raise UnfitError(f"{path}: holds more than {MOST_ENTRIES:,} files")


def demand_plain_objects(folder: str) -> None:
    """Do the same for a folder of objects, and for the other ones that it names."""
    waiting, seen = [folder], set[str]()
    while waiting:
        objects = os.path.realpath(waiting.pop())
        if objects in seen or not os.path.isdir(objects):
            continue
        seen.add(objects)
        if len(seen) > MOST_ALTERNATES:
            raise UnfitError(f"{folder}: names more than {MOST_ALTERNATES} other folders of objects")
        for name in filter(OBJECT_FOLDERS.fullmatch, os.listdir(objects)):
            demand_plain_files(os.path.join(objects, name))
        waiting.extend(_alternates(objects))


def _alternates(objects: str) -> Iterator[str]:
    file = os.path.join(objects, "info", "alternates")
    if os.path.exists(file):
        for line in read_plain(file, LARGEST_LIST).splitlines():
            if line and not line.startswith(b"#") and b"\0" not in line:
                yield os.path.join(objects, os.fsdecode(line))


def _below(path: str, depth: int) -> Iterator[tuple[str, bool]]:
    """Every file at or below a path, and whether it is plain; a link that leads nowhere is none."""
    if not os.path.isdir(path):
        yield path, os.path.isfile(path) or not os.path.exists(path)
        return
    if depth >= DEEPEST:
        raise UnfitError(f"{path}: nested too deeply")
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                yield entry.path, True
            else:
                yield from _below(entry.path, depth + 1)
