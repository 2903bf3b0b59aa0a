"""Keyword arguments of library calls: where they are written, and which other call accepts a misplaced one."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from lintrain.knowledge.api import State, keyword_state, signature
from lintrain.knowledge.renames import takes_calls
from lintrain.knowledge.tables import callable_names, holds_keys
from lintrain.knowledge.target import Target
from lintrain.knowledge.trainers import is_training_arguments
from lintrain.knowledge.versions import exactly
from lintrain.model.finding import Finding
from lintrain.model.fixes import AddArgument, Fix, RemoveArgument
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.pipeline.record import LibraryCall, Pipeline
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.python import is_missing
from lintrain.source.configuration import Configuration
from lintrain.source.project_search import scripts_mention, scripts_read
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence


ASKS = "require_version|compare_version|RequirementCache"
"""Functions that compare the version of a library with the one that code is for."""

LEGACY_KERAS = r"\btf_keras\b|TF_USE_LEGACY_KERAS|\btensorflow\.python\.keras\b"
"""What asks TensorFlow for Keras 2, whatever version it has."""


UNSLOTH = r"\b(?:import|from)\s+unsloth\b"
"""What makes the trainers of trl take the arguments of all their releases."""
OF_UNSLOTH = frozenset({"max_seq_length", "unsloth_num_chunks", "vllm_sampling_params"})  # it adds them to all settings


@dataclass(frozen=True, slots=True)
class KeywordClaim:
    """A keyword argument that a library's callable does not accept; `is_certain` if every run makes the call."""

    callable: str
    argument: str
    is_certain: bool = False


class KeywordArgument(NamedTuple):
    """One keyword argument; `location` is where its name is written, which may be a dictionary that `**` expands."""

    call: LibraryCall
    name: str
    argument: Argument
    location: Location


def keyword_arguments(pipeline: Pipeline) -> Iterator[KeywordArgument]:
    """Every keyword argument, once; without those of calls in a `try` or in code that checks the version."""
    if isinstance(pipeline.source, Configuration):
        yield from _keys(pipeline)
        return
    seen = set[Location]()
    for call in pipeline.calls:
        if call.is_guarded or not call.arguments or requires_version(pipeline, call.location, call.path):
            continue
        known = OF_UNSLOTH if call.path[:4] == "trl." and pipeline.source_of(call.location).contains(UNSLOTH) else ()
        for name, argument in call.arguments.items():
            location = argument.keyword or argument.named_at
            if location is not None and location not in seen and name not in known:
                seen.add(location)
                yield KeywordArgument(call, name, argument, location)


def why_about_keys(pipeline: Pipeline) -> str:
    """What becomes of a key that its tool does not have; empty for calls of a script."""
    is_file = isinstance(pipeline.source, Configuration)
    return "The tool refuses the file, or it ignores the key, and the setting has no effect." if is_file else ""


def _keys(pipeline: Pipeline) -> Iterator[KeywordArgument]:
    """The keys of a configuration that nothing takes which it is passed to, each with the call to judge it by.

    Several calls may get all keys: one class of a tool takes these, another one those.
    """
    takers: dict[Location, list[KeywordArgument]] = {}
    for call in pipeline.calls:
        for name, argument in call.arguments.items():
            if argument.keyword is not None:
                taker = KeywordArgument(call, name, argument, argument.keyword)
                takers.setdefault(argument.keyword, []).append(taker)
    for keys in takers.values():
        if (judged := _judged_by(keys, pipeline)) is not None:
            yield judged


def written_twice(pipeline: Pipeline) -> Iterator[tuple[str, Location, Location]]:
    """The keys that a section of a configuration sets to two values, with the first and the last location."""
    source = pipeline.source
    for section in source.sections if isinstance(source, Configuration) else ():
        own = [entry for entry in section.entries if entry.is_own]
        for key in dict.fromkeys(entry.key for entry in own):
            entries = [entry for entry in own if entry.key == key]
            if len({source.code(entry.value.location) for entry in entries}) > 1:
                yield key, entries[0].location, entries[-1].location


