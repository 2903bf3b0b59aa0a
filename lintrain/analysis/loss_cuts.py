"""Terms of a loss that carry no gradient to what they are to train, and terms that carry one to what they are not to.

The logarithm of a policy's probability trains the policy: detached, as a number or computed without gradients, it
trains nothing. What it is multiplied by is a number.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import loss_terms, origins, weight_averages
from lintrain.analysis.loss_signs import grows_with_reward, is_log_of_policy
from lintrain.analysis.loss_terms import Term
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OFF = ("torch.no_grad", "torch.inference_mode", "no_grad")

PENALTY, NORM = (
    lazy_pattern(r"autograd\.grad\("),
    lazy_pattern(r"\.norm\([^\n]*\) - 1\b|norm\w* - 1\b|- 1\.0\) ?\*\* ?2"),
)
"""Code of gradients, and of a norm that is to be 1."""

TARGET_ENTROPY = lazy_pattern(r"target_entropy|entropy_target")
LOG_OF_POLICY = lazy_pattern(r"log_?(?:pi|prob)|^logp")
TEACHER = lazy_pattern(r"teacher", re.IGNORECASE)

FREEZES = (r"requires_grad_\(False", r"parameters\(\):\s*\w+\.requires_grad(?:_\(False| = False)", r"freeze\(")
"""Code after the name of a network that takes it out of training."""


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


def penalties(source: Source) -> Iterator[Location]:
    """The gradients whose norm is a term of a loss, and that are computed without a graph of their own."""
    if not source.contains(PENALTY):
        return
    for function in source.nodes_of(ast.FunctionDef):
        code = unparse(function)
        for call in own_nodes(function) if PENALTY.search(code) else ():
            match call:
                case ast.Call(func=ast.Attribute(value=owner, attr="grad"), keywords=keywords):
                    given = {each.arg: unparse(each.value) for each in keywords}
                    is_cut = unparse(owner).endswith("autograd") and given.get("create_graph", "False") == "False"
                    # What is computed under `no_grad`, with `enable_grad` inside, is only recorded.
                    is_term = NORM.search(code) is not None and not _is_off(source, call)
                    if is_cut and None not in given and is_term:
                        yield source.location(call)
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
    around: list[ast.With | ast.FunctionDef] = [*source.nodes_of(ast.With), *source.nodes_of(ast.FunctionDef)]
    for each in around:
        if not each.lineno <= node.lineno <= (each.end_lineno or each.lineno):
            continue
        managers = [item.context_expr for item in each.items] if isinstance(each, ast.With) else each.decorator_list
        if any(unparse(one).startswith(OFF) for one in managers):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Uncut:
    """Something with gradients that is meant to be a number: where, in words, and where it is computed."""

    location: Location
    message: str
    made: Location
    remedy: str


def temperatures(source: Source) -> Iterator[Uncut]:
    """The entropy of a policy that a learned coefficient is compared with, in one loss with that of the policy."""
    if not source.contains(TARGET_ENTROPY):
        return
    for _, terms in loss_terms.losses(source):
        for term in terms if len(terms) > 1 else []:
            sums = [each.expression for each in term.factors if TARGET_ENTROPY.search(unparse(each.expression))]
            for part in walk(sums[0]) if len(sums) == 1 else []:
                if not isinstance(part, ast.Name) or not LOG_OF_POLICY.search(part.id):
                    continue
                if not _is_cut_where_used(source, sums[0], part):
                    yield Uncut(
                        source.location(sums[0]),
                        f"`{unparse(part)}` carries gradients, so the coefficient's loss moves the policy",
                        source.location(sums[0]),
                        f"write `{unparse(part)}.detach()`",
                    )


def _is_cut_where_used(source: Source, whole: ast.expr, name: ast.expr) -> bool:
    code = re.escape(unparse(name))
    is_cut = re.search(rf"\b{code}(?:\.\w+\([^()]*\))*\.(?:detach|item|data)\b", unparse(whole)) is not None
    made = [value for value, _, _ in loss_terms.definitions(source, name)] if isinstance(name, ast.Name) else []
    return is_cut or _is_off(source, whole) or any(_is_off(source, each) or "detach" in unparse(each) for each in made)


def trained_references(source: Source) -> Iterator[Uncut]:
    """The passes of a teacher, or of an average of the weights, that record gradients an optimizer applies."""
    averaged = set(weight_averages.averaged(source))
    for name, call, may_teach in source.gathered(_calls_by_name):
        is_teacher = may_teach and f"{name}.eval()" in source.text
        if not (name in averaged or is_teacher) or _is_off(source, call) or _is_frozen(source, name):
            continue
        # An optimizer of a teacher alone trains it on purpose, before it teaches.
        made = _optimizer_of(source, call, name, may_be_its_own=name in averaged)
        if made is not None and not _is_detached_later(source, call):
            yield Uncut(
                source.location(call),
                f"`{name}` runs with gradients, and the optimizer trains it too",
                source.location(made),
                "compute it under `torch.no_grad()`",
            )


def _calls_by_name(statement: ast.stmt) -> list[tuple[str, ast.Call, bool]]:
    """The calls of a name or an attribute, and whether it is called like a teacher."""
    calls = [each for each in walk(statement) if isinstance(each, ast.Call)]
    named = [(unparse(each.func), each) for each in calls if isinstance(each.func, ast.Name | ast.Attribute)]
    return [(name, call, TEACHER.search(name.rpartition(".")[2]) is not None) for name, call in named]


def _is_frozen(source: Source, name: str) -> bool:
    return any(source.contains(rf"{re.escape(name)}\.{what}") for what in FREEZES)


def _is_detached_later(source: Source, call: ast.Call) -> bool:
    """Whether code detaches what a call gives, in the call's own statement or by the name that it gets there."""
    statement = origins.owner_of(source, call)
    if statement is None or "detach" in unparse(statement) or "stop_grad" in source.text:
        return True
    names = [unparse(each) for each in statement.targets] if isinstance(statement, ast.Assign) else []
    parts = "|".join(each.strip(" ()") for name in names for each in name.split(","))
    around = [each for each in source.nodes_of(ast.FunctionDef) if each.lineno <= call.lineno <= (each.end_lineno or 0)]
    code = unparse(around[-1] if around else source.tree)
    later = rf"\b(?:{parts})\b(?:\.\w+\([^()]*\)|\[[^\]]*\])*\.(?:detach|data|item)\b"
    return bool(parts) and re.search(later, code) is not None


