"""An evaluation drops the rows of its last batch.

With `drop_last=True` a loader leaves out the rows that do not fill a batch. For training that is harmless, since they
come again in another order. Here the metric leaves out the same rows each time, and a sum that is divided by the number
of all rows is too small.

## Bad

    train_loader = DataLoader(TensorDataset(features, targets), batch_size=32, shuffle=True, drop_last=True)
    held_out = TensorDataset(torch.randn(40, 8), torch.randint(3, (40,)))
    val_loader = DataLoader(held_out, batch_size=32, drop_last=True)  # <- dropped-eval-rows
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    hits = 0
    with torch.no_grad():
        for x, y in val_loader:
            hits += (net(x).argmax(dim=1) == y).sum().item()
    print(hits / len(val_loader.dataset))

## Good

    train_loader = DataLoader(TensorDataset(features, targets), batch_size=32, shuffle=True, drop_last=True)
    held_out = TensorDataset(torch.randn(40, 8), torch.randint(3, (40,)))
    val_loader = DataLoader(held_out, batch_size=32)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    hits = 0
    with torch.no_grad():
        for x, y in val_loader:
            hits += (net(x).argmax(dim=1) == y).sum().item()
    print(hits / len(val_loader.dataset))

## When it is fine

Training drops rows that come again in the next epoch:

    train_loader = DataLoader(TensorDataset(features, targets), batch_size=32, shuffle=True, drop_last=True)
    for epoch in range(2):
        for x, y in train_loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

So does the accuracy on the rows that are trained on, which is computed with the loader of the training:

    train_loader = DataLoader(TensorDataset(features, targets), batch_size=32, shuffle=True, drop_last=True)
    for epoch in range(2):
        net.train()
        for number, (x, y) in enumerate(train_loader):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        net.eval()
        hits = seen = 0
        with torch.no_grad():
            for x, y in train_loader:
                hits += (net(x).argmax(dim=1) == y).sum().item()
                seen += len(y)
        print("on the training rows", hits / seen)

A comment right above the loader that names `drop_last` and gives the reason is taken as it is.

## Fix

None: a network may need full batches.

## References

PyTorch documentation, `torch.utils.data.DataLoader`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from lintrain.analysis import evaluations, loaders, script_text, training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import LibraryObject, is_missing, is_true, number_of, options_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, lazy_pattern

IN_8_BITS = r"(?i)\b(?:fp8|float8|transformer_engine|msamp)"
OF_PAIRS = r"(?i)nt_?xent|info_?nce|sup_?con|\b(\w+) @ \1\.(?:T\b|t\()|\b(?:matmul|mm)\((\w+), \2\.(?:T\b|t\()"
"""Losses of each row against all others, which change with the number of rows."""
MESSAGE = "this loader is evaluated on, and drops the rows that do not fill a batch"


class DroppedEvalRows(Rule):
    level = Level.WARNING
    keywords = "drop_last"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        # Kernels for 8 bits need full batches, and so do losses that compare the rows of a batch.
        if script_text.mentions(pipeline, IN_8_BITS) or script_text.mentions(pipeline, OF_PAIRS):
            return
        found: dict[Location, Finding] = {}
        training = [loop for loop in pipeline.loops if _trains(pipeline, loop)]
        trained = {each.origin for loop in training for each in loaders.loaders_in(loop.each)}
        for forward in pipeline.acts(Act.FORWARD):
            loop = forward.loops[-1] if forward.loops else None
            if loop is None or _trains(pipeline, loop) or not _is_evaluated(pipeline, forward):
                continue
            if blocks.is_over_some(pipeline, loop.location):
                continue
            if not forward.without_grad and training_loops.words_of(loop.header) & evaluations.TRAINING_WORDS:
                continue
            for loader in (*options_of(loop.over), *loaders.loaders_in(loop.each)):
                drops = isinstance(loader, Loader) and (_drops(loader) or _has_dropping_sampler(loader))
                if isinstance(loader, Loader) and loader.origin and loader.origin not in trained and drops:
                    if _is_explained(pipeline, loader.origin):
                        continue
                    found.setdefault(loader.origin, self._report(loader, loader.origin, loop.location))
        yield from found.values()

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for loader in evidence.evaluation.loaders if evidence.evaluation else ():
            if loader.dropped and loader.made_at is not None:
                yield self.finding(loader.made_at, MESSAGE, help="leave out `drop_last=True` here")

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evaluation is None or not evaluation.passes:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        uses = [use for use in evaluation.loaders if use.made_at is not None and use.made_at.meets(finding.location)]
        known = [use for use in uses if use.dropped is not None]
        if not known:
            return Verdict.inconclusive("the evaluation did not read this loader, or its rows cannot be counted")
        dropped, rows = known[0].dropped or 0, known[0].rows or 0
        text = f"{dropped} of its {rows} rows are in no batch of {known[0].batch_size}"
        return (Verdict.confirmed if dropped else Verdict.refuted)(text, dropped=dropped, rows=rows)

    def _report(self, loader: Loader, made: Location, loop: Location) -> Finding:
        given = loader.locations.get("drop_last") or loader.locations.get("batch_sampler")
        return self.finding(
            made,
            MESSAGE,
            related=[
                Related(
                    Location(loop.path, loop.line, loop.column, loop.line, loop.column + 3), "evaluated here", "loop"
                ),
                *([Related(given, "drops them", "given")] if given and made.holds(given) else []),
            ],
            help="leave out `drop_last=True` here",
        )


EXPLAINS = lazy_pattern(r"#.*\bdrop[ _]?last\b", re.IGNORECASE)


def _is_explained(pipeline: Pipeline, loader: Location) -> bool:
    """Whether a comment right above a loader gives the reason why it drops its last rows."""
    lines = pipeline.source_of(loader).lines
    above = list(takewhile(lambda line: line.lstrip().startswith("#"), reversed(lines[: loader.line - 1])))
    return any(EXPLAINS.search(line) for line in above)


def _trains(pipeline: Pipeline, loop: Loop) -> bool:
    return any(each.act is Act.BACKWARD for each in training_loops.events_in(pipeline, loop))


def _is_evaluated(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass evaluates; one in train mode does so where its loop or function says it."""
    return evaluations.is_in_eval_mode(pipeline, forward) or evaluations.evaluates(pipeline, forward)


