"""Two linear layers follow each other without an activation.

A linear function of a linear function is a linear function: the second layer adds weights, but nothing that the first
one could not compute with the second's outputs. The network trains, and learns much less than its size suggests.

## Bad

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 64)
            self.output = nn.Linear(64, 3)

        def forward(self, x):
            x = self.hidden(x)
            return self.output(x)  # <- missing-activation

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

In a sequence, where dropout is no activation:

    model = nn.Sequential(
        nn.Linear(8, 64),
        nn.Dropout(0.2),
        nn.Linear(64, 3),  # <- missing-activation
    )
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 64)
            self.output = nn.Linear(64, 3)

        def forward(self, x):
            x = F.relu(self.hidden(x))
            return self.output(x)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

and

    model = nn.Sequential(
        nn.Linear(8, 64),
        nn.ReLU(),
        nn.Dropout(0.2),
        nn.Linear(64, 3),
    )
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## When it is fine

A narrow layer between two wider ones makes a matrix of low rank on purpose:

    model = nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 3))
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

Two networks that are trained apart, or against each other, are not one:

    generator, judge = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), nn.Linear(8, 2)
    optimizer = torch.optim.Adam(generator.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        scores = judge(generator(x))
        F.cross_entropy(scores, torch.ones(len(x), dtype=torch.long)).backward()
        optimizer.step()

## Fix

None: which activation is right depends on the network.

## References

Goodfellow, Bengio and Courville, "Deep Learning", chapter 6.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import dense_stacks, expressions, linear_stacks, prescreen, script_text, shared_values
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Tensor
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, Source, Targets, lazy_pattern

LINEAR_BY_NAME = lazy_pattern(r"(?i)lora|low_?rank|svd|linear_?(regress|model|net|probe)")
"""Names of networks that are linear on purpose, whatever the sizes of their layers."""

JOINS = frozenset({"cat", "concat", "concatenate", "stack"})


class MissingActivation(Rule):
    level = Level.WARNING
    keywords = "Linear(|Dense("
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_stack_linear(source) or any(True for _ in dense_stacks.stacked_dense(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for misuse in pipeline.misuses:
            if misuse.use != "linear of linear" or not _is_one_network(pipeline, misuse):
                continue
            if not _is_on_purpose(pipeline, misuse) and not _exclude_each_other(pipeline, misuse):
                made = misuse.value.made if isinstance(misuse.value, Tensor) else None
                found.setdefault(misuse.location, self._report(misuse.location, made.location if made else None))
        source = pipeline.source
        for first, second in linear_stacks.stacked_linears(source):
            before, location = source.location(first), source.location(second)
            if not _is_linear_by_name(pipeline, location) and not _is_commented_out(source, before, location):
                found.setdefault(location, self._report(location, before))
        for first, second in dense_stacks.stacked_dense(source):
            before, location = source.location(first), source.location(second)
            if not _is_linear_by_name(pipeline, location) and not _is_commented_out(source, before, location):
                found.setdefault(location, self._report(location, before, 'give the first one `activation="relu"`'))
        yield from found.values()

    def _report(
        self,
        location: Location,
        before: Location | None,
        remedy: str = "put an activation between them, such as `nn.ReLU()`",
    ) -> Finding:
        return self.finding(
            location,
            "a linear layer gets the output of another one, with no activation between them",
            related=[Related(before, "the layer before it", "layer")] if before else [],
            help=remedy,
        )


def _is_one_network(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether both layers are parts of one class or of one statement: a generator feeds the network that judges it."""
    made = misuse.value.made if isinstance(misuse.value, Tensor) else None
    if made is None or made.location is None or made.location.path != misuse.location.path:
        return False
    source, pair = pipeline.source_of(misuse.location), (made.location, misuse.location)
    if any(around.holds(pair[1]) for around in blocks.classes_around(source, pair[0]).values()):
        return True
    first, second = (blocks.statement_at(pipeline, each) for each in pair)
    return first is not None and first is second


def _exclude_each_other(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether no network has both layers: different branches of one `if` in the constructor make them."""
    source = pipeline.source_of(misuse.location)
    made = misuse.value.made if isinstance(misuse.value, Tensor) else None
    if made is None or made.location is None:
        return False
    firsts, seconds = _made_at(source, made.location), _made_at(source, misuse.location) or [misuse.location]
    pairs = [(first, second) for first in firsts for second in seconds]
    return bool(pairs) and all(blocks.are_exclusive(source, *pair) for pair in pairs)


def _made_at(source: Source, call: Location) -> list[Location]:
    """Where the class of a call assigns the layer that it runs: `self.layer(x)`."""
    name, owners = source.code(call).partition("(")[0], [*blocks.classes_around(source, call).values()]
    if not name.startswith("self.") or not owners:
        return []
    own = (each for each in expressions.assignments_in_file(source) if owners[-1].holds(each.location))
    return [each.location for each in own if any(target.code == name for target in each.targets)]


LEFT_OUT = lazy_pattern(r"(?m)^\s*#.*(?:ReLU|GELU|Tanh|Sigmoid|ELU|SiLU)\(")
"""An activation in a comment."""


def _is_commented_out(source: Source, first: Location | None, second: Location) -> bool:
    """Whether an activation was taken out between two layers, as those who publish a network do."""
    if first is None:
        return False
    return LEFT_OUT.search("\n".join(source.lines[first.line : second.line - 1])) is not None


def _is_on_purpose(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether names say that it is linear, an activation was taken out, or the first output is used elsewhere too."""
    location = misuse.location
    source, statement = pipeline.source_of(location), blocks.statement_at(pipeline, location)
    if statement is None:
        return True
    around, function = source.location(statement), blocks.scope_of(pipeline, location)
    made = misuse.value.made if isinstance(misuse.value, Tensor) else None
    if _is_linear_by_name(pipeline, location) or _is_commented_out(source, made.location if made else None, location):
        return True
    call = expressions.call_at(pipeline, location)
    given = call.arguments[0] if call is not None and call.arguments else None
    if given is None or given.kind is not expressions.Kind.NAME:
        return False
    joined = _joined_before(source, given.name, around)
    others = (use for part in joined - {given.name} for use in script_text.uses_of(source, part))
    if any(use.is_read and _is_below(pipeline, use.location, around, function) for use in others):
        return True
    return shared_values.is_used_elsewhere(pipeline, given.name, around)


def _is_below(pipeline: Pipeline, location: Location, around: Location, function: object) -> bool:
    return location.line > around.end_line and blocks.scope_of(pipeline, location) is function


def _is_linear_by_name(pipeline: Pipeline, location: Location) -> bool:
    """Whether a class or a function around two layers has the name of a linear network."""
    names = [*blocks.classes_around(pipeline.source_of(location), location)]
    names.append(getattr(blocks.scope_of(pipeline, location), "name", ""))
    return any(map(LINEAR_BY_NAME.search, names))


def _joined_before(source: Source, name: str, around: Location) -> set[str]:
    """The names that are joined to a tensor by the last statement which binds its name before another."""
    bound = [each for each in expressions.assignments_in_file(source) if each.name == name]
    before = [each for each in bound if each.location.end_line < around.line]
    last = max(before, key=lambda each: each.location.line, default=None)
    if last is None or last.value.called_name not in JOINS:
        return set()
    return {part.name for given in last.value.arguments for part in given.items if part.kind is expressions.Kind.NAME}
