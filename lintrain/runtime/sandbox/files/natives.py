"""Functions of the libraries that open files by themselves, past Python: they get the path of the layer.

Programs that the script starts: Python is under guard too, any other is only kept from writing.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Callable
from typing import Any, cast

from lintrain.runtime.child.frames import is_called_by_user
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.files import real
from lintrain.runtime.sandbox.files.calls import Calls
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Native:
    """One function: its module, its name there, and which argument is a path to `read` or to `write`.

    How is `mode` where the next argument says it, `read` by default.
    """

    module: str
    name: str
    how: str
    position: int = 0
    keyword: str = ""


NATIVES = (
    Native("torch.serialization", "save", "write", 1, "f"),
    Native("torch.serialization", "load", "read", 0, "f"),
    Native("torch.jit._serialization", "save", "write", 1, "f"),
    Native("torch.jit._serialization", "load", "read", 0, "f"),
    Native("torch.jit._script", "RecursiveScriptModule.save", "write", 1, "f"),
    Native("torch.autograd.profiler", "profile.export_chrome_trace", "write", 1, "path"),
    Native("safetensors", "serialize_file", "write", 1, "filename"),
    Native("safetensors", "safe_open", "read", 0, "filename"),
    Native("tokenizers", "Tokenizer.save", "write", 1, "path"),
    Native("tokenizers", "Tokenizer.from_file", "read", 0, "path"),
    Native("pyarrow.lib", "OSFile", "mode", 0, "path"),
    Native("pyarrow.lib", "memory_map", "mode", 0, "path"),
    Native("pyarrow.lib", "create_memory_map", "write", 0, "path"),
    Native("pyarrow.lib", "input_stream", "read", 0, "source"),
    Native("pyarrow.lib", "output_stream", "write", 0, "source"),
    Native("pyarrow._csv", "read_csv", "read", 0, "input_file"),
    Native("pyarrow._csv", "open_csv", "read", 0, "input_file"),
    Native("pyarrow._csv", "write_csv", "write", 1, "output_file"),
    Native("pyarrow._json", "read_json", "read", 0, "input_file"),
    Native("pyarrow.parquet.core", "read_table", "read", 0, "source"),
    Native("pyarrow.parquet.core", "ParquetFile.__init__", "read", 1, "source"),
    Native("pyarrow.parquet.core", "ParquetWriter.__init__", "write", 1, "where"),
    Native("h5py._hl.files", "File.__init__", "mode", 1, "name"),
    Native("sqlite3.dbapi2", "connect", "append", 0, "database"),
)


def install(calls: Calls, hooks: AfterImport) -> None:
    """Have every function that the table names look where the layer is, as soon as its module is imported."""
    for native in NATIVES:
        hooks.add(native.module, functools.partial(_redirect, calls, native))


def _redirect(calls: Calls, native: Native, module: Any) -> None:
    *above, name = native.name.split(".")
    owner: Any = getattr(module, above[0], None) if above else module
    if name not in getattr(owner, "__dict__", ()):
        return
    own = owner.__dict__[name]
    original = getattr(owner, name)
    function = _redirected(calls, native, original)
    setattr(owner, name, staticmethod(function) if isinstance(own, staticmethod) or _is_static(own) else function)
    if not above:
        # Where the package was imported before the probe began, its other modules hold the function already.
        for holder in early_holders(native, original):
            setattr(holder, name, function)


def early_holders(native: Native, original: object) -> list[Any]:
    """The modules of a function's package that hold it under its name."""
    return [module for path, module in list(sys.modules.items()) if holds(path, module, native, original)]


def holds(path: str, module: Any, native: Native, original: object) -> bool:
    """Whether a module is of the function's package and holds the function under its name."""
    package = native.module.partition(".")[0]
    # The cheapest question first: it is asked about thousands of modules for each function.
    if not path.startswith(package) or not (path == package or path.startswith(f"{package}.")):
        return False
    return getattr(module, "__dict__", {}).get(native.name) is original


def _is_static(own: Any) -> bool:
    """Whether a class of an extension holds a function that takes no `self`."""
    return type(own).__name__ == "builtin_function_or_method"


