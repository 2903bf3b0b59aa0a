"""The output for a text does not depend on its tokens, or on the first alone.

A causal mask in a classifier that reads its first position hides the rest of the text from it. So does a padding mask
that is inverted: the padding is read, and the tokens are not. The loss falls a little, to what the first token tells.
In a model with an output for each token, an inverted mask hides every token from all others.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(60, 16), nn.Embedding(10, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, ids):
            hidden = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            hidden = self.layer(hidden, src_mask=mask)
            return self.head(hidden[:, 0])

    classifier = Classifier()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(torch.randint(1, 60, (64, 10)), torch.randint(3, (64,))), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()  # <- unread-tokens
        optimizer.step()

A padding mask that is inverted:

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(60, 16, padding_idx=0)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, ids):
            return self.head(self.layer(self.tokens(ids), src_key_padding_mask=ids != 0))

    ids, tags = torch.randint(1, 60, (64, 10)), torch.randint(3, (64, 10))
    padding = torch.arange(10) >= torch.randint(4, 9, (64, 1))
    ids[padding], tags[padding] = 0, -100
    tagger = Tagger()
    adam = torch.optim.AdamW(tagger.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(ids, tags), batch_size=16):
        adam.zero_grad()
        F.cross_entropy(tagger(x).transpose(1, 2), y).backward()  # <- unread-tokens
        adam.step()

## Good

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

    classifier = Classifier()
    optimizer = torch.optim.AdamW(classifier.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(torch.randint(1, 60, (64, 10)), torch.randint(3, (64,))), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

A mask that is True at padding:

    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(60, 16, padding_idx=0)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 3)

        def forward(self, ids):
            return self.head(self.layer(self.tokens(ids), src_key_padding_mask=ids == 0))

    ids, tags = torch.randint(1, 60, (64, 10)), torch.randint(3, (64, 10))
    padding = torch.arange(10) >= torch.randint(4, 9, (64, 1))
    ids[padding], tags[padding] = 0, -100
    tagger = Tagger()
    adam = torch.optim.AdamW(tagger.parameters(), lr=1e-3)
    for x, y in DataLoader(TensorDataset(ids, tags), batch_size=16):
        adam.zero_grad()
        F.cross_entropy(tagger(x).transpose(1, 2), y).backward()
        adam.step()

## When it is fine

A gate or a scale that starts at zero keeps other tokens out until the first steps. The forward pass is repeated in
float64 with other numbers in all weights that start near zero, and only what both passes show is reported.

## Fix

None: a probe shows what is not read, not the line that hides it.

## References

PyTorch documentation, `torch.nn.TransformerEncoderLayer` (`src_key_padding_mask` is True for the positions to ignore).
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

NOTHING, SURE = 1e-9, 1e-3
"""Shares of the largest output: less than float64 shows of an effect, and a certain change."""


class UnreadTokens(EvidenceRule):
    level = Level.ERROR
    message = "the output does not depend on the tokens of a text, or on the first alone"
    help_text = "remove the causal mask, or invert the padding mask: True stands for the positions to ignore"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        tokens = evidence.responses.tokens if evidence.responses else None
        if tokens is None:
            return Verdict.inconclusive("no module of the script's own was called with single tokens changed")
        text = f"changing one of {tokens.tokens - 1} later tokens changes the output by {tokens.by_others:.2g}"
        text = f"{text} of its maximum, changing the first by {tokens.by_first:.2g}"
        reads_padding = (tokens.by_padding or 0.0) > SURE
        # Of outputs for each token, that of the changed one does not count: a model that reads them one by one has no
        # other that changes, but padding changes none either.
        is_hidden = tokens.reads_padding_alone
        if tokens.by_others > NOTHING or (tokens.by_first <= SURE and not is_hidden):
            return Verdict.refuted(text, change=tokens.by_others)
        if reads_padding:
            text = f"{text}, and changing {tokens.padding} tokens of padding by {tokens.by_padding:.2g}"
        elif is_hidden:
            text = f"{text}, and removing {tokens.padding} tokens of padding by {tokens.by_cut:.2g}"
        return Verdict.confirmed(text, change=tokens.by_others, first=tokens.by_first)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "wrong-attention-mask"
