"""Terms of a loss with the wrong sign: what training is meant to raise and lowers, or the reverse.

An optimizer minimizes a loss. The entropy of a policy, the logarithm of its probabilities weighted by an advantage, the
values of a critic and the similarity of two views are to grow, so each is subtracted; a divergence is added.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence

from lintrain.analysis import loss_terms, origins, policy_ratios, returned_divergences
from lintrain.analysis.loss_terms import Factor, Term
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WEIGHTS = lazy_pattern(r"^(?:\w*_)?(?:advs?|advantages?|returns?|rets?|rewards?|gae|td_errors?|G|R)(?:_\w*)?$")
"""Names of what a better action has more of."""

GAINS = lazy_pattern(r"reward|return|td_target|\bR\b|\bG\b")

VALUES = lazy_pattern(r"value|critic|baseline|mean\(|\bv\b", re.IGNORECASE)

POLICIES = lazy_pattern(r"\bprobs?\b|\bpi\b|\bpi_\w|polic|action")

OPPOSED = lazy_pattern(
    r"orthogonal|divers|decorrelat|adversar|attack|perturb|negative|unlearn|maximi[sz]e", re.IGNORECASE
)
"""Code that pushes things apart on purpose."""

DISCOUNTED = lazy_pattern(r"gamma|discount|\b0?\.9\d|target_q|td_target", re.IGNORECASE)
"""Code that makes values of rewards."""

REWARDS, COSTS = lazy_pattern(r"\breward"), lazy_pattern(r"\bcosts?\b")

POSITIVE = lazy_pattern(r"^(?:positive|pos|p)s?$|^(?:positive|pos)_|_(?:positive|pos)$", re.IGNORECASE)
NEGATIVE = lazy_pattern(r"^(?:negative|neg|n)s?$|^(?:negative|neg)_|_(?:negative|neg)$", re.IGNORECASE)
DISTANCES = lazy_pattern(r"\.pow\(2\)|\*\* ?2|\bnorm\(|pairwise_distance|\bcdist\(|_dist(?:ance)?\(|\babs\(|mse_loss")
SIMILARITIES = lazy_pattern(r"cosine_similarity|matmul|einsum|@|\bbmm\(|\.dot\(|CosineSimilarity")

COSINES = frozenset({"cosine_similarity"})


LESS_ENTROPY = "The policy stops exploring early, often before it has found a good action. No error is raised."
RARER_ACTIONS = (
    "The policy learns to avoid what worked. The loss falls, the rewards get lower with it, and no error is raised."
)
PREFERS_REJECTED = (
    "The loss falls, but the model learns to rank each pair of answers the wrong way round. No error is raised."
)
"""What a wrong sign does to the training."""


@dataclass(frozen=True, slots=True)
class WrongSign:
    """A term with the wrong sign: where, what is wrong in words, what to write, and what it does to the training."""

    location: Location
    message: str
    remedy: str
    why: str


def wrong_signs(source: Source) -> Iterator[WrongSign]:
    """The terms of the losses of a file that have the wrong sign."""
    for call, terms in loss_terms.losses(source):
        for term in terms:
            for judge in (_entropy, _policy, _surrogate, _divergence, _triplet):
                yield from judge(source, term, terms)
        yield from _critic(source, call, terms)
        yield from _similarity(source, terms)
    yield from wrong_returns(source)
    for location in policy_ratios.upside_down(source):
        yield WrongSign(
            location,
            "this ratio is old to new, so training makes good actions less likely",
            "subtract the stored log-probability from that of the policy of now",
            "The ratio falls as the action becomes more likely, so each update does the opposite of what PPO intends. "
            "The loss may still fall, while the rewards get lower. No error is raised.",
        )


def wrong_returns(source: Source) -> Iterator[WrongSign]:
    """The divergences of a file with the wrong sign in what a function returns."""
    for terms in returned_divergences.returned_terms(source):
        for term in terms:
            yield from _divergence(source, term, terms, is_alone=len(terms) == 1)


def _entropy(source: Source, term: Term, terms: Sequence[Term]) -> Iterator[WrongSign]:
    """An entropy of a policy that is added to the loss, so that the policy explores less and less."""
    inner, weights = _one(term, _is_entropy)
    if inner is None or term.sign < 0 or "log_prob(" not in source.text or len(terms) < 2:
        return
    if not loss_terms.may_be_negative(source, [each.written for each in weights]):
        yield WrongSign(
            source.location(term.site),
            "the loss adds the entropy of the policy, so training lowers it",
            "subtract the entropy from the loss",
            LESS_ENTROPY,
        )


def _is_entropy(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="entropy"), args=[], keywords=[]):
            return True
        case _:
            return False


def _one(term: Term, matches: Callable[[ast.expr], bool]) -> tuple[Factor | None, list[Factor]]:
    """The only factor that matches, and the other ones."""
    found = [each for each in term.factors if matches(each.expression)]
    rest = [each for each in term.factors if each not in found]
    return (found[0] if len(found) == 1 else None), rest


def _policy(source: Source, term: Term, terms: Sequence[Term]) -> Iterator[WrongSign]:
    """The logarithm of a policy that is weighted by an advantage and minimized, so that good actions get rarer."""
    inner, weights = _one(term, is_log_of_policy)
    if inner is None or len(weights) != 1 or term.sign < 0:
        return
    weight = weights[0].written
    if grows_with_reward(source, weight):
        yield WrongSign(
            source.location(term.site),
            "minimizing this makes the actions with a high return less likely",
            "put a minus before the product of advantage and log-probability",
            RARER_ACTIONS,
        )


def is_log_of_policy(node: ast.expr) -> bool:
    """`policy.log_prob(action)`, or `torch.log(prob)` of what names a policy."""
    match node:
        case ast.Call(func=ast.Attribute(attr="log_prob"), args=[_, *_]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "th"), attr="log"), args=[inner]):
            return POLICIES.search(unparse(inner)) is not None
        case ast.Call(func=ast.Attribute(value=inner, attr="log"), args=[]):
            return POLICIES.search(unparse(inner)) is not None
        case _:
            return False


def grows_with_reward(source: Source, weight: ast.expr) -> bool:
    """Whether a weight is certainly larger for better actions: by its name, or as a difference from a value."""
    match weight:
        case ast.BinOp(left=left, op=ast.Sub(), right=right):
            is_gain = _is_named(left) or GAINS.search(unparse(left)) is not None
            return is_gain and VALUES.search(unparse(right)) is not None and not _is_named(right)
        case ast.Call(func=ast.Attribute(value=inner, attr="detach"), args=[]):
            return grows_with_reward(source, inner)
        case ast.Name() | ast.Attribute():
            made = [value for value, position, _ in loss_terms.definitions(source, weight) if position is None]
            if len(made) == 1 and isinstance(made[0], ast.BinOp) and isinstance(made[0].op, ast.Sub):
                return grows_with_reward(source, made[0])
            return _is_named(weight)
        case _:
            return False


def _is_named(node: ast.expr) -> bool:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return WEIGHTS.search(name) is not None


def called(node: ast.expr) -> str:
    """The last name of what a call calls; empty for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
        case _:
            return ""


