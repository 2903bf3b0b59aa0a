"""Checkpoints of the hub: a folder with a tiny random model of the same class, its tokenizer and its processor.

It holds what a checkpoint on the hub holds, so that every library reads it as it would read that one.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.knowledge.data_files import cached_snapshots
from lintrain.knowledge.stand_in_facts import (
    family_of,
    holds_chats,
    parts_by_name,
    scores_with_one_output,
    table,
    values_by_name,
)
from lintrain.knowledge.tables import CheckpointFacts
from lintrain.runtime.child.library import library
from lintrain.runtime.stand_ins.diffusion import PARTS, encoder_of
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.processors import marks_of, write_processors
from lintrain.runtime.stand_ins.small_configs import small_config
from lintrain.runtime.stand_ins.tokenizers import small_tokenizer

REVISION = "0" * 40
WEIGHTS = re.compile(r"(model|pytorch_model)[\w.-]*\.(safetensors|bin|json)")
LOADED = re.compile(
    r"\b(?!Auto)([A-Z]\w+?)(?:For[A-Z]\w+|Model|Processor|LMHeadModel|(?:Tokenizer|Config)(?:Fast)?)\.from_pretrained"
)
LAYERS_NAMED = re.compile(r"\b(?:layers?|blocks?|h)\[(\d{1,2})\]|\bnum_hidden_layers\s*=\s*(\d{1,2})\b")
"""Code that takes a layer by its number, or gives their count."""
TOOLS = re.compile(r"\btools\b|\btool_calls\b|\benvironment_factory\b")
"""Code of a script whose model calls tools."""
FALLBACK = "bert"
OFFSET = ("roberta", "camembert", "longformer", "mpnet", "xmod")
"""Families whose positions are counted from the padding token on."""
ARCHITECTURES = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "SPEECH_SEQ_2_SEQ",
    "MASKED_LM",
    "CAUSAL_LM",
    "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION",
    "PRETRAINING",
)
"""The mappings of transformers that say which class a family is published as, the first that has it."""


class Checkpoints:
    """The folders of the checkpoints that the script has asked for, made as they are asked for."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._folders: dict[str, str | None] = {}
        self._asked: dict[str, str] = {}
        self._with_weights = set[str]()
        ledger.make_again = self._forget

    def expect(self, name: str, family: str) -> None:
        """A class that loads a checkpoint tells its family."""
        self._asked.setdefault(name, family)

    def _forget(self) -> None:
        """Make every checkpoint again when it is asked for: a correction changes it."""
        self._folders.clear()
        self._with_weights.clear()

    def folder(self, name: str) -> str | None:
        """The folder of a checkpoint, without weights until one asks for them; None if none can be made."""
        if name not in self._folders:
            self._folders[name] = None  # while it is made, its name may be asked for
            try:
                with self._ledger.making(name):
                    self._folders[name] = self._made(name)
            except Exception as error:  # noqa: BLE001 - a class of transformers may need a package of its own
                self._ledger.session.note(f"no stand-in for {name}: {type(error).__name__}: {error}")
        return self._folders[name]

    def file(self, name: str, file: str) -> str | None:
        """A file of a checkpoint; None for one that it does not have."""
        part, _, inner = file.partition("/")
        if PARTS.fullmatch(part) and inner:
            return self.file(f"{name}/{part}", inner)
        folder = self.folder(name)
        if folder is None:
            return None
        if WEIGHTS.fullmatch(os.path.basename(file)):
            self.fill(name)
        path = os.path.join(folder, file)
        return path if os.path.isfile(path) else None

    def adapter(self, name: str) -> str:
        """The configuration of a LoRA adapter, whose base is a stand-in of the same name."""
        folder = os.path.join(self._ledger.session.folder("hub"), "adapters", _plain(name))
        path = os.path.join(folder, "adapter_config.json")
        if not os.path.isfile(path):
            task = "SEQ_CLS" if scores_with_one_output(name) else "CAUSAL_LM"
            config = library("peft").LoraConfig(base_model_name_or_path=name, task_type=task)
            config.target_modules = "all-linear"
            config.save_pretrained(folder)
            self._ledger.replace(StandInKind.MODEL, f"{name}, adapter", "a LoRA adapter that was not trained")
        return path

    def fill(self, name: str) -> None:
        """Write the weights of a checkpoint."""
        folder = self.folder(name)
        if folder is None or name in self._with_weights:
            return
        self._with_weights.add(name)
        with self._ledger.making(name):
            _write_weights(folder)
        self._ledger.name_model(name, _class_of_weights(folder))

    def _made(self, name: str) -> str | None:
        auto = library("transformers.models.auto.configuration_auto")
        folder = os.path.join(self._ledger.session.folder("hub"), _plain(name), "snapshots", REVISION)
        facts = checkpoint_facts(name)
        known = next(_known_configs(name), None) or _joined_config(name, auto.CONFIG_MAPPING)
        encoder = encoder_of(name)
        family = known.model_type if known is not None else self._family(name, auto.CONFIG_MAPPING)
        kind = auto.CONFIG_MAPPING[family] if known is None else known.__class__
        try:
            config = small_config(kind, known, self._ledger.corrections.width, self._ledger.corrections.channels)
            layers = encoder.layers if encoder is not None else self._layers(config)
            if layers is not None:
                config = kind(**{**config.to_dict(), "num_hidden_layers": layers, "layer_types": None})
        except Exception as error:  # noqa: BLE001 - a family whose sizes depend on each other in a way of their own
            self._ledger.session.note(f"no stand-in for {name}: {type(error).__name__}: {error}")
            return None
        os.makedirs(folder, exist_ok=True)
        marks = marks_of(family, config)
        # A model put together from two others has the tokenizer of the one that reads text.
        reads = config.text_config.model_type if family.endswith("dual-encoder") else family
        tokenizer = self._tokenizer(reads, name, facts, marks) if _reads_text(config) else None
        if tokenizer is not None and tokenizer.pad_token is None and getattr(config, "is_encoder_decoder", False):
            tokenizer.pad_token = tokenizer.eos_token  # as Whisper has it, whose labels are padded with it
        _fit(config, tokenizer, facts, marks)
        for value_name, value in values_by_name(name, family).items():
            setattr(config, value_name, value)
        _describe(config, name, family, facts)
        if encoder is not None:
            config.architectures = [encoder.architecture]
            if encoder.positions is not None:
                config.max_position_embeddings = encoder.positions
        write_processors(family, folder, config, tokenizer)
        config.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.model_max_length = min(tokenizer.model_max_length, _positions_learned(config))
            tokenizer.save_pretrained(folder)
            _list_words(tokenizer, folder)
        self._report(name, config, family)
        return folder

    def _tokenizer(self, family: str, name: str, facts: CheckpointFacts | None, marks: dict[str, str]) -> Any:
        # Nothing is known of the checkpoint, and the script takes it for a chat model.
        is_taken_for_chat = facts is None and "apply_chat_template" in self._ledger.script
        encoder = encoder_of(name)
        is_for_chats = holds_chats(name) or (encoder is not None and holds_chats(encoder.family))
        chats, tools = is_for_chats or is_taken_for_chat, TOOLS.search(self._ledger.script) is not None
        return small_tokenizer(family, name, facts, marks, chats=chats, tools=tools)

    def _family(self, name: str, families: Any) -> str:
        asked = self._ledger.corrections.families.get(name) or self._asked.get(name)
        encoder = encoder_of(name)
        if encoder is not None:
            return encoder.family
        if asked in families:
            return str(asked)
        script = self._ledger.script
        return (
            family_of(name, frozenset(families))
            or _by_class(families, script)
            or family_of(name, frozenset(families), script)
            or FALLBACK
        )

    def _layers(self, config: Any) -> int | None:
        """The layers of a model where the script's text names one beyond those that a small model has."""
        # A script that reads `encoder.layer[8]` would end by an IndexError in a model of two layers.
        named = LAYERS_NAMED.findall(self._ledger.script)
        most = max((int(count) if count else int(number) + 1 for number, count in named), default=0)
        has_layers = isinstance(getattr(config, "num_hidden_layers", None), int)
        return most if has_layers and most > config.num_hidden_layers else None

    def _report(self, name: str, config: Any, family: str) -> None:
        layers = getattr(config, "num_hidden_layers", None)
        shape = f", {layers} layers" if isinstance(layers, int) else ""
        self._ledger.describe(name, f"the tokenizer and configuration of a {family} model", shape)


