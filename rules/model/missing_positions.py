"""Attention without positions: the order of the tokens does not change the output.

Attention treats its input as a set. Without position embeddings, rotary positions or a bias by distance, *dog bites
man* and *man bites dog* have the same output, whatever the model learns.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(60, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, ids):
            hidden = self.tokens(ids)
            return self.head(self.layer(hidden).mean(dim=1))

    classifier = Classifier()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(torch.randint(1, 60, (64, 10)), torch.randint(3, (64,))), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()  # <- missing-positions
        optimizer.step()

## Good

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(60, 16), nn.Embedding(10, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, ids):
            hidden = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            return self.head(self.layer(hidden).mean(dim=1))

    classifier = Classifier()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(torch.randint(1, 60, (64, 10)), torch.randint(3, (64,))), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

## When it is fine

Bags of words have no attention. Inputs whose order means nothing are not reported: rows of sorted ids, columns with ids
of their own, and classes named after a set, a bag or a graph. A causal mask alone tells positions apart.

## Fix

None: there are several kinds of positions.

## References

Vaswani et al., "Attention Is All You Need", 2017, section 3.5.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

ROUNDING, SURE = 1e-9, 1e-2
"""Shares of the largest output: what rounding in float64 may cause, and a change with an effect."""


class MissingPositions(EvidenceRule):
    level = Level.WARNING
    message = "the order of the tokens does not change the output"
    help_text = "add position embeddings to the token embeddings, or positions to the attention scores"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        tokens = evidence.responses.tokens if evidence.responses else None
        if tokens is None or tokens.by_order is None:
            return Verdict.inconclusive("no module of the script's own was called with its tokens in another order")
        text = f"{tokens.tokens - 2} tokens in another order change the output by {tokens.by_order:.2g} of its maximum"
        if tokens.by_order > ROUNDING:
            return Verdict.refuted(text, change=tokens.by_order)
        text = f"{text}, another token in place of one by {tokens.by_others:.2g}"
        if not tokens.attends or tokens.is_set or tokens.by_others < SURE:
            return Verdict.inconclusive(text)
        return Verdict.confirmed(text, change=tokens.by_order)
