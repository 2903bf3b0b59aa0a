"""Outputs with a cache differ from those without it.

A token that is given alone, with the keys and values of those before, must get the output that it has in the whole
text. Often its position starts at 0 again. Training does not use the cache and goes well; generated text is poor.

## Bad

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(60, 16), nn.Embedding(10, 16)
            self.query, self.both, self.head = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(16, 60)

        def forward(self, ids, past=None):
            hidden = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            query, both = self.query(hidden), self.both(hidden)
            both = both if past is None else torch.cat([past, both], dim=1)
            key, value = both.chunk(2, dim=-1)
            seen = torch.ones(key.shape[1], key.shape[1], dtype=torch.bool).tril()[-ids.shape[1] :]
            return self.head(hidden + F.scaled_dot_product_attention(query, key, value, attn_mask=seen)), both

    decoder = Decoder()
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-3)
    for (x,) in DataLoader(TensorDataset(torch.randint(1, 60, (64, 10))), batch_size=16):
        logits, _ = decoder(x)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # <- cache-mismatch
        optimizer.step()

## Good

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(60, 16), nn.Embedding(10, 16)
            self.query, self.both, self.head = nn.Linear(16, 16), nn.Linear(16, 32), nn.Linear(16, 60)

        def forward(self, ids, past=None):
            start = 0 if past is None else past.shape[1]
            hidden = self.tokens(ids) + self.positions(start + torch.arange(ids.shape[1]))
            query, both = self.query(hidden), self.both(hidden)
            both = both if past is None else torch.cat([past, both], dim=1)
            key, value = both.chunk(2, dim=-1)
            seen = torch.ones(key.shape[1], key.shape[1], dtype=torch.bool).tril()[-ids.shape[1] :]
            return self.head(hidden + F.scaled_dot_product_attention(query, key, value, attn_mask=seen)), both

    decoder = Decoder()
    optimizer = torch.optim.AdamW(decoder.parameters(), lr=1e-3)
    for (x,) in DataLoader(TensorDataset(torch.randint(1, 60, (64, 10))), batch_size=16):
        logits, _ = decoder(x)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

A model whose `forward` takes positions as an argument is not judged: its caller counts them.

## Fix

None: what the model forgets about the cache is not measured.

## References

Hugging Face documentation, "Caching" (`cache_position`).
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

ROUNDING, SURE = 1e-4, 1e-2
"""Shares of the largest output: what rounding may cause, and a certain change."""


class CacheMismatch(EvidenceRule):
    level = Level.ERROR
    message = "outputs with a cache differ from those without it"
    help_text = "count the positions of new tokens from the length of the cache, and let them attend to all of it"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        cache = evidence.responses.cache if evidence.responses else None
        if cache is None:
            return Verdict.inconclusive("no module of the script's own returned a cache that it takes")
        text = f"{cache.tokens} tokens given one by one with `{cache.argument}` change the output by {cache.change:.2g}"
        text = f"{text} of its maximum"
        if cache.change <= ROUNDING:
            return Verdict.refuted(text, change=cache.change)
        return Verdict.confirmed(text, change=cache.change) if cache.change > SURE else Verdict.inconclusive(text)
