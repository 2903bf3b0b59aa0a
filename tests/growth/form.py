"""What a form is: a text that can be made of any size, by repeating one thing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

HEAD = """\
import os, torch, transformers, datasets, evaluate
import numpy as np
import torch.nn as nn
from datasets import Dataset, load_dataset
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer, TrainingArguments
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
tok = AutoTokenizer.from_pretrained("gpt2")
raw = load_dataset("imdb")
"""

DEEPEST_BLOCKS = 90
"""The parser refuses a hundred levels of indentation."""
DEEPEST_BRACKETS = 80
"""It refuses two hundred open brackets, and a form opens up to two for each level."""

Text = Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Form:
    """A way to write something any number of times; `most` is the number above which it is no Python any more."""

    name: str
    text: Text
    most: int = 1_000_000
    file: str = "train.py"


def repeated(name: str, line: str, head: str = HEAD, tail: str = "") -> Form:
    """A statement again and again; `$` in it is the number of the repetition, `~` that of the one before."""
    return Form(name, lambda count: f"{head}{''.join(_numbered(line, number) for number in range(count))}{tail}")


def _numbered(line: str, number: int) -> str:
    return line.replace("$", str(number)).replace("~", str(max(0, number - 1))) + "\n"


def chained(name: str, start: str, more: str, end: str = "", head: str = HEAD) -> Form:
    """One expression that becomes longer: `a.b.b.b`."""
    return Form(name, lambda count: f"{head}{start}{''.join(_plain(more, number) for number in range(count))}{end}\n")


def _plain(text: str, number: int) -> str:
    return text.replace("$", str(number))


def nested(name: str, before: str, core: str, after: str, most: int = DEEPEST_BRACKETS, head: str = HEAD) -> Form:
    """An expression within itself, and as many of these as fill the text once it is as deep as the parser reads."""
    return Form(name, lambda count: head + "".join(_brackets(before, core, after, count, most)))


def _brackets(before: str, core: str, after: str, count: int, most: int) -> list[str]:
    depths = [most] * (count // most) + [count % most]
    return [f"y{number} = {before * depth}{core}{after * depth}\n" for number, depth in enumerate(depths)]


def blocks(name: str, opener: str, core: str = "opt.step()", closer: str = "", head: str = HEAD) -> Form:
    """A compound statement within itself, and as many of these as fill the text."""
    return Form(name, lambda count: head + "".join(_indented(opener, core, closer, count)))


def _indented(opener: str, core: str, closer: str, count: int) -> list[str]:
    depths = [DEEPEST_BLOCKS] * (count // DEEPEST_BLOCKS) + [count % DEEPEST_BLOCKS]
    return [_one_stack(opener, core, closer, depth) for depth in depths]


def _one_stack(opener: str, core: str, closer: str, depth: int) -> str:
    down = [f"{' ' * level}{_plain(part, level)}" for level in range(depth) for part in opener.split("\n")]
    up = [f"{' ' * level}{_plain(closer, level)}" for level in reversed(range(depth))] if closer else []
    return "\n".join([*down, " " * depth + core, *up]) + "\n"


def inside(name: str, opener: str, line: str, head: str = HEAD, tail: str = "") -> Form:
    """A statement again and again in the body of a compound one."""
    return repeated(name, "\n".join(f"    {part}" for part in line.split("\n")), f"{head}{opener}\n    pass\n", tail)


def notebook(name: str, code: str) -> Form:
    """A notebook with a cell again and again."""

    def text(count: int) -> str:
        cells = [HEAD, *(_numbered(code, number) for number in range(count))]
        made = [{"cell_type": "code", "source": cell.splitlines(keepends=True), "metadata": {}} for cell in cells]
        return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5})

    return Form(name, text, file="train.ipynb")
