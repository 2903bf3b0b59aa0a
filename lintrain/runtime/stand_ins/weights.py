"""Pretrained weights on a server, of torchvision, timm, Keras and `torch.hub`: the model keeps random ones."""

from __future__ import annotations

import functools
import os
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.stand_ins.ledger import Ledger, is_there


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Answer downloads of weights with none, and let loading none be a success."""
    hooks.add("torch.serialization", functools.partial(_answer_loads, ledger))
    hooks.add("torch.hub", functools.partial(_answer_downloads, ledger))
    hooks.add("torch.nn.modules.module", _accept_none)
    hooks.add("timm.models._builder", functools.partial(_build_untrained, ledger))
    hooks.add("timm.models._factory", functools.partial(_name_plainly, ledger))
    hooks.add("keras.src.utils.file_utils", functools.partial(_answer_files, ledger))
    hooks.add("keras.src.models.model", _load_nothing)


class NoWeights(dict[str, Any]):
    """Weights that were not downloaded; what a script takes out of them, or removes, are such weights too."""

    def __missing__(self, key: str) -> Any:
        return NoWeights()

    def __delitem__(self, key: str) -> None:
        pass

    def pop(self, key: str, default: Any = None) -> Any:
        """Nothing is there to remove."""
        return NoWeights() if default is None else default


FILES = (".pth", ".pt", ".bin", ".ckpt", ".tar", ".pkl")


def _answer_loads(ledger: Ledger, module: Any) -> None:
    """`torch.load` of a file of weights that is not here."""
    load = module.load

    @functools.wraps(load)
    def loading(f: Any, *args: Any, **kwargs: Any) -> Any:
        name = os.path.basename(str(f))
        if hasattr(f, "read") or is_there(f) or not name.lower().endswith(FILES):
            return load(f, *args, **kwargs)
        ledger.replace(StandInKind.MODEL, name, "random weights of the same model")
        return NoWeights()

    module.load = loading


def _answer_downloads(ledger: Ledger, module: Any) -> None:
    load = module.load_state_dict_from_url

    @functools.wraps(load)
    def load_state_dict_from_url(url: str, *_: Any, **__: Any) -> Any:
        ledger.replace(StandInKind.MODEL, str(url).rpartition("/")[2], "random weights of the same model")
        return NoWeights()

    module.load_state_dict_from_url = load_state_dict_from_url


def _accept_none(module: Any) -> None:
    load = module.Module.load_state_dict

    @functools.wraps(load)
    def load_state_dict(self: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(state, NoWeights):
            state = self.state_dict()
        return load(self, state, *args, **kwargs)

    module.Module.load_state_dict = load_state_dict


def _build_untrained(ledger: Ledger, module: Any) -> None:
    build = module.build_model_with_cfg

    @functools.wraps(build)
    def build_model_with_cfg(model_cls: Any, variant: str, pretrained: bool, *args: Any, **kwargs: Any) -> Any:
        if pretrained:
            ledger.replace(StandInKind.MODEL, f"timm/{variant}", "random weights of the same model")
        return build(model_cls, variant, False, *args, **kwargs)

    module.build_model_with_cfg = build_model_with_cfg


def _name_plainly(ledger: Ledger, module: Any) -> None:
    """`hf-hub:timm/resnet18.a1_in1k`, and `timm/resnet18` as earlier versions took it: the network of that name."""
    parse = module.parse_model_name

    @functools.wraps(parse)
    def parse_model_name(model_name: str) -> Any:
        owner, _, name = str(model_name).rpartition(":")[2].rpartition("/")
        if owner != "timm" or is_there(model_name) or not module.is_model(name.partition(".")[0]):
            return parse(model_name)
        ledger.replace(StandInKind.MODEL, str(model_name), f"timm's {name}, random weights")
        return parse(name)

    module.parse_model_name = parse_model_name


NOT_HERE = "weights-that-were-not-downloaded/"
"""The folder that the path of weights of Keras begins with, if they could not be downloaded."""


def _answer_files(ledger: Ledger, module: Any) -> None:
    get = module.get_file

    @functools.wraps(get)
    def get_file(fname: Any = None, *args: Any, **kwargs: Any) -> Any:
        try:
            return get(fname, *args, **kwargs)
        except Exception:
            if not str(fname).endswith((".h5", ".keras")):
                raise
            ledger.replace(StandInKind.MODEL, str(fname), "random weights of the same model")
            return f"{NOT_HERE}{fname}"

    module.get_file = get_file


def _load_nothing(module: Any) -> None:
    load = module.Model.load_weights

    @functools.wraps(load)
    def load_weights(self: Any, filepath: Any, *args: Any, **kwargs: Any) -> Any:
        return None if str(filepath).startswith(NOT_HERE) else load(self, filepath, *args, **kwargs)

    module.Model.load_weights = load_weights
