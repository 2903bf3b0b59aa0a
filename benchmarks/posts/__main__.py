"""What lintrain finds in posts about failing training: `python -m benchmarks.posts --texts FOLDER [--missed]`.

FOLDER holds the texts, which are not part of the project: each is the code of one post, in a file named after its
address (`stackoverflow-com-questions-123.py`). Each is checked as a file of its own and compared with the judgement
in `posts.csv`, or with `--draw 2` in `posts-2.csv`, and so on. Of the half `measure` only sums are printed.
The exit code is 1 when less than 75 % of the mistakes are found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.posts.counting import Outcome, Sums, all_sums, judge_all
from benchmarks.posts.posts import DRAWS, read_posts, read_texts
from benchmarks.pysiassist.checking import check_codes

LEAST_FOUND = 0.75
HALVES = ("work", "measure")
SHOWN = "work"
"""The half whose posts may be named."""


def main(arguments: Sequence[str] | None = None, table: Path | None = None) -> int:
    """Print the sums, and on request the misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=Path, required=True, metavar="FOLDER", help="the folder with the texts")
    parser.add_argument("--draw", type=int, choices=sorted(DRAWS), default=1, help="which draw of posts")
    parser.add_argument("--half", choices=HALVES, help="only these posts")
    parser.add_argument(
        "--missed", action="store_true", help="also list what is missed and what is unknown in the half work"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    posts = [post for post in read_posts(table or DRAWS[given.draw]) if given.half in (None, post.half)]
    texts = read_texts(given.texts, posts)
    outcomes = judge_all(posts, texts, check_codes(texts))
    sums = all_sums(outcomes)
    listed = [outcome for outcome in outcomes if given.missed and outcome.post.half == SHOWN]
    if given.json:
        print(json.dumps({"sums": [_plain(line) for line in sums], "posts": [_entry(each) for each in listed]}))
    else:
        print_sums(sums)
        print_missed(listed)
    return 0 if all(line.share >= LEAST_FOUND for line in sums) else 1


def _plain(sums: Sums) -> dict[str, Any]:  # Any: what JSON holds
    return {**asdict(sums), "share": round(sums.share, 3)}


def _entry(outcome: Outcome) -> dict[str, Any]:  # Any: as above
    return {
        "address": outcome.post.address,
        "found": outcome.is_found,
        "unknown": [asdict(each) for each in outcome.unknown],
    }


def print_sums(lines: Iterable[Sums]) -> None:
    """One line for each half."""
    print("half     posts  found   share  other findings  names, versions")
    for line in lines:
        print(
            f"{line.half:8} {line.posts:5} {line.found:6} {line.share:>7.1%} {line.unknown:15} {line.about_the_text:15}"
        )


def print_missed(outcomes: Iterable[Outcome]) -> None:
    """One line for each mistake that is missed and each finding that the judgement does not know."""
    for outcome in outcomes:
        post = outcome.post
        if not outcome.is_found:
            print(f"missed: {post.name}: {post.rule}: {post.why}")
        for each in outcome.unknown:
            print(f"other: {post.name}:{each.line}: {each.rule}: {each.message}")


if __name__ == "__main__":
    sys.exit(main())
