"""Masks of class numbers that a resize mixes, or that `ToTensor` divides by 255."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

MASKS = frozenset({"mask", "masks", "msk", "msks", "seg", "segmentation", "annotation", "annotations"})
"""Words in the names of masks."""

DATA = frozenset({"VOCSegmentation", "Cityscapes", "OxfordIIITPet", "SBDataset"})
"""Data sets of torchvision whose targets are masks of class numbers."""

OF_CLASSES = r"sparse_categorical|SparseCategorical|CrossEntropyLoss\(|\bcross_entropy\("
"""Losses whose targets are class numbers."""

OF_FRACTIONS = r"BCE|(?i:binary_?cross|sigmoid)"
"""Losses and activations for masks of one class, whose targets may be fractions."""

PALETTE = frozenset({"VOCSegmentation"})
"""Data sets whose masks are pictures with a palette: Pillow always resizes these to the nearest value."""

TENSORS = r"\b(?:PIL)?ToTensor\b|\bpil_to_tensor\b|\bToImage\b"
"""What makes a tensor of a picture, which has no palette."""

WHOLE = frozenset({"torch.long", "torch.int64", "torch.LongTensor"})
"""Types of class numbers."""

KEEPS = frozenset({"squeeze", "view", "reshape", "flatten", "contiguous", "to", "cuda", "clone"})
"""Methods that change no number."""

MIXES = frozenset({"Resize", "RandomResizedCrop"})
"""Transforms of torchvision that compute new values between those of an image, if no interpolation prevents it."""


@dataclass(frozen=True, slots=True)
class ChangedMask:
    """A step that changes class numbers: where, what it does, and what to write."""

    location: Location
    problem: str
    remedy: str


def changed_masks(source: Source) -> list[ChangedMask]:
    """The steps of a file that certainly get masks of class numbers."""
    return source.cached(_changed_masks)


def _changed_masks(source: Source) -> list[ChangedMask]:
    if not source.contains(r"(?i)mask|segment|annotation|OxfordIIITPet|Cityscapes|label"):
        return []
    transforms = _transforms(source)
    found = [each for call in source.nodes_of(ast.Call) for each in _of_call(source, call, transforms)]
    if source.contains(OF_CLASSES) and not source.contains(OF_FRACTIONS):
        found += [each for call in source.nodes_of(ast.Call) for each in _resized(source, call)]
    return found


def _transforms(source: Source) -> dict[str, ast.Call]:
    """The transforms of torchvision by the names and attributes that are bound to them once."""
    found = dict[str, list[ast.Call]]()
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.value, ast.Call) and isinstance(node.targets[0], ast.Name | ast.Attribute):
            found.setdefault(unparse(node.targets[0]), []).append(node.value)
    return {name: calls[0] for name, calls in found.items() if len(calls) == 1}


def _of_call(source: Source, call: ast.Call, transforms: dict[str, ast.Call]) -> Iterator[ChangedMask]:
    """What becomes whole numbers after a transform, and the targets of a data set of masks."""
    match call:
        case ast.Call(func=ast.Attribute(value=made, attr="long"), args=[]):
            yield from _of_whole_numbers(source, made, transforms)
        case ast.Call(func=ast.Attribute(value=made, attr="to" | "type"), args=[kind]) if unparse(kind) in WHOLE:
            yield from _of_whole_numbers(source, made, transforms)
        case ast.Call(func=func, keywords=keywords) if last_name(func) in DATA:
            given = next((each.value for each in keywords if each.arg == "target_transform"), None)
            named = isinstance(given, ast.Name | ast.Attribute)
            transform = transforms.get(unparse(given)) if given is not None and named else given
            is_masks = last_name(func) != "OxfordIIITPet" or "segmentation" in unparse(call)
            if isinstance(transform, ast.Call) and is_masks and "255" not in unparse(transform):
                yield from _of_transform(source, transform, is_palette=last_name(func) in PALETTE)
        case _:
            pass


def _of_whole_numbers(source: Source, node: ast.expr, transforms: dict[str, ast.Call]) -> Iterator[ChangedMask]:
    """What was applied before code makes whole numbers of the result, in the same expression or by a name before."""
    made = _made(source, node)
    if "255" in unparse(made):
        return  # `(transform(mask) * 255).long()` has class numbers again
    applied = [each for each in walk(made) if isinstance(each, ast.Call) and each.args]
    used = [transforms[name] for each in applied if (name := unparse(each.func)) in transforms]
    if len(used) == 1:
        yield from _of_transform(source, used[0], is_palette=False)
    for each in applied:
        is_called_where_made = isinstance(each.func, ast.Call) and last_name(each.func.func) == "ToTensor"
        is_to_tensor = is_called_where_made or last_name(each.func) == "to_tensor"
        if is_to_tensor and not _is_of_other_integers(source, each.args[0]):
            yield ChangedMask(
                source.location(each),
                "`ToTensor` divides the class numbers of a mask by 255",
                "use `torch.from_numpy(np.array(mask))` or `PILToTensor`, which keep whole numbers",
            )


def _is_of_other_integers(source: Source, given: ast.expr) -> bool:
    """Whether code chooses a type of integers for what `ToTensor` gets: it divides only bytes."""
    before = [value for value, _, _ in loss_terms.definitions(source, given)] if isinstance(given, ast.Name) else []
    return any(re.search(r"(?<!u)int|long", unparse(each)) for each in (given, *before))


def _made(source: Source, node: ast.expr) -> ast.expr:
    """What a tensor of a picture was made by, through methods that keep its numbers and the name that it has."""
    node = _bare(node)
    if not isinstance(node, ast.Name):
        return node
    before = list(loss_terms.definitions(source, node))
    is_plain = len(before) == 1 and before[0][1] is None and before[0][2] is None
    return _bare(before[0][0]) if is_plain else node


def _bare(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEEPS:
        node = node.func.value
    return node


def _of_transform(source: Source, transform: ast.Call, *, is_palette: bool) -> Iterator[ChangedMask]:
    """The steps of one transform that change class numbers."""
    code = source.code(source.location(transform))
    for call in walk(transform):
        if not isinstance(call, ast.Call):
            continue
        name = last_name(call.func)
        before = code.partition(source.code(source.location(call)))[0]
        if name in MIXES and not _is_nearest(call) and not (is_palette and re.search(TENSORS, before) is None):
            yield ChangedMask(
                source.location(call),
                f"`{name}` mixes the class numbers of a mask into others",
                "pass `interpolation=InterpolationMode.NEAREST`",
            )
        if name == "ToTensor":
            yield ChangedMask(
                source.location(call),
                "`ToTensor` divides the class numbers of a mask by 255",
                "use `PILToTensor`, which keeps whole numbers",
            )


def _is_nearest(call: ast.Call, first: int = 1) -> bool:
    """Whether an interpolation is given that may be the nearest value: only that mixes nothing."""
    given = [each.value for each in call.keywords if each.arg in {"interpolation", "method", None}] + call.args[first:]
    mixing = {"bilinear", "linear", "bicubic", "cubic", "area", "inter_linear", "inter_area", "inter_cubic", "lanczos"}
    return any(not {unparse(each).rpartition(".")[2].strip("'\"").lower()} & mixing for each in given)


RESIZES = {
    "cv2.resize": "pass `interpolation=cv2.INTER_NEAREST`",
    "tf.image.resize": 'pass `method="nearest"`',
    "TF.resize": "pass `interpolation=InterpolationMode.NEAREST`",
}
"""Functions that compute new values between those of an image, with what prevents it."""


def _resized(source: Source, call: ast.Call) -> Iterator[ChangedMask]:
    """`cv2.resize(mask, size)` in a file whose loss takes class numbers."""
    code = unparse(call.func)
    if code not in RESIZES or len(call.args) < 2:
        return
    if not _is_nearest(call, 2) and _is_mask(source, call) and not _is_of_fractions(source, call):
        yield ChangedMask(
            source.location(call), f"`{code}` mixes the class numbers of a mask into others", RESIZES[code]
        )


READS_FRACTIONS = frozenset({"plt.imread", "mpimg.imread", "pyplot.imread", "matplotlib.pyplot.imread"})
"""Functions of Matplotlib that read a PNG as fractions: code has to turn them into class numbers afterwards."""


def _is_of_fractions(source: Source, call: ast.Call) -> bool:
    """Whether what is resized is a picture that Matplotlib reads: colors, from which class numbers are made later."""
    given, line = call.args[0], call.lineno
    if not isinstance(given, ast.Name):
        return isinstance(given, ast.Call) and unparse(given.func) in READS_FRACTIONS
    bound = [
        node.value
        for node in source.nodes_of(ast.Assign)
        if node.lineno < line and any(unparse(each) == given.id for each in node.targets)
    ]
    last = max(bound, key=lambda each: each.lineno, default=None)
    return isinstance(last, ast.Call) and unparse(last.func) in READS_FRACTIONS


def _is_mask(source: Source, call: ast.Call) -> bool:
    """Whether what is resized, or what the result becomes, has the name of a mask."""
    # `mask / mask.max()` is a map of weights, and no class numbers.
    if any(isinstance(each, ast.Div) for each in walk(call.args[0])):
        return False
    named = words_of(unparse(call.args[0]))
    for node in source.nodes_of(ast.Assign, ast.Call):
        match node:
            case ast.Assign(targets=[target], value=value) if value is call:
                named |= words_of(unparse(target))
            case ast.Call(func=ast.Attribute(value=owner, attr="append"), args=[given]) if given is call:
                named |= words_of(unparse(owner))
            case _:
                pass
    return bool(named & MASKS)
