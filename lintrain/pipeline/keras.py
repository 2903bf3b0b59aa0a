"""What the rules about Keras ask: how the script calls Keras, and which pretrained models a network holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.pipeline.modules import MOST_PARTS
from lintrain.pipeline.pipeline import Pipeline
from lintrain.pipeline.values.model import Layer, Model, ModelOutput, ModelPart, Network, Tensor
from lintrain.pipeline.values.python import Either, Instance, Mapping, Sequence, Value


def keras_name(pipeline: Pipeline) -> str | None:
    """The code that stands for Keras in a script (`keras`, `tf.keras`), None where nothing imports it."""
    nodes = (node for source in pipeline.sources.values() for node in ast.walk(source.tree))
    names = [name for node in nodes for name in _names(node)]
    return min(names, key=len) if names else None


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name in {"keras", "tf_keras"}:
                yield alias.asname or alias.name
            elif alias.name == "tensorflow":
                yield f"{alias.asname or alias.name}.keras"
            elif alias.name == "tensorflow.keras" and alias.asname:
                yield alias.asname
    elif isinstance(node, ast.ImportFrom) and node.module == "tensorflow":
        yield from (alias.asname or alias.name for alias in node.names if alias.name == "keras")


def backbones(model: Value) -> list[Model]:
    """The pretrained transformers that a Keras model is, or is built around."""
    return [part for part in _parts_of(model) if isinstance(part, Model) and part.is_pretrained]


def _parts_of(model: Value) -> Iterator[Value]:
    pending, seen = [model], set[int]()
    while pending and len(seen) < MOST_PARTS:
        part = pending.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            pending.extend(_inside(part))


def _inside(part: Value) -> list[Value]:
    match part:
        case Layer():
            return [*part.inputs, *part.arguments.values()]
        case Network():
            return part.layers
        case ModelOutput() | Tensor() | ModelPart():
            return [part.model]
        case Instance():
            return list(part.attributes.values())
        case Sequence():
            return part.items
        case Mapping():
            return list(part.entries.values())
        case Either():
            return list(part.options)
        case _:
            return []
