"""What the comments of a file silence, and which of them silence nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lintrain.builtin import UNCONDITIONAL, UNUSED_SUPPRESSION
from lintrain.check.result import Reported, Silenced
from lintrain.check.selection import nearest
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.model.finding import Finding
    from lintrain.model.location import Location
    from lintrain.source.suppression import Suppression


@dataclass(frozen=True, slots=True)
class Heard:
    """The findings that are left, those that were silenced, and the comments that silenced nothing."""

    kept: tuple[Reported, ...]
    silenced: tuple[Silenced, ...]
    unused: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class LookedFor:
    """The rules that a run has decided for a file, whether those are all that it can, and all the known ones."""

    decided: frozenset[str]
    everything: bool
    known: frozenset[str]


NOTHING = LookedFor(frozenset(), False, frozenset())


def apply_suppressions(
    reported: Sequence[Reported], suppressions: Sequence[Suppression], looked_for: LookedFor
) -> Heard:
    """Leave out what the comments silence; a comment is only called unused if its rule ran."""
    near = _by_line(suppressions)
    used: dict[int, set[str]] = {}
    kept: list[Reported] = []
    silenced: list[Silenced] = []
    for one in reported:
        covering = [each for each in near(one.finding.location) if each.covers(one.finding.rule, one.finding.location)]
        for comment in covering:
            used.setdefault(id(comment), set()).add(one.finding.rule)
        if covering:
            silenced.append(Silenced(one, covering[0]))
        else:
            kept.append(one)
    unused = [
        finding
        for comment in suppressions
        for finding in _complaints(comment, used.get(id(comment), set()), looked_for)
    ]
    heard = [finding for finding in unused if not _is_silenced(finding, near(finding.location))]
    return Heard(tuple(kept), tuple(silenced), tuple(heard))


def _by_line(suppressions: Sequence[Suppression]) -> Callable[[Location], list[Suppression]]:
    """Finds the comments that may apply to a location, in order: generated code may hold thousands of them."""
    lines: dict[int | None, list[int]] = {}
    for position, comment in enumerate(suppressions):
        lines.setdefault(comment.line, []).append(position)

    def near(location: Location) -> list[Suppression]:
        found = {position for line in (None, location.line, location.end_line) for position in lines.get(line, ())}
        return [suppressions[position] for position in sorted(found)]

    return near


def _is_silenced(finding: Finding, suppressions: Sequence[Suppression]) -> bool:
    """Whether a comment asks for silence about unused comments; it must name them: `ignore` alone would hide itself."""
    return any(
        finding.rule in comment.rules and comment.covers(finding.rule, finding.location) for comment in suppressions
    )


def _complaints(comment: Suppression, used: set[str], looked_for: LookedFor) -> Iterator[Finding]:
    if comment.flaw:
        yield _unused(comment, comment.flaw, "write `# lintrain: ignore[rule] -- reason`")
    elif not comment.rules and not used and looked_for.everything:
        yield _unused(comment, "nothing is suppressed by this comment", "take the comment out")
    for rule in () if comment.flaw else comment.rules:
        if rule not in looked_for.known:
            near = nearest(rule, looked_for.known)
            yield _unused(
                comment, f"no rule is called `{rule}`", f"write `{near}`" if near else "`lintrain rules` lists them"
            )
        elif rule in UNCONDITIONAL:
            yield _unused(comment, f"no comment silences `{rule}`", f"take `{rule}` out of the comment")
        elif rule in looked_for.decided and rule not in used and rule != UNUSED_SUPPRESSION.name:
            yield _unused(comment, f"no `{rule}` is found here to suppress", f"take `{rule}` out of the comment")


def _unused(comment: Suppression, message: str, cure: str) -> Finding:
    from lintrain.model.finding import Finding

    return Finding(UNUSED_SUPPRESSION.name, UNUSED_SUPPRESSION.level, comment.location, message, help=cure)
