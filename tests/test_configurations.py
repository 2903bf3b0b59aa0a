"""Configuration files are read as what their tool runs: findings at their keys, fixes that keep their layout."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent, indent

import pytest

from lintrain.cli import run
from lintrain.configurations.document import NotReadError, Section, plain, read_document
from lintrain.source.configuration import Configuration

AXOLOTL = """\
# a run of ours
base_model: NousResearch/Meta-Llama-3-8B
datasets:
  - path: mhenrichsen/alpaca_2k_test
    type: alpaca
sequence_len: 2048
micro_batch_size: 2
num_epochs: 1
learning_rate: 2e-5   # as in the paper
optimizer: adamw_torch
lr_scheduler: cosine
output_dir: ./out
bf16: true
"""
FACTORY = """\
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
do_train: true
finetuning_type: full
template: llama3
dataset: identity
cutoff_len: 2048
output_dir: saves
per_device_train_batch_size: 1
learning_rate: 1.0e-5
lr_scheduler_type: cosine
bf16: true
"""
TRL = """\
model_name_or_path: gpt2
dataset_name: trl-lib/Capybara
output_dir: out
learning_rate: 2e-5
per_device_train_batch_size: 4
num_train_epochs: 1
packing: true
"""
GRPO = """\
training:
  output_dir: out
  max_steps: 150
  learning_rate: 5.0e-6
  per_device_train_batch_size: 4
  num_generations: 4
  max_prompt_length: 512
  max_completion_length: 384
"""
ARGUMENTS = """\
output_dir: out
learning_rate: 2.0e-5
per_device_train_batch_size: 8
num_train_epochs: 3
seed_of_ours: 3
"""
TUNE = """\
model:
  _component_: torchtune.models.llama3_2.lora_llama3_2_1b
  lora_attn_modules: ['q_proj']
  apply_lora_to_mlp: True
  lora_rank: 64
tokenizer:
  _component_: torchtune.models.llama3.llama3_tokenizer
  path: /tmp/tokenizer.model
optimizer:
  _component_: torch.optim.AdamW
  weight_decay: 0.01
  lr: 3e-4
batch_size: 4
epochs: 1
"""
HYDRA = """\
optimizer:
  _target_: torch.optim.Adam
  _partial_: true
  lr: 0.001
trainer:
  _target_: lightning.pytorch.trainer.Trainer
  max_epochs: 10
"""
LIGHTNING = """\
seed_everything: 1
trainer:
  accelerator: gpu
  max_epochs: 10
model:
  class_path: mine.Model
optimizer:
  class_path: torch.optim.AdamW
  init_args:
    lr: 0.001
"""
ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_offload_params: false
mixed_precision: bf16
num_machines: 1
num_processes: 8
"""
DEEPSPEED = """\
{
\t"fp16": {"enabled": "auto", "loss_scale": 0},
\t"zero_optimization": {
\t\t"stage": 2,
\t\t"offload_optimizer": {"device": "cpu"}
\t},
\t"gradient_clipping": 1.0
}
"""
ADAPTER = '{"peft_type": "LORA", "r": 8, "lora_alpha": 16, "target_modules": ["c_attn"]}\n'
CORRECT = {
    "axolotl.yaml": AXOLOTL,
    "factory.yaml": FACTORY,
    "trl.yaml": TRL,
    "arguments.yaml": ARGUMENTS,
    "tune.yaml": TUNE,
    "hydra.yaml": HYDRA,
    "lightning.yaml": LIGHTNING,
    "accelerate.yaml": ACCELERATE,
    "ds.json": DEEPSPEED,
    "adapter_config.json": ADAPTER,
}
KINDS = [
    *("axolotl", "llamafactory", "trl-sft", "transformers", "torchtune"),
    *("hydra", "lightning", "accelerate", "deepspeed", "adapter"),
]

