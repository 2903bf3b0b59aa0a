"""The sum over the tokens of each row is divided by the number of tokens in the whole batch.

Mean pooling needs the number of tokens of each row. With the sum of the whole mask, the pooled vectors shrink with the
size of the batch: the same text has another embedding in another batch. A preference loss compares the two answers of
each pair, so it needs the sum of each row, too: one sum over the batch compares all chosen with all rejected answers.

## Bad

    for batch in train_loader:
        hidden = model.distilbert(batch["input_ids"]).last_hidden_state
        mask = batch["attention_mask"]
        pooled = torch.sum(hidden * mask[:, :, None], dim=1) / torch.sum(mask)  # <- masked-mean-over-batch
        optimizer.zero_grad()
        pooled.pow(2).mean().backward()
        optimizer.step()

## Good

    for batch in train_loader:
        hidden = model.distilbert(batch["input_ids"]).last_hidden_state
        mask = batch["attention_mask"]
        pooled = torch.sum(hidden * mask[:, :, None], dim=1) / mask.sum(dim=1, keepdim=True)
        optimizer.zero_grad()
        pooled.pow(2).mean().backward()
        optimizer.step()

## When it is fine

A mean over all tokens, written in two steps:

    for batch in train_loader:
        hidden = model.distilbert(batch["input_ids"]).last_hidden_state
        mask = batch["attention_mask"]
        parts = (hidden.pow(2).mean(-1) * mask).sum(1) / mask.sum()
        optimizer.zero_grad()
        parts.sum().backward()
        optimizer.step()

## Fix

None: which axes of the mask hold the tokens is not certain.

## References

The fix in `SeanLee97/AnglE`, commit 9acf28fbd501.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import masked_means, summed_scores
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets


class MaskedMeanOverBatch(Rule):
    level = Level.ERROR
    keywords = "torch & sum & mask|gather"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(masked_means.masked_means(source)) or any(True for _ in summed_scores.summed_over_batch(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in masked_means.masked_means(pipeline.source):
            shown = f"`{found.mask}`" if len(found.mask) <= 20 else "the mask"
            yield self.finding(
                found.location,
                f"each row is divided by the sum of {shown} over all rows",
                help="sum the mask along the axis of the tokens only: `mask.sum(dim=1, keepdim=True)`",
            )
        for location in summed_scores.summed_over_batch(pipeline.source):
            yield self.finding(
                location,
                "this is one number for the whole batch, but the loss compares pairs",
                help="sum over the tokens of each row only: `.sum(dim=-1)`",
            )
