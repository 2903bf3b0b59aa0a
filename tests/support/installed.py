"""A project with an environment of its own, in which a library of a firm is installed that no table covers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

SITE = ".venv/lib/python3.11/site-packages"

LIBRARY = {
    "__init__.py": """
from .config import AcmeArguments
from .models import *
from .trainers import AcmeTrainer, Deeper, Evaluating, Own, PlainTrainer
""",
    "trainers.py": """
from transformers import Trainer
from transformers.trainer import Trainer as Base


class PlainTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        return super().compute_loss(model, inputs, return_outputs)


class AcmeTrainer(Base):
    def __init__(self, model=None, args=None, *, alpha=0.5, train_dataset=None, **kwargs):
        super().__init__(model=model, args=args, train_dataset=train_dataset, **kwargs)
        self.alpha = alpha


class Deeper(AcmeTrainer):
    def __init__(self, *args, beta=1, **kwargs):
        super().__init__(*args, alpha=0.1, **kwargs)


class Own(Trainer):
    def __init__(self, model, args, train_dataset, **kwargs):
        super().__init__(model, args, train_dataset=self.tokenized(train_dataset), **kwargs)


class Evaluating(Trainer):
    def __init__(self, *given, **named):
        super().__init__(*given, eval_dataset=load_rows(), **named)
""",
    "models.py": """
from transformers import PreTrainedModel

__all__ = ["AcmeClassifier", "build"]


class AcmeClassifier(PreTrainedModel):
    def forward(self, input_ids, attention_mask=None, labels=None, topic=None, **kwargs):
        return self.head(input_ids)


def build(name, *, size=3):
    return AcmeClassifier(size)
""",
    "config.py": """
from dataclasses import dataclass, field

from transformers import TrainingArguments


@dataclass
class AcmeArguments(TrainingArguments):
    alpha: float = 0.3
    remove_unused_columns: bool = field(default=True, metadata={"help": "as in Trainer"})
""",
    "lazy.py": "def __getattr__(name):\n    return name\n",
}

METADATA = "Metadata-Version: 2.1\nName: {0}\nVersion: {1}\nRequires-Dist: torch>=2\n"


def install(folder: Path, name: str, version: str, files: Mapping[str, str], metadata: str = METADATA) -> Path:
    """Write a package into the environment of a project, and return its folder."""
    site = folder / SITE
    for path, text in files.items():
        (site / name / path).parent.mkdir(parents=True, exist_ok=True)
        (site / name / path).write_text(text)
    for older in site.glob(f"{name}-*.dist-info"):
        (older / "METADATA").unlink(missing_ok=True)
        older.rmdir()
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(metadata.format(name, version))
    return site / name


def make_project(folder: Path, script: str) -> Path:
    """A repository with the library, known versions of the libraries of training, and a script."""
    (folder / ".git").mkdir()
    install(folder, "acme_train", "1.2.0", LIBRARY)
    for name, version in (("transformers", "5.20.0"), ("datasets", "4.0.0"), ("torch", "2.8.0")):
        (folder / SITE / f"{name}-{version}.dist-info").mkdir()
    (folder / "train.py").write_text(script)
    return folder / "train.py"
