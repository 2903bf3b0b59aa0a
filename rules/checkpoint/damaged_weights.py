"""A layer of loaded weights holds only zeros, or NaN.

The file is damaged: it was cut off, merged or converted wrongly, or saved after training had diverged. All names and
shapes fit, so that even a strict load raises no error. A layer of zeros passes nothing on and may learn nothing.

## Bad

    saved = {name: weight.clone() for name, weight in net.state_dict().items()}
    saved["0.weight"].zero_()
    net.load_state_dict(saved)  # <- damaged-weights
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    saved = {name: weight.clone() for name, weight in net.state_dict().items()}
    net.load_state_dict(saved)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Layers that are zero before they are loaded, such as those of adapters, start so on purpose. Biases may be zero.

## Fix

None: the right weights are not in the file.

## References

PyTorch documentation, `torch.nn.Module.load_state_dict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_NAMES = 3


class DamagedWeights(Rule):
    level = Level.ERROR

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for load in evidence.state_loads:
            if load.zeros or load.non_finite:
                what = "only zeros" if load.zeros else "NaN or infinity"
                yield self.finding(
                    load.location,
                    f"a layer of the loaded weights holds {what}",
                    help="save or download the file again, and compare its weights with those of the run that saved it",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loads = [load for load in evidence.state_loads if load.location == finding.location]
        if not loads:
            return Verdict.inconclusive("no weights were loaded at this line before training")
        tensors = max(load.tensors for load in loads)
        zeros = [name for load in loads for name in load.zeros]
        bad = [name for load in loads for name in load.non_finite]
        if not zeros and not bad:
            return Verdict.refuted(f"none of {tensors} tensors holds only zeros or NaN")
        found = [_counted(zeros, tensors, "only zeros")] if zeros else []
        found += [_counted(bad, tensors, "NaN or infinity")] if bad else []
        return Verdict.confirmed("; ".join(found), zeros=len(zeros), non_finite=len(bad))


def _counted(names: list[str], of: int, what: str) -> str:
    shown = ", ".join(f"`{name}`" for name in names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
    return f"{len(names)} of {of} tensors {'holds' if len(names) == 1 else 'hold'} {what}: {shown}"
