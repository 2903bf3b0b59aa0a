"""The project's own modules: which file an import means, and what is known of what stands in it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from lintrain.interpreter import project_modules
from lintrain.interpreter.core import project_state
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Constant, Either, Value
from lintrain.read import read_pipeline
from lintrain.source.project import TREES, Project
from lintrain.source.reading import read_file
from tests.support.notebooks import notebook

SHOW = "from transformers import TrainingArguments\n"


def write(folder: Path, files: dict[str, str]) -> None:
    for name, code in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(code), encoding="utf-8")


def read(folder: Path, files: dict[str, str], script: str = "train.py") -> Pipeline:
    write(folder, files)
    return read_pipeline(read_file(str(folder / script)), TargetVersions(), Project())


def shown(folder: Path, files: dict[str, str], script: str = "train.py") -> object:
    """What the script gives `TrainingArguments` for `output_dir`: a literal, or the name of what it is else."""
    arguments = read(folder, files, script).arguments[-1]
    return plain(arguments.value("output_dir"))


def plain(value: Value) -> object:
    if isinstance(value, Either):
        return {plain(option) for option in value.options}
    return value.value if isinstance(value, Constant) else type(value).__name__


def script(imports: str, expression: str = "x") -> str:
    return f"{SHOW}{dedent(imports)}\nTrainingArguments({expression})\n"


@pytest.mark.parametrize(
    ("files", "imports", "expression"),
    [
        ({"m.py": "x = 'known'"}, "from m import x", "x"),
        ({"m.py": "x = 'known'"}, "from m import x as y", "y"),
        ({"m.py": "x = 'known'"}, "import m", "m.x"),
        ({"m.py": "x = 'known'"}, "from m import *", "x"),
        ({"m.py": "def f(a): return a"}, "from m import f", "f('known')"),
        ({"m.py": "class C:\n    def f(self): return 'known'"}, "from m import C", "C().f()"),
        ({"p/__init__.py": "", "p/m.py": "x = 'known'"}, "import p.m as s", "s.x"),
        ({"p/__init__.py": "", "p/m.py": "x = 'known'"}, "import p.m", "p.m.x"),
        ({"p/__init__.py": "", "p/m.py": "x = 'known'"}, "from p import m", "m.x"),
        ({"p/__init__.py": "from .m import x", "p/m.py": "x = 'known'"}, "from p import x", "x"),
        ({"p/__init__.py": "from p.m import x", "p/m.py": "x = 'known'"}, "from p import x", "x"),
        ({"p/__init__.py": "from .m import *", "p/m.py": "x = 'known'"}, "from p import x", "x"),
        ({"p/m.py": "x = 'known'"}, "from p.m import x", "x"),
        ({"p/m.py": "x = 'known'"}, "import p.m", "p.m.x"),
        ({"p/q/__init__.py": "x = 'known'"}, "import p.q", "p.q.x"),
        ({"p/q/r/__init__.py": "x = 'known'"}, "import p.q.r", "p.q.r.x"),
        ({"p/q/m.py": "x = 'known'"}, "import p.q.m", "p.q.m.x"),
        ({"p/q/__init__.py": "from ..m import x", "p/m.py": "x = 'known'"}, "from p.q import x", "x"),
        ({"p/__init__.py": "from . import m", "p/m.py": "x = 'known'"}, "import p", "p.m.x"),
        ({"m.py": "x = 'known'"}, "def f():\n    from m import x\n    return x", "f()"),
        ({"m.py": "x = 'known'"}, "try:\n    from m import x\nexcept ImportError:\n    x = 'known'", "x"),
        ({"m.py": "import train\nx = 'known'"}, "from m import x", "x"),
        ({"m.py": "from n import y\nx = 'known'", "n.py": "from m import x\ny = 1"}, "from m import x", "x"),
        ({"m.py": "if __name__ == '__main__':\n    x = 'wrong'\nelse:\n    x = 'known'"}, "from m import x", "x"),
        ({"datasets.py": "x = 'known'"}, "from datasets import x", "x"),
    ],
)
def test_a_name_of_the_project_is_followed(
    tmp_path: Path, files: dict[str, str], imports: str, expression: str
) -> None:
    assert shown(tmp_path, {**files, "train.py": script(imports, expression)}) == "known"


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({"src/p/__init__.py": "", "src/p/m.py": "x = 'known'"}, "scripts/train.py"),
        ({"p/__init__.py": "", "p/m.py": "x = 'known'"}, "scripts/train.py"),
        ({"p/__init__.py": "", "p/m.py": "x = 'known'"}, "p/cli/train.py"),
    ],
)
def test_the_root_of_the_project_and_its_src_are_looked_in(tmp_path: Path, files: dict[str, str], where: str) -> None:
    files = {**files, "pyproject.toml": "", "p/cli/__init__.py": "", where: script("from p.m import x")}
    assert shown(tmp_path, files, where) == "known"


def test_a_src_beside_the_script_is_looked_in(tmp_path: Path) -> None:
    code = script("import sys\nsys.path.insert(0, 'src')\nfrom p.m import x\n")
    assert shown(tmp_path, {"src/p/__init__.py": "", "src/p/m.py": "x = 'known'", "train.py": code}) == "known"


def test_without_a_mark_of_a_project_only_the_own_folder_is_looked_in(tmp_path: Path) -> None:
    files = {"m.py": "x = 'known'", "deep/train.py": script("from m import x")}
    assert shown(tmp_path, files, "deep/train.py") == "Unknown"


@pytest.mark.parametrize("added", ["../shared", "shared", "/content/drive/shared", "/content/drive/work/shared"])
def test_a_folder_that_a_script_adds_to_the_path_is_looked_in(tmp_path: Path, added: str) -> None:
    code = f"import sys\nsys.path.append({added!r})\nfrom m import x\n"
    files = {"pyproject.toml": "", "shared/m.py": "x = 'known'", "deep/train.py": script(code)}
    assert shown(tmp_path, files, "deep/train.py") == "known"


def test_but_no_folder_of_another_project(tmp_path: Path) -> None:
    code = "import sys\nsys.path.insert(0, '../../shared')\nfrom m import x\n"
    files = {"here/pyproject.toml": "", "shared/m.py": "x = 'known'", "here/deep/train.py": script(code)}
    assert shown(tmp_path, files, "here/deep/train.py") == "Unknown"


def test_without_one_the_folder_that_is_checked_from_is_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = {"p/m.py": "x = 'known'", "deep/train.py": script("from p.m import x")}
    assert shown(tmp_path, files, "deep/train.py") == "known"


def test_a_relative_import_in_the_script_is_followed(tmp_path: Path) -> None:
    files = {"p/__init__.py": "", "p/m.py": "x = 'known'", "p/train.py": script("from .m import x")}
    assert shown(tmp_path, files, "p/train.py") == "known"


def test_a_notebook_imports_what_lies_beside_it(tmp_path: Path) -> None:
    files = {"m.py": "x = 'known'", "n.ipynb": notebook(script("from m import x"))}
    assert shown(tmp_path, files, "n.ipynb") == "known"


@pytest.mark.parametrize(
    ("files", "imports"),
    [
        ({"m.py": "y = 1"}, "from m import x"),
        ({"m.py": "x = ("}, "from m import x"),
        ({"m.py": "x = x"}, "from m import x"),
        ({"m.py": "from n import x", "n.py": "from m import x"}, "from m import x"),
        ({"m.py": "from n import x"}, "from m import x"),
        ({"m.py": "_x = 'private'"}, "from m import *\nx = _x"),
        ({"site-packages/m.py": "x = 'installed'"}, "from m import x"),
        ({"m/readme.txt": "a folder of files"}, "import m\nx = m.x"),
    ],
)
def test_what_the_project_does_not_define_is_unknown(tmp_path: Path, files: dict[str, str], imports: str) -> None:
    assert shown(tmp_path, {**files, "train.py": script(imports)}) == "Unknown"


def test_installed_libraries_are_no_modules_of_a_script_among_them(tmp_path: Path) -> None:
    files = {"pyproject.toml": "", "site-packages/m.py": "x = 'installed'"}
    where = "site-packages/p/train.py"
    files |= {"site-packages/p/__init__.py": "", where: script("from m import x")}
    assert shown(tmp_path, files, where) == "Unknown"


def test_a_library_is_meant_unless_a_module_lies_beside_the_script(tmp_path: Path) -> None:
    files = {"pyproject.toml": "", "transformers/__init__.py": "", "scripts/train.py": script("x = 'seen'")}
    assert shown(tmp_path, files, "scripts/train.py") == "seen"
    write(tmp_path, {"scripts/transformers.py": ""})
    assert read(tmp_path, files, "scripts/train.py").arguments == []


def test_a_script_called_like_a_library_still_imports_the_library(tmp_path: Path) -> None:
    files = {"evaluate.py": "import evaluate\nmetric = evaluate.load('accuracy')"}
    assert len(read(tmp_path, files, "evaluate.py").metrics) == 1


def test_a_module_that_nothing_is_used_of_is_not_read(tmp_path: Path) -> None:
    pipeline = read(tmp_path, {"m.py": "x = 1", "train.py": "from m import x\nimport m"})
    assert list(pipeline.sources) == [str(tmp_path / "train.py")]


def test_places_and_code_are_those_of_the_module(tmp_path: Path) -> None:
    module = f"{SHOW}\ndef arguments(rate):\n    return TrainingArguments('out', rate)\n"
    pipeline = read(tmp_path, {"m.py": module, "train.py": "from m import arguments\nmade = arguments(1)"})
    call = pipeline.calls[-1]
    assert (call.location.path, call.location.line) == (str(tmp_path / "m.py"), 4)
    assert pipeline.code(call.location) == "TrainingArguments('out', rate)"
    assert pipeline.bindings[-1].location.path == str(tmp_path / "train.py")


def test_the_top_level_of_a_module_is_read_once(tmp_path: Path) -> None:
    module = "from transformers import TrainingArguments\nargs = TrainingArguments('out')\nother = 1"
    train = "import m\nfrom m import args, other\nmade = [args, other, m.args]"
    assert len(read(tmp_path, {"m.py": module, "train.py": train}).arguments) == 1


def test_functions_of_a_module_that_the_script_does_not_call_are_not_read(tmp_path: Path) -> None:
    module = "from transformers import TrainingArguments\nx = 1\ndef f():\n    return TrainingArguments('out')"
    assert read(tmp_path, {"m.py": module, "train.py": "from m import x\ny = x"}).arguments == []


def test_a_module_first_used_in_a_branch_is_read_as_at_its_import(tmp_path: Path) -> None:
    module = "from transformers import TrainingArguments\nTrainingArguments('out')\nx = 1"
    train = "import sys\nfrom m import x\nfor _ in sys.argv:\n    if sys.argv:\n        y = x"
    pipeline = read(tmp_path, {"m.py": module, "train.py": train})
    assert pipeline.calls[-1].is_certain


def test_a_module_imported_where_errors_are_expected_is_read_with_them_expected(tmp_path: Path) -> None:
    module = "from transformers import AdamW\nx = 1"
    train = "try:\n    from m import x\nexcept ImportError:\n    x = 2\ny = x"
    pipeline = read(tmp_path, {"m.py": module, "train.py": train})
    assert [name.is_guarded for name in pipeline.names] == [True]


def test_what_a_module_does_past_its_budget_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_state, "STEP_BUDGET", 60)
    heavy = "def f(a):\n" + "    b = [a, a, a, a]\n" * 20 + "    return 'known'"
    train = script("from m import f\nfirst = 1", "f(first)") + "TrainingArguments('own')\n"
    pipeline = read(tmp_path, {"m.py": heavy, "train.py": train})
    assert [plain(each.value("output_dir")) for each in pipeline.arguments] == ["Unknown", "own"]
    assert not pipeline.is_exhausted


@pytest.mark.parametrize("way", ["f(1)", "g = f(1)", "for each in range(3):\n    f(each)"])
def test_a_costly_call_leaves_steps_for_the_calls_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(project_state, "STEP_BUDGET", 120)
    heavy = "def f(a):\n" + "    b = [a, a, a, a]\n" * 40 + "def small():\n    return 'known'"
    train = f"{SHOW}from m import f, small\n{way}\nTrainingArguments(small())\n"
    assert shown(tmp_path, {"m.py": heavy, "train.py": train}) == "known"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("train()", "known"),
        ("if __name__ == '__main__':\n    train()", "known"),
        # a file that only defines things is shown by the scripts that use it
        ("result = train", "Unknown"),
        ("result = train()", "Unknown"),
    ],
)
def test_modules_are_read_further_for_a_script_than_for_definitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str, expected: str
) -> None:
    monkeypatch.setattr("lintrain.read.DEFINING_BUDGET", 60)
    heavy = "def f(a):\n" + "    b = [a, a, a, a]\n" * 20 + "    return 'known'"
    train = f"{SHOW}from m import f\ndef train():\n    return TrainingArguments(f(1))\n{last}\n"
    assert shown(tmp_path, {"m.py": heavy, "train.py": train}) == expected


def test_a_file_that_only_defines_things_reads_small_modules(tmp_path: Path) -> None:
    train = f"{SHOW}from m import f\ndef train():\n    return TrainingArguments(f(1))\n"
    assert shown(tmp_path, {"m.py": "def f(a):\n    return 'known'", "train.py": train}) == "known"


def test_what_was_recorded_past_the_budget_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_state, "STEP_BUDGET", 60)
    heavy = SHOW + "def f(a):\n    TrainingArguments('half')\n" + "    b = [a, a, a, a]\n" * 20
    pipeline = read(tmp_path, {"m.py": heavy, "train.py": "from m import f\nf(1)"})
    assert pipeline.arguments == []
    assert len(pipeline.calls) == 0


def test_only_so_many_modules_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_modules, "MOST_FILES", 1)
    files = {"a.py": "x = 'first'", "b.py": "y = 'second'"}
    train = "from a import x\nfrom b import y\nfrom transformers import TrainingArguments\n"
    files["train.py"] = train + "TrainingArguments(x)\nTrainingArguments(y)"
    found = [plain(each.value("output_dir")) for each in read(tmp_path, files).arguments]
    assert found == ["first", "Unknown"]


def test_a_large_module_is_not_read(tmp_path: Path) -> None:
    files = {"m.py": "x = 'known'\n" + "# a long table\n" * 20_000, "train.py": script("from m import x")}
    assert shown(tmp_path, files) == "Unknown"


def test_two_scripts_parse_their_module_once_until_it_changes(tmp_path: Path) -> None:
    files = {"m.py": "x = 'known'", "train.py": script("from m import x"), "other.py": script("from m import x")}
    assert shown(tmp_path, files) == shown(tmp_path, {}, "other.py") == "known"
    file = str(tmp_path / "m.py")
    assert len([path for path, _ in TREES.held if path == file]) == 1
    write(tmp_path, {"m.py": "x = 'changed'"})
    assert shown(tmp_path, {}, "other.py") == "changed"


def test_what_an_editor_holds_is_read_before_the_disk(tmp_path: Path) -> None:
    write(tmp_path, {"m.py": "x = 'old'", "train.py": script("from m import x")})
    project = Project({str(tmp_path / "m.py"): b"x = 'unsaved'"})
    pipeline = read_pipeline(read_file(str(tmp_path / "train.py")), TargetVersions(), project)
    assert plain(pipeline.arguments[-1].value("output_dir")) == "unsaved"


def test_a_later_star_replaces_a_class_of_a_library(tmp_path: Path) -> None:
    files = {"rows.py": "class Dataset:\n    def __init__(self, folder): pass\n"}
    imports = "from torch.utils.data import Dataset\nfrom rows import *\n"
    assert shown(tmp_path, files | {"train.py": script(imports, "Dataset('x')")}) == "Instance"


def test_a_star_without_the_name_leaves_the_class_of_a_library(tmp_path: Path) -> None:
    files = {"rows.py": "Dataset_of = 1\n"}
    imports = "from torch.utils.data import DataLoader\nfrom rows import *\n"
    assert shown(tmp_path, files | {"train.py": script(imports, "DataLoader")}) == "Library"


@pytest.mark.parametrize(
    ("files", "imports", "missing"),
    [
        ({"m.py": "def load_rows(): ..."}, "from m import load_row", ("m", "load_row", "load_rows")),
        ({"m.py": "x = 1"}, "def f():\n    from m import gone\n", ("m", "gone", "")),
        ({"p/m.py": "x = 1"}, "from p.m import gone", ("p.m", "gone", "")),
    ],
)
def test_an_import_of_a_name_that_no_module_has_is_recorded(
    tmp_path: Path, files: dict[str, str], imports: str, missing: tuple[str, str, str]
) -> None:
    found = read(tmp_path, {**files, "train.py": script(imports, "1")}).missing_names
    assert [(each.module, each.name, each.near) for each in found] == [missing]


@pytest.mark.parametrize(
    ("files", "imports"),
    [
        ({"m.py": "from n import *"}, "from m import gone"),
        ({"m.py": "def __getattr__(name): return name"}, "from m import gone"),
        ({"m.py": "globals().update(found)"}, "from m import gone"),
        ({"m.py": "gone: int"}, "from m import gone"),
        ({"m.py": "x = "}, "from m import gone"),
        ({"p/__init__.py": ""}, "from p import compiled"),
        ({"random.py": "x = 1"}, "from random import randint"),
        ({"m.py": "x = 1"}, "try:\n    from m import gone\nexcept ImportError:\n    pass"),
        ({"m.py": "x = 1"}, "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from m import gone"),
        ({".git/HEAD": "", "src/m.py": "x = 1", "m.py": "gone = 1"}, "from m import gone"),
        ({".git/HEAD": "", "src/m.py": "gone = 1", "m.py": "x = 1"}, "from m import gone"),
    ],
)
def test_a_name_that_a_module_may_have_is_not_missing(tmp_path: Path, files: dict[str, str], imports: str) -> None:
    assert read(tmp_path, {**files, "train.py": script(imports, "1")}).missing_names == []


def test_an_import_in_another_module_is_judged_when_that_module_is_checked(tmp_path: Path) -> None:
    files = {"m.py": "from n import gone\nx = 1", "n.py": "y = 1", "train.py": script("from m import x")}
    assert read(tmp_path, files).missing_names == []
    assert [each.name for each in read(tmp_path, files, "m.py").missing_names] == ["gone"]
