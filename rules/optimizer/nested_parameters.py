"""An optimizer gets the parameters of a model in a list of iterators.

`model.parameters()` is an iterator, and `[model.parameters()]` a list with one iterator: the optimizer finds no tensor
in it and raises a TypeError.

## Bad

    optimizer = torch.optim.Adam([net.parameters()], lr=1e-3)  # <- nested-parameters
    # raises TypeError: optimizer can only optimize Tensors

The parameters of several models, in a name:

    head = nn.Linear(3, 3)
    trained = [list(net.parameters()), list(head.parameters())]
    both = torch.optim.SGD(params=trained, lr=0.1)  # <- nested-parameters
    # raises TypeError: optimizer can only optimize Tensors

## Good

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

With several models:

    head = nn.Linear(3, 3)
    trained = [*net.parameters(), *head.parameters()]
    both = torch.optim.SGD(params=trained, lr=0.1)

## When it is fine

Groups of parameters, and lists of single ones:

    head = nn.Linear(3, 3)
    grouped = torch.optim.Adam([{"params": net.parameters()}, {"params": head.parameters(), "lr": 1e-4}])
    single = torch.optim.Adam([head.weight, head.bias])

## Fix

Safe: the call cannot run as it is.

## References

PyTorch documentation, `torch.optim`; the fix in `catalyst-team/catalyst`, commit 91258b56581e.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions
from lintrain.analysis.expressions import Expression, Kind
from lintrain.rule import Finding, Level, Pipeline, Rule, dataclass, fixes, lazy_pattern, one_per_location

GIVES_PARAMETERS = lazy_pattern(r"[\w.\[\]]+\.parameters\(\)|(?:list|tuple)\([\w.\[\]]+\.parameters\(\)\)")


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of what the optimizer is to get; empty if what it gets is written elsewhere."""

    code: str


class NestedParameters(Rule[Claim]):
    level = Level.ERROR
    keywords = "parameters & optim|Adam|SGD"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(
            finding
            for call in pipeline.calls
            if call.path.startswith("torch.optim.") and call.path.rpartition(".")[2][:1].isupper()
            if not call.is_guarded and "lr_scheduler" not in call.path
            if (written := expressions.call_at(pipeline, call.location)) is not None
            if (finding := self._report(pipeline, written)) is not None
        )

    def _report(self, pipeline: Pipeline, call: Expression) -> Finding[Claim] | None:
        given = call.arguments[0] if call.arguments else call.keywords.get("params")
        listed = _list_of(pipeline, call, given) if given is not None else None
        if given is None:
            return None
        items = listed.items if listed is not None else ()
        if not items or not all(GIVES_PARAMETERS.fullmatch(each.code) for each in items):
            return None
        spread = items[0].code if len(items) == 1 else f"[{', '.join(f'*{each.code}' for each in items)}]"
        return self.finding(
            given.location,
            "this list holds iterators over parameters, and no parameters",
            help=f"pass `{spread}`" if len(spread) < LONGEST else "write `*` before each",
            claim=Claim(spread if listed is given else ""),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else ""
        if not code:
            return None
        return fixes.Fix.of("pass the parameters themselves", fixes.Replace(finding.location, code), safe=True)


LONGEST = 60
"""Characters of code that a help text may quote."""


def _list_of(pipeline: Pipeline, call: Expression, given: Expression) -> Expression | None:
    """The list that an argument is, or the only one that its name is bound to in the file."""
    if given.kind is not Kind.NAME:
        return given
    source = pipeline.source_of(call.location)
    bound = [each for each in expressions.assignments_in_file(source) if given.code in {t.code for t in each.targets}]
    changed = source.contains(rf"\b{given.code}\s*(?:\.\w+\(|\+=|\[)")
    return bound[0].value if len(bound) == 1 and not changed else None
