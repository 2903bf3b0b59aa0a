"""The result of a tensor's method, or of a layer, is discarded.

Methods of a module such as `to` change the module, those of a tensor return another tensor. A tensor that is moved,
converted or reshaped in a statement of its own stays as it was: on its old device, with its old type and shape. A
layer that is called as a statement in `forward` has no effect either, nor has one whose result nothing reads; the same
holds for `Dropout(0.5)(x)` of Keras.

## Bad

    net.to(device)
    for x, y in loader:
        y = y.to(device)
        x.to(device)  # <- discarded-tensor
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A conversion or another shape is lost the same way:

    mask = torch.zeros(3)
    mask.unsqueeze(0)  # <- discarded-tensor
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x) + mask, y).backward()
        optimizer.step()

## Good

    net.to(device)
    for x, y in loader:
        y = y.to(device)
        x = x.to(device)
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

and

    mask = torch.zeros(3)
    mask = mask.unsqueeze(0)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x) + mask, y).backward()
        optimizer.step()

## When it is fine

Modules are moved in place, and so are tensors by methods that end with an underscore:

    net.to(device)
    mask = torch.zeros(16, 3)
    mask.fill_(1.0)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x) + mask, y).backward()
        optimizer.step()

Objects of other libraries may move themselves:

    def fit(graphs):
        for graph in graphs:
            graph.to(device)
            loss = net(graph.x).mean()
            loss.backward()
            optimizer.step()

## Fix

Asks first: the rest of the script then gets the tensor that the method returns.

## References

PyTorch documentation, `torch.Tensor.to`; the fix in `mlelarge/graph_neural_net`, commit 6cccfe31fca8.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import dropped_keras_layers, dropped_layers, loop_names, script_text, statements
from lintrain.pipeline import blocks, modules
from lintrain.pipeline.record import Discard
from lintrain.pipeline.values.model import Module, Tensor
from lintrain.pipeline.values.python import Instance, options_of
from lintrain.pipeline.values.tensors import root_of
from lintrain.rule import Finding, Level, Location, Pipeline, Rule, Source, Targets, dataclass, fixes, one_per_location

MOVING = {"to": "moved", "cuda": "moved"}
CONVERTING = dict.fromkeys(("float", "double", "half", "bfloat16", "long", "int", "bool", "type"), "converted")
RESHAPING = dict.fromkeys(
    ("view", "reshape", "squeeze", "unsqueeze", "permute", "transpose", "flatten", "repeat", "expand"), "reshaped"
)
CHANGING = {**MOVING, **CONVERTING, **RESHAPING, "detach": "detached", "masked_fill": "changed", "clamp": "changed"}
"""Methods of a tensor that return another one, with what they would have done."""

ITEM = re.compile(r"(?:^batch|\.\[\])\.\[\d+\]$")
"""Names of the parts of a batch that is a tuple."""

PLAIN = re.compile(r"[\w.]+")

RESHAPED = re.compile(rf"(?!(?:np|numpy|torch|F|tf)\.)([\w.]+)\.(?:{'|'.join(RESHAPING)})\((?:[^()]|\([^()]*\))*\)")
"""A tensor with a name in another shape: `images.view(-1, 784)`."""

OUT = re.compile(r"\bout\s*=")
"""The argument with the tensor that a function of torch writes its result into."""

OF_OTHERS = r"\b(?:torch_geometric|dgl|torch_sparse|torchtext|detectron2|mmcv|monai)\b"
"""Libraries whose batches contain objects that move in place."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The assignment that keeps the result."""

    assignment: str


