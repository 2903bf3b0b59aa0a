"""What looks like a mistake in a sound run, and must not be called one; and what hides a mistake that must be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset, DatasetDict
from peft import LoraConfig, get_peft_model
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from torch.utils.data import DataLoader, TensorDataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    Trainer,
    TrainingArguments,
    set_seed,
)

import lintrain
from lintrain.evidence.run import Evidence

pytestmark = pytest.mark.slow
SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def evidence_of(report: lintrain.Report) -> Evidence:
    assert report.evidence is not None
    return report.evidence


def arguments(folder: Path, **settings: Any) -> TrainingArguments:
    plain = {"report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no", "max_steps": 40}
    return TrainingArguments(str(folder / "out"), per_device_train_batch_size=4, **{**plain, **settings})


def texts(rows: int, *, first: int = 0, labels: Any = None) -> Dataset:
    """Rows of twelve tokens each, all different."""
    draw = torch.Generator().manual_seed(first)
    ids = torch.randint(3, 60, (rows, 12), generator=draw).tolist()
    kept = {"input_ids": ids, "attention_mask": [[1] * 12] * rows}
    return Dataset.from_dict({**kept, "labels": ids if labels is None else labels})


def language_model() -> Any:
    sizes: dict[str, Any] = {"vocab_size": 64, "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated")
def test_adapters_that_start_at_zero_warm_up_and_a_language_models_two_labels_are_no_mistakes(tmp_path: Path) -> None:
    set_seed(0)
    adapter = LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"], fan_in_fan_out=True)
    model = get_peft_model(language_model(), adapter)
    trainer = Trainer(model, arguments(tmp_path, warmup_steps=10, learning_rate=1e-3), train_dataset=texts(16))
    report = lintrain.probe(trainer)
    evidence = evidence_of(report)
    assert (report.findings, report.reason) == ((), "1 step ran, nothing confirmed")
    assert evidence.backward is not None
    assert evidence.step is not None
    assert model.config.num_labels == 2
    zero = [weight for name, weight in model.named_parameters() if "lora_B" in name]
    assert [bool(weight.any()) for weight in zero] == [False]
    assert min(norm for layer in evidence.backward.layers for norm in layer.norms) > 0
    [group] = {(each.first_learning_rate, each.learning_rate) for each in evidence.step.groups}
    assert group == (0.0, 1e-3)
    assert evidence.step.unchanged == ()


class Headed(nn.Module):
    """A head of one's own over the tokens of an encoder, whose pooler nothing asks."""

    def __init__(self) -> None:
        super().__init__()
        config: Any = BertConfig(**SMALL)
        self.encoder = BertModel(config)
        self.head = nn.Linear(16, 3)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden: Any = self.encoder(input_ids).last_hidden_state
        return torch.as_tensor(self.head(hidden.mean(1)))


def test_a_pooler_that_nothing_asks_has_no_gradient_and_is_no_mistake() -> None:
    torch.manual_seed(0)
    model = Headed()
    rows = TensorDataset(torch.randint(3, 60, (16, 12)), torch.randint(3, (16,)))
    loader: Any = DataLoader(rows, batch_size=4, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    report = lintrain.probe(model=model, loader=loader, optimizer=optimizer, loss=F.cross_entropy)
    evidence = evidence_of(report)
    assert report.findings == ()
    assert evidence.backward is not None
    without = [name for layer in evidence.backward.layers for name in layer.without_gradient]
    assert [name for name in without if "pooler" in name]


def test_a_batch_without_a_target_has_the_loss_of_the_model_not_the_zero_of_the_trainer(tmp_path: Path) -> None:
    set_seed(0)
    ignored = texts(16, labels=[[-100] * 12] * 16)
    report = lintrain.probe(Trainer(language_model(), arguments(tmp_path), train_dataset=ignored))
    evidence = evidence_of(report)
    assert evidence.forward is not None
    assert not evidence.forward.finite
    assert "fully-masked-labels" in [finding.rule for finding in report.findings]


def test_of_a_dictionary_of_splits_each_is_looked_at_and_none_is_held_against_it(tmp_path: Path) -> None:
    set_seed(0)
    config = BertConfig(**{**SMALL, "num_labels": 3})
    labels = [row % 3 for row in range(24)]
    splits = DatasetDict(train=texts(24, labels=labels), test=texts(24, first=1, labels=labels))
    settings = arguments(tmp_path, eval_strategy="steps", eval_steps=20)
    model = BertForSequenceClassification(config)
    trainer = Trainer(model, settings, train_dataset=splits["train"], eval_dataset=splits)
    report = lintrain.probe(trainer)
    evidence = evidence_of(report)
    assert [(split.argument, split.key) for split in evidence.splits] == [
        ("train_dataset", None),
        ("eval_dataset", "train"),
        ("eval_dataset", "test"),
    ]
    assert (report.findings, evidence.shared_rows) == ((), None)
    assert evidence.not_reached("dataset") == "the dataset stage passed and does not show it"
