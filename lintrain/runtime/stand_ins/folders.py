"""Folders of pictures that are not here: the script finds the names and files of a folder that was made for it."""

from __future__ import annotations

import fnmatch
import functools
import glob
import io
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.frames import callers_frame, is_called_by_user, is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import library
from lintrain.runtime.stand_ins.devices import ends_if_false
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.runtime.stand_ins.picture_files import picture_file
from lintrain.runtime.stand_ins.vision import FILES_OF_FOLDER, picture_folder

READS_PICTURES = re.compile(r"Image\.open|\bimread\b|read_image|decode_image|pil_loader|default_loader|ImageFolder")
LISTS_CLASSES = re.compile(r"listdir\([^\n]*isdir\(|isdir\([^\n]*listdir\(|iterdir\(\)[^\n]*is_dir\(")
"""A folder for each class: only those entries of a folder are taken that are folders themselves."""
OTHERS = re.compile(
    r"\.(jsonl?|csv|tsv|txt|parquet|pth|pt|bin|ckpt|tar|pkl|pickle|np[yz]|mat|h5|hdf5|ya?ml)$", re.IGNORECASE
)
"""Files of rows and of weights: each is made when the script reads it."""
ENDINGS = re.compile(r"\.(jpg|jpeg|png|bmp)\b")


def install(ledger: Ledger, hooks: AfterImport) -> Folders:
    """Answer questions about folders in the script's own code, and readers of the files that it then asks for."""
    folders = Folders(ledger)
    folders.install()
    hooks.add("cv2", functools.partial(_redirect, folders, "imread"))
    hooks.add("torchvision.io.image", functools.partial(_redirect, folders, "read_file"))
    hooks.add("torchvision.io.image", functools.partial(_decode_plainly, ledger))
    return folders


class Folders:
    """The folders that were made, by the path of the one that the script asks for."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._made: dict[str, str] = {}
        self._side = 0
        # Taken before the replacement, which would ask this object again.
        self._is_there = os.path.isdir

    def install(self) -> None:
        """Replace what lists a folder, and what asks whether a path is there."""
        os.listdir = self._listing(os.listdir)
        os.walk = self._walking(os.walk)
        glob.glob = self._globbing(glob.glob)
        for name in ("exists", "isfile", "isdir"):
            setattr(os.path, name, self._asking(getattr(os.path, name)))
        owner: Any = pathlib.Path
        for name in ("iterdir", "glob", "rglob"):
            setattr(owner, name, self._of_path(name, getattr(owner, name)))
        for name in ("exists", "is_dir", "is_file"):
            setattr(owner, name, self._asking(getattr(owner, name)))

    def path(self, name: Any) -> str | None:
        """Where a file is that the script expects in a folder which is not here."""
        if not self._made or not isinstance(name, str | os.PathLike):
            return None
        whole: str = os.path.abspath(os.fspath(name))  # pyright: ignore[reportUnknownArgumentType]
        for folder, made in self._made.items():
            # With the separator: `data` must not take `data2/x.jpg`.
            if whole == folder or whole.startswith(folder + os.sep):
                return made + whole[len(folder) :]
        return None

    def picture(self, name: Any) -> str | None:
        """A picture in place of a file that is not here."""
        return picture_file(self._ledger, os.fspath(name)) if isinstance(name, str | os.PathLike) else None

    def _make(self, name: Any, *, has_classes: bool = False, endings: Sequence[str] = ()) -> str | None:
        """The folder for a path; None where the path is there, or the script reads no pictures."""
        if not isinstance(name, str | os.PathLike) or is_there(name):
            return None
        if self._side != self._ledger.corrections.side:  # pictures of another size, since an error
            self._made.clear()
            self._side = self._ledger.corrections.side
        whole: str = os.path.abspath(os.fspath(name))  # pyright: ignore[reportUnknownArgumentType]
        if (known := self.path(whole)) is not None:
            return known if self._is_there(known) else None
        # Libraries list folders as well, of caches and packages: a made folder there would break them.
        if not _is_asked_by_script() or not READS_PICTURES.search(self._ledger.script):
            return None
        has_classes = has_classes or LISTS_CLASSES.search(self._ledger.script) is not None
        with self._ledger.making(whole):
            self._made[whole] = picture_folder(
                self._ledger, whole, has_classes=has_classes, endings=endings or self._endings()
            )
        what = f"a folder with {FILES_OF_FOLDER} random images"
        self._ledger.replace(StandInKind.DATA, os.path.basename(whole), what)
        return self._made[whole]

    def _note_missing(self, name: str) -> None:
        """A folder in which the script finds no file, since it is not here: what follows from that is no mistake."""
        if not is_there(name) and _is_asked_by_script():
            what = "no files: what the script expects in it is not known"
            self._ledger.replace(StandInKind.DATA, os.path.basename(os.path.abspath(name)), what)

    def _endings(self) -> Sequence[str]:
        """Every ending of a picture that the script's text has, so that a folder has files of each."""
        return [*dict.fromkeys(ENDINGS.findall(self._ledger.script))] or ["jpg"]

    def _listing(self, original: Callable[..., Any]) -> Any:
        @functools.wraps(original)
        def listdir(path: Any = ".") -> Any:
            return original(self._make(path) or path)

        return listdir

    def _walking(self, original: Callable[..., Any]) -> Any:
        @functools.wraps(original)
        def walk(top: Any, *args: Any, **kwargs: Any) -> Any:
            return original(self._make(top, has_classes=True) or top, *args, **kwargs)

        return walk

    def _globbing(self, original: Callable[..., Any]) -> Any:
        @functools.wraps(original)
        def found(pathname: Any, *args: Any, **kwargs: Any) -> Any:
            listed = original(pathname, *args, **kwargs)
            base, pattern = _parts(str(pathname))
            made = None if listed or not pattern else self._make(base, **_layout(pattern))
            if made is None:
                if not listed and pattern:
                    self._note_missing(base)
                return listed
            _name_by_pattern(made, os.path.basename(pattern))
            return original(os.path.join(made, pattern), *args, **kwargs)

        return found

    def _of_path(self, name: str, original: Callable[..., Any]) -> Any:
        @functools.wraps(original)
        def listed(path: Any, *patterns: Any) -> Iterator[Any]:
            layout = _layout(str(patterns[0])) if patterns else {}
            layout |= {"has_classes": True} if name == "rglob" else {}
            made = self._make(path, **layout)
            return original(path if made is None else pathlib.Path(made), *patterns)  # type: ignore[no-any-return]

        return listed

    def _asking(self, original: Callable[..., bool]) -> Any:
        """A question whose answer False would end the script is answered with a folder that was made."""

        @functools.wraps(original)
        def answered(path: Any, *args: Any, **kwargs: Any) -> bool:
            if original(path, *args, **kwargs):
                return True
            if (made := self.path(path)) is not None:
                return bool(original(type(path)(made), *args, **kwargs))
            caller = callers_frame(above=1)
            is_asked = caller is not None and is_users(caller.f_code.co_filename)
            # Where False only chooses another branch (`if not exists(cache): download()`), False is the truth.
            if not is_asked or not ends_if_false(caller):
                return False
            return OTHERS.search(str(path)) is not None or self._make(path) is not None

        return answered


