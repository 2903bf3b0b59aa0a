"""Trainable parameters receive no gradient.

On a single device they keep their values, without an error: a branch that should learn does not. Under
DistributedDataParallel the run ends with "Expected to have finished reduction in the prior iteration".

## Bad

    model.projection = nn.Linear(8, 8)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- unused-parameters

A run on several processes ends in its second step:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.other = nn.Linear(8, 3), nn.Linear(8, 3)

        def forward(self, x):
            return self.used(x)

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(TwoHeads())
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(parallel(x), y).backward()  # <- unused-parameters
        optimizer.step()
    # raises RuntimeError: Expected to have finished reduction in the prior iteration

## Good

    model.projection = nn.Linear(8, 8).requires_grad_(False)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

Every part is used:

    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.other = nn.Linear(8, 3), nn.Linear(8, 3)

        def forward(self, x):
            return self.used(x) + self.other(x)

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    parallel = DistributedDataParallel(TwoHeads())
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(parallel(x), y).backward()
        optimizer.step()

## When it is fine

A class of a library has parts that it does not use itself: the pooler of BERT beside many heads, the last layers of a
vision tower in LLaVA, the segment embedding of XLNet without segments. Experts that no token of a batch was
routed to and layers that were dropped at random are used in later batches. None of these is reported.

## Fix

None: `find_unused_parameters=True` would only hide why they are unused.

## References

pytorch#43259, pytorch#57473. `find_unused_parameters=True` hides the cause.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

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
CAUSES = frozenset({"detached-loss", "detached-parameter"})
"""Rules that say why no gradient arrives."""
FEWEST_BATCHES = 2
UNFINISHED = "Expected to have finished reduction in the prior iteration"
"""What DistributedDataParallel says in the step after one in which it waited for gradients that never came."""


class UnusedParameters(EvidenceRule):
    level = Level.WARNING
    message = "trainable parameters do not contribute to the loss"
    help_text = "use them in `forward`, or remove them (or freeze them with `requires_grad_(False)`)"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        backward = evidence.backward
        if backward is None:
            return Verdict.inconclusive(evidence.not_reached("backward"))
        unused = [name for layer in backward.layers for name in layer.without_gradient]
        left_out = {name for layer in backward.layers for name in layer.left_out}
        relevant = [name for name in unused if name not in left_out and not any(word in name for word in HARMLESS)]
        total = sum(layer.parameters for layer in backward.layers)
        batches = len(backward.norms)
        if unused and evidence.failed_with(UNFINISHED):
            text = f"{len(unused)} of {total} tensors had no gradient, the first is `{unused[0]}`"
            return Verdict.confirmed(f"{text}; `{UNFINISHED}`", parameters=list(unused[:20]), batches=batches)
        if not relevant:
            harmless = f", except {len(unused)} that may be unused" if unused else ""
            return Verdict.refuted(f"all {total} tensors have a gradient{harmless}", batches=batches)
        if batches < FEWEST_BATCHES:
            return Verdict.inconclusive(f"{len(relevant)} of {total} tensors had no gradient on the only batch")
        text = f"{len(relevant)} of {total} tensors have no gradient on {batches} batches, the first is `{relevant[0]}`"
        if set(relevant) <= set(backward.waiting):
            return Verdict.inconclusive(f"{text}, and they have an optimizer of their own, whose turn may come later")
        return Verdict.confirmed(text, parameters=list(relevant[:20]), batches=batches)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule in CAUSES
