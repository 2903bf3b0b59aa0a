"""Attacks on `a-file-has-a-budget`: code of a rule, a helper, a fix or the reader that never ends on a file.

Such code is planted into lintrain's own process, since no input that is known makes it run for ever.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from subprocess import DEVNULL, PIPE

from tests.attacks.attack import attack
from tests.attacks.commands import ROOT, Ended, run
from tests.support.language_client import LanguageClient

SCRIPT = """
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.utils.data.TensorDataset(torch.rand(8, 4), torch.zeros(8).long())
for x, y in torch.utils.data.DataLoader(rows, batch_size=4):
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""
PLANT = """
import itertools, re, sys
import lintrain.check.one_file as one_file
import lintrain.pipeline.record as pipeline
import lintrain.read as reader
from lintrain.rulebook import load_rules

one_file.SECONDS = 0.5
rule = next(rule for rule in load_rules() if rule.name == "missing-zero-grad")
kind = type(rule.rule)
check, fix = kind.check, kind.fix

def spin(*_):
    while True:
        pass

{planted}

from lintrain.cli import main
sys.argv[0] = "lintrain"
main()
"""
PLANTED = {
    "rule": "kind.check = spin",
    "rule-behind-its-finding": "kind.check = lambda self, read: (yield from (*check(self, read), *spin()))",
    "rule-that-catches-all": """
def swallow(*_):
    while True:
        try:
            spin()
        except Exception:
            pass
kind.check = swallow
""",
    "rule-of-many-patterns": "kind.check = lambda *_: [re.match('(a+)+$', 'a' * 18 + 'b') for _ in itertools.count()]",
    "rule-that-recurses": """
def deep(*_):
    while True:
        try:
            deep()
        except RecursionError:
            pass
kind.check = deep
""",
    "rule-that-looks-at-everything": """
pipeline.MOST_STEPS = 10_000
def look(self, read):
    while True:
        read.events_in(read.loops[0])
        read.names_of(None)
kind.check = look
""",
    "helper": "pipeline.Pipeline.events_in = pipeline.Pipeline.acts = spin",
    "reader": "reader.dispatch.execute_block = spin",
    "uncalled-functions": "reader._read_uncalled = spin",
    "fix": "kind.fix = spin",
    "places-of-training": "one_file.training_locations = spin",
    "choice-of-rules": "one_file.rules_concerned = spin",
}


