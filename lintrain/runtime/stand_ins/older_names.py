"""Names that an older version of a library had and the installed one lacks: what took their place, for the script."""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.knowledge.successors import name_rename
from lintrain.runtime.child.frames import callers_frame, is_users
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.tokenizers import CHAT

PACKAGES = ("transformers", "trl", "pytorch_lightning", "lightning", "datasets", "peft", "torch", "timm", "torchvision")

MOVED = {
    "transformers.deepspeed": "transformers.integrations.deepspeed",
    "transformers.file_utils": "transformers.utils",
    "transformers.generation_utils": "transformers.generation",
    "transformers.modeling_bert": "transformers.models.bert.modeling_bert",
    "transformers.modeling_roberta": "transformers.models.roberta.modeling_roberta",
    "transformers.modeling_gpt2": "transformers.models.gpt2.modeling_gpt2",
    "transformers.tokenization_bert": "transformers.models.bert.tokenization_bert",
    "torch._six": "torch",
    "torchvision.models.utils": "torch.hub",
    "pytorch_lightning.loggers.base": "pytorch_lightning.loggers.logger",
    "pytorch_lightning.metrics": "torchmetrics",
    "pytorch_lightning.utilities.distributed": "pytorch_lightning.utilities.rank_zero",
}
"""Modules by the name that they had."""


def install(ledger: Ledger) -> None:
    """Let `from library import name` find the successor of a name that was removed."""
    builtins.__import__ = _importing(ledger, builtins.__import__)


def _importing(ledger: Ledger, original: Callable[..., Any]) -> Any:
    @functools.wraps(original)
    def importing(name: str, *args: Any, **given: Any) -> Any:
        try:
            module = original(name, *args, **given)
        except ModuleNotFoundError as error:
            if error.name != name or name not in MOVED or not _is_asked_by_script():
                raise
            sys.modules[name] = importlib.import_module(MOVED[name])
            ledger.replace(StandInKind.PACKAGE, name, f"{MOVED[name]} of the installed version")
            module = original(name, *args, **given)
        names = given.get("fromlist") or (args[2] if len(args) > 2 else ()) or ()
        if names and name.partition(".")[0] in PACKAGES and _is_asked_by_script():
            for each in names:
                if each != "*" and not hasattr(module, each):
                    _add(ledger, module, name, each)
        elif name in PACKAGES and not names and _is_asked_by_script():
            for each in dict.fromkeys(re.findall(rf"\b{name}\.([A-Z]\w+)", ledger.script)):
                if not hasattr(module, each):
                    _add(ledger, module, name, each)
        return module

    return importing


def _is_asked_by_script() -> bool:
    caller = callers_frame(above=2)
    return caller is not None and is_users(caller.f_code.co_filename)


def _add(ledger: Ledger, module: Any, path: str, name: str) -> None:
    if name in FUNCTIONS:
        setattr(module, name, FUNCTIONS[name])
        ledger.replace(StandInKind.PACKAGE, f"{path}.{name}", "a function that does the same, or nothing")
        return
    for new_module, new_name in _successors(path, name):
        try:
            found = getattr(importlib.import_module(new_module or ""), new_name or "")
        except (ImportError, AttributeError, ValueError):
            continue
        setattr(module, name, _with_its_defaults(found) if name == "AdamW" else found)
        by = f"{new_module}.{new_name} of the installed version"
        ledger.replace(StandInKind.PACKAGE, f"{path}.{name}", by)
        return


def _successors(path: str, name: str) -> Iterator[tuple[str | None, str | None]]:
    """Where a name may be now: what the table of removed names has, a module of the table below, the whole library."""
    package = path.partition(".")[0]
    rename = name_rename(path, name, {})
    # A function with another name may take other arguments.
    if rename is not None and (rename.is_safe or rename.new_name == name or name[:1].isupper()):
        yield rename.new_module, rename.new_name
    if (known := NAMES.get(f"{package}.{name}")) is not None:
        yield known
    if package == "trl" and (found := OF_TRAINER.fullmatch(name)) is not None:
        yield f"trl.experimental.{re.sub('(?<=[a-z])(?=[A-Z])', '_', found[1]).lower()}", name
    yield package, name


OF_TRAINER = re.compile(r"(\w+?)(?:Config|Trainer)")
NAMES = {
    "peft.prepare_model_for_int8_training": ("peft", "prepare_model_for_kbit_training"),
    "pytorch_lightning.DDPPlugin": ("pytorch_lightning.strategies", "DDPStrategy"),
}


def _with_its_defaults(owner: Any) -> Any:
    """The optimizer of torch, which decays nothing unless asked to and takes no notice of options that it lacks."""
    known = inspect.signature(owner.__init__).parameters

    def init(self: Any, params: Any, lr: float = 1e-3, **given: Any) -> None:
        owner.__init__(self, params, lr, **{"weight_decay": 0.0} | {k: v for k, v in given.items() if k in known})

    return type(owner.__name__, (owner,), {"__init__": init})


def _set_up_chat_format(model: Any, tokenizer: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """The model and its tokenizer, with a template of chats."""
    tokenizer.chat_template = tokenizer.chat_template or CHAT
    return model, tokenizer


def _nothing(*_: Any, **__: Any) -> None:
    """Nothing is sent to the hub."""


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "setup_chat_format": _set_up_chat_format,
    "send_example_telemetry": _nothing,
}
"""Removed functions without a successor that takes the same arguments."""
