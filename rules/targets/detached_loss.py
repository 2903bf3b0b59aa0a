"""No gradient flows from the loss back to the model.

The loss is rebuilt as a tensor of its own, detached, or goes through numbers, NumPy or `argmax` on its way. Rebuilt
with `requires_grad=True` it trains nothing, and only a warning about copying appears; in the other ways `backward`
ends with an error.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss = torch.tensor(loss.item(), requires_grad=True)  # <- detached-loss
        loss.backward()
        optimizer.step()

Through `argmax`, which has no gradient:

    for x, y in loader:
        optimizer.zero_grad()
        classes = net(x).argmax(dim=1).float()  # <- detached-loss
        loss = F.mse_loss(classes, y.float())
        loss.backward()
        optimizer.step()

    # raises RuntimeError: element 0 of tensors does not require grad

A number has no `backward`:

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y).item()  # <- detached-loss
        loss.backward()
        optimizer.step()

    # raises AttributeError: 'float' object has no attribute 'backward'

## Good

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

Through the numbers that the network gives:

    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        optimizer.step()

A tensor has a `backward`:

    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

A copy for the log, a target without gradient, and one loss of several that trains nothing:

    history = []
    for x, y in loader:
        optimizer.zero_grad()
        logits = net(x)
        loss = F.cross_entropy(logits, y)
        history.append(loss.item())
        teacher = net(x).detach()
        total = loss + F.mse_loss(logits, teacher) + 0.1 * loss.detach()
        total.backward()
        optimizer.step()

The straight-through trick lets the gradient pass by:

    for x, y in loader:
        logits = net(x)
        soft = logits.softmax(dim=1)
        hard = F.one_hot(soft.argmax(dim=1), 3).float()
        loss = F.mse_loss(soft + (hard - soft).detach(), F.one_hot(y, 3).float())
        loss.backward()

The input is what is trained, and the network is not:

    x = features[:4].clone().requires_grad_(True)
    loss = F.cross_entropy(net(x), targets[:4])
    loss.backward()

What the other side of the loss holds may have a gradient:

    generator = nn.Linear(8, 3)
    for x, y in loader:
        F.mse_loss(net(x).detach(), generator(x)).backward()

## Fix

Asks first: the run trains then. Offered where the script does nothing else with the loss but read its number.

## References

PyTorch documentation, `torch.Tensor.detach` and `torch.tensor`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import options_of
from lintrain.pipeline.values.tensors import Operation
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

HOW = {
    "item": "`.item()` makes a plain number",
    "tolist": "`.tolist()` makes plain numbers",
    "numpy": "NumPy keeps no gradient",
    "array": "NumPy keeps no gradient",
    "asarray": "NumPy keeps no gradient",
    "tensor": "a tensor made anew has no history",
    "Tensor": "a tensor made anew has no history",
    "FloatTensor": "a tensor made anew has no history",
    "detach": "`.detach()` takes it off the graph",
    "data": "`.data` takes it off the graph",
}

RAISED = ("does not require grad", "object has no attribute 'backward'")
"""What torch and Python say of a loss without a graph."""


class DetachedLoss(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        learns = {event.location for event in pipeline.acts(Act.BACKWARD) if _cut_of(event) is None}
        for event in pipeline.acts(Act.BACKWARD):
            cut = _cut_of(event)
            if cut is not None and cut.location is not None and event.location not in learns:
                found.setdefault(cut.location, self._report(pipeline, cut.location, event, cut.name))
        yield from found.values()

    def _report(self, pipeline: Pipeline, location: Location, event: Event, cut: str) -> Finding:
        text = training_loops.text_of_event(event)
        loss = f"`{text}`" if 0 < len(text) <= 30 and "\n" not in text else "the loss"
        how = HOW.get(cut, f"`{cut}` has no gradient")
        statement, code = _loss_without(pipeline, location, event)
        return self.finding(
            location,
            f"no gradient reaches the model from {loss}: {how}",
            related=[
                Related(event.location, "goes back from here, and reaches no parameter", "backward"),
                *([Related(statement, "makes another loss of it", "statement")] if statement else []),
            ],
            help="call `backward` on the loss as the loss function gave it",
            facts={"loss": code},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*RAISED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage ends with `{failed.failure.message.splitlines()[0]}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        reached = sum(use.reached for use in loop.optimizers)
        text = f"{reached} of {loop.backwards} backward passes reached a weight of an optimizer"
        if not loop.backwards:
            return Verdict.inconclusive(text)
        return (Verdict.refuted if reached else Verdict.confirmed)(text, reached=reached)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        loss, backwards = finding.facts.get("loss"), finding.with_role("statement")
        if not isinstance(loss, str):
            return None
        if backwards:
            return fixes.Fix.of("take the statement out", fixes.Replace(backwards[0].location, ""), safe=False)
        return fixes.Fix.of("keep the loss as it is", fixes.Replace(finding.location, loss), safe=False)


def _cut_of(event: Event) -> Operation | None:
    """What took the loss off the graph, where that is certain of everything that it may be."""
    options = options_of(event.details["loss"])
    losses = [option for option in options if isinstance(option, Tensor) and option.role is Role.LOSS]
    cuts = [loss.cut for loss in losses if loss.cut is not None]
    return cuts[0] if cuts and len(cuts) == len(losses) == len(options) else None


def _read_only(pipeline: Pipeline, name: str, location: Location) -> int:
    """How often a tensor is only asked for its number, below the statement that makes it."""
    calls = pipeline.source_of(location).nodes_of(ast.Attribute)
    return sum(
        isinstance(node.value, ast.Name)
        and node.value.id == name
        and node.attr == "item"
        and node.lineno > location.line
        for node in calls
    )


def _loss_without(pipeline: Pipeline, location: Location, event: Event) -> tuple[Location | None, str | None]:
    """The statement that makes another loss of the loss, to be left out, and the code of the loss as it was given.

    Only where the script does nothing with the loss but go back from it: it may want a number elsewhere.
    """
    statement = blocks.statement_at(pipeline, location)
    loss = pipeline.code(event.location).partition(".backward(")[0]
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as made) if name == loss:
            source = pipeline.source_of(location)
        case _:
            return None, None
    uses = blocks.uses_of(pipeline, name, location)
    inside = [node for node in uses if source.location(statement).holds(source.location(node))]
    kept = _read_only(pipeline, name, location) if "tensor" in ast.unparse(made.func) else 0
    if (
        location not in {source.location(each) for each in (made, *made.args[:1])}
        or len(uses) != len(inside) + kept + 1
    ):
        return None, None
    match made:
        case ast.Call(
            func=ast.Attribute(attr="tensor"), args=[ast.Call(func=ast.Attribute(value=ast.Name(id=rebuilt)))]
        ):
            return (source.location(statement), name) if rebuilt == name else (None, None)
        case ast.Call(func=ast.Attribute(value=ast.Name(id=again), attr="detach" | "item")) if again == name:
            return source.location(statement), name
        case ast.Call(func=ast.Attribute(value=ast.Call() as given, attr="detach" | "item"), args=[]):
            return None, source.code(source.location(given))
        case _:
            return None, None
