"""A parameter is in two groups of an optimizer.

An optimizer needs each parameter in one group only. A model next to a part of it gives the parameters of the part
twice, and creating the optimizer raises an error: *some parameters appear in more than one parameter group*.

## Bad

    optimizer = torch.optim.Adam(
        [{"params": net[0].parameters(), "lr": 1e-4}, {"params": net.parameters()}], lr=1e-3  # <- duplicated-parameters
    )
    # raises ValueError: some parameters appear in more than one parameter group

## Good

    optimizer = torch.optim.Adam(
        [{"params": net[0].parameters(), "lr": 1e-4}, {"params": net[1:].parameters()}], lr=1e-3
    )
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Two models without a common layer:

    head = nn.Linear(3, 3)
    optimizer = torch.optim.Adam([{"params": net.parameters()}, {"params": head.parameters(), "lr": 1e-2}], lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(head(net(x)), y).backward()
        optimizer.step()

## Fix

None: which group the parameters belong to is for the author to decide.

## References

PyTorch documentation, `torch.optim`, "Per-parameter options"; the fix in `catalyst-team/catalyst`, commit e7c734c8195e.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from lintrain.analysis import lightning_manual, training_loops
from lintrain.pipeline import modules
from lintrain.pipeline.values.model import ModelPart, Module, Optimizer, Parameters
from lintrain.pipeline.values.python import Unknown, Value
from lintrain.rule import Finding, Level, Pipeline, Related, Rule


class DuplicatedParameters(Rule):
    level = Level.ERROR
    keywords = "optim|Adam & params"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for optimizer in pipeline.optimizers:
            shared = next((pair for pair in combinations(optimizer.groups, 2) if _share(*pair)), None)
            if shared is not None:
                yield from self._report(optimizer, *shared)

        for whole, part in lightning_manual.overlapping(pipeline):
            if whole.origin is not None and part.origin is not None:
                yield self.finding(
                    whole.origin,
                    "this optimizer also changes what another one of the module trains",
                    related=[Related(part.origin, "trains a part of the module", "optimizer")],
                    help="give each optimizer the parameters of its own network",
                )

    def _report(self, optimizer: Optimizer, one: Parameters, other: Parameters) -> Iterator[Finding]:
        if other.origin is None or optimizer.origin is None:
            return
        yield self.finding(
            other.origin,
            "these parameters are in two groups, which the optimizer refuses",
            related=[*([Related(one.origin, "in this group as well", "group")] if one.origin else [])]
            or training_loops.origin_of(optimizer, "created here"),
            help="give each parameter to one group",
        )


def _share(one: Parameters, other: Parameters) -> bool:
    """Whether two groups certainly have a parameter in common: that of a module which is in both."""
    mine = [part for each in one.of for part in modules.modules_in(each)]
    theirs = [part for each in other.of for part in modules.modules_in(each)]
    if any(_is_some_part(part) for part in (*mine, *theirs)):
        return False
    yours = {id(part) for part in theirs}
    given = {id(each) for each in (*one.of, *other.of)}
    return any(id(part) in yours and _has_weights(part, is_given=id(part) in given) for part in mine)


def _is_some_part(part: Value) -> bool:
    """Whether a value stands for a part of a model that is not known more closely, such as `net[1:]`."""
    return isinstance(part, ModelPart) or (isinstance(part, Module) and not part.path)


def _has_weights(part: Value, *, is_given: bool) -> bool:
    """Whether a part has parameters: also an unknown one, if the script asks for its parameters."""
    return modules.has_parameters(part) or (is_given and isinstance(part, Unknown) and bool(part.name))
