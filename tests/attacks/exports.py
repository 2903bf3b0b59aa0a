"""Attacks on `exports-hold-what-was-measured`: a probed script meddles with what its probe writes for others."""

from __future__ import annotations

import contextlib
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import lintrain, quick_python

FAILING = """
import json, os
import torch
from torch import nn

SECRET = {secret!r}
kept = os.path.join(json.load(open(os.environ["LINTRAIN_PROBE_REQUEST"]))["temporary"], "kept")
os.makedirs(kept, exist_ok=True)
{meddling}

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.utils.data.TensorDataset(torch.rand(8, 3), torch.zeros(8).long())
loader = torch.utils.data.DataLoader(rows, batch_size=4)
for x, y in loader:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""

MEDDLING = {
    "link-to-a-file": "os.symlink(SECRET, os.path.join(kept, 'notes.txt'))",
    "link-to-a-folder": "os.symlink(os.path.dirname(SECRET), os.path.join(kept, 'notes'))",
    "link-where-it-writes": "[os.symlink(SECRET, kept + n) for n in ('/repro.py', '/README.md', '/requirements.txt')]",
    "pipe": "os.mkfifo(os.path.join(kept, 'notes.txt'))",
    "recipe-of-numbers": "json.dump = lambda recipe, file: file.write('[1, 2]')",
    "recipe-of-texts": "json.dump = lambda recipe, file: file.write(repr({'stage': [1]}).replace(chr(39), chr(34)))",
    "endless": "os.symlink('/dev/zero', os.path.join(kept, 'batch.bin'))",
    "sparse": "open(os.path.join(kept, 'rows.bin'), 'wb').truncate(10**11)",
    "folders": "os.makedirs(os.path.join(kept, 'repro.py', 'README.md'))",
    "many": "[open(os.path.join(kept, str(n)), 'w').close() for n in range(5_000)]",
}


@attack("exports-hold-what-was-measured", cases=MEDDLING, slow=True)
def meddled_reproduction(folder: Path, meddling: str) -> None:
    """The folder of a reproduction, which is meant to be sent away."""
    secret = folder / "home" / "secret"
    secret.parent.mkdir()
    secret.write_text("a secret of the user")
    project = folder / "project"
    project.mkdir()
    (project / "train.py").write_text(FAILING.format(secret=str(secret), meddling=meddling))
    ended = lintrain(project, "probe", "--no-cache", "--export-repro", "out", "train.py")
    assert ended.code == 1, ended.text[-2000:]
    assert ended.peak_bytes < 2**30
    assert secret.read_text() == "a secret of the user"
    for path in (project / "out").rglob("*"):
        assert not path.is_symlink(), path
        assert path.is_dir() or b"a secret of the user" not in path.read_bytes(), path


REPRO_WRITER = """
import atexit, json, os
kept = os.path.join(json.load(open(os.environ["LINTRAIN_PROBE_REQUEST"]))["temporary"], "kept")
os.makedirs(kept, exist_ok=True)
lines = [{line!r}, "raise RuntimeError('mat1 and mat2')"]
from lintrain.runtime.reproduction import reproducer
reproducer.Reproducer._recipe = lambda self, error: {{"raised_by": "the model", "lines": lines}}
"""


@attack(
    "exports-hold-what-was-measured",
    cases={"a-file": "open({target!r}, 'w').write('x')", "a-program": "import os; os.system('touch ' + {target!r})"},
)
def reproduction_that_acts(folder: Path, line: str) -> None:
    """The reproduction is tried out; what the script put into it runs within the layer, as the script does."""
    target = folder / "target"
    meddling = REPRO_WRITER.format(line=line.format(target=str(target)))
    (folder / "train.py").write_text(FAILING.format(secret="", meddling=meddling))
    ended = lintrain(folder, "probe", "--no-cache", "--export-repro", "out", "train.py")
    assert "does not occur outside of the script" in ended.text, ended.text[-2000:]
    assert not target.exists()


@attack(
    "exports-hold-what-was-measured",
    cases={
        "single-quotes": "a' + __import__('os').system('touch owned') + '.py",
        "docstring": 'a"""\nimport os; os.system("touch owned")\n""".py',
        "backslash": "a\\n.py",
        "braces": "{place}.py",
    },
)
def script_named_like_code(folder: Path, name: str) -> None:
    """`--write-tests` and `--export-repro` put the name of the script into code."""
    body = FAILING.format(secret="", meddling="").replace("torch.rand(8, 3)", "torch.rand(8, 4)")
    (folder / name).write_text(body)
    ended = lintrain(folder, "probe", "--no-cache", *quick_python(), "--write-tests", "test_it.py", "--", name)
    assert ended.code in (0, 1), ended.text[-2000:]
    code = (folder / "test_it.py").read_text()
    namespace: dict[str, object] = {}
    head = code[: code.index("@pytest.fixture")].replace("import lintrain\n", "").replace("import torch\n", "")
    with contextlib.chdir(folder):
        exec(compile(head, "test_it.py", "exec"), {**namespace, "__file__": str(folder / "test_it.py")})
    assert not (folder / "owned").exists()
