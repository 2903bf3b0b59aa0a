"""An iterator of parameters is used again after it is used up.

`model.parameters()`, `filter(…)` and `itertools.chain(…)` return iterators: the first loop or optimizer that reads one
leaves it empty. A later clipping call clips nothing, and a later loop freezes nothing. No error is raised.

## Bad

    parameters = net.parameters()  # <- exhausted-iterator
    optimizer = torch.optim.Adam(parameters)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

## Good

    parameters = list(net.parameters())
    optimizer = torch.optim.Adam(parameters)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

## When it is fine

Each run uses it once:

    parameters = filter(lambda each: each.requires_grad, net.parameters())
    if os.environ.get("PLAIN"):
        optimizer = torch.optim.SGD(parameters, lr=0.1)
    else:
        optimizer = torch.optim.Adam(parameters)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

It is created again for each use:

    for epoch in range(2):
        parameters = net.parameters()
        for parameter in parameters:
            parameter.grad = None
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()

## Fix

Safe: a list gives the same parameters each time.

## References

Python documentation, "iterator"; PyTorch documentation, `torch.nn.Module.parameters`; the fix in `openai/spinningup`,
commit 827e837d4d78.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text, statements
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, Related, dataclass, fixes

LISTS = frozenset({"paddle", "mindspore", "jittor", "mindtorch"})
"""Packages whose `parameters()` returns a list."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The list of the same parameters."""

    code: str


class ExhaustedIterator(OddCallRule[Claim]):
    level = Level.ERROR
    odd = "clipped nothing"
    odd_message = "nothing is clipped: the parameters are an iterator that is used up"
    odd_help = "keep the parameters in a list: `list(…)`"
    keywords = "parameters"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        packages = {each.module.partition(".")[0] for each in script_text.imports_of(pipeline.source)}
        if "torch" not in packages or packages & LISTS or script_text.mentions(pipeline, r"def parameters\("):
            return
        for each in statements.iterators_used_again(pipeline.source):
            yield self.finding(
                each.value,
                f"`{each.name}` is an iterator, and empty after its first use",
                related=[
                    Related(each.first, "used up here", "first"),
                    Related(each.second, "used again here", "second")
                    if each.second != each.first
                    else Related(each.second, "used again in each iteration", "second"),
                ],
                help="keep the parameters in a list: `list(…)`",
                claim=Claim(f"list({each.code})"),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        return fixes.Fix.of("keep them in a list", fixes.Replace(finding.location, finding.claim.code), safe=True)
