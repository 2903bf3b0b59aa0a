"""The scripts of the project around a file, searched for what one of them may do, without being parsed."""

# ruff: noqa: PTH100, PTH109, PTH116, PTH118, PTH119, PTH120
# A search asks for every file of a project, and a `Path` costs ten times a string.

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache

from lintrain.cache.noted import note, note_listed
from lintrain.source.bounds import is_within, project_around
from lintrain.source.discovery import DEFAULT_EXCLUDES
from lintrain.source.project import LARGEST_FILE
from lintrain.source.source import Source

MOST_SCRIPTS = 1_000
"""Of a project that is searched for a word: a larger one is taken to contain it."""


MOST_ASKED = 5_000
"""The same where the question is asked for a single line that is a mistake unless another script makes up for it."""


def scripts_mention(path: str, word: str) -> bool:
    """Whether a script or notebook of the project around a file contains a word, or there are too many to know."""
    return _any_script(path, rf"\b{re.escape(word)}\b")


def scripts_have(path: str, pattern: str) -> bool:
    """Whether one of the first scripts of the project around a file matches a regular expression."""
    return _any_script(path, pattern, if_unread=False)


def scripts_read(path: str, key: str) -> bool:
    """Whether a script around a settings file names one of its keys, as a text or as a field of a class."""
    name = re.escape(key)
    return _any_script(path, rf"[\"']{name}\\?[\"']|(?m:^|\")[ \t]+{name}[ \t]*:")


def scripts_take(path: str, key: str) -> bool:
    """Whether a script around a settings file takes an entry by its key: `settings["base_model"]`."""
    quoted = rf"\\?[\"']{re.escape(key)}\\?[\"']"
    return _any_script(path, rf"\w\[{quoted}\]|\.get\({quoted}", if_unread=False)


def scripts_make_on_device(path: str) -> bool:
    """Whether a script that imports a file makes tensors on a device by itself: `with torch.device(device):`."""
    stem = re.escape(os.path.basename(path).removesuffix(".py"))
    imported = rf"(?:from|import)\s+[\w.]*\b{stem}\b"
    made = r"with torch\.device\(|set_default_(?:device|tensor_type)\("
    return _any_script(path, rf"(?s)\A(?=.*{imported}).*(?:{made})", if_unread=False)


TO_FORMAT = r"(?:dtype\s*=\s*)?torch\.(?:b?float|double|half|u?int|long|bool)\w*\s*\)"
"""What `to` gets for another number format, which moves nothing."""

MOVES_MODULES = (
    rf"(?i)\.to\((?!\s*{TO_FORMAT})|\.cuda\(|\baccelerat(?:e|or)\b|lightning|Trainer\b|"
    r"set_default_|torch\.device\([^)]*\):"
)
"""Code that moves modules to a device, or may do so by itself."""


MOVES_TENSORS = rf"{MOVES_MODULES}|\bdevice="
"""The same, or code that makes tensors on a device."""


def uses_devices(source: Source, *, by_modules: bool = False) -> bool:
    """Whether a file or a script of its project moves anything to a device; `by_modules` if only modules count.

    Of a piece of a script, which shows the rest of its project nowhere, that is so unless it trains without.
    """
    pattern = MOVES_MODULES if by_modules else MOVES_TENSORS
    if source.contains(pattern):
        return True
    if source.is_partial:
        return not source.contains(r"\.backward\(")
    # That an attribute is no buffer is true of a class that nothing uses, too.
    return (by_modules or _is_imported(source.path)) and _any_script(source.path, pattern)


def _is_imported(path: str) -> bool:
    """Whether a script of the project imports a file, or its package: what nothing uses is moved nowhere."""
    parts = [os.path.basename(path).removesuffix(".py"), os.path.basename(os.path.dirname(os.path.abspath(path)))]
    names = "|".join(re.escape(each) for each in parts if each)
    return _any_script(path, rf"(?m)^[ \t]*\"?(?:from|import)\s[^#\n]*\b(?:{names})\b|import_module\(")


def scripts_have_modes(source: Source) -> bool:
    """Whether a network of the project may do something else in train mode than in eval mode.

    It may not if its scripts define networks, and none of them names a layer that does so, or a ready-made network.
    """
    if source.is_partial or source.contains(HAS_MODES):
        return True
    return _any_script(source.path, HAS_MODES) or not _any_script(source.path, OWN_NETWORKS, if_unread=False)


