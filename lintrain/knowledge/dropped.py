"""Keywords that calls still accept because of `**kwargs`, although no code reads them anymore."""

from __future__ import annotations

import re
from typing import NamedTuple

from lintrain.knowledge.target import Version


class DroppedKeyword(NamedTuple):
    """A keyword that `**kwargs` still swallow, although nothing reads it any more: the call fails later, or at once."""

    owner: str
    keywords: frozenset[str]
    since: Version
    last_with: str


_NO_MODEL = "(?!Auto(?:Tokenizer|Config|Processor|ImageProcessor|FeatureExtractor|VideoProcessor)\\b)"
_DROPPED = (
    DroppedKeyword(
        rf"transformers\.{_NO_MODEL}(?:AutoModel\w*|\w+Model|\w+For[A-Z]\w+)\.from_pretrained",
        frozenset({"load_in_8bit", "load_in_4bit", "use_auth_token", "resume_download"}),
        (5, 0),
        "4.57",
    ),
    DroppedKeyword(
        r"datasets\.load_dataset(?:_builder)?",
        frozenset({"use_auth_token", "ignore_verifications", "task"}),
        (3, 0),
        "2.21",
    ),
)


def dropped_keyword(owner: str, keyword: str) -> DroppedKeyword | None:
    """The record of a keyword that a call accepts only because of `**kwargs`."""
    if not any(keyword in each.keywords for each in _DROPPED):
        return None
    matching = (each for each in _DROPPED if keyword in each.keywords and re.fullmatch(each.owner, owner))
    return next(matching, None)
