"""Objects of a script that raise an error whenever they are asked for something: a probe measures the run all the same.

Many classes hand unknown names on to a dictionary, so that `hasattr` raises KeyError, and compare or show their values.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.runtime.child.library import attribute, has
from tests.support.probing import probe

pytestmark = pytest.mark.usefixtures("warm")

TOUCHY = """import torch
from torch import nn
from torch.utils.data import DataLoader
torch.manual_seed(0)
class Touchy:
    def __getattr__(self, name):
        raise (AttributeError if name.startswith("__") else KeyError)(name)
    def __refuse(self, *args, **kwargs):
        raise ValueError(f"{type(self).__name__} was asked")
    __bool__ = __call__ = __contains__ = __dir__ = __eq__ = __float__ = __format__ = __getitem__ = __int__ = __refuse
    __iter__ = __len__ = __lt__ = __repr__ = __str__ = __array__ = __copy__ = __deepcopy__ = __reduce_ex__ = __refuse
    __hash__ = object.__hash__
"""
LOOP = """class Rows(Touchy):
    def __init__(self):
        self.__dict__["x"], self.__dict__["y"] = torch.randn(64, 8), torch.randint(3, (64,))
    def __len__(self):
        return 64
    def __getitem__(self, row):
        return self.__dict__["x"][row], self.__dict__["y"][row]
class Batch(Touchy):
    def __init__(self, rows):
        self.x = torch.stack([x for x, _ in rows])
        self.y = torch.stack([y for _, y in rows])
class Collate(Touchy):
    def __call__(self, rows):
        return Batch(rows)
class Output(Touchy):
    def __init__(self, scores):
        self.scores = scores
class Settings(Touchy):
    pass
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
        self.settings = Settings()
        self.extra = [Settings(), Settings()]
        self.config = Settings()
    def forward(self, batch):
        return Output(self.layers(batch.x))
class Schedule(Touchy):
    def __init__(self, optimizer):
        self.optimizer = optimizer
    def step(self):
        pass
class Sampler(Touchy):
    def __iter__(self):
        return iter(torch.randperm(64).tolist())
    def __len__(self):
        return 64
loader = DataLoader(Rows(), batch_size=16, sampler=Sampler(), collate_fn=Collate())
held_out = DataLoader(Rows(), batch_size=16, collate_fn=Collate())
net = Net()
optimizer = torch.optim.Adam(net.parameters())
schedule = Schedule(optimizer)
state = {"settings": Settings(), "best": Settings()}
for epoch in range(2):
    net.train()
    for batch in loader:
        optimizer.zero_grad()
        output = net(batch)
        loss = nn.functional.cross_entropy(output.scores, batch.y)
        loss.backward()
        optimizer.step()
        schedule.step()
    net.eval()
    hits = 0
    with torch.no_grad():
        for batch in held_out:
            hits += int((net(batch).scores.argmax(1) == batch.y).sum())
    print(hits)
"""
TRAINER = """from transformers import BertConfig, BertForSequenceClassification
from transformers import Trainer, TrainerCallback, TrainingArguments
class Word(Touchy):
    pass
class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.rows = [{"input_ids": torch.randint(1, 50, (10,)), "labels": row % 3} for row in range(48)]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, row):
        return {**self.rows[row], "word": Word()}
class Collate(Touchy):
    def __call__(self, rows):
        ids = torch.stack([row["input_ids"] for row in rows])
        return {"input_ids": ids, "labels": torch.tensor([row["labels"] for row in rows])}
class Score(Touchy):
    def __call__(self, prediction):
        return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}
class Follow(TrainerCallback):
    def __getattr__(self, name):
        raise (AttributeError if name.startswith("__") else KeyError)(name)
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_labels=3)
model = BertForSequenceClassification(config)
model.kept = Word()
args = TrainingArguments(
    "out", max_steps=4, report_to="none", use_cpu=True, eval_strategy="steps", eval_steps=2, remove_unused_columns=False
)
given = {"data_collator": Collate(), "compute_metrics": Score(), "callbacks": [Follow()]}
Trainer(model, args, train_dataset=Rows(), eval_dataset=Rows(), **given).train()
"""


class Refusing:
    def __getattr__(self, name: str) -> object:
        raise KeyError(name)


def test_an_object_that_refuses_a_name_does_not_have_it() -> None:
    assert not has(Refusing(), "shape")
    assert attribute(Refusing(), "shape", 3) == 3
    assert has([], "append")


@pytest.mark.parametrize("script", [LOOP, TRAINER], ids=["loop", "Trainer"])
def test_objects_that_raise_at_every_question_disturb_no_measurement(tmp_path: Path, script: str) -> None:
    probed = probe(tmp_path, TOUCHY + script)
    assert {name: status for name, status in probed.stages.items() if status != "passed"} == {}
    assert (probed.code, probed.verdicts) == (0, [])
    assert "lintrain's own" not in probed.out
    assert probed.run["batches"]
    assert probed.run["step"]["changed_tensors"]
