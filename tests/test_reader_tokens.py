"""What the reader knows of special tokens and of the text that code puts together with them."""

from __future__ import annotations

from lintrain.analysis.token_feeds import is_handed_over, lacks_pad, location_in_data, padding_by_eos, parts_of
from lintrain.knowledge.versions import exactly
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.python import Constant
from lintrain.pipeline.values.tensors import SpecialToken
from lintrain.read import read_pipeline
from lintrain.source.source import Source

HEAD = """\
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
"""


def read(text: str) -> Pipeline:
    return read_pipeline(Source("train.py", HEAD + text), exactly())


def test_a_padding_token_that_is_the_end_of_text_is_known_with_its_place() -> None:
    pipeline = read("tokenizer.pad_token = tokenizer.eos_token\n")
    setting = padding_by_eos(pipeline, pipeline.tokenizers[0])
    assert setting is not None
    assert setting.location.line == 3


def test_a_setting_that_waits_for_a_missing_padding_token_is_certain_where_it_is_known_to_be_missing() -> None:
    pipeline = read("if tokenizer.pad_token is None:\n    tokenizer.pad_token = tokenizer.eos_token\n")
    assert padding_by_eos(pipeline, pipeline.tokenizers[0]) is not None


def test_a_setting_under_another_condition_is_not_certain() -> None:
    pipeline = read("import sys\nif len(sys.argv) > 2:\n    tokenizer.pad_token = tokenizer.eos_token\n")
    assert padding_by_eos(pipeline, pipeline.tokenizers[0]) is None
    assert not lacks_pad(pipeline, pipeline.tokenizers[0])


def test_a_later_padding_token_takes_the_place_of_the_end_of_text() -> None:
    pipeline = read("tokenizer.pad_token = tokenizer.eos_token\ntokenizer.add_special_tokens({'pad_token': '[PAD]'})\n")
    assert padding_by_eos(pipeline, pipeline.tokenizers[0]) is None


def test_a_tokenizer_given_to_unknown_code_may_have_been_changed() -> None:
    pipeline = read("from elsewhere import prepare\nprepare(tokenizer)\n")
    assert not lacks_pad(pipeline, pipeline.tokenizers[0])


def test_an_end_of_text_is_found_in_text_by_another_name() -> None:
    pipeline = read("EOS = tokenizer.eos_token\ndef form(row):\n    return f\"{row['question']} {EOS}\"\n")
    location = location_in_data(pipeline, pipeline.tokenizers[0], "eos")
    assert location is not None
    assert location.line == 5


def test_an_end_of_text_is_found_in_rows_of_ids() -> None:
    pipeline = read("def close(row):\n    return row['input_ids'] + [tokenizer.eos_token_id]\n")
    assert location_in_data(pipeline, pipeline.tokenizers[0], "eos") is not None


def test_a_printed_end_of_text_is_not_data() -> None:
    pipeline = read("print(f'{tokenizer.pad_token} {tokenizer.eos_token}')\n")
    assert location_in_data(pipeline, pipeline.tokenizers[0], "eos") is None


def test_text_put_together_in_steps_keeps_its_parts_in_order() -> None:
    pipeline = read("def form(row):\n    text = '# ' + row['q']\n    return text + tokenizer.eos_token\n")
    first, *_, last = parts_of(pipeline.texts[-1])
    assert isinstance(first, Constant)
    assert isinstance(last, SpecialToken)


def test_a_function_with_a_models_name_that_is_given_a_tokenizer_is_no_forward_pass() -> None:
    pipeline = read("from elsewhere import prepare_model\nprepare_model(tokenizer)\n")
    assert is_handed_over(pipeline, pipeline.tokenizers[0])


def test_labels_put_together_of_ignored_ones_and_ids_are_masked() -> None:
    pipeline = read(
        "from datasets import load_dataset\n"
        "def mask(row):\n"
        "    ids = tokenizer(row['text'])['input_ids']\n"
        "    return {'input_ids': ids, 'labels': [-100] * len(row['prompt']) + ids[4:]}\n"
        "rows = load_dataset('imdb', split='train').map(mask)\n"
    )
    dataset = pipeline.bindings[-1].value
    assert isinstance(dataset, Dataset)
    assert (dataset.columns or {})["labels"].is_masked
