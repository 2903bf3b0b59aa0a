"""The shipped tables of names and signatures agree with the libraries that are installed, and answer by version."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lintrain.knowledge import api, successors, tables
from lintrain.knowledge.versions import Target, TargetVersions, exactly
from tools.api_tables.comparison import differences_from_installed
from tools.api_tables.packages import COVERED, Covered
from tools.api_tables.removed_names import removed_snapshots, texts_of

ROOT = Path(__file__).parent.parent
INSTALLED = exactly(
    **{package: importlib.metadata.version(package) for package in (*tables.COVERED_PACKAGES, *tables.REMOVED_FROM)}
)
NEWEST = exactly(
    **{package: ".".join(map(str, tables.covered_versions(package)[-1])) for package in tables.COVERED_PACKAGES}
)
SIGNATURES = [
    "transformers.TrainingArguments",
    "transformers.Seq2SeqTrainingArguments",
    "transformers.Trainer",
    "transformers.Trainer.train",
    "transformers.Seq2SeqTrainer",
    "transformers.DataCollatorWithPadding",
    "transformers.DataCollatorForLanguageModeling",
    "transformers.DataCollatorForSeq2Seq",
    "transformers.get_linear_schedule_with_warmup",
    "trl.SFTConfig",
    "trl.SFTTrainer",
    "trl.DPOConfig",
    "trl.GRPOTrainer",
    "accelerate.Accelerator",
    "accelerate.Accelerator.clip_grad_norm_",
    "datasets.load_dataset",
    "datasets.Dataset.map",
    "datasets.Dataset.train_test_split",
    "datasets.DatasetDict.filter",
    "evaluate.load",
    "peft.LoraConfig",
]


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_of_the_table_is_the_real_one(name: str) -> None:
    module, *path = name.split(".")
    real: Any = importlib.import_module(module)
    for part in path:
        real = getattr(real, part)
    parameters = list(inspect.signature(real).parameters.values())
    if inspect.isfunction(real) and len(path) > 1:
        parameters = parameters[1:]
    named = {each.name: each for each in parameters if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)}

    known = api.signature(name, INSTALLED)

    assert known is not None
    assert [each.name for each in known.parameters] == list(named)
    assert known.accepts_any_keyword == any(each.kind == each.VAR_KEYWORD for each in parameters)
    for each in known.parameters:
        if each.default is None:
            assert named[each.name].default is inspect.Parameter.empty
        elif each.default != "?":
            assert named[each.name].default == each.value


@pytest.mark.parametrize("covered", COVERED, ids=[each.package for each in COVERED])
def test_the_tables_are_fresh_for_the_installed_version(covered: Covered) -> None:
    assert list(differences_from_installed(covered)) == []


@pytest.mark.parametrize("package", ["accelerate", "datasets", "evaluate", "numpy", "peft", "trl"])
def test_a_name_that_the_table_calls_gone_cannot_be_imported(package: str, warm_python: str) -> None:
    gone = [
        name for name in tables.lives_of(package, package) if api.name_state(package, name, INSTALLED).state == "gone"
    ]
    # In a Python of its own: torchmetrics gives NumPy a name back.
    python = sys.executable if package == "numpy" else warm_python
    look = f"import {package}; print([name for name in {gone} if hasattr({package}, name)])"
    asked = f"import warnings; warnings.simplefilter('ignore'); {look}"
    ran = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


LISTS = """
_type_info = [("object", ""), ("real", "use `float`")]
__former_attrs__ = {name: advice for name, advice in _type_info}
_type_info = [("whole", int)]
__deprecated_attrs__ = {name: kind for name, kind in _type_info}
"""


def test_names_are_gone_by_the_lists_of_a_package_and_by_what_nothing_defines(tmp_path: Path) -> None:
    found = []
    for version, stub, code in (
        ("1.0", "from a import area as area, hidden\ndef mean(): ...\nwhole: int\n_own: int\n", ""),
        ("1.1", '__all__ = ["area", "mean"]\n', LISTS),
        ("2.0", "", '__expired_attributes__ = {"mean": "use `average`"}\ndef compiled(): ...\n"whole"\n'),
    ):
        folder = tmp_path / version / "few"
        (folder / "ma").mkdir(parents=True)
        (folder / "__init__.pyi").write_text(stub)
        (folder / "__init__.py").write_text(code)
        (folder / "ma" / "__init__.py").write_text("def area(): ...\n")
        found.append(texts_of("few", version, folder))
    versions = removed_snapshots("few", found)
    assert [sorted(each.modules["few"].own) for each in versions] == [
        ["area", "mean", "object", "real"],
        ["area", "mean"],
        ["object", "real"],
    ]


def test_what_transformers_no_longer_has_cannot_be_imported() -> None:
    transformers = importlib.import_module("transformers")
    lives = tables.lives_of("transformers", "transformers")
    gone = [name for name in lives if api.name_state("transformers", name, INSTALLED).state == "gone"]
    assert len(gone) > 500
    assert [name for name in gone if hasattr(transformers, name)] == []


def test_names_that_transformers_makes_on_demand_are_never_gone() -> None:
    assert api.name_state("transformers", "CLIPImageProcessorFast", INSTALLED).state == "unknown"
    assert api.name_state("transformers.tokenization_utils", "Trie", INSTALLED).state == "unknown"


@pytest.mark.parametrize(
    ("version", "keyword", "state"),
    [
        ("4.40.0", "evaluation_strategy", "present"),
        ("4.40.0", "eval_strategy", "not_yet"),
        ("4.46.3", "eval_strategy", "present"),
        ("4.57.6", "evaluation_strategy", "gone"),
        ("5.23.0", "warmup_ratio", "gone"),
        ("5.23.0", "learning_rate", "present"),
        ("5.23.0", "lerning_rate", "never"),
        ("5.99.0", "warmup_ratio", "gone"),
        ("4.12.0", "evaluation_strategy", "unknown"),
        ("6.0.0", "evaluation_strategy", "unknown"),
    ],
)
def test_a_keyword_is_judged_by_the_version(version: str, keyword: str, state: str) -> None:
    assert api.keyword_state("transformers.TrainingArguments", keyword, exactly(transformers=version)).state == state


def test_a_config_of_trl_follows_the_version_of_transformers_at_hand() -> None:
    old, new = exactly(trl="0.19.1", transformers="4.52.4"), exactly(trl="0.19.1", transformers="5.23.0")
    assert api.keyword_state("trl.SFTConfig", "no_cuda", old).state == "present"
    assert api.keyword_state("trl.SFTConfig", "no_cuda", new).state == "gone"
    assert api.keyword_state("trl.SFTConfig", "no_cuda", exactly(trl="0.19.1")).state == "unknown"


def test_a_keyword_that_a_decorator_still_translates_is_present() -> None:
    known = api.keyword_state("transformers.Trainer", "tokenizer", exactly(transformers="4.50.3"))
    assert (known.state, known.stands_for) == ("present", "processing_class")


def test_a_range_in_which_versions_disagree_is_unknown() -> None:
    spread = TargetVersions({"transformers": Target(((4, 57), (5, 23)), ">=4.57", "requirements.txt:1")})
    assert api.keyword_state("transformers.TrainingArguments", "no_cuda", spread).state == "unknown"
    assert api.keyword_state("transformers.TrainingArguments", "evaluation_strategy", spread).state == "gone"
    assert api.default_value("transformers.TrainingArguments", "learning_rate", spread) == 5e-5
    assert api.signature("transformers.TrainingArguments", spread) is None


def test_positions_are_known() -> None:
    trainer = api.signature("transformers.Trainer", INSTALLED)
    assert trainer is not None
    assert trainer.positional[:4] == ("model", "args", "data_collator", "train_dataset")


def test_a_keyword_that_is_only_swallowed_counts_as_gone() -> None:
    name = "transformers.AutoModelForCausalLM.from_pretrained"
    assert api.keyword_state(name, "load_in_4bit", exactly(transformers="5.0.0")).state == "gone"
    assert api.keyword_state(name, "load_in_4bit", exactly(transformers="4.57.6")).state == "unknown"
    assert api.keyword_state("transformers.AutoTokenizer.from_pretrained", "use_auth_token", NEWEST).state == "unknown"


ARGUMENTS = [(owner, old) for owner, renames in successors._ARGUMENTS.items() for old in renames]


@pytest.mark.parametrize(("owner", "old"), ARGUMENTS)
def test_every_argument_with_a_successor_is_gone_and_its_successor_is_there(owner: str, old: str) -> None:
    call = {"transformers.from_pretrained": "transformers.AutoModel.from_pretrained", "trl.Trainer": "trl.SFTTrainer"}
    name = call.get(owner, owner)
    assert api.keyword_state(name, old, NEWEST).state == "gone"
    rename = successors.argument_rename(name, old, NEWEST)
    assert rename is not None
    if rename.new is not None and owner != "transformers.from_pretrained":
        assert api.keyword_state(rename.moved_to or name, rename.new, NEWEST).state == "present"


@pytest.mark.parametrize("path", list(successors._NAMES))
def test_every_name_with_a_successor_is_gone_and_its_successor_can_be_imported(path: str) -> None:
    package, _, name = path.partition(".")
    states = [api.name_state(module, name, NEWEST).state for module in tables.names_of(package)["modules"]]
    own, _, last = path.rpartition(".")
    assert "gone" in [api.name_state(own, last, NEWEST).state, *states]
    rename = successors.name_rename(package, name, NEWEST)
    assert rename is not None
    if rename.new_module is not None and rename.new_name is not None:
        assert hasattr(importlib.import_module(rename.new_module), rename.new_name)


@pytest.mark.parametrize(
    ("keyword", "value", "replacement"),
    [
        ("evaluation_strategy", '"epoch"', ("eval_strategy", '"epoch"')),
        ("warmup_ratio", "0.1", ("warmup_steps", "0.1")),
        ("group_by_length", "True", ("train_sampling_strategy", '"group_by_length"')),
        ("group_by_length", "False", (None, None)),
        ("overwrite_output_dir", "True", (None, None)),
        ("dispatch_batches", "False", ("accelerator_config", '{"dispatch_batches": False}')),
    ],
)
def test_an_argument_is_mended_with_its_value(
    keyword: str, value: str, replacement: tuple[str | None, str | None]
) -> None:
    rename = successors.argument_rename("transformers.TrainingArguments", keyword, NEWEST)
    edit = rename.replacement(value) if rename is not None else None
    assert edit is not None
    assert (edit.name, edit.value) == replacement


@pytest.mark.parametrize(
    ("keyword", "value"), [("warmup_ratio", "args.ratio"), ("warmup_ratio", "1.0"), ("save_safetensors", "False")]
)
def test_a_value_that_a_person_must_decide_on_gets_no_edit(keyword: str, value: str) -> None:
    rename = successors.argument_rename("transformers.TrainingArguments", keyword, NEWEST)
    assert rename is not None
    assert rename.replacement(value) is None


def test_no_successor_is_offered_that_the_version_lacks() -> None:
    old = exactly(transformers="4.40.2")
    assert successors.argument_rename("transformers.TrainingArguments", "evaluation_strategy", old) is None


def test_the_tables_are_small() -> None:
    sizes = [path.stat().st_size for path in (ROOT / "lintrain/knowledge/tables").glob("*.json")]
    assert sum(sizes) < 1_250_000


def test_every_table_says_that_it_is_generated() -> None:
    for path in (ROOT / "lintrain/knowledge/tables").glob("*.json"):
        assert "do not edit" in json.loads(path.read_text())["generated"]


def test_the_knowledge_imports_nothing_but_the_standard_library_and_lintrain() -> None:
    code = (
        "import sys; before = set(sys.modules); import lintrain.knowledge.successors, lintrain.knowledge.versions;"
        "loaded = {name.split('.')[0] for name in set(sys.modules) - before};"
        "print(loaded - set(sys.stdlib_module_names) - {'lintrain'})"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
