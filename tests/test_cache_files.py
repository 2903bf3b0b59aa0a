"""What is kept of single files is given again while nothing that it rests on has changed: as if all was read afresh."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lintrain.cache import runs, store, whole_files
from lintrain.cache.whole_files import SEAL, SECOND, make_folder, sealed, unsealed
from lintrain.check import executor
from lintrain.check.plain_values import as_plain, from_plain
from lintrain.model.finding import Finding, Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from tests.conftest import ROOT
from tests.support.kept_project import (
    ALL,
    CELLS,
    CHECK,
    FILES,
    LOOP,
    MODEL,
    NET,
    Answer,
    Ask,
    afresh,
    ask,
    notebook,
    project,
    put,
    read_afresh,
    shelves,
)

__all__ = ["ask", "project", "read_afresh"]
"""The fixtures."""

SCRIPT_OF_MODEL = ["parts/model.py", "train.py"]
SAVED = '{"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}}'
CHANGES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a script": (put("plain.py", "import torch\n\nprint(other)\n"), ["plain.py"]),
    "a module": (put("parts/net.py", NET + "missing\n"), ["loop.py", "parts/net.py"]),
    "a module of another script": (put("parts/model.py", MODEL.replace('d")', 'd", num_labels=3)')), SCRIPT_OF_MODEL),
    "a module that goes": (lambda project: (project / "parts/net.py").unlink(), ["loop.py"]),
    "a new name": (lambda project: (project / "loop.py").rename(project / "round.py"), ["round.py"]),
    "a module before a library": (put("evaluate.py", "import torch\n"), ["evaluate.py", "train.py"]),
    "settings beside a script": (put("settings.json", '{"learning_rate": 5}'), ["train.py"]),
    "a saved model": (put("bert-base-cased/config.json", SAVED), ["train.py"]),
    "a syntax error": (put("plain.py", "import torch\n\nprint(\n"), ["plain.py"]),
    "a cell": (put("book.ipynb", notebook(*CELLS, "other_name\n")), ["book.ipynb"]),
    "the time alone": (lambda project: os.utime(project / "parts/model.py"), []),
    "a file that no script is about": (put("notes.txt", "text"), []),
    "a comment": (put("quiet.py", FILES["quiet.py"].replace("on purpose", "why")), ["quiet.py"]),
    "a level": (put("lintrain.toml", '[levels]\nundefined-name = "note"\n'), []),
    "a rule less": (put("lintrain.toml", 'ignore = ["undefined-name"]\n'), ALL),
}


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_has_only_those_read_that_it_matters_to(
    project: Path, ask: Ask, read_afresh: list[str], change: str
) -> None:
    before = ask()
    assert sorted(read_afresh) == ALL
    make, readers = CHANGES[change]
    make(project)
    read_afresh.clear()
    after = ask()
    assert sorted(set(read_afresh) & set(readers)) == readers, "what the change matters to was not read"
    assert sorted(read_afresh) == readers
    assert after == ask(*afresh())
    assert (after == before) == (change in UNSEEN)


UNSEEN = {"the time alone", "a file that no script is about"}


def versions(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers==4.30.0\n")


def installed(project: Path) -> None:
    (project / "requirements.txt").unlink()
    (project / ".venv/lib/python3.11/site-packages/transformers-4.30.0.dist-info").mkdir(parents=True)


@pytest.mark.parametrize("change", [versions, installed])
def test_another_version_is_seen(project: Path, ask: Ask, change: Callable[[Path], None]) -> None:
    assert "removed-argument" in ask("check", "train.py")[1]
    change(project)
    assert "removed-argument" not in ask("check", "train.py")[1]


def write_half(file: Path) -> object:
    return file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def tampered(old: bytes, new: bytes) -> Callable[[Path], object]:
    """Another content under its own seal, as no damage leaves it."""

    def tamper(file: Path) -> object:
        content = file.read_bytes()[len(store.MAGIC) + SEAL :]
        return file.write_bytes(sealed(store.MAGIC, content.replace(old, new)))

    return tamper


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": write_half,
    "cut off at its end": lambda file: file.write_bytes(file.read_bytes()[:-1]),
    "emptied": lambda file: file.write_bytes(b""),
    "garbage": lambda file: file.write_bytes(store.MAGIC + bytes(range(256)) * 20),
    "one word": lambda file: file.write_bytes(file.read_bytes().replace(b"undefined", b"undefinee")),
    "of another version": lambda file: file.write_bytes(file.read_bytes().replace(b"files 1", b"files 9")),
    "words that are none": tampered(b'["Finding",', b'["Popen",'),
    "words of other parts": tampered(b'["Finding",', b'["Finding",1,2,'),
    "no looks": tampered(b'"looks"', b'"lucks"'),
    "looks that are none": tampered(b'"looks":[', b'"looks":[1,'),
    "other surroundings": tampered(b'"key":"', b'"key":"9'),
    "a list": lambda file: file.write_bytes(sealed(store.MAGIC, b"[]")),
    "nesting": lambda file: file.write_bytes(sealed(store.MAGIC, b"[" * 100_000)),
    "a folder": a_folder,
}


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_made_again_without_a_word(
    project: Path, ask: Ask, read_afresh: list[str], damage: str
) -> None:
    first = ask(*CHECK, "--verbose")[:2]
    for shelf in shelves(project):
        DAMAGES[damage](shelf)
    read_afresh.clear()
    again = ask(*CHECK, "--verbose")
    assert again[:2] == first
    assert [line.partition(" ")[0] for line in again[2].splitlines()] == ["quiet.py:", "checked"]
    assert "plain.py" in read_afresh
    read_afresh.clear()
    assert ask(*CHECK, "--verbose")[:2] == first
    assert read_afresh == ([] if damage != "a folder" else ALL)


def test_reading_what_is_kept_makes_nothing_but_plain_words() -> None:
    for words in (
        ["Popen", "ls"],
        ["os.system", "ls"],
        [["Finding"]],
        ["Level", "worst"],
        ["Location"],
        {"a": ["eval"]},
    ):
        with pytest.raises((KeyError, TypeError, ValueError)):
            from_plain(words)


def test_what_cannot_come_back_as_it_was_is_not_kept() -> None:
    with pytest.raises(TypeError):
        as_plain({"labels": [1, 2]})
    with pytest.raises(TypeError):
        as_plain({1: "one"})
    finding = Finding(
        "rule", Level.NOTE, Location("a.py", 1, 2, 3, 4), "says", related=(Related(Location("b.py", 1, 1, 1, 1), "so"),)
    )
    again = from_plain(json.loads(json.dumps(as_plain((finding, 1.5, None, True, "\ud800")))))
    assert again == (finding, 1.5, None, True, "\ud800")
    assert type(again[0].level) is Level


def test_a_folder_that_others_may_write_into_is_not_believed(project: Path, ask: Ask, read_afresh: list[str]) -> None:
    ask(*CHECK, "--verbose")
    shelves(project)[0].parent.chmod(0o777)
    read_afresh.clear()
    ask(*CHECK, "--verbose")
    assert sorted(read_afresh) == ALL


def no_room(*_: object) -> object:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["make_folder", "put", "prune"])
def test_where_nothing_can_be_written_nothing_is_said(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    plain = ask(*afresh())
    for module in (store, runs):
        monkeypatch.setattr(module, call, no_room, raising=False)
    assert ask() == plain
    put("plain.py", FILES["loop.py"])(project)
    assert ask() == ask(*afresh())


def test_a_store_that_is_a_file_is_passed_by(project: Path, ask: Ask) -> None:
    make_folder(str(project.parent / "cache" / ".lintrain_cache" / "files"))
    (project.parent / "cache" / ".lintrain_cache" / "files").rmdir()
    (project.parent / "cache" / ".lintrain_cache" / "files").write_text("no folder")
    assert ask() == ask(*afresh())


def test_only_this_user_reads_what_is_kept(project: Path, ask: Ask) -> None:
    ask()
    file = shelves(project)[0]
    assert [each.stat().st_mode & 0o777 for each in (file, file.parent, file.parent.parent)] == [0o600, 0o700, 0o700]


def test_old_files_go_and_so_do_too_many(project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    ask()
    first = shelves(project)
    for file in first:
        os.utime(file, (0, 0))
    ask(*CHECK, "--target", "transformers=4.30.0")
    assert not set(first) & set(shelves(project))
    monkeypatch.setattr(store, "MOST_KEPT", 1)
    ask(*CHECK, "--target", "transformers=4.40.0")
    assert len(list((project.parent / "cache" / ".lintrain_cache" / "files").iterdir())) == 1


def test_a_file_that_is_gone_is_forgotten(project: Path, ask: Ask) -> None:
    ask()
    (project / "plain.py").unlink()
    put("quiet.py", "import torch\n")(project)
    ask()
    assert not any(b"plain.py" in file.read_bytes() for file in shelves(project))


def test_clean_drops_what_is_kept_of_files(project: Path, ask: Ask, read_afresh: list[str]) -> None:
    ask()
    assert ask("clean")[0] == 0
    assert not (project.parent / "cache" / ".lintrain_cache" / "files").exists()
    read_afresh.clear()
    ask()
    assert sorted(read_afresh) == ALL


def test_without_the_cache_nothing_is_kept_or_taken(project: Path, ask: Ask, read_afresh: list[str]) -> None:
    ask(*afresh())
    assert not (project.parent / "cache").exists()
    ask()
    read_afresh.clear()
    ask(*afresh())
    assert sorted(read_afresh) == ALL


def test_what_changes_while_it_is_read_is_not_kept(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, read_afresh: list[str]
) -> None:
    now = whole_files.NOW
    monkeypatch.setattr(whole_files, "NOW", lambda: now() - 20 * SECOND)
    ask()
    monkeypatch.setattr(whole_files, "NOW", now)
    read_afresh.clear()
    ask()
    assert sorted(read_afresh) == ALL


@pytest.mark.parametrize(
    "words", [["--fix"], ["--diff"], ["--verbose"], ["--statistics"], ["--output-file", "../report"]]
)
def test_other_commands_take_what_is_kept(project: Path, ask: Ask, read_afresh: list[str], words: list[str]) -> None:
    ask()
    read_afresh.clear()
    ask("check", "--isolated", "plain.py", "parts", *words)
    assert read_afresh == []


def test_a_fixed_file_is_seen_as_it_was_written(project: Path, ask: Ask) -> None:
    ask()
    ask("check", "--fix", "--unsafe-fixes", ".")
    assert (project / "loop.py").read_text() != LOOP
    assert ask() == ask(*afresh())


def test_names_by_which_the_user_knows_files_are_part_of_what_is_kept(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("parts/net.py", NET.replace("Softmax(dim=1)", "ReLU()"))(project)
    put("main.py", "import torch\nfrom parts import steps\nsteps.go(torch.nn.Linear(2, 2), torch.ones(2))\n")(project)
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    for words in (["../train.py"], ["..", "."], ["../train.py", str(project / "parts")], [str(project)], ["../parts"]):
        asked = ["check", "--output-format", "json", *words]
        assert ask(*asked) == ask(*afresh(*asked)), words


def test_what_several_processes_read_is_kept(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, read_afresh: list[str]
) -> None:
    monkeypatch.setattr(executor, "WORTH_A_PROCESS", 1)
    first = ask(*CHECK, "--jobs", "2")
    assert read_afresh == []  # others read them
    assert ask(*CHECK, "--jobs", "1", "--verbose")[:2] == first[:2]
    assert read_afresh == []
    put("settings.json", '{"learning_rate": 5}')(project)  # only a process looked at it
    again = ask(*CHECK, "--jobs", "1", "--verbose")
    assert read_afresh == ["train.py"]
    assert again[:2] == ask(*afresh())[:2]


def test_a_file_that_lintrain_failed_on_is_read_again(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, read_afresh: list[str]
) -> None:
    def fail(*_: object) -> object:
        raise RuntimeError("boom")

    with monkeypatch.context() as broken:
        broken.setattr("lintrain.read.read_pipeline", fail)
        assert ask()[0] == 2
    read_afresh.clear()
    assert ask() == ask(*afresh())
    assert "train.py" in read_afresh


@pytest.fixture
def plain_processes(project: Path) -> Callable[[int], Answer]:
    """Asks in a process of its own; every other one of them has changed a file before."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    later = "import sys, lintrain.cache.whole_files as s; n = s.NOW; s.NOW = lambda: n() + 10 * s.SECOND; "
    command = [
        sys.executable,
        "-c",
        later + "from lintrain.cli import run_or_repeat; sys.exit(run_or_repeat(sys.argv[1:]))",
    ]

    def asked(number: int) -> Answer:
        words = [*CHECK, *(["--quiet"] if number % 2 else []), *(["--verbose"] if number % 3 else [])]
        done = subprocess.run(
            [*command, *words], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout, ""

    return asked


def test_runs_at_the_same_time_do_not_disturb_each_other(
    project: Path, ask: Ask, plain_processes: Callable[[int], Answer]
) -> None:
    with ThreadPoolExecutor(4) as pool:
        said = list(pool.map(plain_processes, range(6)))
    put("parts/net.py", NET.replace("dim=1", "dim=0"))(project)
    with ThreadPoolExecutor(4) as pool:
        later = list(pool.map(plain_processes, range(6)))
    assert set(later) == {(*ask(*afresh())[:2], "")}
    assert len(set(said)) == 1
    assert [file.suffix for file in shelves(project)] == [""] * 2
    assert all(unsealed(store.MAGIC, file.read_bytes()) for file in shelves(project))
