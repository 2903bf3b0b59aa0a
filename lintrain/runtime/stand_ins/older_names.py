"""Names that an older version of a library had and the installed one lacks: what took their place, for the script."""

from __future__ import annotations

import argparse
import builtins
import functools
import importlib
import inspect
import linecache
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.knowledge.api import keyword_state
from lintrain.knowledge.successors import name_rename
from lintrain.knowledge.versions import exactly
from lintrain.runtime.child.frames import callers_frame, is_called_by_user, is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.older_arguments import RENAMED
from lintrain.runtime.stand_ins.packages import Nothing
from lintrain.runtime.stand_ins.tokenizers import CHAT

PACKAGES = (
    "transformers",
    "trl",
    "pytorch_lightning",
    "lightning",
    "datasets",
    "peft",
    "torch",
    "timm",
    "torchvision",
    "huggingface_hub",
)

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


class _Shared(argparse.Namespace):
    """Values of options of which several data classes take some: the last of them removes a value."""

    def __init__(self, others: Counter[str]) -> None:
        super().__init__()
        _OTHERS[id(self)] = Counter(others)

    def __delattr__(self, name: str) -> None:
        others = _OTHERS[id(self)]
        if others[name]:
            others[name] -= 1
        else:
            super().__delattr__(name)


_OTHERS: dict[int, Counter[str]] = {}
"""By the identity of such values, which are few: how many classes take an option after another one."""


PARTS = ("vision_tower", "vision_model", "visual", "language_model", "text_model", "multi_modal_projector")
"""Parts that a model for images and texts had itself in transformers 4, and has in its inner model since 5."""


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Let `from library import name` find the successor of a name that was removed, and models find their parts."""
    builtins.__import__ = _importing(ledger, builtins.__import__)
    hooks.add("transformers.modeling_utils", functools.partial(_find_parts, ledger))
    hooks.add("transformers.tokenization_utils_base", functools.partial(_find_tokens, ledger))
    hooks.add("transformers.processing_utils", functools.partial(_find_reader_of_images, ledger))
    hooks.add("transformers.hf_argparser", functools.partial(_share_options, ledger))


def _find_parts(ledger: Ledger, module: Any) -> None:
    owner = module.PreTrainedModel
    find = owner.__getattr__

    @functools.wraps(find)
    def found(self: Any, name: str) -> Any:
        try:
            return find(self, name)
        except AttributeError:
            inner = self.__dict__["_modules"].get(self.base_model_prefix) if name in PARTS else None
            # PEFT looks for the parts that a script names to it, so it may ask in the script's place; the library
            # itself asks for names that it expects to be missing.
            if inner is None or not hasattr(inner, name) or not is_called_by_user("peft/"):
                raise
            prefix = f"{type(self).__name__}.{self.base_model_prefix}"
            ledger.replace(StandInKind.PACKAGE, f"{type(self).__name__}.{name}", f"{prefix}.{name}")
            return getattr(inner, name)

    owner.__getattr__ = found


def _find_reader_of_images(ledger: Ledger, module: Any) -> None:
    """`processor.feature_extractor` of a processor that reads images, as transformers 4 called it too."""
    owner = module.ProcessorMixin
    find = getattr(owner, "__getattr__", object.__getattribute__)

    def found(self: Any, name: str) -> Any:
        reader = self.__dict__.get("image_processor") if name == "feature_extractor" else None
        if reader is None or not is_called_by_user():
            return find(self, name)
        what = f"{type(self).__name__}.image_processor of the installed version"
        ledger.replace(StandInKind.PACKAGE, f"{type(self).__name__}.{name}", what)
        return reader

    owner.__getattr__ = found


def _find_tokens(ledger: Ledger, module: Any) -> None:
    """`tokenizer._pad_token`, without its underscore in transformers 5, and the tokens that it names otherwise."""
    owner = module.PreTrainedTokenizerBase
    find = getattr(owner, "__getattr__", None)
    if find is None:  # every attribute is there by itself, as in transformers 4
        return

    @functools.wraps(find)
    def found(self: Any, name: str) -> Any:
        try:
            return find(self, name)
        except AttributeError:
            if (further := FURTHER.fullmatch(name)) and is_called_by_user():
                what = "the special tokens without a name of their own"
                ledger.replace(StandInKind.PACKAGE, f"tokenizer.{name}", what)
                tokens = _further_tokens(self)
                return self.convert_tokens_to_ids(tokens) if further[1] else tokens
            if not OF_TOKENS.fullmatch(name) or not is_called_by_user():
                raise
            ledger.replace(StandInKind.PACKAGE, f"tokenizer.{name}", f"tokenizer.{name[1:]} of the installed version")
            return getattr(self, name[1:])

    owner.__getattr__ = found


OF_TOKENS = re.compile(r"_(bos|eos|unk|sep|pad|cls|mask)_token")
FURTHER = re.compile(r"additional_special_tokens(_ids)?")


def _further_tokens(tokenizer: Any) -> list[str]:
    """Special tokens beyond those that every tokenizer may have: of images, of turns in a chat."""
    added: dict[int, Any] = tokenizer.added_tokens_decoder
    named = {*tokenizer.special_tokens_map.values()} - {getattr(tokenizer, "image_token", None)}
    return [str(each) for each in added.values() if each.special and str(each) not in named]


def _share_options(ledger: Ledger, module: Any) -> None:
    """An option of the script that the installed `TrainingArguments` has too: the script's own counts."""
    owner = module.HfArgumentParser
    build, parse = owner.__init__, owner.parse_known_args
    shared = Counter[str]()

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **{"conflict_handler": "earlier", **kwargs})

    def resolved(self: Any, action: Any, conflicting: Any) -> None:
        for name, _ in conflicting:
            ledger.replace(StandInKind.PACKAGE, name, "the script's own option: the installed version has it too")
        shared[action.dest] += 1
        self._handle_conflict_resolve(action, conflicting)

    @functools.wraps(parse)
    def parse_known_args(self: Any, args: Any = None, namespace: Any = None) -> Any:
        values, rest = parse(self, args, namespace or _Shared(shared))
        return values, _without_removed(ledger, self, values, rest)

    owner.__init__, owner.parse_known_args = init, parse_known_args
    # A handler of this name alone, which the groups of such a parser look for as well.
    containers: Any = argparse._ActionsContainer  # pyright: ignore[reportPrivateUsage]
    containers._handle_conflict_earlier = resolved


