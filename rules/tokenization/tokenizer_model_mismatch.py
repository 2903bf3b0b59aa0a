"""The tokenizer and the model come from checkpoints with different vocabularies.

A token id means one token to the tokenizer and another to the model, so the model's input is meaningless. If all ids
are within its embedding, no error is raised: the loss falls a little and stays high.

## Bad

    tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
    rows = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True), batched=True)
    collator = DataCollatorWithPadding(tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=3)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=collator)  # <- tokenizer-model-mismatch

## Good

    tokenizer = AutoTokenizer.from_pretrained("roberta-base")
    rows = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True), batched=True)
    collator = DataCollatorWithPadding(tokenizer)
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=3)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=collator)

## When it is fine

Some checkpoints share a vocabulary:

    tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
    premises = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(
        model, args, train_dataset=premises["train"], data_collator=DataCollatorWithPadding(tokenizer)
    )

A separate option for the tokenizer is the user's choice:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="distilbert-base-uncased")
    parser.add_argument("--tokenizer", default="bert-base-uncased")
    options = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(options.tokenizer)
    premises = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True), batched=True)
    model = AutoModelForSequenceClassification.from_pretrained(options.model, num_labels=3)
    trainer = Trainer(
        model, args, train_dataset=premises["train"], data_collator=DataCollatorWithPadding(tokenizer)
    )

A folder may contain any tokenizer:

    from my_project import FOLDER

    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=3)
    premises = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True), batched=True)
    trainer = Trainer(model, args, train_dataset=premises["train"], data_collator=DataCollatorWithPadding(tokenizer))

A model may get a new embedding for another vocabulary:

    tokenizer = AutoTokenizer.from_pretrained("roberta-base")
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    model.resize_token_embeddings(len(tokenizer))
    premises = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True), batched=True)
    trainer = Trainer(
        model, args, train_dataset=premises["train"], data_collator=DataCollatorWithPadding(tokenizer)
    )

## Fix

None: the script does not show which of the two is correct.

## References

Hugging Face course, chapter 2, "Models" and "Tokenizers".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import expressions, token_feeds, vocabularies
from lintrain.pipeline.values.data import ColumnValues, Encoding, Tokenizer
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import ABSENT, Function, is_missing, text_of
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
)

if TYPE_CHECKING:
    from lintrain.evidence.run import EncodedTexts

SPARE_ROWS = frozenset({"gpt_neox", "mt5", "opt", "phi", "qwen2", "qwen3", "t5", "umt5"})
"""Model types with more embedding rows than tokens: the sizes do not identify the vocabulary."""

LIKE_GPT2 = frozenset({"codegen", "gpt2", "gpt_neo", "phi"})
"""Model types that share the vocabulary of GPT-2, some with additional tokens."""

SAME, OTHER = 0.999, 0.9
"""Shares of tokens with equal ids that refute and confirm the finding."""


class TokenizerModelMismatch(Rule):
    level = Level.ERROR
    keywords = "okeniz|rocessor & from_pretrained"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        loads = expressions.calls_of_method(source, "from_pretrained")
        return len({call.arguments[0].structure for call in loads if call.arguments}) > 1

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        reported: set[Location] = set()
        met: set[tuple[int, int]] = set()
        for location, tokenizer, model in (
            *token_feeds.read_together(pipeline),
            *_called(pipeline),
            *(token_feeds.paired(pipeline) if len(pipeline.models) == 1 else ()),
            *vocabularies.strangers(pipeline),
        ):
            is_known = (id(tokenizer), id(model)) in met
            if (
                location in reported
                or is_known
                or not _differ(pipeline, tokenizer, model)
                or vocabularies.are_replaced(pipeline)
            ):
                continue
            reported.add(location)
            met.add((id(tokenizer), id(model)))
            names = f"`{text_of(tokenizer.checkpoint)}`", f"`{text_of(model.checkpoint)}`"
            yield self.finding(
                location,
                f"the tokenizer is from {names[0]}, but the model from {names[1]}",
                related=[
                    Related(made, note)
                    for made, note in ((tokenizer.origin, "the tokenizer"), (model.origin, "the model"))
                    if made is not None
                ],
                help="load both from the same checkpoint",
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        tokenizer, model = evidence.tokenizer, evidence.model
        if (other := _other_of_evaluation(evidence)) is not None:
            yield self.finding(
                other.location,
                f"the evaluation is encoded by `{other.tokenizer}`, the training by another tokenizer",
                help="encode both with the tokenizer of the model",
            )
        # One that encoded nothing may belong to another model; a table of its size was made for it.
        if tokenizer is None or model is None or model.embedding_rows == tokenizer.tokens:
            return
        if model.checkpoint and (tokenizer.made_ids or _encoded_all(evidence)):
            yield self.finding(
                evidence.location if evidence.loop is None else evidence.data_location,
                f"the tokenizer is not that of `{model.checkpoint}`, on which its ids are trained",
                help=f'load it from the model\'s checkpoint: `from_pretrained("{model.checkpoint}")`',
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        tokenizer, model, other = evidence.tokenizer, evidence.model, _other_of_evaluation(evidence)
        if other is not None and other.location == finding.location:
            text = f"`{other.tokenizer}` gives {other.shared:.0%} of the training's tokens the same id"
            return Verdict.confirmed(text, shared=other.shared)
        if tokenizer is None or model is None or tokenizer.shared is None:
            return Verdict.inconclusive("the tokenizer of the model's checkpoint is not on this machine")
        text = f"{tokenizer.shared:.0%} of the tokens have the same id as in `{model.checkpoint}`"
        if tokenizer.shared >= SAME and tokenizer.made_ids:
            return Verdict.refuted(text, shared=tokenizer.shared)
        if tokenizer.shared >= SAME:
            return Verdict.inconclusive(f"{text}, but another tokenizer may have encoded the rows")
        if tokenizer.shared < OTHER:
            return Verdict.confirmed(text, shared=tokenizer.shared)
        return Verdict.inconclusive(text, shared=tokenizer.shared)


def _other_of_evaluation(evidence: Evidence) -> EncodedTexts | None:
    """The encoding of evaluation rows by a tokenizer with other ids than that of the training rows, or None."""
    trains = [each for each in evidence.encodings if "train_dataset" in each.made]
    holds_out = [each for each in evidence.encodings if each.made and "train_dataset" not in each.made]
    if not trains or any((each.shared or 0.0) < SAME for each in trains):
        return None
    return next((each for each in holds_out if each.shared is not None and each.shared < OTHER), None)


def _encoded_all(evidence: Evidence) -> bool:
    """Whether all texts that became rows of the training were encoded by the tokenizer of the run, or by its equal."""
    trains = [each for each in evidence.encodings if "train_dataset" in each.made]
    return bool(trains) and all(each.shared == 1.0 for each in trains)


def _called(pipeline: Pipeline) -> Iterator[tuple[Location, Tokenizer, Model]]:
    """The tokenizer and model of each call of a model with token ids, in the script or its modules."""
    for call in pipeline.model_calls:
        given = call.arguments.get("input_ids")
        column = given.value.column if given is not None and isinstance(given.value, ColumnValues) else None
        made = column.made_by if column is not None else None
        if isinstance(made, Encoding) and isinstance(made.tokenizer, Tokenizer):
            yield _loader_of(pipeline, made) or call.location, made.tokenizer, call.model


def _loader_of(pipeline: Pipeline, made: Encoding) -> Location | None:
    """The loader whose collate function calls the tokenizer, if there is one."""
    for loader in pipeline.loaders:
        collates = loader.collate.origin if isinstance(loader.collate, Function) else None
        if collates is not None and made.origin is not None and collates.holds(made.origin):
            return loader.origin
    return None


def _differ(pipeline: Pipeline, tokenizer: Tokenizer, model: Model) -> bool:
    """Whether two well-known checkpoints certainly have vocabularies of different sizes or kinds."""
    own, other = token_feeds.certain_facts(pipeline, tokenizer), token_feeds.certain_facts(pipeline, model)
    are_strangers = vocabularies.are_strangers(pipeline, tokenizer, model)
    sizes = {each.vocab_size if each is not None else None for each in (own, other)}
    if not are_strangers and None in sizes:
        return False
    config = model.config
    is_own_config = config is None or (config.origin is None and "vocab_size" not in config.attributes)
    is_own_config = is_own_config and is_missing(model.arguments.get("config", ABSENT))
    is_trained_before = model.how == "from_pretrained" and is_own_config
    types = {each.model_type for each in (own, other) if each is not None}
    may_share = types <= LIKE_GPT2 or (len(types) == 1 and types <= SPARE_ROWS)
    differs = are_strangers or (not may_share and len(sizes) > 1)
    is_own = not tokenizer.additions or (are_strangers and vocabularies.only_pads(tokenizer))
    return is_trained_before and differs and is_own
