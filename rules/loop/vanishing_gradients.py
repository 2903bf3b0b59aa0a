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

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

TOO_SMALL = 1e-8
STARTS_AT_ZERO = ("lora", "expert", "adapter", "controlnet")


class VanishingGradients(Rule):
    level = Level.WARNING

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
        if vanished:
            return Verdict.confirmed(
                f"gradients vanish in {len(vanished)} of {len(layers)} layers: {text}", layers=list(vanished)
            )
        return Verdict.refuted(f"{text}, the smallest ratio of all layers", ratio=ratios[smallest])

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "keras-single-unit-softmax"

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "gradients of trainable layers are practically zero",
            help="check the path between these layers and the loss: a small factor, saturated activations, a mask",
        )
        yield from self.if_confirmed(finding, evidence)
