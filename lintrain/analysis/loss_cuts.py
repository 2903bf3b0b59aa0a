"""Terms of a loss that carry no gradient to what they are to train, and terms that carry one to what they are not to.

The logarithm of a policy's probability trains the policy: detached, as a number or computed without gradients, it
trains nothing. What it is multiplied by is a number.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.loss_signs import grows_with_reward, is_log_of_policy
from lintrain.analysis.loss_terms import Term
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

OFF = ("torch.no_grad", "torch.inference_mode", "no_grad")


@dataclass(frozen=True, slots=True)
class CutTerm:
    """A term that carries no gradient: where it is cut, and the backward call of the loss."""

    location: Location
    backward: Location
    message: str


def cut_terms(source: Source) -> Iterator[CutTerm]:
    """The terms of losses that are new tensors, or whose log-probabilities have left the graph."""
    for call, terms in loss_terms.losses(source):
        for term in terms:
            yield from _new_tensor(source, call, term)
        found = [each for term in terms for each in _policies(source, call, term)]
        if all(each is not None for each in found):
            yield from (each for each in found if each is not None)


def _new_tensor(source: Source, call: ast.Call, term: Term) -> Iterator[CutTerm]:
    match term.expression:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="tensor" | "as_tensor" | "FloatTensor"),
            args=[given, *_],
        ) if any(loss_terms.appended(source, given)):
            yield CutTerm(
                source.location(term.expression),
                source.location(call),
                "a new tensor is made of these losses, so no gradient reaches the network",
            )
        case _:
            pass


def _policies(source: Source, call: ast.Call, term: Term) -> Iterator[CutTerm | None]:
    """The term if it is a policy's whose log-probability carries no gradient; None if it carries one."""
    logs = [each for each in term.factors if _log_inside(each.expression) is not None]
    weights = [each.written for each in term.factors if each not in logs]
    if len(logs) != 1 or len(weights) != 1 or not grows_with_reward(source, weights[0]):
        return
    cut = logs[0].expression
    if is_log_of_policy(cut) and not _is_off(source, cut):
        yield None
        return
    yield CutTerm(
        source.location(cut), source.location(call), "no gradient flows from this log-probability back to the policy"
    )


def _log_inside(node: ast.expr) -> ast.expr | None:
    """The log-probability that is detached, or a number: `policy.log_prob(action)` of `….detach()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="detach" | "item" | "tolist" | "numpy" | "cpu"), args=[]):
            return _log_inside(inner)
        case ast.Attribute(value=inner, attr="data"):
            return _log_inside(inner)
        case _:
            return node if is_log_of_policy(node) else None


def _is_off(source: Source, node: ast.expr) -> bool:
    """Whether an expression is computed where autograd is off: in a `with torch.no_grad()`, or a decorated function."""
    line = node.lineno
    for each in source.nodes_of(ast.With, ast.FunctionDef):
        if not each.lineno <= line <= (each.end_lineno or each.lineno):
            continue
        managers = [item.context_expr for item in each.items] if isinstance(each, ast.With) else each.decorator_list
        if any(unparse(one).startswith(OFF) for one in managers):
            return True
    return False
