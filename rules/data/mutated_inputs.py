"""Inputs are masked in place, though they are still needed as they were.

`inputs[masked] = token` writes into the tensor that the caller passed. A caller that stores the result under another
name and keeps the original has masked tokens in both: the objective that should see whole text does not. In the same
way `labels = input_ids` is no copy: `labels[:n] = -100` puts -100 into the inputs, and the embedding has no such row.

## Bad

    def mask(inputs):
        labels = inputs.clone()  # <- mutated-inputs
        hidden = torch.rand(labels.shape) < 0.15
        labels[~hidden] = -100
        inputs[hidden] = tokenizer.mask_token_id
        return inputs, labels

    def collate(rows):
        batch = tokenizer.pad(rows, return_tensors="pt")
        batch["masked_ids"], batch["masked_labels"] = mask(batch["input_ids"])
        return batch

    model.train()
    for rows in DataLoader(columns["train"], batch_size=8, collate_fn=collate):
        loss = model(rows["input_ids"], labels=rows["labels"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

## Good

    def mask(inputs):
        inputs = inputs.clone()
        labels = inputs.clone()
        hidden = torch.rand(labels.shape) < 0.15
        labels[~hidden] = -100
        inputs[hidden] = tokenizer.mask_token_id
        return inputs, labels

    def collate(rows):
        batch = tokenizer.pad(rows, return_tensors="pt")
        batch["masked_ids"], batch["masked_labels"] = mask(batch["input_ids"])
        return batch

    model.train()
    for rows in DataLoader(columns["train"], batch_size=8, collate_fn=collate):
        loss = model(rows["input_ids"], labels=rows["labels"]).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

## When it is fine

The result replaces the original:

    def mask(inputs):
        labels = inputs.clone()
        inputs[:, 1] = tokenizer.mask_token_id
        return inputs, labels

    def collate(rows):
        batch = tokenizer.pad(rows, return_tensors="pt")
        batch["input_ids"], batch["masked_labels"] = mask(batch["input_ids"])
        return batch

    model.train()
    for rows in DataLoader(columns["train"], batch_size=8, collate_fn=collate):
        model(rows["input_ids"], labels=rows["labels"]).loss.backward()

## Fix

Asks first: another caller may rely on the change.

## References

princeton-nlp/SimCSE a0867f4; PyTorch documentation, "In-place semantics".
"""

from __future__ import annotations

import ast  # the rule is about which names a function and its callers write to
from collections.abc import Iterator

from lintrain.analysis import shared_labels
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, Source, dataclass, fixes
from lintrain.source.nodes import walk


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement that copies the argument."""

    copy: str


@dataclass(frozen=True, slots=True)
class Writer:
    """A function that writes into a parameter and returns it: which one, at which position of what it returns."""

    parameter: str
    index: int
    """Among the arguments, without `self`."""
    returned: int | None
    """Its position in a returned tuple; None if it is returned alone."""
    first_use: ast.stmt
    write: ast.stmt


class MutatedInputs(Rule[Claim]):
    level = Level.WARNING
    keywords = "mask|labels & return|ids"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        source = pipeline.source
        writers = {
            node.name: found for node in source.nodes_of(ast.FunctionDef) if (found := source.once(_writer_of, node))
        }
        reported = set[ast.stmt]()
        for call, kept in _keeping_calls(source, writers) if writers else ():
            writer = writers[_called(call)]
            if writer.first_use in reported:
                continue
            reported.add(writer.first_use)
            yield self.finding(
                source.location(writer.first_use),
                f"`{writer.parameter}` is changed in place, but the caller keeps it",
                related=[
                    Related(source.location(writer.write), "changes the caller's tensor", "write"),
                    Related(kept, "kept by the caller", "kept"),
                ],
                help=f"copy it first: `{writer.parameter} = {writer.parameter}.clone()`",
                claim=Claim(f"{writer.parameter} = {writer.parameter}.clone()"),
            )
        yield from map(self._report_labels, shared_labels.shared_labels(source))

    def _report_labels(self, found: shared_labels.SharedLabels) -> Finding[Claim]:
        return self.finding(
            found.location,
            f"`{found.name}` is no copy of `{found.inputs}`, so hiding labels changes the inputs",
            related=[
                Related(found.changed, "puts -100 into both", "write"),
                Related(found.used, "the inputs are used here", "kept"),
            ],
            why="The model gets -100 as a token id, for which its embedding has no row.",
            help=f"copy it: `{found.inputs}.clone()`, or `.copy()` of a list",
            level=Level.ERROR,
            subject="labels",
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.InsertBefore(finding.location, finding.claim.copy)
        return fixes.Fix.of("copy the argument first", edit, safe=False)


def _writer_of(function: ast.FunctionDef) -> Writer | None:
    """How a function changes a parameter in place and returns it, if it binds its name to nothing else before."""
    names = [each.arg for each in function.args.args]
    is_method = bool(names) and names[0] in {"self", "cls"}
    returns = [each.value for each in function.body if isinstance(each, ast.Return) and each.value is not None]
    for index, name in enumerate(names[is_method:]):
        writes = [each for each in function.body if _writes_into(each, name)]
        if not writes or len(returns) != 1 or any(_binds(each, name) for each in function.body):
            continue
        positions = [at for at, part in enumerate(_parts(returns[0])) if isinstance(part, ast.Name) and part.id == name]
        if len(positions) == 1:
            alone = not isinstance(returns[0], ast.Tuple)
            first = next(each for each in function.body if _mentions(each, name))
            return Writer(name, index, None if alone else positions[0], first, writes[0])
    return None


def _keeping_calls(source: Source, writers: dict[str, Writer]) -> Iterator[tuple[ast.Call, Location]]:
    """The calls whose caller stores the result under another key of the dictionary that it took the argument from."""
    for node in source.nodes_of(ast.Assign):
        call = node.value
        if not isinstance(call, ast.Call) or (writer := writers.get(_called(call))) is None or len(node.targets) != 1:
            continue
        given = call.args[writer.index] if len(call.args) > writer.index else None
        targets = _parts(node.targets[0])
        if (writer.returned is None) != (len(targets) == 1) or (writer.returned or 0) >= len(targets):
            continue
        stored = targets[writer.returned or 0]
        match given, stored:
            case (
                ast.Subscript(value=ast.Name(id=one), slice=ast.Constant(value=key)),
                ast.Subscript(value=ast.Name(id=other), slice=ast.Constant(value=new)),
            ) if one == other and key != new:
                yield call, source.location(given)
            case _:
                pass


def _parts(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.Tuple) else [node]


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _mentions(statement: ast.stmt, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name for each in walk(statement))


def _writes_into(statement: ast.stmt, name: str) -> bool:
    """Whether a statement stores into some entries of a tensor, or calls one of its methods that end with `_`."""
    match statement:
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=owner))]):
            return owner == name
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=method))):
            return owner == name and method.endswith("_") and not method.startswith("_")
        case _:
            return False


def _binds(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in walk(statement)
    )
