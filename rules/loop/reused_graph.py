"""A hidden state is carried into the next iteration together with its graph.

`backward` frees the graph that it runs through. The hidden state still refers to that graph, so `backward` of the next
batch reaches freed buffers, and the second iteration raises RuntimeError.

## Bad

    lstm = nn.LSTM(8, 3, batch_first=True)
    optimizer = torch.optim.SGD(lstm.parameters(), lr=0.1)
    state = None
    for x, y in loader:
        optimizer.zero_grad()
        outputs, state = lstm(x.unsqueeze(1), state)  # <- reused-graph
        criterion(outputs[:, 0], y).backward()
        optimizer.step()
    # raises RuntimeError: Trying to backward through the graph a second time

In a custom network that returns the state:

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 3, batch_first=True)

        def forward(self, rows, state=None):
            outputs, state = self.lstm(rows.unsqueeze(1), state)
            return outputs[:, 0], state

    reader = Reader()
    optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
    state = None
    for x, y in loader:
        optimizer.zero_grad()
        logits, state = reader(x, state)  # <- reused-graph
        criterion(logits, y).backward()
        optimizer.step()
    # raises RuntimeError: Trying to backward through the graph a second time

## Good

    lstm = nn.LSTM(8, 3, batch_first=True)
    optimizer = torch.optim.SGD(lstm.parameters(), lr=0.1)
    state = None
    for x, y in loader:
        optimizer.zero_grad()
        outputs, state = lstm(x.unsqueeze(1), state)
        criterion(outputs[:, 0], y).backward()
        state = tuple(part.detach() for part in state)
        optimizer.step()

For the custom network:

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 3, batch_first=True)

        def forward(self, rows, state=None):
            outputs, state = self.lstm(rows.unsqueeze(1), state)
            return outputs[:, 0], state

    reader = Reader()
    optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
    state = None
    for x, y in loader:
        optimizer.zero_grad()
        logits, state = reader(x, state)
        criterion(logits, y).backward()
        state = tuple(part.detach() for part in state)
        optimizer.step()

## When it is fine

The state may be created again for each batch:

    gru = nn.GRU(8, 3, batch_first=True)
    optimizer = torch.optim.SGD(gru.parameters(), lr=0.1)
    for x, y in loader:
        state = torch.zeros(1, len(x), 3)
        optimizer.zero_grad()
        outputs, state = gru(x.unsqueeze(1), state)
        criterion(outputs[:, 0], y).backward()
        optimizer.step()

A custom network may detach the state before it returns it:

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = nn.LSTM(8, 3, batch_first=True)

        def forward(self, rows, state=None):
            outputs, (hidden, cell) = self.lstm(rows.unsqueeze(1), state)
            return outputs[:, 0], (hidden.detach(), cell.detach())

    reader = Reader()
    optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
    state = None
    for x, y in loader:
        optimizer.zero_grad()
        logits, state = reader(x, state)
        criterion(logits, y).backward()
        optimizer.step()

A function may create its own state in each call:

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.gru = nn.GRU(8, 3, batch_first=True)

        def forward(self, rows, state):
            outputs, state = self.gru(rows.unsqueeze(1), state)
            return outputs[:, 0], state

    def step(reader, x, y):
        state = torch.zeros(1, len(x), 3)
        optimizer.zero_grad()
        logits, state = reader(x, state)
        criterion(logits, y).backward()
        optimizer.step()

    reader = Reader()
    optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
    for x, y in loader:
        step(reader, x, y)

An inner loop over time steps may be followed by a single `backward`:

    cell = nn.GRUCell(1, 3)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    for x, y in loader:
        state = torch.zeros(len(x), 3)
        for column in x.T:
            state = cell(column.unsqueeze(1), state)
        optimizer.zero_grad()
        criterion(state, y).backward()
        optimizer.step()

## Fix

Asks first: how far gradients flow back is a choice, but without the fix the second iteration raises an error.

## References

PyTorch documentation, `torch.autograd.backward`; PyTorch examples, "Word-level Language Modeling using RNN and
Transformer"."""

