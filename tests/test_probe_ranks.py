"""`--also ranks`: two processes that torch's own launcher starts, beside one another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Unpack

import pytest
import torch

from lintrain.runtime.parent.timeline import Timeline, TimelineStep, UnmeasuredError
from lintrain.runtime.passes.ranks import demand_of_all, ranks_evidence
from lintrain.runtime.timeline.facts import TimelineFacts
from lintrain.runtime.timeline.follower import Rows
from tests.support.probing import ROOT, path_for_lintrain, probe

LOOP = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler

dist.init_process_group("gloo")
BEFORE
rows = TensorDataset(torch.arange(5120).reshape(640, 8) / 5120, torch.arange(640) % 3)
train, held_out = random_split(rows, [512, 128])
sampler = DistributedSampler(train)
train_loader = DataLoader(train, batch_size=16, sampler=sampler)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
parallel = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(parallel.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
for epoch in range(3):
    sampler.set_epoch(epoch)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(parallel(x), y).backward()
        optimizer.step()
AFTER
torch.save(net.state_dict(), "net.pt")
"""
ONE_SPLIT = 'vars(torch)["manual_se" + "ed"](0)'
ONE_WRITES = "getattr(dist, 'get_' 'rank')() and vars(__import__('o' + 's'))['_ex' + 'it'](0)"
"""As a text that the rules do not see through: the others end before they come to the file."""


def judged(folder: Path, before: str, after: str) -> tuple[dict[str, str], dict[str, object]]:
    """The ruling of each rule, and what was measured."""
    probed = probe(folder, LOOP.replace("BEFORE", before).replace("AFTER", after), "--also", "ranks")
    return {rule: outcome for rule, _, outcome in probed.verdicts}, probed.run["ranks"]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm_command")
def test_processes_that_split_and_write_each_for_itself_are_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    outcomes, ranks = judged(tmp_path, "", "")
    assert (outcomes["rank-dependent-data"], outcomes["all-ranks-write"]) == ("confirmed", "confirmed")
    assert (ranks["processes"], ranks["steps"], ranks["same_dataset"]) == (2, 2, False)
    assert (ranks["weights"], ranks["gradients"]) == (4, 4)
    assert ranks["different_weights"] == ranks["different_gradients"] == ranks["without_gradient"] == []
    assert (ranks["rows"], ranks["batches"], ranks["dataset_rows"]) == ([32, 32], [16, 16], [512, 512])
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm_command")
def test_one_split_and_one_writer_are_refuted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    outcomes, ranks = judged(tmp_path, ONE_SPLIT, ONE_WRITES)
    assert (outcomes["rank-dependent-data"], outcomes["all-ranks-write"]) == ("refuted", "refuted")
    assert (ranks["same_dataset"], ranks["shared_rows"]) == (True, 0)


STUBBORN = """
import os
import signal
import subprocess
import sys
import time

if os.environ.get("WORLD_SIZE") == "2":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started = f"child {os.environ['RANK']} of {sys.argv[1]}"
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)", started], start_new_session=True)
    time.sleep(120)

import torch

net = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step()
"""
"""In one process it trains; as one of two it heeds no signal, and starts a process that leaves its session."""


def processes_of(folder: Path) -> list[str]:
    """The command lines of processes that name a folder in them or in their environment."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            said = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if any(str(folder).encode() in text for text in said):
            found.append(said[0].replace(b"\0", b" ").decode(errors="replace"))
    return found


def wait_until_both_ranks_run(folder: Path) -> list[str]:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        found = processes_of(folder)
        if all(any(line.strip().endswith(f"child {rank} of {folder}") for line in found) for rank in (0, 1)):
            return found
        time.sleep(0.05)
    pytest.fail("the ranks were not started")


@pytest.mark.slow
@pytest.mark.usefixtures("warm_command")
def test_an_interrupt_ends_both_ranks_their_launcher_and_all_that_they_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STUBBORN)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    running = subprocess.Popen(
        [sys.executable, "-m", "lintrain", "probe", "--also", "ranks", "train.py", "--", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    alive = wait_until_both_ranks_run(tmp_path)
    assert len([line for line in alive if "torch.distributed.run" in line]) == 1
    assert len([line for line in alive if " train.py " in line and "-m lintrain" not in line]) == 3
    interrupted = time.monotonic()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=30)
    assert time.monotonic() - interrupted < 10
    assert (running.returncode, b"interrupted" in err) == (130, True)
    assert processes_of(tmp_path) == []
    assert list(temporary.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["temporary", "train.py"]


def timeline(weights: str, gradients: str, rows: tuple[int, ...], **facts: Unpack[TimelineFacts]) -> Timeline:
    step = TimelineStep((1.0,), "b", rows, {"w": weights}, {}, {"w": gradients}, (1e-3,), {})
    return Timeline([step], facts)


def test_processes_that_never_speak_to_each_other_train_two_models() -> None:
    found = ranks_evidence([timeline("a", "c", (1, 2), dataset="d"), timeline("b", "e", (2, 3), dataset="d")])
    assert (found.different_weights, found.different_gradients, found.shared_rows) == (("w",), ("w",), 1)


def test_the_rank_that_is_to_blame_is_named() -> None:
    fails = Timeline([], {"failure": "RuntimeError: no shard\nmore"})
    with pytest.raises(UnmeasuredError, match=r"^rank 1 of 2 ends with RuntimeError: no shard$"):
        demand_of_all([Timeline(), fails])
    with pytest.raises(UnmeasuredError, match=r"^rank 0 of 2 ends without a step$"):
        demand_of_all([Timeline([], {"left": True, "done": True}), fails])
    demand_of_all([timeline("a", "b", ()), timeline("a", "b", (), failure="RuntimeError: later")])


def test_rows_are_known_by_their_memory_and_else_by_what_they_hold() -> None:
    rows, batch = Rows(), {"input_ids": torch.arange(6).reshape(2, 3), "mask": torch.ones(2, 3)}
    rows.fetched([4, 7], batch)
    rows.fetched([5, 6], {"input_ids": torch.arange(6).reshape(2, 3) + 1, "mask": torch.ones(2, 3)})
    assert rows.of([list(batch.values())]) == (4, 7)
    assert rows.of([[tensor.clone() for tensor in batch.values()]]) == (4, 7)
    assert rows.of([[torch.ones(2, 3)], [torch.zeros(2, 3, dtype=torch.long)]]) == ()


def test_a_data_set_that_cannot_be_read_twice_alike_is_not_compared() -> None:
    assert ranks_evidence([timeline("a", "c", ()), timeline("a", "c", (), dataset="d")]).same_dataset is None
