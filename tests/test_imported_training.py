"""Which scripts train by what they import from their project."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.check.imported_training import imports_training
from lintrain.source.project import Project
from lintrain.source.source import Source

LOOPS = """
from torch import optim

def epoch(model, batches, optimizer):
    for batch in batches:
        model(batch).sum().backward()
        optimizer.step()

def tell(losses):
    print(sum(losses))

RUN = epoch

class Engine:
    def __init__(self, model):
        self.model = model

    def go(self, batches):
        return epoch(self.model, batches, None)

    def show(self):
        return repr(self.model)

class Guarded(Engine):
    def __call__(self, batches):
        self.go(batches)

if __name__ == "__main__":
    epoch(None, [], None)
"""

MODULES = {
    "loops.py": LOOPS,
    "between.py": "from loops import epoch as one, tell\n\ndef rounds(model):\n    one(model, [], None)\n",
    "further.py": "from between import rounds\n\ndef start(model):\n    rounds(model)\n",
    "running.py": "from loops import epoch\n\nepoch(None, [], None)\n",
    "loading.py": "from torch.utils.data import DataLoader as Batches\n\ndef load(rows):\n    return Batches(rows)\n",
    "chat.py": "from bots import ListTrainer\n\ndef talk():\n    ListTrainer().talk()\n",
    "broken.py": "def f(:\n",
    "around/__init__.py": "",
    "around/first.py": "from ..loops import tell\nfrom .second import fit\n",
    "around/second.py": "import keras\n\ndef fit(model):\n    model.fit()\n",
}


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "script",
    [
        "from loops import epoch\nepoch(model)",
        "from loops import epoch as e\ndef main():\n    e(model)\nmain()",
        "from loops import RUN\nRUN(model)",
        "from loops import *\nepoch(model)",
        "import loops\nloops.epoch(model)",
        "import loops as l\nl.epoch(model)",
        "from loops import Engine\nEngine(model).go(batches)",
        "from loops import Guarded\nGuarded(model)(batches)",
        "from between import rounds\nrounds(model)",
        "import between\nbetween.rounds(model)",
        "import running",
        "def main():\n    import running\nmain()",
        "from loading import load\nload(rows)",
        "import around.second\naround.second.fit(model)",
        "import around.second\nimport around.first\naround.second.fit(model)",
        "from around import second\nsecond.fit(model)",
        "from around.first import fit\nfit(model)",
    ],
)
def test_a_script_trains_whose_modules_do_it(script: str) -> None:
    assert imports_training(Source("main.py", script), Project())


@pytest.mark.parametrize(
    "script",
    [
        "from loops import tell\ntell([1])",
        "import loops\nloops.tell([1])",
        "from loops import *\ntell([1])",
        "from loops import Engine\nEngine(model).show()",
        "from between import tell\ntell([1])",
        "from further import start\nstart(model)",
        "from chat import talk\ntalk()",
        "from broken import f\nf()",
        "from nowhere import f\nf()",
        "import torch\ntorch.epoch()",
    ],
)
def test_another_one_does_not(script: str) -> None:
    assert not imports_training(Source("main.py", script), Project())
