"""Corrections of stand-ins: what an error shows of rows and models that were made up, and how the script runs again."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.frames import failure_of
from lintrain.runtime.child.going_on import NoBatchesError, TooSlowError
from lintrain.runtime.stand_ins import datasets, haste
from lintrain.runtime.stand_ins.corrections import FEW_ROWS, Corrections
from lintrain.runtime.stand_ins.empty_loaders import _ask_for_rows  # pyright: ignore[reportPrivateUsage]
from lintrain.runtime.stand_ins.known_values import asked_argument, missing_arguments, own_configuration
from lintrain.runtime.stand_ins.needs import Need, Needs, Table
from lintrain.runtime.stand_ins.patterns import fitting_text
from lintrain.runtime.stand_ins.project_packages import folder_of_package
from lintrain.runtime.stand_ins.rows import Rows
from lintrain.runtime.stand_ins.sizes import asked_family, asked_rows, asked_side, asked_width
from lintrain.runtime.stand_ins.small_configs import small_config
from lintrain.runtime.stand_ins.tokenizers import small_tokenizer
from lintrain.runtime.stand_ins.unused_packages import UnusedPackages

COLUMNS: dict[str, list[Any]] = {"question": ["a text (1)"], "tags": [["x (1)"]], "mark": ["one (1)"], "extra": ["{}"]}
COLUMNS["counts"] = [3]
TABLE = Table("somebody/rows", COLUMNS, is_known=False)


TOKENIZES = """def encode_text(text, max_length):
    raise ValueError("text input must be of type `str` (single example), `list[str]` or others")
"""
UNIQUE = """
    rows = __import__("datasets").Dataset.from_dict({"question": [row["question"]]})
    return rows.unique("label")
