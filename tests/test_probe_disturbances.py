"""What a script does around its training call: nothing of it disturbs a probe, and nothing of a probe stays behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.probing import HEAD, MENDED, REST, path_for_lintrain, probe


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, assets: Path, warm_command: None) -> None:
    path_for_lintrain(monkeypatch)


def files_of(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


CLINGING = (
    HEAD
    + """
import atexit
from datasets import load_from_disk

atexit.register(lambda: open("at_exit.txt", "w").close())
raw["train"].save_to_disk("saved_data")
tokenizer.save_pretrained("saved_tokenizer")
tokenizer = AutoTokenizer.from_pretrained("saved_tokenizer")
raw = {"train": load_from_disk("local_data"), "validation_matched": load_from_disk("local_rows")}
"""
    + REST.replace(
        next(line for line in REST.splitlines(keepends=True) if line.startswith("tokenized")),
        """def encode(rows):
    return tokenizer(rows["premise"], rows["hypothesis"], truncation=True)


tokenized = {name: split.map(encode, batched=True) for name, split in raw.items()}
""",
    ).replace('TrainingArguments("out"', 'TrainingArguments("out", report_to="tensorboard", push_to_hub=True')
    + """
try:
    trainer.train()
except:
    print("swallowed")
finally:
    trainer.save_model("final")
    open("finally.txt", "w").close()
"""
)


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
@pytest.mark.slow
def test_a_probe_leaves_the_users_folder_as_it_was(tmp_path: Path) -> None:
    from datasets import load_dataset

    saved = load_dataset("glue", "mnli")
    saved["train"].save_to_disk(str(tmp_path / "local_data"))
    saved["validation_matched"].save_to_disk(str(tmp_path / "local_rows"))
    (tmp_path / "module.py").write_text("VALUE = 1\n")
    (tmp_path / "train.py").write_text("import module\n" + CLINGING)
    before = files_of(tmp_path)
    probed = probe(tmp_path, "import module\n" + CLINGING)
    assert probed.code == 0, probed.out + probed.err
    assert files_of(tmp_path) == before
    for said in ("nothing is reported to tensorboard", "`push_to_hub` was requested", "written by the script went"):
        assert any(said in note for note in probed.run["notes"]), said


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
def test_the_scripts_own_except_and_exit_hooks_never_run(tmp_path: Path) -> None:
    wrapped = MENDED.replace(
        "trainer.train()", "try:\n    trainer.train()\nexcept BaseException:\n    print('swallowed')"
    )
    probed = probe(tmp_path, wrapped + "import os\nos._exit(9)\n")
    assert probed.code == 0
    assert probed.document["probe"]["ending"]["kind"] == "measured"
    assert "swallowed" not in probed.document["probe"]["ending"]["output"]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
@pytest.mark.slow
def test_a_loop_of_ones_own_ends_after_a_few_steps(tmp_path: Path) -> None:
    loop = """
import torch
net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10_000_000):
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
torch.save(net.state_dict(), "weights.pt")
"""
    probed = probe(tmp_path, loop)
    assert probed.document["probe"]["ending"]["kind"] == "measured"
    assert probed.run["call"]["line"] == 6
    assert files_of(tmp_path) == {"train.py"}


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
@pytest.mark.slow
def test_threads_and_processes_of_the_script_do_not_keep_it_alive(tmp_path: Path) -> None:
    busy = """
import multiprocessing, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
multiprocessing.get_context("fork").Process(target=time.sleep, args=(600,)).start()
"""
    assert probe(tmp_path, MENDED.replace("trainer.train()", busy + "trainer.train()")).code == 0


@pytest.mark.turns(one_in=3)
@pytest.mark.slow
@pytest.mark.usefixtures("warm")  # the second process starts cold, as always
@pytest.mark.parametrize(
    "starts",
    [
        "subprocess.run([sys.executable, 'inner.py'], close_fds=False)",  # by posix_spawn
        "subprocess.run(f'{sys.executable} -c pass; {sys.executable} inner.py', shell=True)",
        "os.system(f'{sys.executable} inner.py')",
    ],
)
def test_a_script_that_starts_its_training_in_a_second_process_is_measured_there(tmp_path: Path, starts: str) -> None:
    (tmp_path / "inner.py").write_text(MENDED)
    probed = probe(tmp_path, f"import os, subprocess, sys\n{starts}\nprint('after')\n")
    assert probed.code == 0, probed.document["reason"]
    assert probed.run["call"]["path"] == "inner.py"


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
def test_the_script_sees_itself_as_started_by_hand(tmp_path: Path) -> None:
    asserting = """
