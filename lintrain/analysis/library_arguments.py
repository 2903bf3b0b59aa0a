"""Arguments given by name to calls of libraries: where they are written, and who takes one that its call does not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from lintrain.evidence.run import Evidence
from lintrain.knowledge.api import State, keyword_state, signature
from lintrain.knowledge.versions import exactly
from lintrain.model.finding import Finding
from lintrain.model.fixes import AddArgument, Fix, RemoveArgument
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline.record import LibraryCall, Pipeline
from lintrain.pipeline.values.argument import Argument


class GivenKeyword(NamedTuple):
    """One argument by its name; `place` is where the name is written, be it in a dictionary that the call expands."""

    call: LibraryCall
    name: str
    argument: Argument
    location: Location


def given_keywords(pipeline: Pipeline) -> Iterator[GivenKeyword]:
    """Every argument that is given by its name, once; those of calls that expect errors or ask for versions are not."""
    seen = set[Location]()
    for call in pipeline.calls:
        if call.is_guarded or not call.arguments or demands_version(pipeline, call.location, call.path):
            continue
        for name, argument in call.arguments.items():
            location = argument.keyword or argument.named_at
            if location is not None and location not in seen:
                seen.add(location)
                yield GivenKeyword(call, name, argument, location)


def demands_version(pipeline: Pipeline, location: Location, path: str) -> bool:
    """Whether the file of a place says itself which versions of the library it runs with (`require_version`)."""
    package = path.partition(".")[0]
    source = pipeline.source_of(location)
    return source.says("require_version") and source.says(rf"require_version\w*\(\s*f?[\"']{package}\b")


def config_of(path: str) -> str:
    """The class that holds the settings of a trainer (`trl.SFTConfig` for `trl.SFTTrainer`); empty for other calls."""
    package, _, name = path.partition(".")
    if not name.endswith("Trainer"):
        return ""
    return f"{path}ingArguments" if package in ("transformers", "setfit") else f"{path.removesuffix('Trainer')}Config"


def takes_by_name(pipeline: Pipeline, path: str, name: str) -> bool:
    """Whether a call certainly has a parameter of that name, rather than one that takes everything."""
    known = signature(path, pipeline.targets)
    return known is not None and known.parameter(name) is not None


def taker_of(pipeline: Pipeline, given: GivenKeyword, path: str, name: str) -> LibraryCall | None:
    """The one call of `path` that could have been given a literal argument in the stead of the call that was."""
    calls = [call for call in pipeline.calls if call.path == path]
    is_written = given.argument.keyword is not None and _is_literal(given.argument.text)
    if len(calls) != 1 or not is_written or calls[0].is_open or calls[0].is_guarded or name in calls[0].arguments:
        return None
    before, after = calls[0].location, given.call.location
    same = before.path == after.path and before.end_line < after.line and calls[0].is_certain and given.call.is_certain
    return calls[0] if same and _goes_into(calls[0], given.call) else None


def moving(finding: Finding, name: str, new_name: str, value: str) -> Fix | None:
    """The fix that takes a keyword from the finding's call and gives it to the call that is its `taker`."""
    calls, takers = finding.with_role("call"), finding.with_role("taker")
    if not calls or not takers:
        return None
    edits = (RemoveArgument(calls[0].location, name), AddArgument(takers[0].location, new_name, value))
    return Fix.of(f"give `{new_name}` to the configuration", *edits, safe=True)


def verdict_on_keyword(finding: Finding, evidence: Evidence, *states: State) -> Verdict:
    """Whether the installed version takes the keyword of a finding; `states` are those in which the finding is true."""
    name, path = str(finding.facts.get("argument")), str(finding.facts.get("callable"))
    package = path.partition(".")[0]
    version = evidence.versions.get(package, "")
    if evidence.failed_with(f"unexpected keyword argument '{name}'") is not None:
        return Verdict.confirmed(f"{package} {version} raises TypeError on `{name}`", version=version)
    if evidence.ran(finding.location) or (
        evidence.call is not None and not _is_behind(finding.location, evidence.call)
    ):
        if finding.facts.get("is_certain"):
            return Verdict.refuted(f"{package} {version} took the call", version=version)
        return Verdict.inconclusive(f"nothing shows that {package} {version} was called with `{name}`")
    if version and keyword_state(path, name, exactly(**{package: version})).state in states:
        return Verdict.confirmed(f"`{path}` of {package} {version} has no `{name}`", version=version)
    return Verdict.inconclusive(f"whether {package} {version} takes `{name}` was not seen")


def _is_behind(location: Location, call: Location) -> bool:
    """Whether a place comes after the training call, where a probe ends: a notebook may train more than once."""
    return location.path == call.path and location.line > call.end_line


def _goes_into(config: LibraryCall, trainer: LibraryCall) -> bool:
    """Whether what a call made is given to another one, as far as that is told by name."""
    given = trainer.arguments.get("args")
    return given is not None and given.value.origin == config.location


def _is_literal(code: str) -> bool:
    try:
        ast.literal_eval(code)
    except (ValueError, SyntaxError):
        return False
    return True