def _judged_by(keys: list[KeywordArgument], pipeline: Pipeline) -> KeywordArgument | None:
    owners = [key for key in keys if holds_keys(key.call.path)]
    states = [(key, keyword_state(key.call.path, key.name, pipeline.targets).state) for key in owners or keys]
    if keys[0].name.startswith("_") or any(state == "present" for _, state in states):
        return None
    # The class of the library comes before the tool that passes keys on to it: its successors are known.
    gone = [key for key, state in states if state == "gone"]
    gone = [*(key for key in keys if gone and key not in owners and _is_gone(key, pipeline)), *gone]
    # A file of the project's own script has keys of its own: only a misspelt one is certain there.
    # A key without a value has no effect either way.
    never = [key for key, state in states if state == "never" and not is_missing(key.argument.value)]
    misspelt = [key for key in never if not takes_others(key.call) or is_misspelt(key, pipeline)]
    misspelt += [key for key in never if not misspelt and has_no_reader(key, pipeline)]
    later = [key for key, state in states if state == "not_yet"]
    judged = next(iter([*gone, *later, *misspelt]), None)
    # A script that names the key takes it from the file, and decides itself what it passes on.
    is_taken = judged is not None and not owners and scripts_read(pipeline.source.path, judged.name)
    return None if is_taken else judged


def _is_gone(key: KeywordArgument, pipeline: Pipeline) -> bool:
    return keyword_state(key.call.path, key.name, pipeline.targets).state == "gone"


LEAST_ALIKE, MOST_LETTERS = 0.9, 2

SCRIPTS_OWN = frozenset({"trl.ScriptArguments", "trl.ModelConfig", "accelerate.config.deepspeed_config"})
"""Classes that a script fills from one file together with its own, and sections that keys of others do no harm in."""


def takes_others(call: LibraryCall) -> bool:
    """Whether a file may have more keys than the call accepts: those of the script's own classes."""
    return call.is_open or call.path in SCRIPTS_OWN or is_training_arguments(call.path)


def is_misspelt(key: KeywordArgument, pipeline: Pipeline) -> bool:
    """Whether a key differs from a name that the call accepts, and that the file does not have, in a letter or two."""
    from difflib import get_close_matches

    if f"${{{key.name}}}" in pipeline.source.text:
        return False  # other keys of the file take its value
    known = signature(key.call.path, pipeline.targets)
    names = [each.name for each in known.parameters if each.name not in key.call.arguments] if known else []
    near = get_close_matches(key.name, names, n=1, cutoff=LEAST_ALIKE)
    return bool(near) and abs(len(near[0]) - len(key.name)) <= MOST_LETTERS


OTHER_NAMES = {
    "lr": "learning_rate",
    "epochs": "num_train_epochs",
    "max_epochs": "num_train_epochs",
    "batch_size": "per_device_train_batch_size",
    "micro_batch_size": "per_device_train_batch_size",
    "sequence_len": "max_length",
    "cutoff_len": "max_length",
    "lr_scheduler": "lr_scheduler_type",
    "optimizer": "optim",
    "grad_accum_steps": "gradient_accumulation_steps",
}
"""What other tools call training arguments."""


def other_name(key: KeywordArgument, pipeline: Pipeline) -> str:
    """The name that a call accepts for what other tools call so, or that has all words of a key; empty if none."""
    known = signature(key.call.path, pipeline.targets)
    names = [each.name for each in known.parameters if each.name not in key.call.arguments] if known else []
    if (usual := OTHER_NAMES.get(key.name)) in names:
        return usual or ""
    words = set(key.name.split("_"))
    longer = [name for name in names if len(words) > 1 and words < set(name.split("_"))]
    return next((name for name in longer if "train" in name), longer[0] if len(longer) == 1 else "")


def has_no_reader(key: KeywordArgument, pipeline: Pipeline) -> bool:
    """Whether a key is another name of an argument, and no script of the project contains it."""
    is_meant = is_training_arguments(key.call.path) and bool(other_name(key, pipeline))
    is_tree = "${" in pipeline.source.text  # keys of a tree are read by other files
    return is_meant and not is_tree and not scripts_mention(pipeline.source.path, key.name)


def is_guessed(path: str, names: Collection[str], pipeline: Pipeline) -> bool:
    """Whether a file was read as one class of TRL's settings, and another one accepts more of its keys."""
    if not isinstance(pipeline.source, Configuration) or not path.startswith("trl."):
        return False
    others = [each for each in callable_names("trl") if each.endswith("Config") and is_training_arguments(each)]
    own = _accepted(path, names, pipeline)
    return any(_accepted(each, names, pipeline) > own for each in others)


def _accepted(path: str, names: Collection[str], pipeline: Pipeline) -> int:
    return sum(keyword_state(path, name, pipeline.targets).state == "present" for name in names)


WITHOUT_ARGUMENTS = {
    "torch.seed": "`torch.manual_seed` sets a seed",
    "torch.initial_seed": "`torch.manual_seed` sets a seed",
    "torch.cuda.seed": "`torch.cuda.manual_seed` sets a seed",
    "torch.cuda.seed_all": "`torch.cuda.manual_seed_all` sets a seed",
    "torch.cuda.initial_seed": "`torch.cuda.manual_seed` sets a seed",
}
"""Functions outside the tables that accept no argument in any version, with what accepts one."""


