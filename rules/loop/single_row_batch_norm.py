"""A batch with a single row reaches batch normalization in train mode.

In train mode, the layer computes mean and variance over the rows of the batch. A single row has no variance, and the
run fails with `Expected more than 1 value per channel when training`: at the first step, or at the end of the first
epoch if the last batch has one row.

## Bad

    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    rows = TensorDataset(torch.randn(97, 8), torch.randint(3, (97,)))
    batches = DataLoader(rows, batch_size=16, shuffle=True)  # <- single-row-batch-norm
    for x, y in batches:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()
    # raises ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 16])

Without `batch_size`, a loader returns batches of one row:

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = nn.Linear(8, 16)
            self.norm = nn.BatchNorm1d(16)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            return self.head(F.relu(self.norm(self.hidden(x))))

    network = Network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    batches = DataLoader(TensorDataset(features, targets), shuffle=True)  # <- single-row-batch-norm
    for x, y in batches:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()
    # raises ValueError: Expected more than 1 value per channel when training, got input size torch.Size([1, 16])

## Good

    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    rows = TensorDataset(torch.randn(97, 8), torch.randint(3, (97,)))
    batches = DataLoader(rows, batch_size=16, shuffle=True, drop_last=True)
    for x, y in batches:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

## When it is fine

The last batch has more than one row, and evaluation uses the running statistics:

    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    rows = TensorDataset(torch.randn(98, 8), torch.randint(3, (98,)))
    network.train()
    for x, y in DataLoader(rows, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()
    network.eval()
    with torch.no_grad():
        for x, y in DataLoader(rows, batch_size=1):
            network(x)

A single image has many values in each channel, and the loop may skip a batch that is too small:

    images = TensorDataset(torch.randn(17, 3, 8, 8), torch.randint(3, (17,)))
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 3))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for x, y in DataLoader(images, batch_size=16):
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()
    rows = TensorDataset(torch.randn(97, 8), torch.randint(3, (97,)))
    dense = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(dense.parameters(), lr=1e-3)
    for x, y in DataLoader(rows, batch_size=16):
        if len(x) == 1:
            continue
        optimizer.zero_grad()
        criterion(dense(x), y).backward()
        optimizer.step()

The number of selected rows is unknown:

    rows = TensorDataset(features[targets > 0], targets[targets > 0])
    network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    for x, y in DataLoader(rows, batch_size=16):
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

## Fix

Asks first: the rows of the last batch are dropped from the epoch.

## References

PyTorch documentation, `torch.nn.BatchNorm1d` and `torch.utils.data.DataLoader`: `drop_last`; pytorch#4534.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, loaders, trainer_methods, training_loops
from lintrain.pipeline import modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values import loading, model, python
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

ROWWISE = lazy_pattern(
    r"(Lazy)?Linear|(Lazy)?BatchNorm1d|LayerNorm|Identity|Dropout|Sequential|[CS]?ELU|PReLU|(Leaky)?ReLU6?|GELU|SiLU|"
    r"Mish|(Log)?Softmax|(Log|Hard)?[Ss]igmoid|(Hard)?[Tt]anh|Hardswish|Softplus|Softsign"
)
"""Layers that map each row of [rows, values] on its own."""

RESHAPES = lazy_pattern(
    r"\.(view|reshape|permute|transpose|repeat|expand|unfold|size|shape|T|mT)\b|einsum|stack|cat|len\("
)
"""Code of a forward pass that may change or read the number of rows."""

KEEPS_ROWS = lazy_pattern(r"\w+(\.(to|cuda|float|double|clone|detach)\(.*\))+")

TOO_FEW = "Expected more than 1 value per channel when training"


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether only the last batch has a single row, so that `drop_last=True` helps."""

    is_last_batch: bool


