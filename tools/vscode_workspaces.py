"""What VS Code is tried with: a project, and a workspace of several folders that are configured differently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.dev import ROOT

STAND_IN = ROOT / "editors" / "vscode" / "test" / "ms-python"
"""An extension with the identifier and the interface of the Python extension, which no registry of packages has."""

CHOOSE = "Stand-in: Select Interpreter"
"""Its command."""

SCRIPT = """import torch

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
    loss.backward()
    optimizer.step()
"""


def write_project(folder: Path) -> str:
    """A project with a script, and a notebook of the same; gives what the editor's address asks for."""
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(SCRIPT)
    head, _, loop = SCRIPT.partition("for step")
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "id": text[:3], "source": text.strip()} for text in (head, f"for step{loop}")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (project / "train.ipynb").write_text(json.dumps(notebook, indent=1))
    return f"folder={project}"


def write_folders(folder: Path) -> str:
    """Three folders with one script: as it is, with a level of the project, and with settings of the editor."""
    for name in ("first", "second", "third"):
        (folder / name).mkdir()
        (folder / name / f"{name}.py").write_text(f"{SCRIPT}print(undefined)\n")
    (folder / "second" / "lintrain.toml").write_text('[levels]\nloop = "note"\n')
    settings = folder / "third" / ".vscode" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"lintrain.ignore": ["loop"]}))
    workspace = folder / "three.code-workspace"
    workspace.write_text(json.dumps({"folders": [{"path": name} for name in ("first", "second", "third")]}))
    return f"workspace={workspace}"
