"""The inputs, each told by a seed and its number alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.fuzz import seeds
from tests.fuzz.grammar import Growth
from tests.fuzz.mutating import damage_bytes, damage_notebook, damage_text, written
from tests.support.notebooks import notebook

MAGICS = (
    "%pip install transformers==4.30 torch",
    "!ls $model",
    "%%time",
    "%matplotlib inline",
    "?Trainer",
    "x = !cat {args}",
    "%%bash\nrm",
    "get_ipython().run_line_magic('x', '')",
    "%load_ext",
    "trainer.train?",
    "#md text",
    "    indented = 1",
    "await x",
    "%",
    "!",
    "%%",
    "return 3",
    ";",
    "x;",
)


@dataclass(frozen=True, slots=True)
class Input:
    """A file that lintrain is given: its name tells a script from a notebook."""

    name: str
    raw: bytes

    @property
    def lines(self) -> int:
        """How many lines it has, however they end."""
        return max(self.raw.count(b"\n"), self.raw.count(b"\r")) + 1


def grown(random: Random) -> str:
    """A script that the grammar gives."""
    return Growth(random, {"page": seeds.page, "donor": seeds.donor, "endless": endless}).grow("script") + "\n"


def endless(random: Random) -> str:
    """A number that Python refuses to write in decimal digits, or one at the end of what computers count with."""
    return random.choice(
        ("0x" + "f" * 4000, str(2**63), str(-(2**31)), str(2**64), "1" * 4299, "1e308 * 10", "float('inf')")
    )


def make_script(random: Random) -> Input:
    """A script of the grammar, as it is."""
    return Input("train.py", grown(random).encode("utf-8", "surrogatepass"))


def make_example(random: Random) -> Input:
    """An example or fixture with damaged text."""
    return Input("train.py", damage_text(random, random.choice(seeds.scripts())).encode("utf-8", "surrogatepass"))


def make_damaged(random: Random) -> Input:
    """A script with damaged bytes, which mostly is none any more."""
    text = grown(random) if random.random() < 0.3 else random.choice(seeds.scripts())
    return Input("train.py", damage_bytes(random, text.encode("utf-8", "surrogatepass")))


def make_test(random: Random) -> Input:
    """A script under a name that means unit tests, or a module that nobody runs."""
    name = random.choice(
        ("test_train.py", "__init__.py", "conftest.py", "train.pyi", "имя файла.py", "x" * 200 + ".py")
    )
    head = random.choice(("", "import pytest\n", "import unittest\n"))
    return Input(name, (head + random.choice(seeds.scripts())).encode("utf-8", "surrogatepass"))


def make_notebook(random: Random) -> Input:
    """A notebook of a script's lines and magics, its JSON damaged in half of them."""
    text = grown(random) if random.random() < 0.3 else random.choice(seeds.scripts())
    cells = cells_of(random, text.split("\n"))
    document: Any = json.loads(notebook(*cells, as_lists=random.random() < 0.7))  # Any: whatever JSON holds
    shipped = [raw for suffix, raw in seeds.shipped() if suffix == ".ipynb"]
    if shipped and random.random() < 0.1:
        document = json.loads(random.choice(shipped))
    if random.random() < 0.5:
        for _ in range(random.randint(1, 3)):
            document = damage_notebook(random, document)
    raw = written(random, document)
    return Input("train.ipynb", damage_bytes(random, raw) if random.random() < 0.1 else raw)


def cells_of(random: Random, lines: Sequence[str]) -> list[str]:
    """The lines in cells, parted where a new statement starts, mostly, with magics among them."""
    cells = [list[str]()]
    for line in lines:
        if (
            cells[-1]
            and random.random() < 0.2
            and (not line.startswith((" ", ")", "]", "}")) or random.random() < 0.05)
        ):
            cells.append([])
        if random.random() < 0.05:
            cells[-1].append(random.choice(MAGICS))
        cells[-1].append(line)
    return ["\n".join(cell) for cell in cells]


MAKERS: Sequence[tuple[Callable[[Random], Input], int]] = (
    (make_script, 35), (make_example, 38), (make_damaged, 10), (make_test, 3), (make_notebook, 14),
)  # fmt: skip
"""Each with its share of a hundred."""


def make_input(seed: int, number: int) -> Input:
    """The input of a number: always the same for a seed."""
    random = Random(f"{seed}:{number}")
    makers, shares = zip(*MAKERS, strict=True)
    maker: Callable[[Random], Input] = random.choices(makers, shares)[0]
    return maker(random)
