"""Masks that the attention layers of torch get: which tokens they hide, as far as the code says.

A mask of numbers is added to the scores. A mask of booleans is True where a token must *not* be attended, except for
`scaled_dot_product_attention`, where it is True for what may be attended.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import StrEnum

from lintrain.analysis import origins
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LAYERS = frozenset(
    {
        "Transformer", "TransformerEncoder", "TransformerDecoder", "TransformerEncoderLayer",
        "TransformerDecoderLayer", "MultiheadAttention",
    }
)  # fmt: skip

OF_PADDING = frozenset({"src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask", "key_padding_mask"})
OF_ORDER = frozenset({"mask", "src_mask", "tgt_mask", "attn_mask"})
"""Arguments for masks over the tokens of each text, and over pairs of positions."""

PADDING = lazy_pattern(r"^(0|1|-100)$|(^|[._])pad", re.IGNORECASE)
"""The code of the number of the padding token."""

OTHERS = lazy_pattern(r"mask|pad|valid|flag|is_|len", re.IGNORECASE)
"""Names of what is compared with a number and holds no tokens."""

SAME = frozenset({"bool", "to", "cuda", "cpu", "type", "contiguous", "transpose", "t", "squeeze", "clone", "detach"})
"""Methods that leave the entries of a mask what they are."""


class Holds(StrEnum):
    """What the entries of a mask are True, or 1, for."""

    TOKENS = "tokens"
    PADDING = "padding"
    EARLIER = "earlier"
    LATER = "later"
    FROM_OWN = "own and later"
    BEFORE_OWN = "earlier, and not the own"


ORDERED = frozenset({Holds.EARLIER, Holds.LATER, Holds.FROM_OWN, Holds.BEFORE_OWN})
"""Masks over pairs of positions."""

TURNED = {
    Holds.EARLIER: Holds.FROM_OWN,
    Holds.FROM_OWN: Holds.EARLIER,
    Holds.LATER: Holds.BEFORE_OWN,
    Holds.BEFORE_OWN: Holds.LATER,
}
"""What such a mask holds once its two axes are exchanged."""

OPPOSITE = {
    Holds.TOKENS: Holds.PADDING,
    Holds.PADDING: Holds.TOKENS,
    Holds.EARLIER: Holds.LATER,
    Holds.LATER: Holds.EARLIER,
    Holds.FROM_OWN: Holds.BEFORE_OWN,
    Holds.BEFORE_OWN: Holds.FROM_OWN,
}


@dataclass(frozen=True, slots=True)
class Mask:
    """What a mask holds, and whether it has booleans rather than numbers."""

    holds: Holds
    is_bool: bool

    def inverted(self) -> Mask:
        """The mask with each entry replaced by its opposite."""
        return Mask(OPPOSITE[self.holds], self.is_bool)


@dataclass(frozen=True, slots=True)
class Given:
    """A mask that a layer gets: where, the name of the argument, and what it hides that it should not."""

    location: Location
    argument: str
    mask: Mask


def wrong_masks(source: Source) -> Iterator[Given]:
    """The masks that hide the wrong tokens, or none."""
    layers = source.cached(attention_layers)
    may_attend = bool(layers) or "scaled_dot_product_attention" in source.text
    for call in source.nodes_of(ast.Call) if may_attend else ():
        is_function = last_name(call.func) == "scaled_dot_product_attention"
        if not is_function and unparse(call.func) not in layers:
            continue
        for keyword in call.keywords:
            name = keyword.arg or ""
            mask = mask_of(source, keyword.value) if name in OF_PADDING | OF_ORDER else None
            if mask is not None and _is_wrong(mask, is_function, name):
                yield Given(source.location(keyword.value), name, mask)


def _is_wrong(mask: Mask, is_function: bool, argument: str) -> bool:
    is_of_order = mask.holds in ORDERED
    if is_of_order != (argument in OF_ORDER) and not is_function:
        return False
    if not mask.is_bool:
        return is_of_order  # 0 and 1 are added to the scores, which hides nothing
    if is_function:
        return mask.holds in {Holds.LATER, Holds.PADDING, Holds.BEFORE_OWN}
    return mask.holds in {Holds.EARLIER, Holds.TOKENS, Holds.FROM_OWN}


def attention_layers(source: Source) -> dict[str, str]:
    """The code of what holds an attention layer of torch, with the name of the layer."""
    found: dict[str, str] = {}
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in LAYERS:
            path = unparse(node.value.func)
            if path.startswith(("nn.", "torch.nn.")) or "torch.nn import" in source.text:
                found.update((unparse(target), last_name(node.value.func)) for target in node.targets)
    own = {node.name for node in source.nodes_of(ast.ClassDef)}
    return {} if own & LAYERS else found


MOST_STEPS = 12
"""Names and operations that are followed from a mask to where it is made."""


def mask_of(source: Source, node: ast.expr, steps: int = MOST_STEPS) -> Mask | None:
    """What an expression holds as a mask; None if that is not certain."""
    if steps <= 0:
        return None
    match node:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return _mask_of_name(source, node, steps)
        case ast.UnaryOp(op=ast.Invert(), operand=inner):
            mask = mask_of(source, inner, steps - 1)
            return mask.inverted() if mask else None
        case ast.Compare(left=left, ops=[op], comparators=[ast.expr() as right]):
            return _compared(source, left, op, right, steps)
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=inner):
            mask = mask_of(source, inner, steps - 1)
            return mask.inverted() if mask else None
        case ast.Subscript(value=inner, slice=ast.Constant(value="attention_mask")):
            return Mask(Holds.TOKENS, False)
        case ast.Subscript(value=inner):
            return mask_of(source, inner, steps - 1)
        case ast.Call():
            return _called(source, node, steps)
        case _:
            return None


def _mask_of_name(source: Source, node: ast.Name | ast.Attribute, steps: int) -> Mask | None:
    """What a name was given: by the last assignment, or as the parameter of a pass that gets an encoding."""
    given = [each for each in origins.origins(source, node) if each.expression is not node]
    if given:
        return mask_of(source, given[0].expression, steps - 1) if given[0].is_certain else None
    if isinstance(node, ast.Attribute):
        own = _class_around(source, node)
        stored = [each for each in source.nodes_of(ast.Assign) if unparse(each.targets[0]) == unparse(node)]
        stored = [each for each in stored if _class_around(source, each) is own]
        calls = (each for each in source.nodes_of(ast.Call) if _registers(each, node.attr))
        buffers = [each.args[1] for each in calls if _class_around(source, each) is own]
        made = [*(each.value for each in stored), *buffers]
        return mask_of(source, made[0], steps - 1) if len(made) == 1 else None
    function = next((each for each in source.nodes_of(ast.FunctionDef) if node in walk(each)), None)
    names = [each.arg for each in function.args.args] if function else []
    return Mask(Holds.TOKENS, False) if node.id == "attention_mask" in names and "input_ids" in names else None


def _class_around(source: Source, node: ast.expr | ast.stmt) -> ast.ClassDef | None:
    """The innermost class around a node: others may have an attribute of the same name."""
    line = node.lineno
    around = (each for each in source.nodes_of(ast.ClassDef) if each.lineno <= line <= (each.end_lineno or line))
    return max(around, key=lambda each: each.lineno, default=None)


def _registers(call: ast.Call, name: str) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(attr="register_buffer"), args=[ast.Constant(value=given), _, *_]):
            return given == name
        case _:
            return False


def _compared(source: Source, left: ast.expr, op: ast.cmpop, right: ast.expr, steps: int) -> Mask | None:
    """`ids != 0` of tokens, and `mask == 0` of a mask."""
    before = mask_of(source, left, steps - 1)
    number = right.value if isinstance(right, ast.Constant) else None
    if before is not None and number in {0, 1} and isinstance(op, ast.Eq | ast.NotEq | ast.Gt):
        is_same = (number == 1) == isinstance(op, ast.Eq) or isinstance(op, ast.Gt)
        return Mask(before.holds if is_same else OPPOSITE[before.holds], True)
    if before is None and PADDING.search(unparse(right)) and isinstance(op, ast.Eq | ast.NotEq):
        return Mask(Holds.PADDING if isinstance(op, ast.Eq) else Holds.TOKENS, True) if _is_ids(left) else None
    return None


def _is_ids(node: ast.expr) -> bool:
    """Whether code may be token ids: a name, or such a name with other axes."""
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return OTHERS.search(unparse(node)) is None
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            return name in SAME and _is_ids(inner)
        case _:
            return False


def _called(source: Source, call: ast.Call, steps: int) -> Mask | None:
    name = last_name(call.func)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if name in {"tril", "triu"} and (triangle := _triangle(call, name)):
        return triangle
    if name in {"ne", "eq"} and owner is not None and call.args:
        left, right = (owner, call.args[0]) if unparse(owner) != "torch" else (call.args[0], call.args[-1])
        return _compared(source, left, ast.NotEq() if name == "ne" else ast.Eq(), right, steps)
    if name == "logical_not":
        inner = call.args[0] if call.args else owner
        mask = mask_of(source, inner, steps - 1) if inner is not None else None
        return Mask(OPPOSITE[mask.holds], True) if mask else None
    if name in SAME and owner is not None:
        mask = mask_of(source, owner, steps - 1)
        if mask is not None and name in {"transpose", "t"} and mask.holds in TURNED:
            return Mask(TURNED[mask.holds], mask.is_bool)
        given = [*call.args, *(each.value for each in call.keywords)]
        is_bool = name == "bool" or re.search("bool|uint8", "".join(map(unparse, given))) is not None
        return Mask(mask.holds, mask.is_bool or is_bool) if mask else None
    return _returned(source, call, steps)


def _triangle(call: ast.Call, name: str) -> Mask | None:
    """`torch.tril(torch.ones(t, t))`: the positions up to each one; `triu` with a diagonal those after it."""
    ones = call.args[0] if call.args and unparse(call.func).startswith("torch.") else getattr(call.func, "value", None)
    if not isinstance(ones, ast.Call) or last_name(ones.func) not in {"ones", "ones_like"}:
        return None
    others = [*call.args[1 if ones in call.args else 0 :], *(each.value for each in call.keywords)]
    diagonal = [each.value for each in others if isinstance(each, ast.Constant) and isinstance(each.value, int)]
    is_bool = any(each.arg == "dtype" and "bool" in unparse(each.value) for each in ones.keywords)
    if len(others) > 1 or len(diagonal) < len(others):
        return None
    holds = {("tril", 0): Holds.EARLIER, ("triu", 0): Holds.FROM_OWN, ("triu", 1): Holds.LATER}
    found = holds.get((name, diagonal[0] if diagonal else 0))
    return Mask(found, is_bool) if found is not None else None


def _returned(source: Source, call: ast.Call, steps: int) -> Mask | None:
    """What a function of the file returns, if it has one `return`."""
    name = last_name(call.func)
    found = [each for each in source.nodes_of(ast.FunctionDef) if each.name == name]
    ends = [each for function in found for each in walk(function) if isinstance(each, ast.Return)]
    if len(found) != 1 or len(ends) != 1 or ends[0].value is None:
        return None
    return mask_of(source, ends[0].value, steps - 1)


MULTIPLIES = lazy_pattern(r"@|matmul\(|einsum\(|\bbmm\(")

BEFORE = lazy_pattern(r"masked_fill|-inf|1e9|-1e4|finfo|\+ \w*mask|where\(")
"""Code that hides scores before the softmax."""


def masked_after_softmax(source: Source) -> Iterator[Location]:
    """The masks of attention that are applied to the weights, so that what they hide still has its share of them."""
    if not source.contains("softmax"):
        return
    for function in source.nodes_of(ast.FunctionDef):
        nodes = [each for each in own_nodes(function) if isinstance(each, ast.Assign)]
        code = unparse(function)
        if "softmax" not in code or "mask" not in code or len(MULTIPLIES.findall(code)) < 2:
            continue
        softmaxes = {unparse(each.targets[0]): each for each in nodes if _is_softmax(each.value)}
        for node in nodes:
            name = _masked(node)
            made = softmaxes.get(name)
            if made is None or made.lineno >= node.lineno or re.search(rf"{re.escape(name)} ?/=? ?|normalize\(", code):
                continue
            before = "\n".join(source.lines[function.lineno : made.end_lineno])
            if not BEFORE.search(before):
                yield source.location(node)


def _is_softmax(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func).lower() == "softmax"


def _masked(node: ast.Assign) -> str:
    """The code of weights that a statement sets to zero under a mask; empty for anything else."""
    match node:
        case ast.Assign(
            targets=[target], value=ast.Call(func=ast.Attribute(value=inner, attr="masked_fill"), args=given)
        ):
            is_zero = len(given) == 2 and isinstance(given[1], ast.Constant) and given[1].value == 0
            return unparse(target) if is_zero and unparse(inner) == unparse(target) else ""
        case ast.Assign(targets=[target], value=ast.BinOp(left=left, op=ast.Mult(), right=right)):
            mask = unparse(right)
            is_mask = "mask" in mask and "drop" not in mask and "head" not in mask
            return unparse(target) if is_mask and unparse(left) == unparse(target) else ""
        case _:
            return ""
