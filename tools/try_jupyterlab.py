"""Tries the server in a real JupyterLab: `python -m tools.try_jupyterlab PICTURES`, with playwright and Chromium.

JupyterLab and jupyterlab-lsp are those of the environment, configured with just what docs/editors.md says. A notebook
is opened in a browser, and a picture is taken of each thing that a user sees. Look at the pictures: nothing here says
whether they are right.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.browser import User, free_port, look, wait_for
from tools.dev import BIN, ENVIRONMENT, ROOT, python

GUIDE = ROOT / "docs" / "editors.md"
CONFIGURATION = re.compile(r"^```json\n(.*?)^```", re.MULTILINE | re.DOTALL)

MODULE = """import torch

net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""

CELLS = (
    "import torch\n\nfrom model import net, optimizer\n\n%matplotlib inline",
    "for step in range(10):\n"
    "    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,)))\n"
    "    loss.backward()\n"
    "    optimizer.step()",
)

FOUND = ".cm-lintRange-error"
"""A finding in a cell."""

LINE = "loss.backward()"
"""Where it stands."""


def main(arguments: list[str]) -> int:
    """Take the pictures into the folder that is named."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    pictures = Path(arguments[0]).resolve()
    pictures.mkdir(parents=True, exist_ok=True)
    server, settings = CONFIGURATION.findall(GUIDE.read_text(encoding="utf-8").partition("\n## JupyterLab\n")[2])[:2]
    for given, what in (("{}", work), (settings, rest)):
        with tempfile.TemporaryDirectory(prefix="lintrain-jupyterlab-") as name:
            folder = Path(name)
            write_configuration(folder, server, given)
            write_project(folder / "project" / "training")
            with serving(folder) as address:
                look(f"{address}/lab/tree/training/train.ipynb", pictures, what)
    print(*sorted(pictures.glob("*.png")), sep="\n")
    return 0


def write_configuration(folder: Path, server: str, settings: str) -> None:
    """What the guide says, where JupyterLab keeps it, and that it asks for no news."""
    (folder / "jupyter_server_config.json").write_text(server)
    kept = folder / "lab" / "user-settings" / "@jupyterlab"
    news = json.dumps({"fetchNews": "false", "checkForUpdates": False})
    for name, text in (("apputils-extension/notification", news), ("lsp-extension/plugin", settings)):
        file = kept / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(text)


def write_project(folder: Path) -> None:
    """A notebook that trains, and the module that it imports."""
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(MODULE)
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    cells = [{**cell, "id": f"cell-{number}", "source": text} for number, text in enumerate(CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "train.ipynb").write_text(json.dumps(notebook, indent=1))


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A running JupyterLab over the project, under its address; all that it keeps lies in the folder."""
    port = free_port()
    options = [f"--ServerApp.port={port}", "--ServerApp.port_retries=0", "--IdentityProvider.token="]
    command = python("-m", "jupyterlab", "--no-browser", "--allow-root", *options)
    with (folder / "jupyterlab.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder / "project", env=variables(folder), stdout=log, stderr=log)
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def variables(folder: Path) -> dict[str, str]:
    """The variables of JupyterLab: its home is the folder, and `lintrain` stands on PATH."""
    kept = {"HOME": folder, "JUPYTER_CONFIG_DIR": folder, "JUPYTER_DATA_DIR": folder, "LINTRAIN_CACHE_DIR": folder}
    path = f"{ENVIRONMENT / BIN}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, **{name: str(value) for name, value in kept.items()}, "PATH": path}


def work(page: Any, pictures: Path) -> None:  # Any: a page of playwright
    """Look at a finding, read its page, mend it by hand, and see it gone."""
    user = User(page, pictures)
    user.sees(FOUND, "1-findings")
    user.hover(FOUND, "2-message")
    user.page.mouse.move(0, 0)
    user.page.keyboard.down("Control")
    user.page.hover(FOUND, force=True)
    user.picture("3-page")
    user.page.keyboard.up("Control")
    user.page.click(f"text={LINE}")
    user.press("Home")
    user.page.keyboard.type("optimizer.zero_grad()\n")
    user.misses(FOUND, "4-mended")


def rest(page: Any, pictures: Path) -> None:  # Any: a page of playwright
    """See nothing of a rule that the user's settings leave out."""
    user = User(page, pictures)
    user.sees("text=Fully initialized", "5-settings")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
