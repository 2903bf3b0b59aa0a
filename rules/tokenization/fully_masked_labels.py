"""Some rows have no labels: all of them are -100.

This happens if truncation removes the answer, or if the marker of its start was not found. Such a row has no gradient.
For a batch of such rows the model returns a loss of NaN, which Trainer logs as 0.0.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def mask_premise(row):
        ids = lm_tokenizer(row["premise"] + " " + row["hypothesis"], truncation=True, max_length=24)
        prompt = len(lm_tokenizer(row["premise"] + " ")["input_ids"])
        labels = [-100 if position < 2 * prompt else token for position, token in enumerate(ids["input_ids"])]
        return {**ids, "labels": labels}

    examples = raw.map(mask_premise, remove_columns=raw["train"].column_names)
    collator = DataCollatorForSeq2Seq(lm_tokenizer)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)  # <- fully-masked-labels

## Good

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def mask_premise(row):
        ids = lm_tokenizer(row["premise"] + " " + row["hypothesis"], truncation=True, max_length=512)
        prompt = len(lm_tokenizer(row["premise"])["input_ids"])
        labels = [-100 if position < prompt else token for position, token in enumerate(ids["input_ids"])]
        return {**ids, "labels": labels}

    examples = raw.map(mask_premise, remove_columns=raw["train"].column_names)
    collator = DataCollatorForSeq2Seq(lm_tokenizer)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

## When it is fine

A few rows may have no answer by design, such as the output of a tool: a share below 1 % is not reported. In masked
language modeling short rows may have no masked token by chance.

## Fix

None: what went wrong shows only in the rows.

## References

trl#1820, trl#588; Transformers documentation, `DataCollatorForSeq2Seq.label_pad_token_id`.
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

TOLERATED, MANY = 0.01, 0.05
TASKS = frozenset({"CausalLM", "ConditionalGeneration", "Seq2SeqLM", "TokenClassification"})


class FullyMaskedLabels(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        if batch is None or batch.labels is None:
            return Verdict.inconclusive(
                evidence.not_reached("batch") if batch is None else "the batch has no token labels"
            )
        if evidence.model is None or evidence.model.task not in TASKS:
            return Verdict.inconclusive("the model's task has no label for each token")
        labels = batch.labels
        share = labels.rows_without / max(labels.rows, 1)
        text = f"{labels.rows_without} of {labels.rows} rows have only -100 as labels ({share:.0%})"
        if share > TOLERATED:
            return Verdict.confirmed(text, rows=labels.rows, without=labels.rows_without)
        return Verdict.refuted(text, rows=labels.rows, without=labels.rows_without)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        labels = evidence.batches[0].labels if evidence.batches else None
        is_many = labels is not None and labels.rows_without > MANY * labels.rows
        finding = self.finding(
            evidence.location,
            "some training rows have only -100 as labels",
            help="check such a row: is its answer truncated, or its start not found",
            subject="train_dataset",
            level=Level.ERROR if is_many else Level.WARNING,
        )
        yield from self.if_confirmed(finding, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        # A few rows without a text have no label either.
        return cause.rule == "broken-texts" and finding.level is Level.WARNING
