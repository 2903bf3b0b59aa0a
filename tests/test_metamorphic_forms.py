"""Scripts in another form keep the findings of their mistakes, apart from what is recorded as lost.

`python -m tests.metamorphic` measures every mistake in every script; here are a few of them, in half of
the forms at each commit.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache

import pytest

from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from tests.metamorphic import records
from tests.metamorphic.adding import add_optimizer, add_validation
from tests.metamorphic.comparing import Subject, Transformation
from tests.metamorphic.editing import merged
from tests.metamorphic.forms import FORMS, Measured, measure_one, own_places
from tests.metamorphic.options import (
    take_options_from_argparse,
    take_options_from_dataclass,
    take_options_from_parsed_dataclass,
    take_options_from_yaml,
)
from tests.metamorphic.pasting import drop_imports
from tests.metamorphic.phases import loop_over_phases
from tests.metamorphic.renaming import name_neutrally
from tests.metamorphic.rows import own_dict_rows, own_dict_rows_made_at_once, own_tuple_rows
from tests.metamorphic.script import Script
from tests.metamorphic.splitting import loop_over_splits
from tests.metamorphic.subjects import correct_subject, mistaken_subject, notebooks_as_scripts, plain_scripts
from tests.support.turns import set_turn, whose_turn

MUTANTS = 25
CORRECT = 3
"""The numbers of mutants and correct scripts that each form is tried on."""

BY_NAME = {form.__name__: form for form in FORMS}
SOME_FORMS = pytest.mark.parametrize("name", whose_turn(BY_NAME, len(FORMS) // 2, set_turn()))


@cache
def mutants() -> list[Mutant]:
    """Every mutant, in an order that mixes scripts and rules."""
    codes = [*plain_scripts(), *notebooks_as_scripts()]
    found = [mutant for code in codes for mutant in mutants_of(code, load_injections())]
    return sorted(found, key=lambda mutant: zlib.crc32(mutant.name.encode()))


@cache
def subject_of(mutant: Mutant) -> Subject:
    return mistaken_subject(mutant)


def measured_mutants(form: Transformation) -> Iterator[Measured]:
    for mutant in mutants():
        if form(Script.of(mutant.text), frozenset()):
            own = own_places(subject_of(mutant), mutant)
            measured = measure_one(subject_of(mutant), own, form) if own else None
            if measured:
                yield measured


def measured_scripts(form: Transformation) -> Iterator[Measured]:
    for code in plain_scripts():
        measured = measure_one(correct_subject(code), [], form) if form(Script.of(code.text), frozenset()) else None
        if measured:
            yield measured


@SOME_FORMS
def test_a_mistake_in_another_form_is_found(name: str) -> None:
    form = BY_NAME[name]
    found = [one for one, _ in zip(measured_mutants(form), range(MUTANTS), strict=False)]
    excused = records.recorded("lost")[form.__name__].keys() | records.known_losses()[form.__name__].keys()
    assert [one.name for one in found if not one.is_kept and one.rule not in excused] == []
    assert len(found) == MUTANTS


@SOME_FORMS
def test_a_correct_script_in_another_form_is_correct(name: str) -> None:
    form = BY_NAME[name]
    found = [one for one, _ in zip(measured_scripts(form), range(CORRECT), strict=False)]
    excused = records.recorded("gained")[form.__name__].keys() | records.expected_gains()[form.__name__].keys()
    assert [(one.name, one.gained) for one in found if set(one.gained) - excused] == []
    assert len(found) == CORRECT


def test_a_finding_is_kept_on_a_line_that_replaces_its_own() -> None:
    mutant = next(one for one in mutants() if one.name.startswith("loop/") and len(subject_of(one).focus) == 1)
    subject = subject_of(mutant)
    (line,) = subject.focus

    def drop(script: Script, focus: frozenset[int]) -> Script:
        return script.with_lines({(line, line): []})

    def move(script: Script, focus: frozenset[int]) -> Script:
        lines = [*script.cut(line - 1, line - 1), merged(script.lines[line - 1].text, script.cut(line - 1, line))]
        return script.with_lines({(line - 1, line): lines})

    own = own_places(subject, mutant)
    kept = [measured.is_kept for form in (drop, move) if (measured := measure_one(subject, own, form))]
    assert kept == [False, True]


def test_what_is_worse_than_recorded_is_reported() -> None:
    form, rule = "take_options_from_argparse", "missing-labels"
    recorded = records.recorded("lost")[form][rule]
    lost = [Measured(form, f"{number}", rule, False, ()) for number in range(recorded + 1)]
    gained = [Measured(form, "correct", "", False, ("missing-step",)), *lost[:recorded]]
    assert records.worse(lost[:recorded]) == []
    assert records.worse(lost) == [f"{form}: {rule}: {recorded + 1} lost, {recorded} recorded"]
    assert records.worse(gained) == [f"{form}: missing-step: 1 gained, 0 recorded"]


def test_records_are_about_forms_and_rules_that_exist() -> None:
    forms = {form.__name__ for form in FORMS}
    rules = {injection.rule for injection in load_injections()}
    assert records.recorded("lost").keys() <= forms
    assert {rule for counts in records.recorded("lost").values() for rule in counts} <= rules
    assert records.recorded("gained").keys() | records.expected_gains().keys() <= forms


def rewritten(form: Transformation, text: str) -> str:
    made = form(Script.of(text), frozenset())
    assert made
    return made.text


TUNED = (
    'import torch\n\nRATE = 2e-5\nmodel = load.from_pretrained("gpt2")\n'
    "optimizer = Adam(p, lr=RATE, momentum=-1, fused=True)"
)


def test_literals_become_options_of_the_command_line() -> None:
    head, _, tail = rewritten(take_options_from_argparse, TUNED).partition("options = parse_options()\n")
    assert '    parser.add_argument("--rate", type=float, default=2e-05)\n' in head
    assert "    parser.add_argument(\"--checkpoint\", default='gpt2')\n" in head
    assert '    parser.add_argument("--momentum", type=int, default=-1)\n' in head
    assert tail == (
        "RATE = options.rate\nmodel = load.from_pretrained(options.checkpoint)\n"
        "optimizer = Adam(p, lr=RATE, momentum=options.momentum, fused=True)"
    )


def test_literals_become_fields_of_a_dataclass() -> None:
    text = rewritten(take_options_from_dataclass, TUNED)
    assert "class Options:\n    rate: float = 2e-05\n    checkpoint: str = 'gpt2'\n    momentum: int = -1\n" in text
    assert "options = Options()\nRATE = options.rate\n" in text
    parsed = rewritten(take_options_from_parsed_dataclass, TUNED)
    assert "(options,) = transformers.HfArgumentParser(Options).parse_args_into_dataclasses()\n" in parsed


def test_literals_become_entries_of_a_yaml_file() -> None:
    made = take_options_from_yaml(Script.of(TUNED), frozenset())
    assert made
    assert made.other_texts == {"options.yaml": 'rate: 2.0e-05\ncheckpoint: "gpt2"\nmomentum: -1'}
    assert made.text.endswith('Adam(p, lr=RATE, momentum=options["momentum"], fused=True)')


def test_two_values_of_one_name_are_two_options() -> None:
    text = rewritten(
        take_options_from_dataclass, "a = f(x, batch_size=8)\nb = f(y, batch_size=16)\nc = f(z, batch_size=8)"
    )
    assert text.endswith(
        "a = f(x, batch_size=options.batch_size)\nb = f(y, batch_size=options.batch_size_2)\n"
        "c = f(z, batch_size=options.batch_size)"
    )


HUB = (
    'rows = load_dataset("glue", "sst2")\n'
    'rows = rows.map(lambda batch: tokenizer(batch["sentence"]), batched=True, remove_columns=["sentence", "idx"])\n'
    'rows = rows.rename_column("label", "labels")\n'
    'loader = DataLoader(rows["train"], collate_fn=pad)'
)


def test_rows_of_the_hub_become_rows_of_the_script() -> None:
    made = own_dict_rows(Script.of(HUB), frozenset())
    assert made
    assert made.text.startswith("import torch.utils.data\n\nrows = {\"train\": [{'sentence': ")
    assert (
        "    def __getitem__(self, index):\n        row = self.rows[index]\n"
        "        encoded = tokenizer(row['sentence'])\n"
        '        return {"labels": row["label"], **encoded}\n'
        '\nrows = {"train": OwnRows1(rows["train"])}\nloader = DataLoader(rows["train"], collate_fn=pad)'
    ) in made.text
    assert [line.origins for line in made.lines if "labels" in line.text] == [(2, 3)]
    assert '            self.items.append({"labels": row["label"], **encoded})\n' in rewritten(
        own_dict_rows_made_at_once, HUB
    )


def test_a_row_may_be_a_tuple_of_which_the_collator_gets_a_dict() -> None:
    text = rewritten(own_tuple_rows, HUB)
    assert '.append((encoded["input_ids"], encoded["attention_mask"], row["label"]))\n' in text
    assert text.endswith(
        'collate_fn=lambda items: (pad)([{"input_ids": input_ids, "attention_mask": attention_mask, "labels": labels}'
        " for input_ids, attention_mask, labels in items]))"
    )


def test_data_that_is_used_as_only_the_hub_allows_stays() -> None:
    assert own_dict_rows(Script.of(f'{HUB}\nprint(rows["train"].features)'), frozenset()) is None
    assert own_dict_rows(Script.of(HUB.replace("rows = rows.rename", "rows.rename")), frozenset()) is None
    assert own_dict_rows(Script.of(HUB.replace("batched=True", "with_indices=True")), frozenset()) is None


def test_loaders_and_functions_get_names_without_a_meaning() -> None:
    text = "def evaluate(val_loader):\n    return list(val_loader)\n\ntest_loader = make()\nevaluate(test_loader)"
    assert rewritten(name_neutrally, text) == (
        "def work1(loader2):\n    return list(loader2)\n\nloader1 = make()\nwork1(loader1)"
    )


LOOP = (
    "import torch\nmodel = make()\noptimizer = Adam(model.parameters())\nfor epoch in range(2):\n"
    "    model.train()\n    for x in loader:\n        optimizer.zero_grad()\n        loss = model(x)\n"
    "        loss.backward()\n        optimizer.step()\n    print(loss)"
)


def test_a_validation_follows_each_epoch_and_restores_the_mode() -> None:
    head, tail = LOOP.split("    print")
    assert rewritten(add_validation, LOOP) == (
        f"{head}    was_training0 = model.training\n    model.eval()\n    with torch.no_grad():\n"
        "        for held_x in loader:\n            held_loss = model(held_x)\n"
        f"    model.train(was_training0)\n    print{tail}"
    )


def test_a_second_optimizer_trains_a_second_model() -> None:
    text = rewritten(add_optimizer, LOOP)
    assert "SGD(side_model.parameters(), lr=0.01)\nfor epoch in range(2):\n" in text
    assert "        optimizer.step()\n        side_optimizer.zero_grad()\n" in text
    assert "        side_loss.backward()\n        side_optimizer.step()\n    print(loss)" in text


def test_training_and_validation_are_phases_of_one_loop() -> None:
    assert rewritten(loop_over_phases, LOOP).partition("range(2):\n")[2] == (
        '    for phase in ("train", "validation"):\n        if phase == "train":\n            model.train()\n'
        "        else:\n            model.eval()\n        for x in loader:\n"
        '            with torch.set_grad_enabled(phase == "train"):\n                if phase == "train":\n'
        "                    optimizer.zero_grad()\n                loss = model(x)\n"
        '                if phase == "train":\n                    loss.backward()\n'
        "                    optimizer.step()\n    model.train()\n    print(loss)"
    )


def test_a_mode_that_is_never_set_is_not_set_by_phases() -> None:
    text = LOOP.replace("    model.train()\n", "").replace("make()", 'Net.from_pretrained("gpt2")')
    assert loop_over_phases(Script.of(text), frozenset()) is None


def test_splits_are_made_in_a_loop() -> None:
    text = 'a = DataLoader(rows["train"], batch_size=8, shuffle=True)\nb = DataLoader(rows["test"], batch_size=16)'
    made = loop_over_splits(Script.of(text), frozenset())
    assert made
    assert made.text == (
        "parts0 = {}\nfor split in ('train', 'test'):\n"
        '    parts0[split] = DataLoader(rows[split], batch_size=8 if split == "train" else 16, '
        'shuffle=split == "train")\n'
        'a = parts0["train"]\nb = parts0["test"]'
    )
    assert [line.origins for line in made.lines if "DataLoader" in line.text] == [(1, 2)]


def test_data_of_the_hub_is_transformed_split_by_split() -> None:
    head = 'raw = load_dataset("glue", "sst2")\nrows = raw.map(encode)\nrows = rows.shuffle()\n'
    text = f'{head}print(rows["train"], rows["test"])'
    assert rewritten(loop_over_splits, text) == (
        'raw = load_dataset("glue", "sst2")\n'
        "rows = {}\nfor split in ('train', 'test'):\n    rows[split] = raw[split].map(encode)\n"
        "for split in ('train', 'test'):\n    rows[split] = rows[split].shuffle()\n"
        'print(rows["train"], rows["test"])'
    )
    assert loop_over_splits(Script.of(f"{text}\nprint(rows)"), frozenset()) is None


def test_pasted_code_has_no_imports() -> None:
    assert (
        rewritten(drop_imports, "import torch\nfrom torch import (\n    nn,\n)\n\nx = nn.ReLU()") == "\nx = nn.ReLU()"
    )
    assert drop_imports(Script.of("import torch", in_project=True), frozenset()) is None
