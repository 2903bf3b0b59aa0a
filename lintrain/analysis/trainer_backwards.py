"""Training steps that call `backward` on the loss themselves, where a Trainer or an accelerator has its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.source.training_syntax import imported_packages
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WITH_TRAINERS = frozenset({"transformers", "trl"})
SCALES = lazy_pattern(r"scale_loss|[sS]caler|deepspeed\.|accelerator\.backward")
"""Code that scales losses itself, as Trainers did before accelerate."""


def plain_backwards(source: Source) -> Iterator[ast.Call]:
    """The calls of `loss.backward()` in `training_step` of a class that derives from a Trainer."""
    if WITH_TRAINERS.isdisjoint(imported_packages(source)):
        return
    for owner in source.nodes_of(ast.ClassDef):
        if not any(last_name(base).endswith("Trainer") for base in owner.bases):
            continue
        for step in owner.body:
            if isinstance(step, ast.FunctionDef) and step.name == "training_step" and not SCALES.search(unparse(step)):
                yield from (node for node in own_nodes(step) if _is_plain_backward(node))  # type: ignore[misc]


LIBRARIES = frozenset({"transformers", "trl", "sentence_transformers"})
TRAINS = lazy_pattern(r"backward|training_step|\bstep\(|autograd")


def idle_steps(source: Source) -> Iterator[Location]:
    """The methods `training_step` of trainers that never call `backward`, which the trainer leaves to them."""
    imported = {
        name.asname or name.name
        for node in source.nodes_of(ast.ImportFrom)
        if (node.module or "").partition(".")[0] in LIBRARIES
        for name in node.names
    }
    for owner in source.nodes_of(ast.ClassDef):
        bases = [base.id for base in owner.bases if isinstance(base, ast.Name) and base.id.endswith("Trainer")]
        steps = [each for each in owner.body if isinstance(each, ast.FunctionDef) and each.name == "training_step"]
        if not steps or not bases or not imported.issuperset(bases) or len(bases) != len(owner.bases):
            continue
        others = [each for each in owner.body if each is not steps[0]]
        if not TRAINS.search("\n".join(map(unparse, (*steps[0].body, *others)))):
            whole = source.location(steps[0])
            end = whole.column + len("def training_step")
            yield Location(whole.path, whole.line, whole.column, whole.line, end)


NEEDED = lazy_pattern(r"\baccelerator\.(?:accumulate|autocast|prepare)\(")
OWN = lazy_pattern(r"\baccelerator\.backward\b|\.manual_backward\(|\.scale\(|scale_loss|\.no_sync\(")
"""Code that scales or divides losses, perhaps only in some of the cases."""

UNSCALED = lazy_pattern(r"""mixed_precision\s*=\s*["'](?:no|bf16)["']""")
"""Code that asks for a precision in which no loss is scaled."""

OPTIMIZER = lazy_pattern(r"(?i)opt(?:im\w*|imi[sz]er\w*)?(?:_\w+)?$")


@dataclass(frozen=True, slots=True)
class PastAccelerator:
    """A backward pass that bypasses an accelerator, and the code that counts on the accelerator's own."""

    backward: ast.Call
    needed: ast.Call
    name: str


def past_accelerators(source: Source) -> Iterator[PastAccelerator]:
    """The plain backward passes of training steps in a file that accumulates, casts or prepares by an accelerator."""
    if not source.contains(NEEDED) or source.contains(OWN):
        return
    calls = [call for call in calls_of(source, set(NEEDS)) if NEEDED.search(f"{unparse(call.func)}(")]
    # The accumulation divides the loss for certain, the cast scales it in float16.
    needed = sorted(calls, key=lambda call: (NEEDS.index(last_name(call.func)), call.lineno))
    prepared = {last_name(each) for call in calls if last_name(call.func) == "prepare" for each in call.args}
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        backward = [node for node in nodes if isinstance(node, ast.Call) and _is_plain_backward(node)]
        first = _needed_by(source, nodes, needed, prepared) if backward else None
        if first is not None:
            yield from (PastAccelerator(node, first, last_name(first.func)) for node in backward)


NEEDS = ("accumulate", "autocast", "prepare")
"""What an accelerator is asked for, in the order of how much its own `backward` matters for it."""


def _needed_by(
    source: Source, nodes: Sequence[ast.AST], needed: Sequence[ast.Call], prepared: set[str]
) -> ast.Call | None:
    """The call of an accelerator that counts on its `backward` in a training step; None if the scope is none.

    Where an accelerator only prepares the optimizer, the options that start the script decide whether it scales.
    """
    owners = [node.value for node in nodes if isinstance(node, ast.Attribute) and node.attr == "step"]
    casts_here = any(
        node in needed and last_name(node.func) != "prepare" for node in nodes if isinstance(node, ast.Call)
    )
    first = needed[0]
    if last_name(first.func) != "prepare":
        return first if owners or casts_here else None
    names = {last_name(owner) for owner in owners if OPTIMIZER.search(last_name(owner))}
    return first if names & prepared and not source.contains(UNSCALED) else None


def _is_plain_backward(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name() | ast.BinOp(), attr="backward"), args=[]):
            return True
        case _:
            return False
