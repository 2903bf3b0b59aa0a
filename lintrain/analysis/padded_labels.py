"""Labels that are the token ids of the inputs: with their padding, with the tokens of images, with the first token.

Sequences of Keras that are padded or cut at one end for training, and at the other for the evaluation.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PADS = lazy_pattern(
    r"\bpadding *= *(?:True|[\"'](?:max_length|longest)[\"'])|\bpad_to_max_length *= *True|\bpad_sequence\("
    r"|\+= *\[[\w.]*pad_token_id\]|\[[\w.]*pad_token_id\] *\*|\.pad\("
)
"""Code that pads rows of tokens."""

MASKS = lazy_pattern(r"\bignore_index\b")
"""Code of a loss that may leave out the padding."""

MADE = lazy_pattern(r"-100\b|\bDataCollatorFor\w+\(")
"""Code after which targets that are taken from the tokens may be others than these."""

HIDES = lazy_pattern(r"-100\b|ignore|masked_fill|where\(", re.IGNORECASE)
"""Code that may replace tokens of the padding by what the loss leaves out."""

SAME = frozenset({"to", "cuda", "cpu", "long", "clone", "detach", "contiguous"})
"""Methods whose result holds the same tokens."""


@dataclass(frozen=True, slots=True)
class SameLabels:
    """The labels of a pass that trains, which are its inputs; its mask says that rows are padded.

    `is_whole` if the model gets all of an encoding, `**batch`, and the mask with it.
    """

    location: Location
    mask: Location
    is_whole: bool = False


def _trains(scope: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in own_nodes(scope))


def same_labels(pipeline: Pipeline) -> Iterator[SameLabels]:
    """The labels in a script that are inputs with their padding, if the code that was read pads rows."""
    texts = pipeline.sources.values()
    if not any(each.contains(PADS) for each in texts) or any(each.contains(MASKS) for each in texts):
        return
    source = pipeline.source
    is_weighted = any(each.contains(NOT_AVERAGED) or each.contains(MADE) for each in texts)
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        if source.once(_trains, scope):
            nodes = own_nodes(scope)
            calls = [node for node in nodes if isinstance(node, ast.Call)]
            for call in calls:
                if (found := _same_in(source, call, nodes)) is not None and not _are_hidden(call, nodes):
                    yield found
            for loss in calls if not is_weighted else ():
                if _is_cross_entropy(source, loss) and (found := _shifted_in(source, loss, calls, nodes)) is not None:
                    yield found


NOT_AVERAGED = lazy_pattern(r"reduction *= *[\"']none|\breduce *= *False")
"""A loss for each token, which the code can multiply with a mask."""


def _is_cross_entropy(source: Source, call: ast.Call) -> bool:
    """Whether a call is that of a cross-entropy, or of a name that the file gives one."""
    name = unparse(call.func)
    if len(call.args) <= 1 or name.rpartition(".")[2] == "cross_entropy":
        return len(call.args) > 1
    return bool(re.fullmatch(r"[\w.]+", name)) and source.contains(
        rf"\b{re.escape(name)} *= *[\w.]*CrossEntropyLoss\(\)"
    )


def _shifted_in(
    source: Source, loss: ast.Call, calls: Sequence[ast.Call], nodes: Sequence[ast.AST]
) -> SameLabels | None:
    """The targets of a loss that are the tokens a network gets with a mask, from the second one on: `ids[:, 1:]`."""
    targets = _unshifted(loss.args[1], loss.lineno, nodes)
    for call in calls if targets is not None else ():
        given = [*call.args, *(each.value for each in call.keywords)]
        codes = [_tokens(each, call.lineno, nodes) for each in given] if call.lineno < loss.lineno else []
        masks = [each for each, code in zip(given, codes, strict=False) if "attention_mask" in code]
        if targets in codes and masks:
            return SameLabels(source.location(loss.args[1]), source.location(masks[0]))
    return None


def _unshifted(node: ast.expr, line: int, nodes: Sequence[ast.AST]) -> str | None:
    """The code of the tokens of which an expression has those from the second one on; None for any other."""
    for _ in range(4):
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME | JOINS:
            node = node.func.value
        match node:
            case ast.Subscript(
                value=tokens, slice=ast.Tuple(elts=[_, ast.Slice(lower=ast.Constant(value=1), upper=None)])
            ):
                return _tokens(tokens, line, nodes)
            case _:
                pass
        if (given := given_before(node, line, nodes)) is None:
            return None
        node, line = given
    return None


JOINS = frozenset({"flatten", "view", "reshape"})


def _same_in(source: Source, call: ast.Call, nodes: Sequence[ast.AST]) -> SameLabels | None:
    named = {each.arg: each.value for each in call.keywords}
    labels, mask = named.get("labels"), named.get("attention_mask")
    encoded = named.get(None)
    if labels is not None and isinstance(encoded, ast.Name):
        tokens = _tokens(labels, call.lineno, nodes)
        is_same = tokens in (f"{encoded.id}['input_ids']", f"{encoded.id}.input_ids")
        is_padded = is_same and _has_several(encoded, call.lineno, nodes)
        return SameLabels(source.location(labels), source.location(encoded), is_whole=True) if is_padded else None
    inputs = call.args[0] if call.args else named.get("input_ids")
    if labels is None or mask is None or inputs is None or isinstance(mask, ast.Constant):
        return None
    codes = [_tokens(each, call.lineno, nodes) for each in (inputs, labels)]
    return SameLabels(source.location(labels), source.location(mask)) if codes[0] == codes[1] else None


def _has_several(encoded: ast.Name, line: int, nodes: Sequence[ast.AST]) -> bool:
    """Whether an encoding is that of several texts, by its name in a loop or by what it is made of."""
    given = given_before(encoded, line, nodes)
    if given is None:
        loops = (node for node in nodes if isinstance(node, ast.For))
        return any(isinstance(each.target, ast.Name) and each.target.id == encoded.id == "batch" for each in loops)
    value = given[0]
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in SAME:
        value = value.func.value
    match value:
        case ast.Call(args=[ast.Name(id=name), *_]):
            return name.endswith("s") or "batch" in name
        case ast.Call(args=[ast.ListComp(), *_]):
            return True
        case _:
            return False


def _are_hidden(call: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Whether code before a call may hide some of its labels: it gives their name, or a part of it, another value."""
    labels = next((each.value for each in call.keywords if each.arg == "labels"), None)
    bound = unparse(labels) if labels is not None else ""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript(value=target), *_] | [target, *_], value=value):
                changes = unparse(target) in bound and node.lineno <= call.lineno
                if changes and HIDES.search(unparse(value)):
                    return True
            case ast.Call(func=ast.Attribute(value=target, attr=attr)) if attr.endswith("_"):
                if unparse(target) in bound and node.lineno <= call.lineno:
                    return True
            case _:
                pass
    return False


