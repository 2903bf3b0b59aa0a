"""Names that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.check.check_run import CheckRun
from lintrain.check.names import ruff
from lintrain.check.names.ruff import start_search
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.fix.apply import apply
from lintrain.knowledge.versions import TargetVersions
from lintrain.rulebook import find_rules
from tests.support.notebooks import notebook


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def outcome_of(text: str, name: str = "t.py") -> CheckResult:
    Path(name).write_text(text)
    selection = choose(known_names(()), Choice("c", "/", ["undefined-name"]), Choice("l", "/"))
    return CheckRun(CheckRequest([name], (), selection, lambda _: TargetVersions())).check()


def said(text: str, name: str = "t.py") -> list[tuple[int, int, str]]:
    reported = outcome_of(text, name).reported
    return [(one.finding.location.line, one.finding.location.column, one.finding.message) for one in reported]


IMPORT = "import torch\n"


def test_a_name_that_nothing_defines_is_found_where_it_is_used() -> None:
    assert said(f"{IMPORT}def f():\n    return evaluate.load('x')\n") == [
        (3, 12, "`evaluate` is never defined or imported")
    ]


def test_columns_are_counted_in_characters() -> None:
    assert said(f"{IMPORT}größe = '日本', nowhere\n") == [(2, 15, "`nowhere` is never defined or imported")]


def test_a_name_used_before_its_definition_is_told_where_that_is() -> None:
    assert said(f"{IMPORT}print(later)\n\nlater = 1\n") == [(2, 7, "`later` is used before line 4 defines it")]


DELETED = """{}
def train(build):
    model = build()
    def reward(x):
        return model(x)
    print(reward(1))
    del model
