"""Data sets of torchvision and Keras that are not here: pictures of the same size, classes and number of rows."""

from __future__ import annotations

import functools
import inspect
import os
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import library
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.runtime.stand_ins.picture_targets import kind_of_target
from lintrain.runtime.stand_ins.sizes import SIDE_OF_IMAGES as SIDE
from lintrain.startup.lazy_dataclass import dataclass

DIFFERENT = 256
"""Pictures that differ; the others repeat them."""
OF_FOLDER = 2_000
FILES_OF_FOLDER = 64
CLASSES_OF_FOLDER = ("first", "second")


@dataclass(frozen=True, slots=True)
class Pictures:
    """The form of a data set: its side in pixels, channels, classes, and rows of its training and its test split."""

    side: int
    channels: int
    classes: int
    train: int
    test: int


DIGITS = Pictures(28, 1, 10, 60_000, 10_000)
ARRAYS: Mapping[str, Pictures] = {
    "MNIST": DIGITS,
    "FashionMNIST": DIGITS,
    "KMNIST": DIGITS,
    "QMNIST": DIGITS,
    "EMNIST": Pictures(28, 1, 26, 60_000, 10_000),
    "CIFAR10": Pictures(32, 3, 10, 50_000, 10_000),
    "CIFAR100": Pictures(32, 3, 100, 50_000, 10_000),
    "USPS": Pictures(16, 1, 10, 7_291, 2_007),
    "SVHN": Pictures(32, 3, 10, 73_257, 26_032),
    "STL10": Pictures(96, 3, 10, 5_000, 8_000),
}
"""Classes that keep their pictures in one array."""
FILES: Mapping[str, int] = {
    "Caltech101": 101,
    "Caltech256": 257,
    "CelebA": 40,
    "Cityscapes": 20,
    "CocoCaptions": 90,
    "CocoDetection": 90,
    "Country211": 211,
    "DTD": 47,
    "EuroSAT": 10,
    "FER2013": 7,
    "FGVCAircraft": 100,
    "Flickr30k": 10,
    "Flickr8k": 10,
    "Flowers102": 102,
    "Food101": 101,
    "GTSRB": 43,
    "ImageNet": 1000,
    "Imagenette": 10,
    "INaturalist": 1000,
    "LFWPeople": 100,
    "Omniglot": 964,
    "OxfordIIITPet": 37,
    "PCAM": 2,
    "Places365": 365,
    "RenderedSST2": 2,
    "SBDataset": 21,
    "StanfordCars": 196,
    "SUN397": 397,
    "VOCDetection": 20,
    "VOCSegmentation": 21,
}
"""Classes that read a file for each picture, with their number of classes."""
FIRST_CHANNEL = ("SVHN", "STL10")
OF_KERAS: Mapping[str, Pictures] = {
    "mnist": DIGITS,
    "fashion_mnist": DIGITS,
    "cifar10": ARRAYS["CIFAR10"],
    "cifar100": ARRAYS["CIFAR100"],
}


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Let each class make its rows where its files are missing."""
    hooks.add("torchvision.datasets", functools.partial(_answer_classes, ledger))
    hooks.add("timm.data.dataset_factory", functools.partial(_answer_factory, ledger))
    for name, form in OF_KERAS.items():
        hooks.add(f"keras.src.datasets.{name}", functools.partial(_answer_arrays, ledger, name, form))
    hooks.add("keras.src.datasets.imdb", functools.partial(_answer_reviews, ledger))
    for name in ("imdb", "reuters"):
        hooks.add(f"keras.src.datasets.{name}", functools.partial(_answer_words, ledger))


def _answer_classes(ledger: Ledger, module: Any) -> None:
    for name in (*ARRAYS, *FILES):
        owner = getattr(module, name, None)
        if owner is not None:
            owner.__init__ = _filling(ledger, owner.__init__)
    module.ImageFolder.__init__ = _reading_folder(ledger, module.ImageFolder.__init__)


def _filling(ledger: Ledger, build: Callable[..., None]) -> Any:
    names = [*inspect.signature(build).parameters]

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            build(self, *args, **kwargs)
        except (OSError, RuntimeError):
            given = {**dict(zip(names[1:], args, strict=False)), **kwargs}
            if not hasattr(self, "transforms"):  # it failed before its base class was built
                base = library("torchvision.datasets").VisionDataset
                base.__init__(self, str(given.get("root", "")), transform=given.get("transform"))
            _fill(ledger, self, given)

    return init


def _fill(ledger: Ledger, dataset: Any, given: Mapping[str, Any]) -> None:
    name = next(each.__name__ for each in type(dataset).__mro__ if each.__name__ in {**ARRAYS, **FILES})
    is_train = bool(given["train"]) if "train" in given else "train" in str(given.get("split") or "train")
    form = ARRAYS.get(name) or Pictures(SIDE, 3, FILES[name], OF_FOLDER, OF_FOLDER)
    ledger.corrections.on_rows()
    count = ledger.corrections.bounded(form.train if is_train else form.test)
    with ledger.making(f"{name} {is_train}"):
        pictures, labels = made_pictures(form, seed=int(is_train))
    what = f"{count} random images of {form.side} x {form.side} pixels, {form.classes} classes"
    ledger.replace(StandInKind.DATA, f"torchvision {name}", what)
    repeated = library("numpy").arange(count) % len(pictures)
    if name in ARRAYS:
        _set_arrays(name, dataset, pictures[repeated], labels[repeated])
    else:
        _set_files(name, dataset, pictures, labels[repeated], given)


def made_pictures(form: Pictures, seed: int) -> tuple[Any, Any]:
    """Pictures `uint8 [rows, side, side, channels]` and labels `int64 [rows]`; each class has a pattern of its own."""
    numpy = library("numpy")
    patterns = numpy.random.default_rng(0).integers(0, 192, (form.classes, form.side, form.side, form.channels))
    source = numpy.random.default_rng(seed + 1)
    labels = source.permutation(numpy.arange(max(DIFFERENT, form.classes)) % form.classes)
    noise = source.integers(0, 64, (len(labels), form.side, form.side, form.channels))
    return (patterns[labels] + noise).astype("uint8"), labels


def _set_arrays(name: str, dataset: Any, pictures: Any, labels: Any) -> None:
    torch = library("torch")
    if name in FIRST_CHANNEL:
        dataset.data, dataset.labels = pictures.transpose(0, 3, 1, 2), labels
    elif "MNIST" in name:
        offset = int(getattr(dataset, "split", "") == "letters")
        dataset.data, dataset.targets = torch.from_numpy(pictures[..., 0]), torch.from_numpy(labels + offset)
    else:
        dataset.data = pictures if pictures.shape[-1] == 3 else pictures[..., 0]
        dataset.targets = labels.tolist()
    if name.startswith("CIFAR"):
        _name_classes(dataset, ARRAYS[name].classes)


def _name_classes(dataset: Any, count: int) -> None:
    dataset.classes = [f"class {number}" for number in range(count)]
    dataset.class_to_idx = {each: number for number, each in enumerate(dataset.classes)}


def _set_files(name: str, dataset: Any, pictures: Any, labels: Any, given: Mapping[str, Any]) -> None:
    image = library("PIL.Image")
    own = cast("type[object]", type(dataset))
    target_of = kind_of_target(name, SIDE, FILES[name], given)

    def get(self: Any, index: int) -> tuple[Any, Any]:
        if not -len(labels) <= index < len(labels):
            raise IndexError(index)
        picture = image.fromarray(pictures[index % len(pictures)])
        target = target_of(int(labels[index]), index)
        return (picture, target) if self.transforms is None else self.transforms(picture, target)

    def count(_: Any) -> int:
        return len(labels)

    methods: dict[str, object] = {"__getitem__": get, "__len__": count, "__module__": own.__module__}
    dataset.__class__ = type(own.__name__, (own,), methods)
    dataset.targets = labels.tolist()
    _name_classes(dataset, FILES[name])


def _reading_folder(ledger: Ledger, build: Callable[..., None]) -> Any:
    """A folder of classes: a few files are written for it, and listed as often as a small data set would have them."""

    @functools.wraps(build)
    def init(self: Any, root: Any, *args: Any, **kwargs: Any) -> None:
        if is_there(root):
            build(self, root, *args, **kwargs)
            return
        with ledger.making(str(root)):
            folder = picture_folder(ledger, str(root))
        build(self, folder, *args, **kwargs)
        self.root = root
        ledger.corrections.on_rows()
        times = max(1, ledger.corrections.bounded(OF_FOLDER) // max(1, len(self.samples)))
        self.samples = self.samples * times
        self.imgs, self.targets = self.samples, self.targets * times
        what = f"{len(self.samples)} random images of {SIDE} x {SIDE} pixels, classes: {', '.join(self.classes)}"
        ledger.replace(StandInKind.DATA, os.path.basename(os.path.normpath(str(root))), what)

    return init


def _answer_factory(ledger: Ledger, module: Any) -> None:
    """`timm.data.create_dataset(name, root)`: a folder of classes, for each split."""
    create = module.create_dataset

    @functools.wraps(create)
    def create_dataset(name: Any = "", root: Any = None, *args: Any, **kwargs: Any) -> Any:
        if name or root is None or is_there(root):
            return create(name, root, *args, **kwargs)
        with ledger.making(str(root)):
            folder = picture_folder(ledger, str(root))
        what = f"a folder with {FILES_OF_FOLDER} random images, classes: {', '.join(CLASSES_OF_FOLDER)}"
        ledger.replace(StandInKind.DATA, os.path.basename(os.path.normpath(str(root))), what)
        made = create(name, folder, *args, **{**kwargs, "search_split": False})
        made.reader.samples = made.reader.samples * (OF_FOLDER // FILES_OF_FOLDER)
        return made

    module.create_dataset = create_dataset


def picture_folder(ledger: Ledger, name: str, *, has_classes: bool = True, endings: Sequence[str] = ("jpg",)) -> str:
    """A folder of pictures whose names begin with their class; with `has_classes` there is a folder for each."""
    side = ledger.corrections.side or SIDE
    base = os.path.join(ledger.session.folder("hub"), "pictures", f"{_plain(name)}-{int(has_classes)}-{side}")
    image = library("PIL.Image")
    # Other pictures in each folder: those of a split must not be in another one.
    form = Pictures(side, 3, len(CLASSES_OF_FOLDER), 0, 0)
    pictures, labels = made_pictures(form, seed=zlib.crc32(name.encode()))
    for number, (picture, label) in enumerate(zip(pictures[:FILES_OF_FOLDER], labels, strict=False)):
        folder = os.path.join(base, CLASSES_OF_FOLDER[int(label)]) if has_classes else base
        os.makedirs(folder, exist_ok=True)
        ending = endings[number % len(endings)]
        image.fromarray(picture).save(os.path.join(folder, f"{CLASSES_OF_FOLDER[label]}_{number}.{ending}"))
    return base


def _plain(name: str) -> str:
    return "".join(each if each.isalnum() else "-" for each in name)[-100:]


def _answer_arrays(ledger: Ledger, name: str, form: Pictures, module: Any) -> None:
    """`keras.datasets.mnist.load_data()` and its like."""
    load = module.load_data

    @functools.wraps(load)
    def load_data(*args: Any, **kwargs: Any) -> Any:
        try:
            return load(*args, **kwargs)
        except Exception:  # noqa: BLE001 - a download that fails: each version of Keras has its own errors
            is_coarse = "coarse" in (*args, *kwargs.values())
            shown = Pictures(form.side, form.channels, 20, form.train, form.test) if is_coarse else form
            with ledger.making(name):
                parts = [_of_keras(name, shown, count, seed) for seed, count in enumerate((form.train, form.test))]
            what = f"{form.train} and {form.test} random images of {form.side} x {form.side} pixels"
            ledger.replace(StandInKind.DATA, f"keras {name}", what)
            return tuple(parts)

    module.load_data = load_data


def _of_keras(name: str, form: Pictures, count: int, seed: int) -> tuple[Any, Any]:
    pictures, labels = made_pictures(form, seed)
    repeated = library("numpy").arange(count) % len(pictures)
    pictures, labels = pictures[repeated], labels[repeated]
    if name.startswith("cifar"):
        return pictures, labels[:, None].astype("uint8")
    return pictures[..., 0], labels.astype("uint8")


REVIEWS, LONGEST_REVIEW, WORDS = 25_000, 300, 10_000
FIRST_WORD = 4
"""The numbers below are marks, and 3 is none at all: the default of `index_from` (Keras 3)."""
INDEXED = 88_584
"""As many words as those of the reviews of IMDB: whatever `num_words` is, each number has a word."""


def _answer_reviews(ledger: Ledger, module: Any) -> None:
    load = module.load_data

    @functools.wraps(load)
    def load_data(*args: Any, **kwargs: Any) -> Any:
        try:
            return load(*args, **kwargs)
        except Exception:  # noqa: BLE001 - as above
            words = kwargs.get("num_words") or WORDS
            with ledger.making("imdb"):
                parts = (_reviews(words), _reviews(words))
            ledger.replace(StandInKind.DATA, "keras imdb", f"{REVIEWS} and {REVIEWS} random sequences of numbers")
            return parts

    module.load_data = load_data


def _answer_words(ledger: Ledger, module: Any) -> None:
    """The numbers of words that the reviews are made of."""
    ask = module.get_word_index

    @functools.wraps(ask)
    def get_word_index(*args: Any, **kwargs: Any) -> dict[str, int]:
        try:
            return cast("dict[str, int]", ask(*args, **kwargs))
        except Exception:  # noqa: BLE001 - as above
            ledger.replace(StandInKind.DATA, f"{module.__name__.rpartition('.')[2]} words", f"{INDEXED} made words")
            return {f"word{number}": number for number in range(1, INDEXED + 1)}

    module.get_word_index = get_word_index


def _reviews(words: int) -> tuple[Any, Any]:
    numpy = library("numpy")
    source = numpy.random.default_rng(0)
    drawn = [source.integers(FIRST_WORD, words, source.integers(20, LONGEST_REVIEW)).tolist() for _ in range(DIFFERENT)]
    rows = numpy.empty(REVIEWS, dtype=object)
    rows[:] = [drawn[number % DIFFERENT] for number in range(REVIEWS)]
    return rows, numpy.arange(REVIEWS) % 2
