"""`np.transpose` gets only the order of the axes, so the numbers of the axes themselves are its result.

The array was forgotten: `np.transpose((0, 2, 3, 1))` is the array `[0, 2, 3, 1]`. The call raises no error, and neither
does code that accepts any array of numbers.

## Bad

    import numpy as np

    def channels_last(images):
        return np.transpose((0, 2, 3, 1))  # <- missing-operand

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    print(channels_last(np.zeros((4, 3, 8, 8))).shape)

## Good

    import numpy as np

    def channels_last(images):
        return np.transpose(images, (0, 2, 3, 1))

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    print(channels_last(np.zeros((4, 3, 8, 8))).shape)

## When it is fine

A method has its array before the dot, and numbers that are no order of axes are an array:

    import numpy as np

    rows = np.zeros((4, 3, 8, 8)).transpose((0, 2, 3, 1))
    column = np.transpose([[4, 2, 9]])
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

None: which array was meant is not certain.

## References

NumPy documentation, `numpy.transpose`; the fix in `bstriner/keras-adversarial`, commit 91bafef18fee.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, script_text
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, lazy_pattern

NAMES = frozenset({"transpose", "permute", "permute_dimensions", "moveaxis", "swapaxes"})
OWNERS = frozenset({"np", "numpy", "jnp", "tf", "K", "torch"})
ORDER = lazy_pattern(r"[(\[](\d(?:, \d)+)[)\]]")


class MissingOperand(Rule):
    level = Level.ERROR
    keywords = "transpose|permute|moveaxis|swapaxes"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in _orders(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for call in _orders(pipeline.source):
            yield self.finding(
                call.location,
                f"`{call.called_name}` gets the order of the axes, but no array",
                help=f"pass the array first: `{call.called_name}(array, {call.arguments[0].code})`",
            )


def _orders(source: Source) -> Iterator[expressions.Expression]:
    """The calls of functions that reorder axes whose only argument is an order of axes itself."""
    if not source.contains(r"\.(?:transpose|permute|permute_dimensions)\(\s*[(\[]\s*\d"):
        return
    owners = OWNERS & script_text.imported_names(source)
    for call in expressions.calls_in_file(source):
        owner = call.called_on
        if call.called_name in NAMES and owner is not None and owner.code in owners and len(call.arguments) == 1:
            order = ORDER.fullmatch(call.arguments[0].code)
            if order and not call.keywords and _is_order(order[1].split(", ")):
                yield call


def _is_order(numbers: list[str]) -> bool:
    return sorted(map(int, numbers)) == list(range(len(numbers)))
