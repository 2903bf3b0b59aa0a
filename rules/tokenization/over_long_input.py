"""Inputs are longer than the positions that the model has.

A model with learned positions (BERT, RoBERTa, GPT-2) ends with an index or shape error at the first such batch, which
may come hours into the run. A model with rotary positions (Llama) goes on, with quality that decays beyond its limit.

## Bad

    def tokenize_long(batch):
        return tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=600)  # <- over-long-input

    long = raw.map(tokenize_long, batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=long["train"])
    # raises must match the size of tensor b (512)

## Good

    def tokenize_long(batch):
        return tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=512)

    long = raw.map(tokenize_long, batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)
    trainer = Trainer(model, args, train_dataset=long["train"])

## When it is fine

Relative positions (T5) and ALiBi have no limit; rotary positions with scaling configured are made for more than their
first limit.

A length that rows are only cut to harms nothing where none is so long, as sentences of a well-known data set are not:

    pairs = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True, max_length=600), batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

RoBERTa's family and OPT count the tokens of the text alone, so that short ones may be padded to any length:

    own_tokenizer = AutoTokenizer.from_pretrained("roberta-base")

    def pad_by_far(batch):
        return own_tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=600)

    padded = raw.map(pad_by_far, batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=3)
    trainer = Trainer(model, args, train_dataset=padded["train"])

## Fix

Safe where every row is padded to a `max_length` that the call names and padding takes positions, for then no batch goes
through: it becomes the model's number of positions. Asks first elsewhere, since no row may be so long. There is none
for what a batch alone shows: cutting the text and a model for longer text are both reasonable.

## References

transformers, RoBERTa: of 514 positions, 512 can be used; `create_position_ids_from_input_ids` gives none to padding.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import token_feeds, token_positions
from lintrain.pipeline.values.data import Padding
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

POSITION_ERRORS = (
    "index out of range in self",
    "must match the existing size",
    "is out of bounds for dimension",
    "The size of tensor a",
)


class OverLongInput(Rule):
    level = Level.ERROR
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        reported: set[Location] = set()
        for feed in token_feeds.token_feeds(pipeline):
            encoding, ids = feed.encoding, feed.columns.get("input_ids")
            limit, name = token_positions.learned_positions(pipeline, feed) if feed.model else (None, "")
            if encoding is None or encoding.origin is None or ids is None or limit is None or encoding.depth:
                continue
            is_padded = ids.padding is Padding.FIXED and token_positions.pads_take_positions(pipeline, feed)
            asked = (
                encoding.max_length
                if is_padded or (ids.truncated and not token_positions.may_be_short(feed.dataset))
                else None
            )
            if asked is None or asked <= limit or encoding.origin in reported:
                continue
            reported.add(encoding.origin)
            yield self.finding(
                encoding.origin,
                f"rows of {'' if is_padded else 'up to '}{asked} tokens for the {limit} positions of `{name}`",
                related=[Related(feed.location, "read here", "read")],
                help=f"pass `max_length={limit}`, or take a model for longer text",
                facts={
                    "positions": limit,
                    "is_padded": is_padded,
                    "is_written": f"max_length={asked}" in pipeline.code(encoding.origin).replace(" ", ""),
                },
                level=Level.ERROR if is_padded else Level.WARNING,
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        limit = evidence.model.positions if evidence.model else None
        longest = longest_input(evidence)
        if limit is None or longest is None:
            return Verdict.inconclusive("the model's positions or the lengths of its inputs are not known")
        passed = most_passed(evidence)
        if limit < longest <= passed:
            return Verdict.refuted(
                f"batches of {passed} tokens, padding among them, go through the model of {limit} positions",
                longest=longest,
                positions=limit,
            )
        if longest > limit:
            failure = evidence.failed_with(*POSITION_ERRORS)
            ends = f"; the {failure.name} stage fails on it" if failure else ""
            return Verdict.confirmed(f"{longest} tokens for {limit} positions{ends}", longest=longest, positions=limit)
        return Verdict.refuted(
            f"the longest input has {longest} tokens for {limit} positions", longest=longest, positions=limit
        )

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding) -> fixes.Fix | None:
        if not finding.facts.get("is_written"):
            return None
        limit = str(finding.facts["positions"])
        fitting = fixes.RenameArgument(finding.location, "max_length", "max_length", limit)
        return fixes.Fix.of("take the model's positions", fitting, safe=bool(finding.facts["is_padded"]))

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        decays = evidence.model is not None and evidence.model.rotary
        finding = self.finding(
            evidence.location,
            "training inputs are longer than the model's positions",
            help="cut them: `truncation=True` and a `max_length` of at most the model's positions",
            subject="train_dataset",
            level=Level.WARNING if decays else Level.ERROR,
        )
        yield from self.if_confirmed(finding, evidence)


def longest_input(evidence: Evidence) -> int | None:
    """The most tokens of a row: of the column of token ids where there is one, and of the collated batches."""
    lengths: list[int] = []
    for split in evidence.splits:
        column = split.column("input_ids")
        lengths.extend(column.lengths[-1:] if column else ())
    for batch in evidence.batches:
        ids = batch.tensor("input_ids")
        lengths.extend(ids.shape[1:2] if ids else ())
    return max(lengths, default=None)


def most_passed(evidence: Evidence) -> int:
    """The most tokens of a batch that learned positions were enough for, as its forward pass has shown; 0 for none."""
    if evidence.forward is None or evidence.model is None or evidence.model.rotary:
        return 0
    inputs = [ids for batch in evidence.batches if (ids := batch.tensor("input_ids"))]
    return max((ids.shape[1] for ids in inputs if len(ids.shape) > 1), default=0)
