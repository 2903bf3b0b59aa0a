"""An option of the command line has the same value whatever its user writes.

`type=bool` of argparse calls `bool` on the text that is given, and each text but the empty one is true: `--noise
False` gives True. The run trains with another setting than its command says, and no error shows it.

A switch that stores what it has by default, such as `action="store_true", default=True`, changes nothing. Neither does
`--momentum` if no code reads `options.momentum`, nor a parameter that a function does not read while a call gets a
literal under its name.

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

An option that nothing reads:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)  # <- stuck-option
    options = parser.parse_args([])
    optimizer = torch.optim.SGD(net.parameters(), lr=options.lr)
    for inputs, labels in loader:
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

and

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    options = parser.parse_args([])
    optimizer = torch.optim.SGD(net.parameters(), lr=options.lr, momentum=options.momentum)
    for inputs, labels in loader:
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

Code of another file may read the options that it gets:

    import argparse
    from project.optimizers import make_optimizer

    parser = argparse.ArgumentParser()
    parser.add_argument("--momentum", type=float, default=0.9)
    optimizer = make_optimizer(net, parser.parse_args([]))
    for inputs, labels in loader:
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

from lintrain.analysis import constant_conditions, unread_settings
from lintrain.pipeline.record import NEVER_CHANGED, TRUE_FOR_ANY_TEXT, Misuse
from lintrain.pipeline.values.python import literal
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class StuckOption(Rule):
    level = Level.WARNING
    keywords = "add_argument|def "

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        unread_options = unread_settings.unread_options(pipeline) if unread_settings.trains(pipeline) else []
        yield from map(self._report_unread, unread_options)
        # What an option means does not matter where no code reads it.
        unread_at = {option.location for option in unread_options}
        for misuse in (each for each in pipeline.misuses if each.location not in unread_at):
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
                    why="The option has the same value with the switch and without it, so no command can choose the"
                    " other one. No error is raised.",
                    help="use `action=argparse.BooleanOptionalAction`, or the other default",
                    subject=misuse.text,
                )
        unread = constant_conditions.unread_parameters(pipeline.source)
        # Numbers for a setting are those of `ineffective-setting`.
        others = (each for each in unread if not unread_settings.is_setting(each.name))
        yield from one_per_location(map(self._report_parameter, others))

    def _report_unread(self, option: unread_settings.Unread) -> Finding:
        return self.finding(
            option.location,
            f"`{option.name}` changes nothing: no code reads it",
            why="The value is parsed and then ignored, so the run trains with another setting than its command says. No"
            " error is raised.",
            help="pass it on to what it is for, or remove the option",
            subject=option.name,
        )

    def _report_parameter(self, found: constant_conditions.UnreadParameter) -> Finding:
        return self.finding(
            found.location,
            f"`{found.name}` changes nothing: nothing reads it, and {found.value} is passed on in its place",
            related=[Related(found.call, "gets the literal here", "call")],
            why="The call uses the same literal for each value that callers pass, so runs with different values give"
            " the same results. No error is raised.",
            help=f"pass on the parameter: `{found.name}={found.name}`",
        )


def _is_alone(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether no other option is stored under the same name, and nothing sets its default."""
    name = re.escape(str(literal(misuse.value)))
    return not pipeline.source_of(misuse.location).contains(
        rf"dest\s*=\s*[\"']{name}[\"']|set_defaults\([^)]*\b{name}\s*="
    )
