"""A layer, a `view` or a loss gets a tensor of another size than it was built for.

The first forward pass raises an error such as `mat1 and mat2 shapes cannot be multiplied`. On a cluster that is after
the data was downloaded and prepared. Typical causes are a layer whose input size was not changed with the layer
before it, a missing `Flatten`, a number of features that was computed for another image size, and predictions of
shape `(N, 1)` with targets of shape `(N,)`.

## Bad

    classifier = nn.Sequential(
        nn.Linear(8, 256),
        nn.ReLU(),
        nn.Linear(128, 3),  # <- shape-mismatch
    )
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

    # raises RuntimeError: mat1 and mat2 shapes cannot be multiplied

The network does not fit the data:

    classifier = nn.Sequential(
        nn.Linear(16, 32),  # <- shape-mismatch
        nn.ReLU(),
        nn.Linear(32, 3),
    )
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

    # raises RuntimeError: mat1 and mat2 shapes cannot be multiplied

A convolution changes the size of the image:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, kernel_size=3)
            self.output = nn.Linear(4 * 14 * 14, 3)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv(x)), 2)
            return self.output(torch.flatten(x, 1))  # <- shape-mismatch

    images = TensorDataset(torch.randn(32, 1, 28, 28), torch.randint(0, 3, (32,)))
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(images, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

    # raises RuntimeError: mat1 and mat2 shapes cannot be multiplied

A binary loss of predictions and targets of different shapes:

    classifier = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    criterion = nn.BCEWithLogitsLoss()
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(classifier(x), (y == 0).float())  # <- shape-mismatch
        loss.backward()
        optimizer.step()

    # raises ValueError: Target size (torch.Size([16])) must be the same as input size (torch.Size([16, 1]))

## Good

    classifier = nn.Sequential(
        nn.Linear(8, 256),
        nn.ReLU(),
        nn.Linear(256, 3),
    )
    optimizer = torch.optim.SGD(classifier.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

With the size after convolution and pool:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 4, kernel_size=3)
            self.output = nn.Linear(4 * 13 * 13, 3)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv(x)), 2)
            return self.output(torch.flatten(x, 1))

    images = TensorDataset(torch.randn(32, 1, 28, 28), torch.randint(0, 3, (32,)))
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(images, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()

## When it is fine

Sizes that are not known may be right:

    from my_settings import hidden

    classifier = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(128, 3))
    for x, y in loader:
        F.cross_entropy(classifier(x), y).backward()

Layers of one list have sizes of their own:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(F.relu(x))
            return x

    net = Net()
    for x, y in loader:
        F.cross_entropy(net(x), y).backward()

The network looks at the shape first:

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.output = nn.Linear(16, 8), nn.Linear(8, 3)

        def forward(self, x):
            if x.shape[1] == 16:
                x = self.wide(x)
            return self.output(x)

    net = Net()
    for x, y in loader:
        F.cross_entropy(net(x), y).backward()

## Fix

None: either of the two sizes may be the intended one.

## References

PyTorch documentation, `torch.nn.Linear`, `torch.nn.Conv2d` and `torch.nn.BCEWithLogitsLoss`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import built_layers, expressions, loop_verdicts, statements
from lintrain.pipeline import blocks
from lintrain.pipeline.record import ShapeMisfit
from lintrain.pipeline.values.tensors import Shape
from lintrain.pipeline.values.training import LossCall
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
    lazy_pattern,
)

BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
"""Losses that raise an error unless both arguments have the same shape."""

ROWS_AND_CLASSES = ("rows", "classes")

RAISED = (
    "to match target batch_size",
    "cannot be multiplied",
    "size mismatch",
    "channels, but got",
    "running_mean should contain",
    "must be equal to input_size",
    "Given normalized_shape",
    "was expecting embedding dimension",
    "is invalid for input of size",
    "must be the same as input size",
    "is different to the input size",
    "must match the size of tensor",
)
"""Parts of the messages with which PyTorch refuses a shape."""


class ShapeMismatch(Rule):
    level = Level.ERROR
    keywords = "nn|view|reshape"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return built_layers.builds_sized_layers(source)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for misfit in pipeline.misfits:
            if not _is_of_unused_test(pipeline, misfit):
                found.setdefault(misfit.location, self._report(misfit))
        for loss in loop_verdicts.losses_called(pipeline, *BINARY):
            shapes = _unequal(loss)
            if shapes is not None:
                found.setdefault(loss.location, self._report_loss(loss, *shapes))
        for loss in loop_verdicts.losses_called(pipeline, "cross_entropy", "nll_loss"):
            if _lacks_rows(loss):
                found.setdefault(loss.location, self._report_number(loss))
        source = pipeline.source_of
        yield from (each for at, each in found.items() if not blocks.shows_error(source(at), at))

    def _report_number(self, loss: LossCall) -> Finding:
        target = loss.target.text if loss.target else ""
        shown = f"`{target}`" if 0 < len(target) <= 24 else "the target"
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` gets rows of scores, but {shown} is one number",
            help="give the target an axis for the rows: `.view(1)`",
        )

    def _report(self, misfit: ShapeMisfit) -> Finding:
        is_view = misfit.what in {"view", "reshape"}
        related = [(misfit.made, "the input is computed here"), (misfit.layer, "the layer is made here")]
        return self.finding(
            misfit.location,
            f"`{misfit.what}` makes rows of {misfit.expected} numbers out of rows of {misfit.size}"
            if is_view
            else f"`{misfit.what}` expects size {misfit.expected}, but gets {misfit.size}",
            related=[Related(location, text) for location, text in related if location and location != misfit.location],
            help=f"the input has shape {misfit.shape}; change one of the two sizes",
        )

    def _report_loss(self, loss: LossCall, prediction: Shape, target: Shape) -> Finding:
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` gets predictions {prediction} and targets {target}",
            help="give both the same shape: `.squeeze(-1)` for predictions, or `.unsqueeze(-1)` for targets",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*RAISED)
        if failed is not None and failed.failure is not None:
            message = failed.failure.message.splitlines()[0].rstrip(".")
            return Verdict.confirmed(f"the {failed.name} stage failed: `{message}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.backwards} backward passes ran without an error about shapes"
        return (Verdict.refuted if loop.backwards else Verdict.inconclusive)(text, passes=loop.backwards)


UNIT_TEST = lazy_pattern(r"^_*(?:unit_?)?test(?:_|$)")


def _is_of_unused_test(pipeline: Pipeline, misfit: ShapeMisfit) -> bool:
    """Whether the input is made by a test below a network that its file no longer calls: `# test()`."""
    if misfit.made is None:
        return False
    name = statements.name_of_scope(pipeline, misfit.made)
    if UNIT_TEST.search(name) is None:
        return False
    calls = expressions.calls_in_file(pipeline.source_of(misfit.made))
    return not any(call.callee is not None and call.callee.code == name for call in calls)


def _lacks_rows(loss: LossCall) -> bool:
    """Whether a loss over classes certainly gets rows of scores, and a single class number."""
    inputs, targets = loop_verdicts.tensors_given(loss), loop_verdicts.tensors_given(loss, "target")
    rows = bool(inputs) and all(each.shape.rank == len(ROWS_AND_CLASSES) for each in inputs)
    return rows and bool(targets) and all(each.shape.rank == 0 and each.kind == "int" for each in targets)


def _unequal(loss: LossCall) -> tuple[Shape, Shape] | None:
    """The shapes of prediction and target, where these certainly differ."""
    inputs, targets = loop_verdicts.tensors_given(loss), loop_verdicts.tensors_given(loss, "target")
    pairs = [(one.shape, other.shape) for one in inputs for other in targets]
    return pairs[0] if pairs and all(_differ(*pair) for pair in pairs) else None


def _differ(one: Shape, other: Shape) -> bool:
    if one.rank is None or other.rank is None:
        return False
    if one.rank != other.rank:
        return True
    sizes = zip(one.sizes, other.sizes, strict=True)
    return any(None not in (size, match) and min(size or 0, match or 0) > 0 and size != match for size, match in sizes)
