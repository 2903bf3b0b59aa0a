"""Rules about tokenizers and what they make: what is certain is found, what may be otherwise is left alone."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of, related_of

LLAMA = """
from transformers import AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("{name}"{given})
other = AutoTokenizer.from_pretrained("gpt2")
encoded = tokenizer({text})
"""


@pytest.mark.parametrize(
    ("name", "given", "text", "is_found"),
    [
        ("meta-llama/Llama-3.2-1B", "", "tokenizer.bos_token + text", True),
        ("meta-llama/Llama-3.2-1B", "", "'<|begin_of_text|>' + text", True),
        ("meta-llama/Llama-3.2-1B", "", "tokenizer.bos_token + text, add_special_tokens=True", True),
        ("some/model", ", add_bos_token=True", "tokenizer.bos_token + text", True),
        ("mistralai/Mistral-7B-Instruct-v0.2", "", "tokenizer.apply_chat_template(turns, tokenize=False)", True),
        # nothing is put in front, or nobody knows
        ("meta-llama/Llama-3.2-1B", ", add_bos_token=False", "tokenizer.bos_token + text", False),
        ("meta-llama/Llama-3.2-1B", ", **options", "tokenizer.bos_token + text", False),
        ("meta-llama/Llama-3.2-1B", "", "tokenizer.bos_token + text, add_special_tokens=False", False),
        ("meta-llama/Llama-3.2-1B", "", "tokenizer.bos_token + text, add_special_tokens=wanted", False),
        ("meta-llama/Llama-3.2-1B", "", "tokenizer.bos_token + text, **options", False),
        ("gpt2", "", "tokenizer.bos_token + text", False),
        ("some/model", "", "tokenizer.bos_token + text", False),
        # the text begins with something else, or with the token of another model
        ("meta-llama/Llama-3.2-1B", "", "text + tokenizer.bos_token", False),
        ("meta-llama/Llama-3.2-1B", "", "tokenizer.eos_token + text", False),
        ("meta-llama/Llama-3.2-1B", "", "other.bos_token + text", False),
        ("meta-llama/Llama-3.2-1B", "", "'<s>' + text", False),
        ("meta-llama/Llama-2-7b-hf", "", "'<s>' + text", True),
        ("meta-llama/Llama-2-7b-hf", "", "'<|begin_of_text|>' + text", False),
        ("gpt2", ", add_bos_token=True", "'<|begin_of_text|>' + text", False),
        ("meta-llama/Llama-3.2-1B", "", "tokenizer.apply_chat_template(turns, tokenize=False)", False),
        ("some/chat", ", add_bos_token=True", "tokenizer.apply_chat_template(turns, tokenize=False)", False),
    ],
)
def test_a_second_first_token_is_found_where_both_are_certain(name: str, given: str, text: str, is_found: bool) -> None:
    assert bool(lines_of("double-bos", LLAMA.format(name=name, given=given, text=text))) is is_found


def test_the_place_where_the_first_token_is_written_is_shown() -> None:
    code = LLAMA.format(name="meta-llama/Llama-3.2-1B", given="", text="tokenizer.bos_token + text")
    assert related_of("double-bos", code) == [(4, "the text gets its BOS token here")]


LOADED = """
import evaluate
from datasets import load_dataset
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, DataCollatorWithPadding
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
raw = load_dataset("glue", "sst2")
rows = raw.map(lambda batch: tokenizer(batch["sentence"], truncation=True), batched=True)
plain = rows.remove_columns(["sentence", "idx"])
loader = DataLoader({rows}["train"], {given})
"""


@pytest.mark.parametrize(
    ("rows", "given", "is_found"),
    [
        ("plain", "batch_size=8", True),
        ("plain", "8", True),
        ("plain", "batch_size=8, collate_fn=None", True),
        ("plain", "batch_size=1", False),
        ("plain", "batch_size=size", False),
        ("plain", "shuffle=True", False),
        ("plain", "batch_sampler=own", False),
        ("plain", "batch_size=8, **options", False),
        ("plain", "batch_size=8, collate_fn=own", False),
        ("plain", "batch_size=8, collate_fn=DataCollatorWithPadding(tokenizer)", False),
    ],
)
def test_a_loader_without_a_collator_is_found_where_its_rows_certainly_differ(
    rows: str, given: str, is_found: bool
) -> None:
    assert bool(lines_of("unpadded-batch", LOADED.format(rows=rows, given=given))) is is_found


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("data = evaluate.load('accuracy')\ndata['train']", [1]),
        ("data = evaluate.load('glue', 'sst2')\ndata.map(f)", [1]),
        ("data = evaluate.load('glue', 'sst2')\ndata['train']", [1]),
        ("data = evaluate.load('glue', 'sst2')\ndata.compute(predictions=[1], references=[1])", []),
        ("data = load_dataset('glue', 'sst2')\ndata.map(f)", []),
        ("data = load_dataset('accuracy')\ndata.compute(predictions=[1], references=[1])", [1]),
        ("data = load_dataset('accuracy')\ndata.add_batch(predictions=[1], references=[1])", [1]),
    ],
)
def test_what_is_loaded_as_the_wrong_thing_is_told_by_its_use(use: str, expected: list[int]) -> None:
    start = "import evaluate\nfrom datasets import load_dataset\n"
    assert bool(lines_of("dataset-from-evaluate", start + use + "\n")) is bool(expected)


CUT = """
from datasets import Dataset, load_dataset
from transformers import AutoModelForSequenceClassification, AutoTokenizer, Trainer
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained({model})
raw = load_dataset({data}, split="train"){steps}
rows = raw.map(lambda batch: tokenizer(batch["text"]{given}), batched=True)
trainer = Trainer(model, train_dataset=rows, processing_class=tokenizer)
"""


@pytest.mark.parametrize(
    ("model", "data", "steps", "given", "is_found"),
    [
        ("'bert-base-cased'", "'imdb'", "", "", True),
        ("'bert-base-cased'", "'imdb'", "", ", truncation=False", True),
        ("'bert-base-cased'", "'imdb'", ".shuffle(seed=1)", "", True),
        ("'bert-base-cased'", "'imdb'", "", ", truncation=True", False),
        ("'bert-base-cased'", "'imdb'", "", ", max_length=128", False),
        ("'bert-base-cased'", "'imdb'", "", ", truncation=cut", False),
        ("'bert-base-cased'", "'imdb'", "", ", **options", False),
        # rows may be chosen by their length, spread over several, or be short
        ("'bert-base-cased'", "'imdb'", ".filter(is_short)", "", False),
        ("'bert-base-cased'", "'imdb'", "", ", return_overflowing_tokens=True", False),
        # a model that takes any length, or may be made with more positions
        ("'bert-base-cased', config=config", "'imdb'", "", "", False),
        ("'bert-base-cased', **options", "'imdb'", "", "", False),
        ("'some/model'", "'imdb'", "", "", False),
    ],
)
def test_rows_that_nothing_cuts_are_found_where_they_may_be_too_long(
    model: str, data: str, steps: str, given: str, is_found: bool
) -> None:
    code = CUT.format(model=model, data=data, steps=steps, given=given)
    assert bool(lines_of("missing-truncation", code)) is is_found
