"""A GPU that is not there: what a script puts on `cuda` goes to the CPU, and questions about it get an answer.

`torch.cuda.is_available()` stays False, so that a script with a branch for the CPU takes it; it is True only where
False would end the script (`assert torch.cuda.is_available()`), and where the branch starts the processes of GPUs.
"""

from __future__ import annotations

import ast
import functools
import linecache
import types
from collections.abc import Callable
from types import FrameType
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.frames import callers_frame, is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_dictionary, library
from lintrain.runtime.stand_ins.ledger import Ledger

GPUS = ("cuda", "xpu", "hpu", "npu", "mps", "musa")
MEMORY = 80 * 2**30
ENDS = ("exit", "quit", "_exit")
SILENT = ("set_device", "synchronize", "reset_peak_memory_stats", "reset_max_memory_allocated", "empty_cache")
MOVES = ("to", "cuda", "new_empty", "new_full", "new_ones", "new_tensor", "new_zeros")


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Take what asks for a GPU to the CPU, as soon as torch is there."""
    hooks.add("torch", lambda torch: Devices(ledger, torch).install())
    hooks.add("torchao.float8.float8_linear_utils", functools.partial(_keep_linear_layers, ledger))


def _keep_linear_layers(ledger: Ledger, module: Any) -> None:
    """Layers that multiply in 8 bits need a GPU of 2022 or later; emulated, a step takes minutes."""

    def convert_to_float8_training(model: Any, *_: Any, **__: Any) -> Any:
        ledger.replace(StandInKind.DEVICE, "convert_to_float8_training", "left out: it needs a GPU")
        return model

    module.convert_to_float8_training = convert_to_float8_training


def _itself(tensor: Any, *_: Any) -> Any:
    return tensor


def _nothing(*_: Any, **__: Any) -> None:
    pass


def _no_time(*_: Any) -> float:
    return 0.0


class Devices:
    """The patches of one torch."""

    def __init__(self, ledger: Ledger, torch: Any) -> None:
        self._ledger = ledger
        self._torch = torch

    def install(self) -> None:
        """Replace moves, constructors, questions and the contexts that are about a GPU."""
        torch = self._torch
        for owner in (torch.Tensor, torch.nn.Module):
            for name in MOVES:
                if hasattr(owner, name):
                    setattr(owner, name, self._moving(getattr(owner, name), is_cuda=name == "cuda"))
        for each in _constructors(torch):
            setattr(torch, each.__name__, self._moving(each))
        for owner, name in (
            (torch, "Generator"),
            (torch, "autocast"),
            (torch.amp, "autocast"),
            (torch.amp, "GradScaler"),
        ):
            self._replace_class(owner, name)
        torch.set_default_device = self._moving(torch.set_default_device)
        torch.load = self._moving(torch.load, names=("map_location",))
        torch.jit.script = _scripting(torch.jit.script)
        torch.Tensor.pin_memory = _itself
        _share_on_cpu(torch.nn.parallel.DistributedDataParallel)
        for name in [each for each in dir(torch.cuda) if each.endswith("Tensor") and hasattr(torch, each)]:
            setattr(torch.cuda, name, getattr(torch, name))
        self._answer_questions(torch.cuda)
        if hasattr(torch, "accelerator"):
            self._answer(torch.accelerator, "current_accelerator", lambda *_, **__: torch.device("cuda"))
            self._answer(torch.accelerator, "device_count", lambda: 1)
            self._answer(torch.accelerator, "current_device_index", lambda: 0)
            for name in ("set_device_index", "set_device_idx", "synchronize", "empty_cache"):
                self._answer(torch.accelerator, name, _nothing)

    def _replace_class(self, owner: Any, name: str) -> None:
        """A class that takes a device: the same one, built with a device of this machine."""
        original = getattr(owner, name)
        if not isinstance(original, type):
            return
        here = self._here

        def make(cls: Any, device: Any = "cpu") -> Any:
            return original.__new__(cls, here(device))

        if original is self._torch.Generator:  # a class of C, which is also used in annotations
            setattr(owner, name, type(name, (original,), {"__new__": make}))
            return
        original.__init__ = self._moving(original.__init__, names=("device", "device_type"))  # type: ignore[misc]

    def _moving(
        self, original: Callable[..., Any], *, names: tuple[str, ...] = ("device",), is_cuda: bool = False
    ) -> Any:
        """A function whose arguments name a device of this machine in place of a GPU."""

        @functools.wraps(original)
        def moved(*args: Any, **kwargs: Any) -> Any:
            # `cuda()` itself raises in a torch without CUDA, before it looks at its argument.
            if is_cuda:
                self.note("cuda")
                return args[0]
            # `type` and no `isinstance`, since True is an int: `to(0)` names a GPU.
            if original.__name__ == "to" and len(args) > 1 and type(args[1]) is int:
                args = (args[0], self._here(args[1]), *args[2:])  # the number of a GPU
            elif any(self._is_gpu(each) for each in args[1:3]) or (len(args) == 1 and self._is_gpu(args[0])):
                args = tuple(self._here(each) for each in args)
            for name in names:
                if name in kwargs:
                    kwargs[name] = self._here(kwargs[name])
            return original(*args, **kwargs)

        return moved

    def _is_gpu(self, value: Any) -> bool:
        if isinstance(value, str):
            return value.partition(":")[0] in GPUS
        return isinstance(value, self._torch.device) and value.type in GPUS

    def _here(self, value: Any) -> Any:
        """The CPU for a GPU; numbers of devices are those of GPUs."""
        if is_dictionary(value):
            return {self._here(key): self._here(each) for key, each in value.items()}
        if not self._is_gpu(value) and (isinstance(value, bool) or not isinstance(value, int)):
            return value
        self.note(str(value))
        return "cpu" if isinstance(value, str) else self._torch.device("cpu")

    def note(self, name: str) -> None:
        """Remember that a device was replaced."""
        shown = "cuda" if name.isdigit() or not name else name.partition(":")[0]
        self._ledger.replace(StandInKind.DEVICE, shown, "the CPU")

    def _answer_questions(self, cuda: Any) -> None:
        self._answer(cuda, "is_available", self._is_available)
        self._answer(cuda, "device_count", lambda: 1)
        self._answer(cuda, "current_device", lambda: 0)
        self._answer(cuda, "get_device_name", lambda *_: "a stand-in for a GPU")
        self._answer(cuda, "get_device_capability", lambda *_: (8, 0))
        self._answer(cuda, "is_bf16_supported", lambda *_, **__: True)
        properties = types.SimpleNamespace(name="a stand-in for a GPU", total_memory=MEMORY, major=8, minor=0)
        self._answer(cuda, "get_device_properties", lambda *_: properties)
        self._answer(cuda, "mem_get_info", lambda *_: (MEMORY, MEMORY))
        for name in SILENT:
            self._answer(cuda, name, self._choose if name == "set_device" else _nothing, is_for_all=True)
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
            self._answer(cuda, name, lambda *_, **__: 0, is_for_all=True)
        cuda.Event = type("Event", (), {"__init__": _nothing, "elapsed_time": _no_time})
        for name in ("record", "synchronize", "wait"):
            setattr(cuda.Event, name, _nothing)

    def _answer(self, cuda: Any, name: str, answer: Callable[..., Any], *, is_for_all: bool = False) -> None:
        """Let the script's own code get an answer; libraries get the true one, unless it is harmless for them."""
        original = getattr(cuda, name, None)
        if original is None:
            return

        @functools.wraps(original)
        def answered(*args: Any, **kwargs: Any) -> Any:
            caller = callers_frame(above=1)
            # accelerate and transformers decide on kernels and formats by these answers: theirs have to be true.
            if not is_for_all and (caller is None or not is_users(caller.f_code.co_filename)):
                return original(*args, **kwargs)
            return answer(*args, **kwargs)

        setattr(cuda, name, answered)

    def _choose(self, *_: Any, **__: Any) -> None:
        caller = callers_frame(above=2)
        if caller is not None and is_users(caller.f_code.co_filename):
            self.note("cuda")

    def _is_available(self) -> bool:
        # Four frames down: this method, the wrapper, and the script.
        found = ends_without_gpu(callers_frame(above=2))
        if found:
            self.note("cuda")
        return found


