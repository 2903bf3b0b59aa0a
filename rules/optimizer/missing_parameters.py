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
from collections.abc import Iterator, Sequence

from lintrain.analysis import evaluations, expressions, iterations, left_out, loop_verdicts, script_text, training_loops
from lintrain.pipeline import blocks, events, modules
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

NOT_TRAINED = frozenset(
    {"random", "target", "targets", "teacher", "frozen", "fixed", "static", "reference", "ref", "prior", "reservoir"}
)
"""Words in the names of modules that are not trained: fixed networks of distillation and random features."""

DETACHES = lazy_pattern(r"\.detach\(|(?<!utils)\.data\b")
HANDS_ON = "parameters|named_parameters|load_state_dict|requires_grad_|detach"
ASSIGNED = lazy_pattern(r"\s*(\w+)\s*=[^=]")
SUMS = lazy_pattern(r"\bsum\(|\bprint\(|\blog\w*\.")
COUNTS = lazy_pattern(r"clip_grad_|numel")
"""Calls on parameters that do not train them."""

PARAMETERS_OF = lazy_pattern(r"\(\s*(?:params\s*=\s*)?(\w+)\.parameters\(\)")

INITIALISES = lazy_pattern(r"init|xavier|glorot|kaiming|weight|summary|count|describe", re.IGNORECASE)
"""Names of functions that set the first weights of a module, or print something about it."""

COMMENT = lazy_pattern(r"(?m)^[ \t]*#.*$")

MAY_FREEZE = lazy_pattern(r"requires_grad(?!\s*=\s*True\b|_\((?:True)?\))|no_grad|inference_mode")


class MissingParameters(Rule):
    level = Level.ERROR
    keywords = "optim|Adam|Adafactor"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from self._in_a_piece(pipeline)
        yield from one_per_location(map(self._report_group, left_out.left_out_groups(pipeline.source)))
        yield from self._data_given(pipeline)
        if not training_loops.trains_by_hand(pipeline):
            return
        yield from one_per_location(self._report_other(*each) for each in _of_another(pipeline))
        trained = expressions.parts_shared(pipeline, _trained(pipeline))
        found: dict[Location, Finding] = {}
        for training in iterations.loops_and_steps(pipeline) if trained else ():
            forwards = list(_forwards(training))
            ran = expressions.parts_shared(pipeline, (forward.subject for forward in forwards))
            if trained.isdisjoint(ran) and _may_run_otherwise(pipeline, training):
                continue
            for forward in forwards:
                if _is_left_out(pipeline, training, forward, trained):
                    found.setdefault(forward.location, self._report(pipeline, forward, training))
        yield from found.values()

    def _report_group(self, group: left_out.LeftOutGroup) -> Finding:
        return self.finding(
            group.optimizer,
            f"the last parameter group, `{group.name}`, is not in `{group.listed}`, so no step changes it",
            related=[Related(group.location, "built here, never appended", "origin")],
            help=f"call `{group.listed}.append({group.name})` first",
        )

    def _in_a_piece(self, pipeline: Pipeline) -> Iterator[Finding]:
        """In a piece of a script: its optimizer gets a network of another text, not the one that is built here."""
        optimizer = pipeline.optimizers[0] if len(pipeline.optimizers) == 1 and pipeline.source.is_partial else None
        if optimizer is None or optimizer.origin is None:
            return
        given = PARAMETERS_OF.search(pipeline.code(optimizer.origin))
        built = _networks_built(pipeline)
        if given is None or len(built) != 1 or not script_text.is_free(pipeline, given[1]):
            return
        (name, location) = next(iter(built.items()))
        if not training_loops.words_of(name) & NOT_TRAINED:
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
            if names and not any(_may_get_gradient(pipeline, name) for name in names):
                yield self.finding(
                    optimizer.origin,
                    "gets tensors without gradients, so no step changes anything",
                    related=[Related(made.location, "made here", "origin")] if made and made.location else [],
                    help="pass what is to be trained: parameters, or tensors with `requires_grad=True`",
                )

    def _report(self, pipeline: Pipeline, forward: events.Event, training: training_loops.TrainingLoop) -> Finding:
        name = _names_of(pipeline, forward.subject)[0]
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


def _names_of(pipeline: Pipeline, module: python.Value) -> list[str]:
    """The name of a module and those of parameters that get it, or the attribute of `self` that it was made for.

    None of a module with two names where it was made.
    """
    bindings = pipeline.names_of(module)
    names = list(dict.fromkeys(binding.name for binding in bindings))
    if bindings:
        first = blocks.scope_of(pipeline, bindings[0].location)
        own = {each.name for each in bindings if blocks.scope_of(pipeline, each.location) is first}
        names = names if len(own) == 1 else []
    if bindings or module.origin is None:
        return names
    made = expressions.assignment_at(pipeline, module.origin)
    targets = [target.code for target in made.targets] if made else []
    return targets if all(target.startswith("self.") for target in targets) else []


