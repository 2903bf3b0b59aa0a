"""Tokenizers of the hub: one of the same class and special tokens, trained in milliseconds on shipped sentences."""

from __future__ import annotations

import importlib.util
import re
import string
import sys
import tempfile
from pathlib import Path
from typing import Any

from lintrain.knowledge.stand_in_facts import table
from lintrain.knowledge.tables import CheckpointFacts
from lintrain.runtime.child.library import library

VOCABULARY = 1_200
"""Entries that a tokenizer is trained to have, special tokens and bytes included."""
LONG = 131_072
WORD = re.compile(r"[A-Za-z]{2,12}")
OFTEN = 200
"""Times that a word is in the texts, for a tokenizer to have it as one token."""
CONTENT = (
    "{%- if message['content'] is string %}{{- message['content'] }}{%- elif message['content'] %}"
    "{%- for part in message['content'] %}{%- if part['type'] == 'text' %}{{- part['text'] }}"
    "{%- else %}{{- 'IMAGE' }}{%- endif %}{%- endfor %}{%- endif %}"
    "{%- for call in message['tool_calls'] or [] %}{{- '<tool_call>' + ((call['function'] or call) | tojson) }}"
    "{{- '</tool_call>' }}{%- endfor %}{{- '<|im_end|>' }}"
)
CHAT = (
    "{%- if tools %}{{- '<|im_start|>system\\n' + (tools | tojson) + '<|im_end|>\\n' }}{%- endif %}"
    "{%- for message in messages %}{{- '<|im_start|>' + message['role'] + '\\n' }}"
    "{%- if message['role'] == 'assistant' %}{%- generation %}"
    f"{CONTENT}{{%- endgeneration %}}{{%- else %}}{CONTENT}{{%- endif %}}{{{{- '\\n' }}}}{{%- endfor %}}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"
)
"""A template in the form that most chat models share; `IMAGE` stands for the family's token of an image.

What the assistant says is marked: TRL marks it in the templates of published models, which it knows by their text.
"""
TURNS = ("<|im_start|>", "<|im_end|>")
PUBLISHED = {
    r"qwen2(_moe)?": "qwen2_5",
    r"qwen3(_moe)?": "qwen3",
    r"qwen3_5(_moe|_text)?": "qwen3_5_nothink",
    r"qwen3_vl": "qwen3_vl",
    r"llama": "llama3_1",
    r"gpt_oss": "gptoss",
    r"glm4_moe": "glm4moe",
    r"lfm2": "lfm2_v2",
}
"""By families whose published template TRL has: it reads calls of tools only from templates that it knows."""


def corpus() -> list[str]:
    """Sentences to train on, with every common letter among them."""
    sentences: list[str] = table()["sentences"]
    letters: str = table()["letters"]
    # A script may require that a word of its command is a single token, as textual inversion does of one to begin with.
    words = [f" {word}" for each in sys.argv[1:] if (word := each.rpartition("=")[2]) and WORD.fullmatch(word)]
    common = [" ".join(words)] * OFTEN if words else []
    return [*sentences, *(sentence.lower() for sentence in sentences), *letters, " ".join(letters), *common]


def small_tokenizer(
    family: str, name: str, facts: CheckpointFacts | None, marks: dict[str, str], *, chats: bool, tools: bool = False
) -> Any:
    """A tokenizer like that of a checkpoint. `marks` are tokens of images and sound.

    With `chats` it has a template, and with `tools` the published one where that is here.
    """
    kind = _class_of(family, name)
    made = _trained(kind) if kind is not None else _generic(LATER)
    _set_special_tokens(made, facts)
    if marks:
        made.add_tokens(list(dict.fromkeys(marks.values())), special_tokens=True)
        if named := {name: token for name, token in marks.items() if name.endswith("_token")}:
            made._set_model_specific_special_tokens(special_tokens=named)
        if made.pad_token is None:
            made.add_special_tokens({"pad_token": "<pad>"})
    if chats:
        made.add_tokens(list(TURNS), special_tokens=True)
        # Other templates than TRL's own copies would end its trainers with tools: it parses calls by the template.
        made.chat_template = (_published(family) if tools else None) or CHAT.replace(
            "IMAGE", marks.get("image_token_id", "<image>")
        )
        if family.startswith("qwen"):
            made.eos_token = TURNS[1]
    made.model_max_length = (facts.max_positions if facts else None) or _longest(family)
    return made


