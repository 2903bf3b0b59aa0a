"""A kept answer is given again while nothing that it rests on has changed, and never longer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lintrain._version
import lintrain.cli
from lintrain.cache import runs, whole_files
from lintrain.cache.whole_files import SECOND
from lintrain.rulebook import find_rules
from lintrain.settings.settings import FORMATS
from tests.conftest import ROOT

TRAIN = """\
import json

import evaluate
import helper
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased", num_labels=helper.labels())
settings = json.load(open("settings.json"))
args = TrainingArguments("out", evaluation_strategy="epoch", **settings)
trainer = Trainer(model, args, train_dataset=nowhere)
trainer.train()
"""
HELPER = "def labels():\n    return 2\n"
CHECK = ["check", "--output-format", "concise", "--target", "transformers=4.57.6", "."]

Answer = tuple[int, str, str]
Ask = Callable[..., Answer]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose files are old enough to be told from changed ones."""
    monkeypatch.setenv("LINTRAIN_CACHE_DIR", str(tmp_path / "cache"))
    find_rules.cache_clear()  # a new process finds them itself
    now = whole_files.NOW
    monkeypatch.setattr(whole_files, "NOW", lambda: now() + 10 * SECOND)
    folder = tmp_path / "around" / "project"
    folder.mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "train.py").write_text(TRAIN)
    (folder / "helper.py").write_text(HELPER)
    (folder / "settings.json").write_text('{"learning_rate": 1e-5}')
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def read_afresh(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The command lines that were carried out, and not answered from what is kept."""
    carried_out: list[list[str]] = []
    run = lintrain.cli.run

    def heard(arguments: list[str]) -> int:
        carried_out.append(arguments)
        return run(arguments)

    monkeypatch.setattr(lintrain.cli, "run", heard)
    return carried_out


@pytest.fixture
def ask(capsysbinary: pytest.CaptureFixture[bytes]) -> Ask:
    def asked(*words: str) -> Answer:
        code = lintrain.cli.run_or_repeat(list(words or CHECK))
        said = capsysbinary.readouterr()
        return code, said.out.decode(), said.err.decode()

    return asked


def answers(project: Path) -> list[Path]:
    return sorted((project.parent.parent / "cache" / ".lintrain_cache" / "answers").iterdir())


def test_an_unchanged_project_is_read_once(project: Path, ask: Ask, read_afresh: list[list[str]]) -> None:
    first = ask()
    assert first[0] == 1
    assert "undefined-name" in first[1]
    assert [ask(), ask()] == [first, first]
    assert read_afresh == [CHECK]


def same_size_and_time(project: Path) -> None:
    before = (project / "train.py").stat()
    (project / "train.py").write_text(TRAIN.replace("nowhere", "nothing"))
    os.utime(project / "train.py", ns=(before.st_atime_ns, before.st_mtime_ns))


def put(name: str, text: str) -> Callable[[Path], object]:
    def write(project: Path) -> object:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        return (project / name).write_text(text)

    return write


def installed(version: str) -> Callable[[Path], object]:
    def install(project: Path) -> None:
        (project / f".venv/lib/python3.11/site-packages/transformers-{version}.dist-info").mkdir(parents=True)

    return install


CHANGES = {
    "the code": put("train.py", TRAIN.replace("nowhere", "missing")),
    "the code, with the size and the time that it had": same_size_and_time,
    "a new file": put("other.py", "import torch\nmissing\n"),
    "a new file in a new folder": put("inner/other.py", "import torch\nmissing\n"),
    "a file that goes": lambda project: (project / "train.py").unlink(),
    "a new name": lambda project: (project / "train.py").rename(project / "learn.py"),
    "a new .gitignore": put(".gitignore", "train.py\n"),
    "what git leaves out here": put(".git/info/exclude", "train.py\n"),
    "a new configuration": put("lintrain.toml", 'ignore = ["undefined-name"]\n'),
    "a new configuration in the folder above": put("../lintrain.toml", 'ignore = ["undefined-name"]\n'),
    "a table in pyproject.toml": put("pyproject.toml", '[tool.lintrain]\nignore = ["undefined-name"]\n'),
    "a module of the project": put("helper.py", "def labels():\n    return missing\nimport torch\n"),
    "a new baseline": put(
        "lintrain-baseline.json",
        '{"format": 1, "findings": {"train.py": [{"rule": "undefined-name", '
        '"code": "trainer = Trainer(model, args, train_dataset=nowhere)"}]}}',
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(project: Path, ask: Ask, read_afresh: list[list[str]], change: str) -> None:
    before = ask()
    CHANGES[change](project)
    after = ask()
    assert after != before
    assert after == ask("check", "--no-cache", *CHECK[1:])
    assert read_afresh == [CHECK, CHECK, ["check", "--no-cache", *CHECK[1:]]]


UNTOLD = ["check", "--output-format", "concise", "."]
VERSIONS = {
    "requirements": put("requirements.txt", "transformers==4.30.0\n"),
    "a lock file": put("uv.lock", '[[package]]\nname = "transformers"\nversion = "4.30.0"\n'),
    "what is installed beside the project": installed("4.30.0"),
}


@pytest.mark.parametrize("change", VERSIONS)
def test_another_version_is_seen(project: Path, ask: Ask, change: str) -> None:
    before = ask(*UNTOLD)
    assert "removed-argument" in before[1]
    VERSIONS[change](project)
    after = ask(*UNTOLD)
    assert "removed-argument" not in after[1]


@pytest.mark.parametrize(
    "change",
    [
        put("settings.json", '{"learning_rate": 2e-5}'),
        put("evaluate.py", "def load(name): ...\n"),
        put("transformers/__init__.py", ""),
        lambda project: (project / "helper.py").unlink(),
        put("bert-base-cased/config.json", "{}"),
    ],
    ids=["data", "a module before a library", "a package before a library", "a module that goes", "a saved model"],
)
def test_what_an_answer_may_rest_on_is_looked_at_again(
    project: Path, ask: Ask, read_afresh: list[list[str]], change: Callable[[Path], object]
) -> None:
    ask("check", "train.py")  # the folder itself is not listed
    ask("check", "train.py")
    assert len(read_afresh) == 1
    change(project)
    ask("check", "train.py")
    assert len(read_afresh) == 2


def test_other_words_folders_and_surroundings_are_other_questions(
    project: Path, ask: Ask, read_afresh: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    ask()
    assert "undefined-name" not in ask(*CHECK, "--ignore", "undefined-name")[1]
    with monkeypatch.context() as colored:
        colored.setenv("FORCE_COLOR", "1")
        assert "\x1b[" in ask()[1]
    with monkeypatch.context() as elsewhere:
        elsewhere.chdir(project.parent)
        assert "project/train.py" in ask()[1]
    for what in ((os.environ, "HF_HOME", str(project)), (os.environ, "PYTHONPATH", str(project))):
        with monkeypatch.context() as around:
            around.setitem(*what)
            ask()
    for where, name in ((lintrain._version, "__version__"), (sys, "version"), (sys, "executable")):
        with monkeypatch.context() as other:
            other.setattr(where, name, "0.0.0")
            ask()
    ask()
    assert len(read_afresh) == 9


def test_the_rules_and_lintrain_itself_are_part_of_an_answer(project: Path, ask: Ask) -> None:
    ask()
    (kept,) = answers(project)
    text = kept.read_bytes()
    for file in (*(ROOT / "rules").glob("[!_]*/[!_]*.py"), ROOT / "lintrain/check/check_run.py", ROOT / "rules/data"):
        assert b"\0%b\0" % os.fsencode(file) in b"\0" + text.partition(b"\n")[2], file


def test_a_verdict_of_a_probe_is_part_of_an_answer(project: Path, ask: Ask, read_afresh: list[list[str]]) -> None:
    from lintrain.cache.whole_files import make_folder
    from lintrain.runtime.parent.kept_verdicts import _location_of

    ask()
    folder, name = _location_of(project / "train.py")
    make_folder(folder)
    Path(folder, name).write_text("{}")
    ask()
    assert len(read_afresh) == 2


def test_what_changed_a_moment_ago_vouches_for_nothing(
    project: Path, ask: Ask, read_afresh: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = (project / "train.py").stat().st_mtime_ns
    monkeypatch.setattr(whole_files, "NOW", lambda: changed + whole_files.FRESH // 2)
    ask()
    ask()
    assert len(read_afresh) == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--no-cache"],
        ["--verbose"],
        ["--fix"],
        ["--diff"],
        ["--output-file", "../report.txt"],
        ["--add-ignores", "why"],
        ["--help"],
        ["--select", "nothing-known"],
    ],
    ids=lambda words: words[0],
)
def test_of_a_run_that_does_more_than_read_nothing_is_kept(project: Path, ask: Ask, words: list[str]) -> None:
    ask("check", "train.py", *words)
    assert not (project.parent.parent / "cache" / ".lintrain_cache" / "answers").exists()


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("form", [*FORMATS, "statistics", "settings", "files"])
def test_a_kept_answer_has_every_byte_of_a_fresh_one(
    project: Path, ask: Ask, read_afresh: list[list[str]], form: str
) -> None:
    words = ["check", str(ROOT / "fixtures" / "course"), "."]
    options = {"statistics": ["--statistics"], "settings": ["--show-settings"], "files": ["--show-files"]}
    words += options.get(form, ["--output-format", form])
    first = ask(*words)
    assert ask(*words) == first
    assert len(read_afresh) == 1
    assert ask(*words, "--no-cache") == first


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]),
    "cut off at its end": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "emptied": lambda file: file.write_bytes(b""),
    "garbage": lambda file: file.write_bytes(b"lintrain answer 1\n" + bytes(range(256)) * 20),
    "one byte": lambda file: file.write_bytes(file.read_bytes().replace(b"undefined", b"undefinee")),
    "of another version": lambda file: file.write_bytes(file.read_bytes().replace(b"answer 1", b"answer 9")),
    "a folder": a_folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_broken_answer_is_made_again_without_a_word(
    project: Path, ask: Ask, read_afresh: list[list[str]], damage: str
) -> None:
    first = ask()
    DAMAGES[damage](*answers(project))
    assert ask() == first
    assert len(read_afresh) == 2


def test_the_answer_to_another_question_is_none(project: Path, ask: Ask, read_afresh: list[list[str]]) -> None:
    ask(*CHECK, "--exit-zero")
    (other,) = answers(project)
    first = ask()
    (mine,) = (each for each in answers(project) if each != other)
    shutil.copy(other, mine)
    assert ask() == first
    assert len(read_afresh) == 3


def test_a_folder_that_others_may_write_into_is_not_believed(
    project: Path, ask: Ask, read_afresh: list[list[str]]
) -> None:
    first = ask()
    answers(project)[0].parent.chmod(0o777)
    assert ask() == first
    assert len(read_afresh) == 2


def no_room(*_: object) -> object:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["make_folder", "put"])
def test_where_nothing_can_be_written_nothing_is_said(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    first = ask()
    shutil.rmtree(project.parent.parent / "cache")
    monkeypatch.setattr(runs, call, no_room)
    assert ask() == first


def test_a_cache_that_is_a_file_is_passed_by(project: Path, ask: Ask) -> None:
    (project.parent.parent / "cache").write_text("no folder")
    assert ask() == ask("check", "--no-cache", *CHECK[1:])


def test_only_this_user_reads_what_is_kept(project: Path, ask: Ask) -> None:
    ask()
    (kept,) = answers(project)
    assert [each.stat().st_mode & 0o777 for each in (kept, kept.parent, kept.parent.parent)] == [0o600, 0o700, 0o700]


def test_old_answers_go_and_so_do_too_many(project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    ask()
    (first,) = answers(project)
    os.utime(first, (0, 0))
    ask(*CHECK, "--quiet")
    assert first not in answers(project)
    monkeypatch.setattr(runs, "MOST_KEPT", 2)
    for option in ("--exit-zero", "--statistics", "--preview"):
        ask(*CHECK, option)
    assert len(answers(project)) == 2


@pytest.mark.parametrize("words", [["--cache-dir", ".lintrain_cache"], ["--cache-dir=.lintrain_cache"]])
def test_a_folder_can_be_named_and_is_left_out_by_git(
    project: Path, ask: Ask, read_afresh: list[list[str]], words: list[str]
) -> None:
    for _ in range(3):
        ask(*CHECK, *words)
    assert len(read_afresh) == 2  # the folder itself was new to the first
    assert (project / ".lintrain_cache" / ".lintrain_cache" / ".gitignore").read_text() == "*\n"
    assert not (project.parent.parent / "cache").exists()


def test_clean_drops_what_is_kept_and_nothing_else(project: Path, ask: Ask, read_afresh: list[list[str]]) -> None:
    ask()
    folder = project.parent.parent / "cache"
    (folder / "mine.txt").write_text("mine")
    assert ask("clean") == (0, "", f"lintrain: removed 2 files from {folder}\n")
    assert {each.name for each in folder.iterdir()} == {"mine.txt"}
    ask()
    assert len(read_afresh) == 3


@pytest.fixture
def plain_processes(project: Path) -> Callable[[int], Answer]:
    """Asks in a process of its own, as a person does."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "lintrain", *CHECK]

    def asked(_: int) -> Answer:
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return asked


def test_runs_at_the_same_time_do_not_disturb_each_other(
    project: Path, ask: Ask, plain_processes: Callable[[int], Answer]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(plain_processes, range(8)))
    assert set(said) == {ask("check", "--no-cache", *CHECK[1:])}
    assert [each.suffix for each in answers(project)] == [""]


LATER = """\
import sys
import lintrain.cache.whole_files as stamps

now = stamps.NOW
stamps.NOW = lambda: now() + 10 * stamps.SECOND
SETTING
before = set(sys.modules)
from lintrain.cli import run_or_repeat

run_or_repeat(sys.argv[1:])
print("loaded:", *set(sys.modules) - before, file=sys.stderr)
"""
"""Asks where every file is old enough, and tells what was imported for the answer."""


def ask_later(*words: str, setting: str = "") -> tuple[str, set[str]]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LATER.replace("SETTING", setting), *words],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout, set(done.stderr.partition("loaded:")[2].split())