def _drops(loader: Loader) -> bool:
    """Whether a loader certainly drops rows: of a sampler the number may be chosen to fill its batches."""
    samplers = (name for name in ("sampler", "batch_sampler") if not is_missing(loader.value(name)))
    own = {*samplers, "**"}
    size = loader.value("batch_size")
    is_alone = is_missing(size) or number_of(size) == 1  # each row is a batch, so each batch is full
    is_certain = loader.is_complete and is_true(loader.value("drop_last"))
    return is_certain and not is_alone and not own & loader.arguments.keys()


def _has_dropping_sampler(loader: Loader) -> bool:
    """Whether torch's own `BatchSampler` makes the batches, and drops the rows that do not fill one."""
    sampler = loader.arguments.get("batch_sampler")
    if not isinstance(sampler, LibraryObject) or sampler.path not in BATCH_SAMPLERS:
        return False
    size, drop = (
        sampler.arguments.get(name, sampler.arguments.get(at)) for name, at in (("batch_size", "1"), ("drop_last", "2"))
    )
    order = sampler.arguments.get("sampler", sampler.arguments.get("0"))
    # A sampler that the script wrote may give as many rows as fill its batches.
    is_of_all = isinstance(order, LibraryObject) and OF_ALL_ROWS.search(order.path) is not None
    is_alone = size is not None and number_of(size) == 1
    return is_of_all and not is_alone and drop is not None and is_true(drop)


BATCH_SAMPLERS = frozenset({"torch.utils.data.BatchSampler", "torch.utils.data.sampler.BatchSampler"})
OF_ALL_ROWS = lazy_pattern(r"^torch\.utils\.data\.[\w.]*(?:(?<!Subset)Random|Sequential)Sampler$")
"""Samplers that give every row of a data set, in some order."""
