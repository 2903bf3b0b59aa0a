"""Contrastive losses: the scores of pairs of rows, which of them is the partner, and what is left out.

The scores are the products of all rows of one view with all rows of another, `a @ b.T`. A cross-entropy loss over them
learns that the labelled column is the partner of its row, and all other columns are not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from enum import StrEnum

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CROSS_ENTROPY = lazy_pattern(r"cross_entropy\(|CrossEntropyLoss")
PRODUCT = lazy_pattern(r"\.(?:T|mT)\b|\.t\(\)|\.transpose\(")

MASKS = lazy_pattern(r"mask|\beye\b|diag|triu|tril|where")
"""Code of a factor or a tensor that may leave out pairs."""

MOVES = frozenset({"to", "cuda", "cpu", "float", "bool", "long", "type", "detach", "clone", "contiguous", "half"})
"""Methods whose result has the values of the tensor that they are called on."""

HARMLESS_FILL = -1.0
"""The highest number that may be meant as a score: similarities of unit vectors are not lower."""

MOST_STEPS = 8


class Diagonal(StrEnum):
    """What the scores of a row with itself are set to."""

    KEPT = "kept"
    FILLED = "filled"
    LEFT_OUT = "left out"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Scores:
    """The rows whose products are the scores, and what their diagonal is; `change` sets it."""

    left: ast.expr
    right: ast.expr
    diagonal: Diagonal = Diagonal.KEPT
    change: ast.expr | None = None

    @property
    def are_of_one_view(self) -> bool:
        """Whether each row is compared with itself too."""
        return unparse(self.left) == unparse(self.right)


@dataclass(frozen=True, slots=True)
class WrongPairs:
    """A contrastive loss that learns something else: where, in words, what to write, and what that does to it."""

    location: Location
    message: str
    remedy: str
    why: str


def wrong_pairs(source: Source) -> Iterator[WrongPairs]:
    """The mistakes of the contrastive losses of a file: wrong partners, a diagonal that counts."""
    if not source.contains(PRODUCT):
        return
    if source.contains(CROSS_ENTROPY):
        for call in source.nodes_of(ast.Call):
            if len(call.args) > 1 and is_cross_entropy(source, call.func):
                scores = _scores(source, call.args[0], MOST_STEPS)
                if scores is not None:
                    yield from _judge(source, call, scores)


def _judge(source: Source, call: ast.Call, scores: Scores) -> Iterator[WrongPairs]:
    """The mistakes of one loss."""
    is_own = _are_own_numbers(source, call.args[1], MOST_STEPS)
    if scores.are_of_one_view and scores.diagonal is Diagonal.KEPT:
        if is_own:
            return  # a loss that only moves all rows away from each other
        yield WrongPairs(
            source.location(call),
            f"each row of `{unparse(scores.left)}` is compared with itself, which scores highest",
            "set the diagonal of the scores to `-inf` before the loss",
            "The loss compares the partner of each row with the row itself, so it stays high. No error is raised.",
        )
    elif scores.are_of_one_view and scores.diagonal is Diagonal.FILLED and scores.change is not None:
        yield WrongPairs(
            source.location(scores.change),
            "the diagonal keeps a score, so each row is a candidate of itself",
            "fill it with `-inf`: the exponential of 0 is 1",
            "The softmax counts one candidate too many for each row, so the loss is too high. No error is raised.",
        )
    elif scores.diagonal is Diagonal.LEFT_OUT and is_own:
        yield WrongPairs(
            source.location(call),
            "the labels are the diagonal of the scores, which is left out",
            "the loss is infinite: the partner of row `i` is in column `i + n` or `i - n`",
            "No row has a partner, so training only moves rows apart. No error is raised.",
        )
    elif not scores.are_of_one_view and _is_zeros(source, call.args[1]):
        yield WrongPairs(
            source.location(call),
            "the labels are 0, so all rows are to match the first one of the batch",
            "the partner of row `i` is in column `i`: `torch.arange(len(scores))`",
            "Training moves all embeddings towards that of one row, whatever they show. No error is raised.",
        )


def is_cross_entropy(source: Source, callee: ast.expr) -> bool:
    """Whether code calls the cross-entropy loss of torch, as a function or as an object that the file makes."""
    if last_name(callee) == "cross_entropy":
        return True
    made = [callee] if isinstance(callee, ast.Call) else loss_terms.assigned(source, unparse(callee))
    return bool(made) and all(
        isinstance(each, ast.Call) and last_name(each.func) == "CrossEntropyLoss" for each in made
    )


def _scores(source: Source, node: ast.expr, steps: int) -> Scores | None:
    """The rows whose products with each other an expression is: `a` and `b` of `a @ b.T / temperature`."""
    match node:
        case ast.BinOp(left=left, op=ast.Div()):
            return _scores(source, left, steps)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            scaled, factor = _scores(source, left, steps), right
            if scaled is None:
                scaled, factor = _scores(source, right, steps), left
            return _with(scaled, _by_factor(source, factor), node)
        case ast.Call(func=ast.Attribute(value=inner, attr="masked_fill"), args=[mask, number]):
            return _with(_scores(source, inner, steps), _filled(source, mask, number), node)
        case ast.Call(func=ast.Attribute(value=inner, attr="contiguous" | "float" | "clone"), args=[]):
            return _scores(source, inner, steps)
        case ast.Name() if steps:
            return _of_name(source, node, steps)
        case _:
            pair = pair_of_rows(node)
            return Scores(*pair) if pair is not None else None


def _of_name(source: Source, name: ast.Name, steps: int) -> Scores | None:
    made = list(loss_terms.definitions(source, name))
    if len(made) != 1 or made[0][1] is not None or made[0][2] is not None:
        return None
    value = made[0][0]
    scores = _scores(source, value, steps - 1)
    changes = list(_changes_in_place(source, name, value)) if scores is not None else []
    for change, diagonal in changes[:1]:
        scores = _with(scores, diagonal if len(changes) == 1 else Diagonal.UNKNOWN, change)
    return scores


def _with(scores: Scores | None, diagonal: Diagonal, change: ast.expr) -> Scores | None:
    """The scores after a change of their diagonal; a second one is not understood."""
    if scores is None or diagonal is Diagonal.KEPT:
        return scores
    found = diagonal if scores.diagonal is Diagonal.KEPT else Diagonal.UNKNOWN
    return Scores(scores.left, scores.right, found, change)


def _by_factor(source: Source, factor: ast.expr) -> Diagonal:
    """What a product with a factor makes of the diagonal: `1 - eye` sets it to 0."""
    made = made_by(source, factor, MOST_STEPS)
    match made:
        case (
            ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=mask) | ast.UnaryOp(op=ast.Invert(), operand=mask)
        ) if _is_eye(source, mask):
            return Diagonal.FILLED
        case _:
            is_other = MASKS.search(unparse(made)) is not None or MASKS.search(unparse(factor)) is not None
            return Diagonal.UNKNOWN if is_other else Diagonal.KEPT


def _changes_in_place(source: Source, name: ast.Name, value: ast.expr) -> Iterator[tuple[ast.expr, Diagonal]]:
    """The statements that write into the scores of a name between their value and their use."""
    scope = next((each for each in _functions(source) if any(one is name for one in walk(each))), source.tree)
    for node in own_nodes(scope):
        if not isinstance(node, ast.Call | ast.Assign) or not value.lineno < node.lineno < name.lineno:
            continue
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=changed), attr="fill_diagonal_"), args=[number]):
                diagonal = _of_number(number)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=changed), attr="masked_fill_"), args=[mask, number]):
                diagonal = _filled(source, mask, number)
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=changed), slice=mask)], value=number):
                diagonal = _filled(source, mask, number)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=changed), attr=method)) if method.endswith("_"):
                diagonal = Diagonal.UNKNOWN
            case _:
                continue
        if changed == name.id:
            yield node if isinstance(node, ast.Call) else node.value, diagonal


def _filled(source: Source, mask: ast.expr, number: ast.expr) -> Diagonal:
    return _of_number(number) if _is_eye(source, mask) else Diagonal.UNKNOWN


def _of_number(node: ast.expr) -> Diagonal:
    """What a diagonal of this number is: scores of -1 or more are candidates like the others."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return Diagonal.LEFT_OUT if -number < 1000 * HARMLESS_FILL else Diagonal.UNKNOWN
        case ast.Constant(value=bool()):
            return Diagonal.UNKNOWN
        case ast.Constant(value=int() | float() as number):
            return Diagonal.FILLED if number > HARMLESS_FILL else Diagonal.UNKNOWN
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as text)]):
            return Diagonal.LEFT_OUT if text.lower().startswith("-inf") else Diagonal.UNKNOWN
        case ast.UnaryOp(op=ast.USub(), operand=infinite) if unparse(infinite) in INFINITE:
            return Diagonal.LEFT_OUT
        case ast.Attribute(attr="min", value=ast.Call(func=ast.Attribute(attr="finfo"))):
            return Diagonal.LEFT_OUT
        case _:
            return Diagonal.UNKNOWN