def _published(family: str) -> str | None:
    """The template of a family as TRL has it; None where neither is here."""
    named = next((named for pattern, named in PUBLISHED.items() if re.fullmatch(pattern, family)), None)
    found = importlib.util.find_spec("trl")
    if named is None or found is None or found.origin is None:
        return None
    path = Path(found.origin).parent / "chat_templates" / f"{named}.jinja"
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _class_of(family: str, name: str) -> Any | None:
    """The class of a family's tokenizer; None where it is the one that reads any file."""
    auto = library("transformers.models.auto.tokenization_auto")
    named = auto.TOKENIZER_MAPPING_NAMES.get(family.removesuffix("_text_model"))
    names = [named] if isinstance(named, str) else [each for each in reversed(named or ()) if each]
    if family.startswith(("mistral", "mixtral", "llava")):
        names = ["LlamaTokenizerFast", "LlamaTokenizer"]
    if family == "llama" and not re.search(r"llama-?3", name.lower()):
        names = ["LlamaTokenizerFast", "LlamaTokenizer"]
    found = (auto.tokenizer_class_from_name(each) for each in names if each != "TokenizersBackend")
    return next((each for each in found if each is not None), None)


def _trained(kind: Any) -> Any:
    """A tokenizer of the class; a generic one on bytes where the class cannot be trained without files."""
    try:
        return kind().train_new_from_iterator(corpus(), VOCABULARY)
    except Exception:  # noqa: BLE001 - a class that needs its files: many, each with an error of its own
        return _of_letters(kind) or _generic(EARLIER)


def _of_letters(kind: Any) -> Any | None:
    """A tokenizer that reads a file with one token in each line, as those of proteins do; None for other classes."""
    if getattr(kind, "vocab_files_names", {}).get("vocab_file") != "vocab.txt":
        return None
    tokens = ["<cls>", "<pad>", "<eos>", "<unk>", *string.ascii_uppercase, ".", "-", "<mask>"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "vocab.txt")
        path.write_text("\n".join(tokens), encoding="utf-8")
        try:
            return kind(str(path))
        except Exception:  # noqa: BLE001 - as above
            return None


EARLIER = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
LATER = {"bos": "<|begin_of_text|>", "eos": "<|end_of_text|>"}
"""The special tokens of a generic tokenizer: encoders and translators of before 2022, language models since."""


def _generic(special: dict[str, str]) -> Any:
    backend = library("tokenizers")
    made = backend.Tokenizer(backend.models.BPE(unk_token=None))
    made.pre_tokenizer = backend.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = backend.decoders.ByteLevel()
    trainer = backend.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=list(special.values()),
        initial_alphabet=backend.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(corpus(), trainer)
    added = special["eos"] if "pad" in special else special["bos"]
    text = f"$A {added}" if "pad" in special else f"{added} $A"
    made.post_processor = backend.processors.TemplateProcessing(
        single=text, pair=f"{text} $B:1", special_tokens=[(added, made.token_to_id(added))]
    )
    named = {f"{name}_token": token for name, token in special.items()}
    return library("transformers").PreTrainedTokenizerFast(tokenizer_object=made, **named)


def _set_special_tokens(made: Any, facts: CheckpointFacts | None) -> None:
    """Give and take what the checkpoint is known to have; the class has the rest."""
    if facts is None:
        return
    for token, has in (("pad", facts.has_pad_token), ("eos", facts.has_eos_token), ("bos", facts.has_bos_token)):
        given = getattr(made, f"{token}_token", None)
        if has is False and given is not None and token == "pad":
            made.pad_token = None
        elif has and given is None:
            setattr(made, f"{token}_token", f"<|{token}|>")
            made.add_tokens([f"<|{token}|>"], special_tokens=True)


SHORT = {"clip": 77, "clip_text_model": 77, "siglip": 64}
"""Positions of families that read captions."""


def _longest(family: str) -> int:
    if family in SHORT:
        return SHORT[family]
    short = ("bert", "roberta", "electra", "albert", "mpnet", "camembert", "t5", "bart", "deberta")
    return 512 if any(each in family for each in short) and "modern" not in family else LONG
