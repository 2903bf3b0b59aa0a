"""What the reading process makes of a package: re-exports, signatures, what constructors hand on, and its limits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from lintrain.installed import reading, trees
from lintrain.installed.facts import Facts
from tests.conftest import ROOT


def package(folder: Path, **files: str) -> Path:
    """A package `acme`, its modules by name; `a__b` is the module `b` in the folder `a`."""
    for name, text in files.items():
        file = folder / "site-packages" / "acme" / f"{name.replace('__', '/') if name != '__init__' else name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
    return folder / "site-packages"


def read(folder: Path, *paths: str) -> list[Facts]:
    """What is known about names of the package `acme`."""
    answer = json.loads(json.dumps(reading.answer(str(folder), "acme", paths)))
    return [Facts.of(answer["facts"][path]) for path in paths]


@pytest.mark.parametrize(
    ("signature", "items"),
    [
        ("a, b=1, *, c=-0.5, **rest", ("a", "b=1", "*", "c=-0.5", "**rest")),
        ("a, /, b='x', *args, c", ("a", "/", "b='x'", "*args", "c")),
        ("a=None, b=len, c=(), d=1e999, e=-True, f='" + "x" * 300 + "'", ("a=None", "b=?", "c=?", "d=?", "e=?", "f=?")),
        ("", ()),
    ],
)
def test_a_signature_is_written_in_the_notation_of_the_tables(
    tmp_path: Path, signature: str, items: tuple[str, ...]
) -> None:
    (facts,) = read(package(tmp_path, __init__=f"def build({signature}): ...\n"), "acme.build")
    assert (facts.kind, facts.items) == ("function", items)


@pytest.mark.parametrize("decorator", ["deprecated_arguments('old')", "cache", "app.command()"])
def test_what_a_decorator_may_change_is_not_known(tmp_path: Path, decorator: str) -> None:
    (facts,) = read(package(tmp_path, __init__=f"@{decorator}\ndef build(a): ...\n"), "acme.build")
    assert facts.items is None


@pytest.mark.parametrize(
    ("files", "where"),
    [
        ({"__init__": "from .a import Net", "a": "class Net: ..."}, "acme.a.Net"),
        ({"__init__": "from .a import *", "a": "from acme.b import Net as Net", "b": "class Net: ..."}, "acme.b.Net"),
        ({"__init__": "from . import a\nNet = a.Inner", "a": "class Inner: ..."}, "acme.a.Inner"),
        ({"__init__": "import acme.a as other\nNet = other.Inner", "a": "class Inner: ..."}, "acme.a.Inner"),
        ({"__init__": "_lazy = {'a': ['Net']}\ndef __getattr__(name): ...", "a": "class Net: ..."}, "acme.a.Net"),
        ({"__init__": "class Net: ...\nclass Net(int): ..."}, "acme.Net"),
        ({"__init__": "from .a import *\nfrom .b import *", "a": "from .b import *", "b": "from .a import *"}, ""),
        ({"__init__": "try:\n    from .a import Net\nexcept ImportError:\n    Net = None", "a": "class Net: ..."}, ""),
        ({"__init__": "Net = Net2\nNet2 = Net"}, ""),
        ({"__init__": "from .a import Net", "a": "class Net(:"}, ""),
    ],
)
def test_a_name_is_followed_to_its_definition(tmp_path: Path, files: Mapping[str, str], where: str) -> None:
    (facts,) = read(package(tmp_path, **files), "acme.Net")
    assert facts.defined_as == where


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"__init__": "A = 1"}, "missing"),
        ({"__init__": "from .a import *", "a": "B = 1"}, "missing"),
        ({"__init__": "from torch import *"}, "unknown"),
        ({"__init__": "", "Net": ""}, "unknown"),
        ({"__init__": "def __getattr__(name): ..."}, "unknown"),
        ({"__init__": "globals().update(names)"}, "unknown"),
        ({"__init__": "from .a import prepare\nprepare()", "a": "def prepare(): ..."}, "unknown"),
        ({"__init__": "import warnings\nwarnings.simplefilter('ignore')"}, "missing"),
        ({"__init__": "Net = 1"}, "unknown"),
        ({"__init__": "if x:\n    Net = 1"}, "unknown"),
        ({"__init__": "from .a import *", "a": "class Broken(:"}, "unknown"),
        ({"__init__": "from transformers import Net"}, "other"),
        ({"__init__": "import sys\nsys.modules[__name__] = _LazyModule(__name__)", "a": "class Net: ..."}, "unknown"),
        ({"__init__": "import sys\nsys.modules[__name__] = _LazyModule(__name__)", "a": "x = ['Net']"}, "unknown"),
        ({"__init__": "import sys\nsys.modules[__name__] = _LazyModule(__name__)", "a": "Nets = Net2"}, "missing"),
    ],
)
def test_a_name_is_missing_only_if_nothing_can_make_it(tmp_path: Path, files: Mapping[str, str], kind: str) -> None:
    (facts,) = read(package(tmp_path, **files), "acme.Net")
    assert facts.kind == kind


def test_the_modules_of_an_editable_installation_are_not_searched(tmp_path: Path) -> None:
    site = package(tmp_path, __init__="import sys\nsys.modules[__name__] = _LazyModule(__name__)")
    (facts,) = read(site.rename(tmp_path / "checkout"), "acme.Net")
    assert facts.kind == "unknown"


BASE = "from transformers import Trainer\nclass Net(Trainer):\n    def __init__(self, {0}):\n        {1}\n"


@pytest.mark.parametrize(
    ("parameters", "body", "handed", "opaque"),
    [
        ("model, **rest", "super().__init__(model=model, **rest)", {"model": "model"}, ()),
        ("net, args", "Trainer.__init__(self, net, args=args)", {"0": "net", "args": "args"}, ()),
        ("model, n", "self.n = n\n        super().__init__(model, n + 1)", {"0": "model"}, ("1",)),
        ("model, args", "args.fp16 = True\n        super().__init__(model, args)", {"0": "model"}, ("1",)),
        ("model, args", "prepare(args)\n        super().__init__(model, args)", {"0": "model"}, ("1",)),
        ("model", "model = model or 1\n        super().__init__(model)", {}, ("0",)),
        ("model", "assert model is not None, model.name\n        super().__init__(model)", {"0": "model"}, ()),
        ("model", "if model:\n            super().__init__(model)", None, ()),
        ("model", "super().__init__(model)\n        super().__init__(None)", None, ()),
        ("model, **rest", "rest.pop('x')\n        super().__init__(model, **rest)", None, ()),
        ("model, **rest", "super().__init__(model, **fixed(rest))", None, ()),
        ("model", "pass", None, ()),
    ],
)
def test_what_a_constructor_hands_on_unchanged(
    tmp_path: Path, parameters: str, body: str, handed: dict[str, str] | None, opaque: tuple[str, ...]
) -> None:
    (facts,) = read(package(tmp_path, __init__=BASE.format(parameters, body)), "acme.Net")
    assert facts.bases == ("transformers.Trainer",)
    assert (facts.handed, facts.opaque) == (handed, opaque)


def test_constructors_are_followed_over_several_classes(tmp_path: Path) -> None:
    code = """
    from transformers.trainer import Trainer

    class First(Trainer):
        def __init__(self, net, settings=None, rows=None, **more):
            super().__init__(net, settings, train_dataset=rows, **more)

    class Net(First):
        def __init__(self, *given, extra=1, **named):
            super().__init__(*given, rows=load(extra), **named)
    """
    (facts,) = read(package(tmp_path, __init__=code), "acme.Net")
    assert facts.items == ("<transformers.Trainer", "net", "settings=None", "extra=1")
    assert facts.positional == ("net", "settings", "rows")
    assert facts.handed == {"0": "net", "1": "settings"}
    assert (facts.opaque, facts.hands_rest) == (("train_dataset",), True)


@pytest.mark.parametrize(
    ("code", "items"),
    [
        ("class Net(Unheard): ...", None),
        ("class Net(metaclass=Meta): ...", None),
        ("class Net(metaclass=abc.ABCMeta): ...", ()),
        ("class Net:\n    def __new__(cls, a): ...", None),
        ("@wrapped\nclass Net:\n    def __init__(self, a): ...", None),
        ("class Net(Net): ...", None),
        ("class Net: ...", ()),
        ("class Net:\n    def __init__(self, a): ...", ("a",)),
        (
            "class Base:\n    def __init__(self, b=1, **rest): ...\n"
            "class Net(Base):\n    def __init__(self, a, **rest):\n        super().__init__(**rest)\n",
            ("b=1", "a", "**rest"),
        ),
        ("import torch\nclass Net(torch.nn.Module):\n    def __init__(self, a): ...", ("a",)),
        ("import torch\nclass Net(torch.nn.Module): ...", ("<torch.nn.Module",)),
        ("from dataclasses import dataclass\n@dataclass\nclass Net:\n    a: int\n    b: str = 'x'\n", ("a", "b='x'")),
        (
            "from dataclasses import dataclass, field\n@dataclass\nclass Net:\n    a: int\n"
            "    b: str = field(init=False, repr=False)\n    c: int = field(init=True, default=1)\n",
            ("a", "c=1"),
        ),
    ],
)
def test_what_making_an_object_accepts(tmp_path: Path, code: str, items: tuple[str, ...] | None) -> None:
    (facts,) = read(package(tmp_path, __init__=code), "acme.Net")
    assert facts.items == items


def test_the_inputs_of_a_model_are_those_of_the_nearest_forward(tmp_path: Path) -> None:
    code = """
    import torch.nn as nn

    class Base(nn.Module):
        def forward(self, pixel_values, labels=None): ...

    class Net(Base): ...

    class Other(Base):
        @can_return_tuple
        def forward(self, input_ids, *, labels=None, **kwargs): ...
    """
    net, other = read(package(tmp_path, __init__=code), "acme.Net", "acme.Other")
    assert net.forward == ("pixel_values", "labels")
    assert other.forward == ("input_ids", "labels", "kwargs")
    assert net.bases == ("torch.nn.Module",)


OPENED = """
import json, sys
from lintrain.installed import reading
folder, name, *paths = sys.argv[1:]
reading.answer(folder, "warming", ["warming.up"])
opened = []
def hear(event, values):
    if event == "open" and isinstance(values[0], str):
        opened.append(str(values[0]))
    elif event in ("import", "exec", "compile") or event.startswith(("os.exec", "os.fork", "subprocess", "socket")):
        if event != "compile" and not str(values[0]).startswith(("encodings", "stringprep")):
            opened.append(f"{event} {values}")
