"""Keep what a failing stage needs to fail again by itself: files, and the code that reads them.

The error's own frames tell which call of a collator, a model or a loss function raised it. Of the script only those
definitions are kept that this call needs, with everything at the top of the script that they use.
"""

from __future__ import annotations

import ast
import builtins
import json
import linecache
import os
import symtable
import sys
from collections.abc import Iterator
from dataclasses import field
from types import FrameType
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.reproduction.expressions import CannotWriteError, Expressions, Makers, plain_tensors
from lintrain.startup.lazy_dataclass import dataclass

FOLDER, RECIPE = "kept", "recipe.json"
RAISES = {
    "collator": "the collator",
    "module": "the model",
    "function": "the loss",
    "metrics": "the metric function",
    "trainer": "the Trainer's loss",
}


class Reproducer:
    """Watches how modules are made, and keeps the first failure of a stage in a folder of the probe."""

    def __init__(self, temporary: str, script: str) -> None:
        self._folder = os.path.join(temporary, FOLDER)
        self._script = script
        self._makers = Makers()
        self._has_kept = False

    def install(self, hooks: AfterImport) -> None:
        """Follow the script from its start."""
        self._makers.install(hooks)

    def keep_failure(self, stage: str, error: BaseException) -> None:
        """A stage failed; only the first one counts."""
        if self._has_kept:
            return
        # Later stages fail for the reason of the first one.
        self._has_kept = True
        os.makedirs(self._folder, exist_ok=True)
        try:
            recipe = {"stage": stage, **self._recipe(error)}
        except CannotWriteError as missing:
            recipe = {"stage": stage, "reason": f"{missing} cannot be created without the script"}
        except Exception as own:  # noqa: BLE001 - the probe goes on, and says what it could not do
            recipe = {"stage": stage, "reason": f"lintrain failed to write it: {type(own).__name__}: {own}"}
        with open(os.path.join(self._folder, RECIPE), "w", encoding="utf-8") as opened:
            json.dump(recipe, opened)

    def _recipe(self, error: BaseException) -> dict[str, Any]:
        raised = raised_by(error)
        if raised is None:
            return {"reason": "no collator, model, loss or metric function raised the error"}
        # Before the definitions, because writing the lines finds out which names of the script they need.
        expressions = Expressions(self._folder, self._makers)
        lines = self._lines(raised, expressions)
        imports, definitions = self._definitions(expressions)
        return {
            "raised_by": RAISES[raised.kind],
            "imports": [*sorted(expressions.imports), *imports],
            "definitions": definitions,
            "lines": [*expressions.lines, *lines],
            "modules": sorted(expressions.modules),
        }

    def _definitions(self, expressions: Expressions) -> tuple[list[str], list[str]]:
        if not expressions.names:
            return [], []
        path = attribute(sys.modules["__main__"], "__file__", None) or self._script
        found = definitions_of("".join(linecache.getlines(path)), expressions.names)
        if found is None:
            raise CannotWriteError(f"`{min(expressions.names)}`, which is not defined at the top of the script,")
        return found

    def _lines(self, raised: Raised, expressions: Expressions) -> list[str]:
        match raised.kind:
            case "collator":
                return self._of_collator(raised, expressions)
            case "module":
                mode = "train" if raised.called.training else "eval"
                made = [f"model = {expressions.of(raised.called)}", f"model.{mode}()"]
                return [*made, *self._call("model", raised, expressions)]
            case "function":
                expressions.imports.add("import torch.nn.functional as F")
                return self._call(f"F.{raised.called.rpartition('.')[2]}", raised, expressions)
            case "metrics":
                return self._of_metrics(raised, expressions)
            case _:
                return self._of_trainer(raised, expressions)

    def _call(self, called: str, raised: Raised, expressions: Expressions) -> list[str]:
        """The arguments from a file, handed over as the script did."""
        # `forward` gets None for each argument that was not passed: written down, they would hide what was.
        kwargs = {name: value for name, value in raised.kwargs.items() if value is not None}
        if raised.args and kwargs:
            self._save({"args": raised.args, "kwargs": kwargs}, expressions)
            return [LOAD, f'{called}(*batch["args"], **batch["kwargs"])']
        if kwargs:
            self._save(kwargs, expressions)
            return [LOAD, f"{called}(**batch)"]
        self._save(raised.args, expressions)
        return [LOAD, f"{called}(*batch)"]

    def _save(self, batch: Any, expressions: Expressions) -> None:
        expressions.imports.add("import torch")
        library("torch").save(plain_tensors(batch), os.path.join(self._folder, "batch.pt"))

    def _of_collator(self, raised: Raised, expressions: Expressions) -> list[str]:
        collator, rows = _unwrapped(raised.called, raised.args[0])
        if has(collator, "__qualname__"):
            called, made = expressions.named(collator), list[str]()
        else:
            called, made = "collate", [f"collate = {expressions.of(collator)}"]
        return [*made, self._rows(rows, expressions), f"{called}(rows)"]

    def _rows(self, rows: Any, expressions: Expressions) -> str:
        """Rows in a file that can be read, where they hold only what JSON can."""
        try:
            text = json.dumps([dict(row) if is_mapping(row) else row for row in rows])
        except (TypeError, ValueError):
            self._save(rows, expressions)
            return LOAD.replace("batch", "rows", 1)
        with open(os.path.join(self._folder, "rows.json"), "w", encoding="utf-8") as opened:
            opened.write(text)
        expressions.imports.add("import json")
        return 'rows = json.loads((HERE / "rows.json").read_text(encoding="utf-8"))'

    def _of_metrics(self, raised: Raised, expressions: Expressions) -> list[str]:
        """The predictions in a file; several arrays of them as a tuple, as the library gives them."""
        called, given = expressions.named(raised.called), raised.args[0]
        # A model with more outputs than logits gives a tuple; a metric that forgets this fails only on a tuple.
        several = is_row(given.predictions)
        arrays = given.predictions if is_row(given.predictions) else (given.predictions,)
        if not all(has(each, "dtype") and each.dtype.kind in "biuf" for each in (*arrays, given.label_ids)):
            raise CannotWriteError("what the metric function is given")
        named = {f"predictions_{number}": array for number, array in enumerate(arrays)}
        library("numpy").savez(os.path.join(self._folder, "predictions.npz"), label_ids=given.label_ids, **named)
        expressions.imports.update({"import numpy as np", "from transformers import EvalPrediction"})
        parts = [f'saved["{name}"]' for name in named]
        predictions = f"({', '.join(parts)},)" if several else parts[0]
        return [
            'saved = np.load(HERE / "predictions.npz")',
            f'{called}(EvalPrediction(predictions={predictions}, label_ids=saved["label_ids"]))',
        ]

    def _of_trainer(self, raised: Raised, expressions: Expressions) -> list[str]:
        expressions.imports.update({"import tempfile", "from transformers import Trainer, TrainingArguments"})
        model = raised.called.model
        self._save(raised.kwargs, expressions)
        return [
            f"model = {expressions.of(model)}",
            "model.train()",
            LOAD,
            "arguments = TrainingArguments(tempfile.mkdtemp(), use_cpu=True, report_to=[])",
            "Trainer(model, arguments).compute_loss(model, batch)",
        ]