class Surplus(NamedTuple):
    """A call with more positional arguments than its library accepts, how many those are, and what to call instead."""

    call: LibraryCall
    accepted: int
    advice: str


def surplus_arguments(pipeline: Pipeline) -> Iterator[Surplus]:
    """The calls with too many positional arguments, each once; without those in code that checks the version."""
    seen = set[Location]()
    for call in pipeline.calls:
        if not call.positional or call.is_guarded or call.is_open or call.location in seen:
            continue
        accepted = _accepted_by_position(pipeline, call)
        if accepted is not None and call.positional > accepted:
            seen.add(call.location)
            is_sketch = "..." in pipeline.code(call.location)  # `torch.compile(model, ...)` in a text that explains
            if not is_sketch and not requires_version(pipeline, call.location, call.path):
                yield Surplus(call, accepted, WITHOUT_ARGUMENTS.get(call.path, "pass the others by name"))


class LeftOut(NamedTuple):
    """A call of a function or class of a library without some of the arguments that it needs."""

    call: LibraryCall
    names: tuple[str, ...]


def left_out_arguments(pipeline: Pipeline) -> Iterator[LeftOut]:
    """The calls that lack an argument, each once, but for those in tests and in code that checks the version."""
    seen = set[Location]()
    for call in () if isinstance(pipeline.source, Configuration) else pipeline.calls:
        if call.is_guarded or call.is_open or call.location in seen:
            continue
        names = _left_out_of(pipeline, call)
        if names:
            seen.add(call.location)
            source = pipeline.source_of(call.location)
            is_sketch = "..." in pipeline.code(call.location) or source.holds_unit_tests
            if not is_sketch and not requires_version(pipeline, call.location, call.path):
                yield LeftOut(call, names)


def _left_out_of(pipeline: Pipeline, call: LibraryCall) -> tuple[str, ...]:
    """The parameters without a default that a call gives neither by position nor by name, nor by an older name."""
    # A method that is called on its class gets the object first.
    is_method = call.path.rpartition(".")[0].rpartition(".")[2][:1].isupper()
    known = None if is_method else signature(call.path, pipeline.targets)
    # A class that is read from its source lists those of its base first, whatever their positions.
    is_mixed = call.positional > 0 and pipeline.targets.get(call.path.partition(".")[0]) is None
    if is_mixed or known is None or known.accepts_any_position or known.positional[:1] == ("self",):
        return ()  # `self`: a function that classes take for a method, `save_state(self)`
    given = {*known.positional[: call.positional], *call.arguments}
    given.update(each.stands_for for each in known.parameters if each.name in call.arguments and each.stands_for)
    # A name that this version does not take may be an older one of what is missing, and is reported itself.
    is_clear = all(known.takes(name) for name in call.arguments)
    return tuple(each.name for each in known.parameters if is_clear and each.default is None and each.name not in given)


def _accepted_by_position(pipeline: Pipeline, call: LibraryCall) -> int | None:
    """How many positional arguments a call accepts; None if that is not known, or any number."""
    if call.path in WITHOUT_ARGUMENTS:
        return 0
    known = signature(call.path, pipeline.targets)
    return None if known is None or known.accepts_any_position else len(known.positional)


def requires_version(pipeline: Pipeline, location: Location, path: str) -> bool:
    """Whether a file compares the version of the library itself (`require_version`), or has another module patch it."""
    package = path.partition(".")[0]
    source = pipeline.source_of(location)
    if package == "keras" and source.contains(LEGACY_KERAS):
        return True
    if package == "trl" and path.endswith("Trainer") and source.contains(UNSLOTH):
        return True
    return source.contains(ASKS) and source.contains(rf"(?:{ASKS})\w*\(\s*f?[\"']{package}\b")


def config_of(path: str) -> str:
    """The configuration class of a trainer (`trl.SFTConfig` for `trl.SFTTrainer`); empty for other calls."""
    package, _, name = path.partition(".")
    if not name.endswith("Trainer"):
        return ""
    return f"{path}ingArguments" if package in ("transformers", "setfit") else f"{path.removesuffix('Trainer')}Config"


def accepts_keyword(pipeline: Pipeline, path: str, name: str) -> bool:
    """Whether a callable has a parameter of that name; `**kwargs` does not count."""
    known = signature(path, pipeline.targets)
    return known is not None and known.parameter(name) is not None