HAS_MODES = r"(?i)drop|batch_?norm|\bbn|instance_?norm|running_|\.training\b|from_pretrained|torchvision|timm|hub\.load"
OWN_NETWORKS = r"\bnn\.(?:Module|Sequential)\b|from torch\.nn import"


def scripts_build_on_cpu(path: str, name: str) -> bool:
    """Whether a script of the project builds something and gives it the CPU as a device: `Network("cpu")`."""
    before = rf"\b{re.escape(name)}\((?:(?:[^()]|\([^()]*\))*?[,=])?"
    return _any_script(path, rf"{before}\s*(?:torch\.device\(\s*)?\\?[\"']cpu\\?[\"']", if_unread=False)


def scripts_give(path: str, cls: str, name: str) -> bool:
    """Whether a script of the project derives from a class, or stores an attribute of this name in another object."""
    derives = rf"class\s+\w+\s*\([^)]*\b{re.escape(cls)}\b"
    stores = rf"(?<!self)\.{re.escape(name)}\s*(?:=[^=]|,)"
    return _any_script(path, rf"{derives}|{stores}|setattr\([^)]*\b{re.escape(name)}\b", most=MOST_ASKED)


def is_part_of_network(source: Source, cls: str) -> bool:
    """Whether a class of the project keeps an object of this one as an attribute: `self.pool = Pool(8)`."""
    kept = rf"\bself\.\w+\s*=\s*(?:\w+\.)*{re.escape(cls)}\("
    return source.contains(kept) or (not source.is_partial and scripts_have(source.path, kept))


PRINTS = r"(?m)^[ \t]*print[ \t]+[\"'][^\"'\n]*[\"'](?:\.format\(|[ \t]*%|[ \t]*,|[ \t]*$)"
"""A `print` statement of Python 2."""


def is_beside_python_2(source: Source) -> bool:
    """Whether a script in or below the folder of a file has the grammar of Python 2, so that the file is for it too."""
    return not source.is_partial and any_script_in(folders_around(source.path)[0], PRINTS, if_unread=False, most=100)


def folders_around(path: str) -> list[str]:
    """The folder of a file and those above it, up to that whose scripts are those of its project."""
    folders = [os.path.dirname(os.path.abspath(path))]
    around = project_around(folders[0]) or (os.getcwd() if is_within(folders[0], os.getcwd()) else folders[0])
    while folders[-1] not in {around, os.path.dirname(folders[-1])}:
        folders.append(os.path.dirname(folders[-1]))
    return [*folders[:-1], around]


def _any_script(path: str, pattern: str, *, if_unread: bool = True, most: int | None = None) -> bool:
    return any_script_in(folders_around(path)[-1], pattern, if_unread=if_unread, most=most)


def any_script_in(folder: str, pattern: str, *, if_unread: bool = True, most: int | None = None) -> bool:
    """Whether a script in or below a folder has a pattern; `if_unread` for one that is not read, or for too many."""
    sought = re.compile(pattern.encode())
    for number, file in enumerate(_scripts_in(folder)):
        if number >= (MOST_SCRIPTS if most is None else most):
            return if_unread
        if _mentions(file, sought, if_unread=if_unread):
            return True
    return False


def _scripts_in(folder: str) -> Iterator[str]:
    for here, folders, files in os.walk(folder):
        note_listed(here)
        folders[:] = sorted(each for each in folders if each not in DEFAULT_EXCLUDES)
        yield from (os.path.join(here, each) for each in sorted(files) if each.endswith((".py", ".ipynb")))


def _mentions(path: str, sought: re.Pattern[bytes], *, if_unread: bool) -> bool:
    note(path)
    try:
        state = os.stat(path)
        if if_unread and state.st_size > LARGEST_FILE:
            return True
        return _found_in(path, (state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns), sought)
    except OSError:
        return if_unread


@lru_cache(maxsize=4096)
def _found_in(path: str, _: tuple[int, ...], sought: re.Pattern[bytes]) -> bool:
    """Whether a file in this state has a pattern: other scripts of its project ask the same, and so does each edit."""
    with open(path, "rb") as opened:  # noqa: PTH123
        return sought.search(opened.read(LARGEST_FILE + 1)) is not None
