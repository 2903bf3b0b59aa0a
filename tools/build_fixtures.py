"""Builds the tiny models, tokenizers, data sets and metrics that fixtures and tests run on: offline, in seconds.

    python -m tools.build_fixtures [FOLDER] [--rows N]

The folder (`fixtures/assets/built` unless told otherwise) then holds `distilbert`, `bert`, `roberta`, `gpt2`, `llama`
and `t5` (model with tokenizer), `nli` (a saved DatasetDict), `metrics/accuracy` and others (metric scripts), and `hub`:
set `HF_HOME` to it and scripts find the hub's well-known names there. A folder that is up to date is left as it is.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILT = ROOT / "fixtures" / "assets" / "built"
STAMP = "stamp.txt"

HUB_MODELS = {
    "distilbert": ("distilbert-base-uncased", "distilbert/distilbert-base-uncased"),
    "bert": ("bert-base-uncased", "google-bert/bert-base-uncased", "bert-base-cased", "google-bert/bert-base-cased"),
    "roberta": ("roberta-base", "FacebookAI/roberta-base"),
    "gpt2": ("gpt2", "openai-community/gpt2"),
    "llama": ("meta-llama/Llama-3.2-1B",),
    "t5": ("t5-small", "google-t5/t5-small"),
}


def main() -> None:
    """Build the folder that the command line names."""
    parser = argparse.ArgumentParser(description="Builds the tiny assets of the fixtures.")
    parser.add_argument("folder", nargs="?", type=Path, default=BUILT)
    parser.add_argument("--rows", type=int, help="training rows of the three-label data (for benchmarks)")
    options = parser.parse_args()
    built = build(options.folder, options.rows)
    print(f"{options.folder}: {'built' if built else 'up to date'}")


def build(folder: Path = BUILT, rows: int | None = None) -> bool:
    """Build the assets into a folder; False where they were there and up to date."""
    current = stamp(rows)
    with _locked(folder):
        if (folder / STAMP).is_file() and (folder / STAMP).read_text() == current:
            return False
        os.environ.update(offline_environment(folder))
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        _build_into(folder, rows)
        (folder / STAMP).write_text(current)
    return True


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder for one process: several test workers may ask for it at once."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_name(f".{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def offline_environment(folder: Path = BUILT) -> dict[str, str]:
    """The environment in which scripts find the assets by the hub's names, and nothing else."""
    return {
        "HF_HOME": str(folder / "hub"),
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_EVALUATE_OFFLINE": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _build_into(folder: Path, rows: int | None) -> None:
    home = folder / "hub"
    for kind, names in HUB_MODELS.items():
        _build_model(kind, folder / kind)
        for name in names:
            _put_model(home, name, folder / kind)
    _build_data(folder, home, rows)


def _build_model(kind: str, folder: Path) -> None:
    import torch

    from tools.fixture_assets import models, tokenizers

    torch.manual_seed(0)
    tokenizer = getattr(tokenizers, f"{kind}_tokenizer")()
    tokenizer.save_pretrained(folder)
    getattr(models, kind)(len(tokenizer)).save_pretrained(folder)


def _put_model(home: Path, name: str, folder: Path) -> None:
    from tools.fixture_assets.hub_cache import put_model

    put_model(home, name, folder)


def _build_data(folder: Path, home: Path, rows: int | None) -> None:
    from tools.fixture_assets import datasets
    from tools.fixture_assets.hub_cache import put_dataset, put_metrics
    from tools.fixture_assets.metrics import metric_scripts

    entailment = datasets.entailment(rows or datasets.TRAIN_ROWS)
    entailment.save_to_disk(folder / "nli")
    for glue in ("glue", "nyu-mll/glue"):
        put_dataset(home, glue, "mnli", entailment)
        put_dataset(home, glue, "mrpc", datasets.paraphrases())
        put_dataset(home, glue, "sst2", datasets.opinions())
    for imdb in ("imdb", "stanfordnlp/imdb"):
        put_dataset(home, imdb, "plain_text", datasets.reviews())
    for news in ("ag_news", "fancyzhx/ag_news"):
        put_dataset(home, news, "default", datasets.news())
    for wikitext in ("wikitext", "Salesforce/wikitext"):
        put_dataset(home, wikitext, "wikitext-2-raw-v1", datasets.running_text())
    put_metrics(home)
    for name, script in metric_scripts().items():
        (folder / "metrics" / name).mkdir(parents=True)
        (folder / "metrics" / name / f"{name}.py").write_text(script)


def stamp(rows: int | None) -> str:
    """What the assets depend on: the builder's own sources, the packages that write them, and the number of rows."""
    digest = hashlib.sha256()
    for source in sorted((Path(__file__).parent / "fixture_assets").glob("*.py")):
        digest.update(source.read_bytes())
    digest.update(Path(__file__).read_bytes())
    for package in ("datasets", "tokenizers", "torch", "transformers"):
        digest.update(f"{package} {version(package)}\n".encode())
    return f"{digest.hexdigest()} {rows}\n"


if __name__ == "__main__":
    main()
