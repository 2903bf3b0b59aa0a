"""A decoder that classifies sequences does not know which token is padding.

It reads its class from the last token that is no padding, and finds that token by `config.pad_token_id`. Without it,
the first batch of more than one row ends the run. With another id than the tokenizer's the class is read from the wrong
token, in silence.

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

A Trainer that is given the tokenizer tells the model:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    trainer = Trainer(model, args, train_dataset=pairs["train"], processing_class=lm_tokenizer)

The id may come in the call, or from a configuration:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3, pad_token_id=0)
    trainer = Trainer(
        model, args, train_dataset=pairs["train"], data_collator=DataCollatorWithPadding(lm_tokenizer)
    )

Code that is not shown may set it:

    from my_project import prepare_model

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pairs = raw.map(lambda batch: lm_tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("gpt2", num_labels=3)
    prepare_model(model)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=DataCollatorWithPadding(lm_tokenizer))

## Fix

Safe: without it the first batch of several rows ends with an error.

## References

trl#422, transformers#8452.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, script_text, special_tokens
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import is_missing, number_of, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

NO_ID = "Cannot handle batch sizes > 1 if no padding token is defined"
DECODERS = frozenset({"gpt2", "gpt_neo", "llama", "mistral", "phi"})
SETS_IT = lazy_pattern(r"pad_token_id\s*=[^=]|\.config\.update|[\"']pad_token_id[\"']")
"""Code that may give a model's configuration the id."""


class MissingPadId(Rule):
    level = Level.ERROR
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        reported: set[Location] = set()
        for collation in collators.collations(pipeline):
            model = collation.model
            if model is None or model.origin is None or model.origin in reported or not _pools(pipeline, model):
                continue
            # without a padding token the padding itself fails first: missing-pad-token
            if (
                collation.tokenizer is None
                or special_tokens.lacks_pad(pipeline, collation.tokenizer)
                or not _is_untold(collation)
            ):
                continue
            if script_text.mentions(pipeline, SETS_IT):
                continue
            reported.add(model.origin)
            yield self.finding(
                model.origin,
                f"`{text_of(model.checkpoint)}` has no `pad_token_id`, and the script never sets it",
                related=[Related(collation.location, "its batches are padded here", "batched")],
                help="set `model.config.pad_token_id = tokenizer.pad_token_id`",
                facts=_cure(pipeline, collation, model, model.origin),
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(NO_ID)
        if failed is not None:
            return Verdict.confirmed(f"the {failed.name} stage ends with `{NO_ID}`")
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

    def fix(self, finding: Finding) -> fixes.Fix | None:
        statement = finding.facts.get("statement")
        if not isinstance(statement, str):
            return None
        return fixes.Fix.of(
            "tell the model its padding token", fixes.InsertAfter(finding.location, statement), safe=True
        )


def _pools(pipeline: Pipeline, model: Model) -> bool:
    """Whether a model certainly is a decoder that classifies, whose checkpoint names no padding token."""
    facts = special_tokens.certain_facts(pipeline, model)
    is_known = facts is not None and facts.model_type in DECODERS and facts.has_pad_token is False
    is_plain = model.how == "from_pretrained" and model.is_complete and "config" not in model.arguments
    return (
        model.task is Task.SEQUENCE_CLASSIFICATION
        and is_known
        and is_plain
        and not special_tokens.is_handed_over(pipeline, model)
    )


def _is_untold(collation: collators.Collation) -> bool:
    """Whether batches of several rows reach the model, and no Trainer copies the tokenizer's ids into it."""
    run = collation.run
    if run is None:
        return False
    if not is_missing(run.value("processing_class")) or not is_missing(run.value("tokenizer")):
        return False
    settings = run.settings
    size = settings.value("per_device_train_batch_size") if settings else run.value("args")
    return is_missing(size) or (number_of(size) or 0) > 1


def _cure(pipeline: Pipeline, collation: collators.Collation, model: Model, origin: Location) -> dict[str, str | None]:
    """The statement that sets the id, where both have one name and the tokenizer has its token before the model."""
    tokenizer = collation.tokenizer
    names = [{binding.name for binding in pipeline.names_of(value)} for value in (model, tokenizer) if value]
    locations = [setting.location for setting in tokenizer.settings] if tokenizer else []
    if len(names) != 2 or any(len(each) != 1 for each in names) or not all(location < origin for location in locations):
        return {}
    return {"statement": f"{names[0].pop()}.config.pad_token_id = {names[1].pop()}.pad_token_id"}
