"""The scripts that are rewritten: those of the accuracy benchmark, correct or with one mistake put into them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from benchmarks.accuracy.code import Code
from benchmarks.accuracy.mutants import FOLDER, Mutant, load_injections, load_scripts, mutants_of
from tests.metamorphic.comparing import Subject, Transformation


def plain_scripts() -> list[Code]:
    """Every correct script that is no notebook: these have cells already."""
    return [code for code in load_scripts() if code.path.endswith(".py")]


def notebooks_as_scripts() -> list[Code]:
    """Every correct notebook as a script with the code of its cells."""
    codes = [code for code in load_scripts() if code.path.endswith(".ipynb")]
    return [Code(str(Path(code.path).with_suffix(".py")), code.text.encode()) for code in codes]


def correct_subject(code: Code) -> Subject:
    """A script as it is."""
    return Subject.of(str(Path(code.path).relative_to(FOLDER / "scripts")), code, code.text)


def mistaken_subject(mutant: Mutant) -> Subject:
    """A script with a mistake."""
    return Subject.of(mutant.name, mutant.script, mutant.text)


def all_subjects(codes: list[Code]) -> Iterator[Subject]:
    """The scripts as they are, and with every mistake that fits into them and is found."""
    for code in codes:
        yield correct_subject(code)
        yield from filter(lambda subject: subject.said, map(mistaken_subject, mutants_of(code, load_injections())))


def subjects_that_fit(transformation: Transformation, codes: list[Code], most_of_one: int) -> Iterator[Subject]:
    """Each script that a transformation fits, as it is and with a few mistakes, those that were seen least so far."""
    seen = Counter[str]()
    for subject in map(correct_subject, codes):
        if transformation(subject.script, frozenset()):
            yield subject
            mutants = sorted(
                mutants_of(subject.code, load_injections()), key=lambda mutant: seen[mutant.injection.rule]
            )
            for mutant in mutants[:most_of_one]:
                seen[mutant.injection.rule] += 1
                yield mistaken_subject(mutant)


def mixed_subjects(codes: list[Code]) -> Iterator[Subject]:
    """One subject of each script: every fourth as it is, the others with the mistake that was seen least so far."""
    seen = Counter[str]()
    for number, code in enumerate(codes):
        mutants = sorted(mutants_of(code, load_injections()), key=lambda mutant: seen[mutant.injection.rule])
        if number % 4 == 3 or not mutants:
            yield correct_subject(code)
            continue
        seen[mutants[0].injection.rule] += 1
        yield mistaken_subject(mutants[0])
