"""What became of the mutants of one file, and which of them are tried."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tools.mutation.operators import Mutant, mutants_of
from tools.mutation.swapping import Loaded, can_swap
from tools.mutation.type_checks import mistyped

LEAST_KILLED = 0.85
TYPES = "types"
JUDGES = frozenset({"verify", "inspect"})


def chosen_mutants(name: str, code: Loaded, most: int) -> list[Mutant]:
    """At most so many mutants of a file, the same ones every time, in the order of its text."""
    text = code.path.read_text(encoding="utf-8")
    found = [each for each in mutants_of(text, JUDGES) if can_swap(code, each.function)]
    ranked = sorted(found, key=lambda each: zlib.crc32(f"{name} {each.line} {each.change}".encode()))[:most]
    return sorted(ranked, key=lambda each: each.line)


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What became of a file's mutants: how many were killed by what, and who survived."""

    name: str
    code: Loaded
    killers: Counter[str]
    survivors: list[Mutant]

    def __str__(self) -> str:
        total = self.killers.total() + len(self.survivors)
        killed = f"{self.killers.total() - self.killers[TYPES]:4} by tests {self.killers[TYPES]:4} by types"
        lines = [f"{self.name:34} {killed} of {total:4}"]
        lines += [f"    {self.code.path.name}:{mutant.line}: {mutant.change}" for mutant in self.survivors]
        return "\n".join(lines)


def with_types(outcomes: Sequence[MutationResult]) -> list[MutationResult]:
    """The outcomes after the type checker has seen the survivors, all of them at once."""
    answers = iter(mistyped([(each.code.path, mutant.tree) for each in outcomes for mutant in each.survivors]))
    seen: list[MutationResult] = []
    for each in outcomes:
        survivors = [mutant for mutant in each.survivors if not next(answers)]
        killers = Counter(each.killers)
        killers[TYPES] = len(each.survivors) - len(survivors)
        seen.append(MutationResult(each.name, each.code, killers, survivors))
    return seen


def report(outcomes: Sequence[MutationResult]) -> int:
    """Print the table; whether too few were killed as an exit code."""
    outcomes = with_types(outcomes)
    print(*outcomes, sep="\n")
    killers = sum((each.killers for each in outcomes), Counter[str]())
    total = killers.total() + sum(len(each.survivors) for each in outcomes)
    killed = killers.total() / max(total, 1)
    print(f"{killed:.1%} of {total} killed: " + ", ".join(f"{many} by {name}" for name, many in killers.most_common()))
    return int(killed < LEAST_KILLED)