def ends_without_gpu(frame: FrameType | None) -> bool:
    """Whether False ends the script, or leaves out the branch that starts the processes of GPUs."""
    without, with_gpu = _branches(frame)
    return _ends(without) or _starts_processes(with_gpu) or _is_needed_later(frame)


def _is_needed_later(frame: FrameType | None) -> bool:
    """Whether only the branch for True gives a name a value that later lines of the same function read: `n_gpus`."""
    tree = _tree_of(frame)
    if frame is None or tree is None:
        return False
    body, line = _body_at(tree, frame.f_lineno), frame.f_lineno
    for at, node in enumerate(body):
        if not isinstance(node, ast.If) or not node.test.lineno <= line <= (node.test.end_lineno or line):
            continue
        # Without a GPU the name would be unbound below: `if cuda.is_available(): n_gpus = …` and then `n_gpus`.
        if isinstance(node.test, ast.UnaryOp):
            return False
        given = _stored(node.body) - _stored(_surely(node.orelse)) - {*frame.f_locals}
        return _reads_one(body[at + 1 :], given) or _is_kept_in_object(tree, node, frame.f_locals.get("self"))
    return False


def _is_kept_in_object(tree: ast.Module, node: ast.If, made: Any) -> bool:
    """Whether only the branch for True gives `self` an attribute that other lines of its class read."""
    owners = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef) and each.lineno <= node.lineno <= (each.end_lineno or node.lineno)
    ]
    if not owners:
        return False
    given = _of_self(node.body, ast.Store) - _of_self(_surely(node.orelse), ast.Store)
    # Lines under the same question are those that a script without a GPU leaves out.
    asked = {id(inner) for each in ast.walk(owners[-1]) if _asks(each) for inner in ast.walk(each)}
    others = [each for each in ast.walk(owners[-1]) if id(each) not in asked]
    given -= {each.attr for each in others if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)}
    read = {each.attr for each in others if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Load)}
    return any(name in read and not hasattr(made, name) for name in given)