def _is_of_the_class(pipeline: Pipeline, training: training_loops.TrainingLoop, module: python.Value) -> bool:
    """Whether a function that the file does not call trains what was made together with its optimizers."""
    optimizers = [step.subject for step in training.steps]
    if module.origin is None or any(each.origin is None for each in optimizers):
        return False
    made = blocks.scope_of(pipeline, module.origin)
    return all(blocks.scope_of(pipeline, each.origin) is made for each in optimizers if each.origin)


def _trained(pipeline: Pipeline) -> list[python.Value]:
    """The modules in all optimizers; empty unless they are known for every optimizer."""
    known = [optimizer for optimizer in pipeline.optimizers if optimizer.trains and not optimizer.is_extended]
    steps = pipeline.acts(events.Act.STEP)
    are_all_known = all(
        training_loops.is_certain_step(step) and isinstance(step.subject, model.Optimizer) for step in steps
    )
    if len(known) != len(pipeline.optimizers) or not are_all_known:
        return []
    return [module for optimizer in known for module in optimizer.trains]


def _of_another(pipeline: Pipeline) -> Iterator[tuple[Location, str, events.Event, str]]:
    """The optimizers of a network that is not understood, in loops that train another one which the file makes."""
    for training in training_loops.training_loops(pipeline):
        optimizer = training.steps[0].subject
        if any(step.subject is not optimizer for step in training.steps) or not isinstance(optimizer, model.Optimizer):
            continue
        forwards = list(_forwards(training))
        if optimizer.origin is None or len(optimizer.trains) != 1 or len({id(each.subject) for each in forwards}) != 1:
            continue
        given, ran = (
            value.name if isinstance(value, python.Unknown) else ""
            for value in (optimizer.trains[0], forwards[0].subject)
        )
        are_named = given.isidentifier() and ran.isidentifier() and given != ran
        if are_named and _is_elsewhere(pipeline, given, ran, training):
            yield optimizer.origin, given, forwards[0], ran


def _is_elsewhere(pipeline: Pipeline, given: str, ran: str, training: training_loops.TrainingLoop) -> bool:
    """Whether the file makes both networks by calls of their own, and the loop uses only the second one."""
    code = pipeline.code(training.loop.location)
    named = frozenset(re.findall(r"\w+", code))
    reached = [code, *script_text.code_of_functions(pipeline, named)]
    uses = re.compile(rf"\b{given}\b(?!\.({MODES})\()")
    made = [re.compile(rf"(?m)^\s*{name} *= *\w[\w.]*\(([^\n]*)\n") for name in (given, ran)]
    calls = [
        [match[1] for source in pipeline.sources.values() for match in each.finditer(source.text)] for each in made
    ]
    are_made = all(len(each) == 1 for each in calls) and not re.search(rf"\b{given}\b", calls[1][0])
    return are_made and not any(uses.search(each) for each in reached)


def _forwards(training: training_loops.TrainingLoop) -> Iterator[events.Event]:
    """The forward passes with gradients before the backward pass of a loop."""
    for event in training.inside:
        is_earlier = event.act is events.Act.FORWARD and event.order < training.backward.order
        if is_earlier and event.records_for(training.backward):
            yield event


def _is_left_out(
    pipeline: Pipeline, training: training_loops.TrainingLoop, forward: events.Event, trained: frozenset[int]
) -> bool:
    """Whether a custom module with new weights certainly contributes to the loss and is never trained."""
    module = forward.subject
    if not isinstance(module, model.Module | python.Instance) or not modules.has_parameters(module):
        return False
    names = _names_of(pipeline, module)
    if not names or (forward.uncalled and not _is_of_the_class(pipeline, training, module)):
        return False
    if not trained.isdisjoint(expressions.parts_shared(pipeline, [module])) or not training_loops.runs_whenever(
        forward, training.backward
    ):
        return False
    fate = pipeline.acts(events.Act.FREEZE, events.Act.ESCAPE, events.Act.NEW_PART)
    if (
        _may_be_detached(pipeline, training)
        or any(_is_held(pipeline, name) for name in names)
        or any(_is_held(pipeline, owner, by_part=False) for owner in _owners(pipeline, forward))
        or _stays_in_eval_mode(pipeline, module)
        or any(training_loops.touches(event, module) and not _initialises(pipeline, event) for event in fate)
    ):
        return False
    is_fixed = any(training_loops.words_of(name) & NOT_TRAINED for name in names)
    is_fixed = is_fixed or _is_fixed(module) or _is_filter(pipeline, module)
    return not is_fixed and not script_text.mentions(pipeline, r"\b(globals|locals)\(\)")


def _networks_built(pipeline: Pipeline) -> dict[str, Location]:
    """The networks that a text builds and may train: those that a training loop runs, or all if none is run."""
    passes = [event for event in pipeline.acts(events.Act.FORWARD) if not event.without_grad]
    trained = [
        forward.subject for training in training_loops.training_loops(pipeline) for forward in _forwards(training)
    ]
    found: dict[str, Location] = {}
    for binding in pipeline.bindings:
        value = binding.value
        if not isinstance(value, python.Instance) or value.origin is None or not modules.has_parameters(value):
            continue
        if passes and not any(each is value for each in trained):
            continue
        if not _stays_in_eval_mode(pipeline, value) and not _is_held(pipeline, binding.name):
            found[binding.name] = value.origin
    return found


