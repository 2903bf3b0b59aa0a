"""A module contributes to the loss, but its parameters are in no optimizer.

The module keeps its initial weights and acts as a random projection that the other modules adapt to. No error is
raised. The loss falls, but less than it could, and the saved weights of the module are its initial ones.

## Bad

    encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
    head = nn.Linear(32, 3)
    optimizer = torch.optim.Adam(encoder.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(head(encoder(x)), y).backward()  # <- missing-parameters
        optimizer.step()

A loss with weights of its own, which are only counted:

    class CenterLoss(nn.Module):
        def __init__(self, classes, features):
            super().__init__()
            self.centers = nn.Parameter(torch.randn(classes, features))

        def forward(self, hidden, y):
            return (hidden - self.centers[y]).pow(2).mean()

    encoder = nn.Linear(8, 32)
    centers = CenterLoss(3, 32)
    weights = [*encoder.parameters(), *centers.parameters()]
    print(sum(weight.numel() for weight in weights))
    optimizer = torch.optim.Adam(encoder.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        centers(encoder(x), y).backward()  # <- missing-parameters
        optimizer.step()

## Good

    encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
    head = nn.Linear(32, 3)
    optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
    for x, y in loader:
        optimizer.zero_grad()
        criterion(head(encoder(x)), y).backward()
        optimizer.step()

and

    class CenterLoss(nn.Module):
        def __init__(self, classes, features):
            super().__init__()
            self.centers = nn.Parameter(torch.randn(classes, features))

        def forward(self, hidden, y):
            return (hidden - self.centers[y]).pow(2).mean()

    encoder = nn.Linear(8, 32)
    centers = CenterLoss(3, 32)
    weights = [*encoder.parameters(), *centers.parameters()]
    print(sum(weight.numel() for weight in weights))
    optimizer = torch.optim.Adam([*encoder.parameters(), *centers.parameters()])
    for x, y in loader:
        optimizer.zero_grad()
        centers(encoder(x), y).backward()
        optimizer.step()

## When it is fine

The list goes to the optimizer:

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, scores, y):
            return F.cross_entropy(scores * self.scale, y)

    net = nn.Linear(8, 3)
    scaled = Scaled()
    weights = [*net.parameters(), *scaled.parameters()]
    optimizer = torch.optim.Adam(weights)
    for x, y in loader:
        optimizer.zero_grad()
        scaled(net(x), y).backward()
        optimizer.step()

Each module may have its own optimizer, and a module may be frozen explicitly:

    encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
    projection = nn.Linear(32, 16)
    projection.requires_grad_(False)
    head = nn.Linear(16, 3)
    first = torch.optim.Adam(encoder.parameters())
    second = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        first.zero_grad()
        second.zero_grad()
        criterion(head(projection(encoder(x))), y).backward()
        first.step()
        second.step()

A module that runs without gradients is not meant to be trained:

    encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
    head = nn.Linear(32, 3)
    optimizer = torch.optim.Adam(head.parameters())
    for x, y in loader:
        with torch.no_grad():
            hidden = encoder(x)
        optimizer.zero_grad()
        criterion(head(hidden), y).backward()
        optimizer.step()

A module may be frozen in its class, or be random on purpose:

    class Edges(nn.Module):
        def __init__(self):
            super().__init__()
            self.filters = nn.Linear(8, 8)
            self.filters.weight.requires_grad = False

        def forward(self, x):
            return self.filters(x)

    edges = Edges()
    random_target = nn.Linear(8, 3)
    head = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(head.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        (criterion(head(edges(x)), y) + nn.functional.mse_loss(head(x), random_target(x))).backward()
        optimizer.step()

## Fix

Asks first: the fix trains the module. Offered if the module is created before the only optimizer.

## References

PyTorch documentation, `torch.optim`, "Constructing it".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import (
    expressions,
    iterations,
    left_out,
    loop_verdicts,
    script_text,
    training_loops,
    untrained_modules,
)
from lintrain.pipeline import blocks, events
from lintrain.pipeline.values import model, python
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    fixes,
    lazy_pattern,
    one_per_location,
)

PARAMETERS_OF = lazy_pattern(r"\(\s*(?:params\s*=\s*)?(\w+)\.parameters\(\)")


class MissingParameters(Rule):
    level = Level.ERROR
    keywords = "optim|Adam|Adafactor"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from self._in_a_piece(pipeline)
        yield from one_per_location(map(self._report_group, left_out.left_out_groups(pipeline.source)))
        yield from self._data_given(pipeline)
        yield from map(self._report_named, left_out.optimizers_of_others(pipeline.source))
        if not training_loops.trains_by_hand(pipeline):
            return
        yield from one_per_location(self._report_other(*each) for each in untrained_modules.of_another(pipeline))
        trained = expressions.parts_shared(pipeline, untrained_modules.trained(pipeline))
        found: dict[Location, Finding] = {}
        for training in iterations.loops_and_steps(pipeline) if trained else ():
            forwards = list(untrained_modules.forwards(training))
            ran = expressions.parts_shared(pipeline, (forward.subject for forward in forwards))
            if trained.isdisjoint(ran) and untrained_modules.may_run_otherwise(pipeline, training):
                continue
            for forward in forwards:
                if untrained_modules.is_left_out(pipeline, training, forward, trained):
                    found.setdefault(forward.location, self._report(pipeline, forward, training))
        yield from found.values()

    def _report_group(self, group: left_out.LeftOutGroup) -> Finding:
        return self.finding(
            group.optimizer,
            f"the last parameter group, `{group.name}`, is not in `{group.listed}`, so no step changes it",
            related=[Related(group.location, "built here, never appended", "origin")],
            help=f"call `{group.listed}.append({group.name})` first",
        )

    def _report_named(self, found: left_out.OtherParameters) -> Finding:
        is_short = len(found.given) + len(found.meant) < 30
        return self.finding(
            found.location,
            f"gets the parameters of `{found.given}`, and no optimizer those of `{found.meant}`"
            if is_short
            else "gets the parameters of another module, which has an optimizer already",
            related=[Related(found.first, "trains the same parameters", "step")],
            help=f"pass `{found.meant}.parameters()` to the optimizer",
        )

    def _in_a_piece(self, pipeline: Pipeline) -> Iterator[Finding]:
        """In a piece of a script: its optimizer gets a network of another text, not the one that is built here."""
        optimizer = pipeline.optimizers[0] if len(pipeline.optimizers) == 1 and pipeline.source.is_partial else None
        if optimizer is None or optimizer.origin is None:
            return
        given = PARAMETERS_OF.search(pipeline.code(optimizer.origin))
        built = untrained_modules.networks_built(pipeline)
        if given is None or len(built) != 1 or not script_text.is_free(pipeline, given[1]):
            return
        (name, location) = next(iter(built.items()))
        if not training_loops.words_of(name) & untrained_modules.NOT_TRAINED:
            yield self.finding(
                optimizer.origin,
                f"gets the parameters of `{given[1]}`, and not those of `{name}`",
                related=[Related(location, "built here, never trained", "origin")],
                help=f"pass `{name}.parameters()` to the optimizer",
            )

    def _report_other(self, optimizer: Location, given: str, forward: events.Event, trained: str) -> Finding:
        is_short = len(given) + len(trained) < 30
        return self.finding(
            optimizer,
            f"gets the parameters of `{given}`, and not those of `{trained}`" if is_short else "gets other parameters",
            related=[Related(forward.location, "the loss comes from this network", "forward")],
            help=f"pass `{trained}.parameters()` to the optimizer",
        )

    def _data_given(self, pipeline: Pipeline) -> Iterator[Finding]:
        """An optimizer over tensors of data, which have no gradient, so that no step changes anything."""
        # Without a backward call it may be there for a schedule that is drawn, or for its state.
        for optimizer in pipeline.optimizers if any(pipeline.acts(events.Act.BACKWARD)) else ():
            given = optimizer.arguments.get("params")
            if not isinstance(given, python.Sequence) or not given.is_complete or not given.items:
                continue
            items = [each for each in given.items if isinstance(each, model.Tensor)]
            is_data = all(each.made is not None and each.made.name == "data" for each in items)
            if optimizer.origin is None or len(items) != len(given.items) or not is_data:
                continue
            made = items[0].made
            names = set(re.findall(r"\w+", (given.origin and pipeline.code(given.origin)) or ""))
            if names and not any(untrained_modules.may_get_gradient(pipeline, name) for name in names):
                yield self.finding(
                    optimizer.origin,
                    "gets tensors without gradients, so no step changes anything",
                    related=[Related(made.location, "made here", "origin")] if made and made.location else [],
                    help="pass what is to be trained: parameters, or tensors with `requires_grad=True`",
                )

    def _report(self, pipeline: Pipeline, forward: events.Event, training: training_loops.TrainingLoop) -> Finding:
        name = untrained_modules.names_of(pipeline, forward.subject)[0]
        created = forward.subject.origin
        given = _only_parameters(pipeline, forward)
        code = f"[*{pipeline.code(given)}, *{name}.parameters()]" if given else ""
        return self.finding(
            forward.location,
            f"`{name}` contributes to the loss, but its parameters are in no optimizer",
            related=[
                *([Related(created, "created here, never trained", "origin")] if created else []),
                Related(training.steps[-1].location, "updates other parameters", "step"),
                *([Related(given, "has only these", "given", code)] if given else []),
            ],
            help=f"pass `{name}.parameters()` to the optimizer, or run `{name}` under `torch.no_grad()` if it is fixed",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        reached = evidence.loop.reached if evidence.loop else None
        # Where the output of what an optimizer trains is cut off, the rest of the loss may well be fixed.
        is_cut = evidence.loop is not None and any(use.cut_at for use in evidence.loop.optimizers)
        if reached is not None and reached.outside_at is not None and reached.copied_at is None and not is_cut:
            yield self.finding(
                reached.outside_at,
                "this module contributes to the loss, but its parameters are in no optimizer",
                help="pass its `parameters()` to the optimizer, or run it under `torch.no_grad()` if it is fixed",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        return loop_verdicts.weights_outside(evidence, "optimizers")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("given")]
        return fixes.Fix.of("pass these parameters to the optimizer", *edits, safe=False) if edits else None


def _only_parameters(pipeline: Pipeline, forward: events.Event) -> Location | None:
    """The `net.parameters()` passed to the only optimizer, if the other module is created before it."""
    origin = pipeline.optimizers[0].origin if len(pipeline.optimizers) == 1 else None
    created = forward.subject.origin
    if origin is None or created is None or not created < origin or not blocks.is_one_scope(pipeline, created, origin):
        return None
    call = expressions.call_at(pipeline, origin)
    given = call.arguments[0] if call is not None and call.arguments else None
    if given is None or not re.fullmatch(r"[\w.]+\.parameters\(\)", given.code):
        return None
    return given.location
