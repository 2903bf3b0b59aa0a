"""Cases that take turns: each is run at some commits, and none is left out without `--turns`."""

from __future__ import annotations

import pytest

from tests.support.turns import waiting
from tools import dev

pytest_plugins = ["pytester"]


def run(items: list[pytest.Item], turn: str) -> list[str]:
    """The names of the tests that are run at a commit."""
    left_out = waiting(items, turn)
    return [item.name for item in items if item not in left_out]


@pytest.fixture
def items(request: pytest.FixtureRequest) -> list[pytest.Item]:
    """Seven cases of one test, one of another, both marked, and two of a test that takes no turns."""
    names = [*(f"test_many[{number}]" for number in range(7)), "test_one", "test_all[a]", "test_all[b]"]
    made = [pytest.Function.from_parent(request.node.parent, name=name, callobj=run) for name in names]
    for item in made[:8]:
        item.add_marker(pytest.mark.turns(one_in=3))
    return [*made]


def test_a_part_of_the_cases_of_each_test_is_run_and_at_least_one(items: list[pytest.Item]) -> None:
    names = run(items, "1")
    assert len([name for name in names if name.startswith("test_many")]) == 3
    assert names[3:] == ["test_one", "test_all[a]", "test_all[b]"]
    assert run(items, "1") == names


def test_every_case_is_run_at_some_commit(items: list[pytest.Item]) -> None:
    assert {name for turn in range(40) for name in run(items, str(turn))} == {item.name for item in items}


def test_tests_of_a_file_take_turns_and_those_of_every_commit_do_not(request: pytest.FixtureRequest) -> None:
    names = [*(f"test_{number}" for number in range(8)), "test_alike[a]", "test_kept[a]", "test_kept[b]"]
    made = [pytest.Function.from_parent(request.node.parent, name=name, callobj=run) for name in names]
    for item in made[:9]:
        item.add_marker(pytest.mark.turns(one_in=3, of="file"))
    for item in made[9:]:
        item.add_marker(pytest.mark.turns(one_in=1))
    chosen = [run([*made], str(turn)) for turn in range(40)]
    assert {len(each) for each in chosen} == {3 + 2}
    assert all(each[-2:] == names[-2:] for each in chosen)
    assert {name for each in chosen for name in each} == {*names}


def test_tests_that_look_at_one_run_have_their_turn_together(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("""
        import pytest
        pytestmark = pytest.mark.turns(one_in=2, of="file")
        @pytest.fixture(scope="module")
        def probed(): return 1
        def test_first(probed): pass
        def test_second(probed, tmp_path): pass
        def test_other(tmp_path): pass
        """)
    items = pytester.inline_genitems()[0]
    assert {tuple(run(items, str(turn))) for turn in range(40)} == {("test_first", "test_second"), ("test_other",)}


def test_what_waits_is_run_by_the_command_for_more() -> None:
    (arguments,) = (arguments for _, module, arguments in dev.MORE if module == "pytest")
    assert arguments[:2] == ("-m", "turns")
    assert "--turns" not in arguments
    assert "--turns" in dev.PYTEST
