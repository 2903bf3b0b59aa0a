"""A process with the libraries imported that forks one child for each script, so that each costs no imports.

Reads one JSON line per request and answers each with one when the child has ended:

    {"script": "…/train.py", "folder": "…", "trace": "…/trace.json", "seconds": 120}
    {"status": 0}
"""

from __future__ import annotations

import gc
import json
import os
import random
import runpy
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from tests.pages.server import wait

SEED = 4711
"""Of scripts that set none: another than any script sets, so that one without its own seed does something else."""
LIBRARIES = (
    "torch.utils.data",
    "transformers.trainer",
    "transformers.trainer_seq2seq",
    "datasets",
    "evaluate",
    "sklearn.metrics",
    "peft",
    "trl",
    "accelerate",
    "lightning",
    "keras",
)


def main() -> None:
    """Answer requests until the input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for name in LIBRARIES:
        import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        gc.collect()
        gc.freeze()  # as in the server of the pages
        child = os.fork()
        if child == 0:
            run_script(asked)
        print(json.dumps({"status": wait(child, asked["seconds"])}), file=answers)


def run_script(asked: dict[str, Any]) -> NoReturn:  # Any: what JSON holds
    """The child's life: as if Python had been started on the script, with a trace."""
    import numpy
    import torch

    from benchmarks.accuracy.trace import Trace

    os.chdir(asked["folder"])
    output = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    sys.argv = [asked["script"]]
    sys.path.insert(0, str(Path(asked["script"]).parent))
    trace = Trace()
    trace.start()
    error = None
    try:
        runpy.run_path(asked["script"], run_name="__main__")
    except BaseException as raised:  # noqa: BLE001 - whatever ends a script is its answer
        if not (isinstance(raised, SystemExit) and not raised.code):
            error = "".join(traceback.format_exception_only(raised)).strip()
            traceback.print_exc()
    try:
        trace.finish(Path(asked["trace"]), error)
        sys.stdout.flush()
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
