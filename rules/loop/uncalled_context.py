"""A `with` statement gets `torch.no_grad` without its brackets, or a context is made without a `with`.

`torch.no_grad` is a class, and only an object of it can be entered. The statement raises a TypeError when it is
reached, which for an evaluation is after the first epoch. A context that nothing enters has no effect, and no error
shows it: `torch.autograd.detect_anomaly()` alone searches for nothing.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad:  # <- uncalled-context
        for x, y in eval_loader:
            net(x)
    # raises TypeError

A context that is made and never entered:

    torch.autograd.detect_anomaly()  # <- uncalled-context
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for x, y in eval_loader:
            net(x)

## When it is fine

Decorators accept the class itself, and an object may be made earlier:

    @torch.no_grad
    def evaluate():
        net.eval()
        return [net(x) for x, y in eval_loader]

    without_grad = torch.no_grad()
    evaluate()
    with without_grad:
        evaluate()

## Fix

Safe: without the brackets the statement raises an error. There is none for a context that nothing enters: what was to
run in it is not known.

## References

PyTorch documentation, `torch.no_grad`; the fix in `WZMIAOMIAO/deep-learning-for-image-processing`, commit
df592137ab3d.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import statements, unentered_contexts
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, dataclass, fixes

CONTEXTS = frozenset({"no_grad", "enable_grad", "inference_mode", "set_grad_enabled"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the context, without its brackets."""

    code: str


class UncalledContext(Rule[Claim]):
    level = Level.ERROR
    keywords = "_grad|inference_mode|detect_anomaly|autocast"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(statements.entered_names(source, CONTEXTS) or unentered_contexts.contexts_never_entered(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for code, location in statements.entered_names(pipeline.source, CONTEXTS):
            if code.startswith("torch.") or "." not in code:
                yield self.finding(
                    location,
                    f"`{code}` is entered without being called",
                    help=f"write `with {code}():`" if not code.endswith("enabled") else f"call `{code}`",
                    claim=Claim(code),
                )

        for code, location in unentered_contexts.contexts_never_entered(pipeline.source):
            detects = code.endswith("detect_anomaly")
            yield self.finding(
                location,
                f"`{code}()` has no effect: nothing enters it",
                help="call `torch.autograd.set_detect_anomaly(True)`" if detects else "write it in a `with` statement",
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or finding.claim.code.endswith("set_grad_enabled"):
            return None
        return fixes.Fix.of("call it", fixes.Replace(finding.location, f"{finding.claim.code}()"), safe=True)
