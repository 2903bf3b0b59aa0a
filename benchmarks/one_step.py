"""Correct scripts and the same scripts with one training step: what a probe of the first may cost beside the second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import ROOT

COURSE = ROOT / "fixtures" / "course"
SCRIPTS = ROOT / "benchmarks" / "accuracy" / "scripts"


@dataclass(frozen=True, slots=True)
class Case:
    """A script under the name that the table gives it, and the replacements that leave it one training step."""

    name: str
    script: Path
    replacements: tuple[tuple[str, str], ...]

    @property
    def with_one_step(self) -> str:
        """The script's text with one step; raises ValueError where a replaced text is not there exactly once."""
        text = self.script.read_text()
        for old, new in self.replacements:
            if text.count(old) != 1:
                raise ValueError(f"{self.script}: `{old}` is there {text.count(old)} times, not once")
            text = text.replace(old, new)
        return text


CASES = (
    Case("Trainer (course)", COURSE / "mended.py", (("num_train_epochs=3", "max_steps=1"),)),
    Case(
        "loop with transformers",
        COURSE / "loop_mended.py",
        (("in range(3)", "in range(1)"), ("optimizer.step()\n", "optimizer.step()\n        break\n")),
    ),
    Case(
        "loop of torch alone",
        SCRIPTS / "loop" / "shapes_cnn.py",
        (
            ("range(1, options.epochs + 1)", "range(1, 2)"),
            ("optimizer.step()\n", "optimizer.step()\n        break\n"),
        ),
    ),
    Case(
        "loop with accelerate",
        SCRIPTS / "accelerate" / "pairs_accelerated.py",
        (
            ("in range(epochs)", "in range(1)"),
            ("Accelerator(gradient_accumulation_steps=2)", "Accelerator()"),
            ("                optimizer.zero_grad()\n", "                optimizer.zero_grad()\n            break\n"),
        ),
    ),
    Case(
        "Lightning",
        SCRIPTS / "lightning" / "opinions_module.py",
        (("max_epochs=1", "fast_dev_run=True"),),
    ),
    Case(
        "Lightning, torch alone",
        SCRIPTS / "lightning" / "shapes_module.py",
        (("max_epochs=2", "fast_dev_run=True"),),
    ),
    Case(
        "SFTTrainer (trl)",
        SCRIPTS / "trl" / "instructions_sft.py",
        (("num_train_epochs=1", "max_steps=1"),),
    ),
)
