"""A module is frozen with an attribute that PyTorch does not read.

Only tensors have `requires_grad`. On a module, the assignment creates a new attribute of that name and changes nothing:
all weights keep training, gradients and optimizer states take their memory, and pretrained weights are overwritten.

## Bad

    model.distilbert.requires_grad = False  # <- ineffective-freeze
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A misspelled name has no effect either:

    for parameter in model.distilbert.parameters():
        parameter.require_grad = False  # <- ineffective-freeze
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    model.distilbert.requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The correct name:

    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

Parameters have this attribute:

    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    model.classifier.bias.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

It is unknown whether this is a module or a parameter:

    from my_models import load_backbone

    backbone = load_backbone()
    backbone.prompts.requires_grad = False

The module is also frozen in a way that works:

    model.distilbert.requires_grad = False
    for parameter in model.distilbert.parameters():
        parameter.requires_grad = False
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Safe: PyTorch does not read the attribute, so the line has no effect.

## References

PyTorch documentation, `torch.nn.Module.requires_grad_`; catalyst#81.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import misspelt_freezes, tuning
from lintrain.pipeline import events, modules, record
from lintrain.pipeline.values.model import Model, ModelPart, Module, Parameter
from lintrain.pipeline.values.python import Instance, Value, literal
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

MODULES = lazy_pattern(
    r"albert|attention|backbone|base_model|bert|classifier|conv1|cross_attn|deberta|decoder|distilbert|dropout|electra|"
    r"embed_tokens|encoder|feature_extractor|features|fc\d?|h|head|layers?|layer[1-4]|lm_head|mlp|model|pooler|"
    r"pre_classifier|roberta|score|self_attn|shared|text_encoder|text_model|transformer|unet|vae|vision_model|"
    r"vision_tower|vit|wav2vec2|word_embeddings|wpe|wte"
)
"""Names that only modules have in the models of transformers and torchvision."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement that freezes; `part` is the name of the module in the model, None if it is unknown."""

    statement: str
    part: str | None


class IneffectiveFreeze(Rule[Claim]):
    level = Level.ERROR
    keywords = "grad"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(misspelt_freezes.misspelt_freezes(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found = set[Location]()
        for misuse in pipeline.misuses:
            owner = misuse.text.rpartition(".")[0]
            is_freeze = misuse.use == "requires_grad" and _has_no_such_attribute(misuse, owner)
            statement = tuning.assignment_at(pipeline, misuse.location)
            if is_freeze and statement is not None and not _is_frozen_otherwise(pipeline, misuse):
                found.add(statement)
                yield self._report(misuse, statement)
        for each in misspelt_freezes.misspelt_freezes(pipeline.source):
            location = pipeline.source.location(each.statement)
            if location not in found:
                yield self._report_misspelt(each, location)

    def _report_misspelt(self, each: misspelt_freezes.Misspelt, location: Location) -> Finding[Claim]:
        statement = f"{each.owner}.requires_grad = {each.value}"
        return self.finding(
            location,
            f"`{each.name}` is unknown to torch, so this has no effect",
            help=f"write `{statement}`",
            subject=each.owner,
            claim=Claim(statement, None),
        )

    def _report(self, misuse: record.Misuse, location: Location) -> Finding[Claim]:
        owner, _, name = misuse.text.rpartition(".")
        is_tensor = isinstance(misuse.value, Parameter)
        what = "this parameter" if is_tensor else "this module"
        statement = f"{owner}.requires_grad = False" if is_tensor else f"{owner}.requires_grad_(False)"
        return self.finding(
            location,
            f"`{name}` set on {what} freezes nothing",
            help=f"write `{statement}`",
            subject=owner,
            claim=Claim(statement, _part_of(misuse.value)),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        part = evidence.model.idle_freeze if evidence.model is not None else None
        if part is not None and "freeze" in evidence.locations:
            yield self.finding(
                evidence.locations["freeze"],
                f"this attribute freezes nothing{f' of `{part}`' if part else ''}",
                help="call `requires_grad_(False)` on the module",
                claim=Claim("", part),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        model, part = evidence.model, finding.claim.part if finding.claim else None
        if model is None or part is None:
            return Verdict.inconclusive("the model was not measured")
        count, every = model.trained_in(part)
        text = f"{count} of {every} tensors {f'of `{part}` ' if part else ''}are trained"
        if every == 0:
            return Verdict.inconclusive(f"the model has no tensors named `{part}`")
        return Verdict.confirmed(text, trained=count) if count else Verdict.refuted(text, trained=count)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.statement:
            return None
        statement = finding.claim.statement
        return fixes.Fix.of(f"write `{statement}`", fixes.Replace(finding.location, statement), safe=True)


def _has_no_such_attribute(misuse: record.Misuse, owner: str) -> bool:
    """Whether the owner is certainly a module, or a tensor that has no such attribute."""
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


def _is_frozen_otherwise(pipeline: Pipeline, misuse: record.Misuse) -> bool:
    """Whether the same module is frozen elsewhere, in a way that works."""
    freezes = [event for event in pipeline.acts(events.Act.FREEZE) if literal(event.details["wanted"]) is not True]
    held = misuse.value.of if isinstance(misuse.value, Parameter) else (misuse.value,)
    return any(modules.overlap(event.subject, module) for event in freezes for module in held)
