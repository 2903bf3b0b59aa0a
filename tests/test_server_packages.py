"""Installed packages in the editor: no keystroke waits for them, they are read in the background."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.server import checking
from tests.conftest import ROOT
from tests.support.installed import make_project
from tests.support.language_client import PULLS
from tests.test_server import Connect, connect, rules

__all__ = ["connect"]

SCRIPT = """from acme_train import build
from transformers import Trainer
Trainer(build("x", sise=1)).train()
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    make_project(folder, SCRIPT)
    return folder


def test_what_a_package_contains_is_published_when_it_was_read(connect: Connect, project: Path) -> None:
    client = connect(folders=[project])
    uri = client.open(project / "train.py")
    assert rules(client.diagnostics(uri, 1)) == []
    assert rules(client.diagnostics(uri, 1)) == ["unknown-argument"]
    client.change(uri, 2, {"text": SCRIPT + "\n"})
    assert rules(client.diagnostics(uri, 2)) == ["unknown-argument"]


def test_a_client_that_pulls_is_asked_to_pull_again(connect: Connect, project: Path) -> None:
    client = connect({**PULLS, "workspace": {"diagnostics": {"refreshSupport": True}}}, folders=[project])
    uri = client.open(project / "train.py")
    report = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert rules(report["items"]) == []
    client.wait_for(lambda message: message["method"] == "workspace/diagnostic/refresh")
    report = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert rules(report["items"]) == ["unknown-argument"]


def test_what_cannot_be_read_is_asked_for_once(
    connect: Connect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr("lintrain.server.editor_session.read_missing", asked.append)
    client = connect(folders=[project])
    uri = client.open(project / "train.py")
    for version in (2, 3, 4):
        client.change(uri, version, {"text": SCRIPT + "\n" * version})
        client.diagnostics(uri, version)
    assert len(asked) == 1
    assert checking.read_missing is not asked.append


def test_the_server_never_imports_astroid(project: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from lintrain.server import checking; from lintrain.server.project import *;"
        "projects = Projects(); path = sys.argv[1]; raw = open(path, 'rb').read();"
        "snapshot = checking.Snapshot(path, {path: raw}, projects.of(path, ClientSettings()));"
        "checked = checking.check(snapshot, projects); checking.read_missing(checked.missing);"
        "again = checking.check(snapshot, projects);"
        "print([one.finding.rule for one in again.file.reported], 'astroid' in sys.modules)"
    )
    variables = {"PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program, str(project / "train.py")],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["['unknown-argument'] False"]
