"""Downloads in the script's own code: nothing is fetched; what is read of an answer is made by its name."""

from __future__ import annotations

import functools
import io
import json
import os
import re
import shutil
import tarfile
import urllib.request
import zipfile
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.knowledge.stand_in_facts import table
from lintrain.runtime.child.frames import is_called_by_user
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row, library
from lintrain.runtime.stand_ins.files import written
from lintrain.runtime.stand_ins.folders import write_pictures
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.runtime.stand_ins.packages import file_of

OF_IMAGES = ("image_utils", "loading_utils")
"""Modules of transformers and diffusers that load an image from an address."""
DEMOS = (os.path.join("pytorch", "demos"), os.path.join("pytorch_lightning", "demos"))
"""Modules of Lightning that download the data of its examples."""
LONG_TEXT = 1_500_000
"""Bytes of a text: somewhat more than those of Shakespeare that many examples download."""
PICTURES = (".jpg", ".jpeg", ".png", ".webp", ".bmp")
SIDE = 96


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Answer `urllib` and `requests` where the script itself asks and there is no answer."""
    module: Any = urllib.request
    module.urlretrieve = _retrieving(ledger, module.urlretrieve)
    module.urlopen = _asking(ledger, module.urlopen)
    owner: Any = zipfile.ZipFile
    owner.__init__ = _opening_zip(owner.__init__)
    owner.extractall = _extracting(ledger, owner.extractall)
    tar: Any = tarfile.TarFile
    tar.extractall = _extracting(ledger, tar.extractall)
    archives: Any = tarfile
    archives.open = _opening_tar(archives.open)
    for module, name in ((os, "rename"), (os, "replace"), (shutil, "move"), (shutil, "copy"), (shutil, "copyfile")):
        setattr(module, name, _moving(ledger, getattr(module, name)))
    hooks.add("subprocess", functools.partial(_start_no_downloads, ledger))
    hooks.add("requests.api", functools.partial(_answer_requests, ledger))
    hooks.add("requests.sessions", functools.partial(_answer_sessions, ledger))
    hooks.add("PIL.Image", functools.partial(_answer_pictures, ledger))
    hooks.add("webdataset.gopen", functools.partial(_answer_shards, ledger))


def _retrieving(ledger: Ledger, retrieve: Callable[..., Any]) -> Any:
    """`urlretrieve(url, name)`: the file stays missing, so that its reader gets what it reads."""

    @functools.wraps(retrieve)
    def urlretrieve(url: Any, filename: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return retrieve(url, filename, *args, **kwargs)
        except OSError:
            # A library that downloads may try another address, or go on without: the error is for it.
            if not is_called_by_user("urllib"):
                raise
            ledger.replace(StandInKind.DATA, str(url), "not downloaded: its file is made when it is read")
            return filename or file_of(str(url)), {}

    return urlretrieve


EMPTY_ZIP = b"PK\x05\x06" + bytes(18)
EMPTY_TAR = bytes(10_240)
ARCHIVE = re.compile(r"\.(zip|tar|tgz)(\.\w+)?$")
ROWS = "rows with the columns that the script reads"


def _opening_zip(build: Callable[..., None]) -> Any:
    """An archive that is not here is empty for the script: each file in it is made when it is read."""

    @functools.wraps(build)
    def init(self: Any, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> None:
        try:
            build(self, file, mode, *args, **kwargs)
        except FileNotFoundError:
            if mode != "r" or not is_called_by_user("zipfile"):
                raise
            build(self, io.BytesIO(EMPTY_ZIP))

    return init


def _opening_tar(opened: Callable[..., Any]) -> Any:
    @functools.wraps(opened)
    def opening(name: Any = None, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        try:
            return opened(name, mode, *args, **kwargs)
        except FileNotFoundError:
            if not mode.startswith("r") or not is_called_by_user("tarfile"):
                raise
            return opened(fileobj=io.BytesIO(EMPTY_TAR))

    return opening


def _extracting(ledger: Ledger, extract: Callable[..., Any]) -> Any:
    """An archive that is not here has pictures, if the script reads some: they are written where it is extracted."""

    @functools.wraps(extract)
    def extractall(self: Any, path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        found = extract(self, path, *args, **kwargs)
        is_made = any("an empty archive" in each.by for each in ledger.session.stand_ins)
        names = self.namelist() if hasattr(self, "namelist") else self.getnames()
        if is_made and not names and is_called_by_user("zipfile", "tarfile"):
            name = getattr(self, "filename", None) or getattr(self, "name", None) or ""
            write_pictures(ledger, os.path.basename(str(name)).partition(".")[0], str(path or "."))
        return found

    return extractall


def _moving(ledger: Ledger, move: Callable[..., Any]) -> Any:
    """A file of an empty archive stays missing under its new name too, so that its reader gets what it reads."""

    @functools.wraps(move)
    def moving(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return move(source, target, *args, **kwargs)
        except FileNotFoundError:
            has_downloads = any("when " in each.by for each in ledger.session.stand_ins)
            if is_there(source) or not has_downloads or not is_called_by_user("pathlib", "shutil"):
                raise
            return target

    return moving


def _asking(ledger: Ledger, ask: Callable[..., Any]) -> Any:
    @functools.wraps(ask)
    def answered(url: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return ask(url, *args, **kwargs)
        except OSError:  # every error of urllib and of requests is one
            if not is_called_by_user("urllib", "requests", *OF_IMAGES, *DEMOS):
                raise
            return Answer(ledger, str(getattr(url, "full_url", url)))

    return answered


def _answer_requests(ledger: Ledger, module: Any) -> None:
    module.get = _asking(ledger, module.get)
    library("requests").get = module.get


DOWNLOADERS = frozenset({"wget", "curl", "gdown", "aria2c", "kaggle", "unzip", "tar", "7z", "hf", "huggingface-cli"})
"""Programs that fetch files or unpack what was fetched."""
OF_GIT = frozenset({"clone", "pull", "fetch", "lfs"})


def _start_no_downloads(ledger: Ledger, module: Any) -> None:
    """Programs that fetch files are not started: a probe lets none write, and the files are made when they are read."""
    run, call, system = module.run, module.call, getattr(os, "system")  # noqa: B009 - deprecated for callers

    @functools.wraps(run)
    def running(args: Any, *rest: Any, **given: Any) -> Any:
        if not _is_download(ledger, args):
            return run(args, *rest, **given)
        is_text = any(given.get(each) for each in ("text", "universal_newlines", "encoding"))
        empty = "" if is_text else b""
        return module.CompletedProcess(args, 0, empty, empty)

    @functools.wraps(call)
    def calling(args: Any, *rest: Any, **given: Any) -> Any:
        return 0 if _is_download(ledger, args) else call(args, *rest, **given)

    @functools.wraps(system)
    def asking(command: Any) -> Any:
        return 0 if _is_download(ledger, command) else system(command)

    module.run, module.call = running, calling
    setattr(os, "system", asking)  # noqa: B010 - as above


def _is_download(ledger: Ledger, args: Any) -> bool:
    """Whether a command of the script's own code fetches files; it is listed then."""
    words = [str(each) for each in args] if is_row(args) else str(args).split()
    name = os.path.basename(words[0]) if words else ""
    is_known = name in DOWNLOADERS or (name == "git" and bool(OF_GIT & {*words}))
    if not is_known or not is_called_by_user("subprocess"):
        return False
    ledger.replace(StandInKind.DATA, " ".join(words[:3]), "not started: its files are made when they are read")
    return True


