"""The files of this folder, read.

A file has a title that begins with its number, the command, the script with the mistake under `## Planted: RULE`, and
its twin under `## Sound`. Lines of a quotation are texts that the report has to contain. `also.toml` has the questions
that pages of rules and reports of one sound script answer.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
TITLE = re.compile(r"\A# (\d+) (.+)\n")
COMMAND = re.compile(r"^    (?:lintrain (.+)|(python .+))$", re.MULTILINE)
PART = re.compile(r"^## (Planted|Sound)(?:: ([a-z0-9-]+))?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
SCRIPT = re.compile(r"```python\n(.*?)```", re.DOTALL)
QUOTED = re.compile(r"^> (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Part:
    """One of the two scripts: its rule where it has a mistake that is found, and what its report has to contain."""

    script: str
    rule: str | None
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One file: what a user asks for, and how it is shown."""

    name: str
    number: int
    title: str
    command: tuple[str, ...]
    planted: Part
    sound: Part

    @property
    def shown_command(self) -> str:
        """The command as a user types it."""
        words = " ".join(self.command)
        return words if self.trains else f"lintrain {words}"

    @property
    def trains(self) -> bool:
        """Whether the script itself runs to its end, watched by a line in it."""
        return self.command[0] == "python"

    @property
    def checks_text(self) -> bool:
        """Whether the mistake is found in the text, without a run."""
        return self.command[0] == "check"


@dataclass(frozen=True, slots=True)
class Question:
    """What a user asks for about a part of the training, and the rules and texts with which a command answers."""

    about: str
    asks: str
    command: str
    rules: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """What follows `lintrain` in the command."""
        return shlex.split(self.command)[1:]


def questions() -> list[Question]:
    """Every entry of `also.toml`, in its order."""
    entries = tomllib.loads((FOLDER / "also.toml").read_text(encoding="utf-8"))["question"]
    return [
        Question(one["about"], one["asks"], one["command"], tuple(one.get("rules", ())), tuple(one.get("texts", ())))
        for one in entries
    ]


def diagnoses() -> list[Diagnosis]:
    """Every file of the folder, by its number."""
    return [read_diagnosis(path) for path in sorted(FOLDER.glob("[0-9]*.md"))]


def read_diagnosis(path: Path) -> Diagnosis:
    """One file; raises ValueError if it lacks a part."""
    text = path.read_text(encoding="utf-8")
    title, command = TITLE.search(text), COMMAND.search(text)
    parts = {match[1]: _part(match) for match in PART.finditer(text)}
    if title is None or command is None or set(parts) != {"Planted", "Sound"}:
        raise ValueError(f"{path.name} has no title with a number, no command, or not its two scripts")
    return Diagnosis(
        path.stem,
        int(title[1]),
        title[2],
        tuple(shlex.split(command[1] or command[2])),
        parts["Planted"],
        parts["Sound"],
    )


def _part(match: re.Match[str]) -> Part:
    script = SCRIPT.search(match[3])
    if script is None:
        raise ValueError(f"{match[1]} has no script")
    rest = match[3].replace(script[0], "")
    return Part(script[1], match[2], tuple(QUOTED.findall(rest)))
