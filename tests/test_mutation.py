"""The mutants of rules: what is changed, that it is in force while it is tried, and that the tests' answer is heard."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lintrain.rulebook import RuleFile, load_rules
from tools.mutation.operators import mutants_of
from tools.mutation.reading import named_files, try_reader
from tools.mutation.swapping import can_swap, loaded_rule, swapped
from tools.mutation.trials import killer_of, naming_tests, page_notices
from tools.mutation.type_checks import mistyped

CODE = '''
class Wide:
    def check(self, pipeline):
        """Not 1 but 2."""
        if self._is_wide(3) and pipeline:
            yield self.finding(1, "wider than 1")

    def _is_wide(self, width: int = 1):
        return width > 2

    def verify(self, finding, evidence):
        return judge(1 == 2)


def judge(one):
    return not one
'''


def rule_named(name: str) -> RuleFile:
    return next(rule for rule in load_rules() if rule.name == name)


def test_what_decides_is_changed_and_words_for_people_are_not() -> None:
    changes = [(each.function, each.change) for each in mutants_of(CODE, frozenset({"verify"}))]
    assert "-> if not (self._is_wide(3) and pipeline)" in changes.pop(0)[1]
    assert changes == [
        ("Wide.check", "self._is_wide(3) and pipeline -> self._is_wide(3) or pipeline"),
        ("Wide.check", "self._is_wide(3) and pipeline -> pipeline"),
        ("Wide.check", "self._is_wide(3) and pipeline -> self._is_wide(3)"),
        ("Wide.check", "3 -> 4"),
        ("Wide._is_wide", "return width > 2 -> return None"),
        ("Wide._is_wide", "width > 2 -> width >= 2"),
        ("Wide._is_wide", "2 -> 3"),
    ]


def test_what_is_negated_by_another_mutant_is_not_negated_twice() -> None:
    lines = (
        "def check(one, other):",
        "    if one is None:",
        "        return",
        "    if one.order < other.order:",
        "        go()",
    )
    code = "".join(f"    {line}\n" for line in lines)
    changes = [each.change for each in mutants_of(f"class Rule:\n{code}", frozenset())]
    assert changes[0] == "one is None -> one is not None"
    assert "if not one.order < other.order" in changes[1]
    assert changes[2:] == ["one.order < other.order -> one.order > other.order"]


def test_a_mutant_differs_in_one_place() -> None:
    mutant = next(each for each in mutants_of(CODE, frozenset()) if each.change == "width > 2 -> width >= 2")
    assert ast.unparse(mutant.tree) == ast.unparse(ast.parse(CODE.replace("width > 2", "width >= 2")))
    assert mutant.line == CODE.split("\n").index("        return width > 2") + 1


def test_a_rule_is_changed_while_it_is_tried_and_the_same_again_afterwards() -> None:
    rule = rule_named("raw-dataset")
    mutants = mutants_of(rule.path.read_text(encoding="utf-8"), frozenset({"verify", "inspect"}))
    code = loaded_rule(rule)
    check = next(each for each in mutants if each.function.endswith(".check") and can_swap(code, each.function))
    assert not page_notices(rule)
    with swapped(code, check):
        assert killer_of(rule) == "page"
    assert not page_notices(rule)


def test_what_a_cache_wraps_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rule_named("raw-dataset")
    assert can_swap(loaded_rule(rule), f"{type(rule.rule).__name__}.check")
    monkeypatch.setattr(type(rule.rule), "check", property(lambda self: None).getter(len))
    assert not can_swap(loaded_rule(rule), f"{type(rule.rule).__name__}.check")


GUARDED = """
from lintrain.model.location import Location

count: int = "an error of its own"

class Rule:
    def check(self, location: Location | None) -> bool:
        return location is not None and location.line > 3
"""


@pytest.mark.libraries
def test_types_notice_a_guard_that_is_lacking_and_no_other_number_and_no_file_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "rule.py"
    file.write_text(GUARDED, encoding="utf-8")
    trees = {each.change: each.tree for each in mutants_of(GUARDED, frozenset())}
    whole = "location is not None and location.line > 3"
    changes = [f"{whole} -> location.line > 3", f"{whole} -> location is not None", "3 -> 4"]
    trees |= {"nothing": ast.parse(GUARDED)}
    assert mistyped([(file, trees[change]) for change in (*changes, "nothing")]) == [True, False, False, False]


@pytest.mark.libraries
def test_types_see_rules_with_the_settings_under_which_they_are_clean(tmp_path: Path) -> None:
    (tmp_path / "empty.py").touch()
    paths = [rule.path for rule in load_rules()][:4]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    loose = ast.parse("def check(value):\n    return value\n")
    assert mistyped([(tmp_path / "empty.py", tree) for tree in [*trees, loose]]) == [False] * len(trees) + [True]


NAMED = """
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.values.python import Constant


def test_a_bound_name_is_found_until_it_is_forgotten():
    scope, value = Scope(), Constant(3)
    scope.bind("rate", value)
    assert scope.lookup("rate") is value
    scope.unbind("rate")
    assert scope.lookup("rate") is None
"""


def test_the_reader_is_changed_while_the_tests_that_run_it_are_run(tmp_path: Path) -> None:
    tests = tmp_path / "test_names.py"
    tests.write_text(NAMED)
    (outcome,) = try_reader(["scope"], 100, 20, [str(tests)])
    lost = {mutant.function for mutant in outcome.survivors}
    assert outcome.killers["tests"] > 3
    assert "Scope.joined" in lost, "no test runs it"
    assert "Scope.unbind" not in lost


@pytest.mark.parametrize(
    ("text", "failure"),
    [(NAMED.replace("is None", "is value"), "test_a_bound_name_is_found"), ("import nothing_known", "cannot be read")],
)
def test_tests_that_fail_before_anything_is_changed_tell_nothing(tmp_path: Path, text: str, failure: str) -> None:
    tests = tmp_path / f"test_failing_{len(text)}.py"
    tests.write_text(text)
    with pytest.raises(RuntimeError, match=failure):
        try_reader(["scope"], 100, 20, [str(tests)])


def test_only_files_of_the_reader_can_be_named() -> None:
    assert named_files(["loops", "scope"]) == ["loops", "scope"]
    with pytest.raises(ValueError, match="loopz"):
        named_files(["loops", "loopz"])


def test_tests_that_name_a_rule_in_their_parameters_are_asked() -> None:
    names = [each.partition("::")[2] for each in naming_tests("raw-logits-in-nll-loss")]
    assert "test_another_call_is_left_alone" in names
    assert "test_a_rule_that_failed_on_a_run_mends_nothing" not in names
