"""What a rule finds in a script, with the options that each finding rests on.

A value from the command line is what its option is by default. A rule reads it like any other value. Which findings
rest on which option is then measured: the rule runs again while one option is unknown, and what it no longer finds
rests on that option. An option may also choose what is read at all, such as a module to import: then the script is read
once more without it. A switch that is off by default (`--fp16`) is tried on as well: the script itself offers it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lintrain.model.finding import Finding, Related
from lintrain.pipeline import option_branches
from lintrain.pipeline.values.certainty import recorded_defaults

if TYPE_CHECKING:
    from lintrain.model.location import Location
    from lintrain.pipeline.record import Pipeline
    from lintrain.pipeline.values.certainty import Default
    from lintrain.rule import Rule

ROLE = "default"
"""The role of a related location that names an option."""
MOST_OPTIONS = 8
"""Options that one rule is asked again for; each costs another run of the rule."""


def findings(rule: Rule, pipeline: Pipeline) -> list[Finding]:
    """The findings of a rule; those that rest on the default of an option name it."""
    with recorded_defaults() as reading:
        found = list(rule.check(pipeline))
    options = [default for default in reading.defaults if default.option][:MOST_OPTIONS]
    is_chosen = bool(found and pipeline.chosen)
    return list(_with_options(rule, pipeline, found, options)) if options or is_chosen else found


def _with_options(
    rule: Rule, pipeline: Pipeline, found: Sequence[Finding], options: Sequence[Default]
) -> Iterator[Finding]:
    """The findings with the options that each rests on, and those of a switch that is passed."""
    rest: dict[tuple[Location, str], list[Default]] = {_key(finding): [] for finding in found}
    for option in options if found else ():
        with recorded_defaults(option), pipeline.apart():
            left = {_key(finding) for finding in rule.check(pipeline)}
        for key in rest.keys() - left:
            rest[key].append(option)
    for option in pipeline.chosen if found else ():
        _add_choice(rule, pipeline, option, rest)
    for finding in found:
        if not any(_is_for_another_value(pipeline, finding.location, option) for option in rest[_key(finding)]):
            yield _with_defaults(finding, rest[_key(finding)])
    yield from _with_switches(rule, pipeline, options, {finding.location for finding in found})


def _is_for_another_value(pipeline: Pipeline, location: Location, option: Default) -> bool:
    """Whether code runs only if an option has another value than its default: `elif args.method == "other":`."""
    name = option.option.strip("-=").replace("-", "_")
    if option.is_switch or option.is_file or not name or not option.text:
        return False
    values = option_branches.values_required(pipeline.source_of(location), location, name)
    return any(option.text not in possible for possible in values)


def _add_choice(
    rule: Rule, pipeline: Pipeline, option: Default, rest: dict[tuple[Location, str], list[Default]]
) -> None:
    """Add an option that chooses code to the findings that are gone where the script is read without its default."""
    concerned = [options for options in rest.values() if option not in options]
    other = pipeline.read_without(option) if concerned and pipeline.read_without is not None else None
    if other is None:
        return
    pipeline.circles.take(other.circles)
    with recorded_defaults(option):
        left = {_key(finding) for finding in rule.check(other)}
    for key, options in rest.items():
        if key not in left and option not in options:
            options.append(option)


def _key(finding: Finding) -> tuple[Location, str]:
    return finding.location, finding.message


def _with_defaults(finding: Finding, options: Sequence[Default]) -> Finding:
    if not options:
        return finding
    switches = [f"`{option.shown}`" for option in options if option.is_switch]
    files = [f"`{option.option[:-1]}`" for option in options if option.is_file]
    values = [f"`{option.shown}`" for option in options if not option.is_switch and not option.is_file]
    parts = [f"with the default{'s' if len(values) > 1 else ''} {' and '.join(values)}"] if values else []
    parts += [f"with {' and '.join(files)} as {'they are' if len(files) > 1 else 'it is'}"] if files else []
    parts += [f"without {' and '.join(switches)}"] if switches else []
    return _assuming(finding, " and ".join(parts), options)


def _with_switches(
    rule: Rule, pipeline: Pipeline, options: Sequence[Default], known: set[Location]
) -> Iterator[Finding]:
    """What a rule finds only if a switch that is off by default is passed."""
    for option in options:
        if not option.is_switch:
            continue
        with recorded_defaults(option, is_passed=True), pipeline.apart():
            found = list(rule.check(pipeline))
        for finding in found:
            if finding.location not in known:
                known.add(finding.location)
                yield _assuming(finding, f"with `{option.option}`", [option])


def _assuming(finding: Finding, assumption: str, options: Sequence[Default]) -> Finding:
    notes = tuple(
        Related(
            option.location, f"the {'settings' if option.is_file else 'default'} of `{option.option.rstrip(':')}`", ROLE
        )
        for option in options
        if option.location is not None
    )
    return replace(finding, message=f"{finding.message} ({assumption})", related=(*finding.related, *notes))
