r"""The tokenizer loses a part of what the model is to write.

An uncased tokenizer has no capital letters, and some tokenizers merge spaces and newlines or remove accents. For the
input of a classifier this rarely matters. As targets, such texts cannot be generated: code comes without its lines and
indentation, names without capitals. Nothing fails, since the same characters are missing in every label.

## Bad

    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")
    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    code = Dataset.from_dict({"ask": ["a cat"] * 32, "code": ["if a:\n    is\n    not"] * 32})
    rows = code.map(lambda row: t5_tokenizer(row["ask"], text_target=row["code"]))  # <- lossy-tokenizer
    seq2seq_collator = DataCollatorForSeq2Seq(t5_tokenizer, model=t5)
    trainer = Seq2SeqTrainer(
        t5, Seq2SeqTrainingArguments("out"), train_dataset=rows, data_collator=seq2seq_collator
    )
    trainer.train()

## Good

    t5_tokenizer = AutoTokenizer.from_pretrained("t5-small")
    t5 = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    code = Dataset.from_dict({"ask": ["if a:\n    is\n    not"] * 32, "code": ["a cat"] * 32})
    rows = code.map(lambda row: t5_tokenizer(row["ask"], text_target=row["code"]))
    seq2seq_collator = DataCollatorForSeq2Seq(t5_tokenizer, model=t5)
    trainer = Seq2SeqTrainer(
        t5, Seq2SeqTrainingArguments("out"), train_dataset=rows, data_collator=seq2seq_collator
    )
    trainer.train()

## When it is fine

Texts of classifiers, inputs of translation and summaries, and models that are uncased on purpose, whose targets are
lower case as well.

## Fix

None: another tokenizer needs another model.

## References

Transformers documentation, "Summary of the tokenizers".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import EncodedTexts

FEWEST_TEXTS = 4
MANY = 0.5
"""The share of the texts with a feature, and of those that lose it."""
WRITES = frozenset({"CausalLM", "ConditionalGeneration"})


class LossyTokenizer(EvidenceRule):
    level = Level.WARNING
    message = "the tokenizer loses a part of the texts that the model is to write"
    help_text = "use a model whose tokenizer keeps it, or add tokens for it"

    def location_of(self, evidence: Evidence) -> Location:
        written = _written(evidence)
        return written[0].location if written else evidence.location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        written = _written(evidence)
        if not written:
            return Verdict.inconclusive("the run encoded no texts that the model is to write")
        for each in written:
            lost = [name for name, of, gone in _features(each) if of >= FEWEST_TEXTS and gone > MANY * of]
            counted = ", ".join(
                f"{gone} of {of} texts with {name}" for name, of, gone in _features(each) if name in lost
            )
            if lost:
                return Verdict.confirmed(
                    f"decoding gives none back for {counted}", lost=", ".join(lost), texts=each.decoded
                )
        texts = sum(each.decoded for each in written)
        return Verdict.refuted(f"decoding gives back what was compared of {texts} texts", texts=texts)


def _written(evidence: Evidence) -> list[EncodedTexts]:
    """The encodings of what the model is to write; those with losses come first."""
    if evidence.model is None or evidence.model.task not in WRITES:
        return []
    # The rows of a causal model are its targets as well.
    writes_rows = evidence.model.task == "CausalLM"
    found = [
        each
        for each in evidence.encodings
        if (each.are_targets or (writes_rows and "train_dataset" in each.made)) and each.decoded >= FEWEST_TEXTS
    ]
    return sorted(found, key=lambda each: -max(gone for _, _, gone in _features(each)))


def _features(texts: EncodedTexts) -> tuple[tuple[str, int, int], ...]:
    """What texts have: how many of them, and how many of these lose it."""
    return (
        ("capital letters", texts.with_capitals, texts.lost_capitals),
        ("accents", texts.with_accents, texts.lost_accents),
        ("newlines", texts.with_newlines, texts.lost_newlines),
        ("indentation or several spaces", texts.with_spaces, texts.lost_spaces),
    )
