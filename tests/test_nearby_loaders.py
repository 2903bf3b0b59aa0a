"""Whether a batch of the project around a file may have a single row."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.source.nearby_loaders import may_give_one_row
from lintrain.source.source import Source

DROPS = "loader = DataLoader(rows, batch_size=max(4, len(rows) // 9),\n                    drop_last=True)\n"
KEEPS = "loader = DataLoader(rows, batch_size=4, shuffle=True)\n"
OWN_BATCHES = "import torch\nfor step in range(9):\n    net(memory.sample(32)).mean().backward()\n"
FULL_BATCHES = "import torch\nfor chunk in range(rows // batch_size):\n    net(rows.split(chunk)).mean().backward()\n"
OTHERS = "import torch\nfor x, y in train_loader:\n    net(x).mean().backward()\n"


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        ({"train/main.py": DROPS}, False),
        ({"train/main.py": DROPS + KEEPS}, True),
        ({"train/main.py": DROPS, "train/old.py": f"# {KEEPS}"}, False),
        ({"train/main.py": DROPS, "evaluate/main.py": KEEPS}, False),
        ({"main.py": DROPS, "train/nets/data.py": KEEPS}, True),
        ({"main.py": DROPS}, False),
        ({"main.py": OWN_BATCHES}, False),
        ({"main.py": FULL_BATCHES}, False),
        ({"main.py": OTHERS}, True),
        ({"main.py": OWN_BATCHES, "tune.py": "Trainer(model).train()\n"}, True),
        ({}, True),
    ],
)
def test_the_nearest_folder_with_loaders_decides(scripts: dict[str, str], expected: bool, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    for name, text in {"train/nets/net.py": "import torch\n", **scripts}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert may_give_one_row(Source(str(tmp_path / "train" / "nets" / "net.py"), "import torch\n")) is expected


def test_loaders_outside_of_the_project_decide_nothing(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(DROPS)
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "net.py").touch()
    assert may_give_one_row(Source(str(project / "net.py"), "import torch\n"))