def planted(folder: Path, code: str, *words: str, stdin: bytes | None = None) -> Ended:
    """Run lintrain with such code in it."""
    (folder / "train.py").write_text(SCRIPT)
    with tempfile.TemporaryDirectory(prefix="lintrain-attack-") as home:
        variables = {"HOME": home, "LINTRAIN_CACHE_DIR": f"{home}/cache", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-P", "-c", PLANT.format(planted=code), *words]
        return run(folder, command, {**os.environ, **variables, "COLUMNS": "200"}, stdin, 60)


def assert_named(ended: Ended, text: str) -> None:
    assert ended.code in (0, 1), (ended.code, ended.text[-2000:])
    assert ended.cpu_seconds < 6, f"{ended.cpu_seconds:.1f} s of CPU"
    assert "not judged" in text, text[-2000:]
    assert "missing-zero-grad" in text, text[-2000:]
    assert "Traceback" not in ended.text, ended.text[-2000:]


@attack("a-file-has-a-budget", cases=PLANTED)
def endless(folder: Path, code: str) -> None:
    """Whatever never ends is ended, and the rules that did not judge the file are named."""
    ended = planted(folder, code, "check", "--no-cache", "--output-format", "json", "--select", "ALL", "train.py")
    assert_named(ended, ended.text)
    assert "missing-zero-grad" in {one["rule"] for one in json.loads(ended.out)["unjudged"]}


@attack("a-file-has-a-budget", cases=("missing-zero-grad", "undefined-name"))
def rules_that_had_judged(folder: Path, name: str) -> None:
    """What was found before the time was over is reported."""
    later = 'next(r for r in load_rules() if r.name == "wrong-step-order").rule.__class__.check = spin'
    (folder / "train.py").write_text(SCRIPT)
    ended = planted(folder, later, "check", "--no-cache", "--output-format", "json", "train.py")
    report = json.loads(ended.out)
    assert "missing-zero-grad" in {one["rule"] for one in report["findings"]}, report
    assert "wrong-step-order" in {one["rule"] for one in report["unjudged"]}, report
    assert name not in {one["rule"] for one in report["unjudged"]}, report


FORMS = ("sarif", "junit", "github", "azure", "html")
"""These name the rules in the report itself; the others have no room for it, and standard error says it for all."""


@attack("a-file-has-a-budget", cases=FORMS)
def form_of_report(folder: Path, form: str) -> None:
    """Each form that has room for it."""
    ended = planted(folder, "kind.check = spin", "check", "--no-cache", "--output-format", form, "train.py")
    assert_named(ended, ended.out.decode())
    assert b"not judged" in ended.errors


@attack("a-file-has-a-budget", cases=("concise", "full", "grouped", "json-lines", "gitlab", "pylint", "rdjson"))
def form_without_room(folder: Path, form: str) -> None:
    """For the others, standard error says it."""
    ended = planted(folder, "kind.check = spin", "check", "--no-cache", "--output-format", form, "train.py")
    assert_named(ended, ended.errors.decode())


@attack("a-file-has-a-budget")
def unjudged_and_cached(folder: Path) -> None:
    """A file whose time was over is judged anew the next time."""
    counting = "import pathlib; kind.check = lambda *_: [pathlib.Path('asked').open('a').write('x'), spin()]"
    (folder / "train.py").write_text(SCRIPT)
    variables = {**os.environ, "LINTRAIN_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    for _ in range(2):
        command = [sys.executable, "-P", "-c", PLANT.format(planted=counting), "check", "train.py"]
        assert b"not judged" in run(folder, command, variables, None, 60).errors
    assert (folder / "asked").read_text() == "xx"


@attack("a-file-has-a-budget", cases={"write": ("--fix", "--unsafe-fixes"), "show": ("--diff", "--unsafe-fixes")})
def fix_of_a_file_half_judged(folder: Path, words: tuple[str, ...]) -> None:
    """A file that not all rules have judged keeps its text."""
    later = 'next(r for r in load_rules() if r.name == "wrong-step-order").rule.__class__.check = spin'
    ended = planted(folder, later, "check", "--no-cache", *words, "train.py")
    assert ended.cpu_seconds < 6
    assert (folder / "train.py").read_text() == SCRIPT
    assert b"no fix was written" in ended.errors, ended.text


@attack("a-file-has-a-budget")
def baseline_of_a_file_half_judged(folder: Path) -> None:
    """What a baseline knows of such a file stays in it."""
    planted(folder, "", "baseline", "--baseline", "b.json")
    before = (folder / "b.json").read_text()
    assert "missing-zero-grad" in before
    planted(folder, "kind.check = spin", "baseline", "--prune", "--baseline", "b.json")
    assert (folder / "b.json").read_text() == before


@attack("a-file-has-a-budget")
def edit_of_a_document(folder: Path) -> None:
    """The server ends such a rule at each edit, says so in the document, and answers on."""
    (folder / "train.py").write_text(SCRIPT)
    code = PLANT.format(planted="kind.check = spin")
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-P", "-c", code, "server"]
    with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=variables) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        client = LanguageClient(server.stdout, server.stdin)
        client.start([folder])
        uri = client.open(folder / "train.py")
        for version in (1, 2, 3):
            found = client.diagnostics(uri, version)
            assert [each["message"] for each in found if each["code"] == "not-judged"], found
            client.change(uri, version + 1, {"text": f"{SCRIPT}# {version}\n"})
        client.stop()
