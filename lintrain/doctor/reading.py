"""Reading what a run left: states of a Trainer, tables, event files, offline folders of W&B, logs, notebooks.

A file is read as data, at most `LARGEST` bytes of it. Event files and W&B's records are read by their own libraries,
where these are installed.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeGuard, cast

from lintrain.doctor.logs import Table, read_log
from lintrain.doctor.record import STEPS, Argument, Curve, Point, Role, RunRecord, curves_of, numbers

LARGEST = 64 * 2**20
"""Bytes of a file that are read: of a longer log the last ones."""

STATE = "trainer_state.json"
TRACEBACK = "Traceback (most recent call last)"


class NoRunError(Exception):
    """Nothing of a run is at a path; the text says what was looked for."""


def read_run(path: Path) -> RunRecord:
    """The run in a file or folder; raises NoRunError."""
    if not path.exists():
        raise NoRunError(f"{path}: no such file or folder")
    for matches, read in READERS:
        at = matches(path)
        record = read(at) if at else None
        if record and (
            record.notes or any(each.role is not Role.OTHER for each in record.curves) or TRACEBACK in record.log
        ):
            return record
    raise NoRunError(
        f"{path}: no run is in it: neither trainer_state.json, metrics.csv, TensorBoard's event files, a folder of W&B,"
        " a notebook, nor a log with losses or a traceback"
    )


def _text(path: Path) -> str:
    with path.open("rb") as opened:
        opened.seek(max(0, path.stat().st_size - LARGEST))
        return opened.read(LARGEST).decode("utf-8", "replace")


def _json(path: Path) -> Any:  # Any: what JSON holds
    try:
        return json.loads(_text(path))
    except (OSError, ValueError, RecursionError) as error:
        raise NoRunError(f"{path}: cannot be read as JSON ({error})") from error


# -------------------------------------------------------------------------------------------------- transformers


def _state_at(path: Path) -> Path | None:
    """The state of a Trainer: the file, that of the folder, or that of the folder's last checkpoint."""
    if path.is_file():
        return path if path.name == STATE else None
    if (path / STATE).is_file():
        return path / STATE
    found = [each for each in path.glob(f"checkpoint-*/{STATE}") if each.parent.name.rpartition("-")[2].isdigit()]
    return max(found, key=lambda each: int(each.parent.name.rpartition("-")[2])) if found else None


def _read_state(path: Path) -> RunRecord:
    state = _json(path)
    if not _listed(state, "log_history"):
        raise NoRunError(f"{path}: it has no `log_history`")
    rows = [numbers(row) for row in _listed(state, "log_history") if is_object(row)]
    curves = tuple(curve for curve in curves_of(rows, STEPS) if not curve.name.startswith(("train_", "total_flos")))
    planned = state.get("max_steps")
    return RunRecord(
        str(path),
        "transformers",
        curves,
        int(planned) if isinstance(planned, int) and planned > 0 else None,
        _classes(path.parent / "config.json"),
        _plain({**state, "log_history": ()}),
    )


def _classes(config: Path) -> int | None:
    """The classes of the model that was saved beside; None unless its head is one of classes."""
    if not config.is_file():
        return None
    found = _json(config)
    names = found.get("architectures") or [""]
    is_classifier = "Classification" in str(names[0]) and found.get("problem_type") in (
        None,
        "single_label_classification",
    )
    labels = found.get("id2label") or {0: "", 1: ""}
    return len(labels) if is_classifier and len(labels) > 1 else None


def _plain(values: Mapping[str, object]) -> dict[str, Argument]:
    return {str(name): value for name, value in values.items() if isinstance(value, str | int | float | bool | None)}


# ------------------------------------------------------------------------------------------------ Lightning, CSV


def _table_at(path: Path) -> Path | None:
    """A table of metrics: the file, or Lightning's of the last version in a folder."""
    if path.is_file():
        return path if path.suffix == ".csv" else None
    found = [*path.glob("metrics.csv"), *path.glob("version_*/metrics.csv"), *path.glob("*/version_*/metrics.csv")]
    return max(found, key=lambda each: each.stat().st_mtime) if found else None


def _read_table(path: Path) -> RunRecord:
    lines = _text(path).splitlines()
    rows = [numbers({name: value for name, value in row.items() if value}) for row in csv.DictReader(lines)]
    if rows and not any(axis in row for row in rows for axis in STEPS):
        rows = [{**row, "step": row["epoch"]} if "epoch" in row else row for row in rows]
    return RunRecord(str(path), "table", curves_of(rows, STEPS))


# --------------------------------------------------------------------------------------------------- TensorBoard


def _events_at(path: Path) -> Path | None:
    """A folder with event files, or one of them."""
    if path.is_file():
        return path if ".tfevents." in path.name else None
    found = sorted(path.rglob("*.tfevents.*"), key=lambda each: each.stat().st_mtime)
    return found[-1].parent if found else None


def _read_events(path: Path) -> RunRecord:
    if find_spec("tensorboard") is None:
        return RunRecord(
            str(path), "TensorBoard", notes=("its event files are read with tensorboard: `pip install tensorboard`",)
        )
    accumulator: Any = import_module("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(path), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    curves = [
        Curve(tag, tuple(Point(float(one.step), float(one.value), None, one.wall_time) for one in events.Scalars(tag)))
        for tag in events.Tags()["scalars"]
    ]
    curves += [curve for tag in events.Tags()["tensors"] if (curve := _scalar_tensors(tag, events.Tensors(tag)))]
    return RunRecord(str(path), "TensorBoard", tuple(curves))


