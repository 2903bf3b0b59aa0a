"""Rewritten scripts run for real, on the tiny offline stand-ins: they must run, and contain the same mistakes."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence

from benchmarks.accuracy.code import Code
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from benchmarks.accuracy.running import Run, Runner, doubts
from tests.metamorphic.comparing import Transformation
from tests.metamorphic.forms import own_places
from tests.metamorphic.subjects import correct_subject, mistaken_subject, plain_scripts

SEED = 7
MUTANTS = 2
"""The number of mutants that are run of each script."""

NOT_RUN = {"drop_imports"}


def run_sample(forms: Sequence[Transformation], number: int) -> bool:
    """Run some scripts of each form, and two mutants of each; whether they run and their mistakes show."""
    runner, choice = Runner(), random.Random(SEED)
    troubles = 0
    for form in forms:
        codes = [code for code in plain_scripts() if form(correct_subject(code).script, frozenset())]
        chosen = choice.sample(codes, min(number, len(codes))) if form.__name__ not in NOT_RUN else []
        for line in (line for code in chosen for line in _troubles(runner, choice, form, code)):
            troubles += 1
            sys.stdout.write(f"{form.__name__}: {line}\n")
        sys.stdout.write(f"{form.__name__:36} {len(chosen)} scripts run\n")
        sys.stdout.flush()
    return not troubles


def _troubles(runner: Runner, choice: random.Random, form: Transformation, code: Code) -> Iterator[str]:
    """What is wrong with one script in another form, and with two of its mutants."""
    subject = correct_subject(code)
    script = form(subject.script, subject.focus)
    assert script
    correct = runner.run(code, script.text, script.other_texts)
    if correct.error:
        yield f"{subject.name} ends with {correct.error[:200]}"
        return
    mutants = [each for each in mutants_of(code, load_injections()) if not each.injection.not_run]
    doubts = (_doubt(runner, form, mutant, correct) for mutant in choice.sample(mutants, min(MUTANTS, len(mutants))))
    yield from (doubt for doubt in doubts if doubt)


def _doubt(runner: Runner, form: Transformation, mutant: Mutant, correct: Run) -> str:
    """Why a run does not show a mutant's mistake in another form; "" if it does, or if a run never shows it."""
    subject, shows = mistaken_subject(mutant), mutant.injection.shows
    script = form(subject.script, subject.focus) if own_places(subject, mutant) else None
    if script is None:
        return ""
    run = runner.run(mutant.script, script.text, script.other_texts)
    if run.error and "error" not in shows:
        return f"{mutant.name} ends with {run.error[:200]}"
    if any(run.channels.get(name) != correct.channels.get(name) for name in shows) or doubts(mutant, runner):
        return ""
    return f"{mutant.name} does the same as the correct script ({', '.join(shows)})"
