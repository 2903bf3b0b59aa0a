"""Gradient accumulation under a Trainer: how many batches make a step, and who divides their losses."""

from __future__ import annotations

import re

from lintrain.evidence.run import Evidence
from lintrain.knowledge.target import Targets, Version
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import Constant, Function, Instance, is_missing, literal, number_of, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

TOLERANCE = 0.15
"""How far a measured ratio may be from the expected one: labels that are left out differ from batch to batch."""

LOSS_METHODS = frozenset({"compute_loss", "training_step", "get_batch_samples", "_get_num_items_in_batch"})
"""Methods of Trainer by which a subclass decides what a step's loss is."""

SAYS_WHO_DIVIDES = frozenset({"loss_is_scaled_for_ga", "model_accepts_loss_kwargs"})
"""Attributes of Trainer that say whether it has to divide by the number of batches."""

EVERY_HEAD = {
    Task.SEQUENCE_CLASSIFICATION: re.compile(r"esm|zamba"),
    Task.TOKEN_CLASSIFICATION: re.compile(r"esm"),
    Task.MULTIPLE_CHOICE: re.compile(r"esm"),
}
"""Tasks whose heads average over one batch whatever they are told, but for those of these families.

Counted over the modelling files of transformers 5.0, 5.8, 5.16 and 5.23; measured for 60 heads on 5.23.
"""

OWN_ANSWER = lazy_pattern(r"esm|mlcd|timm|convnext|vl|gemma-?[34]|gemma3|glm|paligemma|video")
"""Families whose classes say by themselves that they do not divide (`accepts_loss_kwargs = False`), and their kin."""

SOME_HEADS = {
    Task.MASKED_LM: re.compile(
        r"(?:distil|al|camem)?bert(?:-|for)|(?:distil|xlm-?)?roberta|m?deberta|electra|mpnet|camembert"
    ),
    Task.SEQ2SEQ_LM: re.compile(
        r"m?bart|(?:flan-|m|long-?)?t5(?!gemma)|pegasus|opus-mt|marian|m2m100|nllb|blenderbot|led(?:-|for)"
    ),
}
"""Tasks of which only the heads of these families do so."""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """How many batches a run adds up for one step, where the script certainly says so."""

    steps: int
    location: Location


def accumulation_of(run: TrainerRun) -> Accumulation | None:
    """The accumulation that a run's arguments ask for; None where there is none or it is not certain."""
    settings = run.settings
    steps = literal(settings.value("gradient_accumulation_steps")) if settings else None
    location = settings.locations.get("gradient_accumulation_steps") if settings else None
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 2 or location is None:
        return None
    return Accumulation(steps, location)


def is_since(targets: Targets, package: str, version: Version) -> bool:
    """Whether all versions of a package that the project may run on are this one or newer."""
    target = targets.get(package)
    return target is not None and all(each >= version for each in target.versions)


def says_who_divides(run: TrainerRun) -> bool:
    """Whether the script sets, on the trainer or the model, who divides a loss by the number of batches."""
    set_on_trainer = {*run.overrides, *run.attributes, *(run.instance.attributes if run.instance else ())}
    model = run.model
    set_on_model = bool(model and {"accepts_loss_kwargs", "forward", "loss_function"} & set(model.attributes))
    return bool(SAYS_WHO_DIVIDES & set_on_trainer) or set_on_model


def smooths_labels(run: TrainerRun) -> bool:
    """Whether the Trainer may compute the loss itself, with smoothed labels."""
    given = run.settings.value("label_smoothing_factor") if run.settings else None
    return given is not None and not is_missing(given) and not (isinstance(given, Constant) and number_of(given) == 0)


def averages_each_batch(model: Model) -> bool:
    """Whether the head certainly takes the mean of its own batch, and tells the Trainer by `**kwargs` that it divides.

    True of transformers 5 only: before, most of these heads took no `**kwargs`, and the Trainer divided.
    """
    if not model.path.startswith("transformers.") or model.framework != "torch" or _has_code_of_its_own(model):
        return False
    family = family_of(model)
    if model.task in EVERY_HEAD:
        return family is not None and not EVERY_HEAD[model.task].search(family)
    return family is not None and model.task in SOME_HEADS and bool(SOME_HEADS[model.task].match(family))


def _has_code_of_its_own(model: Model) -> bool:
    """Whether the checkpoint may bring a model class that is not the library's."""
    return not is_missing(model.arguments.get("trust_remote_code", Constant(None))) or not model.is_complete


def family_of(model: Model) -> str | None:
    """The name that tells a model's family, in lower case: its class, or its checkpoint for an Auto class."""
    if not model.name.startswith("Auto"):
        return model.name.lower()
    checkpoint = text_of(model.checkpoint)
    if checkpoint is None or (isinstance(model.checkpoint, Constant) and model.checkpoint.is_default):
        return None
    return checkpoint.lower().rpartition("/")[2]


def verdict_on_accumulation(evidence: Evidence) -> Verdict:
    """What a batch taken whole and in parts says of the claim that nobody divides the losses of the parts."""
    asked, measured = evidence.arguments.get("gradient_accumulation_steps"), evidence.accumulation
    if isinstance(asked, int) and asked < 2:
        return Verdict.refuted(f"each step takes {asked} batch")
    if measured is None:
        return Verdict.inconclusive("no batch was taken in parts: " + evidence.not_reached("backward"))
    parts, ratio = measured.parts, measured.ratio
    said = f"{measured.rows} rows in {parts} batches give {ratio:.2f} times the gradient that they give in one"
    if abs(ratio / parts - 1) <= TOLERANCE:
        return Verdict.confirmed(said, ratio=ratio, parts=parts)
    return (
        Verdict.refuted(said, ratio=ratio) if abs(ratio - 1) <= TOLERANCE else Verdict.inconclusive(said, ratio=ratio)
    )


def counts_labels(run: TrainerRun) -> bool:
    """Whether the model's forward takes `**kwargs`, so that the Trainer counts labels and leaves the division to it.

    Of a library's models this holds in transformers 5 (every head of 5.0 and 5.23 takes them).
    """
    model = run.value("model")
    if isinstance(model, Instance):
        found = model.cls.lookup("forward")
        return found is not None and isinstance(found[1], Function) and found[1].node.args.kwarg is not None
    if not isinstance(model, Model) or _has_code_of_its_own(model) or not model.path.startswith("transformers."):
        return False
    family = family_of(model)
    return family is not None and model.task is not Task.NO_HEAD and not OWN_ANSWER.search(family)