class SingleRowBatchNorm(Rule[Claim]):
    level = Level.ERROR
    keywords = "DataLoader & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        if pipeline.launchers or any("SyncBatchNorm" in each.text for each in pipeline.sources.values()):
            return
        judged = set[tuple[int, int, int]]()
        for feeding in loaders.feedings(pipeline):
            key = id(feeding.training.loop), id(feeding.loop), id(feeding.loader)
            if key in judged or not _leaves_one_row(feeding.loader):
                continue
            judged.add(key)
            norm = next((each for each in _passes(pipeline, feeding) if each), None)
            location = feeding.loader.origin
            if norm is not None and location is not None and not loaders.expects_error(pipeline, location):
                for finding in self._judge(feeding, norm, location):
                    found.setdefault(location, finding)
        yield from found.values()

    def _judge(self, feeding: loaders.Feeding, norm: model.Module, location: Location) -> Iterator[Finding[Claim]]:
        size, rows = _size_and_rows(feeding.loader)
        reasons = [Related(norm.origin, "computes statistics over the rows", "norm")] if norm.origin else []
        if size == 1:
            yield self.finding(
                location,
                f"each batch has one row, too few for `{norm.name}`",
                related=reasons,
                help="pass `batch_size=` to the loader, or use `LayerNorm`",
            )
        else:
            yield self.finding(
                location,
                f"{rows} rows in batches of {size} leave one row, too few for `{norm.name}`",
                related=reasons,
                help="pass `drop_last=True`, or use another `batch_size`",
                claim=Claim(True),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loader = evidence.loop.loader if evidence.loop is not None else None
        if evidence.failed_with(TOO_FEW) and loader is not None:
            yield self.finding(
                loader.made_at or evidence.location,
                "a batch of a single row reaches batch normalization in train mode",
                help="pass `drop_last=True` to the loader, or another `batch_size`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.failed_with(TOO_FEW):
            return Verdict.confirmed(f"`{TOO_FEW}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if loop.loader is not None and loop.loader.has_lone_row:
            return Verdict.refuted(f"the loop went through {loop.batches} batches, the last one of a single row")
        split, loader = evidence.split("train_dataset"), loop.loader
        if split is None or split.rows is None or loader is None or not loader.batch_size:
            return Verdict.inconclusive(f"the last batch was not reached: {loop.batches} batches ran")
        left = 0 if loader.drops_last else split.rows % loader.batch_size
        text = f"{split.rows} rows in batches of {loader.batch_size} leave {left} for the last batch"
        return (Verdict.confirmed if left == 1 or loader.batch_size == 1 else Verdict.refuted)(text, left=left)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.is_last_batch:
            return None
        return fixes.Fix.of(
            "pass `drop_last=True`", fixes.AddArgument(finding.location, "drop_last", "True"), safe=False
        )


def _size_and_rows(loader: loading.Loader) -> tuple[int, int | None]:
    """The batch size, 0 if it is unknown, and the number of rows of the data set."""
    given = loader.value("batch_size")
    size = 1 if given is python.ABSENT else python.literal(given)
    rows = loader.dataset.rows if isinstance(loader.dataset, loading.TorchDataset) else None
    return (0 if isinstance(size, bool) or not isinstance(size, int) else size), rows


def _leaves_one_row(loader: loading.Loader) -> bool:
    """Whether some batch of the loader certainly has a single row."""
    size, rows = _size_and_rows(loader)
    is_left = size > 1 and rows is not None and rows % size == 1 and python.is_missing(loader.value("drop_last"))
    return size == 1 or is_left


def _passes(pipeline: Pipeline, feeding: loaders.Feeding) -> Iterator[model.Module | None]:
    """The batch normalization layer that every batch certainly passes through in train mode, row by row."""
    loader, loop = feeding.loader, feeding.loop
    others = ("sampler", "batch_sampler", "collate_fn")
    if any(not python.is_missing(loader.value(name)) for name in others) or not _has_rows(loader.dataset):
        return
    body = pipeline.code(loop.location)
    if re.search(r"\b(continue|break)\b", body):
        return
    for event in feeding.training.inside:
        if event.act is Act.FORWARD and not event.without_grad and not event.is_conditional_in(loop):
            is_whole = _is_given_the_batch(pipeline, event, body)
            yield _norm_in(event.subject) if is_whole and _trains(pipeline, event) else None


def _has_rows(dataset: python.Value) -> bool:
    """Whether a data set returns rows of plain values: tensors [rows, values]."""
    while isinstance(dataset, loading.TorchDataset) and dataset.name == "random_split":
        dataset = dataset.parts[0]
    match dataset:
        case loading.TorchDataset(parts=(model.Tensor() as first, *_)):
            return first.shape.rank == 2
        case _:
            return False


def _is_given_the_batch(pipeline: Pipeline, event: Event, body: str) -> bool:
    """Whether a call gets a loop variable that is unchanged except for moves and casts."""
    name = expressions.only_argument(pipeline, event.location)
    bound = body.removeprefix("for ").partition(" in ")[0]
    changes = re.findall(rf"^\s*{name}\s*=\s*(.+)$", body, flags=re.MULTILINE)
    return bool(name) and name in re.findall(r"\w+", bound) and all(KEEPS_ROWS.fullmatch(change) for change in changes)


def _trains(pipeline: Pipeline, event: Event) -> bool:
    """Whether a forward pass certainly runs in train mode."""
    modes = [each for each in pipeline.acts(Act.TRAIN_MODE, Act.EVAL_MODE) if each.order < event.order]
    own = [
        each
        for each in modes
        if training_loops.covers(each, event.subject) or not isinstance(each.subject, model.Module | python.Instance)
    ]
    return not own or own[-1].act is Act.TRAIN_MODE


def _norm_in(network: python.Value) -> model.Module | None:
    """The last batch normalization layer of a network that processes each row on its own."""
    norms: list[model.Module] = []
    for part in modules.modules_in(network):
        if isinstance(part, model.Module):
            if not ROWWISE.fullmatch(part.name):
                return None
            norms += [part] if part.name.endswith("BatchNorm1d") else []
        elif isinstance(part, python.Unknown | python.Either) or (
            isinstance(part, python.Instance) and not _is_rowwise(part)
        ):
            return None
    return norms[-1] if norms else None


def _is_rowwise(network: python.Instance) -> bool:
    match network.cls.lookup("forward"):
        case (_, python.Function() as forward) if not network.cls.has_unknown_base:
            return not trainer_methods.branches(forward) and not RESHAPES.search(expressions.code_of(forward))
        case _:
            return False
