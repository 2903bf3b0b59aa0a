"""Probes of notebooks: cells run in order as the main program, and places are those that a check shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lintrain.runtime.child.notebook.main import Shell
from tests.conftest import ROOT
from tests.support.notebooks import notebook
from tests.support.probing import Probed, path_for_lintrain, probe_file

pytestmark = pytest.mark.turns(one_in=3, of="file")

LOOP = """
import torch

model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).sum().backward()
    optimizer.step()
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, warm: None) -> None:
    path_for_lintrain(monkeypatch)


def probe_cells(folder: Path, *cells: str, options: tuple[str, ...] = (), arguments: tuple[str, ...] = ()) -> Probed:
    """Probe a notebook of these cells."""
    (folder / "train.ipynb").write_text(notebook(*cells))
    return probe_file(folder, "train.ipynb", *options, arguments=arguments)


@pytest.mark.turns(one_in=1)
def test_cells_are_the_main_program(tmp_path: Path) -> None:
    probed = probe_cells(tmp_path, "assert __name__ == '__main__'\nrate = 0.1", "#md text", LOOP)
    assert (probed.code, probed.run["loop"]["steps"]) == (0, 4)


def test_what_comes_behind_a_loop_that_ends_by_itself_is_run(tmp_path: Path) -> None:
    probed = probe_cells(tmp_path, LOOP, "undefined")
    assert (probed.code, probed.verdicts) == (1, [("undefined-name", 1, "confirmed")])


def test_shell_lines_are_skipped_and_said_so(tmp_path: Path) -> None:
    probed = probe_cells(tmp_path, "!touch made\n%matplotlib inline", "%%bash\ntouch made", "files = !ls\n" + LOOP)
    assert probed.run["shortcuts"] == [
        "cell 1, line 1 was skipped: `!touch made`",
        "cell 2 was skipped: `%%bash`",
        "cell 3, line 1 was skipped: `files = !ls`",
    ]
    assert not (tmp_path / "made").exists()


def test_an_error_is_shown_by_cell_and_line(tmp_path: Path) -> None:
    probed = probe_cells(tmp_path, "rows = 3", "def read():\n    return rows['a']", "read()", options=("--text",))
    assert probed.code == 1
    assert "train.ipynb:cell 2:2: the script stage failed" in probed.out
    assert "train.ipynb:cell 3:1 in <module>: read()" in probed.out
    assert probed.out.endswith("'int' object is not subscriptable (train.ipynb:cell 2:2)\n")


def test_what_shows_something_is_harmless_without_a_kernel(tmp_path: Path) -> None:
    shows = "from IPython.display import HTML, clear_output\ndisplay(HTML('<b>'))\nclear_output(wait=True)\nrows"
    asks = "assert 'google.colab' not in str(get_ipython())\nget_ipython().run_line_magic('time', '1')"
    assert probe_cells(tmp_path, "rows = [1]", shows, asks, LOOP).code == 0


def test_folders_and_variables_that_magics_set_are_there(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "made.py").write_text("rate = 0.1\n")
    cells = ("%cd parts\n%env RATE=7", "import os\nfrom made import rate\nassert os.environ['RATE'] == '7'", LOOP)
    assert probe_cells(tmp_path, *cells).code == 0


def test_a_cell_may_await_and_start_indented(tmp_path: Path) -> None:
    cells = ("from __future__ import annotations", "import asyncio\nawait asyncio.sleep(0)", "    one = 1", LOOP)
    assert probe_cells(tmp_path, *cells).code == 0


def test_a_notebook_works_in_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "rows.txt").write_text("1")
    (tmp_path / "inner" / "train.ipynb").write_text(notebook("open('rows.txt').read()", LOOP))
    probed = probe_file(tmp_path, "inner/train.ipynb")
    assert (probed.code, probed.run["call"]["path"]) == (0, "inner/train.ipynb")


def test_a_cell_that_is_not_python_stops_the_ones_after_it(tmp_path: Path) -> None:
    probed = probe_cells(tmp_path, "rows = 1", "rows = = 2", LOOP)
    assert [(rule, outcome) for rule, _, outcome in probed.verdicts] == [("syntax-error", "confirmed")]


def test_a_broken_cell_after_the_training_call_is_left_open(tmp_path: Path) -> None:
    probed = probe_cells(tmp_path, LOOP, "rows = = 2")
    assert [(rule, outcome) for rule, _, outcome in probed.verdicts] == [("syntax-error", "inconclusive")]
    assert probed.run["loop"]["steps"] == 4


def test_what_is_no_notebook_is_refused(tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text("{")
    assert probe_file(tmp_path, "train.ipynb").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "code", "confirmed"),
    [("notebook.ipynb", 1, ["removed-argument"]), ("notebook_mended.ipynb", 0, [])],
)
@pytest.mark.usefixtures("assets")
def test_the_course_notebook_is_judged_like_its_script(name: str, code: int, confirmed: list[str]) -> None:
    probed = probe_file(ROOT, f"fixtures/course/{name}", "-q")
    found = [one for one in probed.document["findings"] if one["verdict"]["outcome"] == "confirmed"]
    assert (probed.code, [one["rule"] for one in found]) == (code, confirmed)
    marked = json.loads((ROOT / "fixtures" / "course" / name).read_text())["cells"]
    for one in found:
        line = marked[one["location"]["cell"] - 1]["source"][one["location"]["line"] - 1]
        assert f"# <- {one['rule']}" in line


@pytest.mark.slow
def test_functions_of_cells_are_read_where_large_data_is_mapped(tmp_path: Path) -> None:
    cells = (
        "import torch\nfrom datasets import Dataset\nseen = []",
        "rows = Dataset.from_dict({'x': list(range(3000)), 'label': [0, 1] * 1500})",
        "def double(row):\n    return {'x': row['x'] * 2}\n\n\ndef keep(row):\n    seen.append(1)\n    return row",
        "rows = rows.map(double)",
        "rows = rows.map(keep)",
        LOOP,
    )
    run = probe_cells(tmp_path, *cells).run
    assert [text for text in run["shortcuts"] if "`map` processed" in text]
    assert [text for text in run["notes"] if "`keep` changes `seen`" in text]


def test_a_folder_that_is_not_here_ends_no_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    shell = Shell()
    shell.run_line_magic("cd", "missing/content")
    assert Path.cwd() == tmp_path
    assert "missing/content" in capsys.readouterr().err
    shell.run_line_magic("cd", "inner")
    assert Path.cwd() == tmp_path / "inner"
