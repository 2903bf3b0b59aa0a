"""Wrong signs in the training of policies and language models: by preferences, by PPO and by a divergence.

A preference loss is the negative log-sigmoid of what the chosen answer has more than the rejected one; the entropy of a
policy, also one that is computed from its log-probabilities, is subtracted from a loss; the distance from a reference
model is subtracted from a reward.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import loss_terms
from lintrain.analysis.loss_signs import LESS_ENTROPY, NEGATIVE, POSITIVE, PREFERS_REJECTED, WrongSign, called
from lintrain.analysis.loss_terms import Term
from lintrain.analysis.preference_sides import MEANT, is_chosen, is_rejected
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

KL = lazy_pattern(r"(?i)(?:^|_)(?:kl|kld|kl\w*coef|kl_\w+)(?:_|$)|^kl")
REFERENCE = lazy_pattern(r"(?i)(?:^|_)ref(?:erence)?(?:_|$)|^ref")
LOG_PROBABILITIES = lazy_pattern(r"(?i)log_?p|log_?prob")
REWARDS = lazy_pattern(r"(?i)(?:^|_)rewards?(?:_|$)")
LOG_SIGMOIDS = lazy_pattern(r"\blog\([\w.]*sigmoid\(|sigmoid\([^\n]*\)\.log\(")
LOGARITHMS = lazy_pattern(r"log_?softmax|\.log\(")
"""Code that a preference loss contains, and an entropy of probabilities."""

LOSSES = frozenset({"compute_loss", "training_step", "get_batch_loss_metrics"})
"""Methods that return the loss that a library minimizes."""

MOST_NAMES = 4


def wrong_signs(source: Source) -> Iterator[WrongSign]:
    """The terms of the losses and rewards of a file that have the wrong sign."""
    is_preference = "logsigmoid(" in source.text or source.contains(LOG_SIGMOIDS)
    is_clipped = "exp(" in source.text and source.contains(r"(?:clamp|clip)\(") and source.contains(LOGARITHMS)
    if is_preference or is_clipped:
        for terms in _losses(source):
            for term in terms:
                yield from _preference(source, term)
                yield from _entropy(source, term, terms)
    if "reward" in source.text and "kl" in source.text and source.contains(r"(?i)log_?p"):
        yield from _rewards(source)


def _losses(source: Source) -> Iterator[list[Term]]:
    yield from (terms for _, terms in loss_terms.losses(source))
    for function in source.nodes_of(ast.FunctionDef):
        for node in own_nodes(function) if function.name in LOSSES else ():
            loss = _loss_in(node.value) if isinstance(node, ast.Return) else None
            if loss is not None:
                yield list(loss_terms.terms(source, loss))


def _loss_in(node: ast.expr | None) -> ast.expr | None:
    """The loss that a method returns: alone, before the outputs, or under its name."""
    match node:
        case ast.IfExp(orelse=loss):
            return _loss_in(loss)
        case ast.Tuple(elts=[loss, *_]):
            return loss
        case ast.Dict(keys=keys, values=values):
            named = zip(keys, values, strict=True)
            return next((each for key, each in named if isinstance(key, ast.Constant) and key.value == "loss"), None)
        case _:
            return node


def _preference(source: Source, term: Term) -> Iterator[WrongSign]:
    """A log-sigmoid of chosen minus rejected that is minimized, so that the rejected answers win."""
    inner = _in_log_sigmoid(term.expression) if term.sign > 0 and len(term.factors) == 1 else None
    gap = _gap(source, inner) if inner is not None else None
    if gap is None or MEANT.search(unparse(term.site)):
        return
    if (is_chosen(gap.left) and is_rejected(gap.right)) or (_is(POSITIVE, gap.left) and _is(NEGATIVE, gap.right)):
        yield WrongSign(
            source.location(term.expression),
            "minimizing this scores the rejected answer above the chosen one",
            "put a minus before the log-sigmoid",
            PREFERS_REJECTED,
        )


def _in_log_sigmoid(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(args=[ast.Call(args=[inner]) as nested]) if called(node) == "log" and called(nested) == "sigmoid":
            return inner
        case ast.Call(args=[inner]) if called(node) == "logsigmoid":
            return inner
        case ast.Call(func=ast.Attribute(value=ast.Call() as nested, attr="log"), args=[]):
            return nested.args[0] if called(nested) == "sigmoid" and len(nested.args) == 1 else None
        case _:
            return None


def _gap(source: Source, node: ast.expr, steps: int = MOST_NAMES) -> ast.BinOp | None:
    """The difference that an expression is, also scaled or under a name."""
    match node:
        case ast.BinOp(op=ast.Sub()):
            return node
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if steps:
            return _gap(source, left, steps - 1) or _gap(source, right, steps - 1)
        case ast.Name() if steps:
            made = list(loss_terms.definitions(source, node))
            value = made[0][0] if len(made) == 1 and made[0][1:] == (None, None) else None
            return _gap(source, value, steps - 1) if value is not None else None
        case _:
            return None


def _is(pattern: re.Pattern[str], node: ast.expr) -> bool:
    return any(pattern.search(each) for each in loss_terms.names(node))


def _entropy(source: Source, term: Term, terms: Sequence[Term]) -> Iterator[WrongSign]:
    """An entropy that is computed from log-probabilities and added to the loss of PPO."""
    pairs = [(one, other) for one in term.factors for other in term.factors if one is not other]
    if term.sign > 0 or not any(_are_p_log_p(one.expression, other.written, other.expression) for one, other in pairs):
        return
    if any(_is_surrogate(source, each) for each in terms) and not _may_be_negative(source, term):
        yield WrongSign(
            source.location(term.site),
            "the loss adds the entropy of the policy, so training lowers it",
            "subtract the entropy from the loss",
            LESS_ENTROPY,
        )


def _may_be_negative(source: Source, term: Term) -> bool:
    """Whether a file may give a coefficient of a term a negative number."""
    named = (each.expression for each in term.factors)
    return loss_terms.may_be_negative(source, [each for each in named if isinstance(each, ast.Name | ast.Attribute)])


def _are_p_log_p(one: ast.expr, *others: ast.expr) -> bool:
    """Whether one factor is the probability whose logarithm the other is: `logp.exp() * logp`, `p * p.log()`."""
    codes = {unparse(each) for each in others}
    match one:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="exp" | "log"), args=[inner]):
            return unparse(inner) in codes
        case ast.Call(func=ast.Attribute(value=inner, attr="exp" | "log"), args=[]):
            return unparse(inner) in codes
        case ast.Call() if called(one) == "softmax":
            logs = [each for each in others if called(each) == "log_softmax"]
            return any(unparse(each).replace("log_softmax", "softmax") == unparse(one) for each in logs)
        case _:
            return False


def _is_surrogate(source: Source, term: Term) -> bool:
    """Whether a term is the smaller of a ratio's product with an advantage and the same with the ratio clipped."""
    call = term.expression
    if not isinstance(call, ast.Call) or called(call) not in {"min", "max", "minimum", "maximum"}:
        return False
    inner = [one for each in call.args for part in loss_terms.terms(source, each) for one in part.factors]
    return any(called(each.expression) in {"clamp", "clip"} for each in inner)