INFINITE = frozenset({"float('inf')", "torch.inf", "math.inf", "np.inf", "numpy.inf"})


def _is_eye(source: Source, mask: ast.expr) -> bool:
    """Whether a mask certainly marks the diagonal of a matrix, and nothing else."""
    match made_by(source, mask, MOST_STEPS):
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="eye"), args=sizes):
            return len(sizes) == 1 or len({unparse(each) for each in sizes}) == 1
        case ast.Compare(left=inner, ops=[ast.Eq()], comparators=[ast.Constant(value=1)]):
            return _is_eye(source, inner)
        case _:
            return False


def made_by(source: Source, node: ast.expr, steps: int) -> ast.expr:
    """What an expression is made by, through names, moves and types."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=method)) if method in MOVES:
            return made_by(source, inner, steps)
        case ast.Name() if steps:
            made = list(loss_terms.definitions(source, node))
            is_one = len(made) == 1 and made[0][1] is None and made[0][2] is None
            return made_by(source, made[0][0], steps - 1) if is_one and not _is_changed(source, node.id) else node
        case _:
            return node


def _is_changed(source: Source, name: str) -> bool:
    """Whether a file writes into a tensor by its name."""
    return source.contains(rf"\b{name}\[[^\]]*\] = |\b{name}\.\w+_\(")


def _are_own_numbers(source: Source, labels: ast.expr, steps: int) -> bool:
    """Whether the label of each row is its own number: `torch.arange(2 * n)`."""
    match made_by(source, labels, steps):
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="arange"), args=[ast.Constant(value=0), _]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="arange"), args=given):
            return len(given) == 1
        case _:
            return False


def _is_zeros(source: Source, node: ast.expr) -> bool:
    match made_by(source, node, MOST_STEPS):
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="zeros"), args=[size, *_]):
            return not isinstance(size, ast.Constant | ast.List)
        case _:
            return False


def _functions(source: Source) -> list[ast.FunctionDef]:
    """The functions of a file, inner ones first."""
    return sorted(source.nodes_of(ast.FunctionDef), key=lambda each: -each.lineno)


def pair_of_rows(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The rows of a product of all rows with all rows: `a` and `b` of `a @ b.T` and `torch.matmul(a, b.t())`."""
    match node:
        case ast.BinOp(left=left, op=ast.MatMult(), right=right):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="matmul" | "mm"), args=[left, right]):
            pass
        case ast.Call(func=ast.Attribute(value=left, attr="matmul" | "mm"), args=[right]):
            pass
        case _:
            return None
    match right:
        case ast.Attribute(value=inner, attr="T" | "mT") | ast.Call(func=ast.Attribute(value=inner, attr="t"), args=[]):
            return left, inner
        case ast.Call(func=ast.Attribute(value=inner, attr="transpose"), args=[_, _]):
            return left, inner
        case _:
            return None


def given_for(source: Source, name: ast.Name) -> Iterator[ast.expr]:
    """What the calls of a function pass for the parameter of this name, by its position."""
    function = next((each for each in _functions(source) if any(one is name for one in walk(each))), None)
    parameters = [each.arg for each in function.args.args] if function is not None else []
    if function is None or name.id not in parameters:
        return
    position = parameters.index(name.id)
    for call in source.nodes_of(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == function.name and len(call.args) > position:
            yield call.args[position]