def _redirected(calls: Calls, native: Native, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        # The path is found by its position or by its keyword: both spellings are in use, and a version of a library
        # may make one of them mandatory.
        location, given = native.position, list(args)
        if len(given) > location:
            mode = kwargs.get("mode", given[location + 1] if len(given) > location + 1 else "r")
            given[location] = _found(calls, given[location], _how(native, mode))
        elif native.keyword in kwargs:
            mode = kwargs.get("mode", "r")
            kwargs[native.keyword] = _found(calls, kwargs[native.keyword], _how(native, mode))
        try:
            return original(*given, **kwargs)
        except Exception as error:
            # A library's error names the path of the layer; the report shows the path that the script gave.
            error.args = tuple(calls.overlay.with_own_names(word) for word in error.args)
            raise

    return call


def _how(native: Native, mode: Any) -> str:
    if native.how != "mode":
        return native.how
    letters = str(mode or "r")
    return "append" if "a" in letters or "+" in letters else "write" if set(letters) & set("wx-") else "read"


def _found(calls: Calls, path: Any, how: str) -> Any:
    # sqlite's name for a database without a file.
    key = calls.key(path) if path != ":memory:" else None
    if key is None or (how == "read" and not calls.overlay.is_used):
        return path
    found = calls.overlay.seen(key) if how == "read" else calls.overlay.written(key, keeps=how == "append")
    if found == key:
        return path
    return os.fsencode(found) if isinstance(path, bytes) else found


class Programs:
    """Sees what is started; `others` are the names of programs that no guard reaches, `own` those of the script."""

    def __init__(self, calls: Calls) -> None:
        self.others: list[str] = []
        self.own: list[str] = []
        self._calls = calls

    def install(self, hooks: AfterImport) -> None:
        """See `subprocess` and `os.system`."""
        hooks.add("subprocess", self._watch)
        system: Any = getattr(os, "system")  # noqa: B009 - deprecated for callers, of whom this is none

        @functools.wraps(system)
        def watched(command: Any) -> Any:
            self._note(command)
            return system(command)

        setattr(os, "system", watched)  # noqa: B010 - as above

    def install_names(self, hooks: AfterImport, file: str) -> None:
        """Write down the names of shared memory, which outlives processes that are killed, and who may make some."""
        _note(file, str(os.getpid()))
        if hasattr(os, "register_at_fork"):
            # A forked worker runs no import hook again, and may be the one that makes the shared memory.
            os.register_at_fork(after_in_child=lambda: _note(file, str(os.getpid())))
        hooks.add("multiprocessing.shared_memory", functools.partial(_name_memory, file))

    def _watch(self, module: Any) -> None:
        build = module.Popen.__init__

        @functools.wraps(build)
        def init(popen: Any, args: Any, *rest: Any, **kwargs: Any) -> None:
            self._note(args)
            if kwargs.get("cwd") is not None:
                kwargs["cwd"] = self._found(kwargs["cwd"])
            build(popen, self._all_found(args), *rest, **kwargs)

        module.Popen.__init__ = init

    def _all_found(self, args: Any) -> Any:
        return [self._found(word) for word in cast("list[Any]", args)] if isinstance(args, list | tuple) else args

    def _note(self, args: Any) -> None:
        try:
            first: Any = cast("list[Any]", args)[0] if isinstance(args, list | tuple) else args
            words = os.fsdecode(first).split()
        except (TypeError, IndexError):
            return  # `subprocess` says what is wrong
        name = os.path.basename(words[0]) if words else ""
        # A Python is found by its environment and installs the guard itself; the kernel's rules hold any other
        # program.
        if name.startswith("python"):
            return
        known = [self.others, self.own] if is_called_by_user("subprocess") else [self.others]
        for programs in known:
            if name not in programs:
                programs.append(name)

    def _found(self, argument: Any) -> Any:
        """An argument that names a file which the script wrote before names it where it is."""
        overlay = self._calls.overlay
        key = self._calls.key(argument) if overlay.is_used else None
        if key is None or not overlay.exists(key):
            return argument
        found = overlay.seen(key)
        return argument if found == key else found


def _note(file: str, line: str) -> None:
    with contextlib.suppress(OSError), real.open_file(file, "a", encoding="utf-8") as opened:
        opened.write(f"{line}\n")


def _name_memory(file: str, module: Any) -> None:
    system = getattr(module, "_posixshmem", None)
    if system is None:
        return
    opens = system.shm_open

    @functools.wraps(opens)
    def shm_open(path: str, *args: Any, **kwargs: Any) -> int:
        _note(file, f"/{path.lstrip('/')}")
        return int(opens(path, *args, **kwargs))

    system.shm_open = shm_open
