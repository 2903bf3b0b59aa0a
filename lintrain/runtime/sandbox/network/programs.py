"""Programs that the script starts: Python is watched like the script, any other gets no keys and a refusing proxy."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.network.gate import without_secrets

UNWATCHED = frozenset("ISE")
"""Options of Python that leave out `sitecustomize` or the variables by which it is found."""
WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
REQUEST = "LINTRAIN_PROBE_REQUEST"
KEYS = "LINTRAIN_PROBE_KEYS"
"""Names of keys (`child.signing`): with one of them a Python that the script starts may send what it measures."""
KEYS_OF_OTHERS = 8
"""For programs that may start Pythons in their turn, such as a shell: so many of these can send."""
PUT_VARIABLE: Any = os.putenv
"""As it is before `secrets` puts something else in its place, which lets no keys through."""


class Programs:
    """Chooses the environment of every program that Python starts by itself."""

    def __init__(self, store: str, new_keys: Callable[[int], list[str]]) -> None:
        self._store = store
        self._new_keys = new_keys

    def install(self, hooks: AfterImport) -> None:
        """Stand in for the functions by which Python starts programs."""
        hooks.add("subprocess", functools.partial(self._watch_forks, "_fork_exec"))
        hooks.add("_posixsubprocess", functools.partial(self._watch_forks, "fork_exec"))
        stand_ins = {
            "posix_spawn": self._spawning,
            "posix_spawnp": self._spawning,
            "execve": self._executing,
            "execv": self._executing,
            "system": self._asking_a_shell,
        }
        for name, stand_in in stand_ins.items():
            if hasattr(os, name):
                setattr(os, name, stand_in(getattr(os, name)))

    def _watch_forks(self, name: str, module: Any) -> None:
        """Below `subprocess` and `multiprocessing`: environment in the sixth place, a list of `NAME=value` or None."""
        start = getattr(module, name, None)
        if start is None or getattr(start, "lintrain_chooses", None) == name:
            return
        # Both modules hold the same function under their own names, imported in either order.
        start = getattr(start, "__wrapped__", start)  # `subprocess` may have got that of `_posixsubprocess`

        @functools.wraps(start)
        def starts(args: Any, programs: Any, close: Any, kept: Any, folder: Any, given: Any, *rest: Any) -> Any:
            variables = None if given is None else dict(one.split(b"=", 1) for one in given if b"=" in one)
            chosen = self._chosen(args, next(iter(programs), b""), variables, is_new=name == "_fork_exec")
            return start(args, programs, close, kept, folder, [b"=".join(pair) for pair in chosen.items()], *rest)

        starts.lintrain_chooses = name  # type: ignore[attr-defined]
        setattr(module, name, starts)

    def _spawning(self, spawn: Any) -> Any:
        @functools.wraps(spawn)
        def spawns(path: Any, argv: Any, env: Any, /, **kwargs: Any) -> Any:
            return spawn(path, argv, self._chosen(argv, path, env, is_new=True), **kwargs)

        return spawns

    def _executing(self, execute: Any) -> Any:
        # Taken before it is patched: `execv` goes through it with the chosen environment, and must not choose twice.
        replace = os.execve

        @functools.wraps(execute)
        def executes(path: Any, argv: Any, env: Any = None, /) -> Any:
            return replace(path, argv, self._chosen(argv, path, env))

        return executes

    def _asking_a_shell(self, system: Any) -> Any:
        """The shell inherits this process's own environment, which has no keys of the user (`secrets.hide_secrets`)."""

        @functools.wraps(system)
        def asks(command: Any) -> Any:
            PUT_VARIABLE(KEYS, " ".join(self._new_keys(KEYS_OF_OTHERS)))
            try:
                return system(command)
            finally:
                os.unsetenv(KEYS)

        return asks

    def _chosen(
        self, args: Any, program: Any, given: Mapping[Any, Any] | None, *, is_new: bool = False
    ) -> dict[bytes, bytes]:
        """The environment of a program; None stands for this process's own.

        One that is new, and neither this process's next life nor a helper of `multiprocessing`, gets keys to sign with.
        """
        variables = {_text(name): _text(value) for name, value in (os.environ if given is None else given).items()}
        is_other = isinstance(program, int) or not is_watched(program, args, variables)
        if is_other:
            variables = without_secrets(variables, self._store)
        if is_new and variables.get(REQUEST):
            variables[KEYS] = " ".join(self._new_keys(KEYS_OF_OTHERS if is_other else 1))
        return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def _text(value: Any) -> str:
    return os.fsdecode(value)


def is_watched(program: Any, args: Iterable[Any], environment: Mapping[str, str]) -> bool:
    """Whether a program is a Python that loads the guard when it starts."""
    if not os.path.basename(_text(program)).startswith("python") or not environment.get(REQUEST):
        return False
    if not environment.get("PYTHONPATH"):
        return False
    words = [_text(word) for word in args][1:]
    while words and words[0].startswith("-") and not words[0].startswith(("-c", "-m")):
        if not words[0].startswith("--") and UNWATCHED & set(words[0][1:].partition("X")[0].partition("W")[0]):
            return False
        words = words[2 if words[0] in WITH_VALUE else 1 :]
    return True