from __future__ import annotations

import ast  # matches how a `forward` passes a recurrent state through its layer: tuples, argument order, last return
import re
from collections.abc import Iterator
from dataclasses import replace

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import Function, Instance, Unknown, Value
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)
from lintrain.source.nodes import unparse, walk

RECURRENT = frozenset({"RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"})
"""Classes of `torch.nn` whose state is computed from their weights and the previous state."""

DETACHES = lazy_pattern(r"detach|\.data\b|no_grad|inference_mode")

SECOND_TIME = "Trying to backward through the graph a second time"


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement that detaches the state."""

    statement: str
    is_retained: bool = False
    """Whether `retain_graph=True` keeps the graphs, so that they grow and none is missing."""


class ReusedGraph(Rule[Claim]):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        is_retained = "retain_graph" in pipeline.source.text
        for name, backward, added in _summed_losses(pipeline) if not is_retained else ():
            found.setdefault(backward.location, self._report_sum(name, backward, added))
        for training in training_loops.training_loops(pipeline):
            if training.backward.loops[-1] is not training.loop or iterations.hides_gradients(pipeline, training):
                continue
            for carried, forward in _carried_states(pipeline, training):
                found.setdefault(forward.location, self._report(carried, forward, training.backward, is_retained))
            for carried, location in _carried_attributes(pipeline, training):
                found.setdefault(location, self._report_attribute(carried, location, training.backward, is_retained))
        yield from found.values()

    def _report_sum(self, name: str, backward: Event, added: Location) -> Finding[Claim]:
        return self.finding(
            backward.location,
            f"`{name}` holds the freed graphs of all iterations before",
            related=[Related(added, "adds to the sum of the iterations before", "sum")],
            help="call `backward` on the loss of this iteration, and add its number to the sum",
        )

    def _report(self, carried: str, forward: Event, backward: Event, is_retained: bool) -> Finding[Claim]:
        found = self._report_attribute(carried, forward.location, backward, is_retained)
        return found if is_retained else replace(found, claim=Claim(_detaching(carried, forward)))

    def _report_attribute(self, carried: str, location: Location, backward: Event, is_retained: bool) -> Finding[Claim]:
        graph = "graphs of all previous iterations" if is_retained else "freed graph of the previous iteration"
        return self.finding(
            location,
            f"`{carried}` carries the {graph}",
            related=[Related(backward.location, "keeps the graph" if is_retained else "frees the graph", "backward")],
            help=f"detach `{carried}` before the next iteration uses it",
            claim=Claim("", is_retained),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        stage, loop = evidence.failed_with(SECOND_TIME), evidence.loop
        if loop is None or stage is None or stage.failure is None:
            return
        kept = {value.name for value in stage.failure.given if value.kind == "kept"}
        if loop.batches == 1 or (not loop.batches and not kept):
            return
        is_sum = any(value.name in kept for value in stage.failure.given if value.kind != "kept")
        location = stage.failure.location if is_sum else evidence.first("trained")
        if location is not None and (kept or not stage.failure.given):
            carried = " and ".join(f"`{name}`" for name in sorted(kept)) or "a value"
            yield self.finding(
                location,
                f"{carried} carries the freed graph of an earlier iteration",
                help="detach it before the next iteration uses it",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.failed_with(SECOND_TIME):
            return Verdict.confirmed(f"`{SECOND_TIME}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.backwards} backward passes ran, each with its own graph"
        if finding.claim is not None and finding.claim.is_retained:
            return Verdict.inconclusive(f"{loop.backwards} backward passes ran, and kept their graphs")
        return Verdict.refuted(text, backwards=loop.backwards) if loop.backwards > 1 else Verdict.inconclusive(text)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        if not finding.claim.statement:
            return None
        insert = fixes.InsertAfter(finding.with_role("backward")[0].location, finding.claim.statement)
        return fixes.Fix.of("detach the state", insert, safe=False)


def _carried_states(pipeline: Pipeline, training: training_loops.TrainingLoop) -> Iterator[tuple[str, Event]]:
    """The states that one iteration passes to the next, with the forward pass that takes and returns them."""
    for forward in training.inside:
        if forward.act is not Act.FORWARD or forward.without_grad or forward.loops[-1] is not training.loop:
            continue
        if not training_loops.runs_whenever(
            forward, training.backward
        ):  # `backward` may run once, after the last state
            continue
        if not training.loop.location.holds(forward.location):  # a local name is new in each call
            continue
        is_known = _recurrent_layer(forward.subject) is not None
        if not is_known and not isinstance(forward.subject, Unknown):
            continue
        for node, carried in pipeline.source.cached(_carrying).get(forward.location, ()):
            if not is_known and not HIDDEN.search(carried):
                continue
            if not _is_rebound(pipeline, training, carried, node.targets[0]):
                yield carried, forward


def _carried_attributes(pipeline: Pipeline, training: training_loops.TrainingLoop) -> Iterator[tuple[str, Location]]:
    """The states that a network keeps as an attribute from one pass to the next, with the call that does so."""
    for forward in training.inside:
        network = forward.subject
        if forward.act is not Act.FORWARD or forward.without_grad or not isinstance(network, Instance):
            continue
        method = network.cls.lookup("forward")
        if method is None or not isinstance(method[1], Function) or DETACHES.search(unparse(network.cls.node)):
            continue
        for node in walk(method[1].node):
            carried = _taken_and_given(node) if isinstance(node, ast.Assign) else None
            if carried is None or not carried.startswith("self.") or not isinstance(node, ast.Assign):
                continue
            name = carried.partition(".")[2]
            stores = [
                each
                for each in pipeline.source.nodes_of(ast.Attribute)
                if each.attr == name and isinstance(each.ctx, ast.Store)
            ]
            layer = node.value.func if isinstance(node.value, ast.Call) else None
            held = network.attributes.get(layer.attr) if isinstance(layer, ast.Attribute) else None
            if len(stores) == 2 and isinstance(held, Module) and held.name in RECURRENT:
                yield carried, pipeline.source.location(node.value)


def _summed_losses(pipeline: Pipeline) -> Iterator[tuple[str, Event, Location]]:
    """The losses that a loop adds up, never sets anew, and calls `backward` on in each iteration."""
    for training in training_loops.training_loops(pipeline):
        backward, name = training.backward, training_loops.text_of_event(training.backward)
        loop = backward.loops[-1]
        if not name.isidentifier() or backward.is_conditional_in(loop) or not loop.location.holds(backward.location):
            continue
        source = pipeline.source_of(loop.location)
        here = source.cached(_sums).get(name, ())
        inside = [at for at in here if loop.location.holds(at) and at < backward.location]
        resets = rf"\b{name}\s*=(?!=|\s*{name}\s*\+)|\b{name}\.detach_|del {name}\b"
        if inside and name not in loop.rebound and not re.search(resets, pipeline.code(loop.location)):
            yield name, backward, inside[0]


def _sums(source: Source) -> dict[str, list[Location]]:
    """The statements `total += loss` and `total = total + loss`, by the name of the total."""
    found = dict[str, list[Location]]()
    for node in source.nodes_of(ast.AugAssign, ast.Assign):
        match node:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add()):
                found.setdefault(name, []).append(source.location(node))
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=left), op=ast.Add())):
                if name == left:
                    found.setdefault(name, []).append(source.location(node))
            case _:
                pass
    return found


HIDDEN = re.compile(r"hid|^h$|^h_?n$|^h_?0$|^hc$|state")
"""Names of recurrent states."""


def _carrying(source: Source) -> dict[Location, list[tuple[ast.Assign, str]]]:
    """The assignments whose call returns a name that it takes, by the location of the call."""
    found = dict[Location, list[tuple[ast.Assign, str]]]()
    for node in source.nodes_of(ast.Assign):
        if carried := _taken_and_given(node):
            found.setdefault(source.location(node.value), []).append((node, carried))
    return found


def _recurrent_layer(module: Value) -> Module | None:
    """The recurrent layer of a state: the module itself, or the layer that its `forward` passes the state to."""
    layer = _layer_with_the_state(module) if isinstance(module, Instance) else module
    return layer if isinstance(layer, Module) and layer.name in RECURRENT else None


def _layer_with_the_state(module: Instance) -> Value | None:
    """The layer that gets the second argument of `forward`, and whose state `forward` returns."""
    found = module.cls.lookup("forward")
    if found is None or not isinstance(found[1], Function):
        return None
    forward = found[1].node
    names = [parameter.arg for parameter in forward.args.args]
    if isinstance(forward, ast.Lambda) or len(names) != 3 or DETACHES.search(unparse(forward)):
        return None
    match forward.body:
        case [*_, ast.Return(value=ast.Tuple(elts=[_, ast.Name(id=given)]))]:
            layers = [layer for layer, *states in _layers_in(forward) if states == [names[2], given]]
        case _:
            return None
    bound = [node.id for node in walk(forward) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    is_bound_once = bound.count(given) == 1 and bound.count(names[2]) == (given == names[2])
    returns = [node for node in walk(forward) if isinstance(node, ast.Return)]
    return module.attributes.get(layers[0]) if len(layers) == 1 and is_bound_once and len(returns) == 1 else None


def _layers_in(forward: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[str, str, str]]:
    """The layers that `_, new = self.layer(_, old)` calls, each with its old and new state."""
    for statement in forward.body:
        match statement:
            case ast.Assign(
                targets=[ast.Tuple(elts=[_, ast.Name(id=new)])],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="self"), attr=layer), args=[_, ast.Name(id=old)], keywords=[]
                ),
            ):
                yield layer, old, new
            case _:
                pass


def _taken_and_given(node: ast.Assign) -> str | None:
    """The name that a call takes as its second argument and returns as its last result."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple(elts=[_, ast.Name(id=given)]) | ast.Name(id=given)],
            value=ast.Call(args=[_, ast.Name(id=taken)]),
        ) if given == taken:
            return given
        case ast.Assign(
            targets=[ast.Tuple(elts=[_, ast.Tuple(elts=[ast.Name(id=given), _]) as state])],
            value=ast.Call(args=[_, ast.Tuple() as taken]),
        ) if unparse(state) == unparse(taken):
            return given
        case ast.Assign(
            targets=[ast.Tuple(elts=[_, ast.Attribute(value=ast.Name(id="self")) as state])],
            value=ast.Call(args=[_, ast.Attribute() as taken]),
        ) if unparse(state) == unparse(taken):
            return unparse(state)
        case _:
            return None


def _is_rebound(pipeline: Pipeline, training: training_loops.TrainingLoop, carried: str, target: ast.expr) -> bool:
    """Whether the loop also binds the name elsewhere, or detaches the state."""
    code = pipeline.code(training.loop.location)
    bound = re.findall(rf"(?<![\w.,] )\b{carried}\s*=(?!=)", code)  # not after a comma, where the pass may bind it
    is_looped = re.search(rf"\bfor [\w,()* ]*\b{carried}\b", code) is not None
    return len(bound) > isinstance(target, ast.Name) or is_looped or "detach" in code or ".data" in code


def _detaching(carried: str, forward: Event) -> str:
    """The statement that detaches a layer's state: a tuple of two tensors for an LSTM, one tensor otherwise."""
    layer = _recurrent_layer(forward.subject)
    if layer is None:
        return ""
    if layer.name.startswith("LSTM"):
        return f"{carried} = tuple(part.detach() for part in {carried})"
    return f"{carried} = {carried}.detach()"
