"""Attacks by what lintrain prints: names of files, settings, branches and words of the command line."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from pathlib import Path

from lintrain.settings.settings import FORMATS
from tests.attacks.attack import attack
from tests.attacks.commands import Ended, lintrain

BAD = "import torch\nprint(nowhere)\n"
NAMES = {
    "workflow-command": b"a\n::add-mask::x\nb.py",
    "workflow-command-first": b"::add-mask::x.py",
    "old-workflow-command": b"##[add-matcher]x.py",
    "azure-command": b"x##vso[task.setvariable variable=PATH]y.py",
    "carriage-return": b"a\r::add-mask::x.py",
    "title": b"\x1b]0;owned\x07.py",
    "colour": b"\x1b[8mhidden.py",
    "c1-sequence": "\x9b2J.py".encode(),
    "delete": b"a\x7f\x7f.py",
    "bidirectional": "a\u202eyp.x.py".encode(),
    "line-separator": "a\u2028::add-mask::x.py".encode(),
    "next-line": "a\x85::add-mask::x.py".encode(),
    "invisible": "a\U000e0041\u200b.py".encode(),
    "not-utf-8": b"a\xff\xfe.py",
    "vertical-tab": b"a\x0b\x0c::add-mask::x.py",
}
COMMAND = re.compile(r"^\s*::", re.MULTILINE)
FOR_RUNNERS = ("github", "azure")
"""Forms whose lines are commands; the one that may be there is lintrain's own."""


def named(folder: Path, name: bytes) -> None:
    Path(os.fsdecode(bytes(folder) + b"/" + name)).write_text(BAD)


def assert_inert(ended: Ended, form: str = "") -> None:
    """Nothing that was printed steers a terminal, hides text or is a command of a CI runner."""
    for raw in (ended.out, ended.errors):
        text = raw.decode()  # every form is UTF-8
        steering = [
            sign for sign in text if unicodedata.category(sign) in ("Cc", "Cf", "Zl", "Zp") and sign not in "\n\t"
        ]
        assert not steering, (form, steering, text)
        lines = [
            line
            for line in re.split(r"[\n\r]", text)
            if not line.startswith(("::error title=lintrain", "##vso[task.logissue"))
        ]
        assert not any(COMMAND.search(line) for line in lines), (form, text)
        assert form in ("json", "json-lines", "sarif", "rdjson", "gitlab", "junit", "html") or not any(
            "##[" in line or "##vso[" in line for line in lines
        ), (form, text)


@attack("output-is-inert", cases=NAMES)
def file_named(folder: Path, name: bytes) -> None:
    """A file name that a terminal or a CI runner would carry out, in every form of the report."""
    named(folder, name)
    for form in FORMATS:
        ended = lintrain(folder, "check", "--output-format", form)
        assert ended.code == 1, (form, ended.text)
        assert_inert(ended, form)
        if form in ("json", "sarif", "rdjson", "gitlab"):
            json.loads(ended.out)


@attack("output-is-inert", cases=["--show-files", "--verbose", "--statistics", "--diff"])
def file_named_with(folder: Path, option: str) -> None:
    """The same with the options that print more."""
    for name in NAMES.values():
        named(folder, name)
    assert_inert(lintrain(folder, "check", option, "--isolated"))


@attack(
    "output-is-inert",
    cases={
        "escape-in-exclude": ('exclude = ["\\u001b]0;owned\\u0007"]', ("--show-settings",)),
        "escape-in-key": ('"\\u001b]0;x" = 1', ()),
        "escape-in-value": ('output-format = "\\u001b[2J\\u009b"', ()),
        "command-in-level": ('[levels]\n"a\\n::add-mask::x" = "nothing"', ()),
        "escape-in-baseline": ('baseline = "\\u001b]0;x"', ()),
        "escape-in-rule": ('select = ["\\u001b[8m\\n::stop-commands::x"]', ()),
    },
)
def settings_hold(folder: Path, case: tuple[str, tuple[str, ...]]) -> None:
    """Settings of a project that reach the terminal through a message."""
    settings, words = case
    (folder / "lintrain.toml").write_text(settings + "\n")
    (folder / "train.py").write_text(BAD)
    ended = lintrain(folder, "check", *words)
    assert ended.code in (0, 1, 2), ended.text
    assert_inert(ended)


HOSTILE_WORD = "\x1b]0;owned\x07\n::add-mask::x"


@attack(
    "output-is-inert",
    cases={
        "branch": ("check", "--changed-since", HOSTILE_WORD),
        "command": (HOSTILE_WORD,),
        "option": ("check", f"--{HOSTILE_WORD}"),
        "path": ("check", HOSTILE_WORD),
        "rule": ("explain", HOSTILE_WORD),
        "script": ("probe", HOSTILE_WORD),
        "module": ("probe", "-m", HOSTILE_WORD),
        "evidence": ("judge", HOSTILE_WORD),
    },
)
def command_line_holds(folder: Path, words: tuple[str, ...]) -> None:
    """A word that a script put together from a name of somebody else's branch or file."""
    ended = lintrain(folder, *words)
    assert ended.code in (2, 3), ended.text
    assert_inert(ended)


@attack(
    "links-lead-to-sites",
    cases=[
        "file:////host/share",
        "file:///etc",
        "https://user:secret@example.invalid/",
        "https://",
        "https:example.invalid",
        "javascript:alert(1)",
        "https://example.invalid/\\u001b]8;;x",
        "https://example.invalid/\\u202e",
        "https://example.invalid/)![x](https://x.invalid/p.png",
        "https://[",
    ],
)
def documentation_address(folder: Path, address: str) -> None:
    """An address of documentation that would be more than a link to a site."""
    (folder / "lintrain.toml").write_text(f'documentation = "{address}"\n')
    (folder / "train.py").write_text(BAD)
    ended = lintrain(folder, "check")
    assert ended.code == 2, ended.text
    assert "`documentation`" in ended.text
    assert_inert(ended)