def _surrogate(source: Source, term: Term, terms: Sequence[Term]) -> Iterator[WrongSign]:
    """The larger one of the two surrogates of PPO is maximized, so nothing limits the step; or the wrong sign."""
    call = term.expression
    if len(term.factors) != 1 or not isinstance(call, ast.Call) or len(call.args) != 2:
        return
    name, inner = called(call), [list(loss_terms.terms(source, each)) for each in call.args]
    if name not in {"min", "max", "minimum", "maximum"} or [len(each) for each in inner] != [1, 1]:
        return
    signs = {each[0].sign for each in inner}
    clipped = [each for each in inner if any(called(one.expression) in {"clamp", "clip"} for one in each[0].factors)]
    if len(signs) != 1 or len(clipped) != 1 or "exp(" not in source.text:
        return
    ratio = unparse(_clamped(clipped[0][0]))
    other = next(each[0] for each in inner if each is not clipped[0])
    if not any(_leads_to(source, one.expression, ratio) for one in other.factors):
        return
    upward, keeps_smaller = term.sign * signs.pop(), name.startswith("min") == (inner[0][0].sign > 0)
    if upward < 0 and not keeps_smaller:
        right = "min" if inner[0][0].sign > 0 else "max"
        message, remedy = (
            "PPO maximizes the larger surrogate here, which limits no step",
            f"take the `{right}` of the two",
        )
        why = (
            "For a step that is too large, the surrogate without the clip counts, so a single batch may move the "
            "policy far from the one that collected it. Training becomes unstable, and no error is raised."
        )
        yield WrongSign(source.location(call), message, remedy, why)
    elif upward > 0 and keeps_smaller:
        message = "minimizing this makes the actions with a high advantage less likely"
        yield WrongSign(source.location(term.site), message, "put a minus before the surrogate", RARER_ACTIONS)


