"""The sample rates of audio: at which it is loaded or resampled, and at which features are computed of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OF_TORCHAUDIO = frozenset({"MelSpectrogram", "MFCC", "LFCC", "MelScale"})
"""Transforms of torchaudio that place the bands of their filters by `sample_rate`."""

OF_LIBROSA = frozenset({"melspectrogram", "mfcc", "chroma_stft", "spectral_centroid", "spectral_contrast"})
"""Functions of librosa whose `sr` is 22,050 unless it is given."""

TORCHAUDIO_RATE, LIBROSA_RATE = 16000, 22050
"""The defaults of torchaudio's transforms, and of `librosa.load` and librosa's features."""

LIBRARIES = r"\b(?:torchaudio|librosa|sampling_rate)\b"


@dataclass(frozen=True, slots=True)
class RateMismatch:
    """A rate that is not that of the audio: where, what is wrong, what to write, and where the audio gets its rate."""

    location: Location
    problem: str
    remedy: str
    given: Location


def rate_mismatches(source: Source) -> list[RateMismatch]:
    """The mismatches of a file whose audio has one rate, as far as the file says it."""
    return source.cached(_rate_mismatches)


def _rate_mismatches(source: Source) -> list[RateMismatch]:
    if not source.contains(LIBRARIES):
        return []
    found, rates = list(_swapped(source)), list(_rates(source))
    if found or not rates:
        return found
    unused = _unused_functions(source)
    for call in source.nodes_of(ast.Call):
        own = _function_around(unused, source.location(call))
        near = {None, own, *_functions_with(source, unused, call)}
        reached = [each for each in rates if _function_around(unused, each[1]) in near]
        if len({rate for rate, _ in reached}) == 1 and reached[0][0]:
            found += _of_features(source, call, *reached[0])
    return found


def _unused_functions(source: Source) -> list[Location]:
    """The functions at module level that no other code of the file names: their audio is not that of the others."""
    functions = [node for node in source.tree.body if isinstance(node, ast.FunctionDef)]
    named = {node.id for node in source.nodes_of(ast.Name)}
    return [source.location(node) for node in functions if node.name not in named]


def _functions_with(source: Source, functions: list[Location], call: ast.Call) -> Iterator[Location]:
    """Of these functions, those that use what a statement of the module makes by a call."""
    if not functions:
        return
    made = {
        target.id
        for node in source.tree.body
        if isinstance(node, ast.Assign) and source.location(node).holds(source.location(call))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    used = [source.location(node) for node in source.nodes_of(ast.Name) if node.id in made] if made else []
    yield from (each for each in functions if any(each.holds(location) for location in used))


def _function_around(functions: list[Location], location: Location) -> Location | None:
    return next((each for each in functions if each.holds(location)), None)


def _loaded_rates(source: Source) -> set[str]:
    """The names of rates that files have: `wave, rate = torchaudio.load(path)`."""
    found = set[str]()
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[_, ast.Name(id=rate)])], value=ast.Call(func=called)) if unparse(
                called
            ) in {"torchaudio.load", "librosa.load", "sf.read", "soundfile.read", "wavfile.read"}:
                found.add(rate)
            case _:
                pass
    return found


def _swapped(source: Source) -> Iterator[RateMismatch]:
    """Resampling from a fixed rate to that of the file."""
    files = _loaded_rates(source)
    for call in source.nodes_of(ast.Call) if files else ():
        old, new = _resampling(call)
        is_swapped = isinstance(new, ast.Name) and new.id in files and old is not None and _number(source, old)
        if is_swapped and new is not None and old is not None:
            yield RateMismatch(
                source.location(call),
                f"this resamples from {_number(source, old)} Hz to the rate of the file",
                f"exchange them: from `{unparse(new)}` to `{unparse(old)}`",
                source.location(new),
            )


def _resampling(call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """The old and the new rate of a call that resamples; None twice for other calls."""
    name = last_name(call.func)
    given = {each.arg: each.value for each in call.keywords}
    if name not in {"resample", "Resample"}:
        return None, None
    positional = call.args if name == "Resample" else call.args[1:]
    old = given.get("orig_freq", given.get("orig_sr", positional[0] if positional else None))
    new = given.get("new_freq", given.get("target_sr", positional[1] if len(positional) > 1 else None))
    return old, new


def _number(source: Source, node: ast.expr | None) -> int:
    """A rate that is a number, or a name that is one from start to end; 0 for others."""
    match node:
        case ast.Constant(value=int() as rate):
            return rate
        case ast.Name(id=name):
            given = [
                each.value
                for each in source.nodes_of(ast.Assign)
                if any(isinstance(target, ast.Name) and target.id == name for target in each.targets)
            ]
            value = given[0] if len(given) == 1 else None
            is_number = isinstance(value, ast.Constant) and isinstance(value.value, int)
            return value.value if is_number and isinstance(value, ast.Constant) and isinstance(value.value, int) else 0
        case _:
            return 0


def _rates(source: Source) -> Iterator[tuple[int, Location]]:
    """The rates that audio is brought to, 0 where one is not known."""
    for call in source.nodes_of(ast.Call):
        given = {each.arg: each.value for each in call.keywords}
        _, new = _resampling(call)
        if new is not None:
            yield _number(source, new), source.location(call)
        elif unparse(call.func) == "librosa.load":
            asked = given.get("sr", call.args[1] if len(call.args) > 1 else None)
            yield (_number(source, asked) if asked is not None else LIBROSA_RATE), source.location(call)
        elif last_name(call.func) == "Audio" and "sampling_rate" in given:
            yield _number(source, given["sampling_rate"]), source.location(call)


def _of_features(source: Source, call: ast.Call, rate: int, given: Location) -> Iterator[RateMismatch]:
    """A call that computes features for another rate than that of the audio."""
    named = {each.arg: each.value for each in call.keywords}
    name = last_name(call.func) or ""
    if None in named:
        return
    if name in OF_TORCHAUDIO and source.contains("torchaudio"):
        asked = named.get("sample_rate", call.args[0] if call.args and name != "MelScale" else None)
        assumed = _number(source, asked) if asked is not None else TORCHAUDIO_RATE
        remedy = f"pass `sample_rate={rate}`"
    elif name in OF_LIBROSA and unparse(call.func).startswith("librosa."):
        asked = named.get("sr")
        assumed = _number(source, asked) if asked is not None else LIBROSA_RATE
        remedy = f"pass `sr={rate}`"
    elif "sampling_rate" in named and name != "Audio":
        asked = named["sampling_rate"]
        assumed, remedy = _number(source, asked), f"resample the audio to {_number(source, asked)} Hz"
    else:
        return
    if assumed and assumed != rate:
        how = "is given" if asked is not None else "assumes"
        yield RateMismatch(
            source.location(call), f"`{name[:24]}` {how} {assumed} Hz, but the audio has {rate} Hz", remedy, given
        )


RESAMPLES = lazy_pattern(r"\bAudio\(|resample|librosa|torchaudio|soundfile|target_sr")
"""What gives recordings another rate, or reads them with one."""

MAKES_FEATURES = lazy_pattern(r"(?i)extractor|processor")


def arrays_without_rate(source: Source) -> Iterator[Location]:
    """The calls of feature extractors that get the samples of a row of `datasets`, and not their rate."""
    if source.contains(RESAMPLES):
        return
    for call in source.nodes_of(ast.Call):
        if _passes_array(call) and MAKES_FEATURES.search(unparse(call.func)):
            yield source.location(call)


def _passes_array(call: ast.Call) -> bool:
    """Whether a call gets the samples of `datasets` first, and no rate."""
    named = {each.arg for each in call.keywords}
    if not call.args or named & {"sampling_rate", None} or len(call.args) > 1:
        return False
    first = call.args[0].elt if isinstance(call.args[0], ast.ListComp) else call.args[0]
    return isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Constant) and first.slice.value == "array"
