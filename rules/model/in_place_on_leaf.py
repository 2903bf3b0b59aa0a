"""A parameter is changed in place where autograd records it.

A parameter that requires gradients is a leaf of the graph. Outside `torch.no_grad()`, `uniform_`, `mul_`, `copy_`,
`+=`, a stored item and an `out=` on it raise an error: *a leaf Variable that requires grad is being used in an
in-place operation*. In `__init__` the error appears as soon as the network is created.

## Bad

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.scale = nn.Parameter(torch.ones(3))
            self.scale.mul_(0.1)  # <- in-place-on-leaf

        def forward(self, x):
            return self.layer(x) * self.scale

    network = Scaled()
    # raises RuntimeError: a leaf Variable that requires grad is being used in an in-place operation
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

## Good

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.scale = nn.Parameter(torch.ones(3))
            with torch.no_grad():
                self.scale.mul_(0.1)

        def forward(self, x):
            return self.layer(x) * self.scale

    network = Scaled()
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

## When it is fine

Its data, a parameter without gradients, and what `torch.nn.init` changes:

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.scale = nn.Parameter(torch.ones(3))
            self.scale.data.mul_(0.1)
            self.steps = nn.Parameter(torch.zeros(1), requires_grad=False)
            self.steps.add_(1)
            nn.init.uniform_(self.scale)

        def forward(self, x):
            return self.layer(x) * self.scale

    network = Scaled()
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

## Fix

None: the change may belong into `torch.no_grad()`, or into the tensor that the parameter is made of.

## References

PyTorch documentation, "Autograd mechanics", "In-place operations with autograd"; the fix in `dmlc/dgl`, commit
28b09047791e.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradients, script_text
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import overlap, weight_of
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Parameter, Tensor
from lintrain.pipeline.values.python import LibraryObject, Unknown
from lintrain.pipeline.values.tensors import CHANGED_IN_PLACE
from lintrain.rule import Finding, Level, Location, Pipeline, Rule, Source, Targets, lazy_pattern, one_per_location

GIVES_GRADIENTS = r"\brequires_grad_\(|\.requires_grad\s*=|\.detach_\(|\.retain_grad\("
"""Code that gives a tensor that is computed in each step a gradient."""

CHANGES = lazy_pattern(r"\.grad\b|\.[a-z]\w*_\(|\bout\s*=|[-+*/]=|\]\s*=[^=]")


class InPlaceOnLeaf(Rule):
    level = Level.ERROR
    keywords = "Parameter(|parameters(|weight|bias|requires_grad"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(CHANGES) and (gradients.may_change_leaf(source) or any(gradients.rebound(source)))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        changed = [misuse for misuse in pipeline.misuses if misuse.use == CHANGED_IN_PLACE]
        rebound = list(gradients.rebound(pipeline.source))
        if not (changed or rebound) or script_text.mentions(pipeline, r"set_grad_enabled|set_default_device\(.meta"):
            return
        yield from one_per_location(
            self._report(each.location, each.text)
            for each in changed
            if not _may_be_frozen(pipeline, each)
            if not blocks.shows_error(pipeline.source_of(each.location), each.location)
        )

        if rebound and not script_text.mentions(pipeline, GIVES_GRADIENTS):
            yield from map(self._report_rebound, rebound)

    def _report_rebound(self, found: gradients.Rebound) -> Finding:
        if found.is_name:
            message = f"this binds the name `{found.name}` to a new tensor, and no weight changes"
        else:
            message = f"`{found.name}` becomes a new tensor, whose `grad` stays empty"
        change = f"`{found.name} -= …`"
        return self.finding(found.location, message, help=f"write {change} in `with torch.no_grad():`")

    def _report(self, location: Location, text: str) -> Finding:
        shown = f"`{text}`" if len(text) <= 30 else "this parameter"
        return self.finding(
            location,
            f"{shown} requires gradients, and autograd refuses to change it in place",
            help="change it in `with torch.no_grad():`",
        )


def _may_be_frozen(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether code may have switched the gradients of a parameter off, or moved a tensor off its leaf."""
    source, here = pipeline.source_of(misuse.location), misuse.location
    if any("requires_grad" in line for line in source.lines[max(here.line - 8, 0) : here.line - 1]):
        # A tensor that is made to require gradients says so in the line that makes it.
        made = misuse.value.origin
        return made is None or made.line < here.line - 8 or not isinstance(misuse.value, Tensor)
    if isinstance(misuse.value, Tensor | LibraryObject):
        return False
    layer = weight_of(misuse.value)
    modules = misuse.value.of if isinstance(misuse.value, Parameter) else (layer[0],) if layer is not None else ()
    frozen = [event.subject for event in pipeline.acts(Act.FREEZE)]
    shares = any(isinstance(one, Unknown) or overlap(one, module) for one in frozen for module in modules)
    return shares or script_text.mentions(pipeline, r"\.detach_\(")
