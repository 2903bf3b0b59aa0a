"""Pages run for real: scripts go to a `server` process, what they measured comes back as evidence."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lintrain.evidence.run import Evidence
from lintrain.runtime.parent.events import Assembly, EventFile
from lintrain.runtime.parent.launcher import package_folder
from lintrain.runtime.parent.pass_request import PassRequest
from lintrain.text import read_size
from tests.pages.assembly import Script
from tests.pages.demands import PAGE

SERVER = Path(__file__).with_name("server.py")
ROOT = SERVER.parent.parent.parent
SECONDS = 100.0
OVERFIT_STEPS = 20
SAMPLE_ROWS = 256
SLOW_IMPORTS = ("keras", "lightning", "peft", "trl", "accelerate")


DEVICE = re.compile(r"^# lintrain probe --device-memory (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PageRun:
    """How a script ended: its error (`IndexError: Target 2 …`) or None, what it printed, and what was measured.

    `evidence` is that of a probe.
    """

    error: str | None
    output: str
    evidence: Evidence | None = None


class PageRunner:
    """A server process and a folder for its scripts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self._probed: dict[tuple[str, bool], PageRun] = {}
        with (folder / "server.txt").open("w") as errors:
            self._server = subprocess.Popen(
                [sys.executable, str(SERVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
            )

    def stop(self) -> None:
        """End the server."""
        if self._server.stdin and self._server.stdout:
            self._server.stdin.close()
            self._server.stdout.close()
        self._server.wait(30)

    def run(self, script: Script) -> PageRun:
        """Run a script as it is."""
        folder = self._new_folder()
        return self._answer(script, folder, None)

    def probe(self, script: Script, *, overfit: bool) -> PageRun:
        """Run a script up to its training call and measure there; one that was measured before is not run again."""
        key = (script.text, overfit)
        if key not in self._probed:
            self._probed[key] = self._measured(script, OVERFIT_STEPS if overfit else 0)
        return self._probed[key]

    def _measured(self, script: Script, overfit: int) -> PageRun:
        outcome, assembly = self._pass(script, overfit, SAMPLE_ROWS)
        if assembly.end is not None and assembly.end["kind"] == "needs-full-data":
            outcome, assembly = self._pass(script, overfit, 0)
        if assembly.end is not None and assembly.end["kind"] == "probe-failed":
            raise AssertionError(f"the probe itself failed: {assembly.end['reason']}\n{outcome.output}")
        evidence = assembly.evidence("the script ended") if assembly.reached_a_run else None
        return dataclasses.replace(outcome, evidence=evidence)

    def _pass(self, script: Script, overfit: int, sample_rows: int) -> tuple[PageRun, Assembly]:
        folder = self._new_folder()
        temporary = folder / "probe"
        temporary.mkdir()
        device = _device_memory(script)
        request = PassRequest(
            script=str(folder / PAGE),
            folder=str(folder),
            package=package_folder(),
            temporary=str(temporary),
            exchange=str(temporary),
            device="cpu",
            overfit=overfit,
            also=("memory",) if device else (),
            device_memory=device,
            sample_rows=sample_rows,
        )
        events = EventFile(Path(request.exchange))
        outcome = self._answer(script, folder, dataclasses.asdict(request))
        assembly = Assembly()
        for event in events.new_events():
            assembly.add(event)
        events.close()
        return outcome, assembly

    def _new_folder(self) -> Path:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        return folder

    def _answer(self, script: Script, folder: Path, request: dict[str, Any] | None) -> PageRun:  # Any: JSON
        path = folder / PAGE
        path.write_text(script.text, encoding="utf-8")
        asked = {
            "script": str(path),
            "folder": str(folder),
            "imports": [
                name for name in SLOW_IMPORTS if f"import {name}" in script.text or f"from {name}" in script.text
            ],
            "request": request,
            "seconds": SECONDS,
        }
        answer = self._ask(json.dumps(asked))
        output = folder / "output.txt"
        return PageRun(answer["error"], output.read_text(errors="replace") if output.exists() else "")

    def _ask(self, line: str) -> dict[str, Any]:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(line + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise AssertionError(f"the page server ended: {(self._folder / 'server.txt').read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(answer)
        return found


def _device_memory(script: Script) -> int | None:
    """The device that an example is probed for, as its first comment says."""
    named = DEVICE.search(script.text)
    return read_size(named[1]) if named else None
