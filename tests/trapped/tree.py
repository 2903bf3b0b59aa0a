"""Makes the project: files, notebooks, configuration, data and a repository that would act if anything ran them."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import zipfile
from itertools import pairwise
from pathlib import Path

from tests.trapped.bombs import DOUBLED, LISTS, POWERS, write_empty_parts, write_sparse

TRAIN = """\
import torch
import lintrain, click, ast, yaml, pandas as pd
from helpers import make
from torch.utils.data import DataLoader
from datasets import load_dataset
from transformers import AutoModel, Trainer, TrainingArguments

for name in ["pipe.csv", "zero.json"]:
    frame = pd.read_csv(name)
a = load_dataset("csv", data_files="pipe.csv")
b = load_dataset("json", data_files="zero.json")
c = load_dataset("parquet", data_files="bad.parquet")
d = yaml.load(open("tags.yaml"), Loader=yaml.Loader)
e = yaml.safe_load(open("pipe.csv"))
f = torch.load("bomb.zip")
g = load_dataset("csv", data_files="bomb.csv.gz")
h = load_dataset("csv", data_files="/dev/zero")
i = TrainingArguments(**yaml.safe_load(open("/dev/zero")))
j = open("bad\\0name.json").read()
k = load_dataset("parquet", data_files="parts.parquet")
l = load_dataset("csv", data_files=["sparse.csv", "loop.csv", "../" * 500 + "dev/zero", "**/*" * 99])
m = load_dataset("json", data_files="sparse.json")
n = TrainingArguments(**yaml.safe_load(open("laughs.yaml")))
o = AutoModel.from_pretrained("deep")
model = make()
optimizer = torch.optim.AdamW(model.parameters())
for batch in DataLoader(a):
    loss = model(batch).loss
    loss.backward()
    optimizer.step()
trainer = Trainer(model=model, train_dataset=a, args=TrainingArguments("out", evaluation_strategy="epoch"))
trainer.train()
print(undefined_name)
"""
"""A script with mistakes, so that every rule is asked, which names everything that a reader might open."""

SHADOWS = (
    *("conftest", "sitecustomize", "usercustomize", "lintrain", "ast", "click", "helpers", "tokenize", "encodings"),
    *("torch/__init__", "transformers/__init__", "datasets/__init__", "yaml/__init__", "rules/data/raw_dataset"),
    *("lintrain_rules/x/y", "setup", "noxfile", "ruff", "pathspec/__init__", "pydantic/__init__", "libcst/__init__"),
)
"""Modules that run in the place of what they are called after, wherever this folder is imported from."""

FILTERS = """
[core]
    fsmonitor = {trap} fsmonitor
    hooksPath = hooks
[filter "evil=er"]
    clean = {trap} clean
    process = {trap} process
    required = true
[diff "evil"]
    command = {trap} command
    textconv = {trap} textconv
[diff]
    external = {trap} external
[remote "origin"]
    url = ext::{trap} fetch
    promisor = true
[core]
    sshCommand = {trap} ssh
    pager = {trap} pager
[alias]
    diff = !{trap} alias