FOREIGN = {
    "sagemaker.yaml": "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: DATA_PARALLEL\nnum_machines: 1\n"
    "use_cpu: false\nmixed_precision: fp16\n",
    "tuner.json": '{"base_model": "a/b", "micro_batch_size": 1, "gradient_accumulation_steps": 1, "epochs": 16, '
    '"train_on_inputs": false, "lora_r": 16, "prompt_template": "x"}',
    "workflow.yml": "on: push\njobs:\n  a:\n    env:\n      learning_rate: 1\n      output_dir: x\n      seed: 3\n",
    "compose.yaml": "services:\n  train:\n    command: [--learning_rate, '1']\n",
    "chart.yaml": "apiVersion: v2\nkind: Chart\nlearning_rate: {{ .Values.rate }}\noutput_dir: x\n",
    "config.json": '{"architectures": ["GPT2"], "learning_rate": 1, "output_dir": "x", "num_train_epochs": 1}',
    "trainer_state.json": '{"log_history": [], "num_train_epochs": 3, "learning_rate": 1, "max_steps": 3}',
    "data.json": '[{"learning_rate": 1}]',
    "mergekit.yaml": "base_model: a\nmodels:\n  - model: b\nmerge_method: ties\n",
    "broken.yaml": "base_model: a\n  datasets: [\nsequence_len: 1\nmicro_batch_size: 1\n",
    "summary.json": '{"lr_scheduler_type": "linear", "lr": 1e-4, "warmup_ratio": 0.1, "max_steps": 1}\n',
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """`file:line rule` of each finding."""
    run(["check", "--no-cache", "--output-format", "json", *arguments])
    document = json.loads(capsys.readouterr().out or "{}")
    findings = [each for file in document.get("files", [document]) for each in file.get("findings", [])]
    return [f"{_place(each)} {each['rule']}" for each in findings]


def _place(finding: dict[str, object]) -> str:
    where = finding.get("location", finding)
    assert isinstance(where, dict)
    return f"{where.get('path', where.get('file'))}:{where['line']}"


@pytest.mark.parametrize(("name", "kind"), list(zip(CORRECT, KINDS, strict=True)))
def test_a_kind_is_recognised_by_its_keys(name: str, kind: str) -> None:
    assert [part.kind.name for part in Configuration(name, CORRECT[name]).parts] == [kind]


def test_correct_configurations_have_no_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in CORRECT.items():
        (folder / name).write_text(text)
    assert found(capsys, ".") == []
    run(["check", "--no-cache", "."])
    assert f"no findings in {len(CORRECT)} files" in capsys.readouterr().out


def test_rows_that_a_script_takes_from_a_key_of_its_own_are_unknown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mixture = "dataset_mixture:\n  datasets:\n    - id: org/chats\n      split: train\n"
    text = f"model_name_or_path: org/model\n{mixture}do_eval: true\neval_strategy: epoch\nlearning_rate: 1.0e-4\n"
    (folder / "sft.yaml").write_text(f"{text}max_length: 512\npacking: false\nnum_train_epochs: 1\noutput_dir: out\n")
    assert found(capsys, ".") == []


LEFT_OUT = """\
output_dir: out
per_device_train_batch_size: 2
num_train_epochs: 2
save_steps: 10
load_best_model_at_end: true
"""


def test_a_program_may_add_what_a_section_of_its_file_leaves_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A strategy that is not written has the library's default in a file of its own, and any value in a section."""
    (folder / "whole.yaml").write_text(LEFT_OUT)
    assert found(capsys, "whole.yaml") == ["whole.yaml:1 unmatched-save-strategy"]
    section = "".join(f"  {line}\n" for line in LEFT_OUT.splitlines())
    (folder / "part.yaml").write_text(f"model:\n  name: gpt2\ntraining:\n{section}")
    assert found(capsys, "part.yaml") == []
    (folder / "part.yaml").write_text(
        f"model:\n  name: gpt2\ntraining:\n{section}  eval_strategy: steps\n  save_strategy: epoch\n"
    )
    assert found(capsys, "part.yaml") == ["part.yaml:10 unmatched-save-strategy"]


def test_a_file_with_words_that_trl_does_not_know_is_of_another_program() -> None:
    text = f"model_name_or_path: gpt2\ndataset_name: mine\nmax_seq_length: 512\n{LEFT_OUT}"
    assert [part.kind.name for part in Configuration("a.yaml", text).parts] == ["trl-sft"]
    assert Configuration("a.yaml", f"{text}use_lora: true\n").parts == []


def test_files_of_other_kinds_are_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FOREIGN.items():
        (folder / name).write_text(text)
        assert Configuration(name, text).parts == []
    assert run(["check", "--no-cache", "."]) == 0
    assert "no Python files, notebooks or training configurations" in capsys.readouterr().err


def test_a_text_that_is_named_is_not_read_as_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "notes.txt").write_text("import torch\nx = (\n")
    (folder / "services.yaml").write_text("services: {}\n")
    assert run(["check", "--no-cache", "notes.txt", "services.yaml"]) == 0
    assert "training configurations in `notes.txt`" in capsys.readouterr().err


