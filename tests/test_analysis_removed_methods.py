"""Methods and attributes of tokenizers that a version no longer has."""

from __future__ import annotations

import pytest

from lintrain.analysis.removed_methods import removed_methods
from lintrain.knowledge.versions import exactly
from lintrain.source.source import Source

IMPORTS = "from transformers import AutoTokenizer\n"


def found(code: str, version: str = "5.23.0") -> list[str]:
    source = Source("train.py", IMPORTS + code)
    return [f"{each.node.attr} {each.last_with}" for each in removed_methods(source, exactly(transformers=version))]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('tokenizer.encode_plus("a")', ["encode_plus 4.57"]),
        ('self.bert_tokenizer.batch_encode_plus(["a"])', ["batch_encode_plus 4.57"]),
        ('AutoTokenizer.from_pretrained("gpt2").encode_plus("a")', ["encode_plus 4.57"]),
        ('tok = AutoTokenizer.from_pretrained("gpt2")\nprint(tok.max_len)', ["max_len 3.5"]),
        ("print(tokenizer.max_len)", []),
        ('model.encode_plus("a")', []),
        ('tokenizer.prepare_seq2seq_batch(["a"])', []),
        ('from transformers import TapasTokenizer\ntokenizer.encode_plus("a")', []),
        ('tokenizer.build_inputs_with_special_tokens("a")', []),
        ('def encode_plus(text): ...\ntokenizer.encode_plus("a")', []),
        ('if hasattr(tokenizer, "encode_plus"):\n    tokenizer.encode_plus("a")', []),
        ('try:\n    tokenizer.encode_plus("a")\nexcept AttributeError:\n    pass', []),
        ("tokenizer.additional_special_tokens = []\nprint(tokenizer.additional_special_tokens)", []),
    ],
)
def test_what_tokenizers_lost_is_found_where_it_is_the_library_s(code: str, expected: list[str]) -> None:
    assert found(code) == expected


def test_an_older_version_has_the_methods() -> None:
    assert found('tokenizer.encode_plus("a")', "4.57.1") == []


def test_without_the_library_the_names_mean_nothing() -> None:
    source = Source("train.py", 'tokenizer.encode_plus("a")\n')
    assert list(removed_methods(source, exactly(transformers="5.23.0"))) == []