def _by_class(families: Any, script: str) -> str | None:
    """The family of the only class that a script's text names where it loads a checkpoint; None for several."""
    named = {each.lower() for each in LOADED.findall(script)}
    found = {each for each in families if each.replace("_", "").replace("-", "") in named}
    return str(found.pop()) if len(found) == 1 else None


def _reads_text(config: Any) -> bool:
    """Whether a configuration, or a part of it, has a vocabulary; its class may leave the size open."""
    return any(isinstance(getattr(part, "vocab_size", 0.0), int | None) for part in _parts(config))


def _positions_learned(config: Any) -> float:
    """Positions that the text parts have an embedding for: a longer text is out of range. Rotary ones have no end."""
    before = 2 if any(each in config.model_type for each in OFFSET) else 0
    counts = [
        getattr(part, "max_position_embeddings", None)
        for part in _parts(config)
        if isinstance(getattr(part, "vocab_size", None), int) and not getattr(part, "rope_parameters", None)
    ]
    return min((count - before for count in counts if isinstance(count, int) and count > before), default=math.inf)


def _list_words(tokenizer: Any, folder: str) -> None:
    """The file of words that a tokenizer of BERT's kind has, for classes which read no other one."""
    model: Any = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
    if type(model).__name__ == "WordPiece":
        model.save(folder)


def _plain(name: str) -> str:
    return "models--" + re.sub(r"[^\w.-]+", "--", name)


def _known_configs(name: str) -> Iterator[Any]:
    """The configurations of a checkpoint that the cache of the hub has, or a folder without weights."""
    auto = library("transformers.models.auto.configuration_auto")
    for snapshot in cached_snapshots(name):
        if (snapshot / "config.json").is_file():
            with suppress(Exception):
                yield auto.AutoConfig.from_pretrained(str(snapshot))


