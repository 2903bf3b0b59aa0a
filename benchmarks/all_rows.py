"""What reading all rows takes: `python -m benchmarks.all_rows` probes scripts with many rows (`--also rows`).

A table of a million short rows, a data set class that makes 20,000 rows one by one, and a million rows of tensors.
The peak is that of the largest process, compared with the script's own until its first step.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import ROOT, Command, cost_of

TABLE = """
import numpy, pyarrow, torch
from datasets import Dataset
from torch import nn
from torch.utils.data import DataLoader

ROWS = 1_000_000
numbers = numpy.random.default_rng(0)
starts = numpy.arange(0, ROWS * 16 + 1, 16, dtype="int32")
lists = pyarrow.ListArray.from_arrays
table = pyarrow.table({
    "input_ids": lists(starts, numbers.integers(5, 30_000, ROWS * 16)),
    "attention_mask": lists(starts, numpy.ones(ROWS * 16, "int8")),
    "label": numbers.integers(0, 3, ROWS),
})
rows = Dataset(table).with_format("torch")
model = nn.Sequential(nn.EmbeddingBag(30_000, 16), nn.Linear(16, 3))


def collate(rows):
    return torch.stack([row["input_ids"] for row in rows]), torch.stack([row["label"] for row in rows])


loader = DataLoader(rows, batch_size=16, collate_fn=collate)
"""
CLASS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    def __len__(self):
        return 20_000

    def __getitem__(self, row):
        numbers = torch.Generator().manual_seed(row)
        return torch.randn(64, generator=numbers), row % 3


model = nn.Linear(64, 3)
loader = DataLoader(Rows(), batch_size=16, shuffle=True)
"""
TENSORS = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Linear(16, 3)
rows = TensorDataset(torch.randn(1_000_000, 16), torch.randint(0, 3, (1_000_000,)))
loader = DataLoader(rows, batch_size=16)
"""
LOOP = """
optimizer = torch.optim.Adam(model.parameters())
for inputs, labels in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
"""
STOP = "    raise SystemExit\n"


@dataclass(frozen=True, slots=True)
class Case:
    """A script, and the seconds that reading its rows may take."""

    name: str
    script: str
    bound: float


CASES = (
    Case("a table of 1,000,000 short rows", TABLE, 10),
    Case("a data set class of 20,000 rows", CLASS, 20),
    Case("tensors of 1,000,000 rows", TENSORS, 10),
)
MOST_MORE = 1.25
"""Times the script's own peak: what the probe itself holds is part of it."""


def measure(case: Case, folder: Path) -> bool:
    """Probe one script; whether it kept its bounds."""
    script, evidence = folder / "train.py", folder / "evidence.json"
    script.write_text(case.script + LOOP + STOP)
    alone = _peak([sys.executable, str(script)], folder)
    script.write_text(case.script + LOOP)
    probe = [sys.executable, "-m", "lintrain", "probe", str(script), "--also", "rows", "--evidence", str(evidence)]
    probed = _peak(probe, folder)
    run = json.loads(evidence.read_text())["runs"][0]
    sweep = run["splits"][0]["sweep"]
    print(
        f"{case.name}: {sweep['rows']:,} rows in {sweep['seconds']:.1f} s (bound {case.bound:.0f}), peak "
        f"{probed:.0f} MiB, the script alone {alone:.0f} MiB ({probed / alone:.2f} times, bound {MOST_MORE})"
    )
    return sweep["seconds"] <= case.bound and probed <= MOST_MORE * alone and sweep["rows"] == sweep["of"]


def _peak(command: Sequence[str], folder: Path) -> float:
    """The MiB that the largest process of a command held."""
    return cost_of(Command(command[-1], command, folder, {"PYTHONPATH": str(ROOT)}, (0, 1))).peak


def main() -> int:
    """Measure all; 1 if a bound is exceeded."""
    with tempfile.TemporaryDirectory() as folder:
        kept = [measure(case, Path(folder)) for case in CASES]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    raise SystemExit(main())
