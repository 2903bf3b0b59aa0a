"""The pipeline as a diagram, with the status of each part."""

from __future__ import annotations

from lintrain.evidence.run import Evidence, Stage, StageName, StageText
from lintrain.report.page.markup import Markup, tag
from lintrain.report.text.columns import clip
from lintrain.startup.lazy_dataclass import dataclass

BOX_WIDTH, BOX_HEIGHT, GAP = 164, 84, 24
LETTERS = 21
"""Characters per line of a box."""
SIGNS = {"passed": "✓", "failed": "✗", "not reached": "·"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the pipeline, and the stage that runs it."""

    title: str
    stage: StageName | StageText
    lines: tuple[str, ...]


def picture(evidence: Evidence) -> Markup:
    """The parts side by side, and again one below the other for narrow screens."""
    parts = parts_of(evidence)
    return tag("div", _drawn(evidence, parts, is_tall=False), _drawn(evidence, parts, is_tall=True), class_="pipeline")


def parts_of(evidence: Evidence) -> tuple[Part, ...]:
    """From data to evaluation, preceded by the script or the construction if it failed."""
    before = tuple(
        Part(title, name, ())
        for title, name in (("script", StageName.SCRIPT), ("set-up", StageName.CONSTRUCTION))
        if (stage := evidence.stage(name)) and stage.status == "failed"
    )
    return (
        *before,
        Part("data", "dataset", _data(evidence)),
        Part("tokenizer, collator" if evidence.tokenizer else "collator", "batch", _collator(evidence)),
        Part("model", "forward", _model(evidence)),
        Part("loss, gradients", "backward", _loss(evidence)),
        Part("optimizer, schedule", "step", _optimizer(evidence)),
        Part("evaluation", "evaluation", _evaluation(evidence)),
    )


def _data(evidence: Evidence) -> tuple[str, ...]:
    names = {"train_dataset": "train", "eval_dataset": "eval", "test_dataset": "test"}
    rows = (
        f"{split.key or names.get(split.argument, split.argument)}: "
        + ("a stream" if split.rows is None else f"{split.rows:,} rows")
        for split in evidence.splits
    )
    return tuple(rows)[:2]


def _collator(evidence: Evidence) -> tuple[str, ...]:
    batch = evidence.batch()
    if batch is None:
        return ()
    shape = f"{list(batch.tensors[0].shape)}" if batch.tensors else ""
    return (batch.collator, shape)


def _model(evidence: Evidence) -> tuple[str, ...]:
    model = evidence.model
    return () if model is None else (model.name, f"{shortened(model.parameters)} weights")


def shortened(number: int) -> str:
    """A large number with three significant digits: 66.4 M."""
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            return f"{number / power:.3g} {letter}"
    return str(number)


def _loss(evidence: Evidence) -> tuple[str, ...]:
    forward, backward = evidence.forward, evidence.backward
    loss = f"loss {forward.losses[0]:.4g}" if forward and forward.losses else ""
    return (loss, f"norm {max(backward.norms):.3g}" if backward and backward.norms else "")


def _optimizer(evidence: Evidence) -> tuple[str, ...]:
    step, schedule = evidence.step, evidence.schedule
    if step is None:
        return ()
    rate = "" if evidence.peak_learning_rate is None else f", rate {evidence.peak_learning_rate:.2g}"
    return (f"{step.optimizer}{rate}", f"{schedule.steps:,} steps" if schedule else "")


def _evaluation(evidence: Evidence) -> tuple[str, ...]:
    evaluation = evidence.evaluation
    if evaluation is None:
        return ()
    metrics = [f"{name} {value:.3g}" for name, value in evaluation.metrics.items() if value is not None]
    return (f"{evaluation.rows} rows", *metrics[:1])


def _drawn(evidence: Evidence, parts: tuple[Part, ...], *, is_tall: bool) -> Markup:
    across = 1 if is_tall else len(parts)
    down = len(parts) if is_tall else 1
    width, height = across * (BOX_WIDTH + GAP) - GAP + 4, down * (BOX_HEIGHT + GAP) - GAP + 4
    locations = [
        (0, row * (BOX_HEIGHT + GAP)) if is_tall else (row * (BOX_WIDTH + GAP), 0) for row in range(len(parts))
    ]
    spoken = ", ".join(f"{part.title} {_status(evidence, part)}" for part in parts)
    return tag(
        "svg",
        (_arrow(x, y, _status(evidence, part), is_tall=is_tall) for (x, y), part in zip(locations, parts, strict=True))
        if len(parts) > 1
        else (),
        (_box(evidence, part, x, y) for (x, y), part in zip(locations, parts, strict=True)),
        viewBox=f"-2 -2 {width} {height}",
        role="img",
        aria_label=f"the pipeline: {spoken}",
        class_="tall" if is_tall else "wide",
    )


def _status(evidence: Evidence, part: Part) -> str:
    stage: Stage | None = evidence.stage(part.stage)
    return stage.status if stage else "not reached"


def _arrow(x: int, y: int, status: str, *, is_tall: bool) -> Markup:
    """The arrow to a part; none to the first."""
    if (y if is_tall else x) == 0:
        return tag("g")
    at_x, at_y = (x + BOX_WIDTH // 2, y) if is_tall else (x, y + BOX_HEIGHT // 2)
    back = f"M{at_x},{at_y - GAP} L{at_x},{at_y - 7}" if is_tall else f"M{at_x - GAP},{at_y} L{at_x - 7},{at_y}"
    head = f"M{at_x},{at_y} l-5,-8 h10 z" if is_tall else f"M{at_x},{at_y} l-8,-5 v10 z"
    kind = "idle" if status == "not reached" else "live"
    return tag("g", tag("path", d=back, class_="shaft"), tag("path", d=head, class_="head"), class_=f"arrow {kind}")


def _box(evidence: Evidence, part: Part, x: int, y: int) -> Markup:
    status = _status(evidence, part)
    kind = status.replace(" ", "-")
    shown = [line for line in part.lines if line][:2]
    said = f"{SIGNS[status]} {part.stage}" + ("" if status == "passed" else f": {_status_text(status)}")
    return tag(
        "g",
        tag("title", f"{part.title} ({part.stage} {status})" + "".join(f"; {line}" for line in shown)),
        tag("rect", x=x, y=y, width=BOX_WIDTH, height=BOX_HEIGHT, rx=6, class_="box"),
        tag("text", part.title, x=x + 10, y=y + 19, class_="title"),
        (tag("text", clip(line, LETTERS), x=x + 10, y=y + 38 + 16 * row) for row, line in enumerate(shown)),
        tag("text", said, x=x + 10, y=y + BOX_HEIGHT - 9, class_="said"),
        class_=f"part {kind}",
    )


def _status_text(status: str) -> str:
    return "failed" if status == "failed" else status