"""


def test_a_function_may_use_a_variable_that_is_deleted_further_down() -> None:
    assert said(DELETED.format(IMPORT)) == []


def test_a_variable_that_is_deleted_before_its_use_no_longer_exists() -> None:
    text = f"{IMPORT}model = 1\ndel model\nprint(model)\n"
    assert said(text) == [(4, 7, "`model` no longer exists here")]


def test_a_local_name_used_before_it_is_set_is_found() -> None:
    text = f"{IMPORT}steps = 0\ndef f():\n    print(steps)\n    steps = 1\n"
    assert said(text) == [(4, 11, "`steps` is local to this function and used before it is set")]


@pytest.mark.parametrize("use", ["print(rows, size)", "yield rows, size"])
@pytest.mark.parametrize("outer", ["", "    rows = None\n"])
def test_what_an_earlier_iteration_bound_is_silent(use: str, outer: str) -> None:
    loop = f"    for batch in loader:\n        if not first:\n            {use}\n        first = False\n"
    text = f"import torch\n\n\ndef ahead(loader):\n{outer}    first = True\n{loop}        rows = size = batch\n"
    assert said(text) == []


def test_a_name_that_only_another_loop_binds_is_found() -> None:
    text = f"{IMPORT}def f(loader):\n    for _ in loader:\n        print(size)\n    for size in loader:\n        pass\n"
    assert [line for line, _, _ in said(text)] == [4]


@pytest.mark.parametrize(
    "reads",
    [
        "print(vars(args))",
        "make = globals()[args.model]",
        "names = [name for name in globals().keys()]",
        "text = '{args}'.format(**locals())",
        "def keep(a): torch.save(locals(), 'x')",
        "# exec",
    ],
)
def test_code_that_only_reads_names_hides_no_other(reads: str) -> None:
    assert [line for line, _, _ in said(f"{IMPORT}args = torch.load('x')\n{reads}\nprint(nowhere)\n")] == [4]


def test_the_variables_of_the_module_may_hold_any_name() -> None:
    assert not said(f"{IMPORT}fill(locals())\nprint(nowhere)\n".replace("fill", "torch.save"))


def test_a_name_that_its_first_assignment_already_uses_was_not_deleted() -> None:
    message = "`args` is used in the statement that first sets it"
    assert said(f"{IMPORT}model, args = torch.load('x', args)\n") == [(2, 31, message)]
    assert said(f"{IMPORT}model, args = torch.load(\n    'x', args\n)\n") == [(3, 10, message)]
    assert said(f"{IMPORT}args = 1\ndel args\nargs = args\n") == [(4, 8, "`args` no longer exists here")]


def test_a_name_that_was_deleted_is_found() -> None:
    assert said(f"{IMPORT}x = 1\ndel x\nprint(x)\n") == [(4, 7, "`x` no longer exists here")]


def test_a_name_is_reported_where_it_is_used_first() -> None:
    text = f"{IMPORT}def f():\n    tf.one()\n    tf.two(np)\ntf.three(later)\nlater = np\n"
    assert said(text) == [
        (3, 5, "`tf` is never defined or imported"),
        (4, 12, "`np` is never defined or imported"),
        (5, 10, "`later` is used before line 6 defines it"),
    ]


def test_a_comment_at_the_first_use_of_a_name_suppresses_all_of_them() -> None:
    comment = "  # lintrain: ignore[undefined-name]"
    assert said(f"{IMPORT}tf.one(){comment}\ntf.two()\n") == []
    assert said(f"{IMPORT}tf.one()\ntf.two(){comment}\n") == [(2, 1, "`tf` is never defined or imported")]
    both = f"{IMPORT}tf.one(){comment}\ntf.two(){comment}\n"
    Path("t.py").write_text(both)
    selection = choose(known_names(()), Choice("c", "/"), Choice("l", "/"))
    assert CheckRun(CheckRequest(["t.py"], (), selection, lambda _: TargetVersions())).check().reported == []


def test_a_comment_in_a_piece_of_a_script_is_not_called_unused() -> None:
    rules = find_rules()
    Path("t.py").write_text(
        "loss.backward()  # lintrain: ignore[missing-seed]\nnowhere()  # lintrain: ignore[undefined-name]\n"
    )
    selection = choose(known_names(rules), Choice("c", "/"), Choice("l", "/"))
    assert CheckRun(CheckRequest(["t.py"], rules, selection, lambda _: TargetVersions())).check().reported == []


def test_a_piece_of_a_script_has_one_note_about_its_imports() -> None:
    text = "for x in loader:\n    F.relu(model(np.f(x))).backward()\n    optimizer.step()\n    F.relu(x)\n"
    (one,) = outcome_of(text).reported
    assert (one.finding.level, one.finding.message) == ("note", "the imports of `F` and `np` are missing")
    assert one.finding.location.line == 2
    assert one.fix is not None
    assert apply(text, [one.fix]).startswith(
        "import numpy as np\nimport torch.nn.functional as F\n\nfor x in loader:\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "loss = criterion(net(x), y)\nloss.backward()\nreturn loss\n",
        "def update(net):\n    optimizer.zero_grad()\n    helper(net, x).backward()\n",
    ],
)
def test_other_names_of_a_piece_are_taken_as_given(text: str) -> None:
    assert said(text) == []


def test_a_notebook_with_a_broken_cell_may_define_its_names_there() -> None:
    cells = notebook("import torch", "import numpy as np\nx = = 1", "np.zeros(3)\nprint(x)")
    assert [message for _, _, message in said(cells, "n.ipynb")] == ["invalid syntax"]


def test_files_without_a_library_of_the_field_are_left_to_others() -> None:
    assert said("print(nowhere)\n") == []


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations\nimport torch\ndef f(x: np.ndarray) -> Foo: ...\ny: Bar = 1\n",
        f"{IMPORT}def f(x: 'np.ndarray') -> 'Foo':\n    y: Bar = 1\n    return y\n",
        f"{IMPORT}from os import *\nprint(sep)\n",
        f"{IMPORT}exec('x = 1')\nprint(x)\n",
        f"{IMPORT}globals()['x'] = 1\nprint(x)\n",
        f"{IMPORT}globals().update(x=1)\nprint(x)\n",
        f"{IMPORT}names = vars()\nnames['x'] = 1\nprint(x)\n",
        f"{IMPORT}import builtins\nvars(builtins)['x'] = 1\nprint(x)\n",
        f"{IMPORT}if 'x' in globals():\n    print(x)\n",
        f"{IMPORT}try:\n    unicode\nexcept NameError:\n    unicode = str\n",
        f"{IMPORT}print(__file__, __name__)\n",
        f"{IMPORT}print(nowhere)  # noqa: F821\n",
        f"{IMPORT}print(nowhere)  # lintrain: ignore[undefined-name]\n",
        f"{IMPORT}display(get_ipython())\n",
    ],
)
def test_what_may_exist_or_is_never_evaluated_is_silent(text: str) -> None:
    assert said(text) == []


def test_annotations_that_python_evaluates_are_found() -> None:
    assert said(f"{IMPORT}def f(x: np.ndarray): ...\n") == [(2, 10, "`np` is never defined or imported")]


def test_names_in_f_strings_are_found() -> None:
    assert [column for _, column, _ in said(f"{IMPORT}print(f'at {{nowhere}} now {{there:{{wide}}}}')\n")] == [
        13,
        27,
        34,
    ]


@pytest.mark.parametrize(
    "cells",
    [
        ("import torch\ndisplay(torch)", "get_ipython()\nprint(In, Out, _, __, _1)"),
        ("import torch", "print(later)", "later = 1"),
        ("%%capture out\nimport torch", "out.show()"),
        ("import torch\nfiles = !ls", "print(files)"),
        ("import torch\n%run other.ipynb", "print(anything)"),
        ("import torch\n%load_ext x", "%%cython\ndef fast(): pass", "fast()"),
        ("import torch", "await torch.f()"),
    ],
)
def test_what_notebooks_bring_along_is_silent(cells: tuple[str, ...]) -> None:
    assert said(notebook(*cells), "n.ipynb") == []


def test_a_name_in_a_notebook_is_found_in_its_cell() -> None:
    outcome = outcome_of(notebook("#md x", "import torch", "!ls\nnowhere"), "n.ipynb")
    (one,) = outcome.reported
    location = outcome.sources["n.ipynb"].locate(one.finding.location)
    assert (location.cell, location.line, location.column) == (3, 2, 1)


@pytest.mark.parametrize("line", ["%pip install evaluate", "!pip install evaluate", "!pip install \\\n  evaluate"])
def test_to_install_a_package_is_not_to_import_it(line: str) -> None:
    assert len(said(notebook(f"{line}\nimport torch", "evaluate.load('x')"), "n.ipynb")) == 1


def test_what_the_compiler_refuses_is_a_syntax_error() -> None:
    reported = outcome_of(f"{IMPORT}return 3\n").reported
    assert [(one.finding.rule, one.finding.location.line) for one in reported] == [("syntax-error", 2)]


@pytest.mark.parametrize(
    ("text", "title", "safe"),
    [
        ("import torch\nevaluate.load('x')\n", "add `import evaluate`", False),
        ("import torch\nos.getcwd()\n", "add `import os`", True),
        (
            "from transformers import Trainer\nTrainingArguments('x')\n",
            "add `from transformers import TrainingArguments`",
            True,
        ),
        ("import torch\nAutoTokenizer.from_pretrained('x')\n", "add `from transformers import AutoTokenizer`", False),
        ("import torch\nload_dataset('x')\n", "add `from datasets import load_dataset`", False),
        ("import torch\nevaluate('x')\n", None, False),
    ],
)
def test_the_import_of_a_well_known_name_is_offered(text: str, title: str | None, safe: bool) -> None:
    (one,) = outcome_of(text).reported
    assert (one.fix.title if one.fix else None, one.fix.safe if one.fix else False) == (title, safe)


def test_the_nearest_name_of_the_file_is_told() -> None:
    (one,) = outcome_of(f"{IMPORT}tokenizer = 1\nprint(tokeniser)\n").reported
    assert one.finding.help == "write `tokenizer`, the nearest name in this file"


@pytest.mark.parametrize(("name", "lines"), [("t.py", 400_000), ("n.ipynb", 1_800_000)], ids=["a script", "a notebook"])
def test_a_file_with_more_code_than_anybody_writes_is_not_given_to_ruff(
    monkeypatch: pytest.MonkeyPatch, name: str, lines: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(ruff, "_launch", lambda _search, command, paths, _stdin: asked.extend((*command, *paths)))
    code = IMPORT + "x = 1\n" * lines
    outcome_of(notebook(code) if name.endswith("ipynb") else code, name)
    assert asked == []
    outcome_of(notebook(IMPORT, "x = 1\n" * 99) if name.endswith("ipynb") else IMPORT + "x = 1\n" * 99, name)
    assert asked[-1:] == [name]


def test_a_file_that_overflows_ruffs_stack_takes_no_other_along(tmp_path: Path) -> None:
    (tmp_path / "deep.py").write_text(IMPORT + f"x = {' + '.join(['a'] * 9000)}\n")
    for number in range(6):
        (tmp_path / f"bad{number}.py").write_text(f"{IMPORT}print(nowhere)\n")
    found = start_search([str(path) for path in sorted(tmp_path.iterdir())], {})
    clues = found.collect()
    assert sorted(Path(path).name for path in clues) == [f"bad{number}.py" for number in range(6)]
    assert "deep.py" in found.problem


def test_a_name_that_is_no_utf_8_is_looked_at_as_well(tmp_path: Path) -> None:
    path = f"{tmp_path}/a\udcff.py"
    Path(path).write_text(f"{IMPORT}print(nowhere)\n")
    assert list(start_search([path], {}).collect()) == [path]


@pytest.mark.parametrize(
    ("handler", "found"),
    [("except Exception:\n        fig = 1", 0), ("except Exception as error:\n        print(error)", 1)],
)
def test_a_name_that_a_try_asks_for_is_no_mistake(handler: str, found: int) -> None:
    text = f"{IMPORT}def draw():\n    try:\n        fig\n    {handler}\n    return 0\n"
    assert len(said(text)) == found


@pytest.mark.parametrize(
    ("test", "lines"),
    [
        ("six.PY2", [5]),
        ("six.PY3", [3]),
        ("sys.version_info[0] < 3", [5]),
        ("sys.version_info >= (3, 0)", [3]),
        ("sys.version_info >= (3, 9)", [3, 5]),
        ("not PY3", [5]),
        ("PY", [3, 5]),
    ],
)
def test_what_only_python_2_runs_may_use_its_names(test: str, lines: list[int]) -> None:
    text = f"import six, sys, torch; PY = PY2 = PY3 = torch.x\nif {test}:\n    unicode\nelse:\n    long\n"
    assert [line for line, *_ in said(text)] == lines


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("str(1) or (sys.version_info[0] == 2 and isinstance(x, unicode))", 0),
        ("six.PY3 or unicode(x)", 0),
        ("unicode(x) if six.PY2 else str(x)", 0),
        ("str(x) if six.PY3 else unicode(x)", 0),
        ("isinstance(x, unicode) and sys.version_info[0] == 2", 1),
        ("sys.version_info[0] == 3 and isinstance(x, unicode)", 1),
        ("sys.version_info[0] == 2 or isinstance(x, unicode)", 1),
        ("str(x) if six.PY2 else unicode(x)", 1),
    ],
)
def test_what_only_python_2_evaluates_may_use_its_names(code: str, found: int) -> None:
    assert len(said(f"import six, sys, torch\nx = torch.x\nprint({code})\n")) == found
