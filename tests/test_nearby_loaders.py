"""Whether the loaders that are nearest to a file drop a smaller last batch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.source.nearby_loaders import drop_last_batch

DROPS = "loader = DataLoader(rows, batch_size=max(4, len(rows) // 9),\n                    drop_last=True)\n"
KEEPS = "loader = DataLoader(rows, batch_size=4, shuffle=True)\n"


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        ({"train/main.py": DROPS}, True),
        ({"train/main.py": DROPS + KEEPS}, False),
        ({"train/main.py": DROPS, "train/old.py": f"# {KEEPS}"}, True),
        ({"train/main.py": DROPS, "evaluate/main.py": KEEPS}, True),
        ({"main.py": DROPS, "train/nets/data.py": KEEPS}, False),
        ({"main.py": DROPS}, True),
        ({}, False),
    ],
)
def test_the_nearest_folder_with_loaders_decides(scripts: dict[str, str], expected: bool, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    for name, text in {"train/nets/net.py": "import torch\n", **scripts}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert drop_last_batch(str(tmp_path / "train" / "nets" / "net.py")) is expected


def test_loaders_outside_of_the_project_decide_nothing(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(DROPS)
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").touch()
    (project / "net.py").touch()
    assert not drop_last_batch(str(project / "net.py"))
