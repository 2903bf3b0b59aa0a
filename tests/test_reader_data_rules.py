"""Where the rules about data speak and where they keep silent, beside what their pages show."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.model.finding import Finding
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

MINE = {"raw-dataset", "discarded-map", "dataset-from-evaluate", "missing-labels", "unpadded-batch"}

SCRIPT = """
import evaluate, torch
from datasets import Dataset, load_dataset
from torch.utils.data import DataLoader
from transformers import *
tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
raw = load_dataset("glue", "mnli")
def tokenize(rows):
    return tokenizer(rows["premise"], truncation=True)
tokenized = raw.map(tokenize, batched=True)
"""


def findings(code: str) -> list[Finding]:
    source = Source("script.py", SCRIPT.replace("import *", "import " + ", ".join(NAMES)) + dedent(code))
    pipeline = read_pipeline(source, TargetVersions())
    rules = [each.rule for each in load_rules() if each.name in MINE]
    return [finding for rule in rules for finding in rule.check(pipeline)]


NAMES = (
    "AutoModelForCausalLM",
    "AutoModelForImageClassification",
    "AutoModelForSequenceClassification",
    "AutoTokenizer",
    "DataCollatorForLanguageModeling",
    "DataCollatorWithPadding",
    "Trainer",
    "TrainingArguments",
    "default_data_collator",
)


def said(code: str) -> list[str]:
    return [f"{finding.rule}: {finding.message}" for finding in findings(code)]


def rules_of(code: str) -> list[str]:
    return [finding.rule for finding in findings(code)]


RAW = [
    "Trainer(model, None, default_data_collator, raw['train'])",
    "Trainer(model, train_dataset=raw['train'].shuffle(seed=1).select(range(100)), processing_class=tokenizer)",
    "Trainer(model, train_dataset=load_dataset('imdb', split='train'), processing_class=tokenizer)",
    "Trainer(model, train_dataset=raw['train'] if fast else raw['train'].shuffle(), processing_class=tokenizer)",
    "Trainer(model, train_dataset=raw['train'].filter(lambda row: row['premise']), processing_class=tokenizer)",
]


@pytest.mark.parametrize("trainer", RAW)
def test_text_that_is_never_tokenized_is_found(trainer: str) -> None:
    assert [name for name in rules_of(f"trainer = {trainer}") if name != "unpadded-batch"] == ["raw-dataset"]


def test_text_of_unknown_columns_is_found_where_a_copy_of_it_is_tokenized() -> None:
    code = """
    mine = load_dataset("csv", data_files="a.csv")
    encoded = mine.map(lambda rows: tokenizer(rows["body"]), batched=True)
    trainer = Trainer(model, train_dataset=mine["train"], eval_dataset=encoded["test"], processing_class=tokenizer)
    """
    (finding,) = findings(code)
    assert finding.rule == "raw-dataset"
    assert [reason.text for reason in finding.with_role("tokenized copy")] == ['encoded["train"]']


def test_training_and_evaluation_data_are_found_one_by_one() -> None:
    code = """
    trainer = Trainer(
        model,
        train_dataset=raw["train"],
        eval_dataset=raw["validation_matched"],
        processing_class=tokenizer,
    )
    """
    found = findings(code)
    assert [finding.subject for finding in found] == ["train_dataset", "eval_dataset"]
    assert len({finding.location.line for finding in found}) == 2


def test_with_two_tokenized_copies_none_is_put_in_its_stead() -> None:
    code = """
    short = raw.map(lambda rows: tokenizer(rows["premise"], max_length=9, truncation=True), batched=True)
    trainer = Trainer(model, train_dataset=raw["train"], processing_class=tokenizer)
    """
    (finding,) = findings(code)
    (rule,) = (each.rule for each in load_rules() if each.name == "raw-dataset")
    assert len(finding.with_role("tokenized copy")) == 2
    assert rule.fix(finding) is None


SILENT = {
    "tokenized": "Trainer(model, train_dataset=tokenized['train'], processing_class=tokenizer)",
    "maybe tokenized": "Trainer(model, None, None, raw['train'] if x else tokenized['train'], None, tokenizer)",
    "unknown columns": "Trainer(model, train_dataset=load_dataset('me/mine')['train'], processing_class=tokenizer)",
    "files": "Trainer(model, train_dataset=load_dataset('json', data_files='a')['train'], processing_class=tokenizer)",
    "own collator": "Trainer(model, train_dataset=raw['train'], data_collator=collate)",
    "own collator function": "Trainer(model, train_dataset=raw['train'], data_collator=lambda rows: rows)",
    "open call": "Trainer(model, train_dataset=raw['train'], **options)",
    "unknown function": "Trainer(model, train_dataset=raw['train'].map(prepare), processing_class=tokenizer)",
    "own model": "Trainer(build(), train_dataset=load_dataset('imdb')['train'], processing_class=tokenizer)",
    "vision": "Trainer(AutoModelForImageClassification.from_pretrained('x'), train_dataset=raw['test_matched'],"
    " processing_class=tokenizer)",
    "saved": "Trainer(model, train_dataset=Dataset.load_from_disk('rows'), processing_class=tokenizer)",
}


@pytest.mark.parametrize("trainer", SILENT.values(), ids=SILENT)
def test_a_data_set_that_may_have_token_ids_is_left_alone(trainer: str) -> None:
    assert said(f"trainer = {trainer}") == []


def test_trainers_of_trl_tokenize_themselves() -> None:
    assert (
        said("from trl import SFTTrainer\ntrainer = SFTTrainer('gpt2', train_dataset=load_dataset('imdb')['train'])")
        == []
    )


def test_a_trainer_with_a_loader_of_its_own_is_left_alone() -> None:
    code = """
    class Own(Trainer):
        def get_train_dataloader(self):
            return build(self.train_dataset)
    trainer = Own(model, train_dataset=raw["train"], processing_class=tokenizer)
    """
    assert said(code) == []


def test_the_parameters_of_a_function_that_nobody_calls_are_not_known() -> None:
    code = """
    def train(rows, size=8):
        rows.map(tokenize)
        return Trainer(model, train_dataset=rows, processing_class=tokenizer)
    """
    assert said(code) == []


DISCARDED = {
    "map": "raw.map(tokenize)",
    "removal": "raw['train'].remove_columns('idx')",
    "rename": "raw['train'].rename_column('label', 'labels')",
    "format": "tokenized.with_format('torch')",
    "shuffle": "raw['train'].shuffle(seed=1)",
    "split": "raw['train'].train_test_split(0.1)",
    "filter": "raw['train'].filter(lambda row: row['label'] >= 0)",
    "flat": "flat = raw.flatten()\nflat.map(tokenize)",
    "either": "either = raw if fast else load_dataset('imdb')\neither.map(tokenize)",
}


@pytest.mark.parametrize("statement", DISCARDED.values(), ids=DISCARDED)
def test_a_result_that_nobody_keeps_is_found(statement: str) -> None:
    assert rules_of(statement) == ["discarded-map"]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("raw.map(tokenize)\nraw['train']", "assign it: `raw = raw.map(…)`"),
        # another name is used below, this one only above, or there is none
        ("raw.map(tokenize)\ntokenized['train']", "assign the result to a name"),
        ("raw['train']\nraw.map(tokenize)", "assign the result to a name"),
        ("raw['train'].map(tokenize)\nraw['train']", "assign the result to a name"),
    ],
)
def test_a_new_data_set_is_assigned_to_the_name_that_is_used_below(code: str, told: str) -> None:
    (finding,) = findings(code)
    assert finding.help == told
    (rule,) = (each.rule for each in load_rules() if each.name == "discarded-map")
    assert (rule.fix(finding) is not None) is told.startswith("assign it")


@pytest.mark.parametrize(
    ("statement", "added"),
    [
        ("raw['train'].map(lambda row: {'long': 1})", ("long",)),
        ("raw['train'].shuffle(seed=1)", ()),
        ("load_dataset('me/mine', split='train').map(lambda row: {'long': 1})", ("long",)),
    ],
)
def test_the_columns_that_a_lost_step_adds_are_known(statement: str, added: tuple[str, ...]) -> None:
    (finding,) = findings(statement)
    assert finding.claim is not None
    assert finding.claim.added == added


KEPT = {
    "in place": "raw.set_format('torch')",
    "printing": "raw['train'].map(lambda row: print(row))",
    "nothing returned": "def show(row):\n    print(row)\nraw['train'].map(show)",
    "unknown function": "raw.map(prepare)",
    "frame": "import pandas as pd\nframe = pd.DataFrame({'a': [1]})\nframe['a'].map(str)",
    "a data set or something else": "either = raw if fast else engine\neither.map(tokenize)",
    "flat, perhaps tokenized": "flat = raw.map(prepare).flatten()\nTrainer(model, train_dataset=flat['train'])",
    "filling the cache": "if main_process:\n    raw.map(tokenize, num_proc=4)\nready = raw.map(tokenize, num_proc=4)",
    "a file of its own": "raw['train'].map(\n    tokenize,\n    cache_file_name=path,\n)\nDataset.from_file(path)",
    "returned": "def prepare():\n    return raw.map(tokenize)\nprepare()",
}


@pytest.mark.parametrize("code", KEPT.values(), ids=KEPT)
def test_a_call_that_is_made_for_what_it_does_is_left_alone(code: str) -> None:
    assert said(code) == []


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("rows = evaluate.load('glue', 'mnli')\nrows['train']", ["dataset-from-evaluate"]),
        ("rows = evaluate.load('glue', 'mnli')\nrows.map(tokenize)\nrows['train']", ["dataset-from-evaluate"]),
        ("rows = evaluate.load('imdb')\nTrainer(model, train_dataset=rows)", ["dataset-from-evaluate"]),
        (
            "metric = load_dataset('accuracy')\nmetric.compute(predictions=[1], references=[1])",
            ["dataset-from-evaluate"],
        ),
        ("metric = evaluate.load('glue', 'mnli')\nmetric.compute(predictions=[1], references=[1])", []),
        ("metrics = {'a': evaluate.load('glue', 'mnli')}\nmetrics['a']", []),
        ("rows = load_dataset('glue', 'mnli')\nrows['train']", []),
    ],
)
def test_what_is_loaded_is_judged_by_its_use(code: str, expected: list[str]) -> None:
    assert rules_of(code) == expected


UNLABELLED = "tokenized['train'].remove_columns(['premise', 'hypothesis', 'label', 'idx'])"


@pytest.mark.parametrize(
    "trainer",
    [
        f"Trainer(model, train_dataset={UNLABELLED}, processing_class=tokenizer)",
        f"Trainer(model, train_dataset={UNLABELLED}, data_collator=DataCollatorWithPadding(tokenizer))",
        "Trainer(model, train_dataset=tokenized['train'].rename_column('label', 'y'), processing_class=tokenizer)",
        f"Trainer(AutoModelForCausalLM.from_pretrained('x'), train_dataset={UNLABELLED}, processing_class=tokenizer)",
    ],
)
def test_rows_without_labels_are_found(trainer: str) -> None:
    assert rules_of(f"trainer = {trainer}") == ["missing-labels"]


LABELLED = {
    "made by the collator": f"Trainer(AutoModelForCausalLM.from_pretrained('gpt2'), train_dataset={UNLABELLED},"
    " data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))",
    "own loss": f"Trainer(model, train_dataset={UNLABELLED}, processing_class=tokenizer, compute_loss_func=loss)",
    "own names": f"Trainer(model, TrainingArguments('out', label_names=['y']), train_dataset={UNLABELLED},"
    " processing_class=tokenizer)",
    "unknown arguments": f"Trainer(model, settings(), train_dataset={UNLABELLED}, processing_class=tokenizer)",
    "no head": f"Trainer(build(), train_dataset={UNLABELLED}, processing_class=tokenizer)",
    "evaluation only": f"Trainer(model, eval_dataset={UNLABELLED}, processing_class=tokenizer)",
    "unknown function": f"Trainer(model, train_dataset={UNLABELLED}.map(prepare), processing_class=tokenizer)",
    "ids": "Trainer(model, train_dataset=tokenized['train'].rename_column('label', 'label_ids'),"
    " processing_class=tokenizer)",
}


@pytest.mark.parametrize("trainer", LABELLED.values(), ids=LABELLED)
def test_labels_that_may_come_from_elsewhere_are_not_missed(trainer: str) -> None:
    assert said(f"trainer = {trainer}") == []


COLUMNS = "tokenized['train'].remove_columns(['premise', 'hypothesis', 'idx']).with_format('torch')"


@pytest.mark.parametrize(
    "code",
    [
        "Trainer(model, train_dataset=tokenized['train'])",
        "Trainer(model, TrainingArguments('out'), train_dataset=tokenized['train'], data_collator=None)",
        "Trainer(model, train_dataset=tokenized['train'], data_collator=default_data_collator)",
        f"DataLoader({COLUMNS}, batch_size=8)",
    ],
)
def test_rows_that_nothing_pads_are_found(code: str) -> None:
    assert rules_of(code) == ["unpadded-batch"]


OWN = """
class Reviews(torch.utils.data.Dataset):
    def __init__(self, texts, labels):
        self.texts, self.labels = texts, labels
    def __len__(self):
        return len(self.texts)
    def __getitem__(self, index):
        encoding = tokenizer(self.texts[index], truncation=True, return_tensors="pt"OPTIONS)
        return {"input_ids": encoding["input_ids"].squeeze(0), "labels": torch.tensor(self.labels[index])}
