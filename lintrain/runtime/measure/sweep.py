"""A pass over all rows of a data set, within a bounded time and in a copy of the process.

The copy may draw random numbers, fill caches and use up iterators: the script's process does not see it. Where there
is no such copy (Windows, macOS, a GPU in use), rows that are made are read in the process itself, and its random
generators are put back.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import ColumnEvidence, StageName, Sweep, WrongRows
from lintrain.runtime.child.ending import END
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.quick_datasets import is_repeated as is_repeated_sample
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.measure.filled_values import Filled
from lintrain.runtime.measure.missing_values import forget_missing_values
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.objects.copies import generators_of
from lintrain.runtime.measure.reread import MOST_ALIKE, reread
from lintrain.runtime.measure.row_values import Limits
from lintrain.runtime.measure.seen import has_rows, is_arrow
from lintrain.runtime.measure.swept_rows import Reading, RowsSeen, collation_faults
from lintrain.runtime.measure.swept_tables import (
    Piece,
    pieces_of_arrays,
    pieces_of_table,
    spread_order,
    tensors_of_dataset,
)
from lintrain.runtime.measure.tokenizer import find_tokenizer
from lintrain.startup.lazy_dataclass import dataclass

AT_LEAST = 2_000
AT_LEAST_SECONDS = 1.5
"""So many rows are read in any case, if they come within this time."""
SHARE = 0.05
"""Of the time that the script took up to here, for each split; more rows are read within it."""
SECONDS = (0.2, 2.0)
GRACE = 5.0
"""Seconds for the rest of the work, after the last row."""
LONGEST = 3_600.0
MOST_ERRORS, FEW_ERRORS = 50, 4

Swept = tuple[list[ColumnEvidence], Sweep]


@dataclass(frozen=True)
class Bound:
    """How long rows are read; `whole` is without a bound."""

    seconds: float
    whole: bool

    def is_over(self, rows: int, seconds: float) -> bool:
        """Whether the time is up after so many rows."""
        if self.whole:
            return False
        return seconds > (self.seconds if rows >= AT_LEAST else max(AT_LEAST_SECONDS, self.seconds))


def bound_of(run: MeasuredRun) -> Bound:
    """A small share of the script's time, or no bound if all rows were asked for."""
    least, most = SECONDS
    return Bound(min(most, max(least, SHARE * run.session.elapsed())), StageName.ROWS in run.session.also)


def limits_of(run: MeasuredRun) -> Limits:
    """What the run's model can read."""
    model, tokenizer = measure_model(run), find_tokenizer(run)
    # An unknown token stands for text.
    unknown = attribute(tokenizer, "unk_token_id", None)
    special = tuple(each for each in attribute(tokenizer, "all_special_ids", ()) or () if each != unknown)
    return Limits(
        embedding=model.embedding_rows if model.embedding_rows is not None else _only_embedding(run.model),
        positions=None if model.rotary else model.positions,
        classes=model.num_labels if model.classifies and (model.num_labels or 0) > 1 else None,
        special=special,
        labels=tuple(run.label_inputs),
    )


def _only_embedding(model: Any) -> int | None:
    """The rows of a module's one embedding; None if it has several, or none."""
    kind = library("torch.nn").Embedding
    found = [part for part in model.modules() if isinstance(part, kind)] if has(model, "modules") else []
    return int(found[0].num_embeddings) if len(found) == 1 else None


def sweep(run: MeasuredRun, dataset: Any, reading: Reading, first: Iterable[Any]) -> Swept | None:
    """What all rows of a data set show; None if they cannot be read without changing the run."""
    found = _swept(run, dataset, reading, first)
    # The copy has the parent's open files and sockets: two processes that read one connection get each other's answers.
    if found is not None and not all(_raises_here(dataset, each) for each in found[1].with_fault("raises")):
        # What the copy of a process cannot read (a data base, a file that is open) the process itself may.
        kept = tuple(each for each in found[1].wrong if each.fault != "raises")
        found = (found[0], replace(found[1], wrong=kept))
    count(run, found[1] if found is not None else None)
    return found


def _raises_here(dataset: Any, wrong: WrongRows) -> bool:
    """Whether the process itself cannot read the first of some rows either."""
    with same_random_numbers(), _same_generators(dataset):
        try:
            dataset[wrong.first[0]]
        except Exception:  # noqa: BLE001 - what the data set raises is the fault
            return True
    return False


def count(run: MeasuredRun, swept: Sweep | None) -> None:
    """Keep the time that a pass over rows took."""
    if swept is not None:
        run.sweep_seconds = (run.sweep_seconds or 0.0) + swept.seconds


