"""Attention reads the padding of a text.

Without a padding mask, every token attends to the padding too, and the output for a text depends on how much padding
it gets. A mask of 0 and 1 in floats does not help: it is added to the scores, and masks nothing.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(60, 16), nn.Embedding(10, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, ids):
            hidden = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            hidden = self.layer(hidden)
            return self.head(hidden[:, 0])

    lengths = torch.randint(4, 11, (64, 1))
    ids = torch.randint(1, 60, (64, 10)) * (torch.arange(10) < lengths)
    classifier = Classifier()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(ids, torch.randint(3, (64,))), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()  # <- attended-padding
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
            hidden = self.layer(hidden, src_key_padding_mask=ids == 0)
            return self.head(hidden[:, 0])

    lengths = torch.randint(4, 11, (64, 1))
    ids = torch.randint(1, 60, (64, 10)) * (torch.arange(10) < lengths)
    classifier = Classifier()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(ids, torch.randint(3, (64,))), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

## When it is fine

Convolutions and recurrent layers without attention read padding as well. Their outputs are measured and not reported.
Neither are models of libraries, and models that get an `attention_mask`, which `ignored-attention-mask` judges.

## Fix

None: where a mask belongs depends on the model.

## References

PyTorch documentation, `torch.nn.MultiheadAttention` (a float mask is added to the attention weights).
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

LARGE = 1e-2
"""A share of the largest output: a change with an effect."""
ROUNDING = 1e-6


class AttendedPadding(EvidenceRule):
    level = Level.WARNING
    message = "attention reads the padding of a text"
    help_text = "pass `src_key_padding_mask=ids == pad_id`, or set the scores of padding to -inf before the softmax"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        responses = evidence.responses
        tokens = responses.tokens if responses else None
        if responses is None or tokens is None or tokens.by_padding is None:
            return Verdict.inconclusive("no row with padding was seen in a module of the script's own")
        text = (
            f"changing {tokens.padding} tokens of padding changes the output by {tokens.by_padding:.2g} of its maximum"
        )
        if tokens.by_cut is None:
            return Verdict.inconclusive(f"{text}, and the row could not be called without padding")
        text = f"{text}, removing them by {tokens.by_cut:.2g}"
        if min(tokens.by_padding, tokens.by_cut) <= LARGE:
            return Verdict.refuted(text, change=min(tokens.by_padding, tokens.by_cut))
        # Other rules judge an `attention_mask` that is given, and a mask that hides the tokens.
        is_given = responses.mask is not None and responses.mask.given
        if not tokens.attends or is_given or tokens.by_others <= ROUNDING:
            return Verdict.inconclusive(text)
        if tokens.added_mask:
            text = f"{text}; a mask of 0 and 1 ({tokens.added_mask}) is added to the scores"
        return Verdict.confirmed(text, change=tokens.by_padding, padding=tokens.padding)