def _without_removed(ledger: Ledger, parser: Any, values: Any, rest: Sequence[str]) -> list[str]:
    """The words that no option takes, without those of options that only an earlier version of a library had."""
    kept, has_gone = list[str](), False
    for at, word in enumerate(rest):
        name, _, value = word.removeprefix("--").partition("=")
        if not word.startswith("--"):
            # The value behind a removed option, as in `--fp16_backend amp`, goes with it.
            kept += [] if has_gone else [word]
            continue
        owner = next((each for each in parser.dataclass_types if word != "--" and _has_gone(each, name)), None)
        has_gone = owner is not None
        if owner is None:
            kept.append(word)
            continue
        new = next((each for each in parser._actions if f"--{RENAMED.get(name, '')}" in each.option_strings), None)
        by = f"{new.dest}=" if new is not None else "left out"
        ledger.replace(StandInKind.PACKAGE, f"{owner.__name__}({name}=)", f"{by}: the installed version has no {name}")
        if new is not None:
            value = value or next(iter(rest[at + 1 :]), "")
            setattr(values, new.dest, new.type(value) if new.type else value)
    return kept


def _has_gone(owner: Any, name: str) -> bool:
    """Whether a class of settings had an argument that the installed version lacks."""
    loaded = {each: getattr(sys.modules.get(each), "__version__", "") for each in ("transformers", "trl")}
    targets = exactly(**{package: version for package, version in loaded.items() if version})
    paths = (f"{each.__module__.partition('.')[0]}.{each.__name__}" for each in owner.__mro__)
    return any(keyword_state(each, name, targets).state == "gone" for each in paths if each.partition(".")[0] in loaded)


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
            for each in dict.fromkeys(re.findall(rf"\b{name}\.([A-Z]\w+)", ledger.script + _text_of_caller())):
                if not hasattr(module, each):
                    _add(ledger, module, name, each)
        return module

    return importing


def _is_asked_by_script() -> bool:
    caller = callers_frame(above=2)
    return caller is not None and is_users(caller.f_code.co_filename)


def _text_of_caller() -> str:
    """The text of the file that imports, which may be one of the script's package."""
    caller = callers_frame(above=2)
    return "".join(linecache.getlines(caller.f_code.co_filename)) if caller is not None else ""


def _add(ledger: Ledger, module: Any, path: str, name: str) -> None:
    if name in FUNCTIONS:
        setattr(module, name, FUNCTIONS[name])
        ledger.replace(StandInKind.PACKAGE, f"{path}.{name}", "what does the same, or nothing")
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


class _Folder:
    """Where the hub's token was kept: there is none."""

    path_token = ""
    get_token = save_token = delete_token = staticmethod(_nothing)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "HfFolder": _Folder,
    "Repository": Nothing,
    "setup_chat_format": _set_up_chat_format,
    "send_example_telemetry": _nothing,
}
"""Removed functions and classes without a successor that takes the same arguments."""
