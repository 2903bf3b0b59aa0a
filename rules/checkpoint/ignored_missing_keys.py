"""Saved weights are loaded with `strict=False`, and the missing keys are not checked.

`strict=False` skips every weight whose name is missing in the file, and returns their names. If the names differ by a
prefix, as they do after `DataParallel` or `torch.compile`, all weights are skipped: the model keeps its random weights,
without an error or a warning.

## Bad

    torch.save({f"module.{name}": weight for name, weight in net.state_dict().items()}, "weights.pt")

    net.load_state_dict(torch.load("weights.pt"), strict=False)  # <- ignored-missing-keys
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    torch.save({f"module.{name}": weight for name, weight in net.state_dict().items()}, "weights.pt")

    net.load_state_dict({name.removeprefix("module."): weight for name, weight in torch.load("weights.pt").items()})
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

The script checks the missing keys, or selects the weights before it loads them:

    torch.save(net.state_dict(), "weights.pt")

    missing, unexpected = net.load_state_dict(torch.load("weights.pt"), strict=False)
    assert not unexpected, unexpected

    body = {name: weight for name, weight in torch.load("weights.pt").items() if not name.startswith("3.")}
    net.load_state_dict(body, strict=False)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A script that trains an adapter loads only part of the weights, on purpose:

    torch.save(net.state_dict(), "weights.pt")
    net.load_state_dict(torch.load("weights.pt"), strict=False)
    lora_layers = [net[0]]
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A probe shows what became of the missing weights. It refutes a finding if other code sets them, if no loss uses them, or
if they belong to new last layers that train.

## Fix

None: either the names or the model may be wrong.

## References

PyTorch documentation, `torch.nn.Module.load_state_dict`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import checkpoints, script_text
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    lazy_pattern,
)

if TYPE_CHECKING:
    from lintrain.evidence.run import LeftWeights, StateLoad

ON_PURPOSE = lazy_pattern(
    r"lora|adapter|peft|\bema|teacher|partial|backbone|pretrain|encoder|decoder|vae|clip|proj|head|delta|strict|base",
    re.IGNORECASE,
)
"""Names of weights that are only part of a model."""

MANY, FEW = 0.2, 0.01
"""Shares of a model's weights that are missing in the file."""


class IgnoredMissingKeys(Rule):
    level = Level.WARNING
    keywords = "load_state_dict & strict"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(checkpoints.unchecked_loads(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        source = pipeline.source
        for load in checkpoints.unchecked_loads(source) if "load_state_dict" in source.text else ():
            if source.is_displayed(load.call.location) or checkpoints.is_second_try(source, load.call.location):
                continue
            if script_text.mentions_name(
                pipeline, r"lora|adapter|peft"
            ):  # adapters are part of the weights, on purpose
                return
            if any(checkpoints.saves_some_weights(each) for each in pipeline.sources.values()):
                return
            if load.read is None:
                continue
            if not ON_PURPOSE.search(load.call.code.replace("strict=False", "") + load.read.code):
                yield self.finding(
                    load.call.location,
                    "`strict=False` skips missing weights, and the returned keys are not checked",
                    related=[Related(load.read.location, "the file is read here", "read")],
                    help="remove `strict=False`, or check the `missing_keys` that the call returns",
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        # Part of the weights may be left out on purpose; names that all differ by one prefix are not.
        for load in evidence.state_loads:
            if load.prefix and load.missing:
                yield self.finding(
                    load.location,
                    f"weights are skipped because the names in the file differ by `{load.prefix}`",
                    help="take the prefix off the names, and load without `strict=False`",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loads = [load for load in evidence.state_loads if _is_at(load.location, finding.location)]
        if not loads:
            return Verdict.inconclusive("`load_state_dict` did not run at this line before training")
        load = max(loads, key=lambda load: load.missing)
        share = load.missing / max(1, load.tensors)
        prefix = f"; the names differ by `{load.prefix}`" if load.prefix else ""
        text = f"{load.missing} of {load.tensors} weights were missing in the file{prefix}"
        if load.left is not None and not load.prefix and (verdict := _judged(text, load, load.left, share)) is not None:
            return verdict
        if share > MANY or load.prefix:
            return Verdict.confirmed(text, missing=load.missing)
        return Verdict.refuted(text) if share < FEW else Verdict.inconclusive(text)


def _judged(text: str, load: StateLoad, left: LeftWeights, share: float) -> Verdict | None:
    """What became of the missing weights in the first step; None if that decides nothing."""
    named = ", ".join(f"`{name}`" for name in left.names)
    if left.frozen:
        kept = f"{left.frozen} of them keep their initial values and are used, but never train"
        return Verdict.confirmed(f"{text}; {kept}: {named}", missing=load.missing, frozen=left.frozen)
    if not left.unchanged:
        return Verdict.refuted(f"{text}; other code sets them before training")
    if not left.trained:
        return Verdict.refuted(f"{text}; the loss uses none of them: {named}")
    if left.renamed and not left.are_last:
        others = f"{load.unexpected} weights of the file were skipped, the same shapes among them"
        return Verdict.confirmed(f"{text}, and {others}; random at first: {named}", missing=load.missing)
    if left.are_last and share <= MANY:
        return Verdict.refuted(f"{text}; they are in the last layers, which train: {named}")
    return None


def _is_at(location: Location, claimed: Location) -> bool:
    return location.path == claimed.path and claimed.line <= location.line <= claimed.end_line
