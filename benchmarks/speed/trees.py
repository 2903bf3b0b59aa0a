"""Whole trees and samples of them: lintrain, the floor and other linters, paired."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.measure import Command, Cost, interleaved, middle, paired_ratio, print_table
from benchmarks.speed.bounds import Bound
from benchmarks.speed.corpus import Corpus, copied, lines_of, most_imported, sample_of
from benchmarks.speed.linters import floor, lintrain, others, ruff

SAMPLE = 31_000
"""Lines that the slower linters read too."""

LEAST_TIMES = {"TorchFix": 25.0, "pylint -E": 12.0}
"""How many times longer they take at least."""

MIB = 1024**2 / 1_000_000


def compare(title: str, commands: list[Command], rounds: int) -> dict[str, list[Cost]]:
    """The costs of commands by their names, printed as a table."""
    print(f"\n{title}")
    costs = interleaved(commands, rounds)
    print_table(commands, costs)
    return {command.name: each for command, each in zip(commands, costs, strict=True)}


def measure_tree(corpus: Corpus, rounds: int, work: Path) -> Iterator[Bound]:
    """The whole tree, cold and warm, beside the floor and ruff; the caches are filled in the round before."""
    folder = corpus.folder
    commands = [
        lintrain("lintrain, cold", folder, "--jobs", "1"),
        lintrain("lintrain, cold, a process per CPU", folder),
        lintrain("lintrain, warm", folder, cache=work / "cache"),
        floor(corpus.files, work),
        ruff("ruff, cold", folder, "--no-cache"),
        ruff("ruff, warm and clean", folder, "--cache-dir", str(work / "ruff"), "--select", "F702"),
    ]
    title = f"{len(corpus.scripts)} scripts with {corpus.lines} lines, {len(corpus.notebooks)} notebooks"
    cold, several, warm, parse, ruff_cold, ruff_warm = compare(title, commands, rounds).values()
    yield Bound("the tree, cold, against ast.parse", paired_ratio(cold, parse, "cpu"), most=3)
    yield Bound("the tree, cold, against ruff", paired_ratio(cold, ruff_cold, "cpu"), most=6)
    yield Bound("the tree, warm, against ruff's clean warm run", paired_ratio(warm, ruff_warm, "cpu"), most=1.3)
    yield Bound("several processes against one, CPU", paired_ratio(several, cold, "cpu"))
    yield Bound("several processes against one, by the clock", paired_ratio(several, cold, "wall"))
    yield peak("the tree", cold)


def measure_change(corpus: Corpus, rounds: int, work: Path) -> Iterator[Bound]:
    """A copy of the tree of which one script, or one module that others import, has changed since the last run."""
    folder = copied(corpus.files, corpus.folder, work / "changing")
    script = folder / sample_of(corpus, 1_000)[0].relative_to(corpus.folder)
    module = folder / most_imported(corpus).relative_to(corpus.folder)
    options = ("--jobs", "1")
    commands = [
        lintrain("lintrain, cold", folder, *options),
        lintrain("lintrain, one script changed", folder, *options, cache=work / "one", changes=script),
        lintrain("lintrain, one module changed", folder, *options, cache=work / "other", changes=module),
    ]
    title = f"One of {len(corpus.files)} files has changed: {script.name}, or {module.name}, which many import"
    costs = compare(title, commands, rounds)
    cold, one, other = costs.values()
    yield Bound("one script changed, against cold", paired_ratio(one, cold, "cpu"), most=0.15)
    yield Bound("one module changed, against cold", paired_ratio(other, cold, "cpu"))


def peak(name: str, costs: list[Cost]) -> Bound:
    """Peak memory of one process, in megabytes."""
    return Bound(f"{name}, peak memory", middle(costs).peak * MIB, "MB", most=400)


def measure_sample(corpus: Corpus, tools: Path | None, rounds: int, work: Path) -> Iterator[Bound]:
    """A sample that the slower linters read as well."""
    folder = work / "sample"
    files = [folder / file.relative_to(corpus.folder) for file in sample_of(corpus, SAMPLE)]
    copied([corpus.folder / file.relative_to(folder) for file in files], corpus.folder, folder)
    slower = list(others(tools, folder, files, work)) if tools else []
    commands = [lintrain("lintrain, cold", folder, "--jobs", "1"), floor(files, work)]
    commands += [ruff("ruff, cold", folder, "--no-cache"), *slower]
    title = f"A sample: {len(files)} scripts that name a library of training, {sum(map(lines_of, files))} lines"
    costs = compare(title, commands, rounds)
    cold = costs["lintrain, cold"]
    yield Bound("the sample, cold, against ast.parse", paired_ratio(cold, costs["ast.parse"], "cpu"))
    for command in slower:
        ratio = paired_ratio(costs[command.name], cold, "cpu")
        yield Bound(f"{command.name} against lintrain", ratio, least=LEAST_TIMES.get(command.name, 0))


def measure_notebooks(corpus: Corpus, rounds: int, work: Path) -> Iterator[Bound]:
    """The notebooks alone."""
    if not corpus.notebooks:
        print("\nthe tree has no notebooks")
        return
    folder = copied(corpus.notebooks, corpus.folder, work / "notebooks")
    commands = [lintrain("lintrain, cold", folder, "--jobs", "1"), floor(corpus.notebooks, work)]
    cold, parse = compare(f"{len(corpus.notebooks)} notebooks", commands, rounds).values()
    yield Bound("notebooks, cold, against their parsing alone", paired_ratio(cold, parse, "cpu"), most=1.92)
