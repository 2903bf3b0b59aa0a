"""Values for what a command of click, typer or Fire requires and was not given."""

from __future__ import annotations

import argparse
import functools
import os
import runpy
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.runtime.stand_ins.arguments import (
    _answer_functions,  # pyright: ignore[reportPrivateUsage]
    _answer_parameters,  # pyright: ignore[reportPrivateUsage]
    _answer_variables,  # pyright: ignore[reportPrivateUsage]
    _answering,  # pyright: ignore[reportPrivateUsage]
    _choose_command,  # pyright: ignore[reportPrivateUsage]
    _parsing,  # pyright: ignore[reportPrivateUsage]
)
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.older_arguments import fill_by_method, leave_out
from lintrain.runtime.stand_ins.settings import (
    _adapt_own_layers,  # pyright: ignore[reportPrivateUsage]
    _change_arguments,  # pyright: ignore[reportPrivateUsage]
)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setattr(Ledger, "script", "load_dataset(data_name)")
    return Ledger(SimpleNamespace(stand_ins=[], script="train.py"))  # type: ignore[arg-type]


def replaced(ledger: Ledger) -> dict[str, str]:
    return {each.name: each.by.partition(",")[0] for each in ledger.session.stand_ins}


def test_parameters_of_click_get_a_value_of_their_type(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    click = pytest.importorskip("click")
    monkeypatch.setattr(click.core.Parameter, "process_value", click.core.Parameter.process_value)
    _answer_parameters(ledger, click.core.Parameter)
    seen: dict[str, Any] = {}

    def main(**given: Any) -> None:
        seen.update(given)

    params = [
        click.Argument(["data_name"]),
        click.Option(["--epochs"], type=int, required=True),
        click.Option(["--kind"], type=click.Choice(["cosine", "linear"]), required=True),
        click.Option(["--layers"], type=int, multiple=True, required=True),
        click.Option(["--rate"], type=float, required=True),
        click.Option(["--seed"], type=int),
    ]
    command = click.Command("main", callback=main, params=params)
    command(["--rate", "0.5"], standalone_mode=False)
    assert seen == {
        "data_name": "stand-in/data",
        "epochs": 1,
        "kind": "cosine",
        "layers": (4,),
        "rate": 0.5,
        "seed": None,
    }
    assert sorted(replaced(ledger)) == ["data_name", "epochs", "kind", "layers"]


def test_parameters_of_typer_get_a_value_of_their_type(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    typer = pytest.importorskip("typer")
    owner = getattr(typer.core, "_TyperParameter", None)
    if owner is None:
        pytest.skip("this typer has the parameters of click")
    monkeypatch.setattr(owner, "process_value", owner.process_value)
    _answer_parameters(ledger, owner)
    seen: dict[str, Any] = {}
    app = typer.Typer()

    def main(data_name: str, epochs: int = typer.Option(...), rate: float = 0.5) -> None:
        seen.update(data_name=data_name, epochs=epochs, rate=rate)

    app.command()(main)
    app([], standalone_mode=False)
    assert seen == {"data_name": "stand-in/data", "epochs": 1, "rate": 0.5}
    assert replaced(ledger) == {"data_name": "stand-in/data", "epochs": "1"}


def test_parameters_of_a_function_for_fire_are_given_as_options(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = SimpleNamespace(Fire=lambda *_, **__: list(sys.argv))
    _answer_functions(ledger, module)

    def main(base_model: str, learning_rate: float, epochs: int = 3, **others: Any) -> None:
        """Never called: what Fire reads of it is its signature."""

    assert module.Fire(main) == ["train.py", "--base_model=stand-in/model", "--learning_rate=1e-4"]
    monkeypatch.setattr(sys, "argv", ["train.py", "--base-model=gpt2", "--learning_rate", "0.1"])
    assert module.Fire(main) == ["train.py", "--base-model=gpt2", "--learning_rate", "0.1"]
    monkeypatch.setattr(sys, "argv", ["train.py", "gpt2"])
    assert module.Fire(main) == ["train.py", "gpt2", "--learning_rate=1e-4"]


def test_a_variable_that_a_script_ends_without_has_a_value(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    owner = type(os.environ)
    for name in ("__getitem__", "__setitem__", "get"):
        monkeypatch.setattr(owner, name, getattr(owner, name), raising=False)
    _answer_variables(ledger)
    script = tmp_path / "asks.py"
    script.write_text(
        "import os\n"
        "given = {name: os.getenv(name) for name in ('MY_HUB_TOKEN', 'MY_MODEL_ID')}\n"
        "missing = [name for name, value in given.items() if not value]\n"
        "if missing:\n    raise ValueError(missing)\n"
        "optional = os.environ.get('MY_PROJECT_DIR')\n"
    )
    found = runpy.run_path(str(script))
    assert found["given"] == {"MY_HUB_TOKEN": "stand-in", "MY_MODEL_ID": "stand-in/model"}
    assert found["optional"] is None
    assert sorted(replaced(ledger)) == ["$MY_HUB_TOKEN", "$MY_MODEL_ID"]


def test_a_question_without_an_answer_is_agreed_to(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.runtime.stand_ins.arguments.is_called_by_user", lambda: True)

    def ends(_: object) -> str:
        raise EOFError

    ask = _answering(ledger, ends)
    assert [ask("Start training? (y/n): "), ask("Lancer ? [O/n] "), ask("Name of the run: ")] == ["y", "o", ""]
    assert _answering(ledger, lambda _: "n")("Go on? (y/n) ") == "n"
    assert replaced(ledger)["input('Start training? (y/n):')"] == "'y'"


@dataclass
class Plain:
    output_dir: str = "out"
    epochs: int = 3
    rate: float = 5e-5

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class OwnConfig(Plain):
    beta: float = 0.1
    max_length: int = 1024


class Preferences:
    def __init__(self, model: str, args: OwnConfig | Plain | None = None, processing_class: str = "") -> None:
        self.args = args
        self.processing_class = processing_class


def test_settings_that_a_trainer_took_itself_are_in_the_class_that_it_takes(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Preferences, "__init__", Preferences.__init__)
    leave_out(ledger, Preferences)
    owner: Any = Preferences
    made = owner("m", Plain(epochs=7), tokenizer="t", beta=0.5, max_seq_length=64, max_prompt_length=32)
    assert (made.args, made.processing_class) == (OwnConfig(epochs=7, beta=0.5, max_length=64), "t")
    assert replaced(ledger) == {
        "Preferences(tokenizer=)": "processing_class=: the installed version has no tokenizer",
        "Preferences(beta=)": "OwnConfig(beta=): the installed version has no beta",
        "Preferences(max_seq_length=)": "OwnConfig(max_length=): the installed version has no max_seq_length",
        "Preferences(max_prompt_length=)": "left out: the installed version has no max_prompt_length",
        "Preferences(args=Plain)": "OwnConfig with the same values",
    }
    assert owner("m", args=OwnConfig(rate=1.0), beta=0.5).args == OwnConfig(rate=1.0, beta=0.5)
    assert owner("m", beta=0.5).args.beta == 0.5
    assert owner("m").args is None


def test_a_class_of_the_script_hands_older_arguments_on(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Preferences):
        def __init__(self, *args: Any, weight: float = 0.5, **given: Any) -> None:
            super().__init__(*args, **given)

    monkeypatch.setattr(Preferences, "__init__", Preferences.__init__)
    leave_out(ledger, Preferences)
    build: Any = Own
    assert build("m", weight=1.0, tokenizer="t").processing_class == "t"


def test_a_number_that_a_launcher_gives_is_one(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger.session, "shorten", lambda _: None, raising=False)
    monkeypatch.delenv("RANK", raising=False)
    environment: Any = type(os.environ)
    for name in ("__getitem__", "__setitem__", "get"):
        monkeypatch.setattr(environment, name, getattr(environment, name))
    _answer_variables(ledger)
    file = tmp_path / "script.py"
    file.write_text('import os\nasks = os.environ.get("RANK")\nrank = int(os.environ.get("RANK"))\n')
    names: dict[str, Any] = {}
    before = dict(os.environ)
    try:
        exec(compile(file.read_text(), str(file), "exec"), names)
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
    assert (names["asks"], names["rank"]) == (None, 0)


def test_a_second_adapter_is_left_out_of_a_call_for_an_older_version(ledger: Ledger) -> None:
    class PeftModel: ...

    class Tuner:
        def __init__(self, model: Any, peft_config: Any = None) -> None:
            self.model, self.peft_config = model, peft_config

    leave_out(ledger, Tuner)
    build: Any = Tuner
    assert build(PeftModel(), peft_config="lora", max_seq_length=8).peft_config is None
    assert replaced(ledger)["Tuner(peft_config=)"] == "left out: the model has an adapter"
    # A call that the installed version takes is judged by it.
    assert build(PeftModel(), peft_config="lora").peft_config == "lora"
    assert build(object(), peft_config="lora", max_seq_length=8).peft_config == "lora"


def test_a_head_that_is_saved_whole_gets_no_adapter(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "script", "AutoModel.from_pretrained(name, trust_remote_code=True)")
    monkeypatch.setattr(Ledger, "has_made_models", True)
    peft = SimpleNamespace(get_peft_model=lambda model, config: config)
    _adapt_own_layers(ledger, peft)
    model = SimpleNamespace(named_modules=lambda: [("layer.query", 0), ("classifier", 0), ("own", 0)])
    settings = [
        SimpleNamespace(target_modules={target}, modules_to_save=saved, exclude_modules=None)
        for target, saved in (("layernorm_qkv", ["own"]), ("layernorm_qkv", None), ("query", None))
    ]
    made = [peft.get_peft_model(model, each) for each in settings]
    assert [(each.target_modules, each.exclude_modules) for each in made] == [
        ("all-linear", ["own", "classifier"]),
        ("all-linear", ["classifier"]),
        ({"query"}, None),
    ]


def test_an_estimator_takes_what_earlier_versions_called_otherwise(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = pytest.importorskip("sklearn.base")
    manifold = pytest.importorskip("sklearn.manifold")
    monkeypatch.setattr(manifold.TSNE, "__init__", manifold.TSNE.__init__)
    monkeypatch.setattr(base.BaseEstimator, "__new__", base.BaseEstimator.__new__, raising=False)
    leave_out(ledger, base.BaseEstimator)
    made = base.clone(manifold.TSNE(2, n_iter=250, n_jobs=1, square_distances=True))
    assert (made.max_iter, made.n_jobs) == (250, 1)
    assert [*replaced(ledger)] == ["TSNE(n_iter=)", "TSNE(square_distances=)"]


def test_a_group_of_commands_that_was_given_none_trains(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    click = pytest.importorskip("click")
    monkeypatch.setattr(click.core.Group, "parse_args", click.core.Group.parse_args)
    _choose_command(ledger, click.core.Group)
    ran: list[str] = []
    commands = {
        name: click.Command(name, callback=functools.partial(ran.append, name))
        for name in ("export", "train-model", "train-all")
    }
    group = click.Group("main", commands=commands)
    group([], standalone_mode=False)
    group(["export"], standalone_mode=False)
    assert ran == ["train-model", "export"]
    assert replaced(ledger) == {"command": "train-model"}


def test_a_group_of_typer_that_was_given_no_command_trains(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    typer = pytest.importorskip("typer")
    monkeypatch.setattr(typer.core.TyperGroup, "parse_args", typer.core.TyperGroup.parse_args)
    _choose_command(ledger, typer.core.TyperGroup)
    app, ran = typer.Typer(), list[str]()
    app.command("export")(lambda: ran.append("export"))
    app.command("fit")(lambda: ran.append("fit"))
    app([], standalone_mode=False)
    assert ran == ["fit"]


def test_rows_are_filled_by_a_method_as_pandas_2_did(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas", minversion="3")
    owner = pandas.core.generic.NDFrame
    monkeypatch.setattr(owner, "fillna", owner.fillna)
    fill_by_method(ledger, pandas.core.generic)
    rows = pandas.DataFrame({"word": ["a", None, "b"]})
    assert [*rows.fillna(method="ffill")["word"]] == ["a", "a", "b"]
    assert [*rows.fillna(method="bfill")["word"]] == ["a", "b", "b"]
    assert [*rows.fillna("c")["word"]] == ["a", "c", "b"]
    assert {each.by.partition(":")[0] for each in ledger.session.stand_ins} == {"ffill()", "bfill()"}


def test_settings_of_a_gpu_and_a_template_that_is_not_here_are_left_out(ledger: Ledger, tmp_path: Path) -> None:
    class TrainingArguments:
        optim = "adamw_torch"

        def __init__(self, template: str) -> None:
            self.activation_offloading, self.chat_template_path = True, template

        def __post_init__(self) -> None:
            pass

    _change_arguments(ledger, SimpleNamespace(TrainingArguments=TrainingArguments))
    (tmp_path / "own.jinja").write_text("{{ messages }}")
    found: list[Any] = []
    for template in ("chat.jinja", str(tmp_path / "own.jinja"), "somebody/model"):
        made = TrainingArguments(template)
        made.__post_init__()
        found.append((made.activation_offloading, made.chat_template_path))
    assert found == [(False, None), (False, str(tmp_path / "own.jinja")), (False, "somebody/model")]
    assert [*replaced(ledger)] == ["activation_offloading=True", "chat.jinja"]


def test_a_parser_that_requires_a_command_gets_one_that_trains(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.runtime.stand_ins.arguments.is_called_by_user", lambda *_: True)
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("export", "train"):
        commands.add_parser(name).add_argument("--epochs", type=int, required=True)
    monkeypatch.setattr(argparse.ArgumentParser, "parse_known_args", argparse.ArgumentParser.parse_known_args)
    argparse.ArgumentParser.parse_known_args = _parsing(ledger, argparse.ArgumentParser.parse_known_args)  # type: ignore[method-assign]
    found = []
    for words in ([], ["export", "--epochs", "3"]):
        monkeypatch.setattr(sys, "argv", ["train.py", *words])
        found.append(vars(parser.parse_args()))
    assert found == [{"command": "train", "epochs": 1}, {"command": "export", "epochs": 3}]