LOAD = 'batch = torch.load(HERE / "batch.pt", weights_only=True)'


def _unwrapped(collator: Any, rows: Any) -> tuple[Any, Any]:
    """The script's own collator under the library's, which leaves out columns that the model does not read."""
    if type(collator).__name__ == "RemoveColumnsCollator":
        return collator.data_collator, [collator._remove_columns(row) for row in rows]
    return collator, rows


FETCH = os.path.join("torch", "utils", "data", "_utils", "fetch.py")
MODULE = os.path.join("torch", "nn", "modules", "module.py")
FUNCTIONAL = os.path.join("torch", "nn", "functional.py")
TRAINER = os.path.join("transformers", "trainer.py")


@dataclass(frozen=True, slots=True)
class Raised:
    """A call that raised: `kind` is collator, module, function, metrics or trainer; `called` an object, or its name."""

    kind: str
    called: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])


def raised_by(error: BaseException) -> Raised | None:
    """The outermost such call on the way of an error; None if there is none."""
    for frame in _frames(error):
        found = _call_of(frame)
        if found is not None:
            return found
    # Last, because a model that fails inside of `compute_loss` is the smaller thing to reproduce.
    return next((found for frame in _frames(error) if (found := _of_trainer(frame))), None)


def _frames(error: BaseException) -> Iterator[FrameType]:
    step = error.__traceback__
    while step is not None:
        yield step.tb_frame
        step = step.tb_next