def accepting_call(pipeline: Pipeline, keyword: KeywordArgument, path: str, name: str) -> LibraryCall | None:
    """The only call of `path`, if a literal argument of another call can move there."""
    calls = [call for call in pipeline.calls if call.path == path]
    is_written = keyword.argument.keyword is not None and _is_literal(keyword.argument.text)
    if len(calls) != 1 or not is_written or calls[0].is_open or calls[0].is_guarded or name in calls[0].arguments:
        return None
    before, after = calls[0].location, keyword.call.location
    same = (
        before.path == after.path and before.end_line < after.line and calls[0].is_certain and keyword.call.is_certain
    )
    return calls[0] if same and _goes_into(calls[0], keyword.call) else None


def accepts_calls_of(pipeline: Pipeline, callees: Collection[Location], old: str, new: str) -> bool:
    """Whether `new` accepts the arguments of the calls of `old` whose callees are at these locations of one file."""
    source = pipeline.source_of(next(iter(callees)))
    calls = [node for node in source.nodes_of(ast.Call) if source.location(node.func) in callees]
    return takes_calls(old, new, calls, pipeline.targets)


def moved_argument(finding: Finding[Any], name: str, new_name: str, value: str) -> Fix | None:
    """The fix that moves a keyword argument from the finding's `call` to its `taker`."""
    calls, takers = finding.with_role("call"), finding.with_role("taker")
    if not calls or not takers:
        return None
    edits = (RemoveArgument(calls[0].location, name), AddArgument(takers[0].location, new_name, value))
    return Fix.of(f"pass `{new_name}` to the configuration", *edits, safe=finding.level is Level.ERROR)


def level_for(target: Target | None) -> Level:
    """The level of what a version refuses: a warning where nothing states a version and the newest is assumed."""
    return Level.WARNING if target is not None and target.is_assumed else Level.ERROR


def verdict_on_keyword(finding: Finding[Any], evidence: Evidence, *states: State) -> Verdict:
    """Whether the installed version accepts the keyword of a finding, which is true in one of the `states`."""
    claim: object = finding.claim
    if not isinstance(claim, KeywordClaim):
        return Verdict.inconclusive("the finding names no argument")
    name, path = claim.argument, claim.callable
    package = path.partition(".")[0]
    version = evidence.versions.get(package, "")
    left_out = f"{path.rpartition('.')[2]}({name}=)"  # with `--stand-ins` the run goes on without it
    is_left_out = any(each.name == left_out for each in evidence.stand_ins)
    if is_left_out or evidence.failed_with(f"unexpected keyword argument '{name}'") is not None:
        return Verdict.confirmed(f"{package} {version} raises TypeError on `{name}`", version=version)
    is_passed = evidence.call is not None and not _is_after(finding.location, evidence.call)
    if evidence.ran(finding.location) or is_passed:
        if claim.is_certain:
            return Verdict.refuted(f"{package} {version} accepted the call", version=version)
        return Verdict.inconclusive(f"this line may not have run, so {package} {version} did not check `{name}`")
    if version and keyword_state(path, name, exactly(**{package: version})).state in states:
        return Verdict.confirmed(f"`{path}` of {package} {version} has no `{name}`", version=version)
    return Verdict.inconclusive(f"the run did not show whether {package} {version} accepts `{name}`")


REFUSED = lazy_pattern(r"(\w+?)(?:\.__init__)?\(\) got an unexpected keyword argument '(\w+)'")


def refused_keyword(evidence: Evidence, *states: State) -> tuple[Location, KeywordClaim] | None:
    """The call that ended a run because of a keyword, if that is in one of the `states` for the installed version."""
    failure = evidence.failure
    found = REFUSED.search(failure.message) if failure is not None and failure.type == "TypeError" else None
    if failure is None or failure.location is None or found is None:
        return None
    for package, version in evidence.versions.items():
        path, name = f"{package}.{found[1]}", found[2]
        if version and package in COVERED and keyword_state(path, name, exactly(**{package: version})).state in states:
            return failure.location, KeywordClaim(path, name, is_certain=True)
    return None


COVERED = frozenset({"transformers", "trl", "peft", "accelerate", "datasets", "lightning", "keras", "torch"})
"""Packages whose classes are named in such an error."""


def _is_after(location: Location, call: Location) -> bool:
    """Whether a location is after the training call, where a probe ends: a notebook may train more than once."""
    return location.path == call.path and location.line > call.end_line


def _goes_into(config: LibraryCall, trainer: LibraryCall) -> bool:
    """Whether the configuration that a call makes is the `args` of the trainer."""
    given = trainer.arguments.get("args")
    return given is not None and given.value.origin == config.location


def _is_literal(code: str) -> bool:
    try:
        ast.literal_eval(code)
    except (ValueError, SyntaxError):
        return False
    return True
