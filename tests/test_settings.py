"""Configuration files: which is found, what it may say, and what is said when it cannot be read."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lintrain.check.selection import Choice, choose, configured
from lintrain.settings.loading import load_settings
from lintrain.settings.settings import FORMATS, Settings, UsageError

ROOT = Path(__file__).parent.parent
KNOWN = {"raw-dataset": "data", "discarded-map": "data", "high-learning-rate": "optimizer"}


AMONG_FORMATS = f"{', '.join(repr(name) for name in FORMATS[:-1])} or {FORMATS[-1]!r}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(project: Path, text: str, name: str = "lintrain.toml") -> str:
    (project / name).write_text(text)
    with pytest.raises(UsageError) as caught:
        load_settings([str(project)])
    return str(caught.value)


def test_every_key_is_read(project: Path) -> None:
    (project / "pyproject.toml").write_text("""
[tool.lintrain]
select = ["data"]
extend-select = ["high-learning-rate"]
ignore = ["discarded-map"]
exclude = ["old"]
extend-exclude = ["gen_*.py"]
respect-gitignore = false
force-exclude = true
output-format = "json"
preview = true
strict = true
jobs = 3
fail-on = "warning"
max-warnings = 0
rules = ["lint"]
baseline = "known.json"

[tool.lintrain.levels]
raw-dataset = "note"

[tool.lintrain.per-file-ignores]
"tests/*" = ["raw-dataset"]

