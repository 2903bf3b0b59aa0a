"""A perplexity raises 2 to a loss that is measured in natural logarithms.

The cross-entropy of PyTorch and Keras is in nats, so the perplexity is `exp(loss)`. `2 ** loss` is far smaller:
16 in place of 55 for a loss of 4. No error is raised, and the number looks better than that of any other paper.

## Bad

    with torch.no_grad():
        for x, y in loader:
            loss = criterion(net(x), y)
            perplexity = 2 ** loss.item()  # <- perplexity-base
            print(perplexity)

Other ways to raise it:

    import math

    total_loss = 0.0
    with torch.no_grad():
        for x, y in loader:
            total_loss += criterion(net(x), y).item()
    ppl = math.pow(2, total_loss / len(loader))  # <- perplexity-base
    test_ppl = np.exp2(total_loss / len(loader))  # <- perplexity-base
    valid_ppl = torch.pow(torch.tensor(2.0), total_loss)  # <- perplexity-base

## Good

    with torch.no_grad():
        for x, y in loader:
            loss = criterion(net(x), y)
            perplexity = loss.exp().item()
            print(perplexity)

Other ways to raise it:

    import math

    total_loss = 0.0
    with torch.no_grad():
        for x, y in loader:
            total_loss += criterion(net(x), y).item()
    ppl = math.exp(total_loss / len(loader))
    test_ppl = np.exp(total_loss / len(loader))
    valid_ppl = torch.exp(torch.tensor(total_loss))

## When it is fine

The loss was converted to bits:

    import math

    with torch.no_grad():
        for x, y in loader:
            loss = criterion(net(x), y).item() / math.log(2)
            perplexity = 2**loss
            print(perplexity)

Powers of 2 of anything else:

    for stage in range(3):
        width = 2**stage
        ppl_window = 2 ** (stage + 1)

## Fix

None: the loss may be converted to bits elsewhere.

## References

The fix in `eladhoffer/seq2seq.pytorch`, commit 015f0211d23c.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text, tensor_forms
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, one_per_location

CONVERTS = r"(?i)\blog2|log\(2|ln2|\bbpc\b|\bbpw\b|\bbits"
"""Code that converts a loss to bits."""


class PerplexityBase(Rule):
    level = Level.WARNING
    keywords = "perplexity|ppl|Perplexity|PPL"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(tensor_forms.powers_of_two_of_losses(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found = list(tensor_forms.powers_of_two_of_losses(pipeline.source))
        if not found or script_text.mentions(pipeline, CONVERTS):
            return
        yield from one_per_location(
            self.finding(
                location,
                "this raises 2 to a loss in nats, whose perplexity is a power of e",
                help="use `exp` in place of a power of 2",
            )
            for location in found
        )