def _clamped(term: Term) -> ast.expr:
    call = next(each.expression for each in term.factors if called(each.expression) in {"clamp", "clip"})
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch" | "th" | "np")), args=[inner, *_]):
            return inner
        case ast.Call(func=ast.Attribute(value=inner)):
            return inner
        case _:
            return call


def _leads_to(source: Source, node: ast.expr, code: str) -> bool:
    """Whether an expression is what a name stands for: `torch.exp(new - old)` of `ratio`."""
    if unparse(node) == code:
        return True
    made = {unparse(each.value) for each in source.nodes_of(ast.Assign) if unparse(each.targets[0]) == code}
    return unparse(node) in made


def _divergence(source: Source, term: Term, terms: Sequence[Term], *, is_alone: bool = False) -> Iterator[WrongSign]:
    """A divergence from the prior of a variational autoencoder that is subtracted from the loss.

    One that is alone is that of a function that gives only a divergence.
    """
    inner, weights = _one(term, _is_divergence)
    if (
        inner is None
        or (len(terms) < 2 and not is_alone)
        or any(isinstance(each.expression, ast.BinOp) for each in weights)
    ):
        return
    way = loss_terms.divergence(inner.expression) or 1
    if term.sign * way < 0 and not loss_terms.may_be_negative(source, [each.written for each in weights]):
        yield WrongSign(
            source.location(inner.expression),
            "the loss falls as this divergence grows, so training raises it",
            "the divergence is `-0.5 * sum(1 + logvar - mu**2 - exp(logvar))`, and is added to the loss",
            "The latent values move away from the prior without a limit, so what is decoded from the prior is useless. "
            "The loss falls, and no error is raised.",
        )


def _is_divergence(node: ast.expr) -> bool:
    return loss_terms.divergence(node) is not None or called(node) == "kl_divergence"


def _triplet(source: Source, term: Term, terms: Sequence[Term]) -> Iterator[WrongSign]:
    """A hinge that pulls the negative example closer and pushes the positive one away."""
    match term.expression:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="F" | "torch"), attr="relu" | "clamp"), args=[inner, *_]):
            pass
        case ast.Call(func=ast.Attribute(value=inner, attr="clamp" | "relu" | "clamp_min")):
            pass
        case _:
            return
    signs = dict[str, int]()
    for each in loss_terms.terms(source, inner):
        for factor in each.factors:
            signs.update(_side(factor.expression, each.sign))
    if term.sign > 0 and len(term.factors) == 1 and signs == {"positive": -1, "negative": 1}:
        yield WrongSign(
            source.location(term.expression),
            "this pulls the negative example closer and pushes the positive one away",
            "write `positive distance - negative distance + margin`",
            "The loss falls as the embeddings of different things become alike, so a search by distance gets worse "
            "with training. No error is raised.",
        )


