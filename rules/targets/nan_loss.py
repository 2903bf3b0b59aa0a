"""The loss, a gradient or the data hold NaN or infinity.

After one step with such a loss every weight is NaN. Trainer's log hides it: it shows a loss of 0 and a gradient norm
of nan, and the run goes on to its end.

## Bad

    class LogTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            below_maximum = outputs.logits - outputs.logits.max()
            loss = F.nll_loss(torch.log(below_maximum), inputs["labels"])
            return (loss, outputs) if return_outputs else loss

    trainer = LogTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- nan-loss

## Good

    class LogTrainer(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = F.nll_loss(F.log_softmax(outputs.logits, dim=-1), inputs["labels"])
            return (loss, outputs) if return_outputs else loss

    trainer = LogTrainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The gradient scaler of fp16 training skips a few first steps with infinite gradients; -inf in an attention mask
becomes zero in the softmax. Neither is reported: only the loss itself, gradients of full precision, and the data are
looked at.

## Fix

None: a probe shows where the first value is not finite, not why.

## References

transformers#25065, transformers#27212.
"""

import math
from collections.abc import Iterator

from lintrain.evidence.run import BackwardEvidence, ForwardEvidence
from lintrain.rule import Evidence, Finding, Level, Rule, Verdict


class NanLoss(Rule):
    level = Level.ERROR

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        source = _bad_data(evidence)
        forward, backward = evidence.forward, evidence.backward
        if forward is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if not forward.finite:
            bad = sum(not math.isfinite(loss) for loss in forward.losses)
            text = f"{bad} of {len(forward.losses)} losses are not finite{_non_finite(forward)}{source}"
            return Verdict.confirmed(text, module=forward.first_non_finite, input_was=forward.first_non_finite_input)
        if source:
            return Verdict.confirmed(f"the loss is finite on {len(forward.losses)} batches{source}")
        half = evidence.arguments.get("fp16")
        if backward is not None and not backward.finite and not half:
            bad = sum(not math.isfinite(norm) for norm in backward.norms)
            return Verdict.confirmed(
                f"{bad} of {len(backward.norms)} gradient norms are not finite{_birth_of_gradient(backward)}"
            )
        if half and evidence.device == "cpu":
            return Verdict.inconclusive("fp16 was asked for, and the CPU computes otherwise than a GPU")
        return Verdict.refuted(f"loss and gradients are finite on {len(forward.losses)} batches")

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the loss or what it is made of is not finite",
            help="find the first operation that leaves the numbers: log or sqrt of what may be 0, a division, the data",
        )
        yield from self.if_confirmed(finding, evidence)


def _non_finite(forward: ForwardEvidence) -> str:
    """Where the forward pass stopped being finite."""
    first = forward.first_non_finite
    if first is None:
        return ""
    if not first:
        return f"; the model's own output is{_span(forward.first_non_finite_range)}, so the loss makes it"
    was = "not finite either" if forward.first_non_finite_input else "finite"
    return f"; first in the output of `{first}`, whose input is {was}{_span(forward.first_non_finite_range)}"


def _birth_of_gradient(backward: BackwardEvidence) -> str:
    origin = backward.non_finite
    if origin is None:
        return ""
    behind = f" on the way to `{origin.behind}`" if origin.behind else ""
    return f"; first in the gradient of `{origin.operation}`{behind}, which was computed on values{_span(origin.range)}"


def _span(edges: tuple[float, float] | None) -> str:
    return f" from {edges[0]:.3g} to {edges[1]:.3g}" if edges else ""


def _bad_data(evidence: Evidence) -> str:
    for split in evidence.splits:
        for column in split.columns:
            if column.non_finite:
                return f"; {column.non_finite} values of column `{column.name}` ({split.argument}) are not finite"
    for batch in evidence.batches:
        for tensor in batch.tensors:
            if tensor.non_finite:
                return f"; {tensor.non_finite} entries of `{tensor.name}` in the batch are not finite"
    return ""
