"""Attention gets a mask that hides the wrong tokens, or none.

In `nn.MultiheadAttention` and `nn.Transformer`, a mask of booleans is True for what must *not* be attended. With
`ids != 0`, `attention_mask.bool()` or a lower triangle, the model reads the padding and the future, and nothing else.
No error is raised.

Numbers are added to the scores: 0 and 1 hide nothing. A decoder without `tgt_mask` sees the tokens that it has to
predict. In attention of the script's own, what is filled with minus infinity is hidden, and scores that are not divided
by the root of the width of a head are so large that the softmax picks one token. A softmax over the queries gives each
token weights that do not add up to 1, and that depend on later tokens.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 32, padding_idx=0)
            self.encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.head = nn.Linear(32, 3)

        def forward(self, ids):
            states = self.encoder(self.words(ids), src_key_padding_mask=(ids != 0))  # <- wrong-attention-mask
            return self.head(states[:, 0])

    network = Classifier()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    texts = torch.randint(1, 50, (32, 12))
    texts[torch.arange(12) >= torch.randint(4, 11, (32, 1))] = 0
    for ids, labels in DataLoader(TensorDataset(texts, torch.randint(3, (32,))), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(network(ids), labels).backward()
        optimizer.step()

## Good

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 32, padding_idx=0)
            self.encoder = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
            self.head = nn.Linear(32, 3)

        def forward(self, ids):
            states = self.encoder(self.words(ids), src_key_padding_mask=(ids == 0))
            return self.head(states[:, 0])

    network = Classifier()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    texts = torch.randint(1, 50, (32, 12))
    texts[torch.arange(12) >= torch.randint(4, 11, (32, 1))] = 0
    for ids, labels in DataLoader(TensorDataset(texts, torch.randint(3, (32,))), batch_size=8):
        optimizer.zero_grad()
        F.cross_entropy(network(ids), labels).backward()
        optimizer.step()

## When it is fine

`scaled_dot_product_attention` has it the other way round, and negative infinity hides what it is added to:

    length = 5
    query = torch.randn(2, 4, length, 8)
    earlier = torch.tril(torch.ones(length, length)).bool()
    states = F.scaled_dot_product_attention(query, query, query, attn_mask=earlier)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    later = torch.zeros(length, length).masked_fill(~earlier, float("-inf"))
    states, _ = attention(query[0], query[0], query[0], attn_mask=later)

Queries of a decoder that are no tokens may see each other:

    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.queries = nn.Embedding(10, 32)
            self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(32, 4, batch_first=True), 2)

        def forward(self, features):
            return self.decoder(self.queries.weight.expand(len(features), -1, -1), features)

    boxes = Detector()(torch.randn(2, 6, 32))

## Fix

None: the mask may be meant for another layer as well.

## References

PyTorch documentation, `torch.nn.MultiheadAttention`, `torch.nn.Transformer`,
`torch.nn.functional.scaled_dot_product_attention`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import attention_axes, attention_masks, own_attention, seen_tokens
from lintrain.analysis.attention_masks import Holds
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict, lazy_pattern

ATTENDS = lazy_pattern(r"Transformer|MultiheadAttention|scaled_dot_product_attention")
"""What code names that makes a layer of attention, or calls the function."""

HIDES = {
    Holds.TOKENS: "hides the tokens, and leaves the padding",
    Holds.PADDING: "hides the tokens, and leaves the padding",
    Holds.EARLIER: "hides earlier tokens, and leaves later ones",
    Holds.LATER: "hides earlier tokens, and leaves later ones",
    Holds.FROM_OWN: "hides each token from itself, and everything from the first",
    Holds.BEFORE_OWN: "hides each token from itself, and everything from the first",
}
"""What becomes of a mask in a layer that takes it the other way round, by what it is True for."""

READS_PADDING = (
    "Each token gets nothing from the other words of its text, only from the padding. The loss falls less than it "
    "could, and no error is raised."
)
READS_LATER = (
    "Each token reads those after it, among them the one that it has to predict, so a low loss says nothing about "
    "generation. The loss may be nan, as the last token has nothing to read. No error is raised."
)
READS_NOTHING = (
    "The first token has nothing to read: a softmax of minus infinity alone is nan, which spreads to the loss. No "
    "error is raised."
)
SEES_TARGET = (
    "The model learns to copy the next token from its input, and the loss falls to nearly 0. When it generates, that "
    "token is not there, so the text is poor. No error is raised."
)
WHY = {
    Holds.TOKENS: READS_PADDING,
    Holds.PADDING: READS_PADDING,
    Holds.EARLIER: READS_LATER,
    Holds.LATER: READS_LATER,
    Holds.FROM_OWN: READS_NOTHING,
    Holds.BEFORE_OWN: READS_NOTHING,
}
"""What that does to the training."""


class WrongAttentionMask(Rule):
    level = Level.ERROR
    keywords = "mask|Transformer|softmax|masked_fill"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        if any(attention_masks.masked_after_softmax(source)) or any(own_attention.wrong_fills(source)):
            return True
        if any(own_attention.unscaled(source)) or any(own_attention.unmasked(source)):
            return True
        if any(attention_axes.softmaxes_over_others(source)):
            return True
        return source.contains(ATTENDS) and (
            any(attention_masks.wrong_masks(source))
            or any(seen_tokens.unmasked_encoders(source))
            or any(seen_tokens.unmasked_decoders(source))
        )

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for given in attention_masks.wrong_masks(pipeline.source):
            if given.mask.is_bool:
                hides_own = given.mask.holds in {Holds.FROM_OWN, Holds.BEFORE_OWN}
                remedy = "keep the diagonal: `diagonal=1`" if hides_own else "invert it: `~mask`"
                text = HIDES[given.mask.holds]
                why = WHY[given.mask.holds]
            else:
                text = "adds 0 and 1 to the scores, which hides nothing"
                remedy = "make it of booleans, True for what is hidden"
                why = (
                    "The scores change by 1 at most, so each token still reads those after it. A low loss then says "
                    "little about generation, and no error is raised."
                )
            yield self.finding(given.location, f"`{given.argument}` {text}", why=why, help=remedy)
        for location in attention_masks.masked_after_softmax(pipeline.source):
            yield self.finding(
                location,
                "this hides weights after the softmax, in which the hidden scores still count",
                why="The other weights add up to less than 1, and change with the tokens that are hidden. No error is "
                "raised.",
                help='fill the scores with `float("-inf")` before the softmax',
            )
        yield from self._of_own(pipeline.source)
        for encoder in seen_tokens.unmasked_encoders(pipeline.source):
            yield self.finding(
                encoder.location,
                f"`{encoder.layer}` gets no mask, so each token sees the next one, its target",
                why=SEES_TARGET,
                help="pass `mask=nn.Transformer.generate_square_subsequent_mask(length), is_causal=True`",
            )
        for decoder in seen_tokens.unmasked_decoders(pipeline.source):
            yield self.finding(
                decoder.location,
                f"`{decoder.layer}` gets no `tgt_mask`, so each token sees those after it",
                why=SEES_TARGET,
                help="pass `tgt_mask=nn.Transformer.generate_square_subsequent_mask(length)`",
            )

    def _of_own(self, source: Source) -> Iterator[Finding]:
        """The mistakes of attention that the script computes itself."""
        for filled in own_attention.wrong_fills(source):
            yield self.finding(
                filled.location,
                f"this {HIDES[filled.mask.holds]}",
                why=WHY[filled.mask.holds],
                help="begin after the diagonal: `torch.triu(…, diagonal=1)`"
                if filled.mask.holds is Holds.FROM_OWN
                else "fill the scores where the mask is 0: `mask == 0`",
            )
        for scores in own_attention.unscaled(source):
            yield self.finding(
                scores.location,
                "these scores are not divided by the root of the width of a head",
                why="The scores of wide heads are so large that the softmax picks one token and has a gradient of "
                "nearly 0. Training is slow or unstable, and no error is raised.",
                help="divide them by `math.sqrt(width)` before the softmax",
                level=Level.WARNING,
            )
        for scores in own_attention.unmasked(source):
            yield self.finding(
                scores.location,
                "no mask hides later tokens, so each token sees the next one, its target",
                why=SEES_TARGET,
                help='fill the scores of later tokens with `float("-inf")` before the softmax',
            )
        for wrong in attention_axes.softmaxes_over_others(source):
            yield self.finding(
                wrong.location,
                "these weights add up to 1 over another axis than that of the keys",
                why="The weights of each query add up to more or less than 1, so its output is no average of the "
                "values. The model learns worse than it could, and no error is raised.",
                related=[Related(wrong.shown, "the keys are on the last axis", "scores")],
                help="use `dim=-1`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        tokens = evidence.responses.tokens if evidence.responses else None
        if tokens is None or tokens.by_padding is None or HIDES[Holds.PADDING] not in finding.message:
            return Verdict.inconclusive("no module of the script's own was called with changed padding")
        text = f"changing one of {tokens.tokens - 1} later tokens changes the output by {tokens.by_others:.2g} of its"
        text = f"{text} maximum, other tokens in place of {tokens.padding} tokens of padding by {tokens.by_padding:.2g}"
        if tokens.by_cut is not None:
            text = f"{text}, removing these by {tokens.by_cut:.2g}"
        if tokens.reads_padding_alone:
            return Verdict.confirmed(text, change=tokens.by_others)
        # Padding whose mask comes from the ids is no padding any more once it has other ids: only what removing it
        # does shows that it is hidden.
        if tokens.reads_text_alone:
            return Verdict.refuted(text, change=tokens.by_others)
        return Verdict.inconclusive(text)
