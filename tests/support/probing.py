"""Run `lintrain probe` as a person does, on scripts in a folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lintrain.report.machine.compact import expanded_finding
from tests.support.commands import commands_python

ROOT = Path(__file__).parents[2]
WARM_PYTHON = "LINTRAIN_TESTS_PYTHON"
"""Names the Python that probes run scripts with, where it is not the one that runs the tests."""
HEAD = """
import numpy as np
from datasets import load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding
from transformers import Trainer, TrainingArguments, set_seed
set_seed(0)
raw = load_dataset("glue", "mnli")
tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
"""

REST = """
tokenized = raw.map(lambda rows: tokenizer(rows["premise"], rows["hypothesis"], truncation=True), batched=True)
model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3)


def compute_metrics(prediction):
    return {"accuracy": float((np.argmax(prediction.predictions, axis=-1) == prediction.label_ids).mean())}


args = TrainingArguments("out", learning_rate=2e-5, eval_strategy="epoch")
trainer = Trainer(
    model,
    args,
    train_dataset=tokenized["train"],
    eval_dataset=tokenized["validation_matched"],
    data_collator=DataCollatorWithPadding(tokenizer),
    compute_metrics=compute_metrics,
)
"""

MENDED = HEAD + REST + "trainer.train()\n"


class Sparse(dict[str, Any]):
    """An object of a report: what is absent in it is None."""

    def __missing__(self, name: str) -> None:
        return None


def read_document(text: str) -> Any:
    """The report of a probe, its findings with every key."""
    document = json.loads(text, object_hook=Sparse)
    document["findings"] = [expanded_finding(one, {}) for one in document["findings"]]
    return document


@dataclass(frozen=True)
class Probed:
    """What came of one probe."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return read_document(self.out)

    @property
    def run(self) -> Any:
        """The one run of the script as it is; others may follow it with repairs."""
        (only,) = (run for run in self.document["probe"]["runs"] if not run["repairs"])
        return only

    @property
    def stages(self) -> dict[str, str]:
        return {stage["name"]: stage["status"] for stage in self.run["stages"]}

    @property
    def verdicts(self) -> list[tuple[str, int, str]]:
        """Rule, line and ruling of every finding."""
        found = self.document["findings"]
        return sorted((one["rule"], one["location"]["line"], one["verdict"]["outcome"]) for one in found)


def probe(folder: Path, script: str, *options: str, arguments: tuple[str, ...] = ()) -> Probed:
    """Write the script to `train.py` in a folder and probe it there, as JSON unless options say `--text`."""
    (folder / "train.py").write_text(script)
    return probe_file(folder, "train.py", *options, arguments=arguments)


def probe_file(folder: Path, name: str, *options: str, arguments: tuple[str, ...] = ()) -> Probed:
    """Probe a file of a folder from inside the folder."""
    form = () if "--text" in options else ("--json",)
    form = (*form, *warm_option())
    chosen = [option for option in options if option != "--text"]
    return command(folder, "probe", *form, *chosen, name, "--", *arguments)


def warm_option() -> tuple[str, ...]:
    """What lets a probe run its script in the warm Python of the tests, where there is one."""
    warm = os.environ.get(WARM_PYTHON)
    return () if warm is None else ("--python", warm)


def command(folder: Path, *words: str) -> Probed:
    """Run one command of lintrain in a folder, in the warm Python for commands where there is one."""
    done = subprocess.run(
        [commands_python(), "-m", "lintrain", *words], cwd=folder, capture_output=True, text=True, env=None, check=False
    )
    return Probed(done.returncode, done.stdout, done.stderr)


def path_for_lintrain(monkeypatch: Any) -> None:
    """Let `python -m lintrain` find this checkout from any folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
