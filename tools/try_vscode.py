"""Tries the extension in a real VS Code: `python -m tools.try_vscode PICTURES`, with playwright and Chromium.

It builds the .vsix, installs it into code-server (from npm, kept in `.venv/code-server`), opens a script and a notebook
in a browser, and takes a picture of each thing that a user does. Look at the pictures: nothing here says whether they
are right.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.browser import User, free_port, look, wait_for
from tools.dev import ENVIRONMENT, ROOT, program
from tools.vscode_workspaces import CHOOSE, STAND_IN, write_folders, write_project

EXTENSION = ROOT / "editors" / "vscode"
EDITOR = ENVIRONMENT / "code-server"
INSTALLED = EDITOR / "node_modules" / "code-server"
NATIVE = ("@vscode/spdlog", "@vscode/native-watchdog", "@vscode/deviceid")
LINKS = {"bin/helpers/browser.sh": "browser-linux.sh", "node_modules.asar": "node_modules"}
"""What code-server's installation makes besides; its script refuses to run as the root of a container."""

ITEM = "#lintrain\\.lintrain\\.lintrain"
"""The extension's item in the status bar."""


def main(arguments: list[str]) -> int:
    """Take the pictures into the folder that is named."""
    if len(arguments) != 1:
        print(__doc__)
        return 2
    pictures = Path(arguments[0]).resolve()
    pictures.mkdir(parents=True, exist_ok=True)
    install_editor()
    package = build_extension()
    server = {"lintrain.path": str(ENVIRONMENT / "bin" / "lintrain")}
    with editor(write_project, package, server) as address:
        look(address, pictures, work)
    with editor(write_project, package, {}) as address:
        look(address, pictures, bring)
    with editor(write_folders, package, {"security.workspace.trust.enabled": False}, chooses=True) as address:
        look(address, pictures, choose)
    print(*sorted(pictures.glob("*.png")), sep="\n")
    return 0


