"""Attacks by small files that cost much: time and memory of a check, its fixes and its reports."""

from __future__ import annotations

from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import assert_bounded, lintrain

HEAD = """\
import torch
import torch.nn as nn
from datasets import load_dataset
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoTokenizer, Trainer, TrainingArguments
model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
tok = AutoTokenizer.from_pretrained("gpt2")
raw = load_dataset("imdb")
"""
LOOP = "for x, y in loader:\n"
STEP = "    loss = model(x).sum()\n    loss.backward()\n    opt.step()\n"
FINDING = "TrainingArguments('o', lerning_rate=1)\n"


def numbered(line: str, count: int) -> str:
    """A line again and again; `$` is its number, `~` that of the one before."""
    return "".join(line.replace("$", str(number + 1)).replace("~", str(number)) + "\n" for number in range(count))


QUICK = {
    "steps": HEAD + LOOP + "    loss.backward(); opt.step()\n" * 400,
    "own-optimizers": HEAD
    + LOOP
    + numbered("    loss.backward(); o$ = torch.optim.SGD(model.parameters()); o$.step()", 300),
    "bases": "import torch\n" + numbered("class A$(A~, B~): pass\nclass B$(A~, B~): pass", 200) + "A200().f()\n",
    "diamonds-of-modules": HEAD
    + "class A0(nn.Module): pass\n"
    + numbered("class L$(A~): pass\nclass R$(A~): pass\nclass A$(L$, R$): pass", 100)
    + "A100()(1)\n",
    "class-chain": HEAD
    + "class A0(nn.Module): pass\n"
    + numbered("class A$(A~):\n    def forward(self, x): return super().forward(x)", 500)
    + "m = A500()\nm(1)\n",
    "class-of-itself": HEAD + "class A: pass\n" + "class A(A, A): pass\n" * 400 + "A().f()\n",
    "imported-name": "import torch, a" + ".a" * 45_000 + "\n",
    "imported-from": "import torch\nfrom a" + ".a" * 45_000 + " import b\n",
    "imported-name-over-lines": "import torch, a" + " \\\n.a" * 18_000 + "\n",
    "attributes": "import torch\ny = torch" + ".a" * 45_000 + "\n",
    "comprehension": HEAD + "y = [1 " + "for a in b " * 3_000 + "]\n",
    "comprehension-of-last": HEAD + "y = [a " + "for raw in raw " * 3_000 + "]\n",
    "f-strings": HEAD + "x = tok.eos_token\n" + "x = f'''{f\"{f'{x}{x}'}{x}\"}{x}'''\n" * 250,
    "f-string": HEAD + "y = f'" + "{x:{y}}" * 1_200 + "'\n",
    "loaders": HEAD
    + numbered(f"l$ = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2)\nfor x, y in l$:\n{STEP}", 150),
    "loops": HEAD + numbered(f"{LOOP}{STEP}", 300),
    "doubled-text": HEAD + "x = 'a'\n" + "x = x + x\n" * 3_000,
    "doubled-list": HEAD + "x = [model]\n" + "x = [*x, *x]\n" * 2_000,
    "calls-of-two": "import torch\ndef f0(a): return a\n"
    + numbered("def f$(a): return f~(f~(a)) + f~(a)", 300)
    + "f300(torch.ones(1))\n",
    "branches": HEAD + numbered("if a$: x$ = model\nelse: x$ = opt", 1_000),
    "escapes": HEAD + LOOP + numbered("    helper$(model, opt); loss.backward(); o$.step()", 300),
    "metrics": HEAD
    + numbered("def m$(p): return {'a': p.predictions.argmax(-1)}\nTrainer(model, compute_metrics=m$)", 200),
    "modules-in-modules": HEAD + "m0 = model\n" + numbered("m$ = nn.Sequential(m~, m~)", 500) + "m500(1)\n",
    "names": HEAD + "".join(f"nowhere{number}()\n" for number in range(900)),
    "comments": HEAD + (FINDING[:-1] + "  # lintrain: ignore[unknown-argument]\n") * 900,
}
"""Files of which some took minutes or gigabytes, and their neighbours."""

LARGE = {
    "steps": HEAD + LOOP + "    loss.backward(); opt.step()\n" * 2_800,
    "class-chain": "import torch\nclass A0(torch.nn.Module): pass\n"
    + numbered("class A$(A~): pass", 4_000)
    + "A4000()(1)\n",
    "loops": HEAD + numbered(f"{LOOP}{STEP}", 1_000),
    "escapes": HEAD + LOOP + numbered("    helper$(model, opt); loss.backward(); o$.step()", 1_700),
    "branches": HEAD + numbered("if a$: x$ = model", 3_500),
    "loaders": HEAD + numbered(f"l$ = DataLoader(raw, batch_size=2)\nfor x, y in l$:\n{STEP}", 700),
    "names": HEAD + "".join(f"nowhere{number}()\n" for number in range(6_000)),
}
"""The same at nearly 100 KB."""


@attack("small-files-are-cheap", cases=QUICK)
def code_repeated(folder: Path, text: str) -> None:
    _check(folder, text)


@attack("small-files-are-cheap", cases=LARGE, slow=True)
def code_repeated_to_100_kilobytes(folder: Path, text: str) -> None:
    _check(folder, text)


def _check(folder: Path, text: str) -> None:
    assert len(text) < 100_000
    (folder / "train.py").write_text(text)
    assert_bounded(lintrain(folder, "check", "--isolated", "train.py"))


@attack(
    "small-files-are-cheap",
    cases={
        "fix": ["--fix"],
        "diff": ["--diff"],
        "add-ignores": ["--add-ignores", "cost"],
        "full": ["--output-format", "full"],
    },
)
def findings_by_the_hundred(folder: Path, words: list[str]) -> None:
    (folder / "train.py").write_text(HEAD + FINDING * 900)
    assert_bounded(lintrain(folder, "check", "--isolated", "train.py", *words))


@attack("small-files-are-cheap", cases=("sarif", "html", "rdjson", "github"), slow=True)
def findings_by_the_hundred_in_every_form(folder: Path, form: str) -> None:
    (folder / "train.py").write_text(HEAD + FINDING * 900)
    assert_bounded(lintrain(folder, "check", "--isolated", "train.py", "--output-format", form))