rows = Reviews(load(), labels())
"""


def test_the_padding_of_the_tokenized_copy_is_looked_at_where_text_is_given() -> None:
    assert rules_of("Trainer(model, train_dataset=raw['train'])") == ["raw-dataset", "unpadded-batch"]
    assert said("Trainer(model, train_dataset=raw['train'])")[1] == (
        'unpadded-batch: rows of `tokenized["train"]` differ in length and are not padded'
    )


def test_items_of_an_own_data_set_that_nothing_pads_are_found() -> None:
    assert rules_of(OWN.replace("OPTIONS", "") + "DataLoader(rows, batch_size=8)") == ["unpadded-batch"]
    assert rules_of(OWN.replace("OPTIONS", "") + "Trainer(model, train_dataset=rows)") == ["unpadded-batch"]


def test_items_of_an_own_data_set_that_are_padded_are_left_alone() -> None:
    padded = OWN.replace("OPTIONS", ", padding='max_length', max_length=64")
    assert said(padded + "DataLoader(rows, batch_size=8)") == []


PADDED = {
    "by its tokenizer": "Trainer(model, train_dataset=tokenized['train'], processing_class=tokenizer)",
    "by its tokenizer, as it was called": "Trainer(model, train_dataset=tokenized['train'], tokenizer=tokenizer)",
    "by its collator": "Trainer(model, train_dataset=tokenized['train'], data_collator=collate)",
    "one row": "Trainer(model, TrainingArguments('o', per_device_train_batch_size=1), None, tokenized['train'])",
    "unknown size": "Trainer(model, TrainingArguments('o', per_device_train_batch_size=n), None, tokenized['train'])",
    "loader of one row": f"DataLoader({COLUMNS})",
    "loader with a collator": f"DataLoader({COLUMNS}, batch_size=8, collate_fn=DataCollatorWithPadding(tokenizer))",
    "loader with batches of its own": f"DataLoader({COLUMNS}, batch_sampler=sampler)",
    "of one length": "Trainer(model, train_dataset=tokenized['train'].filter(lambda row: len(row['input_ids']) == 9))",
    "blocks": "Trainer(model, train_dataset=tokenized['train'].map(group, batched=True))",
}


@pytest.mark.parametrize("code", PADDED.values(), ids=PADDED)
def test_rows_that_may_be_equally_long_are_left_alone(code: str) -> None:
    assert said(code) == []


def test_texts_put_into_blocks_of_one_size_are_left_alone() -> None:
    code = """
    def group(rows):
        joined = {name: sum(rows[name], []) for name in rows.keys()}
        total = (len(joined["input_ids"]) // 128) * 128
        return {name: [values[i : i + 128] for i in range(0, total, 128)] for name, values in joined.items()}
    plain = tokenized.remove_columns(["premise", "hypothesis", "label", "idx"])
    blocks = plain.map(group, batched=True)
    trainer = Trainer(model, train_dataset=blocks["train"].add_column("labels", build()))
    """
    assert said(code) == []
