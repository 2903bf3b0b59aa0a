"""Nearly all training rows belong to one class, or a class of the head has no rows.

A model that always predicts the largest class is then nearly right: the loss is small from the start, accuracy looks
good, and the rare classes are not learned. The rule counts the whole label column, not a single batch.

## Bad

    rare = tokenized["train"].map(lambda row, i: {"label": 1 if i % 100 == 0 else 0}, with_indices=True)
    trainer = Trainer(model, args, train_dataset=rare, data_collator=collator)  # <- label-imbalance

## Good

    even = tokenized["train"].map(lambda row, i: {"label": i % 3}, with_indices=True)
    trainer = Trainer(model, args, train_dataset=even, data_collator=collator)

## When it is fine

Class weights, a weighted sampler or a custom loss (focal loss) compensate for it: the rule does not report a trainer
that overrides `compute_loss`, `compute_loss_func` or the training sampler. Nor does it report token classification,
where most tokens belong to no entity, regression, and columns of fewer than 50 labels.

## Fix

None: more data, weights and another metric are all reasonable.

## References

Buda, Maki, Mazurowski: A systematic study of the class imbalance problem in convolutional neural networks (2018).
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

LARGEST_SHARE = 0.95
FEWEST_LABELS = 200
FEWEST_OF_ONE = 50
"""Labels of which nearly all are of one class: fewer of them show that than show that a class is missing."""
BALANCING = {"compute_loss", "compute_loss_func", "get_train_dataloader", "training_step", "_get_train_sampler"}
EVEN = {"RandomSampler", "SequentialSampler"}
WHOLE_ROWS = {"SequenceClassification", "ImageClassification", "AudioClassification"}


class LabelImbalance(EvidenceRule):
    level = Level.WARNING
    message = "nearly all training labels are of one class, or a class has none"
    help_text = "weight the loss by class, oversample rare classes, or give the head only the classes that occur"
    subject = "train_dataset"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        classes = _classes(evidence)
        if classes is None:
            return Verdict.inconclusive("the model does not classify whole rows")
        balanced = sorted(BALANCING & set(evidence.overrides))
        if balanced:
            return Verdict.inconclusive(f"the trainer overrides `{balanced[0]}`, which may weight the classes")
        split = evidence.split("train_dataset")
        counts = dict(split.labels.counts) if split and split.labels else {}
        if sum(counts.values()) < FEWEST_OF_ONE:
            return Verdict.inconclusive(
                f"{sum(counts.values())} labels were counted, but at least {FEWEST_OF_ONE} are needed"
            )
        return _judge_counts(counts, classes)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        """If the head is too large, a class without rows is a consequence of its size."""
        return "absent" in verdict.measured and cause.rule == "missing-num-labels"


def _classes(evidence: Evidence) -> int | None:
    """The classes of a head that scores whole rows, and whose loss weights them alike; None for any other."""
    if evidence.model is not None and evidence.model.task in WHOLE_ROWS:
        return evidence.model.num_labels or 0
    loop = evidence.loop
    if loop is None or (loop.loader is not None and loop.loader.sampler not in EVEN):
        return None
    losses = (loss for loss in loop.losses_of("cross_entropy") if loss.is_plain and loss.target_dtype == "int64")
    return next((loss.input_shape[1] for loss in losses if len(loss.input_shape) == 2), None)


def _judge_counts(counts: dict[int, int], classes: int) -> Verdict:
    rows = sum(counts.values())
    label, most = max(counts.items(), key=lambda item: item[1])
    share = most / rows
    if share > LARGEST_SHARE:
        return Verdict.confirmed(f"{most} of {rows} rows have label {label} ({share:.1%})", label=label, share=share)
    absent = [label for label in range(classes) if label not in counts]
    if absent and rows >= FEWEST_LABELS:
        return Verdict.confirmed(
            f"the head has an output for label {absent[0]}, but none of {rows} rows has this label", absent=absent[0]
        )
    return Verdict.refuted(f"the largest class has {most} of {rows} rows ({share:.1%})", label=label, share=share)
