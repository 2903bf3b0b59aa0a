"""The tokenizer of a run: the one that encoded texts, else that of the trainer or collator, else the script's only one.

A vocabulary of the script's own, if it has no tokenizer.

How long the lists of a column are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

from lintrain.evidence.run import TokenizerEvidence
from lintrain.model.location import Location
from lintrain.runtime.child.frames import caller_of, callers_frame, frame_location, is_users, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has, is_dictionary, library, loaded
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.encodings import Encodings
from lintrain.runtime.measure.model import base_model

ENCODERS = ("__call__", "encode", "batch_encode_plus", "apply_chat_template")
MOST = 8


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Remember the tokenizers that the script, or a library for it, encodes texts with, and some of the texts."""
    session.origins.texts = Encodings()
    for name in ENCODERS:
        hooks.add("transformers.tokenization_utils_base", functools.partial(_watch, session, name))


def _watch(session: ProbeSession, name: str, module: Any) -> None:
    encode = attribute(module.PreTrainedTokenizerBase, name, None)
    if encode is None:  # since transformers 5 some of them are gone
        return

    @functools.wraps(encode)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        caller = callers_frame(1)
        is_own = caller is not None and str(caller.f_globals.get("__name__", "")).startswith("lintrain.")
        if not is_own and len(session.tokenizers) < MOST:
            session.tokenizers[id(self)] = self
        if not is_own and (location := frame_location(users_frame())) is not None:
            session.origins.encodings[id(self), location] += 1
            if name == "__call__":
                _keep_texts(session, self, location, args, kwargs)
        return encode(self, *args, **kwargs)

    setattr(module.PreTrainedTokenizerBase, name, watched)


def _keep_texts(
    session: ProbeSession, tokenizer: Any, location: Location, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    try:
        session.origins.texts.add(tokenizer, location, args, kwargs)
    except Exception:  # noqa: BLE001 - the call itself raises it once more, as the script's own error
        return


def find_tokenizer(run: MeasuredRun) -> Any | None:
    """A tokenizer, or None if there is none or more than one could be meant."""
    module = loaded("transformers.tokenization_utils_base")
    if module is None:
        return None
    if len(run.session.tokenizers) == 1:
        return next(iter(run.session.tokenizers.values()))
    for owner, name in run.tokenizer_holders():
        found: Any = attribute(owner, "__dict__", {}).get(name)
        found = attribute(found, "tokenizer", found)
        if isinstance(found, module.PreTrainedTokenizerBase):
            return found
    return _of_the_script(module.PreTrainedTokenizerBase)


def _of_the_script(kind: Any) -> Any | None:
    found: dict[int, Any] = {}
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            for value in (*frame.f_locals.values(), *frame.f_globals.values()):
                if isinstance(value, kind):
                    found[id(value)] = value
        frame = caller_of(frame)
    return next(iter(found.values())) if len(found) == 1 else None


MOST_VALUES = 4_000
LEAST_TOKENS = 4


def find_vocabulary(run: MeasuredRun) -> tuple[str, list[str]] | None:
    """The name and the tokens of the script's only vocabulary with as many tokens as the model embeds; None without."""
    torch = library("torch")
    modules: list[Any] = list(run.model.modules()) if has(run.model, "modules") else []
    sizes = {module.num_embeddings for module in modules if isinstance(module, torch.nn.Embedding)}
    found: dict[tuple[str, ...], str] = {}
    for name, value in _named_values(attribute(attribute(run, "loader", None), "dataset", None)) if sizes else ():
        tokens = _tokens_in(value, sizes)
        if tokens is not None:
            found.setdefault(tuple(tokens), name)
    return next((name, list(tokens)) for tokens, name in found.items()) if len(found) == 1 else None


def _named_values(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Variables of the script's frames, the attributes of its own objects among them, and those of a data set."""
    values: list[tuple[str, Any]] = [("dataset", dataset)]
    frame = inspect.currentframe()
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            values += [*frame.f_locals.items(), *frame.f_globals.items()]
        frame = caller_of(frame)
    for name, value in values[:MOST_VALUES]:
        yield name, value
        if not inspect.ismodule(value) and not inspect.isclass(value):
            yield from ((inner, part) for inner, part in attribute(value, "__dict__", {}).items())


def _tokens_in(value: Any, sizes: set[int]) -> list[str] | None:
    """The tokens of a dictionary from tokens to ids or back, by their ids; None for anything else."""
    if not is_dictionary(value) or len(value) not in sizes or len(value) < LEAST_TOKENS:
        return None
    pairs = dict(value)
    if all(isinstance(token, str) for token in pairs):
        pairs = {number: token for token, number in pairs.items()}
    ids = range(len(pairs))
    is_whole = set(pairs) == set(ids) and all(isinstance(token, str) for token in pairs.values())
    return [pairs[number] for number in ids] if is_whole else None


def measure_tokenizer(run: MeasuredRun) -> TokenizerEvidence | None:
    """The special ids of the run's tokenizer; None if it has none, or several could be meant."""
    tokenizer = find_tokenizer(run)
    if tokenizer is None:
        return None
    ids: list[int] = tokenizer("a")["input_ids"]
    return TokenizerEvidence(
        type(tokenizer).__name__,
        str(tokenizer.name_or_path),
        len(tokenizer),
        pad_id=tokenizer.pad_token_id,
        eos_id=tokenizer.eos_token_id,
        bos_id=tokenizer.bos_token_id,
        mask_id=tokenizer.mask_token_id,
        adds_bos=len(ids) > 1 and ids[0] == tokenizer.bos_token_id,
        adds_eos=len(ids) > 1 and ids[-1] == tokenizer.eos_token_id,
        shared=_shared(run, tokenizer),
        made_ids=[*run.session.tokenizers.values()] == [tokenizer],
    )


def _shared(run: MeasuredRun, tokenizer: Any) -> float | None:
    """The share of the tokens of the model's own tokenizer that have the same id in the run's."""
    name = str(attribute(attribute(base_model(run.model), "config", None), "_name_or_path", "") or "")
    if not name or name == tokenizer.name_or_path:
        return 1.0 if name else None
    try:
        loaded: Any = library("transformers").AutoTokenizer.from_pretrained(name, local_files_only=True)
    except (OSError, ValueError, KeyError):  # not on this machine, or no tokenizer with it
        return None
    own: dict[str, int] = loaded.get_vocab()
    there: dict[str, int] = tokenizer.get_vocab()
    return sum(there.get(token) == number for token, number in own.items()) / max(len(own), 1)


MOST_BINS = 12


def quantiles(lengths: list[int]) -> tuple[int, ...]:
    """The shortest, the median, the 95th percentile and the longest."""
    ordered = sorted(lengths)
    return tuple(ordered[round(share * (len(ordered) - 1))] for share in (0.0, 0.5, 0.95, 1.0)) if ordered else ()


def binned(lengths: list[int]) -> tuple[tuple[int, int, int], ...]:
    """[first length, last length, rows] of equally wide bins, the empty ones among them too."""
    if not lengths:
        return ()
    first, last = min(lengths), max(lengths)
    width = -(-(last - first + 1) // MOST_BINS)
    rows = [0] * -(-(last - first + 1) // width)
    for length in lengths:
        rows[(length - first) // width] += 1
    return tuple((first + width * n, min(first + width * (n + 1) - 1, last), count) for n, count in enumerate(rows))