def _joined_config(name: str, families: Any) -> Any:
    """The configuration of a checkpoint that is put together from two others; None for other names."""
    parts = parts_by_name(name)
    if parts is None or any(each not in families for each in parts):
        return None
    encoder, decoder = (families[each]() for each in parts)
    return families["vision-encoder-decoder"].from_encoder_decoder_configs(encoder, decoder)


def _fit(config: Any, tokenizer: Any, facts: CheckpointFacts | None, marks: dict[str, str]) -> None:
    """Let a configuration and its parts have the vocabulary of a tokenizer, and the positions that are known."""
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0  # as every published T5 has it
    for part in _parts(config):
        if tokenizer is None:
            break
        for name in ("vocab_size", "decoder_vocab_size"):
            if isinstance(getattr(part, name, None), int):
                setattr(part, name, _padded(config, len(tokenizer)))
        if getattr(part, "vocab_size", 0) is None:  # the class leaves to each checkpoint what belongs to its tokens
            part.vocab_size = _padded(config, len(tokenizer))
            part.pad_token_id, part.mask_token_id = tokenizer.pad_token_id, tokenizer.mask_token_id
        _set_ids(part, tokenizer, marks)
    positions = facts.max_positions if facts else None
    for name in ("max_position_embeddings", "n_positions"):
        if positions is not None and isinstance(config.__dict__.get(name), int):
            setattr(config, name, positions + 2 if any(each in config.model_type for each in OFFSET) else positions)


PADDED_TO = 256


def _padded(config: Any, tokens: int) -> int:
    """Rows of the embedding: rounded up, as published checkpoints have them, so that models of a family fit each other.

    Where every token has its own output (CTC), there is one row for each.
    """
    if config.model_type in library("transformers.models.auto.modeling_auto").MODEL_FOR_CTC_MAPPING_NAMES:
        return tokens
    return -(-tokens // PADDED_TO) * PADDED_TO


def _parts(config: Any) -> Iterator[Any]:
    yield config
    for value in list(config.__dict__.values()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            yield from _parts(value)


def _set_ids(part: Any, tokenizer: Any, marks: dict[str, str]) -> None:
    """Numbers of tokens that the vocabulary has; those of a larger one would be out of range."""
    own = {f"{each}_token_id": getattr(tokenizer, f"{each}_token_id", None) for each in ("pad", "bos", "eos", "sep")}
    for name, value in list(part.__dict__.items()):
        if not re.fullmatch(r".*(token_id|token_index)s?", name):
            continue
        mark = marks.get(name) or marks.get(name.replace("_index", "_id"))
        if mark is not None and name not in own:
            setattr(part, name, tokenizer.convert_tokens_to_ids(mark))
        elif value is None:
            continue
        elif name in own:
            if own[name] is not None or isinstance(getattr(part, "vocab_size", None), int):
                setattr(part, name, own[name])
        elif name == "decoder_start_token_id":
            start = own["bos_token_id"] if value == getattr(part, "bos_token_id", None) else own["pad_token_id"]
            setattr(part, name, start if start is not None else 0)
        elif isinstance(value, int) and value >= len(tokenizer):
            setattr(part, name, value % len(tokenizer))


def _describe(config: Any, name: str, family: str, facts: CheckpointFacts | None) -> None:
    config.architectures = [_architecture(name, family, facts)]
    config.dtype = (facts.dtype if facts else None) or (
        "bfloat16" if family in table()["half_precision"] else "float32"
    )
    if facts is not None and facts.label_names:
        config.id2label = dict(enumerate(facts.label_names))
        config.label2id = {label: number for number, label in enumerate(facts.label_names)}
    elif scores_with_one_output(name):
        config.id2label, config.label2id = {0: "LABEL_0"}, {"LABEL_0": 0}
    elif facts is not None and facts.num_labels:
        config.num_labels = facts.num_labels


def _architecture(name: str, family: str, facts: CheckpointFacts | None) -> str:
    if facts is not None and facts.head:
        return facts.head
    auto = library("transformers.models.auto.modeling_auto")
    if scores_with_one_output(name):
        found = auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES.get(family)
        if found:
            return str(found)
    for each in ARCHITECTURES:
        named = getattr(auto, f"MODEL_FOR_{each}_MAPPING_NAMES", {}).get(family)
        if named:
            return named if isinstance(named, str) else str(named[0])
    base = auto.MODEL_MAPPING_NAMES.get(family, "")
    return base if isinstance(base, str) else str(base[0])


def _class_of_weights(folder: str) -> str:
    return str(library("transformers").AutoConfig.from_pretrained(folder).architectures[0])


def _write_weights(folder: str) -> None:
    transformers = library("transformers")
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, config.architectures[0], None) or transformers.AutoModel
    made = kind(config) if kind is not transformers.AutoModel else kind.from_config(config)
    made.to(getattr(library("torch"), str(config.dtype).removeprefix("torch."))).save_pretrained(folder)