def _call_of(frame: FrameType) -> Raised | None:
    path, name, values = frame.f_code.co_filename, frame.f_code.co_name, frame.f_locals
    if path.endswith(FETCH) and name == "fetch" and "data" in values:
        return Raised("collator", values["self"].collate_fn, (values["data"],))
    if path.endswith(MODULE) and name == "_call_impl":
        return Raised("module", values["self"], tuple(values["args"]), dict(values["kwargs"]))
    if (given := _predictions(frame)) is not None:
        return Raised("metrics", frame.f_globals[name], (given,))
    if path.endswith(FUNCTIONAL):
        names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
        return Raised("function", f"torch.nn.functional.{name}", (), {each: values[each] for each in names})
    return None


def _predictions(frame: FrameType) -> Any:
    """What a metric function at the top of the script was given, where this frame is one."""
    function = frame.f_globals.get(frame.f_code.co_name)
    if frame.f_code.co_argcount != 1 or attribute(function, "__code__") is not frame.f_code:
        return None
    given = frame.f_locals.get(frame.f_code.co_varnames[0])
    return given if type(given).__name__ == "EvalPrediction" else None


def _of_trainer(frame: FrameType) -> Raised | None:
    """The library's own loss of a Trainer: it finds fault with what the model gave."""
    values = frame.f_locals
    if frame.f_code.co_filename.endswith(TRAINER) and frame.f_code.co_name == "compute_loss":
        return Raised("trainer", values["self"], (), dict(values["inputs"]))
    return None


BUILTINS = frozenset(dir(builtins))


def definitions_of(text: str, names: set[str]) -> tuple[list[str], list[str]] | None:
    """The imports, and the statements that define the names, in the order of the script; None if one is missing."""
    tree = ast.parse(text)
    by_name: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _bound(statement):
            by_name.setdefault(name, []).append(statement)
    chosen: set[ast.stmt] = set()
    waiting = set(names)
    if not waiting <= set(by_name):
        return None
    known: set[str] = set()
    while waiting:
        name = waiting.pop()
        known.add(name)
        for statement in by_name.get(name, ()):
            if statement not in chosen:
                chosen.add(statement)
                waiting |= _used(_source(text, statement)) - known
    ordered = [statement for statement in tree.body if statement in chosen]
    imports = [_import_of(one, known) for one in ordered if isinstance(one, ast.Import | ast.ImportFrom)]
    rest = [_source(text, one) for one in ordered if not isinstance(one, ast.Import | ast.ImportFrom)]
    return imports, rest


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement at the top of a script gives a meaning to."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            for node in ast.walk(statement):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id
        case _:
            pass


def _used(text: str) -> set[str]:
    """The names that a statement takes from around it, not those that its functions have for themselves."""
    return set(_looked_up(symtable.symtable(text, "<statement>", "exec"))) - BUILTINS


def _looked_up(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _looked_up(inner)


def _import_of(statement: ast.Import | ast.ImportFrom, known: set[str]) -> str:
    """An import with only those names that are needed."""
    names = [alias for alias in statement.names if (alias.asname or alias.name).partition(".")[0] in known]
    if isinstance(statement, ast.Import):
        return ast.unparse(ast.Import(names))
    return ast.unparse(ast.ImportFrom(statement.module, names, statement.level))


def _source(text: str, statement: ast.stmt) -> str:
    lines = text.splitlines()
    decorators: list[ast.expr] = attribute(statement, "decorator_list", [])
    first = min([statement.lineno, *(one.lineno for one in decorators)])
    return "\n".join(lines[first - 1 : statement.end_lineno])