"""


def error_of(body: str, tmp_path: Path) -> BaseException:
    """What a function of a file raises for the first row of the table."""
    file = tmp_path / f"script{len([*tmp_path.iterdir()])}.py"  # Python keeps the lines of a file by its name
    file.write_text(
        "import ast, json, re, time\nNUMBERS = {'yes': 1, 'no': 0}\n" + TOKENIZES + "def encode(row):\n" + body
    )
    namespace: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), namespace)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - each body raises another one
        namespace["encode"]({name: values[0] for name, values in COLUMNS.items()})
    return raised.value


@pytest.mark.parametrize(
    ("body", "column", "kind"),
    [
        ("    return row['answer']\n", "answer", "text"),
        ("    name = 'label'\n    return row[name]\n", "label", "label"),
        ("    made = json.loads(row['question'])\n", "question", "json"),
        ("    made = ast.literal_eval(row['question'])\n", "question", "json"),
        ("    made = json.loads(row['extra'])\n    return made['title']\n", "extra", "json title"),
        ("    return float(row['question'])\n", "question", "float"),
        ("    return int(row['question'])\n", "question", "integer"),
        ("    return time.strptime(row['question'], '%Y-%m-%d')\n", "question", "date %Y-%m-%d"),
        ("    return __import__('pandas').to_datetime(row['question'])\n", "question", "date %Y-%m-%d"),
        ("    return __import__('pandas').to_datetime([row['question']])\n", "question", "date %Y-%m-%d"),
        ("    return row['question'] / 2\n", "question", "float"),
        ("    return row['question'].split('###')[1]\n", "question", "parts ###"),
        ("    first, second = row['question'].split(' => ')\n", "question", "parts  => "),
        ("    parts = row['question'].split('###')\n    return parts[1]\n", "question", "parts ###"),
        ("    return row['question'].index('Answer:')\n", "question", "parts Answer:"),
        ("    return re.search(r'<b>(\\w+)</b>', row['question']).group(1)\n", "question", "parts <b>w</b>"),
        ("    return [turn['role'] for turn in row['question']]\n", "question", "chat"),
        ("    return [each['url'] for each in row['question']]\n", "question", "structs url"),
        ("    return row['question']['de']\n", "question", "struct de"),
        ("    return row['question'].convert('RGB')\n", "question", "image"),
        ("    return open(row['question'], 'rb')\n", "question", "image-file"),
        ("    return open('pictures/' + row['question'], 'rb')\n", "question", "image-file"),
        ("    return row['tags'].strip()\n", "tags", "text"),
        (UNIQUE, "label", "label"),
        ("    texts = row['counts']\n    return encode_text(texts, max_length=8)\n", "counts", "text"),
        ("    assert 'answer' in row and row['answer']\n", "answer", "text"),
        ("    made = json.loads(row['extra'])\n    assert 'title' in made, 'no title'\n", "extra", "json title"),
    ],
)
def test_an_error_tells_what_a_column_has_to_hold(body: str, column: str, kind: str, tmp_path: Path) -> None:
    assert Needs([TABLE]).of(error_of(body, tmp_path)) == Need("somebody/rows", column, kind)


def test_a_column_has_the_keys_of_the_dictionary_that_it_is_looked_up_in(tmp_path: Path) -> None:
    error = error_of("    return NUMBERS[row['mark']]\n", tmp_path)
    assert Needs([TABLE]).of(error) == Need("somebody/rows", "mark", "text", ("yes", "no"))


@pytest.mark.parametrize(
    "body",
    [
        "    row = {'other': 1}\n    return row['answer']\n",
        "    return NUMBERS['maybe']\n",
        "    return [1, 2][5]\n",
        "    return json.loads('no JSON')\n",
        "    made = {'a': 1}\n    assert 'b' in made\n",
        "    assert 'question' not in row\n",
        "    return float('their own')\n",
        "    return open('pictures/their own', 'rb')\n",
        "    row = {name: row[name] for name in ('tags', 'mark')}\n    return row['question']\n",
        "    return len(4)\n",
        "    assert len(row) == 1\n",
    ],
)
def test_an_error_about_values_of_the_script_corrects_nothing(body: str, tmp_path: Path) -> None:
    assert Needs([TABLE]).of(error_of(body, tmp_path)) is None


def test_values_of_a_row_are_no_choices_for_its_other_columns(tmp_path: Path) -> None:
    """As the rows of `datasets` look a key up, one function below the line that asks for it."""
    body = "    key = row['question'] and 'answer'\n    return row[key]\n"
    need = Needs([TABLE]).of(error_of(body, tmp_path))
    assert need is None or not need.choices


def test_other_kinds_are_tried_where_an_error_does_not_tell_one(tmp_path: Path) -> None:
    for body in ("    return len(row['counts'])\n", "    count = row['counts']\n    return ''.join(count)\n"):
        needs = [*Needs([TABLE]).all_of(error_of(body, tmp_path))]
        assert needs == [Need("somebody/rows", "counts", kind) for kind in ("text", "float")]
    known = Table("somebody/rows", COLUMNS, is_known=True)
    assert not [*Needs([known]).all_of(error_of("    return len(row['counts'])\n", tmp_path))]


def test_a_column_that_a_known_data_set_lacks_is_the_scripts_own_mistake(tmp_path: Path) -> None:
    known = Table("somebody/rows", COLUMNS, is_known=True)
    for body in (
        "    return row['answer']\n",
        "    return float(row['question'])\n",
        "    return row['question'].convert('RGB')\n",
        "    return row['tags']['de']\n",
    ):
        assert Needs([known]).of(error_of(body, tmp_path)) is None


@pytest.mark.parametrize(
    ("body", "need"),
    [
        ("    return json.loads(row['question'])\n", ("question", "json")),
        ("    made = json.loads(row['extra'])\n    return made['title']\n", ("extra", "json title")),
        ("    return row['question'].split('####')[1]\n", ("question", "parts ####")),
        ("    return NUMBERS[row['mark']]\n", ("mark", "text", ("yes", "no"))),
    ],
)
def test_what_the_texts_of_a_known_data_set_hold_is_corrected(body: str, need: tuple[str, str], tmp_path: Path) -> None:
    known = Table("somebody/rows", COLUMNS, is_known=True)
    assert Needs([known]).of(error_of(body, tmp_path)) == Need("somebody/rows", *need)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"####\s*(-?\d+)", "#### -7"),
        ("<answer>(.*?)</answer>", "<answer>word</answer>"),
        (r"(a|b)\b", "a"),
        (r"(", None),
    ],
)
def test_a_text_fits_the_pattern_that_searches_for_it(pattern: str, text: str | None) -> None:
    assert fitting_text(pattern) == text


def test_rows_hold_what_an_error_asked_for(tmp_path: Path) -> None:
    kinds = {"a": "json title", "b": "parts ###\n=>", "c": "date %d.%m.%Y", "d": "among 1 5"}
    columns = Rows(kinds, {}, str(tmp_path), 0).columns(3)
    assert [*json.loads(columns["a"][0])] == ["title"]
    assert all("###" in text and "=>" in text for text in columns["b"])
    assert columns["c"][:2] == ["01.01.2024", "02.01.2024"]
    assert columns["d"] == [1, 5, 1]


@pytest.mark.parametrize(
    ("message", "width"),
    [
        ("config.n_heads 12 must divide config.dim 32 evenly", 192),
        ("mat1 and mat2 shapes cannot be multiplied (8x32 and 768x2)", 768),
        ("mat1 and mat2 shapes cannot be multiplied (8x64 and 1536x2)", 768),
        ("Given normalized_shape=[384], expected input with shape [*, 384], but got input of size[4, 32]", 384),
        ("mat1 and mat2 shapes cannot be multiplied (8x48 and 64x2)", 48),
        ("mat1 and mat2 shapes cannot be multiplied (8x48 and 70x2)", None),
        ("mat1 and mat2 shapes cannot be multiplied (8x100 and 768x2)", None),
        ("a label of 32 is too large", None),
    ],
)
def test_an_error_tells_how_wide_a_model_has_to_be(message: str, width: int | None) -> None:
    assert asked_width(RuntimeError(message)) == width


def shapes(inputs: int, weights: int) -> RuntimeError:
    return RuntimeError(f"mat1 and mat2 shapes cannot be multiplied (8x{inputs} and {weights}x2)")


def test_widths_are_corrected_until_one_changes_nothing() -> None:
    ledger = Ledger()
    ledger.has_made_models = True
    corrections = empty(ledger)
    for inputs, weights, width in ((48, 64, 48), (96, 1536, 768), (768, 1024, 1024)):
        assert corrections.correct(shapes(inputs, weights))
        assert corrections.width == width
    joined = empty(ledger)
    assert joined.correct(shapes(48, 64))
    # `Linear(model.config.hidden_size + 32)` of 16 features next to the model's outputs.
    assert not joined.correct(shapes(64, 80))
    assert joined.width == 48


def test_a_wider_model_is_wider_in_all_its_parts() -> None:
    from transformers import BertConfig, CLIPConfig

    assert small_config(BertConfig, None, 768).hidden_size == 768
    made = small_config(CLIPConfig, None, 64)
    assert (made.projection_dim, made.text_config.hidden_size, made.vision_config.hidden_size) == (64, 64, 64)


class Ledger:
    """What a correction needs of the ledger."""

    def __init__(self) -> None:
        self.renewed: list[tuple[StandInKind, str, str]] = []
        self.script, self.has_made_models = "", False
        self.make_again = lambda: None
        self.folder: str | None = None

    def folder_of_package(self, _name: str) -> str | None:
        return self.folder

    def renew(self, kind: StandInKind, name: str, by: str) -> None:
        self.renewed.append((kind, name, by))

    def withdraw(self, kind: StandInKind, name: str) -> None:
        self.renewed[:] = [each for each in self.renewed if each[:2] != (kind, name)]


def empty(ledger: Any) -> Corrections:
    return Corrections(ledger)


def made(ledger: Any) -> Corrections:
    corrections = empty(ledger)
    corrections.remember("somebody/rows", COLUMNS, 300, is_known=False)
    return corrections


def test_a_correction_is_listed_with_its_error_and_made_once(tmp_path: Path) -> None:
    ledger = Ledger()
    corrections = made(ledger)
    error = error_of("    return row['answer']\n", tmp_path)
    assert corrections.correct(error)
    assert corrections.kinds("somebody/rows") == {"answer": "text"}
    assert ledger.renewed == [(StandInKind.DATA, "somebody/rows, answer", "text, after KeyError: 'answer'")]
    corrections.remember("somebody/rows", COLUMNS, 300, is_known=False)
    assert not corrections.correct(error)


def test_corrections_of_one_column_add_up(tmp_path: Path) -> None:
    corrections = made(Ledger())
    for mark in ("###", "=>"):
        assert corrections.correct(error_of(f"    return row['question'].split('{mark}')[1]\n", tmp_path))
        corrections.remember("somebody/rows", COLUMNS, 300, is_known=False)
    assert corrections.kinds("somebody/rows") == {"question": "parts ###\n=>"}


@pytest.mark.parametrize(
    ("message", "rows"),
    [
        ("test_size=10000 should be either positive and smaller than the number of samples 64 or a float", 20_000),
        ("Invalid key: 20 is out of bounds for size 18", 600),
        ("index 700 is out of bounds for axis 0 with size 64", 3_300),
        ("index 9 is out of bounds", None),
    ],
)
def test_an_error_tells_how_many_rows_are_needed(message: str, rows: int | None) -> None:
    assert asked_rows(ValueError(message), 300) == rows


def test_a_part_of_the_rows_grows_with_them(tmp_path: Path) -> None:
    assert asked_rows(error_of("    part = [row] * 30\n    return part[200]\n", tmp_path), 300) == 2_100
    assert asked_rows(error_of("    return [row][1]\n", tmp_path), 300) is None


def test_a_part_that_is_still_too_short_grows_again() -> None:
    """Row 20 is read of `split="train[:6%]"` and then of `test[:1%]`."""
    corrections = empty(Ledger())
    rows = 300
    for percent, grown in ((6, 600), (1, 2_400)):
        corrections.remember("somebody/rows", COLUMNS, rows, is_known=False)
        assert corrections.correct(IndexError(f"Invalid key: 20 is out of bounds for size {rows * percent // 100}"))
        assert corrections.rows == grown
        rows = grown


def test_a_part_of_a_longer_data_set_is_told_by_its_length() -> None:
    """`split="train[:1%]"` of 4,000 rows, of which row 100 is read after one of 300."""
    corrections = empty(Ledger())
    corrections.rows = 600
    corrections.remember("somebody/rows", COLUMNS, 4_000, is_known=False)
    assert corrections.correct(IndexError("Invalid key: 100 is out of bounds for size 40"))
    assert corrections.rows == 12_000


def test_a_data_set_has_no_more_rows_than_are_published(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = SimpleNamespace(folder=lambda _: "", stand_ins=[])
    ledger: Any = SimpleNamespace(script="", session=session, corrections=made(Ledger()))
    assert ledger.corrections.correct(IndexError("Invalid key: 3000 is out of bounds for size 400"))
    assert ledger.corrections.rows == 6_000
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert datasets.HubData(ledger, "somebody/own", None, {"split": "test"}).splits()["test"] == 6_000
    facts = SimpleNamespace(splits={"train": 9_000, "test": 1_725}, columns={})
    monkeypatch.setattr(datasets, "dataset_facts", lambda *_: facts)
    assert datasets.HubData(ledger, "somebody/known", None, {}).splits() == {"train": 6_000, "test": 1_725}


def test_a_class_tells_the_family_that_its_checkpoint_has(tmp_path: Path) -> None:
    from transformers import AutoModelForUniversalSegmentation, SwinConfig

    folder = tmp_path / "oneformer_swin_large"
    SwinConfig().save_pretrained(folder)
    with pytest.raises(ValueError, match="Unrecognized configuration class") as raised:
        AutoModelForUniversalSegmentation.from_pretrained(str(folder))
    assert asked_family(raised.value, "") == (str(folder), "oneformer")


def test_a_word_of_the_command_is_a_single_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["train.py", "--initializer_token=kettle", "--rate", "1e-4"])
    tokenizer = small_tokenizer("clip", "somebody/clip", None, {}, chats=False)
    assert len(tokenizer.encode("kettle", add_special_tokens=False)) == 1
    monkeypatch.setattr(sys, "argv", ["train.py"])
    tokenizer = small_tokenizer("clip", "somebody/clip", None, {}, chats=False)
    assert len(tokenizer.encode("kettle", add_special_tokens=False)) > 1


def test_a_script_that_takes_long_gets_few_rows() -> None:
    ledger = Ledger()
    corrections = made(ledger)
    assert corrections.bounded(4_000) == 4_000
    assert corrections.correct(TooSlowError())
    assert corrections.bounded(4_000) == FEW_ROWS
    assert ledger.renewed[0][2].startswith(f"at most {FEW_ROWS} in each data set")
    assert not corrections.correct(TooSlowError())
    # Too few for a part of them, of rows that no table is made of.
    assert corrections.correct(ValueError("num_samples should be a positive integer value, but got num_samples=0"))
    assert corrections.bounded(50_000) == 8 * FEW_ROWS
    corrections.rows = 600  # which an error has asked for since
    assert corrections.bounded(4_000) == 600


@pytest.mark.parametrize("trains", [False, True])
def test_only_a_script_that_does_not_come_to_its_training_is_interrupted(
    trains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haste, "PATIENCE", 0.3)
    monkeypatch.setattr(haste, "POLL", 0.05)
    session: Any = SimpleNamespace(
        may_start_over=True, started=0.0, has_ended=False, has_reached_training=False, measuring=False
    )
    corrections = empty(Ledger())
    haste.Watchdog(session, corrections)
    with pytest.raises(TooSlowError) if not trains else nullcontext():
        corrections.remember("somebody/rows", COLUMNS, 300, is_known=False)
        session.has_reached_training = trains
        ends = time.monotonic() + 2
        while time.monotonic() < ends and (not trains or time.monotonic() < ends - 1):
            time.sleep(0.01)


def copy(error: BaseException) -> BaseException:
    """The same error of another run."""
    return type(error)(*error.args).with_traceback(error.__traceback__)


def test_a_correction_that_ends_no_error_is_taken_back(tmp_path: Path) -> None:
    ledger = Ledger()
    corrections = made(ledger)
    error = error_of("    return len(row['counts'])\n", tmp_path)
    assert corrections.correct(error)
    assert corrections.kinds("somebody/rows") == {"counts": "text"}
    corrections.remember("somebody/rows", COLUMNS, 300, is_known=False)
    # The next run is within the handling of the error.
    later = KeyError("fair")
    later.__context__ = error
    assert not corrections.correct(later)
    assert corrections.kinds("somebody/rows") == {"counts": "text"}
    corrections.remember("somebody/rows", COLUMNS, 300, is_known=False)
    assert corrections.correct(again := copy(error))
    assert corrections.kinds("somebody/rows") == {"counts": "float"}
    assert [by.partition(",")[0] for _, _, by in ledger.renewed] == ["float"]
    corrections.remember("somebody/rows", COLUMNS, 300, is_known=False)
    assert not corrections.correct(copy(again))
    assert (corrections.kinds("somebody/rows"), ledger.renewed) == ({}, [])


def test_parts_that_are_empty_need_more_rows(tmp_path: Path) -> None:
    assert asked_rows(error_of("    return 1 / 0\n", tmp_path), 64) == 512
    assert asked_rows(ValueError("num_samples should be a positive integer value, but got num_samples=0"), 64) == 512


def test_a_package_is_missing_only_where_the_script_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = error_of("    import nonesuch_tools\n", tmp_path)
    corrections = empty(Ledger())
    assert corrections.correct(error)
    assert not corrections.correct(error)
    asked_by_script = [True]
    finder: Any = UnusedPackages(corrections.packages, lambda: asked_by_script[0])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    tools = importlib.import_module("nonesuch_tools.parts")
    own = type("Own", (tools.Thing,), {})
    assert tools.decorate(error_of) is error_of
    assert tools.Thing | None is tools.Thing[int] is tools.Thing
    for use in (own, tools.function, tools.Thing.made):
        with pytest.raises(ModuleNotFoundError, match="No module named 'nonesuch_tools'"):
            use(1)
    for name in [each for each in sys.modules if each.startswith("nonesuch_tools")]:
        del sys.modules[name]
    asked_by_script[0] = False  # a library looks whether the package is there
    assert importlib.util.find_spec("nonesuch_tools") is None
    assert importlib.util.find_spec("another_tool") is None


def test_a_package_of_the_project_is_put_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    ledger = Ledger()
    ledger.folder = str(tmp_path)
    corrections = empty(ledger)
    error = error_of("    import nonesuch_tools\n", tmp_path)
    assert corrections.correct(error)
    assert (sys.path[-1], corrections.packages) == (str(tmp_path), set())
    what = f"that of the project, in {tmp_path.name}, which is not on the path"
    assert ledger.renewed == [(StandInKind.PACKAGE, "nonesuch_tools", what)]
    # Its own import of another package is missing still: that one is left out.
    assert corrections.correct(error_of("    import nonesuch_tools\n", tmp_path))
    assert corrections.packages == {"nonesuch_tools"}


def test_packages_of_the_project_are_found_above_and_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tmp_path / "project"
    for name in ("tools/tools", "scripts", ".hidden/secret"):
        (project / name).mkdir(parents=True)
        (project / name / "__init__.py").touch()
    (project / "shared.py").touch()
    (tmp_path / "other" / "far").mkdir(parents=True)
    (tmp_path / "other" / "far" / "__init__.py").touch()
    monkeypatch.chdir(project / "scripts")
    script = project / "scripts" / "train.py"
    assert folder_of_package("shared", script) == str(project)
    assert folder_of_package("tools", script) is None
    (project / "README.md").touch()
    assert folder_of_package("tools", script) == str(project / "tools")
    assert folder_of_package("secret", script) is None
    assert folder_of_package("far", script) is None


def test_an_argument_is_one_that_the_script_knows(tmp_path: Path) -> None:
    corrections = empty(Ledger())
    corrections.made_arguments |= {"policy_kind": "stand-in/model", "path": "stand-in/model", "other": "stand-in"}
    body = "    kind, table = 'stand-in/model', {'llama': 1, 'qwen': 2}\n    return table[kind]\n"
    assert corrections.correct(error_of(body, tmp_path))
    assert corrections.arguments == {"policy_kind": "llama"}
    assert not empty(Ledger()).correct(error_of(body, tmp_path))
    for own in ("    return {'llama': 1}['mistral']\n", "    kind = 'stand-in'\n    return {}[kind]\n"):
        assert not asked_argument(error_of(own, tmp_path), corrections.made_arguments)


KNOWN = """
    class Tasks:
        def __init__(self):
            self.known = {KNOWN}
        def take(self, name):
            {TEST}
    task = 'stand-in'
    Tasks().take(task)