SPLITS = re.compile(r"[\"'/](train(?:ing)?|test(?:ing)?|val(?:id(?:ation)?)?)[\"'/]")
OF_CLASSES = re.compile(r"ImageFolder|\*/\*|image_dataset_from_directory")


def write_pictures(ledger: Ledger, archive: str, folder: str) -> None:
    """Write pictures to a folder that an archive was extracted to, in the splits and classes that the script reads."""
    script = ledger.script
    if not READS_PICTURES.search(script):
        return
    # Most archives hold one folder of their name, unless they are extracted to one.
    has_own = os.path.basename(os.path.abspath(folder)) != archive and re.search(rf"\b{archive}[\"'/]", script)
    base = os.path.join(folder, archive) if archive and has_own else folder
    has_classes = (OF_CLASSES.search(script) or LISTS_CLASSES.search(script)) is not None
    endings = [*dict.fromkeys(ENDINGS.findall(script))] or ["jpg"]
    with ledger.making(base):
        for split in dict.fromkeys(SPLITS.findall(script)) or [""]:
            made = picture_folder(ledger, f"{base}-{split}", has_classes=has_classes, endings=endings)
            shutil.copytree(made, os.path.join(base, split), dirs_exist_ok=True)
    what = f"{FILES_OF_FOLDER} random images in each folder that the script reads"
    ledger.replace(StandInKind.DATA, f"{os.path.basename(base)}, extracted", what)


def _parts(pathname: str) -> tuple[str, str]:
    """The folder of a pattern, and the rest, which has the first wildcard."""
    named = pathname.split(os.sep)
    first = next((number for number, each in enumerate(named) if glob.has_magic(each)), len(named))
    return os.sep.join(named[:first]) or ".", os.sep.join(named[first:])


def _name_by_pattern(folder: str, pattern: str) -> None:
    """Give the files of a folder names that a pattern finds: `*_image.png`."""
    if pattern.count("*") != 1 or glob.has_magic(pattern.replace("*", "")):
        return
    for base, _, files in [*os.walk(folder)]:
        for file in files:
            stem, ending = os.path.splitext(file)
            name = pattern.replace("*", stem)
            if pattern.endswith(ending) and not fnmatch.fnmatch(file, pattern):
                shutil.copyfile(os.path.join(base, file), os.path.join(base, name))


def _layout(pattern: str) -> dict[str, Any]:
    """The form of a folder that a pattern finds files in."""
    return {"has_classes": os.sep in pattern, "endings": ENDINGS.findall(pattern)}


def _is_asked_by_script() -> bool:
    """Whether the call that was replaced, three frames up, is one of the script's own lines."""
    caller = callers_frame(above=3)
    return caller is not None and is_users(caller.f_code.co_filename)


def _decode_plainly(ledger: Ledger, module: Any) -> None:
    """`read_image` and `decode_image` where the compiled part of torchvision does not fit this torch."""
    modes = {"GRAY": "L", "GRAY_ALPHA": "LA", "RGB": "RGB", "RGB_ALPHA": "RGBA"}
    for name in ("read_image", "decode_image"):
        original = getattr(module, name)

        @functools.wraps(original)
        def decode(source: Any, mode: Any = "UNCHANGED", *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            try:
                return _original(source, mode, *args, **kwargs)
            except (RuntimeError, AttributeError) as error:
                if "image extension" not in str(error) and "torchvision" not in str(error):
                    raise
                ledger.replace(StandInKind.PACKAGE, "torchvision.io", "images decoded by Pillow")
                is_file = isinstance(source, str | os.PathLike)
                opened = library("PIL.Image").open(source if is_file else io.BytesIO(bytes(source.tolist())))
                wanted = modes.get(getattr(mode, "name", str(mode)), opened.mode)
                return library("torchvision.transforms.functional").pil_to_tensor(opened.convert(wanted))

        setattr(module, name, decode)


def _redirect(folders: Folders, name: str, module: Any) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def read(path: Any, *args: Any, **kwargs: Any) -> Any:
        found = folders.path(path) or path
        # `imread` gives None for a file that is not here.
        made = None if is_there(found) or not is_called_by_user("cv2") else folders.picture(found)
        return original(made or found, *args, **kwargs)

    setattr(module, name, read)
