"""The collator creates labels for another kind of language model.

`DataCollatorForLanguageModeling` masks tokens unless `mlm=False` is passed. A causal model then learns to fill in
masked tokens, or the collator raises a ValueError because the tokenizer has no mask token. With `mlm=False` a masked
language model only copies its input: the loss falls to zero, and nothing is learned.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer)  # <- mlm-on-causal-model
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)
    # raises ValueError: This tokenizer does not have a mask token

A masked language model, without an error:

    model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    lines = text.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)  # <- mlm-on-causal-model
    trainer = Trainer(model, args, train_dataset=lines["train"], data_collator=collator)

## Good

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

For the masked language model:

    model = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    lines = text.map(lambda batch: tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=True)
    trainer = Trainer(model, args, train_dataset=lines["train"], data_collator=collator)

## When it is fine

A subclass of Trainer may use the labels in its own way:

    class Denoising(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

    model = AutoModelForCausalLM.from_pretrained("roberta-base", is_decoder=True)
    words = AutoTokenizer.from_pretrained("roberta-base")
    lines = text.map(lambda batch: words(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    trainer = Denoising(model, args, train_dataset=lines["train"], data_collator=DataCollatorForLanguageModeling(words))

## Fix

Safe for a causal model, which raises an error or learns from tokens it can see. Asks first for a masked model.

## References

Transformers documentation, `DataCollatorForLanguageModeling.mlm`; trl#445.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, script_text
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import UNKNOWN, is_missing
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

NO_MASK = "does not have a mask token"
OF_BOTH_KINDS = ("XLM", "XLNet", "UMT5", "T5", "Prophet")
"""Models whose class determines neither their labels nor the direction of attention."""

MOST_MASKED = 0.5
"""The share of tokens with a label below which the collator masks tokens."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The correct `mlm`, and whether the collator gets it already: at all, and by its keyword."""

    mlm: bool
    is_given: bool
    is_keyword: bool


class MlmOnCausalModel(Rule[Claim]):
    level = Level.ERROR
    keywords = "DataCollator"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for collation in (*collators.collations(pipeline), *_of_only_kind(pipeline)):
            collator, masks = collation.collator, _masks(collation)
            if collator is None or collator.origin is None or masks is None or collator.origin in reported:
                continue
            task, mlm = _task(collation), _correct_mlm(collation)
            if mlm is None or mlm is masks:
                continue
            reported.add(collator.origin)
            made = collation.model.origin if collation.model else None
            yield self.finding(
                collator.origin,
                f"this collator masks {'tokens' if masks else 'no tokens'}, but the model is a {task}",
                related=[Related(made, f"the model is a {task}", "model")] if made else [],
                help=f"pass `mlm={mlm}`",
                claim=Claim(
                    mlm=mlm,
                    is_given="mlm" in collator.arguments,
                    is_keyword="mlm=" in pipeline.code(collator.origin).replace(" ", ""),
                ),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        model, batch = evidence.model, evidence.batch()
        is_refused = evidence.failed_with(NO_MASK) is not None
        is_known = model is not None and model.task in {"CausalLM", "MaskedLM"} and not evidence.overrides
        if model is None or not is_known or not _is_of_kind(model.name):
            return
        if is_refused or (batch is not None and batch.collator == "DataCollatorForLanguageModeling"):
            yield self.finding(
                evidence.location_of("collator"),
                f"this collator makes the labels of another kind of model than {model.task}",
                help=f"pass `mlm={model.task == 'MaskedLM'}`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(NO_MASK)
        if failed is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `This tokenizer {NO_MASK}`")
        batch = evidence.batch()
        if batch is None or batch.labels is None or evidence.model is None:
            return Verdict.inconclusive(
                evidence.not_reached("batch") if batch is None else "the batch has no token labels"
            )
        labels = batch.labels
        share = labels.supervised / max(labels.attended, 1)
        text = (
            f"{labels.supervised} of {labels.attended} tokens have a label, {labels.masked_inputs} of them are masked"
        )
        is_masking = share < MOST_MASKED and labels.masked_inputs > 0
        if is_masking is (evidence.model.task == "MaskedLM"):
            return Verdict.refuted(text, supervised=labels.supervised, attended=labels.attended)
        return Verdict.confirmed(text, supervised=labels.supervised, attended=labels.attended)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or (claim.is_given and not claim.is_keyword):
            return None
        edit: fixes.AddArgument | fixes.RenameArgument = fixes.AddArgument(finding.location, "mlm", str(claim.mlm))
        if claim.is_given:
            edit = fixes.RenameArgument(finding.location, "mlm", "mlm", str(claim.mlm))
        return fixes.Fix.of(f"pass `mlm={claim.mlm}`", edit, safe=not claim.mlm)


def _masks(collation: collators.Collation) -> bool | None:
    """Whether the collator masks tokens; None if that is not certain, or the Trainer computes its own loss."""
    run = collation.run
    if collation.collator is None or (run is not None and run.overrides & {"compute_loss", "training_step"}):
        return None
    if run is not None and not is_missing(run.value("compute_loss_func")):
        return None
    return collators.masks_words(collation.collator)


def _of_only_kind(pipeline: Pipeline) -> Iterator[collators.Collation]:
    """The collators that mask words although every model of the script is causal, whatever they are given to."""
    models = pipeline.models
    is_one_kind = bool(models) and all(each.task is Task.CAUSAL_LM and _is_of_kind(each.name) for each in models)
    if not is_one_kind or script_text.mentions(pipeline, r"MaskedLM|mask_token|\[MASK\]|<mask>"):
        return
    known = (each for each in collators.collations(pipeline) if each.model is not None or _masks(each) is None)
    judged = {id(each.collator) for each in known}
    for collator in pipeline.collators:
        if collator.origin is not None and id(collator) not in judged and collators.masks_words(collator):
            yield collators.Collation(collator.origin, collator, None, UNKNOWN, models[-1])


def _task(collation: collators.Collation) -> str:
    return collation.model.task.value if collation.model else ""


def _correct_mlm(collation: collators.Collation) -> bool | None:
    """The correct `mlm` for the model; None if its class does not determine it."""
    model = collation.model
    if model is None or model.name.startswith(OF_BOTH_KINDS):
        return None
    return {Task.CAUSAL_LM: False, Task.MASKED_LM: True}.get(model.task)


def _is_of_kind(name: str) -> bool:
    """Whether models of a class are trained in one way only."""
    return not any(name.startswith(each) for each in OF_BOTH_KINDS)
