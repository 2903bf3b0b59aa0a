"""Tokenizers for the fixtures' own words: WordPiece, byte-pair encoding and Unigram."""

from __future__ import annotations

import json
import string
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    BertTokenizer,
    DistilBertTokenizer,
    GPT2Tokenizer,
    LlamaTokenizer,
    PreTrainedTokenizerBase,
    RobertaTokenizer,
    T5Tokenizer,
)

from tools.fixture_assets.sentences import vocabulary_text

VOCABULARY = 500
LETTERS = sorted(string.ascii_letters + string.digits + string.punctuation)


def distilbert_tokenizer() -> PreTrainedTokenizerBase:
    """WordPiece for at most 512 tokens, lower-casing."""
    return DistilBertTokenizer(vocab=_word_pieces(), model_max_length=512)


def bert_tokenizer() -> PreTrainedTokenizerBase:
    """The same WordPiece with token types."""
    return BertTokenizer(vocab=_word_pieces(), model_max_length=512)


def roberta_tokenizer() -> PreTrainedTokenizerBase:
    """Byte-level BPE with `<s>`, `<pad>`, `</s>` at 0, 1, 2 as in RoBERTa."""
    return RobertaTokenizer(**_byte_pairs(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]), model_max_length=512)


def gpt2_tokenizer() -> PreTrainedTokenizerBase:
    """Byte-level BPE with an end of text and no padding token."""
    return GPT2Tokenizer(**_byte_pairs(["<|endoftext|>"]), model_max_length=1024)


def llama_tokenizer() -> PreTrainedTokenizerBase:
    """BPE with `<s>` and `</s>` and no padding token."""
    return LlamaTokenizer(
        **_byte_pairs(["<unk>", "<s>", "</s>"], pre_tokenizers.Metaspace(), LETTERS), model_max_length=2048
    )


def t5_tokenizer() -> PreTrainedTokenizerBase:
    """Unigram with `<pad>`, `</s>`, `<unk>` at 0, 1, 2 as in T5."""
    special = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    letters = [(letter, -9.0) for letter in ("\u2581", *LETTERS)]
    words = [(f"\u2581{word}", -5.0) for word in _words() if len(word) > 1]
    return T5Tokenizer(vocab=[*special, *letters, *words], extra_ids=10, model_max_length=512)


def _word_pieces() -> dict[str, int]:
    # whole words and letters: the trainer of tokenizers 0.22 gives another vocabulary in every process
    letters = [letter for letter in LETTERS if not letter.isupper()]
    words = [word for word in _words() if len(word) > 1]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters), *words]
    return {piece: number for number, piece in enumerate(pieces)}


def _words() -> list[str]:
    return sorted({word for line in vocabulary_text() for word in line.split()})


def _byte_pairs(
    special: list[str],
    splitting: pre_tokenizers.PreTokenizer | None = None,
    alphabet: list[str] | None = None,
) -> dict[str, Any]:  # keyword arguments of several tokenizer classes
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = splitting or pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=special,
        initial_alphabet=alphabet or sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(vocabulary_text(), trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return {"vocab": model["vocab"], "merges": [tuple(pair) for pair in model["merges"]]}
