"""Classes, words or tags are numbered in the order of a set, and the weights outlive the run.

Python changes the hashes of texts with each process, so a set of texts has another order in each run. The network is
trained with one numbering. A later run that loads the weights numbers the classes again, and its predictions and
embeddings are those of other classes.

## Bad

    names = ["cat", "dog", "bird"] * 32
    class_to_idx = {name: number for number, name in enumerate(set(names))}  # <- unstable-class-numbers
    classes = torch.tensor([class_to_idx[name] for name in names])
    for x, y in DataLoader(TensorDataset(features, classes), batch_size=16):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.save(net.state_dict(), "net.pt")

## Good

    names = ["cat", "dog", "bird"] * 32
    class_to_idx = {name: number for number, name in enumerate(sorted(set(names)))}
    classes = torch.tensor([class_to_idx[name] for name in names])
    for x, y in DataLoader(TensorDataset(features, classes), batch_size=16):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.save(net.state_dict(), "net.pt")

## When it is fine

The numbers are saved with the weights:

    names = ["cat", "dog", "bird"] * 32
    class_to_idx = {name: number for number, name in enumerate(set(names))}
    classes = torch.tensor([class_to_idx[name] for name in names])
    for x, y in DataLoader(TensorDataset(features, classes), batch_size=16):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.save({"net": net.state_dict(), "classes": class_to_idx}, "net.pt")

## Fix

Asks first: weights that are already trained have the numbers of their own run.

## References

Python documentation, `object.__hash__` and `PYTHONHASHSEED`: hashes of `str` are salted.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.set_orders import UnstableNumbers, unstable_numbers
from lintrain.rule import (
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    dataclass,
    fixes,
    one_per_location,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The code that is numbered."""

    code: str


class UnstableClassNumbers(Rule[Claim]):
    level = Level.WARNING
    keywords = "set( & enumerate|zip & save|load|Checkpoint"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(self._report(each, pipeline) for each in unstable_numbers(pipeline.source))

    def _report(self, found: UnstableNumbers, pipeline: Pipeline) -> Finding[Claim]:
        shown = f"`{found.code}`" if len(found.code) <= 36 else "this set"
        is_name = not found.location.meets(found.made)
        return self.finding(
            found.location,
            f"{shown} has another order in each run",
            related=[Related(found.made, "the set is made here", "origin")] if is_name else [],
            help="sort what is numbered, or save the numbers with the weights",
            claim=Claim(pipeline.source.code(found.location)),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, f"sorted({finding.claim.code})")
        return fixes.Fix.of("sort it", edit, safe=False)
