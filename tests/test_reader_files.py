"""What the reader takes from files beside the script: settings in JSON and YAML."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from lintrain.configurations.document import NotReadError
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Frame, Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.knowledge.settings_files import UNREAD, read_yaml
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Constant, Sequence, Unknown, Value
from lintrain.read import load
from lintrain.source.source import Source
from tests.test_reader_language import plain

IMPORTS = "import json, os, toml, tomllib, yaml\nfrom pathlib import Path\nfrom omegaconf import OmegaConf\n"


def value_in(folder: Path, code: str, expression: str = "x") -> Value:
    """The value of an expression after a script in this folder."""
    source = Source(str(folder / "train.py"), IMPORTS + dedent(code))
    load()
    reader = Reader(Pipeline(source, TargetVersions()))
    scope = Scope(names={"__name__": Constant("__main__"), "__file__": Constant(source.path)})
    reader.frames.append(Frame(None, scope))
    dispatch.execute_block(reader, source.tree.body, scope)
    return dispatch.evaluate(reader, ast.parse(expression, mode="eval").body, scope)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "c.json").write_text('{"lr": 0.1, "names": ["a", null], "model": {"size": 3}}')
    (tmp_path / "c.toml").write_text('lr = 0.1\nnames = ["a", "b"]\n[model]\nsize = 3\n')
    (tmp_path / "c.yaml").write_text("lr: 0.1\nnames: [a, ~]\nmodel:\n  size: 3\n")
    return tmp_path


@pytest.mark.parametrize(
    "code",
    [
        "x = json.load(open('c.json'))",
        "x = json.load(open('./c.json', encoding='utf-8'))",
        "with open('c.json') as f: x = json.load(f)",
        "with open('c.json', 'r') as f: x = json.loads(f.read())",
        "x = json.loads(Path('c.json').read_text())",
        "x = json.load((Path(__file__).resolve().parent / 'c.json').open())",
        "x = json.load(open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'c.json')))",
        "x = yaml.safe_load(open('c.yaml'))",
        "with open('c.yaml') as f: x = yaml.load(f, Loader=yaml.FullLoader)",
        "x = yaml.safe_load(Path('c.yaml').read_text())",
    ],
)
def test_settings_in_a_file_with_a_literal_path_are_known(folder: Path, code: str) -> None:
    assert plain(value_in(folder, code)) == {"lr": 0.1, "names": ["a", None], "model": {"size": 3}}


@pytest.mark.parametrize(
    "code",
    [
        "with open('c.toml', 'rb') as f: x = tomllib.load(f)",
        "x = tomllib.loads(Path('c.toml').read_text())",
        "x = toml.load('c.toml')",
        "x = toml.load(open('c.toml'))",
    ],
)
def test_settings_in_a_file_of_toml_are_known(folder: Path, code: str) -> None:
    assert plain(value_in(folder, code)) == {"lr": 0.1, "names": ["a", "b"], "model": {"size": 3}}


def test_they_are_certain_unless_the_script_names_the_file_elsewhere_too(folder: Path) -> None:
    once = value_in(folder, "x = json.load(open('c.json'))['lr']")
    twice = value_in(folder, "json.dump(f(), open('c.json', 'w'))\nx = json.load(open('c.json'))['lr']")
    assert isinstance(once, Constant)
    assert isinstance(twice, Constant)
    assert (bool(once.default), bool(twice.default)) == (False, True)


@pytest.mark.parametrize(
    "code",
    [
        "x = json.load(open('missing.json'))",
        "x = tomllib.loads('c.toml')",
        "x = toml.load(open('c.yaml'))",
        "x = json.load(open(name()))",
        "x = json.load(open('c.yaml'))",
        "x = json.load(open('c.json', 'w'))",
        "x = json.loads(name())",
        "x = yaml.safe_load('lr: 3')",
        "x = json.load(open('..'))",
    ],
)
def test_what_is_no_readable_file_of_settings_is_unknown(folder: Path, code: str) -> None:
    assert isinstance(value_in(folder, code), Unknown)


def test_a_file_of_data_is_no_settings(folder: Path) -> None:
    (folder / "c.json").write_text(str([1] * 3_000))
    assert isinstance(value_in(folder, "x = json.load(open('c.json'))"), Unknown)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1e-4\nb: 1.0e-4\nc: yes\nd: 'no'\ne:", {"a": "1e-4", "b": 1e-4, "c": True, "d": "no", "e": None}),
        ("a:\n- 1\n- b: 2\n  c: 3\nd: 4", {"a": [1, {"b": 2, "c": 3}], "d": 4}),
        ("a: {b: [1, x y], c: http://d}  # e", {"a": {"b": [1, "x y"], "c": "http://d"}}),
        ("---\n# only\na: 'b # c'", {"a": "b # c"}),
        ("a: b\n  c", {"a": "b c"}),
        ("x: &x {b: 1}\na: *x\nc:\n  <<: *x", {"x": {"b": 1}, "a": {"b": 1}, "c": {"b": 1}}),
        ("a: [1,\n 2]\nb: 'b''c'\nc: |\n  d\n", {"a": [1, 2], "b": "b'c", "c": "d\n"}),
        ("a", "a"),
        ("", None),
    ],
)
def test_yaml_is_read_as_pyyaml_reads_it(text: str, expected: object) -> None:
    yaml = pytest.importorskip("yaml")
    assert read_yaml(text) == expected == yaml.safe_load(text)


@pytest.mark.parametrize("text", ["a: 2024-01-01", "a: 017", "a: 1:30", "a: !mine 3"])
def test_a_value_that_is_not_plain_is_left_unread(text: str) -> None:
    assert read_yaml(text) == {"a": UNREAD}


@pytest.mark.parametrize("text", ["a: *x", "<<: *x", "? [a]\n: b", "\ta: 1", "a: 1\n---\nb: 2", "a: ["])
def test_a_file_that_is_no_yaml_is_refused(text: str) -> None:
    with pytest.raises(NotReadError):
        read_yaml(text)


def test_omegaconf_reads_numbers_without_a_point_and_interpolates(folder: Path) -> None:
    (folder / "o.yaml").write_text("lr: 1e-4\nother: ${lr}\n")
    assert plain(value_in(folder, "c = OmegaConf.load('o.yaml'); x = (c.lr, c.other)")) == (1e-4, "unknown")


def test_hydra_hands_over_its_file_and_the_groups_it_names_as_defaults(folder: Path) -> None:
    (folder / "conf" / "model").mkdir(parents=True)
    (folder / "conf" / "config.yaml").write_text("defaults:\n  - model: big\n  - _self_\nlr: 1e-4\n")
    (folder / "conf" / "model" / "big.yaml").write_text("size: 9\n")
    code = """
        import hydra
        @hydra.main(version_base=None, config_path="conf", config_name="config")
        def main(cfg):
            global x
            x = (cfg.lr, cfg.model.size, cfg.other)
        main()
        """
    value = value_in(folder, code, "x")
    assert plain(value) == (1e-4, 9, "unknown")
    assert isinstance(value, Sequence)
    assert all(item.default for item in value.items if isinstance(item, Constant))


HF = """
from dataclasses import dataclass
from transformers import HfArgumentParser, TrainingArguments
@dataclass
class Own:
    size: int = 3
    name: str = "a"