sys.addaudithook(hear)
reading.answer(folder, name, paths)
print(json.dumps(opened))
"""


def opened_for(site: Path, name: str, *paths: str) -> list[str]:
    """The files that are opened for names of a package, and what else happens that should not."""
    given = [sys.executable, "-c", OPENED, str(site), name, *paths]
    done = subprocess.run(given, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [str(each) for each in json.loads(done.stdout)]


def test_only_the_modules_concerned_are_opened_and_nothing_is_imported(tmp_path: Path) -> None:
    code = """
    import torch, numpy, transformers
    from . import other
    from .models import Net

    torch.backends.x = 1
    numpy.y.z = torch
    """
    models = "from transformers import Trainer\nclass Net(Trainer):\n    def f(self):\n        self.model.x = 1\n"
    site = package(tmp_path, __init__=code, models=models, other="raise SystemExit")
    expected = [str(site / "acme" / f"{name}.py") for name in ("__init__", "models")]
    assert opened_for(site, "acme", "acme.Net") == expected


def test_a_large_library_takes_seconds_at_most(tmp_path: Path) -> None:
    classes = (f"class Net{number}(Net{number - 1}):\n    def f(self, a=1): return a" for number in range(1, 5000))
    many = "\n".join(classes)
    site = package(tmp_path, __init__=f"class Net0: ...\n{many}\n")
    began = time.process_time()
    (facts,) = read(site, "acme.Net4999")
    assert time.process_time() - began < 20
    assert (facts.kind, facts.is_closed) == ("class", False)


def make_fifo(folder: Path) -> None:
    os.mkfifo(folder / "a.py")


def make_huge(folder: Path) -> None:
    with (folder / "a.py").open("wb") as file:
        file.truncate(trees.LARGEST_FILE + 1)


def make_device(folder: Path) -> None:
    (folder / "a.py").symlink_to("/dev/zero")


def make_link_out(folder: Path) -> None:
    (folder.parent / "secret.py").write_text("class Net: ...")
    (folder / "a.py").symlink_to(folder.parent / "secret.py")


def make_folder_out(folder: Path) -> None:
    (folder.parent / "secret").mkdir()
    (folder.parent / "secret" / "__init__.py").write_text("class Net: ...")
    (folder / "a").symlink_to(folder.parent / "secret")


def make_nested(folder: Path) -> None:
    (folder / "a.py").write_text(f"Net = {'(' * 5_000}1{')' * 5_000}\n")


def make_deep(folder: Path) -> None:
    (folder / "a.py").write_text(f"Net = {'-' * 20_000}1\n")


def make_long_sum(folder: Path) -> None:
    (folder / "a.py").write_text(f"Net = {'1 + ' * 20_000}1\n")


def make_bytes(folder: Path) -> None:
    (folder / "a.py").write_bytes(b"# coding: rot13\nclass Net: \xff\0")


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")
@pytest.mark.parametrize(
    "make",
    [
        *(make_fifo, make_huge, make_device, make_link_out, make_folder_out, make_nested, make_deep, make_long_sum),
        make_bytes,
    ],
)
def test_what_is_no_module_makes_its_names_unknown(tmp_path: Path, make: Any) -> None:
    site = package(tmp_path, __init__="from .a import Net\nclass Known: ...\n")
    make(site / "acme")
    program = "import sys; from lintrain.installed.reading import main; main()"
    asked = json.dumps([str(site), "acme", ["acme.Net", "acme.Known"]]) + "\n"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=asked,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)["facts"]
    assert (facts["acme.Net"]["kind"], facts["acme.Known"]["kind"]) == ("unknown", "class")
