"""The columns of rows that stand in for a data set: what a script reads, renames and asks for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.evidence.run import StandInKind
from lintrain.knowledge.stand_in_facts import (
    columns_by_name,
    kind_of_column,
)
from lintrain.runtime.stand_ins import datasets, files
from lintrain.runtime.stand_ins.columns import read_of, structs_of
from lintrain.runtime.stand_ins.corrections import Corrections
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.rows import Rows


def test_columns_are_known_or_guessed_by_their_names() -> None:
    assert columns_by_name("trl-lib/Capybara") == (("train", "test"), {"messages": "chat"})
    assert [kind_of_column(name) for name in ("label", "image", "tokens", "question")] == [
        "label",
        "image",
        "texts",
        "text",
    ]


def read(text: str, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[list[str], list[str], set[str]]:
    monkeypatch.setattr(sys, "argv", ["train.py", *words])
    read_of.cache_clear()
    found = read_of(text)
    read_of.cache_clear()
    return [*found.columns], [*found.splits], found.chats


def test_columns_are_those_that_rows_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "rows = load_dataset('x')\n"
        "def encode(example):\n"
        "    made = tokenizer(example['question'], example.get('context'))\n"
        "    made['labels'] = example['answer']\n"
        "    example['joined'] = 1\n"
        "    example['own'] = example['own'].strip()\n"
        "    return example['joined']\n"
        "encoded = rows['train_sft'].map(encode, remove_columns=['source'])\n"
        "settings['learning_rate'], batch['input_ids']\n"
    )
    columns, splits, _ = read(text, monkeypatch)
    assert sorted(columns) == ["answer", "context", "own", "question", "source"]
    assert splits == ["train_sft"]


def test_columns_are_named_by_constants_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "TEXT, KEY = 'a', 'b'\n"
        "BODY = 'body'\n"
        "API_KEY = 'secret'\n"
        "LABEL_COLUMN = 'stars'\n"
        "output_file_field = 'results'\n"
        "TITLE_COL: str = 'title'\n"
        "def encode(example, part='summary', *, content_field='content', name='model'):\n"
        "    return example[part] + example[BODY] + settings[name]\n"
    )
    columns, _, _ = read(text, monkeypatch)
    assert sorted(columns) == ["body", "content", "stars", "summary", "title"]


def test_parameters_of_a_reward_are_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "def reward(completions, answer, prompts, level=1, **kwargs): return answer\n"
        "def other(rows, hint): return hint\n"
    )
    assert read(text, monkeypatch)[0] == ["answer"]


def test_a_filter_that_no_made_row_passes_keeps_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dataset(list[str]):
        def filter(self, passes: Any) -> Dataset:
            return Dataset(each for each in self if passes(each))

    made = [SimpleNamespace(kind=StandInKind.DATA, by="")]
    ledger: Any = SimpleNamespace(session=SimpleNamespace(stand_ins=made), replace=lambda *given: made.append(given))
    keep = datasets._keeping(ledger, Dataset.filter)
    monkeypatch.setattr(datasets, "is_called_by_user", lambda *_: True)
    assert keep(Dataset("ab"), lambda each: each == "a") == ["a"]
    assert keep(Dataset("ab"), lambda each: each == "c") == ["a", "b"]
    assert made[1] == (StandInKind.DATA, "filter", "all 2 rows: none of a stand-in's passes it")
    made.clear()
    assert keep(Dataset("ab"), lambda each: each == "c") == []


def test_a_data_set_has_no_columns_that_are_read_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "rows = load_dataset('somebody/texts', split='train').shuffle()\n"
        "pairs = load_dataset('somebody/pairs')\n"
        "print(rows['text'], pairs['train']['left'], pairs['both'], rows['both'], example['own'])\n"
    )
    monkeypatch.setattr(Ledger, "script", text)
    read_of.cache_clear()
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: "")
    found = {
        name: sorted(datasets.HubData(Ledger(session), f"somebody/{name}", None, {}).kinds())
        for name in ("texts", "pairs", "others")
    }
    assert found == {
        "texts": ["both", "own", "text"],
        "pairs": ["both", "left", "own"],
        "others": ["both", "left", "own", "text"],
    }
    read_of.cache_clear()


def test_a_column_has_the_texts_that_it_is_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    read_of.cache_clear()
    text = (
        "df['Label'] == 'spam'\ndf['Label'].map({'ham': 0, 'spam': 1})\ndf[df['Text'].isin(['a', 'b'])]\n"
        "row['number'] == 3\nsettings['mode'] == 'fast'\nrow['Label']"
    )
    assert {name: [*texts] for name, texts in read_of(text).choices.items()} == {
        "Label": ["spam", "ham"],
        "Text": ["a", "b"],
    }
    monkeypatch.setattr(Ledger, "script", text)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: "", stand_in_data=None)
    table = files._columns(Ledger(session), "spam.csv")
    assert table["Label"][:3] == ["spam", "ham", "spam"]
    assert datasets.HubData(Ledger(session), "somebody/mail", None, {}).kinds()["Label"] == "text"
    read_of.cache_clear()


def test_a_column_that_is_read_by_keys_holds_dictionaries() -> None:
    text = "row['chosen']['response']\nrow['chosen']['overall_score']\nrow['chat'][0]['role']\nrow['train']['a']"
    found = structs_of(read_of(text), {"chosen": "text", "chat": "text"})
    assert found == {"chosen": "struct response overall_score"}
    assert [*Rows(found, {}, "", 0).columns(2)["chosen"][0]] == ["response", "overall_score"]


def ledger_of(script: str) -> Any:
    session: Any = SimpleNamespace(folder=lambda _: "")
    return SimpleNamespace(script=script, session=session, corrections=Corrections(Ledger(session)))


def test_masks_of_instances_have_three_channels() -> None:
    ledger = ledger_of("row['annotation']")
    found = [datasets.HubData(ledger, "somebody/scenes", config, {}).kinds() for config in ("instances", "scenes")]
    assert found == [{"annotation": "instances"}, {"annotation": "mask"}]


def test_what_is_loaded_has_the_columns_that_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "corpus = load_dataset('a', 'corpus', split='train').select(range(8))\n"
        "part = datasets.load_dataset('a')['train']\n"
        "table = dict(zip(corpus['passage_id'], part['passage']))\n"
        "print(table['first'], corpus['train'])\n"
    )
    assert read(text, monkeypatch)[0] == ["passage_id", "passage"]


def test_columns_that_hold_turns_are_chats(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "example['chosen'][0]['role']\ntokenizer.apply_chat_template(row['talk'], tokenize=False)\n"
    assert read(text, monkeypatch)[2] == {"chosen", "talk"}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("model = BertForSequenceClassification(config)\nread(row['text'])\nTrainer(model)", ["text", "label"]),
        (
            "model = BertForSequenceClassification(config)\nread(row['text'], row['label'])\nTrainer(model)",
            ["text", "label"],
        ),
        ("model = BertForSequenceClassification(config)\nread(row['text'], row['topic_class'])\nTrainer(model)", None),
        ("model = BertForMaskedLM(config)\nread(row['text'])\nTrainer(model)", ["text"]),
    ],
)
def test_a_classifier_gets_the_labels_that_its_script_does_not_name(text: str, columns: list[str] | None) -> None:
    ledger = ledger_of(text)
    found = [*datasets.HubData(ledger, "csv", None, {}).kinds()]
    assert found == (columns or ["text", "topic_class"])


def test_renamed_columns_are_read_by_their_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("rows.rename_columns({'old': 'new'})", monkeypatch)[0] == ["old"]


def test_what_is_asked_of_a_feature_tells_its_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "name = songs['train'].features['genre'].int2str\n"
        "tags = rows.features['marks'].feature.names\n"
        "kind = rows.features['title'].dtype\n"
    )
    monkeypatch.setattr(sys, "argv", ["train.py"])
    read_of.cache_clear()
    assert read_of(text).classes == {"genre": "class", "marks": "tags"}
    read_of.cache_clear()
    assert read(text, monkeypatch)[0] == ["genre", "marks"]


def test_options_name_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("", monkeypatch, "--text_column", "article", "--lr", "1")[0] == ["article"]
    words = ("--dataset_field", "query", "answer_text", "--epochs", "2", "--label_column=kind", "rest")
    assert read("", monkeypatch, *words)[0] == ["query", "answer_text", "kind"]


def test_options_name_columns_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "parser.add_argument('--image_column', default='picture')\n"
        "parser.add_argument('--caption-column', type=str, default=None)\n"
        "parser.add_argument('--output', default='out')\n"
        "class Arguments:\n"
        "    text_column_name: str = field(default='body')\n"
        "    remove_unused_columns: str = field(default='no')\n"
    )
    assert read(text, monkeypatch)[0] == ["picture", "body"]


def test_the_chats_of_a_row_answer_the_same_question() -> None:
    kinds = {"prompt": "question", "chosen": "chat", "rejected": "chat", "seen": "image-chat"}
    columns = Rows(kinds, {}, "", 0).columns(8)
    for prompt, chosen, rejected, seen in zip(*columns.values(), strict=True):
        assert prompt == chosen[:1] == rejected[:1]
        assert seen[0]["content"][1]["text"] == prompt[0]["content"]
        assert chosen[1] != rejected[1]
    assert len({prompt[0]["content"] for prompt in columns["prompt"]}) == 8


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("rows = load_from_disk(path)\nTrainer(model, train_dataset=rows)", ["input_ids", "attention_mask", "labels"]),
        ("rows = load_from_disk(path).map(encode)\nTrainer(model, train_dataset=rows)", ["text", "label"]),
        ("rows = load_from_disk(path)\nSFTTrainer(model, train_dataset=rows)", ["messages"]),
    ],
)
def test_saved_rows_that_are_not_tokenized_any_more_hold_tokens(
    text: str, columns: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Ledger, "script", text)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, stand_in_data=None, folder=lambda _: str(tmp_path))
    data = datasets.HubData(Ledger(session), "processed", None, {"split": "train"}, is_saved=True)
    assert [*data.kinds()] == columns


def test_rows_that_are_tokenized_have_numbers_of_a_small_vocabulary() -> None:
    columns = Rows({"input_ids": "token-ids", "attention_mask": "ones"}, {}, "", 0).columns(3)
    assert [len(each) for each in columns["input_ids"]] == [64, 64, 64]
    assert all(0 < number <= 200 for row in columns["input_ids"] for number in row)
    assert columns["attention_mask"][0] == [1] * 64


def test_a_column_whose_values_are_listed_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("names = rows.unique('genre')", monkeypatch)[0] == ["genre"]
    assert read("for _, each in df.groupby('Sentence #'): pass", monkeypatch)[0] == ["Sentence #"]


def test_several_columns_of_a_table_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read("part = df[['Sentence #', 'Word']]\nother = names[['a', 'b']]", monkeypatch)[0] == [
        "Sentence #",
        "Word",
    ]