"""


@pytest.mark.parametrize(
    ("known", "test"),
    [
        ("['count', 'copy']", "assert name in self.known, f'unknown: {name}'"),
        ("{'count': 1, 'copy': 2}", "assert name in self.known.keys()"),
        ("{'count', 'copy'} | {'add'}", "assert name in self.known"),
        ("[]", "assert name in ('count', 'copy')"),
        ("['count', 'copy']", "if name not in self.known: raise ValueError(f'unknown: {name}')"),
        ("{'count': 1, 'copy': 2}", "return self.known[name]"),
    ],
)
def test_a_setting_is_one_that_a_function_further_in_knows(known: str, test: str, tmp_path: Path) -> None:
    corrections = empty(Ledger())
    corrections.made_arguments |= {"task": "stand-in", "host": "stand-in", "path": "stand-in/data"}
    error = error_of(KNOWN.replace("{KNOWN}", known).replace("{TEST}", test), tmp_path)
    assert corrections.correct(error)
    assert corrections.arguments == {"task": "add" if "add" in known else "count"}


@pytest.mark.parametrize(
    "body",
    [
        "    task = 'mine'\n    assert task in ('count', 'copy')\n",
        "    other = 'stand-in'\n    assert other in ('count', 'copy')\n",
        "    task = 'stand-in'\n    assert task not in ('stand-in', 'copy')\n",
        "    task = 'stand-in'\n    assert task in []\n",
        "    task = 'stand-in'\n    if task in ('count', 'copy'):\n        pass\n    raise ValueError(task)\n",
    ],
)
def test_a_refusal_of_another_kind_changes_no_setting(body: str, tmp_path: Path) -> None:
    assert not asked_argument(error_of(body, tmp_path), {"task": "stand-in"})


@pytest.mark.parametrize(("batches", "may_start_over", "asks"), [(0, True, True), (0, False, False), (3, True, False)])
def test_a_loader_without_a_batch_asks_for_more_rows(batches: int, *, may_start_over: bool, asks: bool) -> None:
    corrections = empty(Ledger())
    corrections.remember("somebody/rows", COLUMNS, 64, is_known=False)
    session = SimpleNamespace(may_start_over=may_start_over)
    ledger: Any = SimpleNamespace(session=session, corrections=corrections)
    module = SimpleNamespace(has_len_all_ranks=lambda loader: loader is not None)
    _ask_for_rows(ledger, module)
    with pytest.raises(NoBatchesError) if asks else nullcontext():
        assert module.has_len_all_ranks([*range(batches)])
    assert corrections.correct(NoBatchesError())
    assert corrections.rows == 512


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ("    raise ValueError('Need either a dataset name or a training folder.')\n", ["dataset_name"]),
        ("    raise ValueError('`dataroot` parameter is required')\n", ["dataroot"]),
        ("    assert False, 'the data set has no name'\n", []),
        ("    raise KeyError('dataroot')\n", []),
    ],
)
def test_an_error_of_the_script_names_the_argument_that_it_needs(body: str, needed: list[str], tmp_path: Path) -> None:
    optional = {"dataset_name", "train_folder", "dataroot", "out"}
    assert missing_arguments(error_of(body, tmp_path), optional) == needed
    corrections = empty(Ledger())
    corrections.optional_arguments |= optional
    assert corrections.correct(error_of(body, tmp_path)) is bool(needed)
    assert corrections.needed_arguments == {*needed}


def test_settings_of_the_project_are_taken_for_an_argument(tmp_path: Path) -> None:
    folder = tmp_path / "configs" / "small"
    folder.mkdir(parents=True)
    (folder / "b.yaml").touch()
    (folder / "a.yaml").touch()
    script = tmp_path / "train.py"
    assert own_configuration("config", script) == own_configuration("train_cfg_path", script) == str(folder / "a.yaml")
    assert own_configuration("config_name", script) is None
    assert own_configuration("config", folder / "train.py") is None


def test_a_model_has_the_channels_of_its_inputs() -> None:
    from transformers import WhisperConfig

    message = "weight of size [32, 80, 3], expected input[4, 128, 3000] to have 80 channels, but got 128"
    ledger = Ledger()
    ledger.has_made_models = True
    corrections = empty(ledger)
    assert corrections.correct(RuntimeError(f"{message} channels instead"))
    assert not corrections.correct(RuntimeError(f"{message} channels instead"))
    assert small_config(WhisperConfig, None, None, corrections.channels).num_mel_bins == 128
    assert small_config(WhisperConfig).num_mel_bins == 80


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("    for part in range(0):\n        last = part\n    return last\n", 240),
        ("    for part in range(0):\n        print(part)\n    return part + 1\n", 240),
        ("    for part in range(0):\n        last = part\n        del last\n    return last\n", None),
        ("    if row is None:\n        part = 1\n    return part\n", None),
        ("    return part_of_nothing\n", None),
    ],
)
def test_a_name_that_only_an_empty_loop_binds_needs_more_rows(body: str, rows: int | None, tmp_path: Path) -> None:
    error = error_of(body, tmp_path)
    assert asked_rows(error, 30) == rows
    assert failure_of(error, None).is_of_empty_loop is (rows is not None)


@pytest.mark.parametrize(
    ("message", "side"),
    [
        ("Crop size (height, width) exceeds image dimensions (height, width): (512, 512) vs (96, 96)", 640),
        ("Required crop size (224, 224) is larger than input image size (96, 96)", 280),
        ("Required crop size (64, 64) is larger than input image size (32, 96)", None),
        ("Required crop size (224, 224) is larger than input image size (100, 100)", None),
        ("the size of 224 is not 96", None),
    ],
)
def test_a_crop_tells_how_large_images_have_to_be(message: str, side: int | None) -> None:
    corrections = empty(Ledger())
    assert asked_side(ValueError(message)) == side
    assert corrections.correct(ValueError(message)) is (side is not None)
    assert corrections.side == (side or 0)
    assert not corrections.correct(ValueError(message))