[tool.lintrain.target-versions]
transformers = "4.57.6"
trl = ">=0.20,<1"
""")
    settings = load_settings([str(project)])
    assert settings == Settings(
        root=project,
        file=project / "pyproject.toml",
        sources=(project / "pyproject.toml",),
        select=("data",),
        extend_select=("high-learning-rate",),
        ignore=("discarded-map",),
        per_file_ignores={"tests/*": ("raw-dataset",)},
        exclude=("old",),
        extend_exclude=("gen_*.py",),
        respect_gitignore=False,
        force_exclude=True,
        output_format="json",
        preview=True,
        strict=True,
        jobs=3,
        fail_on="warning",
        max_warnings=0,
        rules=("lint",),
        baseline="known.json",
        levels={"raw-dataset": "note"},
        target_versions={"transformers": "4.57.6", "trl": ">=0.20,<1"},
    )


@pytest.mark.parametrize(
    ("files", "chosen"),
    [
        (["pyproject.toml", "lintrain.toml", ".lintrain.toml"], ".lintrain.toml"),
        (["pyproject.toml", "lintrain.toml"], "lintrain.toml"),
        (["pyproject.toml"], "pyproject.toml"),
    ],
)
def test_our_own_file_comes_before_the_project_s(project: Path, files: list[str], chosen: str) -> None:
    for name in files:
        (project / name).write_text("[tool.lintrain]\n" if name == "pyproject.toml" else "")
    settings = load_settings([str(project)])
    assert settings.file == project / chosen


def test_the_nearest_file_at_or_above_the_common_folder_counts(project: Path) -> None:
    (project / "lintrain.toml").write_text('select = ["data"]')
    for name in ("a", "b"):
        (project / "sub" / name).mkdir(parents=True)
        (project / "sub" / name / "lintrain.toml").write_text("")
    (project / "sub" / "pyproject.toml").write_text("[tool.ruff]\n# says nothing to lintrain\n")
    above = load_settings([str(project / "sub" / "a"), str(project / "sub" / "b" / "x.py")])
    assert above.file == project / "lintrain.toml"
    assert load_settings([str(project / "sub" / "a" / "x.py")]).file == project / "sub" / "a" / "lintrain.toml"


def test_an_unknown_key_is_named_with_its_file_and_the_nearest(project: Path) -> None:
    message = refusal(project, '[tool.lintrain]\nselct = ["data"]', "pyproject.toml")
    assert message == "pyproject.toml [tool.lintrain]: unknown key `selct` (did you mean `select`?)"


def test_an_unknown_key_that_is_near_to_none_gets_the_list(project: Path) -> None:
    assert refusal(project, "x = 1").startswith(
        "lintrain.toml: unknown key `x` (keys are extend, select, extend-select, ignore"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('select = "data"', '`select`: must be a list, not `"data"`'),
        ("select = [1]", "`select.0`: must be a string, not `1`"),
        ('force-exclude = "yes"', '`force-exclude`: must be a boolean, not `"yes"`'),
        ("respect-gitignore = 1", "`respect-gitignore`: must be a boolean, not `1`"),
        ('output-format = "xml"', f'`output-format`: must be {AMONG_FORMATS}, not `"xml"`'),
        ('[levels]\ndata = "off"', "`levels.data`: must be 'error', 'warning' or 'note', not `\"off\"`"),
        ('[target-versions]\ntransformers = "new"', "`target-versions.transformers`: `new` is not a version"),
        ("jobs = 257", "`jobs`: must be less than or equal to 256, not `257`"),
        (f"exclude = {['*'] * 1001}", "`exclude`: 1001 entries, at most 1000 are allowed"),
        (f"per-file-ignores.a = {['data'] * 1001}", "`per-file-ignores.a`: 1001 entries, at most 1000 are allowed"),
        (
            "[per-file-ignores]\n" + "\n".join(f"a{number} = []" for number in range(1001)),
            "`per-file-ignores`: 1001 entries, at most 1000 are allowed",
        ),
        ("[target-versions]\ntransformers = 4", "`target-versions.transformers`: must be a string, not `4`"),
    ],
)
def test_a_wrong_type_is_named_with_what_was_written(project: Path, text: str, message: str) -> None:
    assert refusal(project, text) == f"lintrain.toml: {message}"


def test_every_problem_of_a_file_is_named_at_once(project: Path) -> None:
    assert len(refusal(project, "a = 1\nb = 2\nselect = 3").splitlines()) == 3


def test_of_many_problems_the_first_are_named(project: Path) -> None:
    started = time.process_time()
    told = refusal(project, "".join(f"key{number} = 1\n" for number in range(60_000))).splitlines()
    assert time.process_time() - started < 5
    assert (len(told), told[-1]) == (21, "lintrain.toml: 59980 more errors")


@pytest.mark.parametrize("part", ["a", '"a"', "'a'", r'"\""'])
@pytest.mark.parametrize("form", ["{}1 = 1", "[{}1]", "[[{}1]]", "x = {{{}1 = 1}}"])
@pytest.mark.parametrize("dot", [".", " . "])
def test_a_key_of_many_parts_is_refused_before_it_fills_the_memory(
    project: Path, form: str, part: str, dot: str
) -> None:
    told = refusal(project, form.format(f"{part}{dot}" * 100) + "\n")
    assert told == "lintrain.toml: a key has more than 100 parts"
    assert "unknown key" in refusal(project, form.format(f"{part}{dot}" * 99) + "\n")


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("signs", ['"\\', "a.", '"', "'a ", "a-", '"a".'])
def test_signs_of_keys_that_are_none_take_no_time(project: Path, signs: str) -> None:
    (project / "lintrain.toml").write_text("# " + (signs * 99 + "= ") * (1_000_000 // (99 * len(signs) + 2)) + "\n")
    started = time.process_time()
    load_settings(["."])
    assert time.process_time() - started < 10


def test_a_table_that_is_no_table_is_an_error(project: Path) -> None:
    assert refusal(project, "[tool]\nlintrain = 3", "pyproject.toml") == (
        "pyproject.toml: `tool.lintrain` must be a table, not `3`"
    )


def test_a_file_that_is_not_toml_is_named_with_the_line(project: Path) -> None:
    message = refusal(project, "select = [")
    assert message.startswith("lintrain.toml: invalid TOML: ")


def test_a_broken_pyproject_without_a_word_of_ours_is_not_ours_to_judge(project: Path) -> None:
    (project / "pyproject.toml").write_text("[broken")
    assert load_settings([str(project)]).file is None


def test_a_configuration_that_is_named_must_exist_and_hold_a_table(project: Path) -> None:
    with pytest.raises(UsageError, match="no such configuration file"):
        load_settings([], project / "none.toml")
    (project / "pyproject.toml").write_text("[tool.ruff]\n")
    with pytest.raises(UsageError, match=r"no table `\[tool.lintrain\]`"):
        load_settings([], project / "pyproject.toml")


def test_a_configuration_is_read_without_pydantic(project: Path) -> None:
    (project / "lintrain.toml").write_text('select = ["data"]\nlevels = {data = "note"}')
    code = (
        "import sys; from lintrain.settings.loading import load_settings; "
        "print(load_settings(['.']).select, 'pydantic' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    asked = [sys.executable, "-c", code]
    answer = subprocess.run(asked, env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout == "('data',) False\n"


def names(configuration: Choice, command: Choice | None = None) -> set[str]:
    return set(choose(KNOWN, configuration, command or Choice("the command line", "/")).names) & set(KNOWN)


def test_all_rules_are_chosen_at_first() -> None:
    assert names(configured(Settings(root=Path("/")))) == set(KNOWN)


def test_a_rule_is_stronger_than_its_stage_and_a_stage_than_all() -> None:
    configuration = Choice("c", "/", ["ALL"], ["raw-dataset"], ["data"])
    assert names(configuration) == {"raw-dataset", "high-learning-rate"}
    assert names(Choice("c", "/", ["data"], [], ["ALL"])) == {"raw-dataset", "discarded-map"}
    assert names(Choice("c", "/", ["data"], [], ["discarded-map"])) == {"raw-dataset"}


def test_what_the_command_selects_is_not_lost_to_the_configuration() -> None:
    configuration = Choice("c", "/", ["optimizer"], [], ["raw-dataset"])
    assert names(configuration, Choice("l", "/", ["raw-dataset"])) == {"raw-dataset"}
    assert names(configuration, Choice("l", "/", None, ["discarded-map"])) == {"high-learning-rate", "discarded-map"}
    assert names(configuration, Choice("l", "/", None, [], ["high-learning-rate"])) == set()


def test_an_unknown_selector_is_named_with_who_asks_and_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"lintrain.toml: no rule or stage `raw_datasets`; nearest: `raw-dataset`"):
        names(Choice("lintrain.toml", "/", ["raw_datasets"]))
    with pytest.raises(UsageError, match="no rule or stage `qqq`; `lintrain rules` lists them"):
        names(Choice("c", "/", ["ALL"], [], ["qqq"]))


def test_syntax_errors_are_reported_whatever_is_selected_but_may_be_ignored() -> None:
    configuration = configured(Settings(root=Path("/")))
    known = {**KNOWN, "syntax-error": "file", "unreadable-file": "file"}
    selected = choose(known, configuration, Choice("l", "/", ["raw-dataset"])).names
    assert selected == {"raw-dataset", "syntax-error", "unreadable-file"}
    ignored = choose(known, configuration, Choice("l", "/", ["raw-dataset"], [], ["syntax-error"])).names
    assert ignored == {"raw-dataset", "unreadable-file"}
    project = Choice("c", "/", ["ALL"], [], ["syntax-error"])
    assert choose(known, project, Choice("l", "/", ["raw-dataset"])).names == {"raw-dataset", "unreadable-file"}


def test_per_file_ignores_take_rules_away_for_files_of_a_pattern(project: Path) -> None:
    configuration = Choice("c", str(project), ["ALL"], per_file={"tests/*": ["data"]})
    selection = choose(KNOWN, configuration, Choice("l", str(project), per_file={"old.py": ["high-learning-rate"]}))
    assert selection.of("tests/a.py") & set(KNOWN) == {"high-learning-rate"}
    assert selection.of("sub/old.py") & set(KNOWN) == {"raw-dataset", "discarded-map"}
    assert selection.of("a.py") & set(KNOWN) == set(KNOWN)
