"""Small files and short scripts that would fill the memory of whoever takes them at their word."""

from __future__ import annotations

from pathlib import Path

TRAINS = "for batch in torch.utils.data.DataLoader(items):\n    loss = model(batch)\n    loss.backward()\n"

DOUBLED = (
    """\
import os, torch
from pathlib import Path
from transformers import Trainer, TrainingArguments
text, items, pairs, path, entries = "ab", [1, 2], (1, 2), Path("ab"), {"a": 1}
"""
    + 60
    * (
        "text = f'{text}{text}'\npath = path / path\npairs = (pairs, pairs)\n"
        "entries = {'a': entries, 'b': entries}\ntext = os.path.join(text, text)\n"
    )
)
LISTS = "import torch\nitems = [1, 2]\n" + 60 * "items = items + [*items]\n" + "torch.nn.Sequential(*items)\n" + TRAINS
POWERS = """\
import torch
a = 10 ** 10 ** 10, 9 ** 9 ** 9 ** 9, 1 << 10 ** 12, "a" * 10 ** 12, [0] * 10 ** 12, b"a" * 10 ** 12
b = "%999999999999d" % 1, f"{1:>999999999999}", "{:>999999999999}".format(1), "a".zfill(10 ** 12), str(10 ** 5000)
c = list(range(10 ** 18)), sum(range(10 ** 18)), [i for i in range(10 ** 18)], bytes(10 ** 15), int("9" * 10 ** 6)
torch.optim.AdamW([a, b, c], lr=a)
"""


def signed(number: int, length: int) -> bytes:
    """A number as Thrift's compact protocol writes it, in more bytes than it needs."""
    return bytes((number << 1) >> 7 * at & 127 | (128 if at < length - 1 else 0) for at in range(length))


def write_empty_parts(path: Path, size: int) -> None:
    """A file of so many bytes, nearly all of them parts of columns about which nothing is said, in three groups."""
    schema = b"\x48\x01r\x15\x02\x00" + b"\x15\x02\x25\x00\x18\x01a\x00"
    number = (size - 100) // 9 // 2 * 2
    group = b"\x19\xfc" + signed(number // 2, 4) + b"\x26\x00\x00" * number + b"\x16\x00\x16\x00\x00"
    end = b"\x15\x02\x19\x2c" + schema + b"\x16\x00\x19\x3c" + group * 3 + b"\x00"
    path.write_bytes(b"PAR1" + end + len(end).to_bytes(4, "little") + b"PAR1")


def write_sparse(path: Path, start: bytes) -> None:
    """A file of ten gigabytes, of which only the start takes room."""
    path.write_bytes(start)
    with path.open("r+b") as file:
        file.truncate(10 * 2**30)