def _asks(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "is_available" in ast.unparse(node.test)


def _of_self(body: list[ast.stmt], kind: type[ast.expr_context]) -> set[str]:
    walked = (each for node in body for each in ast.walk(node))
    return {each.attr for each in walked if isinstance(each, ast.Attribute) and isinstance(each.ctx, kind)}


def _surely(otherwise: list[ast.stmt]) -> list[ast.stmt]:
    """The branch that runs where no condition holds: that of the last `else` after every `elif`, if there is one."""
    while len(otherwise) == 1 and isinstance(otherwise[0], ast.If):
        otherwise = otherwise[0].orelse
    return otherwise


def _reads_one(body: list[ast.stmt], names: set[str]) -> bool:
    """Whether one of these names is read before it is assigned; not under another question about a GPU."""
    for node in body:
        read = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
        if names & read and not (isinstance(node, ast.If) and "is_available" in ast.unparse(node.test)):
            return True
        if isinstance(node, ast.Assign):
            names = names - _stored([node])
    return False


def _stored(body: list[ast.stmt]) -> set[str]:
    walked = (each for node in body for each in ast.walk(node))
    return {each.id for each in walked if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _tree_of(frame: FrameType | None) -> ast.Module | None:
    """The file that a frame is in."""
    try:
        return ast.parse("".join(linecache.getlines(frame.f_code.co_filename))) if frame is not None else None
    except SyntaxError:
        return None


def _body_at(tree: ast.Module, line: int) -> list[ast.stmt]:
    """The statements of the innermost function that a line is in, or of the file."""
    body = tree.body
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or line):
            body = node.body  # the innermost comes last
    return body


def ends_if_false(frame: FrameType | None) -> bool:
    """Whether a frame is at a question whose answer False ends the script: an `assert`, or an `if` that raises.

    The `if` may come later: `missing = [each for each in files if not each.exists()]`, then `if missing: raise`.
    """
    return _ends(_branches(frame)[0]) or _ends_later(frame)


def _ends_later(frame: FrameType | None) -> bool:
    """Whether the answer goes into a variable, by which a later `if` of the same function ends the script."""
    tree = _tree_of(frame)
    if frame is None or tree is None:
        return False
    line, body = frame.f_lineno, _body_at(tree, frame.f_lineno)
    is_negated = dict[str, bool]()
    # `if exists: raise` ends for True, `missing = not exists` and `if missing: raise` for False: each `not` counts.
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            has_not = any(isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not) for each in ast.walk(node))
            known = next((is_negated[name] for name in _names_in(node.value) if name in is_negated), None)
            if node.lineno <= line <= (node.end_lineno or line):
                is_negated[node.targets[0].id] = has_not
            elif known is not None:
                is_negated[node.targets[0].id] = known != has_not
        elif isinstance(node, ast.If) and _ends(node.body):
            has_not = isinstance(node.test, ast.UnaryOp) and isinstance(node.test.op, ast.Not)
            if any(is_negated.get(name, has_not) != has_not for name in _names_in(node.test)):
                return True
    return False


