"""Cross-entropy does not find the classes where it looks for them.

`cross_entropy` takes the second axis of its input for the classes, and targets that have no class axis: whole numbers
of shape `(N,)`, or `(N, T)` for an input `(N, C, T)`. The logits of a model over tokens are `(N, T, C)`: the call ends
with an error about sizes, or, where there happen to be as many tokens as classes, compares the wrong things.

## Bad

    optimizer = torch.optim.AdamW(lm.parameters(), lr=5e-5)
    ids = lm_tokenizer(["one two three four"], return_tensors="pt")["input_ids"]
    logits = lm(ids).logits
    loss = F.cross_entropy(logits, torch.zeros_like(ids))  # <- class-axis-layout
    loss.backward()
    optimizer.step()

    # raises Expected target size

Targets in a column:

    answers = torch.randint(0, 3, (96, 1))
    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()  # <- class-axis-layout
        optimizer.step()

    # raises 0D or 1D target tensor expected, multi-target not supported

Targets that are no whole numbers:

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

Targets of one axis:

    answers = torch.randint(0, 3, (96,))
    classifier = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(classifier.parameters())
    for x, y in DataLoader(TensorDataset(torch.randn(96, 8), answers), batch_size=16):
        optimizer.zero_grad()
        F.cross_entropy(classifier(x), y).backward()
        optimizer.step()

## When it is fine

Flattened logits, the logits of one position, and logits with the classes second:

    ids = lm_tokenizer(["one two three four"], return_tensors="pt")["input_ids"]
    logits = lm(ids).logits
    F.cross_entropy(logits.flatten(0, 1), torch.zeros_like(ids).flatten())
    F.cross_entropy(logits[:, -1], ids[:, 0])
    F.cross_entropy(logits.permute(0, 2, 1), torch.zeros_like(ids)).backward()

Pictures have the classes second:

    pictures, masks = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4, 8, 8))
    F.cross_entropy(nn.Conv2d(3, 5, 1)(pictures), masks).backward()

Targets that are probabilities have the shape of the logits:

    mixed = torch.full((16, 3), 1 / 3)
    F.cross_entropy(nn.Linear(8, 3)(features[:16]), mixed).backward()

## Fix

Asks first: that the last axis holds the classes, the shapes tell and not the model.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`, section "Shape".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import loss_calls
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.tensors import CLASSES
from lintrain.pipeline.values.training import LossCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

CALLABLE = lazy_pattern(r"[\w.]+(\(.*\))?", re.DOTALL)
"""Code that a method can be called on as it is."""


class ClassAxisLayout(Rule):
    level = Level.ERROR
    keywords = "cross_entropy|CrossEntropyLoss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        found: dict[Location, Finding] = {}
        for loss in loss_calls.losses_called(pipeline, "cross_entropy"):
            predictions, targets = loss_calls.tensors_given(loss), loss_calls.tensors_given(loss, "target")
            if not predictions:
                continue
            if all(_has_classes_last(each, targets) for each in predictions):
                found.setdefault(loss.location, self._classes_last(loss, predictions[0]))
            elif targets and all(_is_row(each) for each in predictions):
                finding = self._wrong_targets(loss, targets)
                if finding is not None:
                    found.setdefault(loss.location, finding)
        yield from found.values()

    def _classes_last(self, loss: LossCall, logits: Tensor) -> Finding:
        given = loss.prediction
        related: list[Related] = []
        if given is not None and CALLABLE.fullmatch(given.text):
            code = f"{given.text}.transpose(1, 2)"
            related.append(Related(given.location, f"of shape {logits.shape}", "logits", code))
        return self.finding(
            loss.location,
            f"`{loss_calls.callee_of(loss)}` takes the second axis of {logits.shape} for the classes",
            related=related,
            help="put the classes second (`.transpose(1, 2)`), or flatten rows and tokens into one axis",
        )

    def _wrong_targets(self, loss: LossCall, targets: tuple[Tensor, ...]) -> Finding | None:
        shape = targets[0].shape
        made = [target.made.location for target in targets if target.made and target.made.location]
        related = [Related(location, "the targets are made here", "target") for location in made[:1]]
        if all(target.shape.rank == 2 and target.shape.last == 1 and target.kind == "int" for target in targets):
            told, cure = f"targets of shape {shape} have one axis too many", "take the column out: `.squeeze(-1)`"
        elif all(target.shape.rank == 1 and target.kind == "float" for target in targets):
            told, cure = "targets are numbers with a point, and classes are whole ones", "convert them: `.long()`"
        else:
            return None
        return self.finding(loss.location, f"`{loss_calls.callee_of(loss)}`: {told}", related=related, help=cure)

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        losses = loop.losses_of("cross_entropy", "nll_loss")
        for loss in losses:
            shapes = f"logits of {loss.input_shape}, targets of {loss.target_shape} and {loss.target_dtype}"
            if loss.value is None:
                return Verdict.confirmed(f"`{loss.function}` raised on {shapes}")
        if losses:
            return Verdict.refuted(f"`{losses[0].function}` took logits of {losses[0].input_shape}, and gave a loss")
        return Verdict.inconclusive(f"none of {len(loop.losses)} losses in the first batch is a cross-entropy")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("logits")]
        return fixes.Fix.of("put the classes second", *edits, safe=False) if edits else None


def _has_classes_last(logits: Tensor, targets: tuple[Tensor, ...]) -> bool:
    """Whether logits are `(N, T, C)`: those of a model over tokens, or of a linear layer where targets are `(N, T)`."""
    if logits.shape.rank != 3:
        return False
    if logits.shape.last == CLASSES:
        return True
    is_linear = logits.made is not None and logits.made.name == "linear" and logits.shape.last != 1
    if logits.is_reshaped and logits.shape.last is None:  # the classes may have been put second
        return False
    return is_linear and bool(targets) and all(each.shape.rank == 2 and each.kind == "int" for each in targets)


def _is_row(logits: Tensor) -> bool:
    """Whether logits are certainly `(N, C)`."""
    return logits.shape.rank == 2 and logits.shape.last not in {None, 1}