class DiscardedTensor(Rule[Claim]):
    level = Level.ERROR
    keywords = "torch|keras"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        found = (loop_names.unread_activations(source), dropped_keras_layers.dropped_keras_layers(source))
        return loop_names.drops_calls(source) or any(True for each in found for _ in each)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        lost = [each for each in pipeline.lost_tensors if not each.is_displayed and not _is_shown(pipeline, each)]
        changed = [each for each in lost if each.method in CHANGING and _is_tensor(pipeline, each)]
        yield from one_per_location(self._report(pipeline, each) for each in changed)
        layers = [each.location for each in lost if _is_layer(pipeline, each)]
        layers += [pipeline.source.location(each.call) for each in dropped_layers.dropped_layers(pipeline.source)]
        layers += map(pipeline.source.location, dropped_keras_layers.dropped_keras_layers(pipeline.source))
        yield from one_per_location(self._report_layer(each, pipeline.code(each)) for each in layers)
        unread = loop_names.unread_results(pipeline.source)
        yield from one_per_location(self._report_unread(each) for each in unread if each.method in CHANGING)
        yield from one_per_location(map(self._report_activation, loop_names.unread_activations(pipeline.source)))

    def _report_activation(self, lost: loop_names.UnreadResult) -> Finding[Claim]:
        is_short = len(lost.name) + len(lost.batch) + len(lost.method) < 40
        return self.finding(
            lost.location,
            f"nothing reads `{lost.name}`: what follows reads `{lost.batch}`, without `{lost.method}`"
            if is_short
            else "nothing reads this activation: what follows reads its input",
            help=f"read `{lost.name}` in what follows",
        )

    def _report_unread(self, lost: loop_names.UnreadResult) -> Finding[Claim]:
        return self.finding(
            lost.location,
            f"nothing reads `{lost.name}`, so `{lost.batch}` is not {CHANGING[lost.method]}"
            if len(lost.name) + len(lost.batch) < 36
            else f"nothing reads the result of `{lost.method}`, so the batch is not {CHANGING[lost.method]}",
            help=f"use the result in place of `{lost.batch}`",
        )

    def _report_layer(self, location: Location, code: str) -> Finding[Claim]:
        called = code.partition("(")[0]
        return self.finding(
            location,
            f"`{called}` has no effect: its result is discarded"
            if len(called) < 40
            else "the result of this layer is discarded",
            help="assign the result, and use it",
        )

    def _report(self, pipeline: Pipeline, lost: Discard) -> Finding[Claim]:
        reshaped = RESHAPED.fullmatch(lost.receiver_text)
        name = reshaped[1] if reshaped else lost.receiver_text
        if name in TORCH:  # `torch.clamp(x, 0, 1)`
            name = pipeline.code(lost.location).partition("(")[2].partition(",")[0].strip(" )")
        assignment = f"{name} = {pipeline.code(lost.location)}"
        return self.finding(
            lost.location,
            f"`{name}` is not {CHANGING[lost.method]}: the result of `{lost.method}` is discarded"
            if len(name) < 20
            else f"the result of `{lost.method}` is discarded, so the tensor is not {CHANGING[lost.method]}",
            help=f"assign the result: `{assignment}`",
            claim=Claim(assignment),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("keep the result", fixes.Replace(finding.location, finding.claim.assignment), safe=False)


def _is_shown(pipeline: Pipeline, lost: Discard) -> bool:
    """Whether a statement shows the error that it raises."""
    return blocks.shows_error(pipeline.source_of(lost.location), lost.location)


FUNCTIONS = frozenset({"dropout", "relu", "leaky_relu", "elu", "gelu", "softmax", "log_softmax", "sigmoid", "tanh"})
"""Functions of torch that give a new tensor."""

TORCH = frozenset({"F", "torch", "nn.functional", "torch.nn.functional"})


def _is_layer(pipeline: Pipeline, lost: Discard) -> bool:
    """Whether a statement in a `forward` only calls a layer of its network, or a function of torch like `F.relu`."""
    code = pipeline.code(lost.location)
    if "inplace" in code or statements.name_of_scope(pipeline, lost.location) != "forward":
        return False
    layer = lost.receiver.attributes.get(lost.method) if isinstance(lost.receiver, Instance) else None
    if isinstance(layer, Module):
        return modules.only_computes(layer)
    # `F.relu(x, True)` works in place.
    is_plain = "," not in code or lost.method in {"dropout", "softmax", "log_softmax"}
    return lost.receiver_text in TORCH and lost.method in FUNCTIONS and is_plain


def _is_tensor(pipeline: Pipeline, lost: Discard) -> bool:
    """Whether a tensor certainly has the method: one that torch made, or a part of a batch."""
    options = options_of(lost.result)
    if OUT.search(pipeline.code(lost.location)):
        return False  # `torch.clamp(x, 0, 1, out=x)` keeps its result there
    if RESHAPED.fullmatch(lost.receiver_text):
        return lost.method in MOVING  # which arrays do not have
    if not PLAIN.fullmatch(lost.receiver_text):
        return False  # a tensor without a name is made for its side effect: to start the device
    if all(isinstance(option, Tensor) for option in options):
        return True
    roots = [root_of(option) for option in options]
    is_part = all(ITEM.search(getattr(root, "name", "")) for root in roots)
    as_module = rf"(?<![\w.]){re.escape(lost.receiver_text)}(?:\.(?:train|eval|\w*parameters|state_dict|zero_grad))?\("
    return is_part and not script_text.mentions(pipeline, f"{OF_OTHERS}|{as_module}")
