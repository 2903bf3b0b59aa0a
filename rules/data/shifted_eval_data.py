"""The evaluation data differ from the training data: in classes, in the length of rows, or in the scale of targets.

Often a sorted data set was cut without shuffling it, so that the last classes are only in one part, or only one of the
two parts was shortened or scaled. The score then says nothing of the task that the model is trained for.

## Bad

    halves = torch.arange(96) % 3
    train = TensorDataset(torch.randn(96, 8), halves)
    held_out = TensorDataset(torch.randn(96, 8), torch.zeros(96, dtype=torch.int64))
    train_loader = DataLoader(train, batch_size=16, shuffle=True)  # <- shifted-eval-data
    eval_loader = DataLoader(held_out, batch_size=16)
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for inputs, labels in eval_loader:
            criterion(net(inputs), labels)

Targets that are scaled for the training only:

    prices = 200_000 + 40_000 * torch.randn(96, 1)
    scaled = (prices[:64] - prices[:64].mean()) / prices[:64].std()
    regressor = nn.Linear(8, 1)
    adam = torch.optim.Adam(regressor.parameters())
    train_loader = DataLoader(TensorDataset(features[:64], scaled), batch_size=16, shuffle=True)
    eval_loader = DataLoader(TensorDataset(features[64:], prices[64:]), batch_size=16)
    for x, y in train_loader:
        adam.zero_grad()
        F.mse_loss(regressor(x), y).backward()
        adam.step()
    regressor.eval()
    with torch.no_grad():
        for x, y in eval_loader:
            F.mse_loss(regressor(x), y)  # <- shifted-eval-data

## Good

    train = TensorDataset(torch.randn(96, 8), torch.arange(96) % 3)
    held_out = TensorDataset(torch.randn(96, 8), torch.arange(96) % 3)
    train_loader = DataLoader(train, batch_size=16, shuffle=True)
    eval_loader = DataLoader(held_out, batch_size=16)
    for inputs, labels in train_loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for inputs, labels in eval_loader:
            criterion(net(inputs), labels)

Predictions that are scaled back:

    prices = 200_000 + 40_000 * torch.randn(96, 1)
    mean, deviation = prices[:64].mean(), prices[:64].std()
    regressor = nn.Linear(8, 1)
    adam = torch.optim.Adam(regressor.parameters())
    train_loader = DataLoader(TensorDataset(features[:64], (prices[:64] - mean) / deviation), batch_size=16)
    eval_loader = DataLoader(TensorDataset(features[64:], prices[64:]), batch_size=16)
    for x, y in train_loader:
        adam.zero_grad()
        F.mse_loss(regressor(x), y).backward()
        adam.step()
    regressor.eval()
    with torch.no_grad():
        for x, y in eval_loader:
            F.mse_loss(regressor(x) * deviation + mean, y)

## When it is fine

A test of how well a model does on other domains or longer texts differs on purpose. A rare class may be missing from a
small evaluation set: the rule reports a class only if at least 20 rows of it were to be expected. Training data of
one class (anomalies are detected), and parts without a common class (few-shot learning), are not reported.

## Fix

None: shuffle before the split, or split with `stratify`; scale both parts with the numbers of the training rows.

## References

Quiñonero-Candela et al.: Dataset Shift in Machine Learning (2009).
"""

from lintrain.analysis import target_scales
from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

EXPECTED = 20
"""Evaluation rows of a class that were to be expected, where none is there."""
LONGER = 3
FEWEST_ROWS = 20


class ShiftedEvalData(EvidenceRule):
    level = Level.WARNING
    message = "the evaluation data differ from the training data"
    help_text = "shuffle before the split, or split with `stratify`; shorten and scale both parts alike"
    subject = "eval_dataset"

    def location_of(self, evidence: Evidence) -> Location:
        scales = target_scales.compared_scales(evidence)
        return (scales.loss.location if scales is not None and scales.differ else None) or evidence.data_location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.split("train_dataset") is None or evidence.split("eval_dataset") is None:
            return Verdict.inconclusive("there are not both training and evaluation data")
        scales = target_scales.compared_scales(evidence)
        if scales is not None and scales.differ:
            return Verdict.confirmed(scales.described, minimum=scales.targets[0], maximum=scales.targets[1])
        found = _missing_classes(evidence) or _other_lengths(evidence)
        if found:
            return Verdict.confirmed(found)
        counts = [len(split.labels.counts) for split in evidence.splits if split.labels is not None]
        if len(counts) > 1 and min(counts) > 1:
            return Verdict.refuted(f"training data have {counts[0]} classes, evaluation data {counts[1]}")
        if scales is not None:
            return Verdict.refuted(scales.described, minimum=scales.targets[0], maximum=scales.targets[1])
        return Verdict.inconclusive("classes and lengths of both are alike, as far as they are known")


def _missing_classes(evidence: Evidence) -> str:
    train, held_out = evidence.split("train_dataset"), evidence.split("eval_dataset")
    labels, others = (train.labels if train else None), (held_out.labels if held_out else None)
    if labels is None or others is None or not labels.counts or not others.counts or labels.lengths or others.lengths:
        return ""
    known, seen = dict(labels.counts), dict(others.counts)
    # Normal rows alone to learn what an anomaly is, or classes that are learned from a few examples: on purpose.
    if len(known) < 2 or not known.keys() & seen.keys():
        return ""
    missing = _expected(known, seen)
    if missing is not None:
        share = known[missing] / sum(known.values())
        rows = sum(seen.values())
        return f"none of {rows} evaluation rows has label {missing}, as {share:.0%} of the training rows have"
    added = _expected(seen, known)
    if added is not None:
        share = seen[added] / sum(seen.values())
        return f"no training row has label {added}, which {share:.0%} of the evaluation rows have"
    return ""


def _expected(counts: dict[int, int], others: dict[int, int]) -> int | None:
    """The class of one part that the other ought to have, by its number of rows, and has not."""
    rows, of = sum(others.values()), sum(counts.values())
    absent = [label for label, count in counts.items() if label not in others and count / of * rows >= EXPECTED]
    return min(absent, default=None)


def _other_lengths(evidence: Evidence) -> str:
    train, held_out = evidence.split("train_dataset"), evidence.split("eval_dataset")
    for column in train.columns if train else ():
        other = held_out.column(column.name) if held_out else None
        is_label = train is not None and column.name == train.label_column
        if other is None or is_label or not _varies(column.lengths) or len(other.lengths) < len(column.lengths):
            continue
        if min(column.rows_read, other.rows_read) < FEWEST_ROWS:
            continue
        _, median, nearly_longest, _ = column.lengths
        if other.lengths[1] >= LONGER * max(1, median) and other.lengths[1] > nearly_longest:
            return _said(column.name, median, other.lengths[1])
        if median >= LONGER * max(1, other.lengths[1]) and other.lengths[2] < column.lengths[0]:
            return _said(column.name, median, other.lengths[1])
    return ""


def _said(column: str, trained: int, evaluated: int) -> str:
    return f"the median length of `{column}` is {evaluated} in the evaluation rows, {trained} in the training rows"


def _varies(lengths: tuple[int, ...]) -> bool:
    return len(lengths) == 4 and lengths[0] != lengths[-1]