"""


def trap_of(marks: Path, name: str) -> str:
    """Python that leaves a mark."""
    return f"open({str(marks / name.replace('/', '-'))!r}, 'w').write('ran')\n"


def build(folder: Path, marks: Path) -> None:
    """Make the project in a folder; whatever of it runs leaves a file in `marks`."""
    for name in SHADOWS:
        file = folder / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"import torch\n{trap_of(marks, name)}def make(): ...\n")
    (folder / "train.py").write_text(TRAIN)
    (folder / "decorated.py").write_text(f"import torch\n@exec\n@eval({trap_of(marks, 'decorator')!r})\nclass A: ...\n")
    _notebooks(folder, marks)
    _oddities(folder)
    _data(folder)
    _inner(folder / "inner", marks)
    _links(folder)
    _configuration(folder)
    _environment(folder, marks)
    _kept(folder)
    _repository(folder, marks)


def _environment(folder: Path, marks: Path) -> None:
    """Installed packages that act when anything imports them, and a script that uses one."""
    site = folder / ".venv" / "lib" / "python3.11" / "site-packages"
    for name in ("firm/__init__", "firm/parts", "astroid/__init__", "sitecustomize", "lintrain/__init__"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        code = f"{trap_of(marks, f'installed {name}')}from .parts import Net\nclass Net: ...\n"
        (site / f"{name}.py").write_text(code)
    (site / "a.pth").write_text(f"import os; {trap_of(marks, 'path')}")
    (site / "firm-1.0.dist-info").mkdir()
    (site / "firm-1.0.dist-info" / "METADATA").write_text("Requires-Dist: torch\n")
    (folder / "firms.py").write_text("import torch\nfrom firm import Net, build\nbuild(Net()).backward()\n")


def _notebooks(folder: Path, marks: Path) -> None:
    shell = f"touch {marks / 'shell'}"
    magics = f"!{shell}\n%%bash\n%run helpers.py\nx = !{shell}\n%load_ext helpers\n"
    source = f"{magics}import torch\n%time {trap_of(marks, 'time')}"
    output = {"output_type": "stream", "name": "stdout", "text": ["x" * 1_000_000]}
    cell: dict[str, object] = {
        "cell_type": "code",
        "source": source,
        "metadata": {},
        "outputs": [output],
        "execution_count": None,
    }
    (folder / "magics.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    (folder / "odd.ipynb").write_text(
        '{"cells": [], "cells": [{"cell_type": "code", "source": NaN}], "nbformat": 1e999}'
    )
    metadata = {"kernelspec": {"name": "../../x", "language": f"!{shell}"}, "lintrain": {"rules": "helpers"}}
    odd = {
        **cell,
        "id": "../" * 99,
        "attachments": {"a": {"text/html": "<script>"}},
        "source": ["import torch\n", "x = '\ud800'"],
    }
    (folder / "strange.ipynb").write_text(json.dumps({"cells": [odd], "metadata": metadata, "nbformat": 4}))
    (folder / "digits.ipynb").write_text('{"cells": [], "nbformat": ' + "9" * 100_000 + "}")
    (folder / "deep.ipynb").write_text('{"cells": ' + "[" * 100_000 + "]" * 100_000 + "}")


def _oddities(folder: Path) -> None:
    (folder / "bidi.py").write_text("import torch\nx = '\u202e\u2066 \x1b]0;title\x07'  # \u202d\nprint(y\u200b)\n")
    (folder / "null.py").write_bytes(b"import torch\n\0")
    (folder / "codec.py").write_bytes(b"# coding: undefined\nimport torch # \xe9\n")
    (folder / "long.py").write_text(f"import torch\nx = '{'a' * 2_500_000}'\ny = [{'1, ' * 50_000}]\n")
    (folder / "nested.py").write_text(f"import torch\nx = {'[' * 150}{']' * 150}\ny = {'-' * 5000}1\n")
    (folder / "blank_test.py").write_text("import torch\n" + "\n" * 60_000)
    (folder / "silent.py").write_text(f"import torch\n# lintrain: ignore[{'a,' * 50_000}b] {' ' * 100_000}x\n")
    (folder / "spaces.py").write_text(f"import torch\nfrom {' ' * 100_000}x\nfrom {'.' * 50_000} y\n")
    (folder / ("a" * 30 + ".py")).write_text("import torch\n")
    (folder / "loop").symlink_to(folder)
    (folder / "self.py").symlink_to("self.py")
    (folder / "outside.py").symlink_to("/etc/passwd")
    (folder / "endless.py").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe.py")


def _data(folder: Path) -> None:
    os.mkfifo(folder / "pipe.csv")
    (folder / "zero.json").symlink_to("/dev/zero")
    (folder / "bad.parquet").write_bytes(b"PAR1" + b"\xff" * 1000 + b"PAR1")
    (folder / "tags.yaml").write_text("!!python/object/apply:os.system ['touch ran']\n")
    (folder / "bomb.csv.gz").write_bytes(gzip.compress(b"\0" * 50_000_000))
    with zipfile.ZipFile(folder / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.pkl", b"\0" * 50_000_000)


def _inner(folder: Path, marks: Path) -> None:
    """A project of its own, in which no module stands in a library's place, so that what scripts name is looked at."""
    folder.mkdir()
    (folder / "setup.py").write_text(trap_of(marks, "inner-setup"))
    (folder / "train.py").write_text(TRAIN)
    _data(folder)
    _bombs(folder)


