"""What the scripts of a project show about devices and modes, for rules that need such a fact."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.source.project_search import scripts_have_modes, uses_devices
from lintrain.source.source import Source

NETWORK = "from torch import nn\nclass Net(nn.Module):\n    pass\n"
MOVES = "from net import Net\nmodel = Net().to(device)\n"
ON_CPU = "from net import Net\nmodel = Net()\n"


def network_in(folder: Path, scripts: dict[str, str]) -> Source:
    """A network in a file of a project with these other scripts."""
    (folder / "pyproject.toml").touch()
    for name, text in {"net.py": NETWORK, **scripts}.items():
        (folder / name).write_text(text)
    return Source(str(folder / "net.py"), NETWORK)


@pytest.mark.parametrize(
    ("scripts", "of_tensors", "of_modules"),
    [
        ({"main.py": MOVES}, True, True),
        ({"main.py": ON_CPU}, False, False),
        ({"main.py": ON_CPU + "x = torch.ones(3, device=device)\n"}, True, False),
        ({"other.py": "model = Other().to(device)\n"}, False, True),
        ({"main.py": ON_CPU + "y = y.to(dtype=torch.int64)\n"}, False, False),
        ({"main.py": ON_CPU + "y = y.to(torch.float32).to(other)\n"}, True, True),
        ({}, False, False),
    ],
)
def test_a_network_meets_a_device_where_its_project_uses_one(
    scripts: dict[str, str], of_tensors: bool, of_modules: bool, tmp_path: Path
) -> None:
    network = network_in(tmp_path, scripts)
    assert uses_devices(network) is of_tensors
    assert uses_devices(network, by_modules=True) is of_modules


@pytest.mark.parametrize(
    ("scripts", "expected"),
    [
        ({"main.py": ON_CPU}, False),
        ({"layers.py": "layer = nn.Dropout(0.1)\n"}, True),
        ({"layers.py": "from torch.nn import Sequential\n"}, False),
        ({"main.py": "import torchvision\n"}, True),
    ],
)
def test_modes_differ_where_a_network_of_the_project_names_such_a_layer(
    scripts: dict[str, str], expected: bool, tmp_path: Path
) -> None:
    assert scripts_have_modes(network_in(tmp_path, scripts)) is expected


def test_a_script_that_was_saved_again_is_searched_again(tmp_path: Path) -> None:
    network = network_in(tmp_path, {"main.py": ON_CPU})
    assert not uses_devices(network)
    assert not uses_devices(network)
    (tmp_path / "main.py").write_text(MOVES)
    assert uses_devices(network)
    (tmp_path / "main.py").unlink()
    assert not uses_devices(network)


@pytest.mark.parametrize(
    ("text", "said"),
    [("accelerator = Accelerator()\n", True), ("columns = ['speed', 'acceleration']\n", False)],
)
def test_only_a_library_that_moves_modules_is_one_that_does(tmp_path: Path, text: str, said: bool) -> None:
    network = network_in(tmp_path, {"main.py": f"{ON_CPU}{text}"})
    assert uses_devices(network) is said