def install_editor() -> None:
    """Install code-server, without the scripts of its packages but for those that build what it cannot do without."""
    if (INSTALLED / "ready").is_file():
        return
    EDITOR.mkdir(parents=True, exist_ok=True)
    npm = ["npm", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run([*npm, "install", "--prefix", str(EDITOR), "code-server"], check=True)
    inside = INSTALLED / "lib" / "vscode"
    for folder in (inside, inside / "extensions"):
        subprocess.run([*npm, "install", "--omit=dev"], cwd=folder, check=True)
    subprocess.run(["npm", "rebuild", *NATIVE], cwd=inside, check=True)
    subprocess.run(["npm", "rebuild", "argon2"], cwd=EDITOR, check=True)
    for name, target in LINKS.items():
        (inside / name).unlink(missing_ok=True)
        (inside / name).symlink_to(target)
    (INSTALLED / "ready").touch()


def build_extension() -> Path:
    """The packaged extension, with the server that it brings."""
    with tempfile.TemporaryDirectory(prefix="lintrain-wheel-") as folder:
        pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "-q"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", folder, "."], cwd=ROOT, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        bundle = [str(ENVIRONMENT / "bin" / "python"), "-m", "tools.bundle", str(wheel), str(EXTENSION)]
        subprocess.run(bundle, cwd=ROOT, check=True)
    subprocess.run(["npm", "ci"], cwd=EXTENSION, check=True)
    subprocess.run(["npm", "run", "package"], cwd=EXTENSION, check=True)
    return next((EXTENSION / "dist").glob("*.vsix"))


@contextmanager
def editor(
    write: Callable[[Path], str], package: Path, settings: dict[str, Any], *, chooses: bool = False
) -> Iterator[str]:
    """A code-server with the extension and a workspace, under its address; all that it keeps goes with it.

    With `chooses` a stand-in of the Python extension is there, too, which selects interpreters.
    """
    with tempfile.TemporaryDirectory(prefix="lintrain-vscode-") as name:
        folder = Path(name)
        write_settings(folder, settings)
        for each in [package, *([build_stand_in(folder)] if chooses else [])]:
            subprocess.run(command(folder, "--install-extension", str(each)), env=variables(folder), check=True)
        with serving(folder) as address:
            yield f"{address}/?{write(folder)}"


def build_stand_in(folder: Path) -> Path:
    """The packaged stand-in of the Python extension: first a Python without lintrain, then the environment's."""
    bare = shutil.which("python3", path="/usr/bin") or sys.executable
    source = folder / "stand-in"
    shutil.copytree(STAND_IN, source)
    (source / "interpreters.json").write_text(json.dumps([bare, str(program("python"))]))
    package = folder / "stand-in.vsix"
    vsce = [
        str(EXTENSION / "node_modules" / ".bin" / "vsce"),
        "package",
        "--skip-license",
        "--allow-missing-repository",
    ]
    subprocess.run([*vsce, "--no-dependencies", "--out", str(package)], cwd=source, check=True)
    return package


def write_settings(folder: Path, settings: dict[str, Any]) -> None:
    """The user's settings, with those that keep VS Code's own questions off the pictures."""
    quiet = {
        "files.autoSave": "off",
        "workbench.startupEditor": "none",
        "workbench.colorTheme": "Default Light Modern",
        "security.workspace.trust.startupPrompt": "never",
        "security.workspace.trust.banner": "never",
        "telemetry.telemetryLevel": "off",
    }
    user = folder / "data" / "User"
    user.mkdir(parents=True)
    (user / "settings.json").write_text(json.dumps(quiet | settings))


def command(folder: Path, *given: str) -> list[str]:
    """What starts code-server with everything that it keeps in a folder."""
    kept = ["--user-data-dir", str(folder / "data"), "--extensions-dir", str(folder / "extensions")]
    return [
        "node",
        str(INSTALLED / "out" / "node" / "entry.js"),
        "--config",
        str(folder / "config.yaml"),
        *kept,
        *given,
    ]


def variables(folder: Path) -> dict[str, str]:
    """The variables of the editor: its home is the folder, and PATH has no lintrain."""
    kept = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "LINTRAIN_CACHE_DIR": str(folder / "cache")}
    search = os.environ["PATH"].split(os.pathsep)
    path = os.pathsep.join(each for each in search if not (Path(each) / "lintrain").exists())
    return {**os.environ, **kept, "PATH": path}


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """A running code-server, under its address."""
    port = free_port()
    given = ["--bind-addr", f"127.0.0.1:{port}", "--auth", "none", "--disable-telemetry", "--disable-update-check"]
    with (folder / "editor.log").open("w") as log:
        process = subprocess.Popen(command(folder, *given), env=variables(folder), stdout=log, stderr=log)
        try:
            wait_for(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def work(page: Any, pictures: Path) -> None:
    """Write, mend and probe."""
    user = Developer(page, pictures)
    user.open("train.py")
    user.sees(".squiggly-error", "1-restricted")  # findings, but no lens
    user.trust()
    user.open("train.py")
    user.sees(".codelens-decoration a", "2-findings")
    user.hover(".squiggly-error", "3-hover")
    user.command("Go to Next Problem in Files", "4-problem")
    user.press("Escape")
    user.press("Control+.", "5-quick-fix")
    user.press("Escape")
    user.page.click(".codelens-decoration a")
    user.sees(".notification-list-item:has-text('probing')", "6-probing")
    user.sees(".notification-list-item:has-text('confirmed')", "7-confirmed")
    user.page.click(".notification-list-item .monaco-button >> text=Show the Report")
    user.sees("iframe.webview.ready", "7-report")
    user.command("Notifications: Clear All Notifications")
    user.command("lintrain: Fix All", "8-fixed")
    user.command("Revert File")
    user.command("lintrain: Explain Rule", "9-rules")
    user.write("missing-zero-grad")
    user.page.wait_for_timeout(3000)  # the preview of Markdown is an extension of its own
    user.picture("10-page")
    user.page.click(ITEM)
    user.picture("11-menu")
    user.press("Escape")
    user.open("train.ipynb")
    user.sees(".cell .squiggly-error", "12-notebook")


def bring(page: Any, pictures: Path) -> None:
    """Start where no lintrain is installed: the extension's own server finds mistakes, and says what it lacks."""
    user = Developer(page, pictures)
    user.open("train.py")
    user.sees(".squiggly-error", "13-own-server")
    user.command("lintrain: Apply All Safe Fixes")
    user.sees(".notification-list-item:has-text('libcst')", "14-lacks")


def choose(page: Any, pictures: Path) -> None:
    """Select an interpreter that has lintrain, and see each folder's own configuration at work."""
    user = Developer(page, pictures)
    for name in ("first", "second", "third"):
        user.open(f"{name}.py")
    user.command(CHOOSE)
    user.command("Problems: Focus on Problems View")
    user.sees(".markers-panel :text('undefined')", "17-folders")
    user.page.click(ITEM)
    user.picture("18-server")


class Developer(User):
    """What a user does in VS Code."""

    def open(self, name: str) -> None:
        """Open a file of the workspace."""
        self.page.dblclick(f".explorer-folders-view >> text={name}")

    def command(self, title: str, picture: str = "") -> None:
        """Run a command of the palette."""
        self.press("F1")
        self.write(title, picture)

    def trust(self) -> None:
        """Trust the workspace."""
        self.command("Workspaces: Manage Workspace Trust")
        self.page.click(".workspace-trust-editor .monaco-button >> text=Trust")
        self.page.wait_for_timeout(3000)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
