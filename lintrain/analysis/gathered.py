"""What Accelerate gathers from all processes, read as the number of one process."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, script_text
from lintrain.analysis.expressions import Expression, Kind
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ACCELERATOR = lazy_pattern(r"(?:\w+\.)*_?accelerator")
GATHERED = lazy_pattern(r"accelerator\.gather(?:_for_metrics)?\(")
GATHERS = frozenset({"gather", "gather_for_metrics"})
KEEPS_ENTRIES = frozenset({"detach", "cpu", "float", "double", "clone", "squeeze", "to", "contiguous"})
"""Methods that leave as many entries as there are."""

COUNTS_PROCESSES = lazy_pattern(r"num_processes|world_size|distributed")
"""Code that may be for a single process."""


@dataclass(frozen=True, slots=True)
class ReadNumber:
    """One number that is read of what was gathered: where, its code, and where it was gathered, if elsewhere."""

    location: Location
    code: str
    gathered: Location | None = None


def numbers_of_gathered(pipeline: Pipeline) -> Iterator[ReadNumber]:
    """The calls of `item()` of what `accelerator.gather` returns: it has an entry for each process at least."""
    for source in pipeline.sources.values():
        for found in source.cached(_numbers_in) if source.contains(GATHERED) else ():
            if not _may_be_alone(source, found.location):
                yield found


def _numbers_in(source: Source) -> tuple[ReadNumber, ...]:
    return tuple(_found_in(source))


def _may_be_alone(source: Source, location: Location) -> bool:
    """Whether a condition around a location asks how many processes there are."""
    around = [each.line for each in blocks.branches(source) if each.holds(location)]
    return any(COUNTS_PROCESSES.search(source.lines[line - 1]) for line in {*around, location.line})


def _found_in(source: Source) -> Iterator[ReadNumber]:
    named = _names_of_gathered(source)
    for call in expressions.calls_of_method(source, "item"):
        read = _inner(call.called_on)
        if call.arguments or call.keywords or read is None:
            continue
        if _is_gather(read):
            yield ReadNumber(call.location, read.code)
        elif read.kind is Kind.NAME and read.name in named and named[read.name].line < call.location.line:
            yield ReadNumber(call.location, read.code, named[read.name])


def _names_of_gathered(source: Source) -> dict[str, Location]:
    """The names that are only ever bound to something gathered."""
    found: dict[str, Location] = {}
    for assignment in expressions.assignments_in_file(source):
        value = _inner(assignment.value)
        if assignment.name and value is not None and _is_gather(value):
            found[assignment.name] = assignment.location
    return {name: at for name, at in found.items() if len(script_text.bindings_of(source, name)) == 1}


def _inner(read: Expression | None) -> Expression | None:
    """What an expression has the entries of: `x` of `x.detach().cpu()`."""
    while read is not None and read.kind is Kind.CALL and read.called_name in KEEPS_ENTRIES:
        read = read.called_on
    return read


def _is_gather(call: Expression) -> bool:
    """Whether it is a call of Accelerate's `gather` with one tensor."""
    owner = call.called_on
    is_one = len(call.arguments) == 1 and not call.keywords and call.arguments[0].kind not in {Kind.TUPLE, Kind.LIST}
    is_gather = call.kind is Kind.CALL and call.called_name in GATHERS and is_one
    return is_gather and owner is not None and ACCELERATOR.fullmatch(owner.code) is not None