def _bombs(folder: Path) -> None:
    for name, code in {"doubled": DOUBLED, "lists": LISTS, "powers": POWERS}.items():
        (folder / f"{name}.py").write_text(code)
    write_empty_parts(folder / "parts.parquet", 8_000_000)
    write_sparse(folder / "sparse.csv", b"label,text\n")
    write_sparse(folder / "sparse.json", b'[{"label": 1}')
    write_sparse(folder / "sparse.py", b"import torch\n")
    laughs = [f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]" for before, name in pairwise("abcdefghijklm")]
    (folder / "laughs.yaml").write_text("\n".join(["a: &a [1]", *laughs]) + "\n")
    (folder / "deep").mkdir()
    (folder / "deep" / "config.json").write_text('{"a": ' * 100_000 + "1" + "}" * 100_000)


def _links(folder: Path) -> None:
    for name, other in (("to.py", "fro.py"), ("to.ipynb", "fro.ipynb"), ("loop.csv", "pool.csv")):
        (folder / name).symlink_to(other)
        (folder / other).symlink_to(name)
    (folder / "up").mkdir()
    (folder / "up" / "up").symlink_to("../up")
    for name in ("setup.cfg", "poetry.lock", "environment.yml"):
        (folder / name).symlink_to(name)


def _configuration(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[project]\nname = "x"\ndependencies = ["torch' + " " * 100_000 + '"]\n[tool.lintrain]\n'
        'exclude = ["../../*", "/etc", "' + "*a" * 40 + 'b"]\nbaseline = "../../../../etc/passwd"\n'
        '[tool.lintrain.per-file-ignores]\n"/../**/*" = ["raw-dataset"]\n'
    )
    (folder / "ruff.toml").write_text('extend = "/dev/zero"\n')
    (folder / ".gitignore").write_text("*a*a*a*a*a*a*a*b\n**/a/**/a/**/a/**/a/**/a/**/b\n")
    (folder / "requirements.txt").symlink_to("/dev/zero")
    os.mkfifo(folder / "uv.lock")
    (folder / "many-requirements.txt").write_text("torch" + " " * 100_000 + "x\n-r /etc/passwd\n--index-url x\n")


def _kept(folder: Path) -> None:
    """Answers of a check as the repository would have them."""
    for cache in (folder / ".lintrain_cache", folder / ".cache" / "lintrain", folder / "lintrain"):
        for name in ("files/a", "runs/a", "verdicts/a"):
            (cache / name).parent.mkdir(parents=True, exist_ok=True)
            (cache / name).write_text("[]")


def _repository(folder: Path, marks: Path) -> None:
    """A repository with one commit, whose configuration and hooks would start programs."""
    trap = marks.parent / "trap.sh"
    trap.write_text(f'#!/bin/sh\necho ran > "{marks}/git-$1"\ncat\n')
    trap.chmod(0o755)
    git(folder, "init", "-q")
    (folder / ".gitattributes").write_text("train.py filter=evil=er diff=evil\n")
    git(folder, "add", "train.py", "decorated.py", ".gitattributes")
    git(folder, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x")
    (folder / "hooks").mkdir()
    for name in ("post-index-change", "pre-auto-gc", "reference-transaction"):
        hook = folder / "hooks" / name
        hook.write_text(f"#!/bin/sh\nexec {trap} {name}\n")
        hook.chmod(0o755)
    with (folder / ".git" / "config").open("a") as file:
        file.write(FILTERS.format(trap=trap))
    os.utime(folder / "train.py", (1, 1))  # as large as it was, so git has to read it to know


def git(folder: Path, *words: str) -> None:
    """Let git do something, as its user would."""
    subprocess.run(["git", *words], cwd=folder, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
