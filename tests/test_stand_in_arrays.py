"""Stand-ins of files with arrays and settings: what the text of a script and its errors tell about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lintrain.runtime.stand_ins.array_shapes import SIZES, ArrayShapes
from lintrain.runtime.stand_ins.array_uses import is_label, targets_at, targets_of_load, uses_of
from lintrain.runtime.stand_ins.known_values import own_configuration
from lintrain.runtime.stand_ins.mappings import settings_of_line
from lintrain.runtime.stand_ins.setting_trees import settings_tree


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("y_train", True),
        ("TrLabel", True),
        ("trainY", True),
        ("indian_pines_gt", True),
        ("yte", True),
        ("target", True),
        ("x_train", False),
        ("years", False),
        ("images", False),
        ("eighty", False),
        ("classifier_inputs", False),
    ],
)
def test_a_name_says_whether_an_array_holds_labels(name: str, *, labels: bool) -> None:
    assert is_label(name) is labels
    assert is_label("Data", name) is labels


@pytest.mark.parametrize(
    ("text", "dimensions"),
    [
        ("bands = cube.shape[3]", {"cube": 4}),
        ("height, width, bands = cube.shape", {"cube": 3}),
        ("height, width = np.shape(cube)", {"cube": 2}),
        ("moved = torch.from_numpy(cube)\nprint(moved.permute(0, 3, 1, 2))", {"cube": 4, "moved": 4}),
        ("first = cube[:, :, 0]", {"cube": 3}),
        ("wide = np.pad(cube, ((1, 1), (1, 1), (0, 0)))", {"cube": 3}),
        ("first = cube[..., 0]\nlast = cube.shape[-1]", {}),
    ],
)
def test_uses_of_an_array_tell_its_axes(text: str, dimensions: dict[str, int]) -> None:
    assert uses_of(text).dimensions == dimensions


def test_arrays_of_one_file_are_known_by_their_keys() -> None:
    uses = uses_of("made = np.load('rows.npz')\nsignals = made['x'].astype('float32')\nlabels = made['y']\n")
    assert sorted(uses.keys["made"]) == ["x", "y"]
    assert (uses.taken_from("x"), uses.taken_from("y"), uses.taken_from("z")) == (("signals",), ("labels",), ())


def test_a_line_tells_what_it_assigns() -> None:
    text = "with open('a.pkl', 'rb') as opened:\n    inputs, labels = pickle.load(opened)\nimages = np.load('b.npy')\n"
    assert (targets_at(text, 1), targets_at(text, 3)) == (["opened"], ["images"])
    assert targets_at("first = np.load('a.npy').shape[0]", 1, whole=True) == []
    assert targets_of_load(text, 1, "opened") == ["inputs", "labels"]
    assert targets_of_load(text, 1, "other") is None


def made(dimensions: int = 2) -> ArrayShapes:
    shapes = ArrayShapes()
    shapes.remember("rows", "x", dimensions, is_label=False)
    shapes.remember("rows", "y", 1, is_label=True)
    return shapes


@pytest.mark.parametrize(
    ("message", "dimensions"),
    [
        ("permute(sparse_coo): input.dim() = 2 is not equal to len(dims) = 4", 4),
        ("too many indices for array: array is 2-dimensional, but 3 were indexed", 3),
        ("axis 2 is out of bounds for array of dimension 2", 3),
        ("not enough values to unpack (expected 3, got 2)", 3),
        ("Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [64, 22]", 4),
        ("Found array with dim 4. StandardScaler expected <= 2.", None),
        ("remapped shapes [original->remapped]: (3,2)  and requested shape (2,2)", 3),
        ("not enough values to unpack (expected 4, got 3)", None),
        ("something else is 2 of 4", None),
    ],
)
def test_an_error_tells_how_many_axes_arrays_have(message: str, dimensions: int | None) -> None:
    shapes = made()
    assert (shapes.correct(ValueError(message), SIZES) is not None) is (dimensions is not None)
    assert shapes.dimensions("rows", "x") == dimensions
    assert shapes.dimensions("rows", "y") is None
    assert ArrayShapes().correct(ValueError(message), SIZES) is None


def test_axes_are_corrected_once() -> None:
    shapes = made()
    assert shapes.correct(ValueError("axis 2 is out of bounds for array of dimension 2"), SIZES) is not None
    shapes.remember("rows", "x", 3, is_label=False)
    assert shapes.correct(ValueError("axis 3 is out of bounds for array of dimension 3"), SIZES) is None


def test_an_error_about_a_shape_names_the_axis_that_is_missing(tmp_path: Path) -> None:
    import numpy

    file = tmp_path / "script.py"
    file.write_text("bands = cube.shape[3]\n")
    with pytest.raises(IndexError) as raised:
        exec(compile(file.read_text(), str(file), "exec"), {"cube": numpy.zeros((4, 2))})
    shapes = made()
    assert shapes.correct(raised.value, SIZES) == "4 axes each: x"


@pytest.mark.parametrize(
    ("message", "sizes"),
    [
        ("weight of size [8, 144, 3, 3], expected input[16, 22, 26, 20] to have 144 channels, but got 22", {22: 144}),
        ("mat1 and mat2 shapes cannot be multiplied (16x22 and 10x5)", {22: 10}),
        ("input.size(-1) must be equal to input_size. Expected 7, got 22", {22: 7}),
        ("X has 22 features, but StandardScaler is expecting 9 features as input.", {22: 9}),
        ("shape '[-1, 28, 28]' is invalid for input of size 1408", {22: 784}),
        ("cannot reshape array of size 1408 into shape (64,3,8)", {22: 24}),
        ("shape '[64, -1, 11, 11]' is invalid for input of size 732160", {22: 11, 26: 11}),
        ("The size of tensor a (22) must match the size of tensor b (50) at non-singleton dimension 1", {22: 50}),
        ("The size of tensor a (7) must match the size of tensor b (50) at non-singleton dimension 1", {}),
        ("could not convert 22 to 50", {}),
    ],
)
def test_an_error_tells_the_size_of_an_axis(message: str, sizes: dict[int, int]) -> None:
    shapes = made()
    message = f"{message} channels instead" if "channels" in message else message
    assert (shapes.correct(RuntimeError(message), SIZES) is not None) is bool(sizes)
    assert shapes.sizes == sizes
    assert shapes.correct(RuntimeError(message), SIZES) is None


def test_labels_may_begin_with_one() -> None:
    shapes = made()
    assert shapes.correct(IndexError("Target -1 is out of bounds."), SIZES) == "labels from 1"
    assert shapes.first_label == 1
    assert shapes.correct(IndexError("Target -1 is out of bounds."), SIZES) is None


def value(key: str) -> Any:
    return f"<{key}>"


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("given = yaml.safe_load(opened)\nrate = given['train']['lr']", {"train": {"lr": "<lr>"}}),
        ("def read():\n    return yaml.safe_load(file)\nrate = read()['lr']", {"lr": "<lr>"}),
        ("def run(config):\n    part = config['model']\n    print(part['depth'])", {"model": {"depth": "<depth>"}}),
        ("given = OmegaConf.load(path)\nprint(given.model.depth)", {"model": {"depth": "<depth>"}}),
        ("given = EasyDict(yaml.safe_load(opened))\nprint(given.use_cache)", {"use_cache": False}),
        ("cfg = yaml.safe_load(opened)\nadam = Adam(**cfg['optimizer'])", {"optimizer": {}}),
        ("cfg = yaml.safe_load(opened)\nfor each in cfg['names']: print(each)", {"names": ["<names>"]}),
        ("cfg = yaml.safe_load(opened)\nrate = cfg.get('lr', 0.1)\nname = cfg['name'].lower()", {"name": "<name>"}),
        ("cfg = yaml.safe_load(opened)\nif 'warm' in cfg: print(cfg['warm'])", {}),
        ("row = json.loads(line)\nprint(other['lr'], other.model.depth)", {}),
    ],
)
def test_settings_have_the_keys_that_the_script_reads(text: str, tree: dict[str, Any]) -> None:
    assert settings_tree(text, value) == tree


def test_an_object_is_known_by_what_only_objects_have() -> None:
    text = "with open(path) as opened:\n    known = json.load(opened)\n"
    assert settings_of_line(f"{text}tasks = known.get('tasks', {{}})\n", 1, "") == {}
    assert settings_of_line(f"{text}tasks = other.get('tasks', {{}})\n", 1, "") is None


def test_of_several_files_of_settings_the_one_that_the_script_reads_is_taken(tmp_path: Path) -> None:
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "a.yaml").write_text("hosts: 1\nport: 2\n")
    (folder / "b.yaml").write_text("model: 1\ntrain:\n  lr: 2\n")
    script = tmp_path / "train.py"
    script.write_text("print(cfg['model'], cfg['train'])\n")
    assert own_configuration("config", script) == str(folder / "b.yaml")
