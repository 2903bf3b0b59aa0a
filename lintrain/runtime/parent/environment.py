"""The environment of a probed script: trackers off, caches of small things private, temporary files in one folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

SITE_FOLDER = Path(__file__).parent.parent / "child" / "site"
LARGEST_MODULES_CACHE = 64 * 2**20
TRACKERS_OFF = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "COMET_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "SWANLAB_MODE": "disabled",
    "CLEARML_OFFLINE_MODE": "1",
    "DVCLIVE_TEST": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
XET_OFF = {"HF_HUB_DISABLE_XET": "1"}
"""Requests of its compiled client cannot be read; without it the hub's files are downloaded over HTTPS."""
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_EVALUATE_OFFLINE": "1",
}
PYTHON = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONFAULTHANDLER": "1", "MPLBACKEND": "Agg"}


def script_environment(request_file: Path, temporary: Path, device: str, *, offline: bool = False) -> dict[str, str]:
    """This process's environment with what a probe changes; where it is `offline` the libraries know that they are."""
    environment = dict(os.environ)
    environment.update(TRACKERS_OFF)
    environment.update(XET_OFF)
    if offline:
        environment.update(OFFLINE)
    environment.pop("LINTRAIN_PROBE_NETWORK", None)
    environment.update(PYTHON)
    environment.pop("LINTRAIN_PROBE_ROOT", None)
    environment["LINTRAIN_PROBE_REQUEST"] = str(request_file)
    inherited = environment.get("PYTHONPATH")
    # In front: Python imports the first `sitecustomize` that it finds, and ours loads the script's own after it.
    environment["PYTHONPATH"] = os.pathsep.join([str(SITE_FOLDER), *([inherited] if inherited else [])])
    for name in ("TMPDIR", "TEMP", "TMP"):
        environment[name] = _made(temporary / "files")
    environment["TENSORBOARD_LOGGING_DIR"] = str(temporary / "tensorboard")
    environment["MLFLOW_TRACKING_URI"] = (temporary / "mlruns").as_uri()
    environment["TRACKIO_DIR"] = str(temporary / "trackio")
    environment["HF_METRICS_CACHE"] = _made(temporary / "metrics")
    environment["HF_MODULES_CACHE"] = _modules_cache(request_file.parent)
    if device == "cpu":
        # Empty and not unset: unset means all devices.
        environment["CUDA_VISIBLE_DEVICES"] = ""
    else:
        environment["CUDA_LAUNCH_BLOCKING"] = "1"  # an error of a kernel is raised at the line that started it
    return environment


def _made(folder: Path) -> str:
    with suppress(FileExistsError):  # an earlier pass of the script may have put something else there
        folder.mkdir(parents=True)
    return str(folder)


def _modules_cache(exchange: Path) -> str:
    """A private copy of the folder where libraries keep downloaded code, so that a probe adds nothing to it."""
    home = Path(os.environ.get("HF_HOME", Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"))
    original = Path(os.environ.get("HF_MODULES_CACHE", home / "modules")).expanduser()
    private = Path(tempfile.mkdtemp(dir=exchange, prefix="modules-")) / "modules"
    if not original.is_dir():
        return _made(private)
    if sum(file.stat().st_size for file in original.rglob("*") if file.is_file()) > LARGEST_MODULES_CACHE:
        return str(original)
    left_out = shutil.ignore_patterns("*.lock", "__pycache__")
    shutil.copytree(original, private, ignore=left_out)
    return str(private)