MISTAKES = [
    ("axolotl.yaml", "micro_batch_size:", "micro_batch_sise:", 7, "unknown-argument"),
    ("axolotl.yaml", "    type: alpaca", "    tpye: alpaca", 5, "unknown-argument"),
    ("axolotl.yaml", "bf16: true", "bf16: true\nfp16: true", 14, "both-half-precisions"),
    ("axolotl.yaml", "2e-5 ", "2e-2 ", 9, "high-learning-rate"),
    ("axolotl.yaml", "lr_scheduler: cosine", "lr_scheduler: constant\nwarmup_steps: 9", 12, "ignored-warmup"),
    ("factory.yaml", "cutoff_len", "cutof_len", 7, "unknown-argument"),
    ("factory.yaml", "1.0e-5", "1.0e-2", 10, "high-learning-rate"),
    ("factory.yaml", "bf16: true", "eval_strategy: steps", 12, "missing-eval-dataset"),
    ("factory.yaml", "bf16: true", "quantization_bitt: 4", 12, "unknown-argument"),
    ("trl.yaml", "learning_rate", "lerning_rate", 4, "unknown-argument"),
    ("trl.yaml", "packing: true", "packing: true\nmax_seq_length: 9", 8, "removed-argument"),
    ("trl.yaml", "dataset_name", "datset_name", 2, "unknown-argument"),
    ("arguments.yaml", "num_train_epochs: 3", "evaluation_strategy: epoch", 4, "removed-argument"),
    ("arguments.yaml", "num_train_epochs", "num_train_epoch", 4, "unknown-argument"),
    ("arguments.yaml", "num_train_epochs: 3", "max_steps: 10\nwarmup_steps: 50", 5, "warmup-exceeds-training"),
    ("tune.yaml", "lora_rank", "lora_rnak", 5, "unknown-argument"),
    ("tune.yaml", "  weight_decay", "  weight_decya", 11, "unknown-argument"),
    ("tune.yaml", "batch_size: 4", "batch_sise: 4", 13, "unknown-argument"),
    ("hydra.yaml", "  lr: 0.001", "  learning_rate: 0.001", 4, "unknown-argument"),
    ("hydra.yaml", "max_epochs", "max_epoch", 7, "unknown-argument"),
    ("lightning.yaml", "max_epochs", "max_epoch", 4, "unknown-argument"),
    ("lightning.yaml", "    lr: 0.001", "    learn_rate: 0.001", 10, "unknown-argument"),
    ("accelerate.yaml", "num_machines", "num_machine", 6, "unknown-argument"),
    ("accelerate.yaml", "fsdp_offload_params", "fsdp_offload_param", 4, "unknown-argument"),
    ("ds.json", "loss_scale", "loss_scal", 2, "unknown-argument"),
    ("ds.json", "offload_optimizer", "offload_optimiser", 5, "unknown-argument"),
    ("ds.json", "gradient_clipping", "gradient_clip", 7, "unknown-argument"),
    (
        "axolotl.yaml",
        "bf16: true",
        "adapter: lora\nload_in_8bit: true\nload_in_4bit: true",
        14,
        "contradictory-settings",
    ),
    ("axolotl.yaml", "bf16: true", "adapter: qlora", 13, "contradictory-settings"),
    ("axolotl.yaml", "bf16: true", "val_set_size: 0\neval_steps: 5", 14, "contradictory-settings"),
    ("axolotl.yaml", "bf16: true", "saves_per_epoch: 1\nsave_steps: 9", 13, "contradictory-settings"),
    ("axolotl.yaml", "bf16: true", "num_epochs: 2", 8, "contradictory-settings"),
    ("factory.yaml", "bf16: true", "quantization_bit: 4", 12, "contradictory-settings"),
    ("factory.yaml", "bf16: true", "val_size: 0.1\neval_dataset: other", 12, "contradictory-settings"),
    ("tune.yaml", "epochs: 1", "optimizer_in_bwd: True\ngradient_accumulation_steps: 8", 14, "contradictory-settings"),
    ("ds.json", '"stage": 2', '"stage": 0', 3, "contradictory-settings"),
    (
        "ds.json",
        '{"enabled": "auto", "loss_scale": 0}',
        '{"enabled": true}, "bf16": {"enabled": true}',
        2,
        "contradictory-settings",
    ),
    ("axolotl.yaml", "cosine", "consine", 11, "unknown-choice"),
    ("factory.yaml", "sft", "stf", 2, "unknown-choice"),
    ("trl.yaml", "packing: true", "eval_strategy: no", 7, "unknown-choice"),
    ("arguments.yaml", "seed_of_ours: 3", "optim: adamw_troch", 5, "unknown-choice"),
    ("accelerate.yaml", "mixed_precision: bf16", "mixed_precision: bf61", 5, "unknown-choice"),
    ("ds.json", '"device": "cpu"', '"device": "gpu"', 5, "unknown-choice"),
    ("ds.json", '"stage": 2', '"stage": 4', 4, "unknown-choice"),
    ("adapter_config.json", "lora_alpha", "lora_alhpa", 1, "unknown-argument"),
]


