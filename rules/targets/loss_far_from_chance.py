"""The initial loss of a new classification head is far from chance level.

An untrained head predicts at random, and its cross-entropy is ln(classes). A much larger initial loss means a wrong
scale: of the head's weights, of the features, or of a loss that is summed. A loss near zero means that the input
contains the label. No error is raised.

## Bad

    nn.init.normal_(model.classifier.weight, std=20.0)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- loss-far-from-chance

## Good

    nn.init.normal_(model.classifier.weight, std=0.02)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A head that was trained with its checkpoint starts below chance level. Class weights, label smoothing and custom losses
have other initial values, and the features of a frozen body have the scale that it gives them: such runs are not
checked. Neither is a sum of losses, which the script divides by a number of its own:

    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(TensorDataset(torch.randn(96, 4), torch.randint(3, (96,))), batch_size=32):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y, reduction="sum") / 2
        loss.backward()
        optimizer.step()

## Fix

None: a probe shows that the initial loss is far from chance level, not why.

## References

Karpathy: A Recipe for Training Neural Networks, "verify loss at init".
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

TOO_LARGE, TOO_SMALL, USUAL = 3.0, 0.2, 2.0
"""Bounds of the initial loss as multiples of the loss at chance level."""

MOSTLY_TRAINABLE = 0.5


class LossFarFromChance(EvidenceRule):
    level = Level.WARNING
    message = "the initial loss is far from chance level"
    help_text = "check the labels, the initial weights of the head and the scale of the features"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        forward = evidence.forward
        if forward is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if forward.chance is None or not forward.fresh_head or not forward.standard_loss:
            return Verdict.inconclusive("only a new classification head with the library's loss starts at chance level")
        model = evidence.model
        if model is not None and model.trainable_parameters < MOSTLY_TRAINABLE * model.parameters:
            return Verdict.inconclusive(
                f"the scale of the features is given: {model.trainable_parameters} weights train"
            )
        if not forward.losses:
            return Verdict.inconclusive("an optimizer step ran before the first loss was measured")
        if not forward.finite:
            return Verdict.inconclusive("the loss is not finite")
        loss = sum(forward.losses) / len(forward.losses)
        ratio = loss / forward.chance
        text = f"the initial loss is {loss:.3f}, chance level is {forward.chance:.3f}"
        if ratio > TOO_LARGE or ratio < TOO_SMALL:
            return Verdict.confirmed(f"{text} (a ratio of {ratio:.1f})", loss=loss, chance=forward.chance)
        if ratio <= USUAL:
            return Verdict.refuted(text, loss=loss, chance=forward.chance)
        return Verdict.inconclusive(text, loss=loss, chance=forward.chance)
