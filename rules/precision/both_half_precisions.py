"""A Trainer is configured for float16 and for bfloat16.

Only one of the two can be used. `TrainingArguments` raises an error before anything is loaded or trained.

## Bad

    args = TrainingArguments("out", fp16=True, bf16=True, use_cpu=True)  # <- both-half-precisions
    # raises At most one of fp16 and bf16 can be True

## Good

    args = TrainingArguments("out", bf16=True, use_cpu=True)

## When it is fine

The hardware decides which one is used:

    can = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    args = TrainingArguments("out", bf16=can, fp16=torch.cuda.is_available() and not can)

The user chooses one on the command line:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args([])
    args = TrainingArguments("out", fp16=options.fp16, bf16=options.bf16)

A test may expect the error:

    try:
        TrainingArguments("out", fp16=True, bf16=True)
    except ValueError:
        print("one at a time")

## Fix

Asks first: it removes `fp16`, but bfloat16 is slow or not supported on GPUs before Ampere. Offered if the call contains
`fp16=True`.

## References

Transformers documentation, `TrainingArguments.fp16`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline import blocks
from lintrain.pipeline.values.python import is_true
from lintrain.pipeline.values.training import TrainingArguments
from lintrain.rule import (
    ArgumentsRule,
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Verdict,
    fixes,
    lazy_pattern,
)

WRITTEN = lazy_pattern(r"fp16\s*=\s*True")
RAISED = ("At most one of fp16 and bf16 can be True",)


class BothHalfPrecisions(ArgumentsRule):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Arguments|Config"

    def judge(self, arguments: TrainingArguments, pipeline: Pipeline) -> Iterator[Finding]:
        is_both = is_true(arguments.value("fp16")) and is_true(arguments.value("bf16"))
        location, made = arguments.locations.get("fp16"), arguments.origin
        if not is_both or location is None:
            return
        certain = {call.location for call in pipeline.calls if call.is_certain and not call.is_guarded}
        if made not in certain or blocks.expects_error(pipeline.source, location):
            return
        # the library does not check values that are set on the object later
        if made.holds(location) and made.holds(arguments.locations.get("bf16", location)):
            yield self._report(pipeline, location, made)

    def _report(self, pipeline: Pipeline, location: Location, made: Location) -> Finding:
        is_written = WRITTEN.fullmatch(pipeline.code(location))
        return self.finding(
            location,
            "`fp16=True` and `bf16=True` are both set, but only one is allowed",
            related=[Related(made, "both are set here", "call")] if is_written else [],
            help="keep `bf16=True` on Ampere GPUs and later, `fp16=True` on older ones",
            subject="fp16",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if location := evidence.failed_place(*RAISED):
            yield self.finding(
                location,
                "`fp16=True` and `bf16=True` are both set, but only one is allowed",
                help="keep `bf16=True` on Ampere GPUs and later, `fp16=True` on older ones",
                subject="fp16",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_at(finding.location, *RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(
                f"creating the arguments in line {finding.location.line} raised `{stage.failure.type}`"
            )
        if evidence.ran(finding.location):
            modes = {name: bool(evidence.arguments.get(name)) for name in ("fp16", "bf16")}
            settings = ", ".join(f"`{name}={value}`" for name, value in modes.items())
            return Verdict.refuted(
                f"the script ran past line {finding.location.line}, and trains with {settings}", **modes
            )
        return Verdict.inconclusive("it is unknown whether the script reached this line")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.RemoveArgument(each.location, "fp16") for each in finding.with_role("call")]
        return fixes.Fix.of("keep only `bf16=True`", *edits, safe=False) if edits else None
