"""The cache folder of the hub's libraries, laid out so that they find well-known names in it offline.

With `HF_HOME` set to such a folder, `from_pretrained("distilbert-base-uncased")`, `load_dataset("glue", "mnli")` and
`evaluate.load("accuracy")` of published scripts give the tiny stand-ins (transformers 5.23, datasets 5.2, evaluate
0.4.6).
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pyarrow
from datasets import Dataset, DatasetDict, DatasetInfo, SplitDict, SplitInfo, Version

from tools.fixture_assets.metrics import metric_scripts


def put_model(home: Path, name: str, folder: Path) -> None:
    """A model with its tokenizer under its hub name."""
    cached = home / "hub" / f"models--{name.replace('/', '--')}"
    revision = hashlib.sha1(name.encode(), usedforsecurity=False).hexdigest()
    shutil.copytree(folder, cached / "snapshots" / revision)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(revision)


def put_dataset(home: Path, name: str, configuration: str, splits: DatasetDict) -> None:
    """A data set under its hub name and configuration."""
    revision = hashlib.sha1(f"{name}/{configuration}".encode(), usedforsecurity=False).hexdigest()
    folder = home / "datasets" / name.replace("/", "___") / configuration / "0.0.0" / revision
    folder.mkdir(parents=True)
    short = name.split("/")[-1]
    for split, rows in splits.items():
        _write_stream(rows, folder / f"{short}-{split}.arrow")
    sizes = SplitDict(dataset_name=short)
    for split, rows in splits.items():
        sizes.add(SplitInfo(split, rows.data.nbytes, len(rows), dataset_name=short))
    features = next(iter(splits.values())).features
    info = DatasetInfo(features=features, builder_name="parquet", dataset_name=short, config_name=configuration)
    info.version = Version("0.0.0")
    info.splits = sizes
    info.write_to_directory(str(folder))


def put_metrics(home: Path) -> None:
    """Every metric under its name."""
    modules = home / "modules" / "evaluate_modules"
    for name, script in metric_scripts().items():
        revision = hashlib.sha256(script.encode()).hexdigest()
        folder = modules / "metrics" / f"evaluate-metric--{name}" / revision
        folder.mkdir(parents=True)
        (folder / f"{name}.py").write_text(script)
        for package in (folder, folder.parent, folder.parent.parent, modules):
            (package / "__init__.py").touch()


def _write_stream(rows: Dataset, path: Path) -> None:
    table = rows.data.table
    with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
