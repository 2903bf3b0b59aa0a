"""A module is frozen by an attribute that nobody reads.

Only tensors have `requires_grad`. On a module the assignment makes a new attribute of that name and changes nothing:
all weights go on learning, gradients and optimizer states take their memory, and what was to be kept is overwritten.

## Bad

    model.distilbert.requires_grad = False  # <- ineffective-freeze
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A misspelt name does as little:

    for parameter in model.distilbert.parameters():
        parameter.require_grad = False  # <- ineffective-freeze
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    model.distilbert.requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The name as torch has it:

    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A parameter has such an attribute:

    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    model.classifier.bias.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Whether this is a module or a parameter is not known here:

    from my_models import load_backbone

    backbone = load_backbone()
    backbone.prompts.requires_grad = False

The module is also frozen in a way that works:

    model.distilbert.requires_grad = False
    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Safe: the attribute is none that PyTorch reads, so the line as it stands does nothing.

## References

PyTorch documentation, `torch.nn.Module.requires_grad_`; catalyst#81.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline import modules
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, ModelPart, Module, Parameter
from lintrain.pipeline.values.python import Instance, Value, literal
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Rule, Verdict, fixes, lazy_pattern

MODULES = lazy_pattern(
    r"albert|attention|backbone|base_model|bert|classifier|conv1|cross_attn|deberta|decoder|distilbert|dropout|electra|"
    r"embed_tokens|encoder|feature_extractor|features|fc\d?|h|head|layers?|layer[1-4]|lm_head|mlp|model|pooler|"
    r"pre_classifier|roberta|score|self_attn|shared|text_encoder|text_model|transformer|unet|vae|vision_model|"
    r"vision_tower|vit|wav2vec2|word_embeddings|wpe|wte"
)
"""Names that only modules have in the models of transformers and torchvision."""


class IneffectiveFreeze(Rule):
    level = Level.ERROR
    keywords = "grad"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for misuse in pipeline.misuses:
            owner = misuse.text.rpartition(".")[0]
            is_freeze = misuse.use == "requires_grad" and _has_no_such_attribute(misuse, owner)
            statement = tuning.assignment_at(pipeline, misuse.location)
            if is_freeze and statement is not None and not _is_frozen_otherwise(pipeline, misuse):
                yield self._report(misuse, statement)

    def _report(self, misuse: Misuse, statement: Location) -> Finding:
        owner, _, name = misuse.text.rpartition(".")
        is_tensor = isinstance(misuse.value, Parameter)
        what = "this parameter" if is_tensor else "this module"
        cure = f"{owner}.requires_grad = False" if is_tensor else f"{owner}.requires_grad_(False)"
        return self.finding(
            statement,
            f"`{name}` set on {what} freezes nothing",
            help=f"write `{cure}`",
            subject=owner,
            facts={"cure": cure, "part": _part_of(misuse.value)},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        model, part = evidence.model, finding.facts.get("part")
        if model is None or not isinstance(part, str):
            return Verdict.inconclusive("the model that it is about was not measured")
        count, every = model.trained_in(part)
        told = f"{count} of {every} tensors {f'of `{part}` ' if part else ''}are trained"
        if every == 0:
            return Verdict.inconclusive(f"the model has 0 tensors of the name `{part}`")
        return Verdict.confirmed(told, trained=count) if count else Verdict.refuted(told, trained=count)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        cure = finding.facts.get("cure")
        return (
            fixes.Fix.of(f"write `{cure}`", fixes.Replace(finding.location, cure), safe=True)
            if isinstance(cure, str)
            else None
        )


def _has_no_such_attribute(misuse: Misuse, owner: str) -> bool:
    """Whether what it is set on is certainly a module, or the attribute one that no tensor has."""
    match misuse.value:
        case Model() | Instance():
            return True
        case Module(path=path) if path:
            return True
        case ModelPart() | Module():
            return MODULES.fullmatch(re.sub(r"\[[^\]]*\]$", "", owner).rpartition(".")[2]) is not None
        case Parameter():
            return not misuse.text.endswith(".requires_grad")
        case _:
            return False


def _part_of(value: Value) -> str | None:
    match value:
        case Model():
            return ""
        case ModelPart():
            return value.name if "[" not in value.name else None
        case Parameter():
            return value.part
        case _:
            return None


def _is_frozen_otherwise(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether the same module is frozen in another place, in a way that works."""
    freezes = [event for event in pipeline.acts(Act.FREEZE) if literal(event.details["wanted"]) is not True]
    held = misuse.value.of if isinstance(misuse.value, Parameter) else (misuse.value,)
    return any(modules.overlap(event.subject, module) for event in freezes for module in held)
