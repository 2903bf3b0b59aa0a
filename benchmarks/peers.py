"""lintrain beside other linters on public training code: `python -m benchmarks.peers CLONES --tools FOLDER`.

CLONES holds clones as `owner/name`; FOLDER is where the peers' programs lie (`pip install torchfix pylint ruff` into an
environment: its `bin`). Each reads every script of the repositories that `real-code.csv` speaks of, with all of its
rules. A mistake that was judged true counts as found by a peer where it reports the same line for the same reason
(`SAME` lists which of its codes mean which mistake); all else that it says is counted as well. Notebooks are left out,
for only some of the peers read them. With `--kept FOLDER`, what the peers said stays there for the next time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.real_code import Judgement, read_clone, read_judgements

SAME: Mapping[str, frozenset[str]] = {
    "undefined-name": frozenset({"F821", "E0602"}),
    "syntax-error": frozenset({"invalid-syntax", "E0001"}),
    "removed-name": frozenset({"E0611", "E1101", "TOR001", "TOR003", "TOR004"}),
    "removed-argument": frozenset({"E1123"}),
    "unknown-argument": frozenset({"E1123"}),
    "discarded-map": frozenset({"W0106", "B018"}),
}
"""The peers' codes that mean the same as a rule. Of all other rules no peer has a like."""


@dataclass(frozen=True, slots=True)
class Remark:
    """One finding of a peer."""

    file: str
    line: int
    code: str


@dataclass(frozen=True, slots=True)
class Peer:
    """A linter: how to call it, and how to read what it says."""

    name: str
    command: Sequence[str]
    read: Callable[[str], Iterator[Remark]]


def read_ruff(said: str) -> Iterator[Remark]:
    """Ruff's JSON."""
    found: list[dict[str, Any]] = json.loads(said)  # Any: what JSON holds
    for one in found:
        yield Remark(one["filename"], one["location"]["row"], str(one["code"] or "invalid-syntax"))


def read_pylint(said: str) -> Iterator[Remark]:
    """Pylint's JSON."""
    found: list[dict[str, Any]] = json.loads(said or "[]")
    for one in found:
        yield Remark(one["path"], one["line"], one["message-id"])


def read_torchfix(said: str) -> Iterator[Remark]:
    """TorchFix's lines, `path:line:column: CODE text`, between the differences that it prints too."""
    for line in said.splitlines():
        parts = line.split(":", 3)
        if len(parts) == 4 and parts[1].isdigit() and parts[3].lstrip().startswith("TOR"):
            yield Remark(parts[0], int(parts[1]), parts[3].split()[0])


RUFF = ("ruff", "check", "--isolated", "--select", "ALL", "--no-cache", "--output-format=json")
PEERS = (
    Peer("TorchFix", ("torchfix", "--select", "ALL", "-j", "1"), read_torchfix),
    Peer("ruff (all rules)", RUFF, read_ruff),
    Peer("pylint", ("pylint", "-f", "json", "--disable=duplicate-code"), read_pylint),
)
AT_ONCE = 100
"""Files given to a peer in one call."""


def said_of(peer: Peer, tools: Path, folder: Path, kept: Path | None) -> tuple[Remark, ...]:
    """All that a peer says of the scripts of a clone: asked now, or as it was kept."""
    file = kept / f"{peer.command[0]}-{folder.parent.name}-{folder.name}.json" if kept else None
    if file and file.is_file():
        known: dict[str, Any] = json.loads(file.read_text())
        return tuple(Remark(*each) for each in known["remarks"])
    said = tuple(remarks_of(peer, tools, folder))
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"remarks": [[each.file, each.line, each.code] for each in said]}))
    return said


def remarks_of(peer: Peer, tools: Path, folder: Path) -> Iterator[Remark]:
    """Ask a peer about the scripts of a clone; paths come as lintrain writes them."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.py") if path.is_file())
    for start in range(0, len(files), AT_ONCE):
        command = [str(tools / peer.command[0]), *peer.command[1:], *files[start : start + AT_ONCE]]
        told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        for remark in peer.read(told.stdout):
            path = Path(remark.file)
            name = path.relative_to(folder.resolve()).as_posix() if path.is_absolute() else path.as_posix()
            yield Remark(name, remark.line, remark.code)


def main() -> int:
    """Print a line on each linter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--tools", type=Path, required=True)
    parser.add_argument("--kept", type=Path, help="where what the peers said is kept")
    parser.add_argument("--peer", action="append", help="only these")
    given = parser.parse_args()
    judged = [one for one in read_judgements() if one.verdict == "true" and one.file.endswith(".py")]
    repositories = [name for name in dict.fromkeys(one.repository for one in judged) if (given.clones / name).is_dir()]
    present = [one for one in judged if one.repository in repositories]
    print(f"{len(repositories)} repositories, {len(present)} mistakes that were judged true, scripts only\n")
    print(f"{'linter':18} {'findings':>9} {'mistakes found':>15} {'of training':>12}")
    print_row("lintrain", *count_ours(given.clones, repositories, present))
    for peer in PEERS:
        if not given.peer or peer.name in given.peer:
            print_row(peer.name, *count_theirs(peer, given, repositories, present))
    return 0


BEYOND_TRAINING = frozenset({"undefined-name", "syntax-error"})
"""Findings that are about Python, not about training."""


def print_row(name: str, findings: int, found: Sequence[Judgement]) -> None:
    """One line of the table."""
    of_training = sum(one.rule not in BEYOND_TRAINING for one in found)
    print(f"{name:18} {findings:9} {len(found):15} {of_training:12}", flush=True)


def count_ours(clones: Path, repositories: Sequence[str], judged: Sequence[Judgement]) -> tuple[int, list[Judgement]]:
    """How many findings lintrain has, and which of the mistakes are among them."""
    rows = [row for name in repositories for row, _ in read_clone(clones, name).found if row.file.endswith(".py")]
    claims = {row.claim for row in rows}
    return len(rows), [one for one in judged if one.claim in claims]


def count_theirs(
    peer: Peer, given: argparse.Namespace, repositories: Sequence[str], judged: Sequence[Judgement]
) -> tuple[int, list[Judgement]]:
    """The same of a peer."""
    said = {name: said_of(peer, given.tools, given.clones / name, given.kept) for name in repositories}
    claims = {(name, one.file, one.line, one.code) for name, each in said.items() for one in each}
    found = [
        one
        for one in judged
        if any((one.repository, one.file, one.line, code) in claims for code in SAME.get(one.rule, ()))
    ]
    return sum(map(len, said.values())), found


if __name__ == "__main__":
    sys.exit(main())
