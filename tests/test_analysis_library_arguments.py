"""Whether the replacement of a removed name accepts the calls of a script."""

from __future__ import annotations

import pytest

from lintrain.analysis import library_arguments, script_text
from lintrain.knowledge.versions import exactly
from lintrain.read import read_pipeline
from lintrain.source.source import Source


@pytest.mark.parametrize(
    ("call", "is_accepted"),
    [
        ("AdamW(weights, lr=1e-3)", True),
        ("AdamW(weights, correct_bias=False)", False),
        ("AdamW(Other(correct_bias=1))", True),
    ],
)
def test_a_replacement_accepts_calls_without_arguments_that_it_lacks(call: str, is_accepted: bool) -> None:
    code = f"from transformers import AdamW\noptimizer = {call}\n"
    pipeline = read_pipeline(Source("train.py", code), exactly(torch="2.6.0"))
    callees = [use.location for use in script_text.uses_of(pipeline.source, "AdamW")]
    accepts = library_arguments.accepts_calls_of(pipeline, callees, "transformers.AdamW", "torch.optim.AdamW")
    assert accepts is is_accepted
