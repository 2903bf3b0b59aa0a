"""The model answers the same to every row.

What it computes does not depend on what it reads: an average over the batch instead of the tokens, units that are all
dead, a softmax over one class. The loss settles at what the mean of the labels gives, without an error.

## Bad

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, x):
            hidden = self.layer(x).relu().mean(dim=0)
            return self.head(hidden).expand(len(x), 3)

    scorer = Scorer()
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(scorer(x), y).backward()  # <- constant-output
        optimizer.step()

## Good

    class Scorer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

        def forward(self, x):
            hidden = self.layer(x).relu()
            return self.head(hidden)

    scorer = Scorer()
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(scorer(x), y).backward()
        optimizer.step()

## When it is fine

A head whose weights start at zero answers the same to every row until its first step. The rows are asked before and
after two steps at the peak learning rate, in eval mode; a model that tells them apart then is not reported. Answers in
half precision may be equal by rounding, and are not judged.

## Fix

None: a probe shows that the input makes no difference, not why.

## References

Karpathy, "A Recipe for Training Neural Networks", 2019 ("use backprop to chart dependencies").
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

EQUAL = 1e-6
"""Of the largest answer: what float32 rounds off."""

EXACT = ("float32", "float64")


class ConstantOutput(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        responses = evidence.responses
        spread = responses.spread if responses else None
        if responses is None or spread is None or spread.before is None:
            return Verdict.inconclusive("the model was not asked about two different rows")
        told = f"the answers to {spread.rows} different rows lie {spread.before:.2g} of the largest apart"
        if spread.before > EQUAL:
            return Verdict.refuted(told, spread=spread.before)
        if spread.dtype not in EXACT:
            return Verdict.inconclusive(f"{told}, in {spread.dtype}")
        if spread.after is None:
            return self._without_steps(told, evidence)
        both = f"{told}, and {spread.after:.2g} after two steps"
        if spread.after > EQUAL or spread.after > spread.before:
            return Verdict.refuted(both, spread=spread.after)
        return Verdict.confirmed(both, spread=spread.after, rows=spread.rows)

    def _without_steps(self, told: str, evidence: Evidence) -> Verdict:
        """No weight moved: because no gradient is there, or because the steps were skipped or too small."""
        norms = evidence.backward.norms if evidence.backward else ()
        if norms and not any(norms):
            return Verdict.confirmed(f"{told}, and the gradients of {len(norms)} batches are 0")
        return Verdict.inconclusive(f"{told}, and no step was seen to change that or not")

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "keras-single-unit-softmax"

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the model answers the same to every row",
            help="follow one row through `forward`: what averages over the batch, is dead, or leaves the input out?",
        )
        yield from self.if_confirmed(finding, evidence)
