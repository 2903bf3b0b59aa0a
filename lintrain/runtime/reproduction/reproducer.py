"""Keep what a failing stage needs to fail again by itself: files, and the code that reads them."""

from __future__ import annotations

import json
import linecache
import os
import sys
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library
from lintrain.runtime.reproduction.definitions import definitions_of
from lintrain.runtime.reproduction.expressions import CannotWriteError, Expressions, plain_tensors
from lintrain.runtime.reproduction.makers import Makers
from lintrain.runtime.reproduction.raised import Raised, raised_by

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
        path = getattr(sys.modules["__main__"], "__file__", None) or self._script
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
        if hasattr(collator, "__qualname__"):
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
        several = is_row(given.predictions)
        arrays = given.predictions if is_row(given.predictions) else (given.predictions,)
        if not all(hasattr(each, "dtype") and each.dtype.kind in "biuf" for each in (*arrays, given.label_ids)):
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