def _side(node: ast.expr, sign: int) -> dict[str, int]:
    """Whether an expression is a distance to the positive or to the negative example, with its sign."""
    code, found = unparse(node), loss_terms.names(node)
    is_distance, is_similarity = DISTANCES.search(code) is not None, SIMILARITIES.search(code) is not None
    positive = any(POSITIVE.search(each) for each in found)
    negative = any(NEGATIVE.search(each) for each in found)
    if positive == negative or is_distance == is_similarity:
        return {}
    return {"positive" if positive else "negative": sign if is_distance else -sign}


def _critic(source: Source, call: ast.Call, terms: Sequence[Term]) -> Iterator[WrongSign]:
    """The values that a critic gives the actions of an actor, where the actor minimizes them."""
    optimizer = _stepping_after(source, call)
    if len(terms) != 1 or len(terms[0].factors) != 1 or terms[0].sign < 0 or optimizer is None:
        return
    value = terms[0].expression
    if not isinstance(value, ast.Call) or not source.contains(r"\breward") or source.contains(r"\bcosts?\b"):
        return
    critic, acting = unparse(value.func), _networks_in(source, value)
    owners = {critic, critic.rpartition(".")[0]} - {"", "self"}
    if not source.contains(DISCOUNTED) or not any(f"{each}.parameters()" in source.text for each in owners):
        return
    trained = _trained_by(source, optimizer)
    is_apart = not any(f"{each}.parameters()" in trained for each in owners)
    if is_apart and any(f"{each}.parameters()" in trained for each in acting):
        yield WrongSign(
            source.location(terms[0].site),
            f"the actor minimizes the values that `{critic}` gives its actions",
            "put a minus before the mean of the values",
            "The policy learns the actions that the critic values least. The loss falls, the rewards get lower, and no "
            "error is raised.",
        )


def _networks_in(source: Source, call: ast.Call) -> set[str]:
    """The code of what computes the arguments of a call, itself or by the names that it was given to."""
    found = set[str]()
    for each in call.args:
        for origin in origins.origins(source, each):
            found.update(unparse(node.func) for node in walk(origin.expression) if isinstance(node, ast.Call))
    return found


def _stepping_after(source: Source, call: ast.Call) -> str | None:
    """The code of the optimizer that steps next after a backward call, in the same block."""
    statement = origins.owner_of(source, call)
    blocks = source.cached(origins.blocks_of)
    block = blocks[statement][0] if statement in blocks else []
    for each in block[block.index(statement) + 1 :] if statement in block else []:
        match each:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr="step"))):
                return unparse(owner)
            case _:
                pass
    return None


def _trained_by(source: Source, optimizer: str) -> str:
    """The code of what an optimizer is given the parameters of."""
    made = loss_terms.assigned(source, optimizer)
    return unparse(made[0]) if len(made) == 1 else ""


def _similarity(source: Source, terms: Sequence[Term]) -> Iterator[WrongSign]:
    """A loss of nothing but the similarity of two views, which is minimized."""
    cosines = [each for each in terms if len(each.factors) == 1 and _is_cosine(source, each.expression)]
    if not cosines or len(cosines) != len(terms) or any(each.sign < 0 for each in cosines) or source.contains(OPPOSED):
        return
    yield WrongSign(
        source.location(cosines[0].site),
        "this loss is a cosine similarity, so training makes the two unlike",
        "minimize `1 - similarity`",
        "The loss falls until the two point in opposite directions, and no error is raised.",
    )


def _is_cosine(source: Source, node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in COSINES:
            return True
        case ast.Call(func=function):
            made = loss_terms.assigned(source, unparse(function))
            return bool(made) and all(called(each) == "CosineSimilarity" for each in made)
        case _:
            return False