def _tokens(node: ast.expr, line: int, nodes: Sequence[ast.AST]) -> str:
    """The code of the tokens in an expression: `batch[0]` of `ids`, which was assigned `batch[0].to(device)`."""
    for _ in range(4):
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SAME:
            node = node.func.value
        if (given := given_before(node, line, nodes)) is None:
            break
        node, line = given
    return unparse(node)


def given_before(node: ast.expr, line: int, nodes: Sequence[ast.AST]) -> tuple[ast.expr, int] | None:
    """What the last assignment before a line gives a name, and its line; `a, b = c, d` gives each its part."""
    found = list[tuple[int, ast.expr]]()
    for each in nodes if isinstance(node, ast.Name) else ():
        match each:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=parts)) if len(names) == len(parts):
                pairs = list(zip(names, parts, strict=True))
            case ast.Assign(targets=[target, *_], value=value):
                pairs = [(target, value)]
            case _:
                continue
        found += [(each.lineno, part) for name, part in pairs if each.lineno < line and unparse(name) == unparse(node)]
    if not found:
        return None
    at, value = max(found, key=lambda pair: pair[0])
    return value, at


EXPANDS = (
    r"\b(Llava\w*|Qwen\d?(_5)?_?VL\w*|Idefics\d\w*|SmolVLM\w*|AutoModelForImageTextToText|AutoModelForVision2Seq)\b"
)
"""Models whose processors write a token for each patch of an image."""

MASKS_IMAGES = lazy_pattern(
    r"image_token|image_pad|convert_tokens_to_ids|additional_special_tokens|vision_start|<image>\W*\)|suffix"
)
"""Code that knows these tokens, or gives the answer by itself."""


def image_labels(source: Source) -> Iterator[Location]:
    """Where a function copies labels from the tokens of images and texts, and masks the padding alone."""
    if not source.contains(EXPANDS):
        return
    for function in source.nodes_of(ast.FunctionDef):
        code = source.code(source.location(function))
        calls = [node for node in walk(function) if isinstance(node, ast.Call)]
        has_images = any(keyword.arg == "images" for call in calls for keyword in call.keywords)
        if not has_images or "pad_token_id" not in code or MASKS_IMAGES.search(code):
            continue
        for node in walk(function):
            match node:
                case ast.Assign(value=ast.Call(func=ast.Attribute(value=copied, attr="clone"))) if _is_ids(copied):
                    yield source.location(node)
                case _:
                    pass


