"""Mistakes of data sets that several workers read, and of epochs without a batch."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import arguments, plain_trainers
from benchmarks.accuracy.mutants import injects

STREAM = """\
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for number in range({length}):
            yield {row}

"""


@injects("duplicated-worker-data", shows="inputs")
def stream_from_every_worker(code: Code) -> Iterator[list[Edit]]:
    """A stream that asks nowhere which worker it is in, in the stead of tensors."""
    for loader in code.calls("DataLoader"):
        rows = loader.args[0] if loader.args else None
        statement = code.statement(loader)
        if not isinstance(rows, ast.Call) or ast.unparse(rows.func) != "TensorDataset":
            continue
        names = [each for each in rows.args if isinstance(each, ast.Name)]
        if names and "import torch\n" in code.text and code.argument(loader, "shuffle"):
            row = ", ".join(f"{name.id}[number]" for name in names) + ("," if len(names) == 1 else "")
            stream = STREAM.format(length=f"len({names[0].id})", row=row)
            edits = [code.before(statement, stream), code.here(statement)]
            yield [*edits, code.replace(rows, "Stream()"), *with_workers(code, loader)]


def with_workers(code: Code, loader: ast.Call) -> list[Edit]:
    """Two workers in the stead of an order that is drawn."""
    shuffle = code.argument(loader, "shuffle")
    return [code.replace(shuffle, "num_workers=2")] if shuffle else []


@injects("stored-worker-rng", shows="inputs")
def keep_a_generator(code: Code) -> Iterator[list[Edit]]:
    """Noise from a generator that the data set keeps, drawn by two workers."""
    for drawn in code.nodes(ast.ClassDef):
        methods = {each.name: each for each in drawn.body if isinstance(each, ast.FunctionDef)}
        last = methods["__getitem__"].body[-1] if "__getitem__" in methods else None
        loaders = [call for call in code.calls("DataLoader") if call.args and is_made(code, call.args[0], drawn)]
        if isinstance(last, ast.Return) and last.value and "__init__" in methods and loaders:
            first = methods["__init__"].body[0]
            skips = "if self.noise.random() < 0.5:\n    index = 0"
            yield [
                code.before(drawn, "import numpy as np\n"),
                code.before(first, "self.noise = np.random.default_rng(0)"),
                code.before(methods["__getitem__"].body[0], skips),
                *(edit for call in loaders for edit in (code.here(call), code.here(code.statement(call)))),
                *(code.add_argument(call, "num_workers=2") for call in loaders),
            ]


def is_made(code: Code, given: ast.expr, made: ast.ClassDef) -> bool:
    """Whether an argument makes an object of a class, there or above."""
    if isinstance(given, ast.Name):
        bound = [one.value for one in code.nodes(ast.Assign) if ast.unparse(one.targets[0]) == given.id]
        return any(is_made(code, value, made) for value in bound if not isinstance(value, ast.Name))
    return isinstance(given, ast.Call) and ast.unparse(given.func) == made.name


@injects("empty-last-batch", shows="error")
def drop_the_only_batch(code: Code) -> Iterator[list[Edit]]:
    """A batch that all rows do not fill, and that is dropped, for a Trainer; the rows stand in the script."""
    for made in arguments(code):
        tables = list(code.calls("Dataset.from_dict", "Dataset.from_list"))
        runs = list(plain_trainers(code))
        # a map that removes columns may give more rows, or fewer
        if (
            runs
            and tables
            and "remove_columns" not in code.text
            and all(is_written_out(code, table.args[0]) for table in tables)
        ):
            size = code.set_argument(made, "per_device_train_batch_size", "256")
            marks = dict.fromkeys(edit for call in runs for edit in (code.here(code.statement(call)), code.here(call)))
            yield [*marks, Edit(size.start, size.end, f"{size.text}, dataloader_drop_last=True")]


@injects("empty-last-batch", shows="error losses weights")
def drop_the_only_batch_of_a_loop(code: Code) -> Iterator[list[Edit]]:
    """The same for a loop of one's own, over tensors that the script makes."""
    for loader in code.calls("DataLoader"):
        size = code.argument(loader, "batch_size")
        inner = loader.args[0] if loader.args else None
        is_plain = isinstance(inner, ast.Call) and ast.unparse(inner.func) == "TensorDataset"
        if is_plain and size and code.argument(loader, "shuffle") and is_written_out(code, loader.args[0]):
            drop = code.set_argument(loader, "drop_last", "True")
            marks = dict.fromkeys([code.here(code.statement(loader)), code.here(loader)])
            yield [*marks, code.replace(size.value, "4096"), drop]


def is_written_out(code: Code, given: ast.expr) -> bool:
    """Whether rows are made by literals alone, there or above: no comprehension, no slice, no list of tensors."""
    names = {node.id for node in ast.walk(given) if isinstance(node, ast.Name)}
    bound = [one.value for one in code.nodes(ast.Assign) if ast.unparse(one.targets[0]) in names]
    parts = [node for value in (given, *bound) for node in ast.walk(value)]
    others = any(isinstance(node, ast.ListComp | ast.GeneratorExp | ast.Subscript) for node in parts)
    return not others and "torch.stack" not in " ".join(ast.unparse(value) for value in bound)


@injects("unset-label-names", shows="printed saved")
def call_labels_otherwise(code: Code) -> Iterator[list[Edit]]:
    """A network whose parameter for labels is not called after them."""
    for method in code.nodes(ast.FunctionDef):
        taken = [each.arg for each in method.args.args]
        if method.name == "forward" and "labels" in taken and "compute_metrics" in code.text:
            marks = [code.here(code.statement(call)) for call in plain_trainers(code)]
            words = re.finditer(r"\blabels\b", code.text)
            yield [*marks, *(Edit(word.start(), word.end(), "wanted") for word in words)]
