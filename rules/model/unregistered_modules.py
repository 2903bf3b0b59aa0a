"""Layers in a plain list or dictionary are not registered in the network.

A module registers modules and `ModuleList`s that are assigned to it; a Python list or dictionary of layers is an
ordinary attribute. Its layers compute, but `parameters()` does not return their weights, so no optimizer trains them,
and `to`, `eval` and `state_dict` skip them. No error appears on a single device.

## Bad

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(8, 8) for _ in range(3)]  # <- unregistered-modules
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            for layer in self.layers:
                x = F.relu(layer(x))
            return self.head(x)

    deep = Deep()
    optimizer = torch.optim.Adam(deep.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(deep(x), y).backward()
        optimizer.step()

## Good

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            for layer in self.layers:
                x = F.relu(layer(x))
            return self.head(x)

    deep = Deep()
    optimizer = torch.optim.Adam(deep.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(deep(x), y).backward()
        optimizer.step()

## When it is fine

The list becomes a container, or its layers are registered one by one:

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = []
            for index in range(3):
                self.layers.append(nn.Linear(8, 8))
            self.layers = nn.ModuleList(self.layers)
            self.extra = [nn.Linear(8, 8), nn.Linear(8, 3)]
            for index, layer in enumerate(self.extra):
                self.add_module(f"extra{index}", layer)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.extra[1](self.extra[0](x))

    deep = Deep()
    for x, y in loader:
        F.cross_entropy(deep(x), y).backward()

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = [nn.Linear(8, 8), nn.Linear(8, 3)]
            self.all = nn.Sequential(*self.parts)

        def forward(self, x):
            return self.parts[1](self.parts[0](x))

    twice = Twice()
    for x, y in loader:
        F.cross_entropy(twice(x), y).backward()

A teacher may be hidden on purpose, to be neither trained nor saved; layers without weights need no optimizer:

    class Student(nn.Module):
        def __init__(self, teacher):
            super().__init__()
            self.teacher = [teacher]
            self.activations = [nn.ReLU(), nn.Tanh()]
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            with torch.no_grad():
                self.teacher[0](x)
            return self.head(self.activations[0](x))

    student = Student(net)
    for x, y in loader:
        F.cross_entropy(student(x), y).backward()

The script passes their parameters to the optimizer:

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(8, 8) for _ in range(3)]
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    deep = Deep()
    weights = [weight for layer in deep.layers for weight in layer.parameters()]
    optimizer = torch.optim.Adam([*weights, *deep.head.parameters()])
    for x, y in loader:
        F.cross_entropy(deep(x), y).backward()
        optimizer.step()

## Fix

Asks first: the optimizer gets more parameters, and old checkpoints lack them.

## References

PyTorch documentation, `torch.nn.ModuleList`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import (
    built_layers,
    expressions,
    loop_verdicts,
    module_classes,
    prescreen,
    script_text,
    statements,
)
from lintrain.pipeline import layer_modes, modules
from lintrain.pipeline.record import KeptModules
from lintrain.pipeline.values.python import Mapping, Sequence, Unknown, Value, is_missing, options_of
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    fixes,
)

BY_HAND = frozenset(
    {"parameters", "named_parameters", "add_module", "register_module", "setattr", "requires_grad_", "__setattr__"}
    | {"state_dict", "add_param_group"}
)
"""Names whose use with the list may mean that the script handles its layers itself."""


OF_OTHERS = frozenset({"parameters", "named_parameters", "state_dict", "requires_grad_"})
"""Those that only concern the list if it is their owner, and not the whole object or another attribute."""


class UnregisteredModules(Rule):
    level = Level.ERROR
    keywords = "nn|Mod"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.cached(prescreen.may_keep_layers)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for kept in pipeline.kept_modules:
            if _is_unregistered(pipeline, kept):
                found[kept.location] = self._report(pipeline, kept)
        yield from found.values()

    def _report(self, pipeline: Pipeline, kept: KeptModules) -> Finding:
        kind, container = ("dictionary", "ModuleDict") if isinstance(kept.value, Mapping) else ("list", "ModuleList")
        edits: list[Related] = []
        if kept.value.origin is not None:
            code = pipeline.code(kept.value.origin)
            prefix = next((name for name in ("torch.nn.", "nn.") if name in code), "")
            if prefix:
                edits.append(Related(kept.value.origin, f"a plain {kind}", "value", f"{prefix}{container}({code})"))
        return self.finding(
            kept.location,
            f"`{kept.owner.cls.node.name}` does not register the layers in `self.{kept.name}`, a plain {kind}",
            related=edits,
            help=f"wrap them in an `nn.{container}`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        reached = evidence.loop.reached if evidence.loop is not None else None
        if reached is not None and reached.unregistered_at is not None:
            yield self.finding(
                reached.unregistered_at,
                "modules in a plain container are not registered, and no optimizer has their parameters",
                help="wrap them in an `nn.ModuleList` or an `nn.ModuleDict`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        return loop_verdicts.weights_outside(evidence, "modules")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("value")]
        return fixes.Fix.of("register the layers", *edits, safe=False) if edits else None


def _is_unregistered(pipeline: Pipeline, kept: KeptModules) -> bool:
    """Whether a list of layers with weights is used, is never replaced, and its layers are registered nowhere else."""
    held = kept.owner.attributes.get(kept.name)
    alternatives = options_of(held) if held is not None else ()
    if held is None or any(each is not kept.value and not is_missing(each) for each in alternatives):
        return False  # another branch, or a later statement, may register them
    if _is_taken_from_registered(pipeline, kept):
        return False
    source, cls = pipeline.source, kept.owner.cls
    if not script_text.is_used_after_init(cls, kept.name) and not built_layers.lacks_pass(source, cls.node):
        return False
    layers = _layers_of(kept)
    if len(layers) < 2 and not (_is_repeated(kept.value) or (layers and _is_iterated(pipeline, kept))):
        return False
    if not any(map(_is_missed, layers)) or not all(_is_created_there(pipeline, kept, layer) for layer in layers):
        return False
    others = [value for name, value in kept.owner.attributes.items() if name != kept.name]
    known = {id(part) for value in others if modules.is_module(value) for part in modules.modules_in(value)}
    return not any(id(layer) in known for layer in layers) and not _is_handled(pipeline, kept)


OF_ATTRIBUTE = re.compile(r"\bfor\s+\w+\s+in\s+self\.(\w+)")


def _is_taken_from_registered(pipeline: Pipeline, kept: KeptModules) -> bool:
    """Whether the items are those of another attribute, which registers them: `[f(x) for x in self.features]`."""
    found = OF_ATTRIBUTE.search(pipeline.code(kept.value.origin)) if kept.value.origin is not None else None
    held = kept.owner.attributes.get(found[1]) if found is not None else None
    return held is not None and not isinstance(held, Sequence | Mapping)


def _is_missed(layer: Value) -> bool:
    """Whether training or evaluation goes wrong without a layer: it has weights, or dropout that `eval` must end."""
    return modules.has_parameters(layer) or (modules.is_module(layer) and layer_modes.differs_by_mode(layer))


def _layers_of(kept: KeptModules) -> list[Value]:
    items = kept.value.items if isinstance(kept.value, Sequence) else []
    items = list(kept.value.entries.values()) if isinstance(kept.value, Mapping) else items
    return items if all(modules.is_module(item) for item in items) else []


def _is_repeated(value: Value) -> bool:
    """Whether one layer represents all those of a loop or comprehension."""
    return isinstance(value, Sequence) and not value.is_complete


def _is_iterated(pipeline: Pipeline, kept: KeptModules) -> bool:
    """Whether a method goes through the list, which then is not there to hide one module from its owner."""
    around = kept.owner.cls.origin
    goes_through = rf"\bin (?:enumerate\()?self\.{re.escape(kept.name)}\b"
    return around is not None and re.search(goes_through, pipeline.code(around)) is not None


def _is_created_there(pipeline: Pipeline, kept: KeptModules, layer: Value) -> bool:
    """Whether the class, or the function that stores the layer, also creates it; others may be registered elsewhere."""
    around, made = kept.owner.cls.origin, layer.origin
    if made is None or around is None:
        return False
    return around.holds(made) or statements.are_in_one_function(pipeline, kept.location, made)


def _is_passed_on(pipeline: Pipeline, kept: KeptModules) -> bool:
    """Whether the list goes into another module of the class, which may register its layers."""
    for made in expressions.assignments_in(pipeline, kept.owner.cls):
        (target, *others) = made.targets
        value = kept.owner.attributes.get(target.name)
        is_attribute = target.kind is expressions.Kind.ATTRIBUTE and not others
        if is_attribute and (isinstance(value, Unknown) or (value and modules.is_module(value))):
            parts = (part for each in made.value.arguments for part in each.parts_outside_indexes())
            if any(part.kind is expressions.Kind.ATTRIBUTE and part.name == kept.name for part in parts):
                return True
    return False


def _is_handled(pipeline: Pipeline, kept: KeptModules) -> bool:
    """Whether a statement that mentions the list, or the class itself, also mentions parameters or registration."""
    # `self.parameters()` gives what is registered, as an optimizer gets it in a Lightning module.
    names = module_classes.names_about(kept.owner.cls, pipeline.source, kept.name, but_of=OF_OTHERS)
    return bool(BY_HAND & names) or _is_passed_on(pipeline, kept)
