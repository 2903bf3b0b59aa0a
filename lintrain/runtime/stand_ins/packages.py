"""Packages that are not installed and that only log, draw, or make a GPU faster: empty ones for the script's imports.

For libraries that look for such a package it is not there.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import inspect
import opcode
import os
import re
import sys
import types
from collections.abc import MutableSequence, Sequence
from types import FrameType, ModuleType
from typing import Any
from urllib.parse import urlsplit

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.frames import is_users
from lintrain.runtime.child.library import loaded
from lintrain.runtime.stand_ins import unsloth
from lintrain.runtime.stand_ins.attention_kernels import attention
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.unused_packages import UnusedPackages

EMPTY = {
    "tracker": (
        "wandb",
        "comet_ml",
        "mlflow",
        "trackio",
        "swanlab",
        "neptune",
        "clearml",
        "aim",
        "dvclive",
        "tensorboardX",
        "tensorboard_logger",
    ),
    "GPU": (
        "bitsandbytes",
        "flash_attn",
        "deepspeed",
        "liger_kernel",
        "apex",
        "xformers",
        "pynvml",
        "nvidia_smi",
        "torchao",
        "unsloth",
        "unsloth_zoo",
    ),
    "plot": ("matplotlib", "seaborn", "plotly", "visdom", "IPython", "ipywidgets"),
    "console": (
        "loguru",
        "termcolor",
        "colorama",
        "coloredlogs",
        "colorlog",
        "tabulate",
        "prettytable",
        "dotenv",
        "ipdb",
        "icecream",
        "codecarbon",
        "GPUtil",
        "torchinfo",
        "torchsummary",
        "thop",
        "ptflops",
    ),
    "notebook": ("google.colab", "kaggle_secrets"),
    "download": ("wget", "gdown", "kagglehub", "opendatasets"),
    "serving": ("vllm", "gradio", "sagemaker", "openai", "anthropic", "litellm", "ollama"),
}
"""By what they are for: packages without which the training of a script is the same."""
UNPACK = opcode.opmap["UNPACK_SEQUENCE"]
OF_OPTIMIZERS = ("optim", "optimizers", "ops", "adam", "nn")
"""Modules of these packages that have optimizers and layers, by whichever way a script comes to them."""
LAYER = re.compile(r"(Linear|Embedding)(?:4bit|8bit|8bitLt|NF4|FP4)?")
OPTIMIZER = re.compile(r"(?:Paged|Fused|DeepSpeedCPU)?(AdamW|Adam|SGD|Adagrad|RMSprop)(?:8bit|32bit)?")
NAMES = {name: purpose for purpose, names in EMPTY.items() for name in names}


def install(ledger: Ledger) -> None:
    """Stand last among the finders: a package that is installed is found before."""
    sys.meta_path += (EmptyPackages(ledger), UnusedPackages(ledger.corrections.packages, _is_asked_by_script))
    _choose_keras_backend(ledger)


def _choose_keras_backend(ledger: Ledger) -> None:
    """Keras on torch, where a script imports Keras alone and its default, TensorFlow, is not installed."""
    imported = re.search(r"^\s*(import|from) keras\b", ledger.script, re.MULTILINE)
    is_chosen = "KERAS_BACKEND" in os.environ or "KERAS_BACKEND" in ledger.script
    has = {name: importlib.util.find_spec(name) is not None for name in ("tensorflow", "torch")}
    if imported and not is_chosen and has["torch"] and not has["tensorflow"]:
        os.environ["KERAS_BACKEND"] = "torch"
        ledger.replace(StandInKind.PACKAGE, "tensorflow", "torch as the backend of Keras")


class EmptyPackages:
    """A finder of empty modules, for imports of the script alone."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of an empty module; None for other names, and where a library asks."""
        package = "google.colab" if name.startswith("google.colab") else name.partition(".")[0]
        if package not in NAMES or not (isinstance(sys.modules.get(package), Empty) or _is_asked_by_script()):
            return None
        what = "an empty package: none of its functions does anything"
        if package == "unsloth":
            what = "models and adapters of transformers and PEFT, without its kernels"
        self._ledger.replace(StandInKind.PACKAGE, package, what)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """An empty module."""
        return Empty(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing runs."""


class Empty(ModuleType):
    """A module that has every name."""

    __path__: MutableSequence[str] = []
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        made: Any = Nothing if name[:1].isupper() else Nothing()
        if self.__name__.partition(".")[0] == "unsloth":
            made = unsloth.piece(name) or made
        elif NAMES.get(self.__name__) == "download":
            made = _named if "download" in name else made
        elif NAMES.get(self.__name__.partition(".")[0]) == "GPU":
            made = (
                Empty(f"{self.__name__}.{name}")
                if name in OF_OPTIMIZERS
                else attention(name) or _optimizer(name) or _layer(name) or made
            )
        setattr(self, name, made)
        return made


def _named(*args: Any, **kwargs: Any) -> str:
    """What a function of `wget`, `gdown` or `kagglehub` gives: the name of the file, which stays missing."""
    given = kwargs.get("output") or kwargs.get("out") or next((each for each in args[1:] if each), None)
    return str(given or file_of(str(next(iter(args), kwargs.get("url", "")))))


def file_of(url: str) -> str:
    """The name of the file that an address ends with."""
    return os.path.basename(urlsplit(url).path) or "download"


def _optimizer(name: str) -> Any | None:
    """Torch's optimizer for one of a package for GPUs (`AdamW8bit`, `FusedAdam`); None for other names."""
    found = OPTIMIZER.fullmatch(name)
    torch = loaded("torch")
    if found is None or torch is None:
        return None
    base: Any = getattr(torch.optim, found[1])
    known = inspect.signature(base.__init__).parameters

    def init(self: Any, params: Any, lr: float = 1e-3, **given: Any) -> None:
        base.__init__(self, params, lr=lr, **{each: value for each, value in given.items() if each in known})

    return type(name, (base,), {"__init__": init})


class _PlainLayer(type):
    """A kind of layer that a stand-in has as torch's own, since nothing was quantized."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__mro__[1])


def _layer(name: str) -> Any | None:
    """Torch's layer for a quantized one (`Linear4bit`); None for other names."""
    found, torch = LAYER.fullmatch(name), loaded("torch")
    if found is None or torch is None:
        return None
    base: Any = getattr(torch.nn, found[1])
    known = inspect.signature(base.__init__).parameters

    def init(self: Any, *args: Any, **given: Any) -> None:
        base.__init__(self, *args, **{each: value for each, value in given.items() if each in known})

    return _PlainLayer(name, (base,), {"__init__": init})


class _EveryName(type):
    """A class that has every name, as `colorama.Fore.RED` asks for it."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Nothing()


class Nothing(metaclass=_EveryName):
    """An object that can be called, entered and walked over, and does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Nothing again."""
        # As a decorator it gives back what it decorates.
        is_decorating = len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType | type)
        return args[0] if is_decorating else Nothing()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Nothing()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *args: object) -> None:
        pass

    def __iter__(self) -> Any:
        """As many as the script's line takes apart (`figure, axes = plt.subplots()`), else none."""
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - the line that takes this apart
        code, at = frame.f_code.co_code, frame.f_lasti
        count = code[at + 1] if code[at] == UNPACK else 0
        return iter([Nothing() for _ in range(count)])

    def __bool__(self) -> bool:
        return False

    def __getitem__(self, key: Any) -> Any:
        return Nothing()

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def __len__(self) -> int:
        return 0

    def __add__(self, other: Any) -> Any:
        return other

    def __radd__(self, other: Any) -> Any:
        return other

    def __format__(self, form: str) -> str:
        return ""

    def __int__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0

    def __str__(self) -> str:
        return ""


def _is_asked_by_script() -> bool:
    """Whether the import that is going on is one of the script's own lines."""
    frame: FrameType | None = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] - the way to the importing line
    while frame is not None:
        name = frame.f_code.co_filename
        if "importlib" in name and "util" in name:
            return False  # `find_spec`: whether the package is there
        if not ("importlib" in name and ("frozen" in name or "bootstrap" in name)) and "lintrain/runtime" not in name:
            return is_users(name)
        frame = frame.f_back
    return False
