"""A decoder for sequence classification does not know its padding token.

It predicts the class from the last token that is not padding, which it finds by `config.pad_token_id`. Without this id
the first batch of more than one row raises a ValueError. With an id other than the tokenizer's the model uses the
wrong token, and no error is raised.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    collator = DataCollatorWithPadding(lm_tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)  # <- missing-pad-id
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)
    # raises ValueError: Cannot handle batch sizes > 1 if no padding token is defined

## Good

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    collator = DataCollatorWithPadding(lm_tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    model.config.pad_token_id = lm_tokenizer.pad_token_id
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

## When it is fine

A Trainer with the tokenizer sets the id:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    trainer = Trainer(model, args, train_dataset=pairs["train"], processing_class=lm_tokenizer)

The id is set in the call, or in a configuration:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3, pad_token_id=0)
    trainer = Trainer(
        model, args, train_dataset=pairs["train"], data_collator=DataCollatorWithPadding(lm_tokenizer)
    )

Other code may set it:

    from my_project import prepare_model

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    prepare_model(model)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=DataCollatorWithPadding(lm_tokenizer))

## Fix

Safe: without the id the first batch of several rows raises an error.

## References

trl#422, transformers#8452.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, script_text, token_feeds
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import is_missing, number_of, text_of
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

NO_ID = "Cannot handle batch sizes > 1 if no padding token is defined"
DECODERS = frozenset({"gpt2", "gpt_neo", "llama", "mistral", "phi"})
"""Model types of decoders."""

SETS_PAD_ID = lazy_pattern(r"pad_token_id\s*=[^=]|\.config\.update|[\"']pad_token_id[\"']")
"""Code that may set the id in a model's configuration."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement that sets the id; None without a fix."""

    statement: str | None


class MissingPadId(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for collation in collators.collations(pipeline):
            model = collation.model
            if model is None or model.origin is None or model.origin in reported or not _needs_pad_id(pipeline, model):
                continue
            # Without a padding token padding fails first, which missing-pad-token reports.
            if (
                collation.tokenizer is None
                or token_feeds.lacks_pad(pipeline, collation.tokenizer)
                or not _reaches_without_id(collation)
            ):
                continue
            if script_text.mentions(pipeline, SETS_PAD_ID):
                continue
            reported.add(model.origin)
            yield self.finding(
                model.origin,
                f"`{text_of(model.checkpoint)}` has no `pad_token_id`, and the script never sets it",
                related=[Related(collation.location, "its batches are padded here", "batched")],
                help="set `model.config.pad_token_id = tokenizer.pad_token_id`",
                claim=Claim(_setting(pipeline, collation, model, model.origin)),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.failed_with(NO_ID) is not None:
            yield self.finding(
                evidence.location_of("model"),
                "the model does not know its padding token, so it cannot find the last token of a row",
                help="set `model.config.pad_token_id = tokenizer.pad_token_id`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(NO_ID)
        if failed is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{NO_ID}`")
        if evidence.model is None:
            return Verdict.inconclusive("the model was not reached")
        wanted = evidence.tokenizer.pad_id if evidence.tokenizer else None
        text = f"the model's `pad_token_id` is {evidence.model.pad_id}, the tokenizer's {wanted}"
        if evidence.model.pad_id is not None and evidence.model.pad_id == wanted:
            return Verdict.refuted(text, pad_id=wanted)
        return (
            Verdict.confirmed(text)
            if evidence.model.pad_id is not None and wanted is not None
            else Verdict.inconclusive(text)
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        statement = finding.claim.statement if finding.claim else None
        if statement is None:
            return None
        return fixes.Fix.of("set `pad_token_id`", fixes.InsertAfter(finding.location, statement), safe=True)


def _needs_pad_id(pipeline: Pipeline, model: Model) -> bool:
    """Whether a model certainly is a decoder for classification whose checkpoint has no padding token."""
    facts = token_feeds.certain_facts(pipeline, model)
    is_known = facts is not None and facts.model_type in DECODERS and facts.has_pad_token is False
    is_plain = model.how == "from_pretrained" and model.is_complete and "config" not in model.arguments
    return (
        model.task is Task.SEQUENCE_CLASSIFICATION
        and is_known
        and is_plain
        and not token_feeds.is_handed_over(pipeline, model)
    )


def _reaches_without_id(collation: collators.Collation) -> bool:
    """Whether batches of several rows reach the model, and no Trainer copies the tokenizer's ids into it."""
    run = collation.run
    if run is None:
        return False
    if not is_missing(run.value("processing_class")) or not is_missing(run.value("tokenizer")):
        return False
    settings = run.settings
    size = settings.usual("per_device_train_batch_size") if settings else run.value("args")
    return is_missing(size) or (number_of(size) or 0) > 1


def _setting(pipeline: Pipeline, collation: collators.Collation, model: Model, origin: Location) -> str | None:
    """The statement that sets the id, if both have one name and the tokenizer has its token before the model."""
    tokenizer = collation.tokenizer
    names = [{binding.name for binding in pipeline.names_of(value)} for value in (model, tokenizer) if value]
    locations = [setting.location for setting in tokenizer.settings] if tokenizer else []
    if len(names) != 2 or any(len(each) != 1 for each in names) or not all(location < origin for location in locations):
        return None
    return f"{names[0].pop()}.config.pad_token_id = {names[1].pop()}.pad_token_id"
