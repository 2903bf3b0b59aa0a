"""A language model sees the tokens that it has to predict.

Without a causal mask (or with a bidirectional layer), the target of each position is part of the input. The loss falls
far below what any language model reaches, but the model generates nonsense, because the next token is not available
then.

## Bad

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(50, 32)
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.output = nn.Linear(32, 50)

        def forward(self, ids):
            return self.output(self.layer(self.embedding(ids)))

    reader = Reader()
    optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
    for (ids,) in DataLoader(TensorDataset(torch.randint(50, (32, 12))), batch_size=8, shuffle=True):
        logits = reader(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # <- future-leak
        optimizer.step()

## Good

    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(50, 32)
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.output = nn.Linear(32, 50)

        def forward(self, ids):
            later = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
            return self.output(self.layer(self.embedding(ids), src_mask=later, is_causal=True))

    reader = Reader()
    optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
    for (ids,) in DataLoader(TensorDataset(torch.randint(50, (32, 12))), batch_size=8, shuffle=True):
        logits = reader(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

Encoders, masked language models and prefix models are bidirectional, and do not predict tokens that they see: only
positions whose target is the next token of the input are judged, and only the effect of that token. Models with an
encoder and a decoder, with a second text, or with several terms in their loss may be autoencoders, which see the whole
text on purpose; they are not judged.

## Fix

None: only the model's code shows where the mask is lost.

## References

Vaswani et al., "Attention Is All You Need", 2017, section 3.2.3.
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

SURE, NOTHING = 1e-4, 1e-5
"""Shares of the largest output: a change that is certain, and one that rounding may cause."""


class FutureLeak(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        responses = evidence.responses
        future = responses.future if responses else None
        if responses is None or future is None:
            return Verdict.inconclusive(
                evidence.not_reached("forward") if evidence.forward is None else "no targets were next tokens"
            )
        effect = f"changing the next token changes its prediction by {future.change:.2g} of the largest output"
        text = f"{effect}, at {future.positions} positions ({future.equal_to_next:.0%} of the targets are next tokens)"
        if future.change <= NOTHING:
            return Verdict.refuted(text, change=future.change)
        if future.change < SURE or future.change < 10 * responses.noise:
            return Verdict.inconclusive(f"{text}; repeated forward passes differ by {responses.noise:.2g}")
        if future.doubt:
            return Verdict.inconclusive(f"{text}; {future.doubt}", change=future.change)
        return Verdict.confirmed(text, change=future.change, positions=future.positions)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the language model sees the tokens that it has to predict",
            help="use a causal attention mask, and no bidirectional layers",
        )
        yield from self.if_confirmed(finding, evidence)
