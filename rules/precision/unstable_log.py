"""The logarithm of a sigmoid or softmax is computed in two steps.

A probability underflows to 0 for a score far enough from the others: from about -104 in float32, from -17 in float16.
Its logarithm is then minus infinity, and the gradient NaN. `logsigmoid` and `log_softmax` compute the same number
without an underflow.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        margins = net(x)[:, 0] - net(x)[:, 1]
        loss = -torch.log(torch.sigmoid(margins)).mean()  # <- unstable-log
        loss.backward()
        optimizer.step()

A softmax under a name, and the probability of the other class:

    for x, y in loader:
        optimizer.zero_grad()
        probabilities = F.softmax(net(x), dim=1)
        entropy = -(probabilities * torch.log(probabilities)).sum(dim=1)  # <- unstable-log
        other = (1 - net(x).sigmoid()).log()  # <- unstable-log
        (entropy.mean() - other.mean()).backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        margins = net(x)[:, 0] - net(x)[:, 1]
        loss = -F.logsigmoid(margins).mean()
        loss.backward()
        optimizer.step()

and with a softmax:

    for x, y in loader:
        optimizer.zero_grad()
        logs = F.log_softmax(net(x), dim=1)
        entropy = -(logs.exp() * logs).sum(dim=1)
        (entropy.mean() - F.logsigmoid(-net(x)).mean()).backward()
        optimizer.step()

## When it is fine

The probability is kept away from zero, or changed before its logarithm:

    for x, y in loader:
        optimizer.zero_grad()
        probabilities = F.softmax(net(x), dim=1)
        kept = torch.log(probabilities + 1e-8) + torch.log(probabilities.clamp(min=1e-6))
        mixed = torch.log(torch.sigmoid(net(x)).mean(dim=0))
        (kept.mean() + mixed.mean()).backward()
        optimizer.step()

## Fix

None: which axis the function normalizes may be written elsewhere.

## References

PyTorch documentation, `torch.nn.functional.logsigmoid` and `log_softmax`; the fix in `microsoft/DeepSpeedExamples`,
commit 2316830467d5.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lintrain.analysis import guarded_logs, saturated_logs, script_text, tensor_forms
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    OddCallRule,
    Pipeline,
    Related,
    Source,
    Targets,
    Verdict,
    lazy_pattern,
    one_per_location,
)

LONGEST = 30
WRITTEN = lazy_pattern(r"\blog\(")


class UnstableLog(OddCallRule):
    level = Level.WARNING
    odd = "log of a probability"
    odd_message = "this log is infinite where a probability underflows to 0"
    odd_help = "compute it in one step: `F.logsigmoid(x)`, or `F.log_softmax(x, dim=…)`"
    keywords = "log & sigmoid|softmax|eps|1e-|tanh"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(WRITTEN) and (
            any(tensor_forms.logs_of_probabilities(source))
            or any(guarded_logs.unguarded_logs(source))
            or any(saturated_logs.saturated_logs(source))
        )

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if script_text.mentions(pipeline, r"\ballclose\(|assert_close"):
            return  # compares two ways to compute the same number
        logs = map(self._report, tensor_forms.logs_of_probabilities(pipeline.source))
        unguarded = map(self._report_unguarded, guarded_logs.unguarded_logs(pipeline.source))
        saturated = map(self._report_saturated, saturated_logs.saturated_logs(pipeline.source))
        yield from one_per_location(chain(logs, unguarded, saturated))

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        verdict, loop = super().verify(finding, evidence), evidence.loop
        # A log outside of the loss, of what is only printed, is in no graph.
        if verdict.outcome != "refuted" or loop is None:
            return verdict
        text = f"the loss has 0 such logs, and {loop.stable_logs} that are computed in one step"
        return (Verdict.refuted if loop.stable_logs else Verdict.inconclusive)(text, stable=loop.stable_logs)

    def _report_unguarded(self, found: guarded_logs.Unguarded) -> Finding:
        of = f"`{found.of}`" if len(found.of) <= LONGEST else "this number"
        return self.finding(
            found.location,
            f"the log of {of} is infinite at 0, which another one avoids",
            related=[Related(found.guarded, "adds a small number here", "guarded")],
            help="add the same small number, or compute the log in one step",
        )

    def _report_saturated(self, found: saturated_logs.Saturated) -> Finding:
        of = f"`{found.of}`" if len(found.of) <= LONGEST else "1 minus its square"
        return self.finding(
            found.location,
            f"the log of {of} is infinite where tanh rounds to 1",
            why="From about 9 on, `tanh` is 1 in float32. The logarithm is then minus infinity, and the gradient NaN.",
            help="add a small number, `1e-6`, or use `2 * (math.log(2) - x - F.softplus(-2 * x))` for `tanh(x)`",
        )

    def _report(self, written: tensor_forms.WrittenLog) -> Finding:
        stable = tensor_forms.STABLE[written.function]
        of, better = (
            (f"1 - {written.function}", f"F.{stable}(-x)")
            if written.is_complement
            else (
                written.function,
                f"F.{stable}(x)" if written.function == "sigmoid" else f"F.{stable}(x, dim=…)",
            )
        )
        return self.finding(
            written.location,
            f"the log of `{of}` is infinite where the probability underflows to 0",
            help=f"compute it in one step: `{better}`",
        )
