"""Details of single rules that no example of a page holds; each was found by a mutant of the rule."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.accuracy.checking import request_of
from lintrain.check.check_run import CheckRun
from tests.support.notebooks import notebook


def said(folder: Path, rule: str) -> list[tuple[str, int]]:
    outcome = CheckRun(request_of(folder, [rule])).check()
    assert not outcome.crashes
    return [(Path(one.finding.location.path).name, one.finding.location.line) for one in outcome.reported]


MAPPED = (
    "from datasets import load_dataset\nfrom transformers import AutoTokenizer",
    'tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")\nraw = load_dataset("glue", "sst2")',
    'def tokenize(rows):\n    return tokenizer(rows["sentence"], truncation=True)',
)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (["raw.map(tokenize, batched=True)"], []),
        (["raw.map(tokenize, batched=True)\nprint(raw)"], [("train.ipynb", 11)]),
    ],
    ids=["displayed", "thrown away"],
)
def test_a_data_set_that_a_cell_displays_is_not_discarded(
    tmp_path: Path, last: Sequence[str], found: Sequence[tuple[str, int]]
) -> None:
    (tmp_path / "train.ipynb").write_text(notebook(*MAPPED, *last))
    assert said(tmp_path, "discarded-map") == found


LOSS = """from transformers import Trainer


class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        weights = inputs.pop("idx")
        return (model(**inputs).loss * weights).mean()
"""
USE = """from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, TrainingArguments
from parts import Weighted

tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
rows = load_dataset("glue", "sst2").map(lambda rows: tokenizer(rows["sentence"], truncation=True), batched=True)
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
trainer = Weighted(
    model=model, args=TrainingArguments("out"), train_dataset=rows["train"], processing_class=tokenizer
)
trainer.train()
"""


def test_the_loss_that_reads_a_removed_column_may_stand_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text(LOSS)
    (tmp_path / "train.py").write_text(USE)
    assert said(tmp_path, "removed-columns-needed") == [("train.py", 8)]


HELPERS = (
    "\n" * 40
    + """
def follow(values):
    return [reseed_value(value) for value in values]
"""
)
FAR = """# größer
import torch
from accelerate import Accelerator
from helpers import follow

net = torch.nn.Linear(8, 3)
torch.manual_seed(0)
optimizer = torch.optim.Adam(net.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
accelerator = Accelerator()
net, optimizer, scheduler = accelerator.prepare(net, optimizer, scheduler)
for x, y in follow(batches):
    optimizer.zero_grad()
    accelerator.backward(torch.nn.functional.cross_entropy(net(x), y))
    optimizer.step()
"""


@pytest.mark.parametrize(("rule", "line"), [("late-seed", 7), ("unstepped-scheduler", 9)])
def test_a_call_in_a_longer_module_has_its_place_there(tmp_path: Path, rule: str, line: int) -> None:
    (tmp_path / "helpers.py").write_text(HELPERS)
    (tmp_path / "train.py").write_text(FAR, encoding="utf-8")
    assert said(tmp_path, rule) == [("train.py", line)]


ROWS = """from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")


def pad(rows):
    return tokenizer(rows["text"], truncation=True, padding="max_length", max_length=16)


def load():
    return load_dataset("imdb", split="train").map(pad, batched=True)
"""
LOADER = "DataLoader(load(), batch_size=16)"
LOOP = f"""import torch
from rows import load
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification

model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
loader = {LOADER}
for batch in loader:
    optimizer.zero_grad()
    model(**batch).loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("rows", "loop", "found"),
    [
        (ROWS, LOOP, [("train.py", 8)]),
        (ROWS.replace("batched=True)", 'batched=True).with_format("torch")'), LOOP, []),
        (ROWS.replace("batched=True)", "batched=True).with_transform(pad)"), LOOP, []),
        # other code of that file may make tensors, and is not looked through
        (f"{ROWS}\n\nloader = {LOADER}\n", LOOP.replace("import load", "import loader").replace(LOADER, "loader"), []),
    ],
    ids=["lists", "a format", "a transform", "a loader"],
)
def test_lists_of_a_loader_are_told_where_the_file_of_the_rows_gives_no_tensors(
    tmp_path: Path, rows: str, loop: str, found: Sequence[tuple[str, int]]
) -> None:
    (tmp_path / "rows.py").write_text(rows)
    (tmp_path / "train.py").write_text(loop)
    assert said(tmp_path, "unformatted-dataset") == found


SINGLE_ROWS = """import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from networks import shared

network = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
optimizer = torch.optim.Adam(network.parameters())
for x, y in DataLoader(TensorDataset(torch.randn(97, 8), torch.randint(3, (97,))), batch_size=16):
    nn.functional.cross_entropy(network(x), y).backward()
    optimizer.step()
print(shared)
"""


@pytest.mark.parametrize(("name", "found"), [("BatchNorm1d", [("train.py", 8)]), ("SyncBatchNorm", [])])
def test_another_file_may_share_the_statistics_of_a_batch(
    tmp_path: Path, name: str, found: Sequence[tuple[str, int]]
) -> None:
    (tmp_path / "networks.py").write_text(f"from torch import nn\n\nshared = nn.{name}(16)\n")
    (tmp_path / "train.py").write_text(SINGLE_ROWS)
    assert said(tmp_path, "single-row-batch-norm") == found


EMBEDDED = """from datasets import load_dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, DataCollatorForLanguageModeling, Trainer
from a_rate import optimizer_of

words = AutoTokenizer.from_pretrained("gpt2")
gpt = AutoModelForCausalLM.from_pretrained("gpt2")
optimizer = optimizer_of(gpt)
words.pad_token = words.eos_token
rows = load_dataset("imdb").map(lambda row: words(row["text"] + words.eos_token))
collator = DataCollatorForLanguageModeling(words, mlm=False)
Trainer(gpt, train_dataset=rows["train"], data_collator=collator, optimizers=(optimizer, None)).train()
"""


@pytest.mark.parametrize("name", ["a_rate", "z_rate"])
def test_no_row_is_added_behind_an_optimizer_that_another_file_makes(tmp_path: Path, name: str) -> None:
    making = "import torch\n\n\ndef optimizer_of(model):\n    return torch.optim.SGD(model.parameters(), lr=0.1)\n"
    (tmp_path / f"{name}.py").write_text(making)
    (tmp_path / "train.py").write_text(EMBEDDED.replace("a_rate", name))
    (one,) = CheckRun(request_of(tmp_path, ["pad-token-is-eos"])).check().reported
    assert (one.finding.location.line, one.fix) == (8, None)


SPARE = """from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer

tokenizer = AutoTokenizer.from_pretrained("./wide")
rows = load_dataset("imdb", split="train").map(lambda rows: tokenizer(rows["text"], truncation=True), batched=True)
model = AutoModelForSequenceClassification.from_pretrained("./narrow")
Trainer(model, train_dataset=rows, processing_class=tokenizer).train()
"""


@pytest.mark.parametrize(("kind", "found"), [("qwen2", []), ("bert", [("train.py", 7)])])
def test_models_of_one_kind_may_have_spare_rows(tmp_path: Path, kind: str, found: Sequence[tuple[str, int]]) -> None:
    for name, size in (("wide", 152064), ("narrow", 151936)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(f'{{"model_type": "{kind}", "vocab_size": {size}}}')
    (tmp_path / "train.py").write_text(SPARE)
    assert said(tmp_path, "tokenizer-model-mismatch") == found
