"""Mistakes in the settings of TRL's trainers are found at their line, in Python as in the YAML of the `trl` command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lintrain.cli import run

COMMON = {"output_dir": "out", "per_device_train_batch_size": 8, "learning_rate": 1e-6, "num_train_epochs": 1}
PREFERENCES = "trl-lib/ultrafeedback_binarized"
TRAINERS: dict[str, tuple[str, dict[str, object]]] = {
    "SFT": ("trl-lib/Capybara", {"max_length": 1024, "packing": True}),
    "DPO": (PREFERENCES, {"beta": 0.1, "loss_type": "sigmoid"}),
    "KTO": ("trl-lib/kto-mix-14k", {"beta": 0.1, "desirable_weight": 1.0, "undesirable_weight": 1.0}),
    "ORPO": (PREFERENCES, {"beta": 0.1}),
    "GRPO": ("trl-lib/tldr", {"num_generations": 8, "max_completion_length": 256}),
    "RLOO": ("trl-lib/tldr", {"num_generations": 4, "normalize_advantages": True}),
    "Reward": (PREFERENCES, {"max_length": 512, "center_rewards_coefficient": 0.01}),
}
"""The data set of each trainer, and correct settings."""

REWARDED = ("GRPO", "RLOO")
WITHOUT = "-"
"""A correct setting that a mistake takes the place of."""

Mistake = tuple[str, dict[str, object], str]
MISTAKES: list[Mistake] = [
    ("SFT", {"max_seq_length": 1024}, "removed-argument"),
    ("SFT", {"dataset_text_feild": "text"}, "unknown-argument"),
    ("SFT", {"max_lenght": 512, "max_length": WITHOUT}, "unknown-argument"),
    ("SFT", {"loss_type": "nlll"}, "unknown-choice"),
    ("SFT", {"packing_strategy": "ffd"}, "unknown-choice"),
    ("SFT", {"truncation_mode": "keep_begin"}, "unknown-choice"),
    ("SFT", {"padding_free": True, "packing": False}, "contradictory-settings"),
    ("SFT", {"packing_strategy": "bfd", "packing": False}, "contradictory-settings"),
    ("SFT", {"learning_rate": 0.1}, "high-learning-rate"),
    ("SFT", {"warmup_steps": 100, "lr_scheduler_type": "constant"}, "ignored-warmup"),
    ("SFT", {"fp16": True, "bf16": True}, "both-half-precisions"),
    (
        "SFT",
        {"save_strategy": "epoch", "eval_strategy": "steps", "load_best_model_at_end": True},
        "unmatched-save-strategy",
    ),
    ("DPO", {"loss_type": "sigmod"}, "unknown-choice"),
    ("DPO", {"loss_type": ["sigmoid", "stf"]}, "unknown-choice"),
    ("DPO", {"max_prompt_length": 256}, "removed-argument"),
    ("DPO", {"sync_ref_model": True, "precompute_ref_log_probs": True}, "contradictory-settings"),
    ("DPO", {"loss_type": "exo_pair", "label_smoothing": 0.0}, "contradictory-settings"),
    ("DPO", {"f_divergence_type": "js_divergence", "loss_type": "aot"}, "contradictory-settings"),
    ("DPO", {"loss_weights": [1.0], "loss_type": ["sigmoid", "sft"]}, "contradictory-settings"),
    ("DPO", {"use_weighting": True, "loss_type": "aot"}, "contradictory-settings"),
    ("DPO", {"padding_free": True}, "contradictory-settings"),
    ("DPO", {"beta": 0.0}, "contradictory-settings"),
    ("DPO", {"learning_rate": 2e-3}, "high-learning-rate"),
    ("KTO", {"desireable_weight": 1.3, "desirable_weight": WITHOUT}, "unknown-argument"),
    ("KTO", {"per_device_train_batch_size": 1}, "contradictory-settings"),
    ("KTO", {"loss_type": "ktoo"}, "unknown-choice"),
    ("ORPO", {"beta_": 1}, "unknown-argument"),
    ("ORPO", {"truncation_mode": "start"}, "unknown-choice"),
    ("GRPO", {"num_generation": 8, "num_generations": WITHOUT}, "unknown-argument"),
    ("GRPO", {"max_prompt_length": 512}, "removed-argument"),
    ("GRPO", {"epsilon_hi": 0.28}, "unknown-argument"),
    ("GRPO", {"num_generations": 1}, "contradictory-settings"),
    ("GRPO", {"num_generations": 7}, "uneven-generations"),
    ("GRPO", {"generation_batch_size": 16, "steps_per_generation": 2}, "contradictory-settings"),
    ("GRPO", {"loss_type": "dr-grpo"}, "unknown-choice"),
    ("GRPO", {"scale_rewards": "groups"}, "unknown-choice"),
    ("GRPO", {"importance_sampling_level": "sentence"}, "unknown-choice"),
    ("GRPO", {"vllm_mode": "collocate", "use_vllm": True}, "unknown-choice"),
    ("GRPO", {"vllm_mode": "colocate", "use_vllm": False}, "contradictory-settings"),
    ("GRPO", {"temperature": 0.0}, "contradictory-settings"),
    ("GRPO", {"auto_find_batch_size": True}, "contradictory-settings"),
    ("GRPO", {"log_completions_hub_repo": "me/x", "log_completions": False}, "contradictory-settings"),
    ("GRPO", {"learning_rate": 1e-3}, "high-learning-rate"),
    (
        "GRPO",
        {"reward_weights": [1.0], "reward_funcs": ["accuracy_reward", "think_format_reward"]},
        "contradictory-settings",
    ),
    ("RLOO", {"num_generations": 1}, "contradictory-settings"),
    ("RLOO", {"num_generations": 7}, "uneven-generations"),
    ("RLOO", {"rloo_k": 4}, "removed-argument"),
    ("RLOO", {"kl_coef": 0.05}, "removed-argument"),
    ("Reward", {"max_lenght": 512, "max_length": WITHOUT}, "unknown-argument"),
    ("Reward", {"learning_rate": 0.05}, "high-learning-rate"),
]
NAMES = [f"{trainer}-{next(iter(settings))}-{number}" for number, (trainer, settings, _) in enumerate(MISTAKES)]
NO_COMMAND = ("ORPO",)
"""Trainers that have no command of their own."""


def in_python(trainer: str, given: dict[str, object]) -> list[str]:
    data, own = TRAINERS[trainer]
    settings = {name: value for name, value in {**COMMON, **own, **given}.items() if value != WITHOUT}
    rewards = settings.pop("reward_funcs", ["one"])
    assert isinstance(rewards, list)
    home = "trl.experimental.orpo" if trainer == "ORPO" else "trl"
    functions = f", reward_funcs=[{', '.join(['reward'] * len(rewards))}]" if trainer in REWARDED else ""
    evaluated = ", eval_dataset=dataset" if "eval_strategy" in given else ""
    return [
        "from datasets import load_dataset",
        f"from {home} import {trainer}Config, {trainer}Trainer",
        f'dataset = load_dataset("{data}", split="train")',
        *(
            ["def reward(completions, **kwargs):", "    return [float(len(each)) for each in completions]"]
            * bool(functions)
        ),
        f"args = {trainer}Config(",
        *(f"    {name}={value!r}," for name, value in settings.items()),
        ")",
        f'trainer = {trainer}Trainer("Qwen/Qwen3-0.6B", args=args, train_dataset=dataset{evaluated}{functions})',
        "trainer.train()",
    ]


def in_yaml(trainer: str, given: dict[str, object]) -> list[str]:
    data, own = TRAINERS[trainer]
    start = {"model_name_or_path": "Qwen/Qwen3-0.6B", "dataset_name": data, **COMMON, **own}
    rewards = {"reward_funcs": ["accuracy_reward"]} if trainer in REWARDED else {}
    settings = {**start, **rewards, **given}
    return [f"{name}: {json.dumps(value)}" for name, value in settings.items() if value != WITHOUT]


def found(
    lines: list[str], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[tuple[str, str]]:
    """The rule and the line of each finding."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("\n".join(lines) + "\n")
    run(["check", "--no-cache", "--output-format", "json", name])
    reported = json.loads(capsys.readouterr().out)["findings"]
    return [(each["rule"], lines[each["location"]["line"] - 1].strip()) for each in reported]


