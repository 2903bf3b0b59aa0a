"""The first loss of a new classification head is far from that of guessing.

A head that has learned nothing guesses, and cross-entropy then is ln(classes). A first loss several times as large
means that the scale is wrong (the head's weights, the features, a loss that is summed), one near zero that the answer
is in the input. It is a symptom: no error follows, the run starts from a bad place or measures nothing.

## Bad

    nn.init.normal_(model.classifier.weight, std=20.0)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- loss-far-from-chance

## Good

    nn.init.normal_(model.classifier.weight, std=0.02)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A head that comes trained from its checkpoint starts below chance. Class weights, label smoothing and losses of one's
own have other starting points: such runs are not judged.

## Fix

None: a probe shows that the first loss is not that of guessing, not why.

## References

Karpathy: A Recipe for Training Neural Networks, "verify loss at init".
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

TOO_LARGE, TOO_SMALL = 3.0, 0.2
USUAL = 2.0


class LossFarFromChance(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        forward = evidence.forward
        if forward is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if forward.chance is None or not forward.fresh_head or not forward.standard_loss:
            return Verdict.inconclusive("only a new classification head under the library's own loss starts at chance")
        if not forward.losses:
            return Verdict.inconclusive("the weights had stepped before the first loss was seen")
        if not forward.finite:
            return Verdict.inconclusive("the loss is not finite")
        loss = sum(forward.losses) / len(forward.losses)
        ratio = loss / forward.chance
        text = f"the first loss is {loss:.3f}, guessing gives {forward.chance:.3f}"
        if ratio > TOO_LARGE or ratio < TOO_SMALL:
            return Verdict.confirmed(f"{text} ({ratio:.1f} times as much)", loss=loss, chance=forward.chance)
        if ratio <= USUAL:
            return Verdict.refuted(text, loss=loss, chance=forward.chance)
        return Verdict.inconclusive(text, loss=loss, chance=forward.chance)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the first loss is far from that of guessing",
            help="look at labels, the head's first weights and the scale of the features before training on",
        )
        yield from self.if_confirmed(finding, evidence)
