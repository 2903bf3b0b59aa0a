"""Trainable parameters receive no gradient.

On a single device they keep their values, without an error: a branch that should learn does not. Under
DistributedDataParallel the run ends with "Expected to have finished reduction in the prior iteration".

## Bad

    model.projection = nn.Linear(8, 8)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- unused-parameters

## Good

    model.projection = nn.Linear(8, 8).requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The poolers of BERT-like models are part of their checkpoints and unused by many heads, as are the contact head of ESM,
the global attention of Longformer and the mask embedding of XLNet and Wav2Vec2. Experts that no token of a batch was
routed to and layers that were dropped at random are used in later batches. None of these is reported.

## Fix

None: `find_unused_parameters=True` would only hide why they are unused.

## References

pytorch#43259, pytorch#57473. `find_unused_parameters=True` hides the cause.
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

UNUSED_BY_HEADS = (
    "pooler",
    "contact_head",
    "query_global",
    "key_global",
    "value_global",
    "mask_emb",
    "masked_spec_embed",
)
HARMLESS = (*UNUSED_BY_HEADS, "answer_class", "expert", "layerdrop", "gate")
FEWEST_BATCHES = 2


class UnusedParameters(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None:
            return Verdict.inconclusive(evidence.not_reached("backward"))
        unused = [name for layer in backward.layers for name in layer.without_gradient]
        relevant = [name for name in unused if not any(word in name for word in HARMLESS)]
        total = sum(layer.parameters for layer in backward.layers)
        batches = len(backward.norms)
        if not relevant:
            harmless = f", except {len(unused)} that may be unused" if unused else ""
            return Verdict.refuted(f"all {total} tensors have a gradient{harmless}", batches=batches)
        if batches < FEWEST_BATCHES:
            return Verdict.inconclusive(f"{len(relevant)} of {total} tensors had no gradient on the only batch")
        text = f"{len(relevant)} of {total} tensors have no gradient on {batches} batches, the first is `{relevant[0]}`"
        return Verdict.confirmed(text, parameters=list(relevant[:20]), batches=batches)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "trainable parameters do not contribute to the loss",
            help="use them in `forward`, or remove them (or freeze them with `requires_grad_(False)`)",
        )
        yield from self.if_confirmed(finding, evidence)
