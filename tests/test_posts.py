"""The benchmark over posts about failing training counts what it should, on invented posts."""

from __future__ import annotations

import csv
import json
from dataclasses import astuple, fields
from pathlib import Path

import pytest

from benchmarks.posts.__main__ import main
from benchmarks.posts.counting import judge
from benchmarks.posts.posts import Post, half_of, read_posts
from benchmarks.pysiassist.checking import Reported

LOOP = """\
import torch
torch.manual_seed(0)
net = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in torch.load("batches.pt"):
    {clear}
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
torch.save(net.state_dict(), "net.pt")
"""


def post(number: int, half: str = "work", **given: str) -> Post:
    answer = {"what": "", "rule": "", "also": "", "words": "", "others": "", "why": "gradients add up"} | given
    return Post(f"https://example.org/posts/{number}", half, **answer)


FORGOTTEN = post(1, rule="missing-zero-grad", words="loss.backward()")


def write(folder: Path, posts: dict[Post, str]) -> Path:
    """The texts in files, and the table of their judgements."""
    for each, text in posts.items():
        (folder / each.name).write_text(text)
    table = folder / "posts.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([[field.name for field in fields(Post)], *(astuple(each) for each in posts)])
    return table


def test_every_row_says_what_a_reviewer_needs() -> None:
    posts = read_posts()
    assert len({each.address for each in posts}) == len(posts) >= 90
    for each in posts:
        assert each.address.startswith("https://")
        assert each.half == half_of(each.address)
        assert all((each.what, each.rule, each.words, each.why)), each.address
        assert each.rule not in each.also.split(), each.address


def test_a_finding_counts_at_the_words_of_the_mistake_and_two_lines_around() -> None:
    text = LOOP.format(clear="pass")
    for line, is_found in ((5, False), (6, True), (10, True), (11, False)):
        assert judge(FORGOTTEN, text, [Reported("missing-zero-grad", line, "")]).is_found is is_found


def test_other_findings_are_counted_unless_the_judgement_knows_them() -> None:
    judged = post(2, rule="missing-zero-grad", words="loss.backward()", others="missing-seed")
    found = [Reported(rule, 3, "") for rule in ("missing-seed", "missing-step", "undefined-name", "removed-name")]
    outcome = judge(judged, LOOP, found)
    assert [each.rule for each in outcome.unknown] == ["missing-step"]
    assert outcome.about_the_text == 2


def test_sums_of_both_halves_and_names_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong, right = LOOP.format(clear="pass"), LOOP.format(clear="optimizer.zero_grad()")
    missed = post(3, rule="missing-zero-grad", words="loss.backward()")
    secret = post(4, half="measure", rule="missing-zero-grad", words="loss.backward()")
    table = write(tmp_path, {FORGOTTEN: wrong, missed: right, secret: right})
    assert main(["--texts", str(tmp_path), "--missed"], table) == 1
    printed = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in printed[1:4]] == [
        ["work", "2", "1", "50.0%"],
        ["measure", "1", "0", "0.0%"],
        ["both", "3", "1", "33.3%"],
    ]
    assert printed[4:] == [f"missed: {missed.name}: missing-zero-grad: gradients add up"]


def test_all_found_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = write(tmp_path, {FORGOTTEN: LOOP.format(clear="pass")})
    assert main(["--texts", str(tmp_path), "--json", "--missed"], table) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["sums"] == [
        {"half": "work", "posts": 1, "found": 1, "unknown": 0, "about_the_text": 0, "share": 1.0}
    ]
    assert printed["posts"] == [{"address": FORGOTTEN.address, "found": True, "unknown": []}]
