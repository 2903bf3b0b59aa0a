"""The hub as libraries see it: a name of a checkpoint leads to the folder of its stand-in."""

from __future__ import annotations

import functools
import os
import re
import shutil
from collections.abc import Sequence
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row, library
from lintrain.runtime.stand_ins.checkpoints import Checkpoints
from lintrain.runtime.stand_ins.diffusion import PARTS
from lintrain.runtime.stand_ins.files import written
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.runtime.stand_ins.processors import take_defaults
from lintrain.runtime.stand_ins.tokenizers import LONG


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Answer what asks the hub for files of checkpoints."""
    checkpoints = Checkpoints(ledger)
    hooks.add("huggingface_hub.file_download", functools.partial(_answer_files, ledger, checkpoints))
    hooks.add("huggingface_hub._snapshot_download", functools.partial(_answer_snapshots, checkpoints))
    hooks.add("transformers.modeling_utils", functools.partial(_note_models, checkpoints))
    hooks.add("transformers.configuration_utils", functools.partial(_note_families, checkpoints))
    hooks.add("transformers.utils.hub", _list_no_templates)
    hooks.add("transformers.tokenization_utils_base", functools.partial(_note_tokenizers, ledger, checkpoints))
    for path, owner, read in READ_MEDIA:
        hooks.add(path, functools.partial(_take_defaults, ledger, owner, read))
    hooks.add("peft.config", functools.partial(_answer_adapters, checkpoints))
    hooks.add("peft.utils.save_and_load", _load_no_adapter)


READ_MEDIA = (
    ("transformers.image_processing_base", "ImageProcessingMixin", "get_image_processor_dict"),
    ("transformers.feature_extraction_utils", "FeatureExtractionMixin", "get_feature_extractor_dict"),
)
"""Classes that turn images and sound into numbers, and their methods that read a checkpoint's values."""


def _take_defaults(ledger: Ledger, owner: str, read: str, module: Any) -> None:
    take_defaults(ledger, read, getattr(module, owner))


