"""The attention mask does not fit the token ids of its batch.

Ones over padding let the model read padding as text; a row of zeros lets it read nothing. Both train without an
error, worse the more the lengths differ. A mask of another shape ends the run in the attention layer.

## Bad

    def collate(rows):
        batch = collator(rows)
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
        return batch

    train = tokenized["train"]
    trainer = Trainer(model, args, train_dataset=train, data_collator=collate)  # <- mismatched-attention-mask

## Good

    def collate(rows):
        batch = collator(rows)
        batch["attention_mask"] = (batch["input_ids"] != tokenizer.pad_token_id).long()
        return batch

    train = tokenized["train"]
    trainer = Trainer(model, args, train_dataset=train, data_collator=collate)

## When it is fine

Packed sequences with `position_ids` or a mask of three or four dimensions follow rules of their own, and where the
padding token is the end-of-text token a one over it may be meant: nothing is said of these.

## Fix

None: whether the mask or the tokens are wrong, the batch does not tell.

## References

Hugging Face course, chapter 2, "Handling multiple sequences".
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

TOLERATED_SHARE = 0.01


class MismatchedAttentionMask(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        ids, mask = batch.tensor("input_ids"), batch.tensor("attention_mask")
        if ids is None or mask is None or len(mask.shape) != 2 or batch.tensor("position_ids"):
            return Verdict.inconclusive("the batch holds no plain pair of `input_ids` and `attention_mask`")
        if batch.mask_shape_differs:
            return Verdict.confirmed(f"`attention_mask` is {list(mask.shape)}, `input_ids` {list(ids.shape)}")
        if batch.mask_empty_rows:
            return Verdict.confirmed(
                f"{batch.mask_empty_rows} rows have a mask of zeros only", rows=batch.mask_empty_rows
            )
        attended = batch.attended_tokens or 0
        if batch.pad_is_eos or not attended:
            return Verdict.inconclusive("the padding token is the end-of-text token, so padding and text look alike")
        share = batch.mask_on_padding / attended
        if share > TOLERATED_SHARE:
            text = f"{batch.mask_on_padding} of {attended} attended tokens are padding ({share:.0%})"
            return Verdict.confirmed(text, padding=batch.mask_on_padding, attended=attended)
        return Verdict.refuted(f"{batch.mask_on_padding} of {attended} attended tokens are padding", attended=attended)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "`attention_mask` does not fit `input_ids` in the training batches",
            help="let the tokenizer or its collator make the mask: one for every token, zero for every padding",
            subject="data_collator",
        )
        yield from self.if_confirmed(finding, evidence)