def _rewards(source: Source) -> Iterator[WrongSign]:
    """The distance from a reference model that a reward grows with."""
    for node in source.nodes_of(ast.Assign, ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = unparse(target.value if isinstance(target, ast.Subscript) else target).rpartition(".")[2]
        if not REWARDS.search(name):
            continue
        falls = isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub)
        for term in loss_terms.terms(source, node.value):
            way = _distance(source, term, node.value)
            if way * term.sign * (-1 if falls else 1) > 0 and not _may_be_negative(source, term):
                is_here = node.lineno <= term.site.lineno <= (node.end_lineno or node.lineno)
                yield WrongSign(
                    source.location(term.site if is_here else node.value),
                    "the reward grows with the distance from the reference model",
                    "subtract the divergence from the reward",
                    "Training moves the model away from its reference: the reward rises without better answers, and "
                    "the text degenerates. No error is raised.",
                )


def _distance(source: Source, term: Term, written: ast.expr) -> int:
    """1 if a term is a divergence from a reference, -1 if it is its negative, 0 if it is anything else."""
    gaps = [gap for each in term.factors if (gap := _gap(source, each.expression)) is not None]
    named = {name for each in (written, *(each.written for each in term.factors)) for name in loss_terms.names(each)}
    if len(gaps) != 1 or not any(KL.search(each) for each in named) or not _are_logs(gaps[0].left, gaps[0].right):
        return 0
    sides = _is(REFERENCE, gaps[0].left), _is(REFERENCE, gaps[0].right)
    return {(False, True): 1, (True, False): -1}.get(sides, 0)


def _are_logs(left: ast.expr, right: ast.expr) -> bool:
    return all(_is(LOG_PROBABILITIES, each) for each in (left, right))
