"""What lintrain finds in configuration files of public repositories: `python -m benchmarks.configs CLONES`.

CLONES is a folder that holds clones as `owner/name`; those of `repositories.csv` are read, at the commits that it
names. The command prints three things. *As they are*: a sample of the configurations, drawn by the digest of their
names, with the findings that `findings.csv` judges (true, debatable, false), and how many nobody has judged. *Planted*:
the mistakes of `planted.csv`, one in each file, which is then checked alone in an empty folder: how many are reported
at their line. *Others*: YAML and JSON files that are no training configurations, none of which may be taken for one.

The exit code is 1 when a clone is missing or at another commit, a finding of the sample is false or not judged, fewer
than 90 % of the planted mistakes are found, or a file of another kind was read.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.real_code import commit_of
from lintrain.source.configuration import Configuration
from lintrain.source.reading import CONFIGURED, UnreadableError, read_file

HERE = Path(__file__).parent
SAMPLED = 150
LEAST_FOUND = 0.9
LARGEST = 64 * 1024
OTHER_KINDS = (".github/", "docker-compose", "compose.y", "Chart.yaml", "charts/", ".pre-commit-config", "package.json")
"""Paths of files that certainly start no training."""


@dataclass(eq=False)
class Found:
    """The files of all clones: configurations by kind, and the number of others."""

    configurations: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """Repository, file and kind."""
    others: int = 0
    taken: list[str] = field(default_factory=list[str])
    """Files of other kinds that were taken for a configuration."""
    troubles: list[str] = field(default_factory=list[str])


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the clones and print the three tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.configs", description=__doc__.partition("\n")[0])
    parser.add_argument("clones", type=Path)
    clones: Path = parser.parse_args(arguments).clones
    found = files_of(clones)
    kinds = Counter(kind for _, _, kind in found.configurations)
    print(
        f"{len(found.configurations)} configurations: {', '.join(f'{kind} {n}' for kind, n in sorted(kinds.items()))}"
    )
    is_good = print_sample(clones, sample_of(found))
    is_good &= print_planted(clones)
    print(f"{found.others} other YAML and JSON files, {len(found.taken)} of a foreign kind read: {found.taken}")
    print("\n".join(found.troubles))
    return 0 if is_good and not found.taken and not found.troubles else 1


def files_of(clones: Path) -> Found:
    """All YAML and JSON files of the clones, sorted by what they are."""
    found = Found()
    for row in _rows("repositories.csv"):
        folder, name = clones / row["repository"], row["repository"]
        at = commit_of(folder) if folder.is_dir() else ""
        if at[:12] != row["commit"]:
            found.troubles.append(f"{name}: at {at or 'no commit'}, not {row['commit']}")
            continue
        for file in sorted(each for each in folder.rglob("*") if each.suffix in CONFIGURED and each.is_file()):
            if ".git" not in file.relative_to(folder).parts[:1]:
                _sort(found, name, folder, file)
    return found


def _sort(found: Found, name: str, folder: Path, file: Path) -> None:
    path = file.relative_to(folder).as_posix()
    parts = _parts(file) if file.stat().st_size <= LARGEST else ""
    if not parts:
        found.others += 1
    else:
        found.configurations.append((name, path, parts))
        if any(each in path for each in OTHER_KINDS):
            found.taken.append(f"{name}/{path}")


def _parts(file: Path) -> str:
    try:
        source = read_file(str(file))
    except UnreadableError:
        return ""
    return source.parts[0].kind.name if isinstance(source, Configuration) and source.parts else ""


def sample_of(found: Found) -> list[tuple[str, str]]:
    """The configurations that are checked as they are."""
    named = [(name, path) for name, path, _ in found.configurations]
    return sorted(named, key=lambda each: hashlib.sha256("/".join(each).encode()).hexdigest())[:SAMPLED]


def print_sample(clones: Path, sample: list[tuple[str, str]]) -> bool:
    """Check a sample and compare the findings with the judgements."""
    verdicts = {
        (row["repository"], row["file"], row["line"], row["rule"]): row["verdict"] for row in _rows("findings.csv")
    }
    counts = Counter[str]()
    for name in sorted({name for name, _ in sample}):
        files = [path for each, path in sample if each == name]
        for file, line, rule, message in findings(clones / name, files):
            verdict = verdicts.get((name, file, line, rule), "not judged")
            counts[verdict] += 1
            if verdict in ("not judged", "false"):
                print(f"{verdict}: {name}/{file}:{line} {rule}: {message}")
    print(f"as they are: {len(sample)} files, findings: {dict(counts) or 'none'}")
    return not counts["false"] and not counts["not judged"]


def print_planted(clones: Path) -> bool:
    """Put each mistake in, and check the file alone."""
    rows = list(_rows("planted.csv"))
    missed = [row for row in rows if not is_found(clones, row)]
    for row in missed:
        print(f"not found: {row['repository']}/{row['file']}:{row['line']} {row['old']} -> {row['new']}")
    print(f"planted: {len(rows) - len(missed)} of {len(rows)} found at their line")
    return len(missed) <= (1 - LEAST_FOUND) * len(rows)


def is_found(clones: Path, row: dict[str, str]) -> bool:
    """Whether a mistake is reported at its line, where nothing was reported before."""
    text = (clones / row["repository"] / row["file"]).read_text(encoding="utf-8")
    old, new = (row[name].replace("\\n", "\n") for name in ("old", "new"))
    before = text.split("\n")
    line = int(row["line"])
    at = line - 1 - new.count("\n")
    lines = [*before[:at], before[at].replace(old, new, 1), *before[at + 1 :]]
    return line in reported(row["file"], "\n".join(lines))


def reported(name: str, text: str) -> set[int]:
    """The lines with findings of a file that is alone in a folder."""
    with tempfile.TemporaryDirectory() as passing:
        file = Path(passing) / Path(name).name
        file.write_text(text, encoding="utf-8")
        return {int(line) for _, line, _, _ in findings(Path(passing), [file.name])}


def findings(folder: Path, files: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """File, line, rule and message of each finding."""
    command = [sys.executable, "-m", "lintrain", "check", "--no-cache", "--output-format", "json", *files]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout
    document = json.loads(printed) if printed.strip() else {"files": []}
    for each in document["findings"]:
        location = each["location"]
        yield location["path"], str(location["line"]), each["rule"], each["message"]


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (HERE / name).open(newline="", encoding="utf-8") as table:
        yield from csv.DictReader(table)


if __name__ == "__main__":
    sys.exit(main())
