"""The loss, a gradient or the data contain NaN or infinity.

After one step with such a loss every weight is NaN. Trainer does not stop: by default it logs a loss of 0 and a
gradient norm of nan until the end of the run.

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

The gradient scaler of fp16 training skips a few initial steps with infinite gradients, and -inf in an attention mask
becomes zero in the softmax. Neither is reported: only the loss, full-precision gradients and the data are checked.

## Fix

None: a probe shows where the first value is not finite, not why.

## References

transformers#25065, transformers#27212.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import BackwardEvidence, ForwardEvidence


SMALLEST = 2.0**-25
"""Numbers up to this are 0 in float16."""


class NanLoss(EvidenceRule):
    level = Level.ERROR
    message = "the loss, a gradient or the data contain NaN or infinity"
    help_text = "find the first non-finite value: often a log or sqrt of 0, a division by 0, or the data"

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        # The logarithm of labels that are 0, and a sequence without a path.
        return cause.rule in {"swapped-loss-arguments", "short-ctc-inputs"}

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        source = _bad_data(evidence)
        forward, backward = evidence.forward, evidence.backward
        if forward is None:
            return Verdict.inconclusive(evidence.not_reached("forward"))
        if not forward.finite:
            bad = sum(not math.isfinite(loss) for loss in forward.losses)
            text = (
                f"{bad} of {len(forward.losses)} losses are not finite{_first_output(forward)}{_rows(forward)}{source}"
            )
            text = f"{text}{_origin(evidence)}"
            return Verdict.confirmed(text, module=forward.first_non_finite, input_was=forward.first_non_finite_input)
        # Of rows that were all read, `non-finite-data` tells which ones, and whether their values are filled in.
        if source and not all(split.sweep is not None for split in evidence.splits):
            return Verdict.confirmed(f"the loss is finite on {len(forward.losses)} batches{source}")
        half = evidence.arguments.get("fp16")
        is_scaled = evidence.loop is not None and evidence.loop.scaled > 0
        if backward is not None and not backward.finite:
            bad = sum(not math.isfinite(norm) for norm in backward.norms)
            text = f"{bad} of {len(backward.norms)} gradient norms are not finite{_first_gradient(backward)}"
            if (half or is_scaled) and not (evidence.step is not None and evidence.step.non_finite):
                return Verdict.inconclusive(f"{text}; a gradient scaler skips such steps, and lowers its scale")
            return Verdict.confirmed(f"{text}{_by_step(evidence)}")
        if half and evidence.device == "cpu":
            return Verdict.inconclusive("the script uses fp16, which a CPU computes differently")
        return Verdict.refuted(f"loss and gradients are finite on {len(forward.losses)} batches")


def _first_output(forward: ForwardEvidence) -> str:
    """The first module with a non-finite output."""
    first = forward.first_non_finite
    if first is None:
        return ""
    if not first:
        return (
            f"; the model's outputs are finite{_span(forward.first_non_finite_range)}, so the loss function causes it"
        )
    span = _span(forward.first_non_finite_range, " apart from that" if forward.first_non_finite_input else "")
    was = "not finite either" if forward.first_non_finite_input else "finite"
    return f"; first in the output of `{first}`, whose input is {was}{span}"


def _by_step(evidence: Evidence) -> str:
    """The step that turned weights into NaN, if the gradients before it were finite."""
    step, backward = evidence.step, evidence.backward
    if step is None or backward is None or not step.non_finite or not math.isfinite(backward.norms[0]):
        return ""
    lost = f"; the first gradients are finite, and steps make {step.non_finite} of {step.trainable_tensors} tensors NaN"
    vanishing = [group.epsilon for group in step.groups if group.epsilon is not None and "float16" in group.formats]
    if vanishing and min(vanishing) <= SMALLEST:
        return f"{lost}: the `eps` of {min(vanishing):g} is 0 in float16"
    return lost


def _rows(forward: ForwardEvidence) -> str:
    """The rows that cause it, and what their labels have in common."""
    found = forward.non_finite_rows
    if found is None:
        return ""
    if found.all_ignored:
        return f"; all {found.all} targets are ignored, and the mean over none of them is 0/0"
    if found.count == found.all:
        return f"; all {found.all} rows of the batch are affected"
    rows = ", ".join(map(str, found.rows)) + (", …" if found.count > len(found.rows) else "")
    labels = " and ".join(map(str, found.labels)) if found.are_theirs else ""
    only = f", all with label {labels} and no other row" if labels else ""
    return f"; caused by {found.count} of {found.all} rows ({rows}){only}"


def _origin(evidence: Evidence) -> str:
    """The operation that makes the first NaN or infinity, and its line."""
    origin = evidence.origin
    if origin is None or origin.location is None:
        return ""
    line = f"{origin.location.path}:{origin.location.line}"
    before = f", from an infinity of line {origin.before.line}" if origin.before else ""
    cause = f" ({origin.cause}{before})" if origin.cause else ""
    return f"; first made at {line} by `{origin.code or origin.operation}`{cause}"


def _first_gradient(backward: BackwardEvidence) -> str:
    """The first operation with a non-finite gradient."""
    origin = backward.non_finite
    if origin is None:
        return ""
    line = f", called at {origin.forward}" if origin.forward else ""
    behind = f" on the way to `{origin.behind}`" if origin.behind else ""
    return f"; first in the gradient of `{origin.operation}`{behind}, for inputs{_span(origin.range)}{line}"


def _span(edges: tuple[float, float] | None, among: str = "") -> str:
    """The range of the finite values."""
    return f" ({edges[0]:.3g} to {edges[1]:.3g}{among})" if edges else ""


def _bad_data(evidence: Evidence) -> str:
    """The first column or batch tensor with non-finite values; empty if there is none."""
    for split in evidence.splits:
        for column in split.columns:
            if column.non_finite:
                return f"; {column.non_finite} values of column `{column.name}` ({split.argument}) are not finite"
    for batch in evidence.batches:
        for tensor in batch.tensors:
            if tensor.non_finite:
                return f"; {tensor.non_finite} entries of `{tensor.name}` in the batch are not finite"
    return ""
