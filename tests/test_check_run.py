"""A whole run, with a planted rule: findings, suppressions, failures, fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import lintrain.check.names.ruff
import lintrain.read
from lintrain.check.check_run import CheckRun
from lintrain.check.fixing import FixedFiles, fix_files
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.knowledge.tables import covered_versions
from lintrain.knowledge.target import NEWEST_KNOWN, Target
from lintrain.knowledge.versions import TargetVersions, exactly, find_versions
from lintrain.pipeline.record import Pipeline
from lintrain.rulebook import RuleFile, load_rules
from lintrain.source.source import Source
from tests.support.notebooks import notebook
from tests.support.planted import CLUMSY, HEAD, ONLY_MEASURED, PLANTED, UNWELL


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


NEWEST = {"transformers": Target(covered_versions("transformers")[-1:], "5.23", NEWEST_KNOWN)}


def request_of(
    texts: dict[str, str], rules: Sequence[RuleFile] = (PLANTED,), select: Sequence[str] = ("ALL",)
) -> CheckRequest:
    for name, text in texts.items():
        Path(name).write_text(text)
    selection = choose(known_names(rules), Choice("c", str(Path.cwd()), list(select)), Choice("l", "/"))
    return CheckRequest(sorted(texts), rules, selection, lambda _: TargetVersions())


def outcome_of(
    text: str, name: str = "t.py", rules: Sequence[RuleFile] = (PLANTED,), select: Sequence[str] = ("ALL",)
) -> CheckResult:
    return CheckRun(request_of({name: text}, rules, select)).check()


def said(outcome: CheckResult) -> list[tuple[int, str, str]]:
    return [(one.finding.location.line, one.finding.rule, one.finding.message) for one in outcome.reported]


def rules_of(outcome: CheckResult) -> list[tuple[int, str]]:
    return [(line, rule) for line, rule, _ in said(outcome)]


PLAIN = f"{HEAD}def mistake(): ...\n"


def test_a_finding_is_reported_with_its_fix_and_why_from_the_page() -> None:
    (one,) = outcome_of(f"{PLAIN}mistake()\n").reported
    assert (one.finding.location.line, one.finding.location.column, one.finding.message) == (
        3,
        1,
        "`mistake()` is planted",
    )
    assert one.finding.why == "It hurts every test that meets it."
    assert one.fix
    assert one.fix.title == "write `right()`"


def test_findings_come_in_the_order_of_files_and_places() -> None:
    texts = {"b.py": f"{PLAIN}mistake(); mistake(2)\n", "a.py": f"{PLAIN}\nmistake(3)\n"}
    outcome = CheckRun(request_of(texts)).check()
    locations = [str(one.finding.location) for one in outcome.reported]
    assert locations == ["a.py:4:1", "b.py:3:1", "b.py:3:12"]


def test_of_files_without_findings_no_text_is_kept() -> None:
    texts = {"a.py": f"{PLAIN}mistake()\n", "b.py": PLAIN, "c.py": f"{PLAIN}mistake()  # lintrain: ignore -- why\n"}
    outcome = CheckRun(request_of(texts)).check()
    assert [file.path for file in outcome.files] == ["a.py", "b.py", "c.py"]
    assert list(outcome.sources) == ["a.py", "c.py"]


def test_a_name_that_only_ruff_finds_has_its_text_all_the_same() -> None:
    outcome = outcome_of(f"{PLAIN}print(unknown)\n", select=["undefined-name"])
    assert rules_of(outcome) == [(3, "undefined-name")]
    assert outcome.sources["t.py"].shown_line(3) == "print(unknown)"


def test_a_file_that_names_no_library_is_not_read_by_rules() -> None:
    assert said(outcome_of("def mistake(): ...\nmistake()\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "mistake()  # lintrain: ignore[planted] -- on purpose",
        "mistake(\n  1,\n)  # lintrain: ignore[planted]",
        "# lintrain: ignore[planted]\nmistake()",
        "mistake()  # lintrain: ignore",
    ],
)
def test_a_suppressed_finding_is_gone_and_counted(text: str) -> None:
    outcome = outcome_of(f"{PLAIN}{text}\n")
    assert said(outcome) == []
    assert outcome.files[0].suppressed == 1


def test_a_whole_file_may_be_suppressed() -> None:
    assert said(outcome_of(f"# lintrain: ignore-file[planted]\n{PLAIN}mistake()\nmistake(2)\n")) == []


def test_a_suppression_that_silences_nothing_is_a_finding() -> None:
    outcome = outcome_of(f"{PLAIN}x = 1  # lintrain: ignore[planted]\ny = 2  # lintrain: ignore\n")
    assert said(outcome) == [
        (3, "unused-suppression", "no `planted` is found here to suppress"),
        (4, "unused-suppression", "nothing is suppressed by this comment"),
    ]


def test_a_suppression_of_an_unknown_rule_is_a_finding_with_the_nearest_name() -> None:
    (one,) = outcome_of("x = 1  # lintrain: ignore[plantd]\n").reported
    assert one.finding.message == "no rule is called `plantd`"
    assert one.finding.help == "write `planted`"


def test_a_suppression_is_not_called_unused_when_its_rule_was_not_looked_for() -> None:
    unselected = outcome_of(f"{PLAIN}x = 1  # lintrain: ignore[planted]\n", select=["unused-suppression"])
    assert said(unselected) == []
    measured = f"{HEAD}x = 1  # lintrain: ignore[only-measured]\n"
    assert said(outcome_of(measured, rules=(PLANTED, ONLY_MEASURED))) == []
    broken = f"{PLAIN}mistake()  # lintrain: ignore[planted]\nx = 1  # lintrain: ignore[unwell]\n"
    assert said(outcome_of(broken, rules=(PLANTED, UNWELL))) == []


def test_unused_suppressions_are_silent_when_not_selected() -> None:
    assert said(outcome_of("x = 1  # lintrain: ignore[plantd]\n", select=["planted"])) == []


def test_complaints_about_a_suppression_can_be_suppressed_by_name_only() -> None:
    assert said(outcome_of("x = 1  # lintrain: ignore[plantd, unused-suppression]\n")) == []


def test_a_rule_that_fails_is_named_and_the_others_finish() -> None:
    outcome = outcome_of(f"{PLAIN}mistake()\n", rules=(UNWELL, PLANTED))
    assert rules_of(outcome) == [(3, "planted")]
    (crash,) = outcome.crashes
    assert (crash.path, crash.rule, crash.error) == ("t.py", "unwell", "ValueError: no luck today")


def test_only_selected_rules_are_asked() -> None:
    assert outcome_of(f"{PLAIN}mistake()\n", rules=(UNWELL, PLANTED), select=["planted"]).crashes == []


def test_a_syntax_error_is_reported_and_the_other_files_go_on() -> None:
    texts = {"a.py": "x = (\n", "b.py": f"{PLAIN}mistake()\n"}
    outcome = CheckRun(request_of(texts)).check()
    assert [(one.finding.location.path, one.finding.location.line, one.finding.rule) for one in outcome.reported] == [
        ("a.py", 1, "syntax-error"),
        ("b.py", 3, "planted"),
    ]
    assert outcome.reported[0].finding.message == "'(' was never closed"


@pytest.mark.parametrize("words", ["ignore", "ignore[syntax-error]"])
def test_no_comment_hides_that_a_file_was_not_checked(words: str) -> None:
    outcome = outcome_of(f"x = )  # lintrain: {words}\n")
    assert [(line, rule) for line, rule, _ in said(outcome)] == [(1, "syntax-error")]


def test_a_comment_that_names_what_no_comment_silences_is_told() -> None:
    assert said(outcome_of("x = 1  # lintrain: ignore[syntax-error]\n")) == [
        (1, "unused-suppression", "no comment suppresses `syntax-error`")
    ]


def test_a_syntax_error_in_a_notebook_lies_in_its_cell() -> None:
    outcome = outcome_of(notebook("#md x", "y = 1", "z = 1\nx = )"), "n.ipynb")
    (one,) = outcome.reported
    location = outcome.sources["n.ipynb"].locate(one.finding.location)
    assert (one.finding.rule, location.cell, location.line, location.column) == ("syntax-error", 3, 2, 5)


def test_a_finding_in_a_notebook_lies_in_its_cell() -> None:
    outcome = outcome_of(notebook(HEAD, "!ls\nmistake()", "def mistake(): ..."), "n.ipynb")
    (one,) = outcome.reported
    location = outcome.sources["n.ipynb"].locate(one.finding.location)
    assert (location.cell, location.line) == (2, 2)


def test_without_ruff_a_note_says_so_and_nothing_else_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lintrain.check.names.ruff, "find_ruff", lambda: None)
    outcome = outcome_of(f"{PLAIN}mistake()\nnowhere  # lintrain: ignore[undefined-name]\n")
    assert rules_of(outcome) == [(3, "planted")]
    (note,) = outcome.notes
    assert note.startswith("ruff is not installed")


def test_a_ruff_that_fails_is_a_note(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    program = project / "ruff"
    program.write_text("#!/bin/sh\necho 'unexpected argument' >&2\nexit 2\n")
    program.chmod(0o755)
    monkeypatch.setattr(lintrain.check.names.ruff, "find_ruff", lambda: str(program))
    said = "ruff failed on t.py (unexpected argument), so undefined names are not checked there"
    assert outcome_of(HEAD).notes == (said,)


def mended(text: str, name: str = "t.py", *, unsafe: bool = False) -> FixedFiles:
    request = request_of({name: text})
    return fix_files(request, CheckRun(request).check(), unsafe=unsafe)


BODY = "def mistake(): ...\ndef gamble(): ...\ndef right(): ...\n"


def test_safe_fixes_are_written_and_what_is_left_is_found_again() -> None:
    result = mended(f"{HEAD}{BODY}mistake()  # kept\ngamble()\n")
    assert result.contents == {"t.py": f"{HEAD}{BODY}right()  # kept\ngamble()\n".encode()}
    assert rules_of(result.outcome) == [(6, "planted")]
    assert result.fixed == {(result.outcome.files[0].path, "planted"): 1}


def test_unsafe_fixes_are_written_when_asked_for() -> None:
    result = mended(f"{HEAD}{BODY}mistake()\ngamble()\n", unsafe=True)
    assert result.contents == {"t.py": f"{HEAD}{BODY}right()\nright()\n".encode()}
    assert said(result.outcome) == []


def test_a_fix_that_cannot_be_written_is_named_and_the_others_are_written() -> None:
    request = request_of({"t.py": f"{HEAD}{BODY}mistake()\ngamble()\nmistake()\n"}, (CLUMSY,))
    result = fix_files(request, CheckRun(request).check(), unsafe=False)
    assert result.contents == {"t.py": f"{HEAD}{BODY}right()\ngamble()\nright()\n".encode()}
    assert rules_of(result.outcome) == [(6, "clumsy")]
    (note,) = result.notes
    assert note.startswith("t.py:6:1: a fix could not be written (write `right(`): ")


def test_a_fix_in_a_notebook_keeps_its_magics() -> None:
    result = mended(notebook(f"%pip install x\n{HEAD}{BODY}", "!ls\nmistake()\n%time gamble()"), "n.ipynb")
    after = notebook(f"%pip install x\n{HEAD}{BODY}", "!ls\nright()\n%time gamble()")
    assert result.contents == {"n.ipynb": after.encode()}


def test_fixing_twice_changes_nothing_more() -> None:
    first = mended(f"{HEAD}{BODY}mistake()\n").contents["t.py"].decode()
    assert mended(first).contents == {}


def test_a_suppressed_finding_is_not_fixed() -> None:
    assert mended(f"{HEAD}{BODY}mistake()  # lintrain: ignore[planted]\n").contents == {}


def test_a_file_that_takes_too_many_steps_is_left_in_peace(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(source: Source, targets: TargetVersions, *_: object) -> Pipeline:
        return Pipeline(source, targets, is_exhausted=True)

    monkeypatch.setattr(lintrain.read, "read_pipeline", exhausted)
    outcome = outcome_of(f"{PLAIN}mistake()  # lintrain: ignore[planted]\n")
    assert said(outcome) == []
    assert outcome.files[0].is_exhausted


def test_a_file_that_the_reader_fails_on_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> Pipeline:
        raise KeyError("odd")

    monkeypatch.setattr(lintrain.read, "read_pipeline", failing)
    outcome = outcome_of(f"{PLAIN}mistake()  # lintrain: ignore[planted]\nprint(nowhere)\n")
    assert rules_of(outcome) == [(4, "undefined-name")]
    (crash,) = outcome.crashes
    assert (crash.path, crash.rule, crash.error) == ("t.py", "reader", "KeyError: 'odd'")


def test_trees_are_not_kept() -> None:
    outcome = outcome_of(f"{PLAIN}mistake()\n")
    assert all("tree" not in vars(source) for source in outcome.sources.values())


def test_what_is_odd_about_the_versions_of_a_project_is_a_note() -> None:
    request = replace(request_of({"t.py": PLAIN}), find_targets=lambda _: TargetVersions(notes=("odd lock file",)))
    assert CheckRun(request).check().notes == ("odd lock file",)


def test_each_folder_is_judged_by_the_versions_of_its_own_project(project: Path) -> None:
    for name, version in (("old", "4.40.0"), ("new", "5.23.0")):
        (project / name).mkdir()
        (project / name / "requirements.txt").write_text(f"transformers=={version}\n")
    rules = load_rules()
    texts = {f"{name}/train.py": "from transformers import AdamW\n" for name in ("old", "new")}
    request = replace(request_of(texts, rules, ["removed-name"]), find_targets=find_versions)
    outcome = CheckRun(request).check()
    assert [one.finding.location.path for one in outcome.reported] == ["new/train.py"]


@pytest.mark.parametrize(
    ("install", "expected"),
    [
        ("!pip install -q transformers==4.46.3 datasets", 0),
        ("%pip install 'transformers[torch]>=4.40,<4.47'", 0),
        ("!uv pip install --upgrade transformers==5.23.0", 1),
        ("!pip install -q git+https://github.com/huggingface/transformers.git", 0),
        ("!pip install -q transformers", 1),
        ("!echo transformers==4.46.3", 1),
        ("!pip -q install transformers==4.37.2", 0),
        ("!pip install -q \\\n    datasets \\\n    'transformers>=4.40,<4.47'", 0),
        ("!python -m pip install transformers==4.46.3", 0),
        ("!PIP_QUIET=1 pip install transformers==4.46.3", 0),
        ("!conda install -y transformers=4.46.3", 0),
        ("%%bash\ncd . && pip install transformers==4.46.3", 0),
        ("%%writefile requirements.txt\ntransformers==4.46.3", 0),
        ("get_ipython().system('pip install transformers==4.46.3')", 0),
        ("import os\nos.system('pip install \"transformers>=4.40,<4.47\"')", 0),
        ("# !pip install transformers==4.46.3", 0),
        ("# fails since transformers==4.46.3", 1),
        ("!pip install --no-index --find-links=../wheels transformers", 0),
        ("!pip uninstall -y transformers==4.46.3", 1),
        ("!pip install git+https://github.com/huggingface/transformers.git@v4.46.3", 0),
        ("!pip install git+https://github.com/huggingface/transformers.git@v5.2.0", 1),
    ],
)
def test_a_notebook_is_judged_by_the_versions_that_it_installs(install: str, expected: int) -> None:
    made = 'TrainingArguments("out", evaluation_strategy="epoch")'
    cells = [install, f"from transformers import TrainingArguments\n\n{made}"]
    rules = [rule for rule in load_rules() if rule.name == "removed-argument"]
    request = request_of({"t.ipynb": notebook(*cells)}, rules, ["removed-argument"])
    outcome = CheckRun(replace(request, find_targets=lambda _: find_versions("/", {"datasets": "==5.2.0"}))).check()
    assert len(outcome.reported) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# transformers==4.46.3", 0),
        ('"""Train.\n\nRequirements:\n    transformers==4.37.2\n"""', 0),
        ('# /// script\n# dependencies = [\n#     "transformers>=4.40,<5",\n# ]\n# ///', 0),
        ("# transformers>=4.40,<4.46 takes another name", 1),
    ],
)
def test_a_script_is_judged_by_the_versions_in_its_comments(text: str, expected: int) -> None:
    made = 'TrainingArguments("out", evaluation_strategy="epoch")'
    rules = [rule for rule in load_rules() if rule.name == "removed-argument"]
    texts = {"t.py": f"{text}\nfrom transformers import TrainingArguments\n\n{made}\n"}
    request = replace(request_of(texts, rules, ["removed-argument"]), find_targets=lambda _: TargetVersions(NEWEST))
    assert len(CheckRun(request).check().reported) == expected


@pytest.mark.parametrize(("is_known", "expected"), [(True, 1), (False, 0)])
def test_an_open_range_in_a_script_leaves_a_version_outside_the_tables_unknown(is_known: bool, expected: int) -> None:
    rules = [rule for rule in load_rules() if rule.name == "removed-name"]
    texts = {"t.py": "# requires transformers>=4.20\nfrom transformers import AdamW\n"}
    targets = TargetVersions(NEWEST if is_known else {})
    request = replace(request_of(texts, rules, ["removed-name"]), find_targets=lambda _: targets)
    assert len(CheckRun(request).check().reported) == expected


@pytest.mark.parametrize(("targets", "level", "is_safe"), [("assumed", "warning", False), ("stated", "error", True)])
def test_an_assumed_version_makes_a_warning_and_no_safe_fix(targets: str, level: str, is_safe: bool) -> None:
    names = ["removed-argument", "removed-name", "unknown-argument", "chat-template-return-type"]
    rules = [rule for rule in load_rules() if rule.name in names]
    texts = {
        "t.py": "from transformers import TrainingArguments, AutoTokenizer\nfrom transformers import AdamW\n\n"
        'TrainingArguments("out", evaluation_strategy="epoch")\nTrainingArguments("out", lerning_rate=1.0)\n'
        'ids = AutoTokenizer.from_pretrained("gpt2").apply_chat_template([{"role": "user", "content": "a"}])\n'
        "print(len(ids.tolist()))\n"
    }
    versions = NEWEST if targets == "assumed" else exactly(transformers="5.23.0").targets
    request = replace(request_of(texts, rules, names), find_targets=lambda _: TargetVersions(versions))
    found = CheckRun(request).check().reported
    assert {one.finding.rule for one in found} == set(names)
    assert {one.finding.level.value for one in found} == {level}
    assert all("newest assumed" in one.finding.message for one in found) is not is_safe
    assert any(one.fix is not None and one.fix.safe for one in found) is is_safe
