"""The attention mask does not match the token ids of its batch.

With ones at padding positions the model treats padding as text; with a row of zeros it ignores the whole text. Neither
raises an error, and the model gets worse the more the lengths differ. A mask of the wrong shape raises an error in the
attention layer.

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

Packed sequences with `position_ids` and masks of three or four dimensions are not checked. If the padding token is
the EOS token, a one at its position may be correct, so this is not reported either.

## Fix

None: the batch does not show whether the mask or the tokens are wrong.

## References

Hugging Face course, chapter 2, "Handling multiple sequences".
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

TOLERATED_SHARE = 0.01
"""The share of padding among attended tokens above which the finding is confirmed."""


class MismatchedAttentionMask(EvidenceRule):
    level = Level.ERROR
    message = "`attention_mask` does not match `input_ids` in the training batches"
    help_text = "use the mask of the tokenizer or its collator: 1 for each token, 0 for padding"
    subject = "data_collator"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        # The mask of a row without a text is zero everywhere, and rightly so.
        without_text = {rows.first for _, rows in evidence.wrong_rows("only special tokens")}
        swept = [
            (split, rows)
            for split, rows in evidence.wrong_rows("mask length", "empty mask")
            if rows.fault == "mask length" or rows.first not in without_text
        ]
        if swept and swept[0][0].argument == "train_dataset":
            rows = swept[0][1]
            return Verdict.confirmed(rows.in_words(), rows=list(rows.first), count=rows.count)
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        ids, mask = batch.tensor("input_ids"), batch.tensor("attention_mask")
        if ids is None or mask is None or len(mask.shape) != 2 or batch.tensor("position_ids"):
            return Verdict.inconclusive("the batch has no two-dimensional `input_ids` and `attention_mask`")
        if batch.mask_shape_differs:
            return Verdict.confirmed(f"`attention_mask` has shape {list(mask.shape)}, `input_ids` {list(ids.shape)}")
        if batch.mask_empty_rows:
            return Verdict.confirmed(
                f"the mask of {batch.mask_empty_rows} rows has only zeros", rows=batch.mask_empty_rows
            )
        attended = batch.attended_tokens or 0
        if batch.pad_is_eos or not attended:
            return Verdict.inconclusive("the padding token is the EOS token, so padding looks like text")
        share = batch.mask_on_padding / attended
        if share > TOLERATED_SHARE:
            text = f"{batch.mask_on_padding} of {attended} attended tokens are padding ({share:.0%})"
            return Verdict.confirmed(text, padding=batch.mask_on_padding, attended=attended)
        return Verdict.refuted(f"{batch.mask_on_padding} of {attended} attended tokens are padding", attended=attended)