def _answer_files(ledger: Ledger, checkpoints: Checkpoints, module: Any) -> None:
    download, cached = module.hf_hub_download, module.try_to_load_from_cache

    @functools.wraps(download)
    def hf_hub_download(repo_id: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        # Data sets have their own stand-ins; only files of rows that the script reads by name are made here.
        if kwargs.get("repo_type") not in (None, "model"):
            try:
                return download(repo_id, filename, *args, **kwargs)
            except Exception:
                if (made := written(ledger, filename)) is None:
                    raise
                return made
        file = os.path.join(kwargs.get("subfolder") or "", filename)
        found = checkpoints.file(str(repo_id), file)
        if found is None:
            # The error for a missing entry, and not for a missing repository: libraries try several
            # names of a file, and go on.
            raise _no_entry(f"{repo_id} (a stand-in) has no file {file}")
        return _copied(found, file, kwargs.get("local_dir"))

    @functools.wraps(cached)
    def try_to_load_from_cache(repo_id: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("repo_type") not in (None, "model"):
            return cached(repo_id, filename, *args, **kwargs)
        return checkpoints.file(str(repo_id), filename)

    module.hf_hub_download, module.try_to_load_from_cache = hf_hub_download, try_to_load_from_cache


def _no_entry(text: str) -> Exception:
    errors = library("huggingface_hub.errors")
    try:
        made: Exception = errors.EntryNotFoundError(text)
    except TypeError:  # an error of a request, which an old version builds it from
        made = errors.LocalEntryNotFoundError(text)
    return made


def _copied(path: str, file: str, folder: Any) -> str:
    if folder is None:
        return path
    target = os.path.join(folder, file)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    # `local_dir` promises files that the script may change; the stand-in itself serves later loads.
    return str(shutil.copyfile(path, target))


def _answer_snapshots(checkpoints: Checkpoints, module: Any) -> None:
    download = module.snapshot_download

    @functools.wraps(download)
    def snapshot_download(repo_id: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("repo_type") not in (None, "model"):
            return download(repo_id, *args, **kwargs)
        patterns = kwargs.get("allow_patterns")
        part = _part_of(patterns if is_row(patterns) else [patterns])
        name = f"{repo_id}/{part}" if part else str(repo_id)
        folder = checkpoints.folder(name)
        if folder is None:
            return download(repo_id, *args, **kwargs)
        checkpoints.fill(name)
        local = kwargs.get("local_dir")
        return folder if local is None else str(shutil.copytree(folder, local, dirs_exist_ok=True))

    module.snapshot_download = snapshot_download


def _part_of(patterns: Sequence[Any]) -> str | None:
    """The folder of a repository that holds a checkpoint by itself, if only its files are asked for."""
    folders = {str(each).partition("/")[0] for each in patterns}
    found = next(iter(folders))
    return found if len(folders) == 1 and PARTS.fullmatch(found) else None


def _note_families(checkpoints: Checkpoints, module: Any) -> None:
    """`LlamaConfig.from_pretrained(name)`, and so `LlamaForCausalLM.from_pretrained(name)`, tell the family."""
    owner = getattr(module, "PreTrainedConfig", None) or module.PretrainedConfig
    read: Any = owner.__dict__["get_config_dict"].__func__

    @functools.wraps(read)
    def get_config_dict(cls: Any, name: Any, **kwargs: Any) -> Any:
        if getattr(cls, "model_type", "") and not is_there(name):
            checkpoints.expect(_key(name, kwargs), cls.model_type)
        return read(cls, name, **kwargs)

    owner.get_config_dict = classmethod(get_config_dict)  # type: ignore[arg-type] # `wraps` hides the first argument


def _note_models(checkpoints: Checkpoints, module: Any) -> None:
    """`GemmaForCausalLM.from_pretrained(name)` tells the family, before any file is asked for."""
    owner = module.PreTrainedModel
    load: Any = owner.__dict__["from_pretrained"].__func__

    @functools.wraps(load)
    def from_pretrained(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        family = getattr(getattr(cls, "config_class", None), "model_type", "")
        if family and not is_there(name):
            checkpoints.expect(_key(name, kwargs), family)
        return load(cls, name, *args, **kwargs)

    owner.from_pretrained = classmethod(from_pretrained)


def _key(name: Any, given: dict[str, Any]) -> str:
    folder = given.get("subfolder")
    return f"{name}/{folder}" if folder else str(name)


def _note_tokenizers(ledger: Ledger, checkpoints: Checkpoints, module: Any) -> None:
    """`T5Tokenizer.from_pretrained(name)` tells the family, if no configuration did before."""
    owner = module.PreTrainedTokenizerBase
    read: Any = owner.__dict__["from_pretrained"].__func__

    @functools.wraps(read)
    def from_pretrained(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_there(name):
            families = library("transformers.models.auto.tokenization_auto").TOKENIZER_MAPPING_NAMES
            plain = cls.__name__.removesuffix("Fast")
            found = next((family for family, named in families.items() if plain in str(named)), None)
            if found is not None and found.replace("_", "") in plain.lower():
                checkpoints.expect(_key(name, kwargs), found)
        made = read(cls, name, *args, **kwargs)
        if "trust_remote_code" in ledger.script and not is_there(name):
            _number_own_tokens(ledger, made)
        return made

    owner.from_pretrained = classmethod(from_pretrained)
    choose = owner._get_padding_truncation_strategies

    @functools.wraps(choose)
    def _get_padding_truncation_strategies(self: Any, *args: Any, **kwargs: Any) -> Any:
        padding, truncation, longest, others = choose(self, *args, **kwargs)
        if padding == "max_length" and longest == LONG and ledger.is_made(str(self.name_or_path)):
            has_images = getattr(self, "image_token", None) is not None
            longest = PADDED * 2 if has_images else PADDED
            what = f"{longest}: the script names no length, and that of the checkpoint is not known"
            ledger.replace(StandInKind.MODEL, "padding='max_length'", what)
        return padding, truncation, longest, others

    owner._get_padding_truncation_strategies = _get_padding_truncation_strategies


PADDED = 1_024
"""Tokens that texts are padded to where nothing tells how many; an image takes hundreds of them."""
NUMBER = re.compile(r"\btokenizer\.([a-z]\w*_id|eod)\b")


def _number_own_tokens(ledger: Ledger, tokenizer: Any) -> None:
    """Tokens that only the code of a checkpoint's own tokenizer names: those that the script's text asks for."""
    for name in dict.fromkeys(NUMBER.findall(ledger.script)):
        if not hasattr(tokenizer, name) and tokenizer.eos_token_id is not None:
            object.__setattr__(tokenizer, name, tokenizer.eos_token_id)
            ledger.replace(StandInKind.MODEL, f"tokenizer.{name}", "the number of the token that ends a text")


def _answer_adapters(checkpoints: Checkpoints, module: Any) -> None:
    """The configuration of an adapter; only PEFT asks for it of a checkpoint that must be one."""
    download = module.hf_hub_download

    @functools.wraps(download)
    def hf_hub_download(repo_id: Any, filename: str, *args: Any, **kwargs: Any) -> Any:
        return checkpoints.adapter(str(repo_id))

    module.hf_hub_download = hf_hub_download


def _load_no_adapter(module: Any) -> None:
    """The weights of an adapter that is not here: none, so that those of its first moment stay."""
    load = module.load_peft_weights

    @functools.wraps(load)
    def load_peft_weights(model_id: Any, *args: Any, **kwargs: Any) -> Any:
        return load(model_id, *args, **kwargs) if is_there(model_id) else {}

    module.load_peft_weights = load_peft_weights


def _list_no_templates(module: Any) -> None:
    """Further templates of chats are files of the hub; a stand-in has one."""
    list_templates = getattr(module, "list_repo_templates", None)
    if list_templates is not None:
        module.list_repo_templates = functools.wraps(list_templates)(lambda *_, **__: [])
