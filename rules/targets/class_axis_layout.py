"""Cross-entropy gets logits or targets of the wrong shape.

`cross_entropy` expects the classes in dimension 1 of its input, and integer targets without a class dimension: `(N,)`,
or `(N, T)` for an input `(N, C, T)`. A language model returns logits `(N, T, C)`: the call raises an error about sizes.
If there are as many tokens as classes, it raises nothing and compares the wrong values.

## Bad

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four"], return_tensors="pt")["input_ids"]
    logits = lm(ids).logits
    loss = F.cross_entropy(logits, torch.zeros_like(ids))  # <- class-axis-layout
    loss.backward()
    optimizer.step()

    # raises Expected target size

Targets of shape `(N, 1)`:

    answers = torch.randint(0, 3, (96, 1))
    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()  # <- class-axis-layout
        optimizer.step()

    # raises 0D or 1D target tensor expected, multi-target not supported

Targets that are floats:

    answers = torch.zeros(96)
    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()  # <- class-axis-layout
        optimizer.step()

    # raises expected target dtype to be Long or Byte

## Good

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four"], return_tensors="pt")["input_ids"]
    logits = lm(ids).logits
    loss = F.cross_entropy(logits.transpose(1, 2), torch.zeros_like(ids))
    loss.backward()
    optimizer.step()

Targets of shape `(N,)`:

    answers = torch.randint(0, 3, (96,))
    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

## When it is fine

Flattened logits, the logits of one position, and logits with the classes in dimension 1:

    ids = lm_tokenizer(["one two three four"], return_tensors="pt")["input_ids"]
    logits = lm(ids).logits
    F.cross_entropy(logits.flatten(0, 1), torch.zeros_like(ids).flatten())
    F.cross_entropy(logits[:, -1], ids[:, 0])
    F.cross_entropy(logits.permute(0, 2, 1), torch.zeros_like(ids)).backward()

Convolutions return the classes in dimension 1:

    pictures, masks = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4, 8, 8))
    F.cross_entropy(nn.Conv2d(3, 5, 1)(pictures), masks).backward()

Targets that are probabilities have the shape of the logits:

    mixed = torch.full((16, 3), 1 / 3)
    F.cross_entropy(nn.Linear(8, 3)(features[:16]), mixed).backward()

## Fix

Asks first: only the shapes show that the last dimension holds the classes.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`, section "Shape".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import loop_verdicts
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.tensors import CLASSES
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

RAISES = (
    "Expected target size",
    "multi-target not supported",
    "expected target dtype to be Long",
    "expected scalar type Long but found",
    "to match target batch_size",
    "only batches of spatial targets supported",
)
"""Errors about the shape or the dtype of targets; that of a class which is out of bounds is another mistake."""
CALLABLE = lazy_pattern(r"[\w.]+(\(.*\))?", re.DOTALL)
"""Code to which a method call can be appended."""


class ClassAxisLayout(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyLoss"
    needs_training = False
    judges_networks = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for loss in loop_verdicts.losses_called(pipeline, "cross_entropy"):
            predictions, targets = loop_verdicts.tensors_given(loss), loop_verdicts.tensors_given(loss, "target")
            if targets and all(_is_one_hot(each) for each in targets):
                found.setdefault(loss.location, self._report_one_hot(loss, targets[0]))
            elif not predictions:
                continue
            elif all(_has_classes_last(each, targets) for each in predictions):
                found.setdefault(loss.location, self._report_classes_last(loss, predictions[0]))
            elif targets and all(_has_flat_channel(each, predictions[0]) for each in targets):
                found.setdefault(loss.location, self._report_channel(loss, targets[0]))
            elif targets and all(_is_row(each) for each in predictions):
                finding = self._report_targets(loss, targets)
                if finding is not None:
                    found.setdefault(loss.location, finding)
        yield from found.values()

    def _report_classes_last(self, loss: LossCall, logits: Tensor) -> Finding:
        given = loss.prediction
        related: list[Related] = []
        if given is not None and CALLABLE.fullmatch(given.text):
            code = f"{given.text}.transpose(1, 2)"
            related.append(Related(given.location, f"has shape {logits.shape}", "logits", code))
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}` expects classes in dimension 1 of logits {logits.shape}",
            related=related,
            help="move the classes to dimension 1 (`.transpose(1, 2)`), or flatten rows and tokens",
        )

    def _report_one_hot(self, loss: LossCall, target: Tensor) -> Finding:
        made = target.made.location if target.made else None
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}`: one-hot targets are whole numbers, and no class numbers",
            related=[Related(made, "targets are created here", "target")] if made else [],
            help="pass the class numbers themselves, or the rows as floats: `.float()`",
        )

    def _report_channel(self, loss: LossCall, target: Tensor) -> Finding:
        made = target.made.location if target.made else None
        return self.finding(
            loss.location,
            f"`{loop_verdicts.callee_of(loss)}`: targets of shape {target.shape} have an extra dimension",
            related=[Related(made, "targets are created here", "target")] if made else [],
            help="drop it with `.squeeze(1)`",
        )

    def _report_targets(self, loss: LossCall, targets: tuple[Tensor, ...]) -> Finding | None:
        shape = targets[0].shape
        made = [target.made.location for target in targets if target.made and target.made.location]
        related = [Related(location, "targets are created here", "target") for location in made[:1]]
        if all(target.shape.rank == 2 and target.shape.last == 1 and target.kind == "int" for target in targets):
            problem, help_text = f"targets of shape {shape} have an extra dimension", "drop it with `.squeeze(-1)`"
        elif all(target.shape.rank == 1 and target.kind == "float" for target in targets):
            problem, help_text = "targets are floats, but class indices are integers", "convert them with `.long()`"
        else:
            return None
        return self.finding(
            loss.location, f"`{loop_verdicts.callee_of(loss)}`: {problem}", related=related, help=help_text
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        losses = evidence.losses_of("cross_entropy", "nll_loss")
        for loss in losses if evidence.failed_with(*RAISES) else ():
            if loss.value is None and loss.location is not None:
                shapes = f"logits {list(loss.input_shape)} and targets {list(loss.target_shape)}"
                yield self.finding(
                    loss.location,
                    f"`{loss.function}` gets {shapes} of {loss.target_dtype}",
                    help="classes belong into dimension 1 of the logits, and targets are class indices without it",
                )
                return

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        losses = evidence.losses_of("cross_entropy", "nll_loss")
        for loss in losses:
            shapes = f"logits {loss.input_shape} and targets {loss.target_shape} of {loss.target_dtype}"
            if loss.value is None:
                return Verdict.confirmed(f"`{loss.function}` raised for {shapes}")
        if losses:
            return Verdict.refuted(f"`{losses[0].function}` returned a loss for logits {losses[0].input_shape}")
        return Verdict.inconclusive(
            f"none of {len(evidence.called_losses)} losses in the first batch is a cross-entropy"
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("logits")]
        return fixes.Fix.of("move the classes to dimension 1", *edits, safe=False) if edits else None


def _has_classes_last(logits: Tensor, targets: tuple[Tensor, ...]) -> bool:
    """Whether logits are `(N, T, C)`: from a language model, or from a linear layer if targets are `(N, T)`."""
    if logits.shape.rank != 3:
        return False
    if logits.shape.last == CLASSES:
        return True
    is_linear = logits.made is not None and logits.made.name == "linear" and logits.shape.last != 1
    if logits.is_reshaped and not all(_has_tokens_first(logits, each) for each in targets):
        return False  # the classes may be in dimension 1 already
    return is_linear and bool(targets) and all(each.shape.rank == 2 and each.kind == "int" for each in targets)


def _has_tokens_first(logits: Tensor, target: Tensor) -> bool:
    """Whether dimension 1 of logits has the size of the tokens, and the last one another."""
    tokens = target.shape.sizes[1] if target.shape.rank == 2 else None
    return tokens is not None and logits.shape.sizes[1] == tokens and logits.shape.last not in {None, tokens}


def _is_row(logits: Tensor) -> bool:
    """Whether logits are `(N, C)`, or come out of a linear layer with axes that are not known before the classes."""
    is_linear = logits.shape.is_open and logits.made is not None and logits.made.name == "linear"
    is_single = len(logits.shape.sizes) == 1 and is_linear
    return (logits.shape.rank == 2 or is_single) and logits.shape.last not in {None, 1}


def _has_flat_channel(target: Tensor, logits: Tensor) -> bool:
    """Whether masks of classes `(N, 1, H, W)` have a channel, beside logits `(N, C, H, W)` of several classes."""
    rank, classes = logits.shape.rank or 0, logits.shape.sizes[1:2]
    is_mask = rank > 2 and target.shape.rank == rank and target.shape.sizes[1] == 1
    return is_mask and target.kind == "int" and classes[0] not in {None, 1}


def _is_one_hot(target: Tensor) -> bool:
    """Whether targets are rows of zeros and a one, still as whole numbers."""
    return target.made is not None and target.made.name == "one_hot" and target.kind == "int"