@pytest.mark.parametrize("name", ["train.py", "train.yaml"])
@pytest.mark.parametrize("mistake", MISTAKES, ids=NAMES)
def test_a_mistake_is_found_at_its_line(
    mistake: Mistake,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trainer, settings, rule = mistake
    if name == "train.yaml" and trainer in NO_COMMAND:
        pytest.skip(f"{trainer} has no command")
    write = in_yaml if name == "train.yaml" else in_python
    places = [
        line for each, line in found(write(trainer, settings), name, tmp_path, monkeypatch, capsys) if each == rule
    ]
    assert places
    assert all(line.startswith(tuple(settings)) for line in places)


def test_settings_of_a_switch_that_is_an_option_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = in_python("GRPO", {"vllm_mode": "colocate", "use_vllm": False})
    option = [
        "import argparse",
        "parser = argparse.ArgumentParser()",
        'parser.add_argument("--vllm", action="store_true")',
        "options = parser.parse_args()",
    ]
    changed = [*option, *(line.replace("use_vllm=False", "use_vllm=options.vllm") for line in lines)]
    assert found(changed, "train.py", tmp_path, monkeypatch, capsys) == []


OF_OTHER_TRAINERS: dict[str, dict[str, object]] = {
    "GOLD": {"lmbda": 0.5, "seq_kd": False, "use_uld_loss": False, "loss_type": "nll", "num_generations": 1},
    "CPO": {"cpo_alpha": 1.0, "simpo_gamma": 0.5, "beta": 0.1, "loss_type": "simpo"},
}


@pytest.mark.parametrize("trainer", OF_OTHER_TRAINERS)
def test_a_file_for_a_trainer_without_a_command_is_not_judged_as_another_one(
    trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = in_yaml("SFT", OF_OTHER_TRAINERS[trainer] | {"packing": WITHOUT})
    assert found(lines, "train.yaml", tmp_path, monkeypatch, capsys) == []


@pytest.mark.parametrize("processes", [True, False])
def test_groups_may_be_divided_by_the_processes_that_vllm_leaves(
    *, processes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, object] = {"num_generations": 14, "per_device_train_batch_size": 16, "use_vllm": processes}
    rules = [rule for rule, _ in found(in_yaml("GRPO", settings), "train.yaml", tmp_path, monkeypatch, capsys)]
    assert rules == ([] if processes else ["uneven-generations"])


@pytest.mark.parametrize("name", ["train.py", "train.yaml"])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_correct_settings_have_no_findings(
    trainer: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = in_yaml if name == "train.yaml" else in_python
    assert found(write(trainer, {}), name, tmp_path, monkeypatch, capsys) == []
