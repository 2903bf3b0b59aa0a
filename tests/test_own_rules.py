"""Rules of a project's own: written by `lintrain rules new`, tested by their page, run once they are trusted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from lintrain.check.own_rules import trust_file, trusted_files
from lintrain.cli import run
from lintrain.pytest_plugin import RuleFixture

SCRIPT = 'from transformers import TrainingArguments\n\nargs = TrainingArguments("out", report_to="none")\n'
CHECK = ("check", "--no-cache", "--output-format", "concise", "train.py")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(SCRIPT)
    (folder / "lintrain.toml").write_text('rules = ["lint/rules"]\n')
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(folder)
    run(["rules", "new", "no-tracker"])
    return folder


def rule_of(project: Path) -> Path:
    return project / "lint" / "rules" / "no_tracker.py"


def test_a_new_rule_works_once_it_is_trusted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*CHECK]) == 0
    remedy = "read the code, then run `lintrain trust`"
    assert capsys.readouterr().err == f"lintrain: `lint/rules/no_tracker.py` is not trusted and did not run; {remedy}\n"
    assert run(["trust"]) == 0
    assert capsys.readouterr().out.startswith(f"{rule_of(project)}: trusted, sha256 ")
    assert run([*CHECK]) == 1
    found = capsys.readouterr()
    assert (found.err, found.out.splitlines()[0]) == (
        "",
        'train.py:3:33: warning[no-tracker] `report_to="none"`: the run appears in no tracker',
    )


def test_a_rule_that_changes_or_moves_is_trusted_no_longer(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["trust", "lint/rules"])
    rule = rule_of(project)
    rule.write_text(rule.read_text() + "\n# changed\n")
    assert run([*CHECK]) == 0
    assert "is not trusted" in capsys.readouterr().err
    run(["trust", "--list"])
    assert capsys.readouterr().out == f"{rule}: changed since, so not trusted\n"
    run(["trust"])
    (project / "lint" / "more").mkdir()
    shutil.move(rule, project / "lint" / "more" / "no_tracker.py")
    (project / "lintrain.toml").write_text('rules = ["lint/more"]\n')
    assert run([*CHECK]) == 0


def test_trust_is_revoked(project: Path) -> None:
    run(["trust"])
    assert run([*CHECK]) == 1
    assert run(["trust", "--revoke"]) == 0
    assert run([*CHECK]) == 0
    assert trusted_files() == {}


def test_with_strict_a_rule_that_did_not_run_is_no_success(project: Path) -> None:
    assert run([*CHECK, "--strict"]) == 3
    run(["trust"])
    assert run([*CHECK, "--strict"]) == 1


def test_a_rule_that_is_not_trusted_is_known_by_its_name(project: Path) -> None:
    (project / "lintrain.toml").write_text('rules = ["lint/rules"]\nignore = ["no-tracker"]\n')
    assert run([*CHECK]) == 0
    (project / "lintrain.toml").write_text('rules = ["lint/rules"]\nselect = ["rules"]\n')
    assert run([*CHECK]) == 0
    run(["trust"])
    assert run([*CHECK]) == 1
    (project / "train.py").write_text(SCRIPT.rstrip() + "  # lintrain: ignore[no-tracker] -- a dry run\n")
    assert run([*CHECK]) == 0


def test_a_cached_report_depends_on_the_rule_and_on_its_trust(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lintrain.cache import whole_files
    from lintrain.cli import run_or_repeat

    now = whole_files.NOW
    monkeypatch.setattr(whole_files, "NOW", lambda: now() + 10 * whole_files.SECOND)
    monkeypatch.setenv("LINTRAIN_CACHE_DIR", str(tmp_path / "cache"))
    (project / "other.py").write_text(SCRIPT)
    for words in (["check", "train.py"], ["check", "train.py", "other.py"]):
        run(["trust", "--revoke"])
        codes = [run_or_repeat(words), run_or_repeat(words)]
        run(["trust"])
        codes += [run_or_repeat(words), run_or_repeat(words)]
        run(["trust", "--revoke"])
        assert [*codes, run_or_repeat(words)] == [0, 0, 1, 1, 0]


def test_several_processes_run_own_rules(project: Path) -> None:
    import pickle

    from lintrain.check.own_rules import own_rules
    from lintrain.settings.loading import load_settings

    run(["trust"])
    (rule,) = own_rules(load_settings(["."]), ()).rules
    again = pickle.loads(pickle.dumps(rule))
    assert (again.path, again.digest, again.name, again.stage) == (rule.path, rule.digest, "no-tracker", "rules")


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ('["lint/none"]', "lintrain.toml: `rules`: `lint/none` does not exist"),
        ('["twice/raw_dataset.py"]', "another rule has the name `raw-dataset`"),
        ('["twice/undefined_name.py"]', "another rule has the name `undefined-name`"),
    ],
)
def test_a_setting_that_names_no_usable_rule_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str], setting: str, reason: str
) -> None:
    (project / "twice").mkdir()
    for name in ("raw_dataset", "undefined_name"):
        (project / "twice" / f"{name}.py").write_text("")
    (project / "lintrain.toml").write_text(f"rules = {setting}\n")
    assert run([*CHECK]) == 2
    assert reason in capsys.readouterr().err


def test_a_trusted_rule_that_cannot_be_loaded_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule_of(project).write_text('"""A page."""\nraise RuntimeError("broken")\n')
    run(["trust"])
    assert run([*CHECK]) == 2
    assert "no_tracker.py: cannot be loaded: RuntimeError: broken" in capsys.readouterr().err


def test_a_trusted_rule_that_fails_is_no_error_of_lintrain(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rule = rule_of(project)
    rule.write_text(
        rule.read_text().replace("yield self.finding", "raise ValueError(1)\n            yield self.finding")
    )
    run(["trust"])
    assert run([*CHECK]) == 2
    reason = f"`no-tracker` failed on train.py: ValueError: 1; the rule is the project's own: {rule}"
    assert capsys.readouterr().err == f"lintrain: {reason}\n"


def test_own_rules_are_listed_and_explained(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["trust"])
    capsys.readouterr()
    assert run(["rules", "--stage", "rules", "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["no-tracker"]
    assert run(["explain", "no-tracker"]) == 0
    assert "A run is reported to no tracker." in capsys.readouterr().out


def test_the_record_of_trust_is_in_the_users_folder_whatever_the_project_sets(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "data")
    monkeypatch.setenv("HOME", str(project.parent / "home"))
    assert trust_file() == project.parent / "home" / ".local" / "share" / "lintrain" / "trusted-rules.json"


def test_the_test_of_a_new_rule_passes_and_notices_a_wrong_page(project: Path) -> None:
    rule = rule_of(project)
    RuleFixture()(rule)
    right = rule.read_text()
    for wrong in (
        right.replace("  # <- no-tracker", ""),
        right.replace('report_to="tensorboard")\n\n## When', 'report_to="none")\n\n## When'),
        right.replace('== "none"', '== "all"'),
        right.replace("yield self.finding", "raise ValueError(location)\n            yield self.finding"),
    ):
        assert wrong != right
        rule.write_text(wrong)
        with pytest.raises(pytest.fail.Exception, match="no-tracker: "):
            RuleFixture()(rule)


def test_the_written_test_finds_its_rule(project: Path) -> None:
    test = (project / "lint" / "rules" / "test_no_tracker.py").read_text()
    names: dict[str, object] = {"__file__": str(project / "lint" / "rules" / "test_no_tracker.py")}
    exec(compile(test, "test", "exec"), names)
    written = names["test_no_tracker"]
    assert callable(written)
    written(RuleFixture())


@pytest.mark.parametrize("name", ["no tracker", "../escape", "", "a--b", "é"])
def test_a_name_that_is_none_is_refused(project: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "new", name]) == 2
    assert "a name has words of letters and digits" in capsys.readouterr().err


def test_a_rule_is_never_overwritten(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "new", "no_tracker"]) == 2
    assert "exists already" in capsys.readouterr().err
