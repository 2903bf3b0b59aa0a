"""The tests of rule pages can fail: each demand, held against a page that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lintrain.rule import Finding, Level, Location
from lintrain.rulebook import RuleFile, RuleFileError, load_rules, read_rule_file
from tests.pages import demands, judging
from tests.pages.assembly import assemble, free_names

RULE = '''"""A trainer is built without arguments of its own.

It trains with defaults that nobody chose.

## Bad

    trainer = Trainer(model)  # <- bare-trainer

## Good

    trainer = Trainer(model, args=args)

## When it is fine

    trainer = Trainer(**choices())

## Fix

Asks first: the arguments may be others.

## References

None but this test.
"""

from lintrain.rule import Level, Rule, fixes


class BareTrainer(Rule):
    level = Level.WARNING

    def check(self, pipeline):
        for call in pipeline.calls:
            if call.path == "transformers.Trainer" and "args" not in call.arguments and not call.is_open:
                yield self.finding(call.location, "`Trainer` has no arguments")

    def fix(self, finding):
        return fixes.Fix.of("give it `args`", fixes.AddArgument(finding.location, "args", "args"), safe=False)
'''

MakeRule = Callable[..., RuleFile]


@pytest.fixture
def rule_with(tmp_path: Path) -> MakeRule:
    """Makes the rule with some of its text replaced."""

    def make(*changes: tuple[str, str]) -> RuleFile:
        text = RULE
        for old, new in changes:
            assert text.count(old) == 1
            text = text.replace(old, new)
        path = tmp_path / "model" / "bare_trainer.py"
        path.parent.mkdir()
        path.write_text(text)
        return read_rule_file(path)

    return make


def complaints_of(rule: RuleFile) -> list[str]:
    return [
        *demands.lacks_parts(rule),
        *demands.lacks_marks(rule),
        *demands.misreads_bad(rule),
        *demands.disturbs_silence(rule, [rule]),
        *demands.mends_badly(rule),
        *demands.breaks_convention(rule),
    ]


def test_a_good_page_gives_no_complaint(rule_with: MakeRule) -> None:
    assert complaints_of(rule_with()) == []


def test_a_rule_without_a_page_cannot_be_loaded(rule_with: MakeRule) -> None:
    page = RULE[: RULE.index("from lintrain")]
    with pytest.raises(RuleFileError, match="no manual page"):
        rule_with((page, ""))


def test_a_rule_file_that_raises_is_named_with_its_error(rule_with: MakeRule) -> None:
    with pytest.raises(RuleFileError, match=r"\.py: cannot be loaded: ZeroDivisionError"):
        rule_with(("from lintrain", "1 / 0\nfrom lintrain"))


@pytest.mark.parametrize("part", ["Bad", "Good", "References"])
def test_a_missing_part_is_named(part: str, rule_with: MakeRule) -> None:
    assert part in demands.lacks_parts(rule_with((f"## {part}\n", "## Elsewhere\n")))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("safe=False", "safe=True"), "is safe; it starts with 'Asks first: the argu'"),
        (("Asks first: the", "Safe: the"), "is unsafe; it starts with 'Safe: the arguments '"),
    ],
)
def test_a_page_that_says_otherwise_of_its_fix_than_the_code_is_refused(
    change: tuple[str, str], complaint: str, rule_with: MakeRule
) -> None:
    assert demands.lacks_parts(rule_with(change)) == [f"`## Fix`, which says why its fix {complaint}"]


def test_a_heading_that_stands_twice_is_refused(rule_with: MakeRule) -> None:
    rule = rule_with(("## When it is fine", "## Good\n\n    trainer = None\n\n## When it is fine"))
    assert demands.lacks_parts(rule) == ["one heading `Good` for all, in place of 2"]


def test_a_page_that_does_not_say_why_is_refused(rule_with: MakeRule) -> None:
    assert demands.lacks_parts(rule_with(("It trains with defaults that nobody chose.\n\n", ""))) == ["why it hurts"]


def test_a_rule_that_reads_text_needs_an_example_of_when_it_is_fine(rule_with: MakeRule) -> None:
    rule = rule_with(("    trainer = Trainer(**choices())\n", "Never.\n"))
    assert demands.lacks_parts(rule) == ["an example of 'When it is fine', where the text cannot tell"]


def test_an_unmarked_line_that_is_reported_is_named(rule_with: MakeRule) -> None:
    rule = rule_with(("Trainer(model)  # <- bare-trainer", "Trainer(model)"))
    assert demands.misreads_bad(rule) == ["line 1 is reported and not marked: trainer = Trainer(model)"]
    assert demands.lacks_marks(rule) == ["Bad example 1 marks no line with `# <- bare-trainer`"]


def test_a_marked_line_that_is_not_reported_is_named(rule_with: MakeRule) -> None:
    rule = rule_with(("Trainer(model)  #", "Trainer(model, args=args)  #"))
    assert [line.split(":")[0] for line in demands.misreads_bad(rule)] == ["line 1 is marked and not reported"]


def test_a_line_reported_twice_needs_two_marks(rule_with: MakeRule) -> None:
    once = '                yield self.finding(call.location, "`Trainer` has no arguments")\n'
    rule = rule_with((once, once + once))
    assert [line.split(":")[0] for line in demands.misreads_bad(rule)] == ["line 1 is reported and not marked"]


def test_a_finding_in_good_is_refused(rule_with: MakeRule) -> None:
    rule = rule_with(("Trainer(model, args=args)", "Trainer(model)  "))
    assert demands.disturbs_silence(rule, [rule]) == ["line 1: bare-trainer: `Trainer` has no arguments"]


def test_a_finding_where_it_is_fine_is_refused(rule_with: MakeRule) -> None:
    rule = rule_with(("Trainer(**choices())", "Trainer(model)"))
    assert demands.disturbs_silence(rule, [rule]) == ["line 1: bare-trainer: `Trainer` has no arguments"]


def test_a_fix_that_does_not_give_good_is_refused(rule_with: MakeRule) -> None:
    rule = rule_with(('"args", "args")', '"args", "None")'))
    assert [line.splitlines()[0] for line in demands.mends_badly(rule)] == [
        "the fix of Bad example 1 does not give Good:"
    ]


def test_a_fix_that_mends_no_example_is_refused(rule_with: MakeRule) -> None:
    rule = rule_with(
        (
            'return fixes.Fix.of("give it `args`", fixes.AddArgument(finding.location, "args", "args"), safe=False)',
            "return None",
        )
    )
    assert demands.mends_badly(rule) == ["it has a `fix`, and no Bad example is mended by it"]


def test_a_fix_that_brings_an_import_too_many_is_refused(rule_with: MakeRule) -> None:
    rule = rule_with((', "args", "args")', ', "args", "args"), fixes.AddImport("os")'))
    assert [line.splitlines()[0] for line in demands.mends_badly(rule)] == [
        "the fix of Bad example 1 does not give Good:"
    ]


def test_a_fix_that_never_ends_is_refused(rule_with: MakeRule) -> None:
    rule = rule_with(
        ('"args" not in call.arguments and ', ""),
        (
            'fixes.AddArgument(finding.location, "args", "args")',
            'fixes.Replace(finding.location, f"Trainer(model, n={finding.location.end_column})")',
        ),
        ("Trainer(model, args=args)", "Trainer(model, n=25)"),
    )
    assert demands.mends_badly(rule) == ["the fix of Bad example 1 changes more when applied again"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("the model has no head.", "ends with a full stop"),
        ("The model has no head", "starts with a capital"),
        ("please give the model a head", "judges its author"),
        ("`model has no head", "has an odd number of backticks"),
        ("no head\nat all", "takes more than one line"),
        ("no head " * 11, "has 88 characters, 80 fit a terminal"),
    ],
)
def test_a_message_against_the_convention_is_refused(text: str, complaint: str) -> None:
    assert list(demands.text_complaints(text, longest=80)) == [complaint]


@pytest.mark.parametrize(
    ("text", "complaints"),
    [
        ("the loss has no gradient", []),
        ("The loss has no gradient. No error is raised.", []),
        ("`argmax` has no gradient.", []),
        ("The loss has no gradient", ["starts with a capital"]),
        ("the loss has no gradient.", ["starts with a small letter"]),
        ("The loss of `argmax has no gradient.", ["has an odd number of backticks"]),
    ],
)
def test_a_reason_is_a_phrase_or_whole_sentences(text: str, complaints: list[str]) -> None:
    assert list(demands.reason_complaints(text)) == complaints


@pytest.mark.parametrize(
    "text", ["`Model` has no head", "MSE of classes", "DataLoader(…) has no collator", "2 of 3 rows"]
)
def test_code_and_abbreviations_may_start_a_message(text: str) -> None:
    assert list(demands.text_complaints(text, longest=80)) == []


def test_an_example_gets_only_the_names_that_it_does_not_define() -> None:
    script = assemble('raw = load_dataset("imdb")\nprint(raw, tokenizer)\n')
    assert script.text.splitlines()[: script.prelude_lines] == [
        "from datasets import load_dataset",
        "from transformers import AutoTokenizer",
        "tokenizer = AutoTokenizer.from_pretrained('distilbert-base-uncased')",
    ]


def test_a_name_that_is_read_before_it_is_bound_is_free() -> None:
    assert free_names("x = x + 1\nfor y in z:\n    total = y\ndef f(a=b):\n    return a + later\nlater = 3\n") == {
        "x",
        "z",
        "b",
    }


def test_a_trainer_that_is_built_and_not_used_is_trained() -> None:
    assert assemble("trainer = Trainer(model)\n").text.endswith("trainer.train()\n")
    assert assemble("trainer = Trainer(model)\ntrainer.evaluate()\n").text.endswith("trainer.evaluate()\n")


def test_a_rule_that_no_probe_judges_must_be_listed(rule_with: MakeRule) -> None:
    assert judging.unlisted(rule_with()) == ["no probe judges its examples and unjudged.toml does not say why"]


def test_every_listed_rule_exists() -> None:
    assert set(judging.unjudged_reasons()) <= {rule.name for rule in load_rules()}


def test_a_claim_is_planted_on_the_line_that_took_the_place_of_its_own() -> None:
    bad, good = assemble("x = 1\ny = 2\nz = f(1)\n"), assemble("x = 1\nw = 5\ny = 2\nz = f(2)\n")
    claim = Finding("any", Level.ERROR, Location("page.py", 3, 5, 3, 9), "wrong")
    assert judging.moved(claim, bad, good, "page.py").location == Location("page.py", 4, 5, 4, 9)
