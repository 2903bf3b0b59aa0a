"""The model returns the same output for every row.

Its output does not depend on its input: an average over the batch instead of the tokens, dead units, a softmax over one
class. The loss settles at the value that a constant prediction gives, without an error.

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

A head whose weights start at zero returns the same output for every row until its first step. The outputs are compared
before and after two steps at the peak learning rate, in eval mode; a model whose outputs differ then is not reported.
Outputs in half precision may be equal due to rounding, and are not judged.

## Fix

None: a probe shows that the input has no effect, not why.

## References

Karpathy, "A Recipe for Training Neural Networks", 2019 ("use backprop to chart dependencies").
"""

import math

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

EQUAL = 1e-6
"""A share of the largest output: the rounding error of float32."""

EXACT = ("float32", "float64")


class ConstantOutput(EvidenceRule):
    level = Level.ERROR
    message = "the model returns the same output for every row"
    help_text = "follow one row through `forward`: is the batch averaged, are units dead, is the input unused?"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        responses = evidence.responses
        spread = responses.spread if responses else None
        if responses is None or spread is None or spread.before is None:
            return Verdict.inconclusive("the outputs for two different rows were not measured")
        text = f"the outputs for {spread.rows} different rows differ by {spread.before:.2g} of the largest output"
        if spread.before > EQUAL:
            return Verdict.refuted(text, spread=spread.before)
        if spread.dtype not in EXACT:
            return Verdict.inconclusive(f"{text}, in {spread.dtype}")
        if spread.after is None:
            return self._without_steps(text, evidence)
        both = f"{text}, and by {spread.after:.2g} after two steps"
        if math.isnan(spread.after):
            return Verdict.inconclusive(f"{text}, and are NaN after two steps")
        if spread.after > EQUAL or spread.after > spread.before:
            return Verdict.refuted(both, spread=spread.after)
        return Verdict.confirmed(both, spread=spread.after, rows=spread.rows)

    def _without_steps(self, text: str, evidence: Evidence) -> Verdict:
        """The verdict if no weight changed: all gradients are 0, or the steps were skipped or too small."""
        norms = evidence.backward.norms if evidence.backward else ()
        if norms and not any(norms):
            return Verdict.confirmed(f"{text}, and the gradients of {len(norms)} batches are 0")
        return Verdict.inconclusive(f"{text}, and no optimizer step was measured")

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "keras-single-unit-softmax"
