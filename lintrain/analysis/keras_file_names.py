"""Names of files that Keras 3 refuses to write, because their ending does not say which format they are to have."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import loss_terms
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

KERAS = lazy_pattern(
    r"\b(?:from|import)\s+keras\b|\btensorflow\.keras\b|\btf\.keras\b|from\s+tensorflow\s+import[^\n]*\bkeras\b"
)
OTHERS = lazy_pattern(r"\btf_keras\b|TF_USE_LEGACY_KERAS|\bstandalone_keras\b|keras\.src\.legacy|\bcompat\.v1\b")
"""Code that gets Keras 2 from where Keras 3 is installed."""

OTHER_CHECKPOINTS = lazy_pattern(r"\b(?:pytorch_)?lightning\b")

OTHER_MODELS = frozenset({"Word2Vec", "FastText", "Doc2Vec", "LdaModel", "Booster", "from_pretrained"})
"""What makes models of other libraries, whose `save` takes any name."""

OF_NETWORKS = r"(?:fit|compile|predict|evaluate|summary|train_on_batch|load_weights|get_layer)\("

WEIGHTS: tuple[str, ...] = (".weights.h5",)
MODELS: tuple[str, ...] = (".keras", ".h5", ".hdf5")
"""The endings that Keras 3 writes; a callback refuses the last one."""


@dataclass(frozen=True, slots=True)
class RefusedName:
    """A path with an ending that a call refuses: where, the call, the end of the path, and the ending it needs."""

    location: Location
    method: str
    end: str
    needed: str


def refused(source: Source) -> Iterator[RefusedName]:
    """The paths that a file gives Keras to save a network, or its weights, and that Keras 3 refuses."""
    if not source.contains(KERAS) or source.contains(OTHERS):
        return
    for call in calls_of(source, {"save", "save_weights", "ModelCheckpoint"}):
        name, words = last_name(call.func), {each.arg: each.value for each in call.keywords}
        path = call.args[0] if call.args else words.get("filepath")
        if path is None or None in words or not _is_of_keras(source, call, name):
            continue
        is_of_weights = name == "save_weights" or _saves_weights(words)
        allowed = WEIGHTS if is_of_weights else MODELS if name == "save" else MODELS[:2]
        end = _end(source, path)
        if end and _is_known(name, words) and not end.endswith(allowed):
            yield RefusedName(source.location(path), name, end, allowed[0])


def _is_known(name: str, words: dict[str | None, ast.expr]) -> bool:
    """Whether the format is certain: weights alone or all of a network, in one file."""
    if name == "ModelCheckpoint":
        return isinstance(words.get("save_weights_only", ast.Constant(value=False)), ast.Constant)
    return words.keys() <= {"filepath", "overwrite", "include_optimizer"}


def _saves_weights(words: dict[str | None, ast.expr]) -> bool:
    match words.get("save_weights_only"):
        case ast.Constant(value=value):
            return bool(value)
        case _:
            return False


def _is_of_keras(source: Source, call: ast.Call, name: str) -> bool:
    """Whether a call is certainly one of Keras: its callback, or a method of what is also trained as a network."""
    if name == "ModelCheckpoint":
        return not source.contains(OTHER_CHECKPOINTS)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or unparse(owner) in {"self", "super()"}:
        return False
    made = loss_terms.assigned(source, unparse(owner))
    if any(isinstance(each, ast.Call) and last_name(each.func) in OTHER_MODELS for each in made):
        return False
    return source.contains(rf"(?<![\w.]){re.escape(unparse(owner))}\.{OF_NETWORKS}")


def _end(source: Source, path: ast.expr, steps: int = 3) -> str:
    """The last characters of a path, after its last separator as far as they are known; empty if they are not."""
    match path:
        case ast.Constant(value=str() as text):
            return re.split(r"[/\\]", text)[-1]
        case ast.JoinedStr(values=[*_, last]) | ast.BinOp(op=ast.Add(), right=last):
            end = _end(source, last, steps)
            is_whole = isinstance(last, ast.Constant) and end != last.value
            # What is before `.h5` may be `.weights`.
            return end if is_whole or not any(each.endswith(end) for each in (*WEIGHTS, *MODELS)) else ""
        case ast.BinOp(op=ast.Div(), right=last):
            return _end(source, last, steps)
        case ast.Call(func=ast.Attribute(attr="join"), args=[*_, last]):
            return _end(source, last, steps)
        case ast.Call(func=ast.Attribute(value=ast.Constant() as text, attr="format")):
            return _end(source, text, steps)
        case ast.Name() if steps:
            made = list(loss_terms.definitions(source, path))
            is_plain = len(made) == 1 and made[0][1] is None and made[0][2] is None
            return _end(source, made[0][0], steps - 1) if is_plain else ""
        case _:
            return ""