def _swept(run: MeasuredRun, dataset: Any, reading: Reading, first: Iterable[Any]) -> Swept | None:
    bound, limits = bound_of(run), limits_of(run)
    reading = replace(reading, filled=Filled(attribute(attribute(run.session, "watch", None), "iteration", None)))
    if (tensors := tensors_of_dataset(dataset)) is not None and reading.rows is None:
        pieces = pieces_of_arrays(tensors, _label_of(tensors))
        return _in_a_copy(lambda: _pieces(pieces, len(dataset), limits, bound, dataset, reading), bound)
    if is_arrow(dataset):
        pieces = pieces_of_table(dataset)
        return _in_a_copy(lambda: _pieces(pieces, len(dataset), limits, bound, dataset, reading), bound)
    if has_rows(dataset):
        known = next(iter(first), None) is not None
        work = _guarded(lambda: _rows(dataset, limits, bound, reading), dataset)
        return _in_a_copy(work, bound, or_here=True) if known else None
    if not _may_be_read_twice(dataset):
        return None
    return _in_a_copy(lambda: _stream(dataset, limits, bound, reading), bound)


def sweep_arrays(run: MeasuredRun, arrays: dict[str, Any], label: str | None) -> Sweep | None:
    """The same for arrays that were given to the training."""
    bound = bound_of(run)
    rows = min(map(len, arrays.values()))
    found = _in_a_copy(lambda: _pieces(pieces_of_arrays(arrays, label), rows, Limits(), bound), bound)
    count(run, found[1] if found is not None else None)
    return found[1] if found is not None else None


def _label_of(tensors: dict[str, Any]) -> str | None:
    return "1" if list(tensors) == ["0", "1"] else None


def _pieces(
    pieces: Iterator[Piece], of: int, limits: Limits, bound: Bound, dataset: Any = None, reading: Reading | None = None
) -> Swept:
    started, seen = time.perf_counter(), RowsSeen(limits)
    for look in pieces:
        look(seen)
        if bound.is_over(AT_LEAST, time.perf_counter() - started):
            break
    is_repeated = dataset is not None and is_arrow(dataset) and is_repeated_sample(dataset)
    if dataset is not None and reading is not None and not is_repeated:
        _try_collator(seen, dataset, reading)
    else:
        forget_missing_values(seen, None, Reading() if reading is None else replace(reading, collate=None))
    return result_of(seen, of, started, numbered=not is_repeated)


def _rows(dataset: Any, limits: Limits, bound: Bound, reading: Reading) -> Swept:
    started, seen = time.perf_counter(), RowsSeen(limits)
    drawn = list(reading.rows) if reading.rows is not None else None
    count = len(dataset) if drawn is None else len(drawn)
    errors = 0
    for position in range(count) if bound.whole else spread_order(count):
        number = position if drawn is None else int(drawn[position])
        try:
            row = dataset[number]
        except Exception as error:  # noqa: BLE001 - what the data set raises is what training will meet
            if reading.draws_all:
                seen.faults.add("raises", "", number, "", first_line(f"{type(error).__name__}: {error}"))
            seen.rows, errors = seen.rows + 1, errors + 1
            # A data set that gives nothing in a copy of the process is not known to give nothing in the run.
            if errors > MOST_ERRORS or errors == seen.rows > FEW_ERRORS:
                break
        else:
            seen.add(number, row)
        if bound.is_over(seen.rows, time.perf_counter() - started):
            break
    if errors == seen.rows > FEW_ERRORS:
        raise ValueError("no row can be read in a copy of the process")
    _try_collator(seen, dataset, reading)
    columns, swept = result_of(seen, count, started)
    some = [int(drawn[each]) if drawn is not None else each for each in range(min(count, MOST_ALIKE))]
    read, changed = reread(dataset, some)
    return columns, replace(swept, pictures_read=read, pictures_changed=changed)


def _stream(dataset: Any, limits: Limits, bound: Bound, reading: Reading) -> Swept:
    started, seen, rows = time.perf_counter(), RowsSeen(limits), iter(dataset)
    of = None
    for number in range(sys.maxsize):
        row = next(rows, seen)  # a value that no row is
        if row is seen:
            of = number
            break
        seen.add(number, row)
        if bound.is_over(seen.rows, time.perf_counter() - started):
            break
    forget_missing_values(seen, None, reading)
    return result_of(seen, of, started)


def _try_collator(seen: RowsSeen, dataset: Any, reading: Reading) -> None:
    """What only a batch shows: rows that cannot be collated, and NaN that are not filled in."""
    collation_faults(seen, lambda row: dataset[row], reading)
    forget_missing_values(seen, lambda row: dataset[row], reading)


def result_of(seen: RowsSeen, of: int | None, started: float, *, numbered: bool = True) -> Swept:
    """What the rows show together."""
    wrong = seen.wrong()
    seconds = round(time.perf_counter() - started, 3)
    found = Sweep(seen.rows, of, seconds, wrong, seen.repeats.found(), numbered, target_copy=seen.copies.found())
    return seen.columns(), found


