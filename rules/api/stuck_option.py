"""An option of the command line has the same value whatever its user writes.

`type=bool` of argparse calls `bool` on the text that is given, and each text but the empty one is true: `--noise
False` gives True. A switch that stores what it has by default, such as `action="store_true", default=True`, changes
nothing. The run trains with another setting than its command says, and no error shows it.

## Bad

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--noise", type=bool, default=True)  # <- stuck-option
    options = parser.parse_args([])
    for inputs, labels in loader:
        inputs = inputs + 0.01 * torch.randn_like(inputs) if options.noise else inputs
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## Good

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--noise", action=argparse.BooleanOptionalAction, default=True)
    options = parser.parse_args([])
    for inputs, labels in loader:
        inputs = inputs + 0.01 * torch.randn_like(inputs) if options.noise else inputs
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## When it is fine

Another switch may store the opposite under the same name:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--noise", action="store_true", default=True)
    parser.add_argument("--no-noise", dest="noise", action="store_false")
    options = parser.parse_args([])
    for inputs, labels in loader:
        inputs = inputs + 0.01 * torch.randn_like(inputs) if options.noise else inputs
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## Fix

None: `BooleanOptionalAction` and a function that reads `true` and `false` take other commands.

## References

Python documentation, `argparse`, section "type": `bool` is not recommended as a type converter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.pipeline.record import NEVER_CHANGED, TRUE_FOR_ANY_TEXT, Misuse
from lintrain.pipeline.values.python import literal
from lintrain.rule import Finding, Level, Pipeline, Rule


class StuckOption(Rule):
    level = Level.WARNING
    keywords = "add_argument"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for misuse in pipeline.misuses:
            if misuse.use == TRUE_FOR_ANY_TEXT:
                yield self.finding(
                    misuse.location,
                    f"`{misuse.text} False` sets it to True: `bool` of any text that is not empty is True",
                    help="use `action=argparse.BooleanOptionalAction`",
                    subject=misuse.text,
                )
            elif misuse.use == NEVER_CHANGED and _is_alone(pipeline, misuse):
                yield self.finding(
                    misuse.location,
                    f"`{misuse.text}` changes nothing: it stores the default",
                    help="use `action=argparse.BooleanOptionalAction`, or the other default",
                    subject=misuse.text,
                )


def _is_alone(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether no other option is stored under the same name, and nothing sets its default."""
    name = re.escape(str(literal(misuse.value)))
    return not pipeline.source_of(misuse.location).contains(
        rf"dest\s*=\s*[\"']{name}[\"']|set_defaults\([^)]*\b{name}\s*="
    )
