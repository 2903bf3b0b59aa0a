"""Code as people post it on forums, without imports and often without a loop: what is found in it, and what is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lintrain.check.one_file import check_source
from lintrain.knowledge.versions import TargetVersions
from lintrain.model.level import Level
from lintrain.rulebook import find_rules
from lintrain.source.source import Source

FOLDER = Path(__file__).parent / "posts"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"  # <- (.*)")


def posts_in(name: str) -> list[str]:
    return BLOCK.findall((FOLDER / name).read_text(encoding="utf-8"))


def reported(post: str, *, notes: bool = True) -> set[tuple[int, str]]:
    """The findings by line and rule, with those that are only worth knowing or without them."""
    source = Source("post.py", MARK.sub("", post))
    found = [one.finding for one in check_source(source, find_rules(), TargetVersions).reported]
    told = [one for one in found if one.rule != "undefined-name" and (notes or one.level is not Level.NOTE)]
    return {(one.location.line, one.rule) for one in told}


@pytest.mark.parametrize("post", posts_in("mistakes.md"))
def test_mistakes_are_found_at_their_lines(post: str) -> None:
    lines = enumerate(post.split("\n"), start=1)
    marked = {(number, rule) for number, line in lines if (mark := MARK.search(line)) for rule in mark[1].split(", ")}
    assert marked
    assert reported(post) == marked


@pytest.mark.parametrize("post", posts_in("correct.md"))
def test_correct_posts_are_left_alone(post: str) -> None:
    assert reported(post, notes=False) == set()