def first_line(message: str) -> str:
    """As much of an error's message as a line of the report has room for."""
    return message.splitlines()[0][:160]


def _may_be_read_twice(dataset: Any) -> bool:
    """Whether a stream begins again when it is iterated: it is no iterator, and holds none, nor an open file."""
    if has(dataset, "__next__"):
        return False
    module = sys.modules.get(type(dataset).__module__)
    path = attribute(module, "__file__", None)
    is_own = isinstance(path, str) and is_users(path)
    if not is_own and has(dataset, "_ex_iterable"):
        return all(map(_begins_again, _sources(dataset._ex_iterable)))
    held: Iterable[Any] = attribute(dataset, "__dict__", {}).values()
    return is_own and not any(map(_is_used_up, held))


def _is_used_up(held: Any) -> bool:
    return has(held, "__next__") or has(held, "fileno")


def _sources(stream: Any) -> Iterator[Any]:
    """What gives the rows of a stream of `datasets`, below what maps, filters, shuffles and joins them."""
    below = attribute(stream, "ex_iterables", None) or [attribute(stream, "ex_iterable", None)]
    if below == [None]:
        yield stream
    for each in below:
        if each is not None:
            yield from _sources(each)


def _begins_again(source: Any) -> bool:
    """Whether such a source is a table in memory, files of this machine, or a function that holds no iterator."""
    given = attribute(source, "kwargs", None)
    if not is_mapping(given):
        return False
    function = attribute(source, "generate_examples_fn", None) or attribute(source, "generate_tables_fn", None)
    config = attribute(attribute(function, "__self__", None), "config", None)  # of `from_generator`
    cells: Iterable[Any] = attribute(attribute(config, "generator", function), "__closure__", None) or ()
    arguments: dict[str, Any] = attribute(config, "gen_kwargs", None) or {}
    held: list[Any] = [*given.values(), *arguments.values(), *(cell.cell_contents for cell in cells)]
    held += [each for value in held if is_row(value) for each in value]
    return not any(_is_used_up(each) or (isinstance(each, str) and "://" in each) for each in held)


# a copy of the process


def _guarded(work: Callable[[], Swept], dataset: Any) -> Callable[[], Swept]:
    """Work that leaves random generators as they are, wherever it runs."""

    def guarded() -> Swept:
        with same_random_numbers(), _same_generators(dataset):
            return work()

    return guarded


@contextmanager
def _same_generators(dataset: Any) -> Generator[None]:
    generators = generators_of(dataset)
    states = [_state(generator) for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            _put_back(generator, state)


def _state(generator: Any) -> Any:
    if has(generator, "bit_generator"):
        return generator.bit_generator.state
    return generator.getstate() if has(generator, "getstate") else generator.get_state()


def _put_back(generator: Any, state: Any) -> None:
    if has(generator, "bit_generator"):
        generator.bit_generator.state = state
    elif has(generator, "setstate"):
        generator.setstate(state)
    else:
        generator.set_state(state)


def _in_a_copy(work: Callable[[], Swept], bound: Bound, *, or_here: bool = False) -> Swept | None:
    """What some work gives that is done in a forked process; None if that gives nothing in time."""
    torch = loaded("torch")
    uses_gpu = torch is not None and torch.cuda.is_initialized()
    # A process that uses CUDA cannot use it after a fork, and Apple's frameworks crash there.
    if not has(os, "fork") or sys.platform == "darwin" or uses_gpu:
        return work() if or_here else None
    reading, writing = os.pipe()
    process = os.fork()
    if not process:
        _answer(writing, work)
    os.close(writing)
    limit = LONGEST if bound.whole else max(bound.seconds, AT_LEAST_SECONDS) + GRACE
    return _collected(process, reading, time.monotonic() + limit)


def _answer(pipe: int, work: Callable[[], Swept]) -> None:
    """The copy's whole life."""
    try:
        gc.disable()  # a collection would copy the pages that both processes share
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        if (torch := loaded("torch")) is not None:
            torch.set_num_threads(1)  # the threads of the other process are not here
        # Whole before the first byte: the answer of a copy that is killed in its work is empty, and not half of one.
        answer = pickle.dumps(work())
        view = memoryview(answer)
        while view:
            view = view[os.write(pipe, view) :]
    finally:
        # No return: the copy would run the script on, and its exit handlers.
        END(0)


def _collected(process: int, pipe: int, ends: float) -> Swept | None:
    answer = bytearray()
    while select.select([pipe], [], [], max(0.0, ends - time.monotonic()))[0]:
        part = os.read(pipe, 65_536)
        if not part:
            break
        answer += part
    os.close(pipe)
    # Killed in any case: a copy that is stuck would keep the user's files open.
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    try:
        found: Swept = pickle.loads(bytes(answer))
    except (EOFError, pickle.UnpicklingError):
        return None
    return found
