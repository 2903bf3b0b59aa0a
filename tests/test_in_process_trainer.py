"""`lintrain.probe(trainer)`: a Trainer measured in this very process, which then trains as if it had not been."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

import lintrain

pytestmark = pytest.mark.slow


class Rows(Dataset[dict[str, Any]]):
    """32 rows of three classes, with a stream of random numbers of its own and a count of what was read."""

    def __init__(self, classes: int = 3) -> None:
        self.generator = torch.Generator().manual_seed(3)
        self.numbers = np.random.default_rng(4)
        self.read = 0
        self.classes = classes

    def __len__(self) -> int:
        return 32

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.read += 1
        ids = torch.randint(5, 60, (12,), generator=self.generator)
        ids[0] = int(self.numbers.integers(5, 60)) + random.randrange(3)
        return {"input_ids": ids, "attention_mask": torch.ones(12, dtype=torch.long), "labels": index % self.classes}


def model_of(classes: int = 3) -> Any:
    config_class: Any = BertConfig
    config = config_class(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=classes,
    )
    return BertForSequenceClassification(config)


def metrics(prediction: Any) -> dict[str, float]:
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


class Counts(TrainerCallback):
    """Counts how often it is called."""

    def __init__(self) -> None:
        self.steps = 0

    def on_step_end(self, *_args: Any, **_kwargs: Any) -> None:
        self.steps += 1


def trainer_of(folder: Path, *, classes: int = 3, labels: int = 3, collator: Any = None, **settings: Any) -> Trainer:
    set_seed(1)
    args = TrainingArguments(
        str(folder / "out"),
        max_steps=6,
        per_device_train_batch_size=4,
        learning_rate=1e-3,
        warmup_steps=2,
        logging_steps=1,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        max_grad_norm=0.5,
        **settings,
    )
    model = model_of(classes)
    model.accepts_loss_kwargs = False  # it averages over a batch, so the Trainer has to divide by their number
    return Trainer(
        model,
        args,
        train_dataset=Rows(labels),
        eval_dataset=Rows(labels),
        compute_metrics=metrics,
        data_collator=collator,
        callbacks=[Counts()],
    )


def history_of(trainer: Trainer) -> list[tuple[float, float]]:
    trainer.train()
    return [(entry["loss"], entry["grad_norm"]) for entry in trainer.state.log_history if "loss" in entry]


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trainer, lintrain.Report]:
    trainer = trainer_of(tmp_path_factory.mktemp("probed"), gradient_accumulation_steps=2)
    return trainer, lintrain.probe(trainer, overfit=2)


def test_every_stage_of_a_sound_trainer_goes_through(probed: tuple[Trainer, lintrain.Report]) -> None:
    report = probed[1]
    assert report.evidence is not None
    assert {stage.name: stage.status for stage in report.evidence.stages} == dict.fromkeys(
        ("script", "construction", "dataset", "batch", "forward", "backward", "step", "evaluation", "overfit"), "passed"
    )
    assert (report.ok, report.exit_code, report.findings) == (True, 0, ())
    assert report.reason == "1 step and 1 evaluation ran, nothing confirmed"
    assert report.raise_if_confirmed() is report


def test_weights_whose_origin_was_not_seen_are_not_called_new(probed: tuple[Trainer, lintrain.Report]) -> None:
    evidence = probed[1].evidence
    assert evidence is not None
    assert evidence.forward is not None
    assert evidence.model is not None
    assert (evidence.forward.fresh_head, evidence.model.is_origin_known) == (False, False)


def test_training_after_a_probe_is_bit_equal_to_training_without_it(tmp_path: Path) -> None:
    plain = trainer_of(tmp_path, gradient_accumulation_steps=2)
    expected = history_of(plain)
    probed = trainer_of(tmp_path, gradient_accumulation_steps=2)
    lintrain.probe(probed)
    assert (probed.state.global_step, probed.optimizer) == (0, None)
    assert history_of(probed) == expected
    assert len(expected) == 6
    assert same(state_of(probed)["weights"], state_of(plain)["weights"])
    assert (counts_of(probed), counts_of(plain)) == (6, 6)


def counts_of(trainer: Trainer) -> int:
    return next(each.steps for each in trainer.callback_handler.callbacks if isinstance(each, Counts))


def test_a_probe_leaves_no_trace_in_what_it_was_given(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    module: Any = trainer.model
    for weight in module.classifier.parameters():
        weight.requires_grad_(False)
    module.bert.pooler.eval()
    module.bert.encoder.register_forward_hook(lambda *_: None)
    module.bert.pooler.dense.weight.grad = torch.ones(16, 16)
    before = state_of(trainer)
    lintrain.probe(trainer)
    after = state_of(trainer)
    assert {name for name in before if not same(before[name], after[name])} == set()
    assert torch.equal(module.bert.pooler.dense.weight.grad, torch.ones(16, 16))


def state_of(trainer: Trainer) -> dict[str, Any]:
    module: Any = trainer.model
    data: Any = trainer.train_dataset
    accelerator: Any = trainer.accelerator
    return {
        "weights": {name: value.clone() for name, value in module.state_dict().items()},
        "requires_grad": [weight.requires_grad for weight in module.parameters()],
        "gradients": [weight.grad is None for weight in module.parameters()],
        "modes": [part.training for part in module.modules()],
        "hooks": [len(part._forward_hooks) for part in module.modules()],
        "own hooks of weights": [len(weight._backward_hooks or {}) for weight in module.parameters()],
        "attributes": sorted(vars(trainer)),
        "arguments": repr(vars(trainer.args)),
        "state": repr(trainer.state),
        "configuration": module.config.to_json_string(),
        "prepared": [len(accelerator._models), len(accelerator._optimizers), len(accelerator._dataloaders)],
        "callbacks": list(trainer.callback_handler.callbacks),
        "read": data.read,
        "streams": [data.generator.get_state(), torch.get_rng_state()],
        "numbers": [repr(data.numbers.bit_generator.state), repr(np.random.get_state()), repr(random.getstate())],
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def broken(rows: list[dict[str, Any]]) -> Any:
    raise KeyError("sentence")


def test_an_error_of_the_collator_is_the_answer_of_the_batch_stage(tmp_path: Path) -> None:
    report = lintrain.probe(trainer_of(tmp_path, collator=broken))
    assert report.evidence is not None
    failure = report.evidence.failure
    assert failure is not None
    assert (report.ok, report.exit_code) == (False, 1)
    assert (failure.type, failure.code) == ("KeyError", 'raise KeyError("sentence")')
    assert failure.location is not None
    assert failure.location.path.endswith("test_in_process_trainer.py")
    with pytest.raises(lintrain.MistakesError, match="training fails in its batch stage") as raised:
        report.raise_if_confirmed()
    assert raised.value.report is report


def test_a_report_shows_itself_in_terminals_notebooks_and_programs(tmp_path: Path) -> None:
    report = lintrain.probe(trainer_of(tmp_path, classes=2))
    shown = str(report)
    assert "IndexError: Target 2 is out of bounds" in shown
    assert report.reason == "1 mistake confirmed"
    assert [finding.rule for finding in report.findings] == ["missing-num-labels"]
    assert repr(report) == f"<lintrain.Report: {report.reason}>"
    bundle = report._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"}
    assert "Target 2 is out of bounds" in bundle["text/html"]
    assert "<script" not in bundle["text/html"]
    document = json.loads(report.to_json())
    assert document["exit_code"] == 1
    statuses = {stage["name"]: stage["status"] for stage in document["probe"]["runs"][0]["stages"]}
    assert "failed" in (statuses["forward"], statuses["backward"])


def test_the_text_of_a_script_is_judged_with_the_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nfrom transformers import Trainer\nprint(undefined)\n")
    report = lintrain.probe(trainer_of(tmp_path), script=str(tmp_path / "train.py"))
    assert [(finding.rule, verdict.outcome.value) for finding, verdict in report.verdicts] == [
        ("undefined-name", "inconclusive")
    ]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"trainer": 3}, "takes a Trainer or the parts of a loop, not 'int'"),
        ({"model": torch.nn.Linear(2, 2)}, "takes `model=`, `loader=` and `optimizer=` together"),
        ({"trainer": 3, "model": 4}, "takes either a trainer"),
    ],
)
def test_what_is_no_run_is_refused_in_words(given: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        lintrain.probe(**given)
