"""Inputs are longer than the model's number of positions.

A model with learned positions (BERT, RoBERTa, GPT-2) raises an index or shape error for the first such batch, possibly
hours into the run. A model with rotary positions (Llama) raises no error, but its quality decreases beyond the limit.

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

Relative positions (T5) and ALiBi have no limit; rotary positions with scaling support more than the original limit.

A large `max_length` without padding has no effect on short rows, such as sentences of a well-known dataset:

    pairs = raw.map(lambda batch: tokenizer(batch["premise"], truncation=True, max_length=600), batched=True)
    trainer = Trainer(model, args, train_dataset=pairs["train"], data_collator=collator)

RoBERTa models and OPT give padding no position, so short texts may be padded to any length:

    own_tokenizer = AutoTokenizer.from_pretrained("roberta-base")

    def pad_by_far(batch):
        return own_tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=600)

    padded = raw.map(pad_by_far, batched=True)
    model = AutoModelForSequenceClassification.from_pretrained("roberta-base", num_labels=3)
    trainer = Trainer(model, args, train_dataset=padded["train"])

## Fix

Safe if the call pads every row to its `max_length` and padding takes positions, because every batch fails then: the fix
sets the model's number of positions. Asks first elsewhere, because no row may be that long. Not offered for findings of
a run alone: truncation and a model for longer text are both reasonable.

## References

transformers, RoBERTa: of 514 positions, 512 can be used; `create_position_ids_from_input_ids` gives none to padding.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import token_feeds
from lintrain.pipeline.values.data import Padding
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

POSITION_ERRORS = (
    "index out of range in self",
    "must match the existing size",
    "is out of bounds for dimension",
    "The size of tensor a",
)
"""Error messages for inputs that are too long."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The model's positions, whether every row is padded, and whether the call contains `max_length` as a number."""

    positions: int
    is_padded: bool
    is_written: bool


class OverLongInput(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|DataLoader|from_pretrained"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for feed in (*token_feeds.token_feeds(pipeline), *token_feeds.called(pipeline)):
            encoding, ids = feed.encoding, feed.columns.get("input_ids")
            limit, name = token_feeds.learned_positions(pipeline, feed) if feed.model else (None, "")
            if encoding is None or encoding.origin is None or ids is None or limit is None or encoding.depth:
                continue
            is_padded = ids.padding is Padding.FIXED and token_feeds.pads_take_positions(pipeline, feed)
            is_call = feed.run is None and feed.loader is None
            if is_call and not is_padded:
                continue
            max_length = (
                encoding.max_length
                if is_padded or (ids.truncated and not token_feeds.may_be_short(feed.dataset))
                else None
            )
            if max_length is None or max_length <= limit or encoding.origin in reported:
                continue
            reported.add(encoding.origin)
            yield self.finding(
                encoding.origin,
                f"rows have {'' if is_padded else 'up to '}{max_length} tokens, `{name}` has {limit} positions",
                related=[Related(feed.location, "the rows are read here", "read")],
                help=f"pass `max_length={limit}`, or use a model for longer text",
                claim=Claim(
                    positions=limit,
                    is_padded=is_padded,
                    is_written=f"max_length={max_length}" in pipeline.code(encoding.origin).replace(" ", ""),
                ),
                level=Level.ERROR if is_padded else Level.WARNING,
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        limit = evidence.model.positions if evidence.model else None
        longest = longest_input(evidence)
        if limit is None or longest is None:
            return Verdict.inconclusive("the model's number of positions or the length of its inputs is unknown")
        passed = most_passed(evidence)
        if limit < longest <= passed:
            return Verdict.refuted(
                f"batches of {passed} tokens with padding ran without an error; the model has {limit} positions",
                longest=longest,
                positions=limit,
            )
        if longest > limit:
            failure = evidence.failed_with(*POSITION_ERRORS)
            failed = f"; the {failure.name} stage failed" if failure else ""
            return Verdict.confirmed(
                f"the longest input has {longest} tokens, the model has {limit} positions{failed}",
                longest=longest,
                positions=limit,
            )
        return Verdict.refuted(
            f"the longest input has {longest} tokens, the model has {limit} positions", longest=longest, positions=limit
        )

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule in {self.name, "missing-truncation"}

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.is_written:
            return None
        edit = fixes.RenameArgument(finding.location, "max_length", "max_length", str(claim.positions))
        return fixes.Fix.of(f"pass `max_length={claim.positions}`", edit, safe=claim.is_padded)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        is_rotary = evidence.model is not None and evidence.model.rotary
        # Rows that are neither cut nor padded may be put together after they were encoded.
        batch, cut = evidence.batch(), any(each.cut for each in evidence.encodings)
        is_encoded_so = cut or (batch is not None and bool(batch.padding_tokens))
        finding = self.finding(
            evidence.location_of("encoding") if is_encoded_so else evidence.location,
            "training inputs are longer than the model's number of positions",
            help="truncate them: pass `truncation=True` and at most the number of positions as `max_length`",
            subject="train_dataset",
            level=Level.WARNING if is_rotary else Level.ERROR,
        )
        yield from self.if_confirmed(finding, evidence)


def longest_input(evidence: Evidence) -> int | None:
    """The highest number of tokens of a row, in the column of token ids and in the collated batches."""
    lengths: list[int] = []
    for split in evidence.splits:
        column = split.column("input_ids")
        lengths.extend(column.lengths[-1:] if column else ())
    for batch in evidence.batches:
        ids = batch.tensor("input_ids")
        lengths.extend(ids.shape[1:2] if ids else ())
    return max(lengths, default=None)


def most_passed(evidence: Evidence) -> int:
    """The highest number of tokens in a batch that passed a forward pass with learned positions; 0 for none."""
    if evidence.forward is None or evidence.model is None or evidence.model.rotary:
        return 0
    inputs = [ids for batch in evidence.batches if (ids := batch.tensor("input_ids"))]
    return max((ids.shape[1] for ids in inputs if len(ids.shape) > 1), default=0)