def _initialises(pipeline: Pipeline, event: events.Event) -> bool:
    """Whether a call of unknown code only gives a module its first weights, by its name."""
    callee = pipeline.code(event.location).partition("(")[0]
    return event.act is events.Act.ESCAPE and not event.loops and INITIALISES.search(callee) is not None


def _may_run_otherwise(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether a loop that calls no trained module may run one by another method, or train something else."""
    # A loop may step thousands of times; its optimizers are few.
    own = {id(step.subject): step.subject for step in training.steps}.values()
    modules_of = [module for each in own if isinstance(each, model.Optimizer) for module in each.trains]
    names = dict.fromkeys(binding.name for module in modules_of for binding in pipeline.names_of(module))
    code = pipeline.code(training.loop.location)
    for forward in training.inside:
        if forward.act is events.Act.FORWARD and forward.without_grad:
            code = code.replace(pipeline.code(forward.location), "")
    uses = (re.search(rf"\b{re.escape(name)}\b(?!\.({MODES})\()", code) for name in names)
    return not names or any(uses)


MODES = "train|eval|parameters|zero_grad|named_parameters|state_dict"
"""Methods of a module that do not run it."""


def _may_be_detached(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether a loop, or a function or class that it names, takes something off the graph before `backward`."""
    loop, backward = training.loop.location, training.backward.location
    code = COMMENT.sub("", pipeline.code(loop))
    before, call, _ = code.partition(pipeline.code(backward))
    if DETACHES.search(before + call):
        return True
    named = frozenset(re.findall(r"\w+", code)) | {"forward"}
    return any(DETACHES.search(code) for code in script_text.code_of_functions(pipeline, named))


def _may_get_gradient(pipeline: Pipeline, name: str) -> bool:
    """Whether code switches on the gradient of a tensor by its name, or hands it to a call that may do so."""
    word = rf"\b{re.escape(name)}\b"
    switches = rf"(?m){word}(?:\.\w+|\[[^\]]*\])*\.requires_grad|^\s*(?!print)[\w.]+\((?:.*\W)?{word}"
    return script_text.mentions(pipeline, switches)


def _owners(pipeline: Pipeline, forward: events.Event) -> list[str]:
    """What a call reaches its module through, as far as it has names: `self.clip` of `self.clip.encoder(x)`."""
    parts = training_loops.callee_text(pipeline, forward).split(".")[:-1]
    return [".".join(parts[: count + 1]) for count in range(len(parts)) if parts[: count + 1] != ["self"]]


def _is_held(pipeline: Pipeline, name: str, *, by_part: bool = True) -> bool:
    """Whether code hands on the parameters of a module, loads or frees them, otherwise than to clip or count them.

    `by_part` if those of a part of it count too.
    """
    parts = r"(\.\w+)*" if by_part else ""
    held = re.compile(rf"\b{re.escape(name)}\b{parts}\.({HANDS_ON})\(")
    return any(
        held.search(line) and not COUNTS.search(line) and not _is_only_counted(source.lines, line)
        for source in pipeline.sources.values()
        for line in source.lines
    )


def _is_only_counted(lines: Sequence[str], line: str) -> bool:
    """Whether a line makes a list of parameters that no other line uses but to count them."""
    made = ASSIGNED.match(line)
    if made is None:
        return False
    named = re.compile(rf"\b{made[1]}\b")
    uses = [each for each in lines if named.search(each.partition("#")[0]) and not _assigns(each, made[1])]
    return all(COUNTS.search(each) or SUMS.search(each) for each in uses)


def _assigns(line: str, name: str) -> bool:
    made = ASSIGNED.match(line)
    return made is not None and made[1] == name


def _stays_in_eval_mode(pipeline: Pipeline, module: python.Value) -> bool:
    """Whether a module is put into eval mode for good, as fixed ones are: nothing gives it train mode again."""
    switches = [each for each in pipeline.acts(*evaluations.SETS_MODE) if training_loops.touches(each, module)]
    restoring = [each for each in switches if each.act is events.Act.RESTORE_MODE]
    is_trained = any(each.act is events.Act.TRAIN_MODE for each in switches)
    lasting = (
        each for each in switches if each.act is events.Act.EVAL_MODE and not evaluations.is_undone(each, restoring)
    )
    return not is_trained and any(lasting)


def _is_fixed(module: python.Value) -> bool:
    """Whether the class of the module, or of a part of it, freezes weights or has a name that implies it."""
    classes = [
        owner
        for part in modules.modules_in(module)
        if isinstance(part, python.Instance)
        for owner in part.cls.lineage()
    ]
    return any(
        training_loops.words_of(owner.node.name) & NOT_TRAINED or MAY_FREEZE.search(expressions.code_of(owner))
        for owner in classes
    )


def _is_filter(pipeline: Pipeline, module: python.Value) -> bool:
    """Whether each iteration gives a layer weights of the script's own, as a fixed filter has: it cannot learn any."""
    return any(
        event.subject is module and event.loops and python.literal(event.details["name"]) == "weight"
        for event in pipeline.acts(events.Act.REPLACE)
    )


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
