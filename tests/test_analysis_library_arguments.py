"""Whether the replacement of a removed name accepts the calls of a script."""

from __future__ import annotations

import pytest

from lintrain.analysis import library_arguments, written_names
from tests.support.loops import pipeline_of


@pytest.mark.parametrize(
    ("call", "is_accepted"),
    [
        ("AdamW(weights, lr=1e-3)", True),
        ("AdamW(weights, correct_bias=False)", False),
        ("AdamW(Other(correct_bias=1))", True),
    ],
)
def test_a_replacement_accepts_calls_without_arguments_that_it_lacks(call: str, is_accepted: bool) -> None:
    pipeline = pipeline_of(f"from transformers import AdamW\noptimizer = {call}\n")
    callees = [use.location for use in written_names.uses_of(pipeline.source, "AdamW")]
    accepts = library_arguments.accepts_calls_of(pipeline, callees, "transformers.AdamW", "torch.optim.AdamW")
    assert accepts is is_accepted
