"""A size or a rate is set on an object that reads it only when it is made.

A layer makes its weights when it is built. `model.fc.out_features = 10` changes a number that is printed with the
layer, and the head still has 1,000 outputs; the loss then works with 1,000 classes, without an error. An optimizer
reads its learning rate from `param_groups`, so `optimizer.lr = 1e-4` changes nothing either.

## Bad

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
    model[2].out_features = 3  # <- ineffective-setting
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.lr = 1e-4  # <- ineffective-setting

## Good

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
    model[2] = nn.Linear(16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 1e-4

## When it is fine

The weights change as well, and the number is kept in step with them:

    layer = nn.Linear(16, 8)
    layer.weight = nn.Parameter(layer.weight[:4])
    layer.bias = nn.Parameter(layer.bias[:4])
    layer.out_features = 4

The script reads the attribute itself:

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.lr = 0.01
    for group in optimizer.param_groups:
        group["lr"] = optimizer.lr
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

What a layer reads in each pass may be set:

    pool = nn.Conv2d(3, 8, 3)
    pool.stride = (2, 2)

## Fix

None: a new layer has new weights, and a rate belongs to a group of parameters.

## References

PyTorch documentation, `torch.nn.Linear` and `torch.optim.Optimizer.param_groups`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.pipeline import events
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import ModelPart, Module
from lintrain.pipeline.values.python import literal
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, one_per_location
from lintrain.source.nodes import unparse

SIZES = frozenset({"in_features", "out_features", "in_channels", "out_channels", "num_features", "num_embeddings"})
"""Sizes of the weights of layers, which no layer reads again."""


class IneffectiveSetting(Rule):
    level = Level.ERROR
    keywords = "_features|_channels|num_embeddings|.lr|.weight_decay|.momentum|.learning_rate"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        sizes = (_size_set(pipeline.source_of(each.location), each) for each in pipeline.acts(events.Act.REPLACE))
        yield from one_per_location(self._report_size(*found) for found in sizes if found is not None)
        rates = (each for each in pipeline.misuses if each.use == "setting of an optimizer")
        yield from one_per_location(map(self._report_rate, (each for each in rates if not _is_read(pipeline, each))))

    def _report_size(self, event: events.Event, owner: str, name: str) -> Finding:
        return self.finding(
            event.location,
            f"`{name}` is only a number here: the weights keep their size",
            help=f"put a new layer in its place: `{owner} = …`",
        )

    def _report_rate(self, misuse: Misuse) -> Finding:
        owner, _, name = misuse.text.rpartition(".")
        key = "lr" if name == "learning_rate" else name
        return self.finding(
            misuse.location,
            f"the optimizer does not read `{name}`, so its steps stay as they are",
            help=f'set `group["{key}"]` of each group in `{owner}.param_groups`',
        )


def _size_set(source: Source, event: events.Event) -> tuple[events.Event, str, str] | None:
    """An event that sets a size of a layer whose weights the file leaves as they are."""
    name = literal(event.details["name"])
    layer = event.subject
    is_layer = isinstance(layer, ModelPart) or (
        isinstance(layer, Module) and (not layer.path or layer.path.startswith("torch.nn."))
    )
    if not isinstance(name, str) or name not in SIZES or not is_layer:
        return None
    owner = source.code(event.location).removesuffix(f".{name}")
    return None if not owner or _changes_weights(source, owner) else (event, owner, name)


def _changes_weights(source: Source, owner: str) -> bool:
    """Whether code puts other weights into what has this name."""
    stored = (node for node in source.nodes_of(ast.Attribute) if isinstance(node.ctx, ast.Store))
    texts = {unparse(node) for node in stored}
    return bool(texts & {f"{owner}.weight", f"{owner}.weight.data", f"{owner}.bias", f"{owner}.bias.data"})


def _is_read(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether code reads the attribute that it sets."""
    name = misuse.text.rpartition(".")[2]
    nodes = pipeline.source_of(misuse.location).nodes_of(ast.Attribute)
    return any(node.attr == name and isinstance(node.ctx, ast.Load) and unparse(node) == misuse.text for node in nodes)
