"""Pages of Keras rules, probed in an environment that has TensorFlow: Keras 3, or the Keras of before."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from lintrain.evidence.run import Evidence
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.launcher import Bounds
from lintrain.runtime.parent.prober import Wanted, probe_script
from tests.pages.assembly import Script
from tests.pages.demands import PAGE
from tests.pages.running import PageRun, PageRunner

SECONDS = 200.0


class TensorFlowRunner(PageRunner):
    """Each script goes to a probe of its own, by the environment's Python; `package` is imported as `keras`."""

    def __init__(self, folder: Path, python: str, package: str) -> None:
        self._folder = folder
        self._python = python
        self._package = package
        self._seen: dict[str, PageRun] = {}

    def probe(self, script: Script, *, overfit: bool) -> PageRun:
        """Run a script up to its training call; one that was measured before is not run again."""
        if script.text not in self._seen:
            self._seen[script.text] = self._one(script.text)
        return self._seen[script.text]

    def run(self, script: Script) -> PageRun:
        """Nothing is run without a probe here."""
        return dataclasses.replace(self.probe(script, overfit=False), evidence=None)

    def _one(self, text: str) -> PageRun:
        path = self._folder / PAGE
        path.write_text(text.replace("import keras\n", f"import {self._package} as keras\n"), encoding="utf-8")
        record = probe_script(Wanted(Entry(path), self._python, Bounds(SECONDS)), lambda _: None)
        ending = record.ending
        evidence: Evidence | None = record.runs[0] if record.runs else None
        return PageRun(ending.reason if ending.kind == "crashed" else None, ending.output, evidence)
