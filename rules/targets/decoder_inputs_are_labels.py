"""The decoder gets the labels as its input.

At each position the decoder must see only the previous tokens: `decoder_input_ids` are the labels, shifted right by
one. With unshifted labels the model sees each answer and learns to copy it. The loss falls to almost zero, and the
generated text is meaningless. The same holds for a network of the script with a decoder of torch.

## Bad

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    optimizer = torch.optim.AdamW(t5.parameters(), lr=5e-5)
    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")
    inputs = t5_tokenizer(["one two three"], return_tensors="pt")
    labels = t5_tokenizer(["four five six"], return_tensors="pt")["input_ids"]
    loss = t5(
        input_ids=inputs["input_ids"],
        decoder_input_ids=labels,  # <- decoder-inputs-are-labels
        labels=labels,
    ).loss
    loss.backward()
    optimizer.step()

In a preprocessing function:

    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")

    def make_rows(batch):
        inputs = t5_tokenizer(batch["premise"], truncation=True, padding="max_length", max_length=32)
        answers = t5_tokenizer(batch["hypothesis"], truncation=True, padding="max_length", max_length=32)
        inputs["labels"] = answers["input_ids"]
        inputs["decoder_input_ids"] = answers["input_ids"]
        return inputs

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    rows = raw["train"].map(make_rows, batched=True, remove_columns=raw["train"].column_names)
    trainer = Seq2SeqTrainer(
        t5,
        Seq2SeqTrainingArguments("out"),
        train_dataset=rows,  # <- decoder-inputs-are-labels
    )
    trainer.train()

## Good

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    optimizer = torch.optim.AdamW(t5.parameters(), lr=5e-5)
    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")
    inputs = t5_tokenizer(["one two three"], return_tensors="pt")
    labels = t5_tokenizer(["four five six"], return_tensors="pt")["input_ids"]
    loss = t5(
        input_ids=inputs["input_ids"],
        labels=labels,
    ).loss
    loss.backward()
    optimizer.step()

In a preprocessing function:

    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")

    def make_rows(batch):
        inputs = t5_tokenizer(batch["premise"], truncation=True, max_length=32)
        inputs["labels"] = t5_tokenizer(batch["hypothesis"], truncation=True, max_length=32)["input_ids"]
        return inputs

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    rows = raw["train"].map(make_rows, batched=True, remove_columns=raw["train"].column_names)
    trainer = Seq2SeqTrainer(
        t5,
        Seq2SeqTrainingArguments("out"),
        train_dataset=rows,
        data_collator=DataCollatorForSeq2Seq(t5_tokenizer, model=t5),
    )
    trainer.train()

## When it is fine

The labels are shifted by hand:

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    ids = torch.randint(3, 60, (2, 9))
    loss = t5(input_ids=ids, decoder_input_ids=ids[:, :-1], labels=ids[:, 1:].contiguous()).loss
    loss.backward()

The decoder gets other tokens:

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    ids, labels = torch.randint(3, 60, (2, 9)), torch.randint(3, 60, (2, 9))
    loss = t5(input_ids=ids, decoder_input_ids=t5._shift_right(labels), labels=labels).loss
    loss.backward()

## Fix

Safe: the model creates them from the labels, shifted by one, as in pretraining.

## References

Transformers documentation, `T5ForConditionalGeneration`, parameter `decoder_input_ids`; transformers#27714.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data, seen_tokens
from lintrain.pipeline import shifts
from lintrain.pipeline.values.data import Collator
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import is_missing
from lintrain.pipeline.values.training import ModelCall
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes, one_per_location

MOST = 0.95
"""The share of equal tokens above which the decoder's input is a copy of the labels."""


class DecoderInputsAreLabels(Rule):
    level = Level.ERROR
    keywords = "decoder_input|Transformer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report_call(pipeline, call) for call in pipeline.model_calls)
        for given in run_data.given_datasets(pipeline):
            if _copies_labels(given):
                yield self._report_rows(given)
        yield from one_per_location(map(self._report_copied, seen_tokens.copied_targets(pipeline)))

    def _report_copied(self, copied: seen_tokens.Copied) -> Finding:
        return self.finding(
            copied.location,
            f"the decoder gets `{copied.name}` as it is, and has to predict it",
            related=[Related(copied.loss, "compared with the same tokens here", "labels")],
            help=f"pass `{copied.name}[:, :-1]`, and compare with `{copied.name}[:, 1:]`",
        )

    def _report_call(self, pipeline: Pipeline, call: ModelCall) -> Finding | None:
        decoder, labels = call.arguments.get("decoder_input_ids"), call.arguments.get("labels")
        if decoder is None or labels is None or call.model.task is not Task.SEQ2SEQ_LM:
            return None
        is_same = shifts.are_same_tokens(decoder.value, labels.value)
        if not is_same and not seen_tokens.is_masked_copy(pipeline, decoder.location, labels.location):
            return None
        return self.finding(
            decoder.location,
            "`decoder_input_ids` are the labels, not shifted by one",
            related=[
                Related(labels.location, "the same tokens are the labels", "labels"),
                Related(call.location, "called here", "call"),
            ],
            help="remove `decoder_input_ids`: the model creates them from the labels",
        )

    def _report_rows(self, given: run_data.Given) -> Finding:
        return self.finding(
            given.argument.location,
            f"`decoder_input_ids` of {given.text} are the labels, not shifted by one",
            related=run_data.last_map(given.datasets[0]),
            help="remove `decoder_input_ids`: the model creates them from the labels",
            subject=given.parameter,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        batch = evidence.batch()
        if batch is not None and batch.targets is not None and batch.targets.equal_to_decoder:
            yield self.finding(
                evidence.location,
                "the decoder gets the labels as its input, so it only has to copy them",
                help="leave `decoder_input_ids` out: the model makes them from the labels",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        targets = batch.targets
        if targets is None or not targets.scored:
            return Verdict.inconclusive("the batch has no token labels")
        if targets.equal_to_decoder is None:
            return Verdict.refuted(
                f"the batch has {targets.scored} labels and no decoder inputs", scored=targets.scored
            )
        text = f"{targets.equal_to_decoder} of {targets.scored} labels equal the decoder input at the same position"
        verdict = Verdict.confirmed if targets.equal_to_decoder > MOST * targets.scored else Verdict.refuted
        return verdict(text, equal_to_decoder=targets.equal_to_decoder)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        calls = finding.with_role("call")
        if not calls:
            return None
        call = calls[0].location
        return fixes.Fix.of("remove `decoder_input_ids`", fixes.RemoveArgument(call, "decoder_input_ids"), safe=True)


def _copies_labels(given: run_data.Given) -> bool:
    columns = [(dataset.columns or {}).get("decoder_input_ids") for dataset in given.datasets]
    copied = all(column is not None and column.copied_from == "labels" for column in columns)
    model = given.run.model
    is_encoder_decoder = model is not None and model.task is Task.SEQ2SEQ_LM
    return given.parameter == "train_dataset" and copied and is_encoder_decoder and _keeps_decoder_inputs(given)


def _keeps_decoder_inputs(given: run_data.Given) -> bool:
    """Whether the collator creates no decoder inputs: `DataCollatorForSeq2Seq` does if it has the model."""
    collator = given.run.value("data_collator")
    given_model = (
        collator.arguments.get("model", collator.arguments.get("1")) if isinstance(collator, Collator) else None
    )
    makes = given_model is not None and not is_missing(given_model)
    return run_data.keeps_labels(given.run) and not makes
