"""Pictures that are not here: data sets of torchvision, timm and Keras, and folders that the script reads."""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lintrain.runtime.stand_ins import folders as folders_module
from lintrain.runtime.stand_ins import vision
from lintrain.runtime.stand_ins.folders import Folders
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.picture_files import picture_file
from lintrain.runtime.stand_ins.vision import Pictures, made_pictures, picture_folder

pytest.importorskip("torch")
pytest.importorskip("PIL")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = tmp_path / "made"
    made.mkdir()
    session = SimpleNamespace(
        stand_ins=[], script="train.py", measuring=False, stand_in_data="", folder=lambda _name: str(made)
    )
    return Ledger(session)  # type: ignore[arg-type]


def replaced(ledger: Ledger) -> dict[str, str]:
    return {each.name: each.by for each in ledger.session.stand_ins}


class VisionDataset:
    """What torchvision's data sets have in common."""

    def __init__(self, root: str, transforms: Any = None) -> None:
        self.root, self.transforms = root, transforms


def missing(name: str) -> type:
    """A class of torchvision whose files are not here."""

    def init(self: Any, root: str, train: bool = True, split: str = "train") -> None:
        VisionDataset.__init__(self, root)
        raise RuntimeError("Dataset not found. You can use download=True to download it")

    return type(name, (VisionDataset,), {"__init__": init})


@pytest.fixture
def torchvision(ledger: Ledger) -> Any:
    module = ModuleType("torchvision.datasets")
    found: Any = module
    for name in (
        "MNIST",
        "CIFAR10",
        "SVHN",
        "Flowers102",
        "VOCSegmentation",
        "VOCDetection",
        "CocoDetection",
        "CocoCaptions",
        "ImageFolder",
    ):
        setattr(found, name, missing(name))
    vision._answer_classes(ledger, module)
    return found


def test_arrays_have_the_size_and_rows_of_the_data_set(torchvision: Any, ledger: Ledger) -> None:
    train, test = torchvision.MNIST("data"), torchvision.MNIST("data", train=False)
    assert (tuple(train.data.shape), tuple(test.data.shape)) == ((60_000, 28, 28), (10_000, 28, 28))
    assert sorted(set(train.targets.tolist())) == [*range(10)]
    assert torchvision.CIFAR10("data").data.shape == (50_000, 32, 32, 3)
    assert torchvision.SVHN("data", split="test").data.shape == (26_032, 3, 32, 32)
    assert replaced(ledger)["torchvision MNIST"].endswith("random images of 28 x 28 pixels, 10 classes")


def test_files_are_read_by_their_index(torchvision: Any) -> None:
    flowers = torchvision.Flowers102("data")
    picture, label = flowers[1999]
    assert (picture.size, len(flowers), len(flowers.classes)) == ((96, 96), 2000, 102)
    assert 0 <= label < 102
    with pytest.raises(IndexError):
        flowers[2000]


def test_masks_are_pictures(torchvision: Any) -> None:
    _, mask = torchvision.VOCSegmentation("data")[0]
    assert (mask.mode, mask.size) == ("L", (96, 96))


def test_boxes_are_within_their_picture_and_captions_are_texts(torchvision: Any) -> None:
    for index in (0, 7, 1999):
        _, found = torchvision.VOCDetection("data")[index]
        [thing] = found["annotation"]["object"]
        left, top, right, bottom = (int(thing["bndbox"][each]) for each in ("xmin", "ymin", "xmax", "ymax"))
        assert 0 <= left < right <= int(found["annotation"]["size"]["width"])
        assert 0 <= top < bottom <= int(found["annotation"]["size"]["height"])
        _, [box] = torchvision.CocoDetection("data")[index]
        assert (box["bbox"], box["area"]) == ([left, top, right - left, bottom - top], (right - left) * (bottom - top))
    assert [type(each) for each in torchvision.CocoCaptions("data")[0][1]] == [str] * 5


def test_an_error_about_the_arguments_is_the_scripts_own(torchvision: Any) -> None:
    with pytest.raises(TypeError):
        torchvision.MNIST("data", training=True)


def test_a_class_has_a_pattern_of_its_own() -> None:
    pictures, labels = made_pictures(Pictures(8, 1, 2, 0, 0), seed=1)
    firsts, seconds = pictures[labels == 0], pictures[labels == 1]
    assert abs(firsts[0].astype(int) - firsts[1]).mean() < abs(firsts[0].astype(int) - seconds[0]).mean()


