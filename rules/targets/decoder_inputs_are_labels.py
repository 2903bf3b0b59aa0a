"""The decoder is given the tokens that it shall predict.

A decoder reads at each position the tokens before the one that it predicts: `decoder_input_ids` are the labels moved
right by one. Given the labels themselves it sees each answer and learns to copy. The loss falls to almost nothing, and
what the model generates, without the answers before it, makes no sense.

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

In the function that makes the rows:

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

In the function that makes the rows:

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

The tokens are moved by hand:

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    ids = torch.randint(3, 60, (2, 9))
    loss = t5(input_ids=ids, decoder_input_ids=ids[:, :-1], labels=ids[:, 1:].contiguous()).loss
    loss.backward()

They are other tokens:

    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    ids, labels = torch.randint(3, 60, (2, 9)), torch.randint(3, 60, (2, 9))
    loss = t5(input_ids=ids, decoder_input_ids=t5._shift_right(labels), labels=labels).loss
    loss.backward()

## Fix

Safe: the model makes them of the labels, shifted by one, as it was trained.

## References

Transformers documentation, `T5ForConditionalGeneration`, parameter `decoder_input_ids`; transformers#27714.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import run_data
from lintrain.pipeline import shifts
from lintrain.pipeline.values.data import Collator
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import is_missing
from lintrain.pipeline.values.training import ModelCall
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes, one_per_location

MOST_OF_THEM = 0.95


class DecoderInputsAreLabels(Rule):
    level = Level.ERROR
    keywords = "decoder_input"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._of_call(call) for call in pipeline.model_calls)
        for given in run_data.given_datasets(pipeline):
            if _gives_the_answer(given):
                yield self._of_rows(given)

    def _of_call(self, call: ModelCall) -> Finding | None:
        decoder, labels = call.arguments.get("decoder_input_ids"), call.arguments.get("labels")
        if decoder is None or labels is None or call.model.task is not Task.SEQ2SEQ_LM:
            return None
        if not shifts.are_same_tokens(decoder.value, labels.value):
            return None
        return self.finding(
            decoder.location,
            "the decoder is given the labels that it shall predict",
            related=[
                Related(labels.location, "the same tokens are its labels", "labels"),
                Related(call.location, "called here", "call"),
            ],
            help="leave `decoder_input_ids` out: the model makes them of the labels",
        )

    def _of_rows(self, given: run_data.Given) -> Finding:
        return self.finding(
            given.argument.location,
            f"in {given.text} the `decoder_input_ids` are the labels",
            related=run_data.last_map(given.datasets[0]),
            help="leave `decoder_input_ids` out: the model makes them of the labels",
            subject=given.parameter,
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        targets = batch.targets
        if targets is None or not targets.scored:
            return Verdict.inconclusive("the batch holds no labels that are tokens")
        if targets.equal_to_decoder is None:
            return Verdict.refuted(f"no decoder inputs lie beside the {targets.scored} labels", scored=targets.scored)
        text = f"{targets.equal_to_decoder} of {targets.scored} labels are the decoder's input at their own position"
        told = Verdict.confirmed if targets.equal_to_decoder > MOST_OF_THEM * targets.scored else Verdict.refuted
        return told(text, equal_to_decoder=targets.equal_to_decoder)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        calls = finding.with_role("call")
        if not calls:
            return None
        call = calls[0].location
        return fixes.Fix.of(
            "let the model make them of the labels", fixes.RemoveArgument(call, "decoder_input_ids"), safe=True
        )


def _gives_the_answer(given: run_data.Given) -> bool:
    columns = [(dataset.columns or {}).get("decoder_input_ids") for dataset in given.datasets]
    copied = all(column is not None and column.copied_from == "labels" for column in columns)
    model = given.run.model
    is_encoder_decoder = model is not None and model.task is Task.SEQ2SEQ_LM
    return given.parameter == "train_dataset" and copied and is_encoder_decoder and _leaves_them(given)


def _leaves_them(given: run_data.Given) -> bool:
    """Whether the collator makes no decoder inputs itself: that for sequences does where it has the model."""
    collator = given.run.value("data_collator")
    given_model = (
        collator.arguments.get("model", collator.arguments.get("1")) if isinstance(collator, Collator) else None
    )
    makes = given_model is not None and not is_missing(given_model)
    return run_data.keeps_labels(given.run) and not makes
