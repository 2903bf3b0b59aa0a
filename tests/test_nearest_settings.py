"""Each file has the settings of the nearest configuration, which may extend another one."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

from lintrain.cache import whole_files
from lintrain.cache.whole_files import SECOND
from lintrain.check.check_run import CheckRun
from lintrain.cli import run, run_or_repeat
from lintrain.cli._options import CheckOptions, settings_of, with_rules
from lintrain.cli._request import files_of, plan, request_of
from lintrain.rulebook import find_rules
from lintrain.settings.loading import load_settings
from lintrain.settings.settings import UsageError
from lintrain.settings.table import KEYS, settings_schema

LOOP = """\
import torch
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=2).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
for batch in loader():
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
"""
FOUND = ("missing-zero-grad", "undefined-name")

Ask = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("train.py", "old/train.py", "old/deep/train.py", "new/train.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(LOOP)
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    """The findings of a check: file, rule and level."""

    def asked(*words: str) -> list[tuple[str, str, str]]:
        run(["check", "--no-cache", "--output-format", "json", *words])
        found = json.loads(capsys.readouterr().out)["findings"]
        return [(each["location"]["path"], each["rule"], each["level"]) for each in found]

    return asked


def test_a_nested_configuration_counts_for_the_files_below_it(project: Path, ask: Ask) -> None:
    (project / "old" / "lintrain.toml").write_text('ignore = ["loop"]\n[levels]\nundefined-name = "note"\n')
    found = ask(".")
    assert [(path, rule) for path, rule, _ in found if rule == "missing-zero-grad"] == [
        ("new/train.py", "missing-zero-grad"),
        ("train.py", "missing-zero-grad"),
    ]
    levels = {path: level for path, rule, level in found if rule == "undefined-name"}
    assert levels == {
        "new/train.py": "error",
        "old/deep/train.py": "note",
        "old/train.py": "note",
        "train.py": "error",
    }


def test_the_nearest_of_several_counts_alone(project: Path, ask: Ask) -> None:
    (project / "old" / "lintrain.toml").write_text('ignore = ["undefined-name"]')
    (project / "old" / "deep" / "lintrain.toml").write_text('ignore = ["loop"]')
    found = [(path, rule) for path, rule, _ in ask("old")]
    assert found == [("old/deep/train.py", "undefined-name"), ("old/train.py", "missing-zero-grad")]


def test_a_nested_configuration_excludes_files_unless_they_are_named(project: Path, ask: Ask) -> None:
    (project / "old" / "lintrain.toml").write_text('extend-exclude = ["deep"]')
    assert {path for path, _, _ in ask(".")} == {"train.py", "new/train.py", "old/train.py"}
    assert {path for path, _, _ in ask("old/deep/train.py", "train.py")} == {"train.py", "old/deep/train.py"}
    assert {path for path, _, _ in ask("--force-exclude", "old/deep/train.py", "train.py")} == {"train.py"}


def test_a_nested_configuration_sets_the_versions_of_its_scripts(project: Path, ask: Ask) -> None:
    arguments = "from transformers import TrainingArguments\nTrainingArguments('out', evaluation_strategy='epoch')\n"
    for folder in ("old", "new"):
        (project / folder / "train.py").write_text(arguments)
    (project / "lintrain.toml").write_text('[target-versions]\ntransformers = "5.0"')
    (project / "old" / "lintrain.toml").write_text('[target-versions]\ntransformers = "4.40"')
    found = [path for path, rule, _ in ask(".") if rule == "removed-argument"]
    assert found == ["new/train.py"]


@pytest.mark.parametrize("words", [["--config", "lintrain.toml"], ["--isolated"]])
def test_a_named_configuration_or_none_counts_for_all_files(project: Path, ask: Ask, words: list[str]) -> None:
    (project / "lintrain.toml").write_text("")
    (project / "old" / "lintrain.toml").write_text('ignore = ["loop", "undefined-name"]')
    assert len(ask(*words, ".")) == 8


def test_the_command_line_overrides_every_configuration(project: Path, ask: Ask) -> None:
    (project / "old" / "lintrain.toml").write_text('select = ["loop"]')
    assert {rule for _, rule, _ in ask("--select", "undefined-name", ".")} == {"undefined-name"}


def test_an_error_in_a_nested_configuration_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "old" / "lintrain.toml").write_text("ignroe = []")
    assert run(["check", "--no-cache"]) == 2
    reason = "unknown key `ignroe` (did you mean `ignore`?)"
    assert capsys.readouterr().err == f"lintrain: old/lintrain.toml: {reason}\n"


@pytest.mark.parametrize("content", [b"\xff\xfe[project]", b"[broken", b"#" * (1 << 20) + b"##", None])
def test_a_nested_project_file_that_is_not_ours_is_no_matter_of_ours(
    project: Path, ask: Ask, content: bytes | None
) -> None:
    file = project / "old" / "pyproject.toml"
    if content is None:
        os.mkfifo(file)
    else:
        file.write_bytes(content)
    assert {path for path, _, _ in ask(".")} >= {"old/train.py", "train.py"}


def test_a_finding_in_an_imported_module_has_the_settings_of_the_module(project: Path, ask: Ask) -> None:
    body = LOOP.rstrip().replace("\n", "\n    ")
    (project / "old" / "parts.py").write_text(f"def fit(loader):\n    {body}\n")
    script = "import sys\nsys.path.insert(0, '..')\nfrom old.parts import fit\nfit(print)\n"
    (project / "new" / "train.py").write_text(script)
    assert ("old/parts.py", "missing-zero-grad", "error") in ask("new")
    (project / "old" / "lintrain.toml").write_text('ignore = ["ALL"]')
    assert [path for path, _, _ in ask("new")] == []


@pytest.mark.slow
def test_several_processes_find_the_same(project: Path) -> None:
    (project / "old" / "lintrain.toml").write_text('ignore = ["loop"]')
    options, rules = CheckOptions(no_cache=True), find_rules()
    outer = with_rules(options, rules, settings_of(options))
    found = plan(options, rules, outer, files_of(options, outer.settings))
    request = request_of(options, outer.settings, found.rules, outer.selection, found.files, found.by_folder)
    alone, together = (CheckRun(replace(request, jobs=jobs)).check() for jobs in (1, 2))
    assert alone.reported == together.reported
    assert {one.finding.rule for one in alone.reported} == {*FOUND}


@pytest.mark.parametrize("files", [["."], ["old/train.py"]])
def test_a_cached_report_depends_on_nested_configurations(
    project: Path, files: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = whole_files.NOW
    monkeypatch.setattr(whole_files, "NOW", lambda: now() + 10 * SECOND)
    monkeypatch.setenv("LINTRAIN_CACHE_DIR", str(project / "cache"))

    def rules() -> list[str]:
        run_or_repeat(["check", "--output-format", "concise", *files])
        lines = capsys.readouterr().out.splitlines()
        return sorted(line.partition("[")[2].partition("]")[0] for line in lines if line.startswith("old/train.py"))

    assert rules() == rules() == [*FOUND]
    (project / "old" / "lintrain.toml").write_text('extend = "../base.toml"')
    (project / "base.toml").write_text('ignore = ["loop"]')
    assert rules() == rules() == ["undefined-name"]
    (project / "base.toml").write_text('ignore = ["undefined-name"]')
    os.utime(project / "base.toml", ns=(1, 1))
    assert rules() == ["missing-zero-grad"]
    (project / "old" / "lintrain.toml").unlink()
    assert rules() == [*FOUND]


def test_an_extended_configuration_counts_where_this_one_says_nothing(project: Path) -> None:
    (project / "base.toml").write_text(
        'ignore = ["loop"]\nstrict = true\nextend-exclude = ["old/deep/*.py", "*_copy.py"]\nbaseline = "known.json"\n'
        '[levels]\ndata = "note"\nloop = "note"\n[per-file-ignores]\n"old/*.py" = ["data"]\n'
    )
    (project / "old" / "lintrain.toml").write_text(
        'extend = "../base.toml"\nignore = ["data"]\nextend-exclude = ["mine"]\nlevels.loop = "error"\n'
    )
    settings = load_settings(["old"])
    assert (settings.ignore, settings.strict, settings.baseline) == (("data",), True, "../known.json")
    assert settings.extend_exclude == ("deep/*.py", "*_copy.py", "mine")
    assert settings.levels == {"data": "note", "loop": "error"}
    assert settings.per_file_ignores == {"*.py": ("data",)}
    assert settings.sources == (project / "old" / "lintrain.toml", project / "base.toml")


@pytest.mark.parametrize(
    ("extended", "reason"),
    [
        ("../none.toml", "`../none.toml` does not exist"),
        ("../../elsewhere.toml", "`../../elsewhere.toml` is outside of the repository"),
        ("../link.toml", "`../link.toml` is outside of the repository"),
        ("lintrain.toml", "a chain may have 10 files, each once"),
        ("../pyproject.toml", "`../pyproject.toml` has no table `[tool.lintrain]`"),
    ],
)
def test_what_cannot_be_extended_is_named(project: Path, tmp_path: Path, extended: str, reason: str) -> None:
    elsewhere = tmp_path.parent / "elsewhere.toml"
    elsewhere.write_text("secret = 1")
    (project / "link.toml").symlink_to(elsewhere)
    (project / "old" / "lintrain.toml").write_text(f"extend = '{extended}'")
    with pytest.raises(UsageError) as caught:
        load_settings(["old"])
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_schema_of_the_configuration_accepts_what_the_loader_does(project: Path) -> None:
    validator = Draft202012Validator(settings_schema())
    for key in KEYS:
        table = tomllib.loads(f"{key.name} = {key.example}")
        assert not list(validator.iter_errors(table)), key.name
        if key.name != "extend":
            (project / "lintrain.toml").write_text(f"{key.name} = {key.example}")
            load_settings(["."])
    for wrong in ("selct = []", 'select = "data"', "jobs = 0", 'levels.data = "off"', "strict = 1"):
        assert list(validator.iter_errors(tomllib.loads(wrong))), wrong