def _is_ids(node: ast.expr) -> bool:
    match node:
        case ast.Subscript(slice=ast.Constant(value="input_ids")) | ast.Attribute(attr="input_ids"):
            return True
        case _:
            return False


def compared_with_bos(source: Source) -> Iterator[Location]:
    """The comparisons of the first label of each row with the BOS token: `labels[:, 0] == tokenizer.bos_token_id`.

    Without those of a function that generates text and gives labels to no model: there they are what is scored against.
    """
    scored = {id(node) for each in source.nodes_of(ast.FunctionDef) if _only_scores(each) for node in own_nodes(each)}
    for node in source.nodes_of(ast.Compare):
        match node:
            case ast.Compare(
                left=ast.Subscript(slice=ast.Tuple(elts=[ast.Slice(), ast.Constant(value=0)])),
                ops=[ast.Eq()],
                comparators=[token],
            ):
                if id(node) not in scored and (_is_bos(token) or _is_named_bos(source, token)):
                    yield source.location(node)
            case _:
                pass


def _only_scores(function: ast.FunctionDef) -> bool:
    calls = [node for node in own_nodes(function) if isinstance(node, ast.Call)]
    generates = any(isinstance(call.func, ast.Attribute) and call.func.attr == "generate" for call in calls)
    return generates and not any(each.arg in {"labels", None} for call in calls for each in call.keywords)


def _is_bos(token: ast.expr) -> bool:
    return isinstance(token, ast.Attribute) and token.attr == "bos_token_id"


def _is_named_bos(source: Source, token: ast.expr) -> bool:
    """Whether a name is only ever given the BOS token, or `self.name` is, as an argument of that name."""
    match token:
        case ast.Name(id=name):
            given = [node.value for node in source.nodes_of(ast.Assign) if unparse(node.targets[0]) == name]
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            given = [node.value for node in source.nodes_of(ast.keyword) if node.arg == name]
        case _:
            return False
    return bool(given) and all(map(_is_bos, given))


@dataclass(frozen=True, slots=True)
class OtherEnd:
    """Held-out sequences that are padded or cut at another end than those of the training: where, both names, the ends.

    `setting` is `padding` or `truncating`, `end` what it is here, `trained` where the others are made.
    """

    location: Location
    name: str
    other: str
    setting: str
    end: str
    trained: Location


def padded_at_other_end(source: Source) -> Iterator[OtherEnd]:
    """The held-out sequences of a file that `pad_sequences` treats otherwise than those that are named alike."""
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)) if source.contains("pad_sequences") else ():
        padded = [
            (node.targets[0].id, call, words_of(node.targets[0].id))
            for node in own_nodes(scope)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if (call := _padding_in(node.value)) is not None
        ]
        for name, call, words in (each for each in padded if each[2] & EVALUATION_WORDS):
            for other, first, others in padded:
                is_alike = words - SPLIT_WORDS == others - SPLIT_WORDS and not others & EVALUATION_WORDS
                if not is_alike or _given(source, call, "maxlen") != _given(source, first, "maxlen"):
                    continue
                for setting in ("truncating", "padding"):
                    ends = _given(source, call, setting), _given(source, first, setting)
                    if ends in {("pre", "post"), ("post", "pre")}:
                        yield OtherEnd(
                            source.location(call), name, other, setting, str(ends[0]), source.location(first)
                        )
                        break


SPLIT_WORDS = EVALUATION_WORDS | TRAINING_WORDS


def _padding_in(value: ast.expr) -> ast.Call | None:
    """The call of `pad_sequences` that gives a value, also inside of `np.array`."""
    match value:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name == "pad_sequences":
            return value if len(value.args) <= 2 and all(each.arg for each in value.keywords) else None
        case ast.Call(args=[inner]):
            return _padding_in(inner)
        case _:
            return None


def _given(source: Source, call: ast.Call, name: str) -> str | None:
    """What `pad_sequences` gets by a name, `pre` by default for an end; None where it is not known."""
    given = {each.arg: each.value for each in call.keywords}
    value = given.get(name, call.args[1] if name == "maxlen" and len(call.args) > 1 else None)
    if name == "maxlen":
        return unparse(value) if value is not None else ""
    if isinstance(value, ast.Name):
        value = source.cached(_constants).get(value.id, value)
    if value is None:
        return "pre"
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def _constants(source: Source) -> dict[str, ast.expr]:
    """The constants of a file by names that are assigned once."""
    stored = Counter(each.id for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Store))
    return {
        target.id: node.value
        for node in source.nodes_of(ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name) and isinstance(node.value, ast.Constant) and stored[target.id] == 1
    }