parser = HfArgumentParser((Own, TrainingArguments))
"""


@pytest.mark.parametrize(
    "fill",
    ["parse_dict({'size': 9, 'learning_rate': 1.0})", "parse_json_file('hf.json')", "parse_yaml_file('hf.yaml')"],
)
def test_classes_filled_from_settings_hold_them_for_certain(folder: Path, fill: str) -> None:
    (folder / "hf.json").write_text('{"size": 9, "learning_rate": 1.0}')
    (folder / "hf.yaml").write_text("size: 9\nlearning_rate: 1.0\n")
    value = value_in(folder, f"{HF}own, args = parser.{fill}\nx = (own.size, own.name, args.learning_rate)")
    assert plain(value) == (9, "a", 1.0)
    assert isinstance(value, Sequence)
    assert not any(item.default for item in value.items if isinstance(item, Constant))


def test_classes_filled_from_a_file_that_is_not_known_hold_defaults(folder: Path) -> None:
    value = value_in(folder, f"{HF}own, args = parser.parse_json_file(name())\nx = (own.size, args.learning_rate)")
    assert plain(value) == (3, "unknown")


def test_words_that_no_class_knows_come_last(folder: Path) -> None:
    code = f"{HF}own, args, rest = parser.parse_args_into_dataclasses(return_remaining_strings=True)\nx = own.size"
    assert plain(value_in(folder, code)) == 3