import os, sys
assert __name__ == "__main__" and sys.argv == ["train.py", "--rate", "1"], sys.argv
assert os.path.basename(__file__) == "train.py" and os.getcwd() == os.path.dirname(os.path.abspath(__file__))
assert sys.path[0] == os.getcwd() and not any("lintrain" in entry for entry in sys.path[:1])
"""
    probed = probe(tmp_path, asserting + MENDED, arguments=("--rate", "1"))
    assert probed.code == 0, probed.out


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
@pytest.mark.slow
def test_an_error_while_the_trainer_is_built_is_told_although_the_script_swallows_it(tmp_path: Path) -> None:
    broken = MENDED.replace('"out", learning_rate=2e-5', '"out", no_such_argument=1')
    lines = "".join(f"    {line}\n" for line in broken.splitlines())
    probed = probe(tmp_path, f"try:\n{lines}except Exception:\n    pass\n", "--select", "loop")
    assert probed.code == 1
    assert probed.stages["construction"] == "failed"
    failure = probed.run["stages"][1]["failure"]
    assert "unexpected keyword argument 'no_such_argument'" in failure["message"]
    assert failure["code"] == 'args = TrainingArguments("out", no_such_argument=1, eval_strategy="epoch")'


@pytest.mark.slow
def test_a_sitecustomize_of_the_environment_still_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import os\nos.environ['SEEN'] = 'yes'\n")
    monkeypatch.setenv("PYTHONPATH", f"{own}:{ROOT}")
    probed = probe(tmp_path, "import os\nraise SystemExit(40 if os.environ.get('SEEN') == 'yes' else 41)\n")
    assert "exit status 40" in probed.document["reason"]


DRAWING = """
import gc
import random
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

for seed in (random.seed, np.random.seed, torch.manual_seed):
    seed(0)