def _scalar_tensors(tag: str, events: Any) -> Curve | None:
    """The curve of tensors of one number, which is how Keras and TensorFlow 2 write scalars."""
    tensors: Any = import_module("tensorboard.util.tensor_util")
    arrays = [(one, tensors.make_ndarray(one.tensor_proto)) for one in events]
    if not arrays or any(array.size != 1 or array.dtype.kind not in "fiu" for _, array in arrays):
        return None
    return Curve(
        tag, tuple(Point(float(one.step), float(array.reshape(-1)[0]), None, one.wall_time) for one, array in arrays)
    )


# --------------------------------------------------------------------------------------------------------- W&B


def _offline_at(path: Path) -> Path | None:
    """The record of an offline run: a file `run-*.wandb`, or that of the last run in a folder."""
    if path.is_file():
        return path if path.suffix == ".wandb" else None
    found = sorted(
        (*path.glob("*.wandb"), *path.glob("*run-*/*.wandb"), *path.glob("wandb/*run-*/*.wandb")),
        key=lambda each: each.stat().st_mtime,
    )
    return found[-1] if found else None


def _read_offline(path: Path) -> RunRecord:
    if find_spec("wandb") is None:
        return RunRecord(str(path), "W&B", notes=("the record of W&B is read with wandb: `pip install wandb`",))
    records: Any = import_module("wandb.proto.wandb_internal_pb2")
    rows, arguments = list[dict[str, float]](), dict[str, Argument]()
    for data in log_records(path.read_bytes()[:LARGEST]):
        record = records.Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            rows.append(_history_row(record.history))
        for item in (*record.config.update, *record.run.config.update):
            arguments |= _plain({item.key or ".".join(item.nested_key): _loaded(item.value_json)})
    rows = [{**row, "time": row["_runtime"]} if "_runtime" in row else row for row in rows]
    curves = tuple(curve for curve in curves_of(rows, STEPS) if not curve.name.startswith(("_", "train/epoch")))
    return _with_files(RunRecord(str(path), "W&B", curves, arguments=arguments), path.parent / "files")


BLOCK, HEAD = 32768, 7
WHOLE, FIRST, LAST = 1, 2, 4


def log_records(content: bytes) -> Iterator[bytes]:
    """The records of a log in the format of LevelDB, after W&B's own seven bytes; a run that died ends within one.

    wandb itself reads the format in compiled code only, which it calls for `wandb sync`.
    """
    at, parts = HEAD, list[bytes]()
    while at + HEAD <= len(content):
        if BLOCK - at % BLOCK < HEAD:  # too few bytes for the head of a record are left empty
            at += BLOCK - at % BLOCK
            continue
        length, kind = int.from_bytes(content[at + 4 : at + 6], "little"), content[at + 6]
        part = content[at + HEAD : at + HEAD + length]
        if len(part) < length or not WHOLE <= kind <= LAST:
            return
        parts = [part] if kind in (WHOLE, FIRST) else [*parts, part]
        if kind in (WHOLE, LAST):
            yield b"".join(parts)
        at += HEAD + length


def _history_row(history: Any) -> dict[str, float]:
    named = {item.key or ".".join(item.nested_key): _loaded(item.value_json) for item in history.item}
    row = numbers(named)
    row.setdefault("_step", float(history.step.num))
    if "train/epoch" in row:
        row["epoch"] = row["train/epoch"]
    return row


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _with_files(record: RunRecord, folder: Path) -> RunRecord:
    """The run with its output and its script, which W&B keeps beside its record."""
    output, metadata = folder / "output.log", folder / "wandb-metadata.json"
    program = _json(metadata).get("program") if metadata.is_file() else None
    script = program if isinstance(program, str) and Path(program).is_file() else None
    return replace(record, log=_text(output) if output.is_file() else "", script=script)


def _log_at(path: Path) -> Path | None:
    is_other = path.suffix in (".ipynb", ".json", ".csv", ".wandb") or ".tfevents." in path.name
    return path if path.is_file() and not is_other else None


def _read_log(path: Path) -> RunRecord:
    return read_log(_text(path), str(path))


def _notebook_at(path: Path) -> Path | None:
    return path if path.is_file() and path.suffix == ".ipynb" else None


def _read_notebook(path: Path) -> RunRecord:
    """What the cells of a notebook printed, and the Trainer's tables in it."""
    texts, tables, script = list[str](), list[str](), str(path)
    for cell in _listed(_json(path), "cells"):
        for output in _listed(cell, "outputs"):
            texts += [_joined(_value(output, "text")), "\n".join(_listed(output, "traceback"))]
            tables.append(_joined(_value(_value(output, "data"), "text/html")))
    record = read_log("\n".join(filter(None, texts)), str(path))
    rows = [row for text in tables for row in Table.rows_of(text)]
    return replace(record, kind="notebook", curves=(*curves_of(rows, STEPS), *record.curves), script=script)


def _listed(holder: object, name: str) -> list[Any]:
    """A list in an object of JSON, or an empty list."""
    found = _value(holder, name)
    return found if _is_list(found) else []


def _is_list(value: object) -> TypeGuard[list[Any]]:
    return isinstance(value, list)


def _value(holder: object, name: str) -> object:
    """What an object of JSON has under a name; an empty text where it has nothing."""
    return holder.get(name, "") if is_object(holder) else ""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Whether a value is an object of JSON."""
    return isinstance(value, dict)


def _joined(text: object) -> str:
    return "".join(map(str, cast("list[object]", text))) if isinstance(text, list) else str(text)


READERS: tuple[tuple[Callable[[Path], Path | None], Callable[[Path], RunRecord]], ...] = (
    (_state_at, _read_state),
    (_table_at, _read_table),
    (_offline_at, _read_offline),
    (_events_at, _read_events),
    (_notebook_at, _read_notebook),
    (_log_at, _read_log),
)
