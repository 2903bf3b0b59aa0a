"""One class holds nearly all rows, or a class of the head has none.

Always answering with the largest class is then nearly right, so the loss is small from the start, accuracy looks
good, and the rare classes are never learned. Counted over the whole label column, not over one batch.

## Bad

    rare = tokenized["train"].map(lambda row, i: {"label": 1 if i % 100 == 0 else 0}, with_indices=True)
    trainer = Trainer(model, args, train_dataset=rare, data_collator=collator)  # <- label-imbalance

## Good

    even = tokenized["train"].map(lambda row, i: {"label": i % 3}, with_indices=True)
    trainer = Trainer(model, args, train_dataset=even, data_collator=collator)

## When it is fine

Class weights, a weighted sampler or a loss of one's own (focal loss) make up for it: a trainer that replaces
`compute_loss`, `compute_loss_func` or the training sampler is left alone. So are token classification, where most
tokens belong to no entity, regression, and columns of fewer than 200 labels.

## Fix

None: more data, weights and another metric are all reasonable.

## References

Buda, Maki, Mazurowski: A systematic study of the class imbalance problem in convolutional neural networks (2018).
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

LARGEST_SHARE = 0.95
FEWEST_LABELS = 200
BALANCING = {"compute_loss", "compute_loss_func", "get_train_dataloader", "training_step", "_get_train_sampler"}
WHOLE_ROWS = {"SequenceClassification", "ImageClassification", "AudioClassification"}


class LabelImbalance(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.model or evidence.model.task not in WHOLE_ROWS:
            return Verdict.inconclusive("the model is no classifier of whole rows")
        balanced = sorted(BALANCING & set(evidence.overrides))
        if balanced:
            return Verdict.inconclusive(f"the trainer replaces `{balanced[0]}`, which may weigh the classes")
        split = evidence.split("train_dataset")
        counts = dict(split.labels.counts) if split and split.labels else {}
        if sum(counts.values()) < FEWEST_LABELS:
            return Verdict.inconclusive(
                f"{sum(counts.values())} labels were counted, fewer than {FEWEST_LABELS} say nothing"
            )
        return _judge_counts(counts, evidence.model.num_labels or 0)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """A head that is too large has an output without rows: its size is the mistake."""
        return "absent" in verdict.measured and cause.rule == "missing-num-labels"

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the training labels are nearly all of one class, or a class has none",
            help="weigh the loss by class, draw rare classes more often, or give the head only the classes that occur",
            subject="train_dataset",
        )
        yield from self.if_confirmed(finding, evidence)


def _judge_counts(counts: dict[int, int], classes: int) -> Verdict:
    rows = sum(counts.values())
    label, most = max(counts.items(), key=lambda item: item[1])
    share = most / rows
    if share > LARGEST_SHARE:
        return Verdict.confirmed(f"label {label} holds {most} of {rows} rows ({share:.1%})", label=label, share=share)
    absent = [label for label in range(classes) if label not in counts]
    if absent:
        return Verdict.confirmed(
            f"none of {rows} rows has label {absent[0]}, for which the head has an output", absent=absent[0]
        )
    return Verdict.refuted(f"the largest class holds {most} of {rows} rows ({share:.1%})", label=label, share=share)