def _answer_pictures(ledger: Ledger, module: Any) -> None:
    """`Image.open` of a picture that the script names and that is not here."""
    opened = module.open

    @functools.wraps(opened)
    def opening(fp: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return opened(fp, *args, **kwargs)
        except FileNotFoundError:
            name = str(fp).lower()
            if not name.endswith(PICTURES) or not is_called_by_user(*OF_IMAGES):
                raise
            ledger.replace(StandInKind.DATA, os.path.basename(str(fp)), "a random image")
            return opened(io.BytesIO(_picture()), *args, **kwargs)

    module.open = opening


def _answer_sessions(ledger: Ledger, module: Any) -> None:
    get = module.Session.get

    @functools.wraps(get)
    def answered(self: Any, url: Any, *args: Any, **kwargs: Any) -> Any:
        return _asking(ledger, functools.partial(get, self))(url, *args, **kwargs)

    module.Session.get = answered


SAMPLES = 64
"""Of a shard: images with a caption, a class, and what a filter asks for."""
FACTS = {"original_width": 1024, "original_height": 1024, "width": 1024, "height": 1024, "pwatermark": 0.0}


def _answer_shards(ledger: Ledger, module: Any) -> None:
    """Shards of webdataset that are on a server, or behind a program that fetches them, or not here."""
    opened = module.gopen

    @functools.wraps(opened)
    def gopen(url: Any, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        if not mode.startswith("r") or str(url) == "-" or is_there(str(url).removeprefix("file:")):
            return opened(url, mode, *args, **kwargs)
        # Numbered shards are one data set.
        name = re.sub(r"\d+", "*", file_of(str(url)))
        ledger.replace(StandInKind.DATA, name, f"shards with {SAMPLES} random images and captions each")
        return io.BytesIO(_shard())

    module.gopen = gopen


@functools.cache
def _shard() -> bytes:
    made, picture, sentences = io.BytesIO(), _picture("JPEG"), table()["sentences"]
    with tarfile.open(fileobj=made, mode="w") as archive:
        for number in range(SAMPLES):
            text = sentences[number % len(sentences)]
            facts = json.dumps({**FACTS, "caption": text, "key": f"{number:06}"})
            parts = {"cls": str(number % 2), "jpg": picture, "json": facts, "txt": text}
            for ending, content in parts.items():
                data = content if isinstance(content, bytes) else content.encode()
                member = tarfile.TarInfo(f"{number:06}.{ending}")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


class Answer:
    """The answer to a question that was not asked: a picture, rows, or sentences."""

    status_code = status = 200
    ok = True
    encoding = "utf-8"

    def __init__(self, ledger: Ledger, url: str) -> None:
        self.url = url
        name = file_of(url)
        self.content = _content(ledger, name.lower())
        self.headers = {"content-length": str(len(self.content))}
        self.raw = io.BytesIO(self.content)
        what = "an empty archive: its files are made when they are read" if ARCHIVE.search(name.lower()) else ROWS
        what = "a random image" if name.lower().endswith(PICTURES) else what
        ledger.replace(StandInKind.DATA, url, what)

    @property
    def text(self) -> str:
        """The content as a text."""
        return self.content.decode("utf-8", "replace")

    def json(self, **_: Any) -> Any:
        """The content as objects."""
        return json.loads(self.content)

    def raise_for_status(self) -> None:
        """There was no error."""

    def iter_content(self, chunk_size: int | None = None, **_: Any) -> Iterator[bytes]:
        """The content in one part."""
        yield self.content

    def iter_lines(self, *_: Any, **__: Any) -> Iterator[bytes]:
        """The lines of the content."""
        yield from self.content.splitlines()

    def read(self, *size: int) -> bytes:
        """The content, as an open file has it."""
        return self.raw.read(*size)

    def close(self) -> None:
        """Nothing is open."""

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.content.splitlines(keepends=True))

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()


def _picture(form: str = "PNG") -> bytes:
    numpy, opened = library("numpy"), io.BytesIO()
    noise = numpy.random.default_rng(0).integers(0, 256, (SIDE, SIDE, 3), dtype="uint8")
    library("PIL.Image").fromarray(noise).save(opened, form)
    return opened.getvalue()


def _content(ledger: Ledger, name: str) -> bytes:
    if found := ARCHIVE.search(name):
        return EMPTY_ZIP if found[1] == "zip" else EMPTY_TAR
    return _picture() if name.endswith(PICTURES) else _rows(ledger, name)


def _rows(ledger: Ledger, name: str) -> bytes:
    """The rows of a file of that name; sentences where its ending tells nothing."""
    path = written(ledger, name) or written(ledger, f"{name}.txt")
    if path is None:
        return b""
    with open(path, "rb") as opened:
        content = opened.read()
    # A plain text is read as a whole and cut into rows, of which a script leaves thousands for its evaluation.
    return content * (LONG_TEXT // len(content)) if name.endswith(".txt") and content else content
