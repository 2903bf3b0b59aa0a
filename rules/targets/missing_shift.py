"""The loss compares the logits of each position with the token at the same position.

A causal language model predicts the next token at each position, so a custom loss must compare the logits without the
last position with the tokens without the first. Without this shift the model learns to copy its input: the loss falls
to almost zero, even on random tokens.

A metric of such a model gets the logits and the labels as the loss does before it shifts them: a comparison position by
position counts how often the model repeats its input.

## Bad

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    logits = lm(ids).logits
    loss = F.cross_entropy(logits.view(-1, lm.config.vocab_size), ids.view(-1))  # <- missing-shift
    loss.backward()
    optimizer.step()

## Good

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    logits = lm(ids).logits
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, lm.config.vocab_size), ids[:, 1:].reshape(-1))
    loss.backward()
    optimizer.step()

## When it is fine

A dataset or collator may have shifted the labels already:

    from my_data import next_token_batches

    for batch in next_token_batches(lm_tokenizer):
        logits = lm(batch["input_ids"]).logits
        F.cross_entropy(logits.view(-1, lm.config.vocab_size), batch["labels"].view(-1)).backward()

Labels shifted by hand:

    ids = lm_tokenizer(["one two three four five six"], return_tensors="pt")["input_ids"]
    labels = ids.clone()
    labels[:, :-1] = ids[:, 1:]
    labels[:, -1] = -100
    F.cross_entropy(lm(ids).logits.flatten(0, 1), labels.flatten()).backward()

A masked language model predicts the token at its own position:

    masked = AutoModelForMaskedLM.from_pretrained("distilbert-base-uncased")
    ids = tokenizer(["one two three"], return_tensors="pt")["input_ids"]
    F.cross_entropy(masked(ids).logits.flatten(0, 1), ids.flatten()).backward()

## Fix

Safe: without the shift each token predicts itself.

## References

Transformers, `ForCausalLMLoss` in `loss/loss_utils.py`, which shifts the labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import loop_verdicts, shifted_metrics, token_scores, unshifted_windows
from lintrain.pipeline import shifts
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Model, Role, Tensor
from lintrain.pipeline.values.training import LossCall, ModelCall
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    fixes,
    lazy_pattern,
    one_per_location,
)

if TYPE_CHECKING:
    from lintrain.evidence.run import ScoredTokens

FLAT = lazy_pattern(r"(?P<tensor>[\w.\[\]\"']+)\.(?:view|reshape)\((?P<sizes>-1(?:, ?[^,]+)?)\)")


WRONG_WAY = (
    "The labels are moved the wrong way, so the model learns to repeat the token before each position, and not to"
    " predict the next one. No error is raised."
)
"""What labels do that are moved to the other side."""

SAME = 1e-6
"""Outputs that differ by less, as a share of the largest, are the same but for rounding."""


class MissingShift(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyLoss|compute_metrics|gather"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for loss in loop_verdicts.losses_called(pipeline, "cross_entropy"):
            for call in pipeline.model_calls:
                if shifts.shifts_labels(call.model) and _compares_with_its_inputs(loss, call):
                    found.setdefault(loss.location, self._report(loss, call))
        yield from found.values()
        yield from map(self._report_windows, unshifted_windows.unshifted_windows(pipeline.source))
        scores = list(token_scores.unshifted_scores(pipeline.source))
        causal = {each.location for each in pipeline.model_calls if scores and shifts.shifts_labels(each.model)}
        yield from one_per_location(self._report_scores(each) for each in scores if each.forward in causal)
        compared = [
            each for each in _compared_with_labels(pipeline) if not shifted_metrics.may_shift(pipeline, each[0])
        ]
        yield from one_per_location(map(self._of_metric, compared))

    def _report_windows(self, found: unshifted_windows.Unshifted) -> Finding:
        return self.finding(
            found.location,
            f"`{found.name}` is the same window as the inputs, not shifted by one",
            related=[Related(found.inputs, "the inputs", "inputs")],
            why="Inputs and targets have the same token at each position, so the model learns to copy its input. The"
            " loss falls to almost zero, even on random tokens, and no error is raised.",
            help="start it one token later: `data[i + 1 : i + 1 + size]`",
        )

    def _report_scores(self, found: token_scores.UnshiftedScores) -> Finding:
        return self.finding(
            found.location,
            "each position gets the log-probability of the token at the same position",
            related=[Related(found.forward, "predicts the token after each of these", "forward")],
            why="The logits of a position predict the token after it, so these are not the log-probabilities of the"
            " text. A loss of them teaches the model to repeat its input. No error is raised.",
            help="take `logits[:, :-1]` and the tokens `[:, 1:]`",
        )

    def _of_metric(self, compared: tuple[Location, Model]) -> Finding:
        """A metric that compares what a causal model chose at each position with the token of that position."""
        location, model = compared
        return self.finding(
            location,
            "predictions of each position are compared with the token at the same position",
            related=[Related(model.origin, "predicts the token after each position", "model")] if model.origin else [],
            why="The logits of a position predict the token after it, so the metric counts how often the model repeats"
            " its input. The loss is not affected, and no error is raised.",
            help="compare `predictions[:, :-1]` with `labels[:, 1:]`",
            subject="compute_metrics",
        )

    def _report(self, loss: LossCall, call: ModelCall) -> Finding:
        return self.finding(
            loss.location,
            "logits of each position are compared with the token at the same position",
            related=[
                Related(call.location, f"`{call.model.name}` predicts the token after each of these", "forward"),
                *_shifted(loss.prediction, "[:, :-1]"),
                *_shifted(loss.target, "[:, 1:]"),
            ],
            help="compare `logits[:, :-1]` with `labels[:, 1:]`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        loss = next((loss for loss in evidence.loop.losses if loss.alignment), None) if evidence.loop else None
        ahead = evidence.responses.ahead if evidence.responses else None
        # A model that reads all of a text may be meant to repeat it: an autoencoder, or one that restores damaged text.
        # One that reads no later token has nothing to learn from that.
        is_causal = (evidence.model is not None and evidence.model.task == "CausalLM") or (
            ahead is not None and ahead < SAME
        )
        if loss and loss.location and loss.alignment and is_causal:
            is_before = loss.alignment.offset == -1
            which = "before it" if is_before else "at the same position"
            yield self.finding(
                loss.location,
                f"logits of each position are compared with the token {which}",
                why=WRONG_WAY if is_before else "",
                help="compare `logits[:, :-1]` with `labels[:, 1:]`",
            )

        batch = evidence.batch()
        targets = batch.targets if batch is not None else None
        if evidence.loop is None and _are_previous(targets) and evidence.model and evidence.model.task == "CausalLM":
            yield self.finding(
                evidence.location,
                "labels are shifted the wrong way: each position is to predict its own token",
                why="The model moves its labels by one itself. With these labels each position learns to repeat its own"
                " token: the loss falls to almost zero, and no error is raised.",
                help="use the same tokens for `labels` and `input_ids`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop, batch = evidence.loop, evidence.batch()
        if loop is None and batch is not None and batch.targets is not None and _are_previous(batch.targets):
            text = f"{batch.targets.equal_to_previous} of {batch.targets.scored} labels equal the previous input token"
            return Verdict.confirmed(text, equal_to_previous=batch.targets.equal_to_previous)
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        targets = loop.alignment
        if targets is None or targets.offset is None:
            return Verdict.inconclusive(
                targets.described if targets else f"none of {len(loop.losses)} losses has one target per token"
            )
        verdict = Verdict.refuted if targets.offset > 0 else Verdict.confirmed
        return verdict(targets.described, offset=targets.offset)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("all positions")]
        return fixes.Fix.of("compare with the next token", *edits, safe=True) if len(edits) == 2 else None


MOST = 0.95


def _are_previous(targets: ScoredTokens | None) -> bool:
    """Whether labels are the tokens before those of their places, and not also those: all could be one token."""
    if targets is None or targets.equal_to_previous is None or targets.equal_to_inputs is None or not targets.with_next:
        return False
    return targets.equal_to_previous > MOST * targets.with_next > 2 * targets.equal_to_inputs


def _compares_with_its_inputs(loss: LossCall, call: ModelCall) -> bool:
    """Whether all logits of a call are compared with all of its input tokens."""
    tensors = loop_verdicts.tensors_given(loss)
    whole = [each for each in tensors if each.made and each.made.name == "logits" and not each.is_sliced]
    tokens = shifts.tokens_of(call)
    if not whole or len(whole) != len(tensors) or any(each.model is not call.model for each in whole):
        return False
    return tokens is not None and loss.target is not None and shifts.are_same_tokens(tokens.value, loss.target.value)


def _shifted(argument: Argument | None, part: str) -> list[Related]:
    """The location of a flattened tensor, with the code that slices it first and so needs `reshape`, not `view`."""
    match = FLAT.fullmatch(argument.text) if argument else None
    if argument is None or match is None:
        return []
    code = f"{match['tensor']}{part}.reshape({match['sizes']})"
    return [Related(argument.location, "contains all positions", "all positions", code)]


def _compared_with_labels(pipeline: Pipeline) -> Iterator[tuple[Location, Model]]:
    """Where metrics get the chosen tokens and the labels of a model that shifts its labels, and that model."""
    for call in pipeline.metric_calls:
        chosen, labels = (each.value if each else None for each in (call.predictions, call.references))
        if isinstance(chosen, Tensor) and isinstance(labels, Tensor) and chosen.model is labels.model:
            is_plain = chosen.role is Role.CLASSES and labels.role is Role.LABELS
            if is_plain and isinstance(chosen.model, Model) and shifts.shifts_labels(chosen.model):
                yield call.location, chosen.model
    for misuse in pipeline.misuses:
        model = misuse.value.model if isinstance(misuse.value, Tensor) else None
        if misuse.use == "classes compared" and isinstance(model, Model) and shifts.shifts_labels(model):
            yield misuse.location, model