def test_a_kept_answer_needs_no_module_that_takes_long(project: Path) -> None:
    heavy = {"click", "json", "re", "typing", "pathlib", "dataclasses", "ast", "hashlib", "platformdirs"}
    assert heavy & ask_later(*CHECK)[1] >= {"json", "pathlib", "dataclasses", "ast"}
    assert heavy & ask_later(*CHECK)[1] == set()


def test_what_several_processes_saw_is_one_answer(project: Path) -> None:
    words = [*CHECK, "--jobs", "2"]
    executor = "import lintrain.check.executor as executor; executor.WORTH_A_PROCESS = 1\n"
    first, loaded = ask_later(*words, setting=executor)
    assert "multiprocessing" in loaded
    again, loaded = ask_later(*words, setting=executor)
    assert "multiprocessing" not in loaded
    assert again == first
    (project / "settings.json").write_text('{"eval_strategy": "steps"}')  # only the processes looked at it
    changed, _ = ask_later(*words, setting=executor)
    assert changed == ask_later(*words, "--no-cache")[0]
    assert changed != first


def test_a_name_that_no_file_can_have_breaks_no_answer(project: Path, ask: Ask, read_afresh: list[list[str]]) -> None:
    (project / "train.py").write_text(TRAIN.replace("settings.json", "set\\0tings.json"))
    assert ask("check", "train.py") == ask("check", "train.py")
    assert len(read_afresh) == 1


@pytest.mark.parametrize("name", ["helper/labels.py", "src/evaluate/__init__.py"])
def test_a_module_that_comes_later_in_a_folder_that_is_not_there_yet_is_seen(
    project: Path, ask: Ask, read_afresh: list[list[str]], name: str
) -> None:
    ask("check", "train.py")
    put(name, "")(project)
    ask("check", "train.py")
    assert len(read_afresh) == 2


def test_of_a_run_that_asks_git_nothing_is_kept(project: Path, ask: Ask) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    (project / "helper.py").write_text("import torch\nmissing\n")
    assert "missing" in ask("check", "--changed-since", "HEAD")[1]
    assert not (project.parent.parent / "cache" / ".lintrain_cache" / "answers").exists()
