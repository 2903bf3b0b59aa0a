"""The command that editors start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.language_client import ROOT, start_process
from tests.test_server import LOOP, rules

WITHOUT_PYGLS = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pygls", "lsprotocol"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name.partition(".")[0])

sys.meta_path.insert(0, Absent())
sys.argv = ["lintrain", "server"]
from lintrain.cli import main
main()
"""

PRINTS = """
import sys
from lintrain.check import check_run
before = check_run.CheckRun.check
def check(self):
    print("a rule that prints")
    return before(self)
check_run.CheckRun.check = check
"""


def test_what_is_printed_does_not_get_between_the_messages(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(PRINTS)
    (tmp_path / "train.py").write_text(LOOP)
    process, client = start_process(tmp_path, {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    told = client.start([tmp_path])
    assert told["serverInfo"]["name"] == "lintrain"
    assert rules(client.diagnostics(client.open(tmp_path / "train.py"))) == ["missing-zero-grad"]
    client.stop()
    assert process.wait(30) == 0
    assert process.stderr is not None
    with process.stderr as said:
        assert said.read().decode().splitlines() == ["a rule that prints"]


def test_without_pygls_the_command_says_what_brings_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYGLS],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    reason, _, command = done.stderr.partition(": `")
    assert reason == "lintrain: the server needs pygls"
    assert command.startswith(f"{sys.executable} -m pip install ")
    assert "pygls" in command


def test_a_server_that_starts_loads_nothing_of_what_a_probe_measures() -> None:
    code = "import sys; from lintrain.server.features import make_server; make_server(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "lintrain.server.probes" in loaded
    assert not [each for each in loaded if each.startswith(("lintrain.evidence.", "lintrain.verdicts."))]


OPENS = """
import sys, time
from pathlib import Path
from lintrain.check import check_run
from lintrain.rulebook import find_rules
from tests.support.language_client import start_inside

loaded = []
before = check_run.CheckRun.check
def check(self):
    loaded.append({rule.name for rule in find_rules() if rule.is_loaded})
    outcome = before(self)
    loaded.append({rule.name for rule in find_rules() if rule.is_loaded})
    return outcome
check_run.CheckRun.check = check
client = start_inside()
client.start([Path(sys.argv[1])])
client.diagnostics(client.open(Path(sys.argv[1]) / "train.py"))
end = time.monotonic() + 60
while not all(rule.is_loaded for rule in find_rules()) and time.monotonic() < end:
    time.sleep(0.02)
client.stop()
first, second = loaded[:2]
print(len(first), "missing-zero-grad" in second, len(second) < len(find_rules()))
print(all(rule.is_loaded for rule in find_rules()))
"""


def test_the_first_check_loads_the_rules_that_it_needs_and_the_others_are_loaded_after_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    done = subprocess.run(
        [sys.executable, "-c", OPENS, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["0 True True", "True"], done.stderr
