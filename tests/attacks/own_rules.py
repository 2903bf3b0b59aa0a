"""Attacks on trust: rules that a repository brings run nothing until their user has trusted this very content."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import marshal
import os
import shutil
import struct
from collections.abc import Mapping
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import ROOT, lintrain

HOSTILE = '"""A page."""\nfrom pathlib import Path\nPath({mark!r}).touch()\n'
COMMANDS = {"check": ("check",), "check-fix": ("check", "--fix"), "explain": ("explain", "hostile")}
MORE_COMMANDS = {
    "check-settings": ("check", "--show-settings"),
    "baseline": ("baseline",),
    "rules": ("rules",),
    "list": ("trust", "--list"),
    "revoke": ("trust", "--revoke"),
    "init": ("init", "--dry-run"),
}


def project(folder: Path) -> tuple[Path, Path]:
    """A repository with a hostile rule, and the file that the rule would write."""
    top, mark = folder / "project", folder / "ran"
    (top / "lint").mkdir(parents=True)
    (top / "train.py").write_text("import torch\ntorch.nn.Linear(2, 2)\nloss.backward()\n")
    (top / "lintrain.toml").write_text('rules = ["lint"]\n')
    (top / "lint" / "hostile.py").write_text(HOSTILE.format(mark=str(mark)))
    return top, mark


def trusted_record(top: Path) -> str:
    """What the record would have to say for the hostile rule to run."""
    rule = top / "lint" / "hostile.py"
    digest = hashlib.sha256(rule.read_bytes()).hexdigest()
    return json.dumps({"format": 1, "trusted": {os.path.realpath(rule): digest}})


def asked(top: Path, folder: Path, *words: str, more: Mapping[str, str] | None = None) -> str:
    """What a command says, with a home that lasts."""
    (folder / "home").mkdir(exist_ok=True)
    variables = {"HOME": str(folder / "home"), "XDG_DATA_HOME": "", **(more or {})}
    return lintrain(top, *words, variables=variables).text


@attack("own-rules-need-trust", cases=COMMANDS)
def untrusted_rule(folder: Path, words: tuple[str, ...]) -> None:
    """No command runs a rule that is not trusted."""
    top, mark = project(folder)
    text = asked(top, folder, *words)
    assert not mark.exists(), text
    assert "Traceback" not in text, text


@attack("own-rules-need-trust", cases=MORE_COMMANDS, slow=True)
def untrusted_rule_in(folder: Path, words: tuple[str, ...]) -> None:
    """The commands that read less."""
    untrusted_rule(folder, words)


@attack("own-rules-need-trust")
def the_attack_would_work(folder: Path) -> None:
    """The rule runs once it is trusted: otherwise the other attacks would show nothing."""
    top, mark = project(folder)
    asked(top, folder, "trust")
    asked(top, folder, "check")
    assert mark.exists()


RECORDS = {
    "in-the-project": ("project/.local/share/lintrain/trusted-rules.json", {}),
    "in-a-relative-data-folder": ("project/data/lintrain/trusted-rules.json", {"XDG_DATA_HOME": "data"}),
    "beside-the-configuration": ("project/trusted-rules.json", {}),
    "in-the-cache": ("project/.lintrain_cache/trusted-rules.json", {}),
}


@attack("own-rules-need-trust", cases=RECORDS)
def record_of_trust(folder: Path, where: tuple[str, Mapping[str, str]]) -> None:
    """A record that the repository brings is not read."""
    top, mark = project(folder)
    file = folder / where[0]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(trusted_record(top))
    text = asked(top, folder, "check", more=where[1])
    assert not mark.exists(), text
    assert "is not trusted" in text


@attack("own-rules-need-trust", cases={"folder": 0o777, "group": 0o770})
def record_that_others_may_write(folder: Path, mode: int) -> None:
    """A record in a folder of the user that others may write to is not believed."""
    top, mark = project(folder)
    record = folder / "home" / ".local" / "share" / "lintrain" / "trusted-rules.json"
    record.parent.mkdir(parents=True)
    record.write_text(trusted_record(top))
    record.parent.chmod(mode)
    text = asked(top, folder, "check")
    assert not mark.exists(), text


CHANGES = ("content", "other-file", "folder-exchanged", "link-exchanged", "compiled", "helper-beside")


@attack("own-rules-need-trust", cases=CHANGES)
def trusted_rule_with_other(folder: Path, change: str) -> None:
    """A rule was trusted; what the repository changes afterwards does not run."""
    top, mark = project(folder)
    rule, hostile = top / "lint" / "good.py", top / "lint" / "hostile.py"
    text = (ROOT / "rules" / "loop" / "missing_zero_grad.py").read_text()
    evil = hostile.read_text()
    hostile.unlink()
    rule.write_text(f"{text}\ntry:\n    import helper_of_rules\nexcept ImportError:\n    pass\n")
    asked(top, folder, "trust")
    _change(change, top, rule, evil)
    said = asked(top, folder, "check")
    assert not mark.exists(), said


def _change(change: str, top: Path, rule: Path, evil: str) -> None:
    match change:
        case "content":
            rule.write_text(evil)
        case "other-file":
            (top / "lint" / "another.py").write_text(evil)
        case "folder-exchanged":
            shutil.move(rule.parent, top / "before")
            rule.parent.mkdir()
            rule.write_text(evil)
        case "link-exchanged":
            (top / "evil.py").write_text(evil)
            rule.unlink()
            rule.symlink_to(top / "evil.py")
        case "compiled":
            _compiled(rule, evil)
        case _:
            (top / "helper_of_rules.py").write_text(evil)
            (top / "lint" / "helper_of_rules.py").write_text(evil)


def _compiled(rule: Path, evil: str) -> None:
    """Other bytecode where Python looks for that of the rule, with the time and size of its source."""
    state = rule.stat()
    head = importlib.util.MAGIC_NUMBER + struct.pack("<LLL", 0, int(state.st_mtime), state.st_size)
    compiled = Path(importlib.util.cache_from_source(str(rule)))
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(head + marshal.dumps(compile(evil, str(rule), "exec")))


@attack("own-rules-need-trust", cases={"pipe": "pipe", "device": "/dev/zero", "huge": "huge"})
def rule_that_is_no_file(folder: Path, kind: str) -> None:
    """A rule file that never ends is not read to its end, and not trusted."""
    top, _ = project(folder)
    rule = top / "lint" / "endless.py"
    if kind == "pipe":
        os.mkfifo(rule)
    elif kind == "huge":
        with rule.open("wb") as file:
            file.truncate(1 << 32)
    else:
        rule.symlink_to(kind)
    for words in (("check",), ("trust",)):
        text = asked(top, folder, *words)
        assert "Traceback" not in text, text