def _names_in(node: ast.expr) -> list[str]:
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]


def _branches(frame: FrameType | None) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What runs if the answer to a frame's question is False, and what runs if it is True."""
    tree = _tree_of(frame)
    if frame is None or tree is None:
        return [], []
    line = frame.f_lineno
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or line):
            return [ast.Raise()], []
        if isinstance(node, ast.If) and node.test.lineno <= line <= (node.test.end_lineno or line):
            # With `not` in front the body is what runs for False: `if not is_available(): raise` ends the script there.
            return (node.body, node.orelse) if _is_negated(node.test) else (node.orelse, node.body)
    return [], []


def _is_negated(test: ast.expr) -> bool:
    """Whether a test holds if what it asks is False: `not is_available()`, `name == "cuda" and not is_available()`."""
    parts = test.values if isinstance(test, ast.BoolOp) else [test]
    asking = [each for each in parts if any(isinstance(inner, ast.Call) for inner in ast.walk(each))] or parts[:1]
    return all(isinstance(each, ast.UnaryOp) and isinstance(each.op, ast.Not) for each in asking)


def _ends(body: list[ast.stmt]) -> bool:
    for node in body:
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            if name in ENDS:
                return True
    return False


def _starts_processes(body: list[ast.stmt]) -> bool:
    calls = (node.func for each in body for node in ast.walk(each) if isinstance(node, ast.Call))
    return any(isinstance(called, ast.Attribute) and called.attr == "init_process_group" for called in calls)


def _share_on_cpu(owner: Any) -> None:
    """A module on the CPU takes no numbers of devices."""
    build = owner.__init__

    @functools.wraps(build)
    def init(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *args: Any, **given: Any
    ) -> None:
        # DistributedDataParallel raises for `device_ids` with a module on the CPU.
        build(self, module, None, None, *args, **given)

    owner.__init__ = init


def _scripting(script: Callable[..., Any]) -> Any:
    """`torch.jit.script` cannot call functions of torch that were replaced: code of the script runs as it is."""

    @functools.wraps(script)
    def scripted(code: Any, *args: Any, **kwargs: Any) -> Any:
        caller = callers_frame(above=1)
        if caller is not None and is_users(caller.f_code.co_filename):
            return code
        try:
            return script(code, *args, **kwargs)
        except (RuntimeError, TypeError):
            return code

    return scripted


def _constructors(torch: Any) -> list[Any]:
    """The functions of torch that make tensors on a device."""
    listed = library("torch.utils._device")._device_constructors()
    found = [each for each in listed if getattr(torch, getattr(each, "__name__", ""), None) is each]
    return [*found, *(each for each in (torch.as_tensor,) if each not in found)]
