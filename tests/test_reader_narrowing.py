"""What a test leaves of an option, an attribute or an entry inside the branch that it decides about."""

from __future__ import annotations

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.values.python import Constant, Either, Value
from lintrain.read import read_pipeline
from lintrain.source.source import Source

OPTIONS = """
import argparse

from transformers import TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--scheduler", default="linear")
parser.add_argument("--folder")
args = parser.parse_args()
"""
UNKNOWN_SETTINGS = "from settings import settings\nfrom transformers import TrainingArguments\n"
SUBJECTS = ("settings.run.scheduler", "settings['run']['scheduler']", "settings.run['scheduler']", "settings")


def given(text: str) -> list[object]:
    """What each call of `TrainingArguments` got as its schedule; `None` for what is not known."""
    found = read_pipeline(Source("t.py", text), TargetVersions()).arguments
    return [_shown(arguments.value("lr_scheduler_type")) for arguments in found]


def _shown(value: Value) -> object:
    match value:
        case Either(options=options):
            return {_shown(option) for option in options}
        case Constant():
            return f"{value.value!s} by default" if value.default else value.value
        case _:
            return None


def call(subject: str) -> str:
    return f"TrainingArguments('out', lr_scheduler_type={subject})\n"


@pytest.mark.parametrize(
    ("test", "then", "other"),
    [
        ("{} == 'cosine'", "cosine", "linear by default"),
        ("'cosine' == {}", "cosine", "linear by default"),
        ("{} != 'cosine'", "linear by default", "cosine"),
        ("not {} == 'cosine'", "linear by default", "cosine"),
        ("{} == 'linear'", "linear", None),
        ("{} in ('cosine', 'constant')", {"cosine", "constant"}, "linear by default"),
        ("{} in ['linear', 'constant']", "linear by default", None),
        ("{} not in {{'linear', 'constant'}}", None, "linear by default"),
        ("{} == 'cosine' or {} == 'constant'", {"cosine", "constant"}, "linear by default"),
        ("{} == 'cosine' and flag", "cosine", "linear by default"),
        ("{} == 'linear' and flag", "linear", "linear by default"),
        ("{} == other", "linear by default", "linear by default"),
        ("{} == 'cosine' or flag", "linear by default", "linear by default"),
        ("{}.startswith('cos')", "linear by default", "linear by default"),
    ],
)
def test_an_option_is_what_its_test_leaves_of_it(test: str, then: object, other: object) -> None:
    for subject in ("args.scheduler", "kind", "held['scheduler']"):
        code = f"if {test.format(subject, subject)}:\n    {call(subject)}else:\n    {call(subject)}"
        assert given(f"{OPTIONS}kind, held = args.scheduler, vars(args)\n{code}") == [then, other], subject


@pytest.mark.parametrize("subject", SUBJECTS)
def test_an_unknown_thing_is_the_text_that_it_is_compared_with(subject: str) -> None:
    code = (
        f"if {subject} == 'cosine':\n    {call(subject)}elif {subject} in ('linear', 'constant'):\n    {call(subject)}"
    )
    assert given(f"{UNKNOWN_SETTINGS}{code}else:\n    {call(subject)}") == ["cosine", {"linear", "constant"}, None]


def test_a_case_is_a_test_of_its_literals() -> None:
    code = (
        "match args.scheduler:\n"
        f"    case 'cosine':\n        {call('args.scheduler')}"
        f"    case 'constant' | 'polynomial':\n        {call('args.scheduler')}"
        f"    case _:\n        {call('args.scheduler')}"
    )
    assert given(OPTIONS + code) == ["cosine", {"constant", "polynomial"}, "linear by default"]


def test_what_is_none_by_default_is_given_where_a_test_asks_for_it() -> None:
    for test in ("args.folder", "args.folder is not None", "args.folder != None"):
        code = f"if {test}:\n    {call('args.folder')}else:\n    {call('args.folder')}"
        assert given(OPTIONS + code) in ([None, "None by default"], [None, None]), test


def test_functions_that_a_branch_calls_get_what_the_test_leaves() -> None:
    code = (
        f"def build(options):\n    {call('options.scheduler')}"
        "if args.scheduler == 'cosine':\n    build(args)\nelse:\n    build(args)\n"
    )
    assert given(OPTIONS + code) == ["cosine", "linear by default"]


def test_an_attribute_of_an_object_is_tested_in_its_method() -> None:
    code = (
        "class Run:\n    def __init__(self, kind):\n        self.kind = kind\n"
        f"    def start(self):\n        if self.kind == 'cosine':\n            {call('self.kind')}"
        f"        else:\n            {call('self.kind')}"
        "Run(args.scheduler).start()\n"
    )
    assert given(OPTIONS + code) == ["cosine", "linear by default"]


def test_what_a_branch_stores_counts_in_its_rest() -> None:
    code = f"if args.scheduler == 'cosine':\n    args.scheduler = 'constant'\n    {call('args.scheduler')}"
    assert given(OPTIONS + code) == ["constant by default"]
    code = (
        "if settings.kind == 'cosine':\n    settings.kind = choose()\n"
        f"    if True:\n        {call('settings.kind')}    {call('settings.kind')}"
    )
    assert given(UNKNOWN_SETTINGS + code) == [None, None]
    code = f"kind = args.scheduler\nif kind == 'cosine':\n    kind = 'constant'\n    {call('kind')}{call('kind')}"
    assert given(OPTIONS + code) == ["constant", {"constant", "linear by default"}]


def test_a_test_leaves_nothing_after_its_branches_unless_one_of_them_leaves() -> None:
    code = f"if args.scheduler == 'cosine':\n    pass\n{call('args.scheduler')}"
    assert given(OPTIONS + code) == ["linear by default"]
    code = (
        f"def start():\n    if args.scheduler != 'cosine':\n        return\n    {call('args.scheduler')}"
        f"start()\n{call('args.scheduler')}"
    )
    assert given(OPTIONS + code) == ["cosine", "linear by default"]
    code = "for epoch in range(3):\n    if args.scheduler == 'cosine':\n        continue\n    print()\n"
    assert given(OPTIONS + code + call("args.scheduler")) == ["linear by default"]


def test_the_sides_of_a_conditional_expression_are_branches() -> None:
    code = "TrainingArguments('out', lr_scheduler_type=args.scheduler if args.scheduler == 'cosine' else 'constant')\n"
    assert given(OPTIONS + code) == [{"cosine", "constant"}]


def test_a_number_that_is_compared_stays_an_unknown_thing() -> None:
    code = f"if settings.steps == 10:\n    {call('settings.steps')}"
    assert given(UNKNOWN_SETTINGS + code) == [None]


def test_an_attribute_by_its_name_is_what_the_test_leaves_of_it() -> None:
    code = f"if args.scheduler == 'cosine':\n    {call('getattr(args, NAME)')}"
    assert given(f"{OPTIONS}NAME = 'scheduler'\n{code}") == ["cosine"]