@pytest.mark.parametrize(("name", "old", "new", "line", "rule"), MISTAKES)
def test_a_mistake_is_found_at_its_key(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, old: str, new: str, line: int, rule: str
) -> None:
    assert CORRECT[name].count(old) == 1
    (folder / name).write_text(CORRECT[name].replace(old, new))
    assert found(capsys, name) == [f"{name}:{line} {rule}"]


def test_a_key_that_has_the_same_value_twice_is_no_mistake(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "axolotl.yaml"
    file.write_text(f"{AXOLOTL}bf16: true\n")
    assert found(capsys, "axolotl.yaml") == []
    file.write_text(f"{AXOLOTL}bf16: false\n")
    assert found(capsys, "axolotl.yaml") == ["axolotl.yaml:13 contradictory-settings"]


def test_a_rate_that_the_file_is_named_for_is_on_purpose(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    high = AXOLOTL.replace("2e-5", "5e-3")
    for name in ("tuned.yaml", "tuned-lr1e-3.yaml", "tuned-lr5e-3.yaml", "tuned_lr5e3.yaml", "tuned_0.005.yaml"):
        (folder / name).write_text(high)
    assert found(capsys, ".") == [f"{name}:9 high-learning-rate" for name in ("tuned-lr1e-3.yaml", "tuned.yaml")]


def test_a_script_may_pass_the_checkpoint_of_a_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "trl.yaml").write_text(f"{TRL}resume_from_checkpoint: true\n")
    assert found(capsys, "trl.yaml") == ["trl.yaml:8 contradictory-settings"]
    (folder / "tune.py").write_text("trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)\n")
    assert found(capsys, "trl.yaml") == []


def test_a_fix_keeps_comments_and_layout(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "axolotl.yaml"
    file.write_text(AXOLOTL.replace("learning_rate:", "lerning_rate:"))
    run(["check", "--no-cache", "--fix", "--unsafe-fixes", "."])
    assert file.read_text() == AXOLOTL


def test_a_fix_of_json_keeps_tabs_and_quotes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = folder / "ds.json"
    file.write_text(DEEPSPEED.replace("gradient_clipping", "gradient_cliping"))
    run(["check", "--no-cache", "--fix", "--unsafe-fixes", "."])
    assert file.read_text() == DEEPSPEED


def test_a_fix_that_names_an_argument_of_the_library_is_not_offered_for_other_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "a.yaml").write_text(AXOLOTL.replace("bf16: true", "bf16: true\nfp16: true"))
    run(["check", "--no-cache", "--diff", "--unsafe-fixes", "."])
    assert "+" not in "".join(line[:1] for line in capsys.readouterr().out.splitlines() if "per_device" in line)


def test_a_comment_suppresses_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = "seed_of: 3  # lintrain: ignore[unknown-argument] -- read by our launcher\n"
    (folder / "a.yaml").write_text(AXOLOTL + line)
    assert found(capsys, ".") == []


def test_comments_are_found_after_quotes_and_apostrophes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# it's ours\nname: 'a # b'\nseed_of: \"#\"  # lintrain: ignore[unknown-argument] -- ours\n"
    (suppression,) = Configuration("a.yaml", AXOLOTL + text).suppressions
    assert (suppression.rules, suppression.line) == (("unknown-argument",), AXOLOTL.count("\n") + 3)


def test_comments_are_added_to_yaml_and_not_to_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    yaml, ds = folder / "a.yaml", folder / "ds.json"
    yaml.write_text(AXOLOTL + "seed_of: 3\n")
    ds.write_text(wrong := DEEPSPEED.replace("gradient_clipping", "gradient_clip"))
    run(["check", "--no-cache", "--add-ignores", "ours", "."])
    assert yaml.read_text() == AXOLOTL + "seed_of: 3  # lintrain: ignore[unknown-argument] -- ours\n"
    assert ds.read_text() == wrong


@pytest.mark.libraries
def test_a_probe_names_what_starts_a_configuration(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text(AXOLOTL)
    assert run(["probe", "a.yaml"]) == 2
    said = capsys.readouterr().err
    assert "`axolotl train a.yaml` starts" in said
    assert "pip install axolotl" in said


@pytest.mark.libraries
def test_a_probe_does_not_run_other_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "a.yaml").write_text("open('ran', 'w')\n")
    assert run(["probe", "a.yaml"]) == 2
    assert "neither a script nor a training configuration" in capsys.readouterr().err
    assert not (folder / "ran").exists()


def test_values_are_those_of_yaml_1_1_with_merged_keys() -> None:
    text = "a: &a {x: on}\nb:\n  <<: *a\n  rate: 1e-4\nc: '1'\nd: |\n  two\n  lines\n"
    assert plain(read_document("a.yaml", text)) == {
        "a": {"x": True},
        "b": {"x": True, "rate": 1e-4},
        "c": "1",
        "d": "two\nlines\n",
    }


def test_a_comment_between_a_key_and_its_value_on_the_next_line_is_read_over() -> None:
    text = "a: 1\nfolder:  # where to save\n  /out\n\nb: 2  # two\n"
    assert plain(read_document("a.yaml", text)) == {"a": 1, "folder": "/out", "b": 2}


def test_a_key_that_an_alias_brings_in_is_not_the_sections_own() -> None:
    document = read_document("a.yaml", "a: &a {x: 1}\nb:\n  <<: *a\n")
    assert isinstance(document, Section)
    section = document.get("b")
    assert isinstance(section, Section)
    assert [each.is_own for each in section.entries] == [False]


@pytest.mark.parametrize("text", ["a: [\n", "a: 1\n---\nb: 2\n", "? [a]\n: 1\n", "x" * 70_000])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(NotReadError):
        read_document("a.yaml", text)


def test_aliases_do_not_fill_the_memory() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    with pytest.raises(NotReadError):
        read_document("a.yaml", "\n".join(lines))


GREEDY = '{"do_sample": false, "temperature": 0.7, "eos_token_id": 2, "transformers_version": "4.57.0"}\n'


def test_greedy_decoding_has_no_temperature(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "generation_config.json").write_text(GREEDY)
    assert found(capsys, ".") == ["generation_config.json:1 contradictory-settings"]
    (folder / "generation_config.json").write_text(GREEDY.replace("false", "true"))
    assert found(capsys, ".") == []


@pytest.mark.parametrize("name", ["factory.yaml", "axolotl.yaml", "arguments.yaml"])
def test_the_file_of_deepspeed_is_compared_with_what_names_it(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (folder / "conf").mkdir()
    (folder / "conf" / "ds.json").write_text(
        DEEPSPEED.replace('"gradient_clipping": 1.0', '"optimizer": {"params": {"lr": 9e-3}}')
    )
    (folder / name).write_text(CORRECT[name] + "deepspeed: conf/ds.json\n")
    assert found(capsys, name) == ["conf/ds.json:7 deepspeed-mismatch"]


READERS = {
    "safe_load": """
        import yaml
        with open("cfg.yaml") as file:
            settings = yaml.safe_load(file)
        args = TrainingArguments(**settings)
    """,
    "in the call": """
        import yaml
        args = TrainingArguments(**yaml.safe_load(open("cfg.yaml")))
    """,
    "a section of the file": """
        import yaml
        args = TrainingArguments(**yaml.safe_load(open("tree.yaml"))["training"])
    """,
    "OmegaConf": """
        from omegaconf import OmegaConf
        cfg = OmegaConf.load("tree.yaml")
        args = TrainingArguments(**cfg.training)
    """,
    "OmegaConf as a dictionary": """
        from omegaconf import OmegaConf
        args = TrainingArguments(**OmegaConf.to_container(OmegaConf.load("cfg.yaml"), resolve=True))
    """,
    "parse_yaml_file": """
        (args,) = HfArgumentParser(TrainingArguments).parse_yaml_file("cfg.yaml")
    """,
}


@pytest.mark.parametrize("code", READERS.values(), ids=READERS)
def test_keys_that_a_script_reads_are_arguments(folder: Path, capsys: pytest.CaptureFixture[str], code: str) -> None:
    flat = "output_dir: out\nlerning_rate: 1\nevaluation_strategy: epoch\nseed: 3\n"
    (folder / "cfg.yaml").write_text(flat)
    (folder / "tree.yaml").write_text("training:\n" + indent(flat, "  "))
    head = "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
    (folder / "train.py").write_text(head + dedent(code) + "Trainer(load(), args, eval_dataset=rows()).train()\n")
    reported = [each for each in found(capsys, "train.py") if not each.startswith("train")]
    first = 3 if "tree" in code else 2
    name = "tree" if "tree" in code else "cfg"
    assert reported == [f"{name}.yaml:{first} unknown-argument", f"{name}.yaml:{first + 1} removed-argument"]


OWN_KEYS = {
    "a text": 'limit = int(settings["training"].get("max_prompt_length", 512))',
    "a field": "class Training:\n    max_prompt_length: int = 256",
}


@pytest.mark.parametrize("code", OWN_KEYS.values(), ids=OWN_KEYS)
def test_a_key_that_a_script_takes_from_the_file_is_its_own(
    folder: Path, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    (folder / "cfg.yaml").write_text(GRPO)
    assert found(capsys, "cfg.yaml") == ["cfg.yaml:7 removed-argument"]
    (folder / "train.py").write_text(f"{code}\n")
    assert found(capsys, "cfg.yaml") == []


def test_sections_of_a_hydra_tree_are_arguments_of_the_class_that_their_group_names(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "train.yaml": "defaults:\n  - _self_\n  - optimizer: adam\noptimizer:\n  learning_rate: 1\n",
        "trainer/default.yaml": "_target_: lightning.Trainer\nmax_epochs: 3\n",
        "trainer/gpu.yaml": "defaults:\n  - default\naccelerator: gpu\nmax_epoch: 4\n",
        "optimizer/adam.yaml": "_target_: torch.optim.Adam\nlr: 0.1\n",
        "optimizer/sgd.yaml": "_target_: torch.optim.SGD\nlr: 0.1\n",
        "experiment/a.yaml": "defaults: []\ntrainer:\n  epochs: 10\n  min_epochs: 2\noptimizer:\n  nesterov: true\n",
        "experiment/b.yaml": "defaults:\n  - override /optimizer: sgd\noptimizer:\n  nesterow: true\nours:\n  lr: 1\n",
    }
    for name, text in files.items():
        (folder / "configs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "configs" / name).write_text(text)
    assert found(capsys, "configs") == [
        f"{Path('configs') / name}:{line} unknown-argument"
        for name, line in (
            ("experiment/a.yaml", 3),
            ("experiment/b.yaml", 4),
            ("train.yaml", 5),
            ("trainer/gpu.yaml", 4),
        )
    ]
