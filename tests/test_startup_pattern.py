"""A pattern that is compiled late, or asked only where its words are, answers as the one that `re` compiles."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from lintrain.source.literals import is_found
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

ASKED: dict[str, Callable[[re.Pattern[str]], object]] = {
    "search": lambda pattern: [found.span() for found in [pattern.search("step 12, LOSS 0.5")] if found],
    "match": lambda pattern: pattern.match("12"),
    "fullmatch": lambda pattern: [found.groupdict() for found in [pattern.fullmatch("loss 7")] if found],
    "findall": lambda pattern: pattern.findall("loss 1 loss 2"),
    "finditer": lambda pattern: [found.group() for found in pattern.finditer("loss 1 loss 2")],
    "sub": lambda pattern: pattern.sub(r"\2", "a loss 1 b"),
    "subn": lambda pattern: pattern.subn("", "a loss 1 b", 1),
    "split": lambda pattern: pattern.split("a loss 1 b"),
    "groups": lambda pattern: (pattern.groups, dict(pattern.groupindex), pattern.pattern),
}


@pytest.mark.parametrize("method", ASKED)
def test_every_method_answers_as_of_a_compiled_pattern(method: str) -> None:
    text = r"(?P<what>loss)\s(\d)"
    late, at_once = lazy_pattern(text, re.IGNORECASE), re.compile(text, re.IGNORECASE)
    assert ASKED[method](late) == ASKED[method](at_once)
    assert ASKED[method](late) == ASKED[method](at_once)


def test_bytes_are_searched_too() -> None:
    assert lazy_pattern(rb"Trainer\(").search(b"x = Trainer(model)")


def test_nothing_is_compiled_before_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    by_library = re.compile

    def noted(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return by_library(text, flags)

    monkeypatch.setattr(re, "compile", noted)
    pattern = lazy_pattern("never asked before")
    assert not compiled
    assert not hasattr(pattern, "__wrapped__")
    assert not compiled
    pattern.search("a")
    pattern.search("b")
    assert compiled == ["never asked before"]


FOUND = {
    r"\ballclose\(|assert_close": "torch.allclose(a, b)",
    r"(?i)\blog2|LN2": "math.LOG2(x)",
    r"\.(?:to|cuda)\(": "x.to(device)",
    r"[Ff]abric": "Fabric()",
    r"(?:ab){0,3}cd?": "c",
    r"(?:ab){2,3}": "abab",
    r"(?i:LOSS) = ": "loss = 1",
    r"(?-i:LOSS) = ": "LOSS = 1",
    r"one|": "",
    r"(a)(bc)?(?(2)d|e)": "ae",
    r"^im\bport|x": "x",
    r"(?i)loss": "lo\u017fs",
    r"(?>ab|cd)+ef": "cdabef",
    r"[^a]bc(?=de)": "xbcde",
    r"(?x) lo ss  # a | comment": "loss",
    r"[|(]a|b[]|]c": "b]c",
    r"one\|two|\(": "one|two",
    r"two$|\Aone": "one\ntwo",
    r"(?m)^two$": "one\ntwo\nthree",
    r"two\b(?!\w)": "one\ntwo\nthree",
    r"one\stwo": "one\ntwo",
    r"one[^x]two": "one\ntwo",
    r"one[\t-\r]two": "one\ntwo",
    r"one\Wtwo": "one\ntwo",
    r"(?s)one.two": "one\ntwo",
    r"(?s:one.)two": "one\ntwo",
    r"one(?=\n)": "one\ntwo",
    r"(?<=\n)two": "one\ntwo",
    r"(one|two) \1": "one one",
}
"""Patterns with a text that each finds."""


@pytest.mark.parametrize("pattern", FOUND)
def test_a_text_that_a_pattern_finds_has_its_words(pattern: str) -> None:
    assert re.search(pattern, FOUND[pattern])
    assert is_found(pattern, FOUND[pattern])
    assert is_found(re.compile(pattern), FOUND[pattern])
    assert Source("a.py", FOUND[pattern]).contains(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"one$|four", "one\ntwo"),
        (r"^two|\Atwo", "one\ntwo"),
        (r"one(?!\n)", "one\ntwo"),
        (r"(?<!\n)two", "one\ntwo"),
        (r"one.two", "one\ntwo"),
        (r"one\b two\b", "one two_\none\n two"),
        (r"two (one|two)(?<!one)", "two one\ntwo three"),
    ],
)
def test_a_line_is_searched_as_a_part_of_its_text(pattern: str, text: str) -> None:
    assert re.search(pattern, text) is None
    assert not is_found(pattern, text)
    assert not is_found(re.compile(pattern), text)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\ballclose\(|assert_close", "close(a)"),
        (r"(?i)\blog2|LN2", "log(2)"),
        (r"\bset_(?:format|transform)\b", "set_style"),
        (r"(?:ab){2,3}", "ba"),
    ],
)
def test_a_text_without_the_words_of_a_pattern_is_not_searched(pattern: str, text: str) -> None:
    compiled: list[str] = []
    searched = lazy_pattern(pattern)
    object.__setattr__(searched, "search", lambda text: compiled.append(text))
    assert not Source("a.py", text).contains(searched)
    assert compiled == []