def _optimizer_of(source: Source, call: ast.Call, name: str, *, may_be_its_own: bool) -> ast.Call | None:
    """The call that makes an optimizer of all weights of the object that a network is a part of, or of its own."""
    owner = next((each for each in source.nodes_of(ast.ClassDef) if any(one is call for one in walk(each))), None)
    for each in source.nodes_of(ast.Call):
        made = re.search(r"(?:^|optim\.)(?:SGD|Adam\w*|RMSprop|Lion|LARS)$", unparse(each.func))
        given = re.match(r"([\w.]+)\.parameters\(\)$", unparse(each.args[0])) if made and each.args else None
        if made and each.args and given is None and _trains_with_others(each.args[0], name):
            return each
        if given is None:
            continue
        is_whole = name.startswith("self.") and owner is not None and "Module" in "".join(map(unparse, owner.bases))
        if (
            (given[1] == name and may_be_its_own)
            or (is_whole and given[1] == "self")
            or (is_whole and "." not in given[1])
        ):
            return each
    return None


def _trains_with_others(parameters: ast.expr, name: str) -> bool:
    """Whether an optimizer gets all parameters of a network next to those of another one, in a list or a chain."""
    calls = (each.func for each in walk(parameters) if isinstance(each, ast.Call) and not each.args)
    owners = {unparse(each.value) for each in calls if isinstance(each, ast.Attribute) and each.attr == "parameters"}
    return name in owners and len(owners) > 1
