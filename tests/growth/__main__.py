"""Search for costs that grow faster than the input.

    python -m tests.growth [--pairs N] [--list] [WORD ...]

Each form of code is repeated 8, 16, 32 … times, up to 100 KB, and the CPU time of its check, its fixes and its reports
is measured. What grows faster than n^1.3 over two doublings, or takes more than ten seconds, is printed with the
functions that take the time, and the search ends with 1. Words choose forms whose name contains one.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence

from tests.growth.examples import example_forms
from tests.growth.form import Form
from tests.growth.measure import Costs, functions_of, steep_stages, warm_up
from tests.growth.pairs import pair_forms
from tests.growth.statements import language_forms
from tests.growth.training import training_forms

PAIRS = 60


def all_forms(pairs: int = PAIRS) -> list[Form]:
    """Every form that is searched."""
    return [*language_forms(), *training_forms(), *example_forms(), *pair_forms(pairs)]


def main(words: Sequence[str]) -> int:
    """Search, print what is steep, and give the number of forms that are."""
    chosen = [form for form in all_forms() if not words or any(word in form.name for word in words)]
    warm_up(language_forms()[0])
    steep = 0
    for form in chosen:
        started = time.process_time()
        try:
            found = steep_stages(form)
        except Exception:  # noqa: BLE001 - whatever fails, the other forms are searched
            sys.stdout.write(f"FAILED {form.name}\n{traceback.format_exc(limit=-3)}")
            steep += 1
            continue
        for costs in found.values():
            show(form, costs)
        if not found:
            sys.stdout.write(f"{form.name}: {time.process_time() - started:.1f} s\n")
        sys.stdout.flush()
        steep += bool(found)
    sys.stdout.write(f"{len(chosen)} forms, {steep} of them steep or failed\n")
    return steep


def show(form: Form, costs: Costs) -> None:
    """Print what grows too fast, and which functions it is."""
    points = ", ".join(f"{count}: {seconds:.2f}" for count, _, seconds in costs.points if seconds > 0.02)
    sys.stdout.write(f"STEEP {form.name} [{costs.stage}] n^{costs.exponent:.2f} ({points})\n")
    for line in functions_of(form, costs.steepest_count, costs.stage):
        sys.stdout.write(f"    {line}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        sys.stdout.writelines(f"{form.name}\n" for form in all_forms())
    else:
        sys.exit(bool(main(sys.argv[1:])))
