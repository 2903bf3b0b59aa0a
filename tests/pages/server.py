"""A process that has the libraries imported and forks one child for each script, so that each costs no imports.

Reads one JSON line per request from its input and answers each with one JSON line when the child has ended:

    {"script": "…/page.py", "folder": "…", "imports": ["keras"], "request": {…} or null, "seconds": 100}
    {"status": 0, "error": "ValueError: …" or null}

With a probe's request the child is a probed process, as `sitecustomize` would have made it one. Without one a Trainer
of the script takes only the first steps of each epoch. What the script prints goes to `output.txt` in its folder.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import runpy
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import torch
from transformers import TrainerControl, TrainerState, TrainingArguments, trainer
from transformers.trainer_callback import DefaultFlowCallback

from tests.support.forking import boot, get_ready_to_fork, load_libraries, load_package, pass_for_started_in

STEPS_OF_AN_EPOCH = 4
"""The steps of a Trainer in each epoch: all 60 take a second, and an example that no probe judges shows no more."""


class ShortEpochs(DefaultFlowCallback):
    """Ends each epoch after a few steps; evaluations and checkpoints stay where the arguments put them."""

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        self._last_step = state.global_step + STEPS_OF_AN_EPOCH

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
        super().on_step_end(args, state, control, **_)
        control.should_epoch_stop |= state.global_step >= self._last_step


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    load_libraries()
    import_module("sklearn.metrics")
    for line in sys.stdin:
        asked = json.loads(line)
        for name in asked["imports"]:
            load_package(name)
        print(json.dumps(run(asked)), file=answers)


def run(asked: dict[str, Any]) -> dict[str, Any]:  # Any: whatever JSON holds
    """Run one script in a forked child and give its end."""
    error_file = Path(asked["folder"]) / "error.txt"
    error_file.write_text("")
    get_ready_to_fork()
    child = os.fork()
    if child == 0:
        run_script(asked, error_file)
    status = wait(child, asked["seconds"])
    return {"status": status, "error": error_file.read_text() or None}


def wait(child: int, seconds: float) -> int:
    """The child's exit status; it is killed when its time is up."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return -signal.SIGKILL


def run_script(asked: dict[str, Any], error_file: Path) -> NoReturn:
    """The child's life: as if Python had been started on the script."""
    status = 0
    errors = os.open(error_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        prepare(asked)
        runpy.run_path(asked["script"], run_name="__main__")
    except BaseException as error:  # noqa: BLE001 - whatever ends a script, SystemExit included, is its answer
        status = 1
        os.write(errors, "".join(traceback.format_exception_only(error)).strip().encode())
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        atexit._run_exitfuncs()
        os._exit(status)


def prepare(asked: dict[str, Any]) -> None:
    """Give the child its folder, its output, its seeds and, where asked, its probe."""
    os.chdir(asked["folder"])
    pass_for_started_in(asked["folder"])
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    random.seed(0)
    torch.manual_seed(0)
    sys.argv = [asked["script"]]
    sys.path.insert(0, asked["folder"])
    if asked["request"] is None:
        trainer.DEFAULT_CALLBACKS[:] = [ShortEpochs]
    else:
        boot.start(asked["request"])


if __name__ == "__main__":
    main()
