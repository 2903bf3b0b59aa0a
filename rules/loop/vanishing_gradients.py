"""Gradients of trainable layers are practically zero.

A layer whose gradients are 1e-8 times the size of its weights does not learn: adaptive optimizers add an epsilon of
about that size, and plain optimizers change nothing. The loss does not fall, or only the last layers reduce it, and no
error is raised.

## Bad

    class MyTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss * 1e-12
            return (loss, outputs) if return_outputs else loss

    trainer = MyTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- vanishing-gradients

## Good

    class MyTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = outputs.loss * 0.5
            return (loss, outputs) if return_outputs else loss

    trainer = MyTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A branch that is initialized to zero has no gradients before it for one step (the A matrices of LoRA, ControlNet), and
experts to which no token is routed have none in a small batch. `unused-parameters` reports layers without any gradient.

## Fix

None: a different initialization, normalization and a different activation are all reasonable.

## References

Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks (2010).
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

TOO_SMALL = 1e-8
STARTS_AT_ZERO = ("lora", "expert", "adapter", "controlnet")


class VanishingGradients(EvidenceRule):
    level = Level.WARNING
    message = "gradients of trainable layers are practically zero"
    help_text = "check the path between these layers and the loss: a small factor, saturated activations, a mask"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None or not backward.finite:
            return Verdict.inconclusive("there are no finite gradients")
        layers = [
            layer
            for layer in backward.layers
            if layer.weight_norm > 0
            and len(layer.without_gradient) < layer.parameters
            and not any(word in f"{layer.layer} {layer.without_gradient}".lower() for word in STARTS_AT_ZERO)
        ]
        if not layers:
            return Verdict.inconclusive("no layer can be judged at the first step")
        ratios = {layer.layer: max(layer.norms) / layer.weight_norm for layer in layers}
        vanished = [name for name, ratio in ratios.items() if ratio < TOO_SMALL]
        smallest = min(ratios, key=lambda name: ratios[name])
        text = (
            f"gradients of `{smallest}` are {ratios[smallest]:.0e} times its weights on {len(backward.norms)} batches"
        )
        if vanished and _starts_at_zero(evidence, vanished):
            return Verdict.inconclusive(f"{text}, for the last layer starts at 0 and has moved after two steps")
        if vanished:
            return Verdict.confirmed(
                f"gradients vanish in {len(vanished)} of {len(layers)} layers: {text}", layers=list(vanished)
            )
        return Verdict.refuted(f"{text}, the smallest ratio of all layers", ratio=ratios[smallest])

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule in CAUSES


CAUSES = frozenset(
    {"detached-loss", "equal-rewards", "fully-masked-labels", "keras-single-unit-softmax", "short-ctc-inputs"}
)
EQUAL = 1e-6


def _starts_at_zero(evidence: Evidence, vanished: list[str]) -> bool:
    """Whether only the last layer has gradients, because it gave the same output for every row until its first step."""
    layers = evidence.backward.layers if evidence.backward is not None else ()
    spread = evidence.responses.spread if evidence.responses is not None else None
    if not layers or spread is None or spread.before is None or spread.after is None:
        return False
    is_alone = any(layers[-1].norms) and layers[-1].layer not in vanished
    is_alone &= not any(any(layer.norms) for layer in layers[:-1])
    return is_alone and spread.before <= EQUAL < spread.after
