"""A Trainer is told to compute in float16 and in bfloat16.

Only one of the two can be in force. The arguments object refuses both, before anything is loaded or trained.

## Bad

    args = TrainingArguments("out", fp16=True, bf16=True, use_cpu=True)  # <- both-half-precisions
    # raises At most one of fp16 and bf16 can be True

## Good

    args = TrainingArguments("out", bf16=True, use_cpu=True)

## When it is fine

One of them is chosen by what the machine can do:

    can = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    args = TrainingArguments("out", bf16=can, fp16=torch.cuda.is_available() and not can)

The user chooses one at the command line:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args([])
    args = TrainingArguments("out", fp16=options.fp16, bf16=options.bf16)

A test that wants the error says so:

    try:
        TrainingArguments("out", fp16=True, bf16=True)
    except ValueError:
        print("one at a time")

## Fix

Asks first: it leaves `fp16` out, and GPUs before Ampere are slow in bfloat16 or cannot compute in it. Offered where
`fp16=True` is written in the call.

## References

Transformers documentation, `TrainingArguments.fp16`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.pipeline.values.python import is_true
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

WRITTEN = lazy_pattern(r"fp16\s*=\s*True")
RAISED = ("At most one of fp16 and bf16 can be True",)


class BothHalfPrecisions(Rule):
    level = Level.ERROR
    keywords = "Arguments|Config"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        certain = {call.location for call in pipeline.calls if call.is_certain and not call.is_guarded}
        for arguments in pipeline.arguments:
            is_both = is_true(arguments.value("fp16")) and is_true(arguments.value("bf16"))
            location, made = arguments.locations.get("fp16"), arguments.origin
            if (
                not is_both
                or location is None
                or made is None
                or made not in certain
                or _is_expected(pipeline, location)
            ):
                continue
            # what is set on the object later is not compared with the other
            if made.holds(location) and made.holds(arguments.locations.get("bf16", location)):
                yield self._report(pipeline, location, made)

    def _report(self, pipeline: Pipeline, location: Location, made: Location) -> Finding:
        is_written = WRITTEN.fullmatch(pipeline.code(location))
        return self.finding(
            location,
            "`fp16=True` stands beside `bf16=True`, and only one may be on",
            related=[Related(made, "both are asked for here", "call")] if is_written else [],
            help="keep `bf16=True` on GPUs since Ampere, `fp16=True` on older ones",
            subject="fp16",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_at(finding.location, *RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"{stage.failure.type} when the arguments are made: 0 steps were taken")
        if evidence.ran(finding.location):
            modes = {name: bool(evidence.arguments.get(name)) for name in ("fp16", "bf16")}
            told = ", ".join(f"`{name}={value}`" for name, value in modes.items())
            return Verdict.refuted(f"the script ran past line {finding.location.line}, and trains with {told}", **modes)
        return Verdict.inconclusive("whether the script came to this line is not known")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.RemoveArgument(each.location, "fp16") for each in finding.with_role("call")]
        return fixes.Fix.of("keep `bf16=True` alone", *edits, safe=False) if edits else None


def _is_expected(pipeline: Pipeline, location: Location) -> bool:
    """Whether code stands where its error is caught: in a `try`, or below `pytest.raises`."""
    source = pipeline.source
    catching = [
        node
        for node in source.nodes
        if isinstance(node, ast.Try) or (isinstance(node, ast.With) and "aises" in ast.unparse(node.items[0]))
    ]
    return any(source.location(node).holds(location) for node in catching)
