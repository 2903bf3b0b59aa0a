"""The result of `load_state_dict` is used as if it were the model.

`load_state_dict` loads the weights into the module and returns the names of missing and unexpected keys. After
`model = model.load_state_dict(…)` the name holds those keys, and the next use of the model raises an error.

## Bad

    state = net.state_dict()
    net = net.load_state_dict(state)  # <- assigned-load-result
    with torch.no_grad():
        net(features)
    # raises TypeError

## Good

    state = net.state_dict()
    net.load_state_dict(state)
    with torch.no_grad():
        net(features)

## When it is fine

The keys are what the script asks for:

    keys = net.load_state_dict(net.state_dict(), strict=False)
    print(keys.missing_keys)

## Fix

Safe: the keys have no methods of a model.

## References

PyTorch documentation, `torch.nn.Module.load_state_dict`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import checkpoints
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, dataclass, fixes, lazy_pattern

ASSIGNS = lazy_pattern(r"=[ \t]*[\w.()]+\.load_state_dict\(")


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the call alone."""

    call: str


class AssignedLoadResult(Rule[Claim]):
    level = Level.ERROR
    keywords = "load_state_dict"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(ASSIGNS)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for location, name, call in checkpoints.assigned_loads(pipeline.source):
            shown = f"`{name}`" if len(name) <= 30 else "this"
            yield self.finding(
                location,
                f"{shown} becomes the result of `load_state_dict`, which is no model",
                help="call `load_state_dict` in a statement of its own",
                claim=Claim(call),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.call:
            return None
        return fixes.Fix.of("do not assign it", fixes.Replace(finding.location, finding.claim.call), safe=True)
