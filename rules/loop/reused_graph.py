"""A hidden state is carried into the next iteration together with its graph.

`backward` frees the graph of the batch that it went through. The state that came out of it still points there, so that
the next batch's `backward` runs into what is gone, and the second iteration stops with an error.

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

## Good

    lstm = nn.LSTM(8, 3, batch_first=True)
    optimizer = torch.optim.SGD(lstm.parameters(), lr=0.1)
    state = None
    for x, y in loader:
        optimizer.zero_grad()
        outputs, state = lstm(x.unsqueeze(1), state)
        criterion(outputs[:, 0], y).backward()
        optimizer.step()
        state = tuple(part.detach() for part in state)

## When it is fine

The state may be made anew for each batch:

    gru = nn.GRU(8, 3, batch_first=True)
    optimizer = torch.optim.SGD(gru.parameters(), lr=0.1)
    for x, y in loader:
        state = torch.zeros(1, len(x), 3)
        optimizer.zero_grad()
        outputs, state = gru(x.unsqueeze(1), state)
        criterion(outputs[:, 0], y).backward()
        optimizer.step()

An inner loop over time goes backward once, behind its end:

    cell = nn.GRUCell(1, 3)
    optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
    for x, y in loader:
        state = torch.zeros(len(x), 3)
        for column in x.T:
            state = cell(column.unsqueeze(1), state)
        optimizer.zero_grad()
        criterion(state, y).backward()
        optimizer.step()

## References

PyTorch documentation, `torch.autograd.backward`; PyTorch examples, "Word-level Language Modeling using RNN and
Transformer"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain import (
    Act,
    Event,
    Finding,
    Level,
    Module,
    Pipeline,
    Place,
    Reason,
    Rule,
    TrainingLoop,
    hides_gradients,
    training_loops,
    trains_by_hand,
)

RECURRENT = frozenset({"RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell"})
"""Classes of `torch.nn` whose state comes out of their weights and the state before."""


class ReusedGraph(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not trains_by_hand(pipeline) or "retain_graph" in pipeline.source.text:
            return
        found: dict[Place, Finding] = {}
        for training in training_loops(pipeline):
            if training.backward.loops[-1] is not training.loop or hides_gradients(pipeline, training):
                continue
            for carried, forward in _carried_states(pipeline, training):
                found.setdefault(forward.place, self._report(carried, forward, training.backward))
        yield from found.values()

    def _report(self, carried: str, forward: Event, backward: Event) -> Finding:
        return self.finding(
            forward.place,
            f"`{carried}` comes with the graph that the iteration before has freed",
            because=[Reason(backward.place, "frees the graph", "backward")],
            help=f"detach `{carried}` before the next iteration uses it",
        )


def _carried_states(pipeline: Pipeline, training: TrainingLoop) -> Iterator[tuple[str, Event]]:
    """The states that one iteration gets from the one before, with the pass that takes and gives them."""
    assignments = pipeline.source.nodes_of(ast.Assign)
    for forward in training.inside:
        is_recurrent = isinstance(forward.subject, Module) and forward.subject.path.startswith("torch.nn.")
        if forward.act is not Act.FORWARD or not is_recurrent or forward.loops[-1] is not training.loop:
            continue
        if not isinstance(forward.subject, Module) or forward.subject.name not in RECURRENT or forward.without_grad:
            continue
        for node in assignments:
            carried = _taken_and_given(node)
            is_it = carried is not None and pipeline.source.place(node.value) == forward.place
            if carried and is_it and not _is_made_anew(pipeline, training, carried):
                yield carried, forward


def _taken_and_given(node: ast.Assign) -> str | None:
    """The name that a call takes as its second argument and gives back as its last result."""
    match node:
        case ast.Assign(
            targets=[ast.Tuple(elts=[_, ast.Name(id=given)]) | ast.Name(id=given)],
            value=ast.Call(args=[_, ast.Name(id=taken)]),
        ) if given == taken:
            return given
        case _:
            return None


def _is_made_anew(pipeline: Pipeline, training: TrainingLoop, carried: str) -> bool:
    """Whether the loop binds the name by anything else, or takes the state off its graph."""
    code = pipeline.code(training.loop.place)
    others = re.search(rf"(?<![\w.,] )\b{carried}\s*=(?!=)|for {carried}\b", code)
    return (
        others is not None or "detach" in code or ".data" in code or carried in re.findall(r"\w+", training.loop.header)
    )
