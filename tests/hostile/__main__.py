"""Probe hostile scripts, each in a process forked from this one, and compare everything around them.

    python -m tests.hostile [count] [first]

Prints one JSON line per script that came out otherwise than expected, and a last one with the numbers.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from tests.hostile.forked import install_forking
from tests.hostile.scripts import make_scripts
from tests.hostile.trial import Trial

BOUND, SHORT_BOUND = 60.0, 4.0


def main(count: int, first: int) -> int:
    """Run the scripts and give the number of those that surprised."""
    import_module("torch._dynamo")  # what the first step of an optimizer would import in every script
    install_forking()
    started, surprises, slowest = time.monotonic(), 0, 0.0
    with tempfile.TemporaryDirectory(prefix="lintrain-hostile-") as folder:
        for script in make_scripts(first + count)[first:]:
            trial = Trial(script, Path(folder) / str(script.number), SHORT_BOUND if script.hangs else BOUND)
            complaints = trial.run()
            slowest = max(slowest, trial.seconds)
            if complaints:
                surprises += 1
                found = {"number": script.number, "parts": script.parts, "complaints": complaints}
                sys.stdout.write(json.dumps(found) + "\n")
    seconds = round(time.monotonic() - started, 1)
    numbers = {"scripts": count, "surprises": surprises, "seconds": seconds, "slowest": round(slowest, 1)}
    sys.stdout.write(json.dumps(numbers) + "\n")
    return surprises


if __name__ == "__main__":
    asked = [int(word) for word in sys.argv[1:]]
    sys.exit(bool(main(*(asked + [200, 0][len(asked) :]))))