class Drawn(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.tensor([random.random(), np.random.rand(), torch.rand(1).item()])


net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in DataLoader(Drawn(), batch_size=4, shuffle=True):
    optimizer.zero_grad()
    net(batch).mean().backward()
    optimizer.step()
    print(batch.sum().item(), random.random(), np.random.rand(), torch.rand(1).item(), gc.get_threshold())
"""


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
def test_a_loop_draws_the_same_random_numbers_and_collects_garbage_as_without_a_probe(tmp_path: Path) -> None:
    probed = probe(tmp_path, DRAWING + "raise SystemExit(5)\n")
    alone = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert probed.document["probe"]["ending"]["output"].splitlines()[:4] == alone.stdout.splitlines()[:4]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
def test_a_process_that_hides_from_the_probe_ends_with_it(tmp_path: Path) -> None:
    hiding = (
        "import subprocess\nprint(subprocess.Popen(['sleep', '600'], env={}, start_new_session=True).pid, flush=True)\n"
    )
    probed = probe(tmp_path, hiding + DRAWING)
    pid = int(probed.document["probe"]["ending"]["output"].splitlines()[0])
    assert not Path("/proc", str(pid)).exists()


@pytest.mark.usefixtures("warm")
@pytest.mark.slow
def test_what_a_writer_past_the_guard_is_refused_is_not_called_a_mistake(tmp_path: Path) -> None:
    past = DRAWING.replace("    print(", "    import _io; _io.FileIO('log.bin', 'w')\n    print(", 1)
    probed = probe(tmp_path, past)
    assert files_of(tmp_path) == {"train.py"}
    if probed.code == 0:
        pytest.skip("this kernel holds no process to its folders")
    assert probed.code == 3
    assert "`log.bin` past the guard of its files" in probed.document["reason"]


ODD = """
import torch
from torch import nn


class Odd:
    def __len__(self):
        raise TypeError("no length")

    def __bool__(self):
        raise RuntimeError("no truth")

    def __eq__(self, other):
        raise RuntimeError("not to be compared")

    __ne__ = __eq__
    __hash__ = object.__hash__

    def __repr__(self):
        raise RuntimeError("no text")

    __str__ = __repr__

    def __iter__(self):
        raise RuntimeError("no parts")

    def __contains__(self, one):
        raise RuntimeError("holds nothing")


class Rows(Odd, torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, row):
        generator = torch.Generator().manual_seed(row)
        return {"input_ids": torch.randint(1, 50, (8,), generator=generator), "labels": row % 3}


class Keyed(Odd):
    def __getattr__(self, name):
        return {"size": 3}[name]


class Loss(Keyed):
    def __call__(self, outputs, labels, **others):
        return nn.functional.cross_entropy(outputs["logits"], labels)


def model(*bases):
    from transformers import BertConfig, BertForSequenceClassification

    class Core(*bases, BertForSequenceClassification):
        pass

    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return Core(BertConfig(vocab_size=50, num_labels=3, **sizes))
"""
ODD_TRAININGS = {
    "trainer": """
from transformers import Trainer, TrainingArguments


class Collate(Keyed):
    def __call__(self, rows):
        return torch.utils.data.default_collate(rows)


class Metric(Keyed):
    def __call__(self, given):
        return {"right": float((given.predictions.argmax(-1) == given.label_ids).mean())}


given = TrainingArguments("out", num_train_epochs=1, report_to=[], use_cpu=True, label_names=["labels"])
own = {"data_collator": Collate(), "compute_metrics": Metric(), "compute_loss_func": Loss()}
# accelerate compares the model with what it has prepared.
Trainer(model(), given, train_dataset=Rows(), eval_dataset=Rows(), **own).train()
""",
    "lightning": """
import lightning.pytorch as pl


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model, self.loss = model(Odd), Loss()

    def training_step(self, batch, number):
        return self.loss(self.model(input_ids=batch["input_ids"]), batch["labels"])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


loader = torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True)
pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False).fit(Net(), loader)
""",
    "loop": """
net, loss = torch.compile(model(Odd), backend="eager"), Loss()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for batch in torch.utils.data.DataLoader(Rows(), batch_size=8, shuffle=True):
    optimizer.zero_grad()
    loss(net(input_ids=batch["input_ids"]), batch["labels"]).backward()
    optimizer.step()
""",
}


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("training", ODD_TRAININGS)
def test_objects_that_have_no_truth_length_equality_or_text_are_measured(training: str, tmp_path: Path) -> None:
    probed = probe(tmp_path, ODD + ODD_TRAININGS[training])
    ending = probed.document["probe"]["ending"]
    assert ending["kind"] == "measured", ending
    measured = {"dataset", "batch", "forward", "backward", "step"}
    assert {name: probed.stages[name] for name in measured} == dict.fromkeys(measured, "passed")


GRAPHS = """
import weakref
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.randn(96, 4), torch.arange(96) % 2), batch_size=8)
body, head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), nn.Linear(8, 2)
graphs = []


def loss_of(x, y):
    alive = [number for number, nodes in enumerate(graphs[:-1]) if any(node() is not None for node in nodes)]
    assert not alive, f"graphs of batches {alive} are alive"
    features = body(x)
    logits = head(features)
    loss = nn.functional.cross_entropy(logits, y)
    graphs.append([weakref.ref(each) for each in (features, logits, loss)])
    return loss
"""
GRAPH_TRAININGS = {
    "loop": """
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss_of(x, y).backward()
        optimizer.step()
""",
    "lightning": """
import lightning.pytorch as pl


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.body, self.head = body, head

    def training_step(self, batch, number):
        return loss_of(*batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False).fit(Net(), loader)
""",
}


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("training", GRAPH_TRAININGS)
def test_no_graph_of_an_earlier_batch_is_kept_alive(training: str, tmp_path: Path) -> None:
    probed = probe(tmp_path, GRAPHS + GRAPH_TRAININGS[training])
    assert probed.stages["step"] == "passed", probed.out
