"""A document that is opened again shows at once what its last check found, and is then checked."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from lintrain.cache import whole_files
from lintrain.cache.folder import FOLDER_VARIABLE
from lintrain.cache.whole_files import SECOND
from lintrain.check.cached_results import CachedResults
from lintrain.check.files import ReadFile
from lintrain.server import editor_session
from lintrain.server.checking import Checked, Snapshot, check, find_cached, read_missing
from lintrain.server.project import ClientSettings, Projects
from tests.support.installed import make_project
from tests.support.language_client import PATIENCE, PULLS, LanguageClient
from tests.test_server import CALLER, LOOP, MODULE, Connect, connect, rules, written
from tests.test_server_packages import SCRIPT as ACME

__all__ = ["connect"]

FOUND = ["missing-zero-grad"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a root of its own, above which nothing is looked for, and old enough to tell changes apart."""
    now = whole_files.NOW
    monkeypatch.setattr(whole_files, "NOW", lambda: now() + 10 * SECOND)
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """What is checked, and not found in the cache."""
    heard: list[Snapshot] = []

    def listen(snapshot: Snapshot, *others: object) -> Checked:
        heard.append(snapshot)
        return check(snapshot, *others)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(editor_session, "check", listen)
    return heard


def reopened(connect: Connect, folder: Path, file: Path) -> tuple[LanguageClient, str]:
    client = connect(folders=[folder])
    return client, client.open(file)


def kept(folder: Path, file: Path, text: str | None = None, is_saved: bool = True) -> list[str] | None:
    """The rules of what is cached for a file with this text in the editor; None if nothing is."""
    projects = Projects()
    found = find_cached(snapshot_of(projects, file, text, is_saved), projects)
    return None if found is None else sorted(one.finding.rule for one in found.file.reported)


def snapshot_of(projects: Projects, file: Path, text: str | None = None, is_saved: bool = True) -> Snapshot:
    raw = file.read_bytes() if text is None else text.encode()
    in_force = projects.of(str(file), ClientSettings())
    return Snapshot(str(file), {str(file): raw}, in_force, is_saved=is_saved)


def keep(file: Path, text: str | None = None) -> None:
    """Check a file as the editor does, and cache what was found where that may be."""
    projects = Projects()
    checked = check(snapshot_of(projects, file, text), projects)
    assert checked.keep
    checked.keep()


def test_a_document_shows_what_was_found_before_it_is_checked_again(
    connect: Connect, project: Path, checks: list[Snapshot], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = written(project)
    keep(script)
    monkeypatch.setattr(editor_session, "SHOWN", 3600.0)
    client, uri = reopened(connect, project, script)
    assert rules(client.diagnostics(uri, 1)) == FOUND
    assert checks == []


def test_the_check_follows_so_that_edits_go_on_from_it(connect: Connect, project: Path, checks: list[Snapshot]) -> None:
    module = written(project, MODULE, "steps.py")
    script = written(project, CALLER)
    keep(script)
    client, uri = reopened(connect, project, script)
    shown = [client.diagnostics(uri, 1), client.diagnostics(uri, 1)]
    assert shown[0] == shown[1]
    assert [Path(each.path).name for each in checks] == ["train.py"]
    # On which modules a document rests is known from its check alone: then an edit of one checks the document.
    opened = client.open(module)
    client.change(opened, 2, {"text": MODULE.replace("    loss.backward()", "    pass")})
    client.diagnostics(uri, 1)
    assert {Path(each.path).name for each in checks[1:]} == {"steps.py", "train.py"}


def test_a_client_that_pulls_gets_it_too(connect: Connect, project: Path, checks: list[Snapshot]) -> None:
    script = written(project)
    keep(script)
    client = connect({**PULLS, "workspace": {"diagnostics": {"refreshSupport": True}}}, folders=[project])
    uri = client.open(script)
    report = client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert rules(report["items"]) == FOUND
    client.wait_for(lambda message: message["method"] == "workspace/diagnostic/refresh")
    client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    assert len(checks) == 1


def test_what_the_server_checked_is_cached_for_the_next_start(connect: Connect, project: Path) -> None:
    script = written(project)
    client, uri = reopened(connect, project, script)
    client.diagnostics(uri, 1)
    until = time.monotonic() + PATIENCE
    while kept(project, script) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert kept(project, script) == FOUND


def test_a_text_that_is_typed_back_is_not_cached_again(
    connect: Connect, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept_texts: list[str] = []
    plain = CachedResults.keep

    def hear(self: CachedResults, files: Iterable[ReadFile]) -> None:
        kept_texts.append("kept")
        plain(self, files)

    monkeypatch.setattr(CachedResults, "keep", hear)
    script = written(project)
    client, uri = reopened(connect, project, script)
    client.diagnostics(uri, 1)
    until = time.monotonic() + PATIENCE
    while not kept_texts and time.monotonic() < until:
        time.sleep(0.01)
    for version, text in enumerate((LOOP + "#", LOOP, LOOP + "#"), start=2):
        client.change(uri, version, {"text": text})
        client.diagnostics(uri, version)
    assert kept_texts == ["kept"]


def test_an_unsaved_text_is_neither_cached_nor_answered_by_the_file(project: Path) -> None:
    script = written(project)
    projects = Projects()
    checked = check(snapshot_of(projects, script, LOOP + "#", is_saved=False), projects)
    assert checked.keep is None
    keep(script, LOOP + "#")  # the editor takes it for saved, and the file was changed by another program
    assert kept(project, script) is None
    keep(script)
    assert kept(project, script) == FOUND
    assert kept(project, script, is_saved=False) is None


def test_a_change_of_what_the_result_rests_on_ends_it(project: Path) -> None:
    module = written(project, MODULE, "steps.py")
    script = written(project, CALLER)
    keep(script)
    assert kept(project, script) is not None
    module.write_text(MODULE.replace("loss.backward()", "pass"))
    assert kept(project, script) is None


def test_other_settings_have_results_of_their_own(project: Path) -> None:
    script = written(project)
    keep(script)
    (project / "lintrain.toml").write_text('ignore = ["missing-zero-grad"]\n')
    assert kept(project, script) in (None, [])


def test_a_result_without_a_package_that_is_still_to_be_read_is_not_cached(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(project.parent / "cache"))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    (project / ".git").rmdir()
    make_project(project, ACME)
    projects = Projects()
    checked = check(snapshot_of(projects, project / "train.py"), projects)
    assert checked.missing
    assert checked.keep is None
    read_missing(checked.missing)
    assert check(snapshot_of(projects, project / "train.py"), projects).keep