class Asked(Folders):
    """Folders that any code may ask for, in place of the script's."""

    def __init__(self, ledger: Ledger, script: str) -> None:
        super().__init__(ledger)
        ledger._script = script


@pytest.fixture(autouse=True)
def asked_by_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders_module, "_is_asked_by_script", lambda: True)


def test_a_missing_folder_is_listed_and_its_files_are_found(ledger: Ledger, tmp_path: Path) -> None:
    photos = str(tmp_path / "photos")
    folders = Asked(ledger, "Image.open(path)\nname.endswith('.png')")
    names = folders._listing(os.listdir)(photos)
    assert len(names) == 64
    assert {name.rpartition(".")[2] for name in names} == {"png"}
    path = folders.path(f"{photos}/{names[0]}")
    assert path is not None
    assert Path(path).is_file()
    assert not Path(photos).exists()
    assert replaced(ledger) == {"photos": "a folder with 64 random images"}


def test_a_pattern_tells_the_folders_and_endings(ledger: Ledger, tmp_path: Path) -> None:
    import glob

    found = Asked(ledger, "cv2.imread(path)")._globbing(glob.glob)(f"{tmp_path}/faces/*/*.jpeg")
    assert {Path(each).parent.name for each in found} == {"first", "second"}
    assert {Path(each).suffix for each in found} == {".jpeg"}


def test_without_pictures_in_the_script_a_folder_stays_missing(ledger: Ledger, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Asked(ledger, "json.load(opened)")._listing(os.listdir)(str(tmp_path / "texts"))
    assert replaced(ledger) == {}


def test_splits_of_an_archive_have_other_pictures(ledger: Ledger) -> None:
    folders = [Path(picture_folder(ledger, f"pets-{split}", has_classes=False)) for split in ("train", "valid")]
    one, two = ({each.read_bytes() for each in folder.iterdir()} for folder in folders)
    assert len(one) == len(two) == 64
    assert not one & two


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        ("data/masks/7.png", "L"),
        ("data/7_labelIds.png", "L"),
        ("data/gtFine/7.jpg", "L"),
        ("data/images/7.jpg", "RGB"),
        ("data/segways/7.png", "RGB"),
        ("data/7.txt", None),
    ],
)
def test_a_picture_that_is_missing_is_made_by_its_name(name: str, mode: str | None, ledger: Ledger) -> None:
    from PIL import Image

    made = picture_file(ledger, name)
    assert (made is None) is (mode is None)
    if made is not None:
        with Image.open(made) as opened:
            assert (opened.mode, opened.size) == (mode, (96, 96))
            assert mode == "RGB" or opened.getextrema() == (0, 1)
        ledger.corrections.side = 128
        with Image.open(picture_file(ledger, name) or "") as opened:
            assert opened.size == (128, 128)


def test_folders_have_larger_pictures_once_an_error_asks_for_them(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    monkeypatch.setattr(Ledger, "script", "Image.open(path)")
    monkeypatch.setattr(folders_module, "_is_asked_by_script", lambda: True)
    folders = Folders(ledger)
    for side, expected in ((0, 96), (128, 128)):
        ledger.corrections.side = side
        made = folders._make(tmp_path / "pictures")  # pyright: ignore[reportPrivateUsage]
        assert made is not None
        with Image.open(next(Path(made).iterdir())) as opened:
            assert opened.size == (expected, expected)


def test_words_of_reviews_are_made_where_they_cannot_be_loaded(ledger: Ledger) -> None:
    module = ModuleType("keras.src.datasets.imdb")
    known: dict[str, int] = {"good": 1}
    module.get_word_index = lambda path="": known[path]  # type: ignore[attr-defined]
    vision._answer_words(ledger, module)  # pyright: ignore[reportPrivateUsage]
    assert max(module.get_word_index().values()) == vision.INDEXED
    assert module.get_word_index("good") == 1
    assert [(each.name, each.by) for each in ledger.session.stand_ins] == [("imdb words", "88584 made words")]


def test_numbers_of_reviews_begin_after_the_marks() -> None:
    rows, labels = vision._reviews(50)  # pyright: ignore[reportPrivateUsage]
    numbers = {number for row in rows[:200] for number in row}
    assert (min(numbers), max(numbers)) == (4, 49)
    assert len(rows) == len(labels) == vision.REVIEWS
