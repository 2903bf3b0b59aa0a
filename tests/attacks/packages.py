"""Attacks on `packages-run-nothing`: environments of a project whose packages act when something imports them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import lintrain
from tests.support.installed import METADATA, SITE, install

SCRIPT = """
from acme import Net, Trainer, Gone
from transformers import TrainingArguments

Trainer(model=Net.from_pretrained("x"), args=TrainingArguments("out"), wrong=1).train()
"""

TRAP = "import os\nos.mkdir({0!r})\n"


def _package(folder: Path, **files: str) -> Path:
    """A project with a package that builds on torch; every file of it begins with what leaves a mark."""
    (folder / "train.py").write_text(SCRIPT)
    trap = TRAP.format(str(folder / "ran"))
    return install(folder, "acme", "1.0", {f"{name}.py": trap + text for name, text in files.items()})


def _check(folder: Path, seconds: float = 60) -> str:
    ended = lintrain(folder, "check", "--isolated", "train.py", seconds=seconds, cached=True)
    assert ended.code in (0, 1), ended.text
    assert not (folder / "ran").exists(), "something of the package ran"
    return ended.text


def _plain(folder: Path) -> None:
    _package(folder, __init__="class Trainer:\n    def __init__(self, model, args): ...\n", setup="")


def _decorators(folder: Path) -> None:
    _package(folder, __init__="@os.mkdir('ran')\nclass Trainer(os.mkdir('ran')):\n    x = os.mkdir('ran')\n")


def _path_files(folder: Path) -> None:
    _plain(folder)
    site = folder / SITE
    (site / "a.pth").write_text(TRAP.format(str(folder / "ran")).replace("\n", ";") + "\n")
    (site / "b.pth").write_text("import acme\n/dev/zero\n\0\n../../../..\n" + "x\n" * 100_000)
    (site / "sitecustomize.py").write_text(TRAP.format(str(folder / "ran")))
    (site / "__editable___x_finder.py").write_text(f"MAPPING: dict = {{'a': __import__('os').mkdir({str(folder)!r})}}")
    os.mkfifo(site / "c.pth")


def _plugins(folder: Path) -> None:
    _plain(folder)
    for name in ("astroid", "astroid_plugin", "pylint", "typing_extensions", "lintrain", "json", "tokenize"):
        (folder / SITE / name).mkdir()
        for place in (folder / SITE / name / "__init__.py", folder / f"{name}.py"):
            place.write_text(TRAP.format(str(folder / "ran")))
    (folder / SITE / "astroid" / "brain").mkdir()
    (folder / SITE / "astroid" / "brain" / "brain_acme.py").write_text(TRAP.format(str(folder / "ran")))


def _interpreter(folder: Path) -> None:
    """Programs in the environment, and settings of it."""
    _plain(folder)
    python = folder / ".venv" / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nmkdir {folder / 'ran'}\n")
    python.chmod(0o755)
    (folder / ".venv" / "pyvenv.cfg").write_text("home = /\nexecutable = ran\n")


def _compiled(folder: Path) -> None:
    package = _package(folder, __init__="from .fast import Trainer\nfrom ._c import *\n")
    for name in ("fast.cpython-311-x86_64-linux-gnu.so", "_c.pyd", "fast.pyc"):
        (package / name).write_bytes(b"\x7fELF" + bytes(1000))


ACTING = (_plain, _path_files, _plugins, _interpreter)
"""Environments whose package can be read."""


@attack(
    "packages-run-nothing",
    cases={each.__name__.strip("_"): each for each in (*ACTING, _decorators, _compiled)},
)
def package_that_acts(folder: Path, make: Callable[[Path], None]) -> None:
    """Whatever is read, nothing of it is imported."""
    make(folder)
    text = _check(folder)
    assert "bug in lintrain" not in text
    assert make not in ACTING or "has no argument `wrong`" in text, text


def _circle(folder: Path) -> None:
    stars = {
        f"m{number}": f"from .m{(number + 1) % 150} import *\nfrom .m{(number * 7) % 150} import *\n"
        for number in range(150)
    }
    _package(folder, __init__="from .m0 import *\n", **stars)


def _aliases(folder: Path) -> None:
    chain = "\n".join(f"N{number} = N{number + 1}" for number in range(20_000))
    _package(folder, __init__=f"Net = Trainer = N0\n{chain}\n")


def _nested(folder: Path) -> None:
    _package(folder, __init__=f"Trainer = {'(' * 190}{'-' * 3000}1{')' * 190}\nclass Net: ...\n")


def _inheriting(folder: Path) -> None:
    classes = "\n".join(
        f"class N{number}({', '.join(f'N{each}' for each in range(max(0, number - 30), number))}): ..."
        for number in range(2_000)
    )
    _package(folder, __init__=f"{classes}\nclass Trainer(N1999): ...\nNet = N1999\n")


def _wide(folder: Path) -> None:
    """More modules, and larger ones, than are read."""
    modules = {f"m{number}": f"x = [{'1,' * 100_000}]\n" for number in range(200)}
    stars = "".join(f"from .m{number} import *\n" for number in range(200))
    _package(folder, __init__=stars, **modules)


def _lists(folder: Path) -> None:
    """Metadata, lists of packages and paths without an end."""
    _plain(folder)
    site = folder / SITE
    for number in range(300):
        (site / f"other{number}-1.0.dist-info").mkdir()
        (site / f"other{number}-1.0.dist-info" / "top_level.txt").symlink_to("/dev/zero")
    (site / "acme-1.0.dist-info" / "METADATA").write_text(
        METADATA.format("acme", "1.0") + "Requires-Dist: a\n" * 10_000
    )


@attack(
    "packages-are-bounded",
    cases={each.__name__.strip("_"): each for each in (_circle, _aliases, _nested, _inheriting, _wide, _lists)},
)
def package_without_an_end(folder: Path, make: Callable[[Path], None]) -> None:
    """Whatever a package contains, a check of a script that imports it ends, and says what it says without it."""
    make(folder)
    text = _check(folder, seconds=60)
    assert "bug in lintrain" not in text


@attack("packages-are-bounded", cases=("pipe", "device", "link", "huge"))
def module_that_is_none(folder: Path, kind: str) -> None:
    """A pipe, a device, a link that leads out, or an endless file in place of a module."""
    package = _package(
        folder, __init__="from .trainers import Trainer\nfrom .nets import Net\n", nets="class Net: ...\n"
    )
    module = package / "trainers.py"
    if kind == "pipe":
        os.mkfifo(module)
    elif kind == "huge":
        module.touch()
        os.truncate(module, 60 * 10**9)
    else:
        (folder / "secret.py").write_text("class Trainer:\n    def __init__(self, secret_password): ...\n")
        module.symlink_to("/dev/zero" if kind == "device" else folder / "secret.py")
    assert "secret" not in _check(folder)
