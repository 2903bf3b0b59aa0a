"""Where the script makes what its training uses: models, tokenizers, collators and settings; and the results that it
drops.

A finding of a run is shown at that line: a model is corrected where it is made, not where it trains.
"""

from __future__ import annotations

import dis
import functools
import sys
from types import FrameType
from typing import Any, cast

from lintrain.evidence.run import DroppedResult
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_called_from, is_users, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.model import (
    MISSPELT,
    RESIZED_AT,
    ROWS_BEFORE,
    base_model,
    embedding_rows,
    idle_freeze,
)
from lintrain.runtime.measure.objects.objects import Origins
from lintrain.runtime.measure.objects.statements import assignment_to, last_freeze

CUTTING = frozenset({"select", "take"})
PURE = (
    "cast",
    "cast_column",
    "filter",
    "map",
    "remove_columns",
    "rename_column",
    "rename_columns",
    "select",
    "select_columns",
    "shuffle",
    "sort",
    "take",
    "with_format",
    "with_transform",
)
"""Methods of a data set that return another one and leave it as it was."""
CACHED = frozenset({"filter", "map"})

MONITORS = {
    "transformers.trainer_callback": "EarlyStopping",
    "lightning.pytorch.callbacks.early_stopping": "EarlyStopping",
    "lightning.pytorch.callbacks.model_checkpoint": "ModelCheckpoint",
    "pytorch_lightning.callbacks.early_stopping": "EarlyStopping",
    "pytorch_lightning.callbacks.model_checkpoint": "ModelCheckpoint",
}
"""Modules with the callbacks that stop a training or keep its best weights, by a number that they watch."""


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Watch the constructors of the libraries' classes, and the methods that return another data set."""
    origins = session.origins
    hooks.add("torch.nn.modules.module", lambda module: _note_made(origins, module.Module, is_known=_is_own))
    hooks.add("torch.nn.modules.module", lambda module: _note_casts(module.Module))
    hooks.add("transformers.modeling_utils", lambda module: _note_made(origins, module.PreTrainedModel))
    hooks.add("transformers.modeling_utils", lambda module: _note_resizing(module.PreTrainedModel))
    hooks.add("transformers.tokenization_utils_base", lambda module: _note_tokens(module.PreTrainedTokenizerBase))
    hooks.add(
        "transformers.tokenization_utils_base", lambda module: _note_made(origins, module.PreTrainedTokenizerBase)
    )
    hooks.add("transformers.data.data_collator", functools.partial(_note_classes, origins, "Collator"))
    for module, word in MONITORS.items():
        hooks.add(module, functools.partial(_note_classes, origins, word))
    hooks.add("peft.peft_model", lambda module: _note_made(origins, module.PeftModel))
    hooks.add("peft.tuners.lora.config", lambda module: _note_adapter(origins, module.LoraConfig))
    dropped: dict[DroppedResult, None] = {}
    session.objects.add("dropped", lambda _: list(dropped))
    hooks.add("datasets.arrow_dataset", lambda module: _watch_results(dropped, module.Dataset))
    hooks.add("datasets.dataset_dict", lambda module: _watch_results(dropped, module.DatasetDict))
    hooks.add("datasets.iterable_dataset", lambda module: _watch_results(dropped, module.IterableDataset))


def _note_tokens(kind: Any) -> None:
    add = kind.add_tokens

    @functools.wraps(add)
    def add_tokens(self: Any, *args: Any, **kwargs: Any) -> Any:
        added = add(self, *args, **kwargs)
        is_asked = added and not any(is_called_from(each) for each in (kind.__init__, kind.from_pretrained))
        location = frame_location(users_frame(skip=self)) if is_asked else None
        if location is not None:
            self.__dict__.setdefault(ADDED_AT, location)
        return added

    kind.add_tokens = add_tokens


ADDED_AT = "lintrain_added_at"
"""The attribute of a tokenizer with the location at which the script first adds tokens to it."""


def _note_resizing(kind: Any) -> None:
    resize = kind.resize_token_embeddings

    @functools.wraps(resize)
    def resize_token_embeddings(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = embedding_rows(self)
        result = resize(self, *args, **kwargs)
        if (after := embedding_rows(self)) is not None and before is not None and after > before:
            self.__dict__.setdefault(ROWS_BEFORE, before)
            self.__dict__.setdefault(RESIZED_AT, frame_location(users_frame(skip=self)))
        return result

    kind.resize_token_embeddings = resize_token_embeddings


CASTS = ("half", "bfloat16", "to", "type")
CAST_AT = "lintrain_cast_at"
"""The attribute of a module with the location at which the script gave its weights another format."""


def _note_casts(kind: Any) -> None:
    for name in CASTS:
        setattr(kind, name, _watched_cast(getattr(kind, name)))


def _watched_cast(cast: Any) -> Any:
    @functools.wraps(cast)
    def casts(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = _format_of(self)
        result = cast(self, *args, **kwargs)
        location = frame_location(users_frame(skip=self)) if _format_of(self) != before else None
        if location is not None:
            self.__dict__[CAST_AT] = location
        return result

    return casts


def _format_of(module: Any) -> Any:
    """The dtype of the first weight of a module."""
    return attribute(next(iter(module.parameters()), None), "dtype", None)


def _note_adapter(origins: Origins, kind: Any) -> None:
    build = kind.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        origins.adapter = frame_location(users_frame(skip=self)) or origins.adapter
        build(self, *args, **kwargs)

    kind.__init__ = init


def _note_classes(origins: Origins, word: str, module: Any) -> None:
    """Those of a module with a word in their names."""
    for name, kind in list(module.__dict__.items()):
        if word in name and isinstance(kind, type) and "__init__" in vars(kind):
            _note_made(origins, kind)


def _note_made(origins: Origins, kind: Any, is_known: Any = None) -> None:
    build = kind.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        if is_known is None or is_known(type(self)):
            origins.note(self)

    kind.__init__ = init


@functools.cache
def _is_own(kind: type) -> bool:
    """Whether a class is the script's: a library makes its layers by the thousand, and no rule asks for them."""
    path = attribute(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "__main__" or (isinstance(path, str) and is_users(path))


def _watch_results(dropped: dict[DroppedResult, None], kind: Any) -> None:
    for name in PURE:
        if name in vars(kind):
            setattr(kind, name, _watched(dropped, name, getattr(kind, name)))


def _watched(dropped: dict[DroppedResult, None], name: str, method: Any) -> Any:
    @functools.wraps(method)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = method(self, *args, **kwargs)
        frame = _caller()
        location = frame_location(frame) if frame is not None and is_users(frame.f_code.co_filename) else None
        if frame is not None and location is not None and _drops_result(frame):
            columns = tuple(sorted(_columns(self)))
            is_cached = name in CACHED and not has(self, "n_shards")  # which streams have
            dropped[DroppedResult(location, name, _added(self, result), columns, is_cached)] = None
        cut_at = location if name in CUTTING and location is not None else attribute(self, "lintrain_cut", None)
        if cut_at is not None and has(result, "__dict__"):
            result.__dict__["lintrain_cut"] = cut_at  # the results of further methods inherit it
        return result

    return watched


WATCHERS = frozenset({__name__, "lintrain.runtime.child.quick_datasets", "lintrain.runtime.child.label_rows"})
"""Modules that stand between a script and the methods of its data sets, with functions called as below."""
PASSING_ON = frozenset({"guarded", "map", "map_rows", "watched"})


def _caller() -> FrameType | None:
    """The frame that calls a watched method, past other watchers of the same method."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage] - as `inspect` does
    while frame is not None and frame.f_globals.get("__name__") in WATCHERS and frame.f_code.co_name in PASSING_ON:
        frame = frame.f_back  # type: ignore[assignment]
    return frame


def _drops_result(frame: FrameType) -> bool:
    """Whether the next thing that a frame does is to throw away what its call returns."""
    code, following = frame.f_code.co_code, frame.f_lasti + 2
    while following < len(code) and code[following] == 0:  # the cache entries of a call, since Python 3.11
        following += 2
    return following < len(code) and code[following] == dis.opmap["POP_TOP"]


def _added(before: Any, after: Any) -> tuple[str, ...]:
    """The columns that a result has and its origin had not."""
    return tuple(sorted(_columns(after) - _columns(before)))


def _columns(rows: Any) -> set[str]:
    names: Any = attribute(rows, "column_names", None) or []
    # One list for each split of a dictionary.
    every: list[Any] = list(cast("dict[str, Any]", names).values()) if isinstance(names, dict) else [names]
    return {str(name) for part in every for name in part}


def locations_of(origins: Origins, model: Any, tokenizer: Any, **others: object) -> dict[str, Location]:
    """The locations that evidence has of every run: of its objects, and of what was done with them."""
    known = {
        **origins.locations(model=base_model(model), tokenizer=tokenizer, **others),
        **origins.encoding_of(tokenizer),
    }
    frozen = idle_freeze(model)
    shown_by_text = {
        "freeze": None if frozen is None else assignment_to(frozen.rpartition(".")[2], "requires_grad", *MISSPELT),
        "padding": assignment_to("", "pad_token", "pad_token_id") if _pads_with_eos(tokenizer) else None,
        "cast": attribute(base_model(model), "__dict__", {}).get(CAST_AT),
        "resizing": attribute(base_model(model), "__dict__", {}).get(RESIZED_AT),
        "tokens": attribute(tokenizer, "__dict__", {}).get(ADDED_AT),
        "forward": origins.silent,
        "frozen": _frozen_at(origins, model),
    }
    return {**known, **{name: location for name, location in shown_by_text.items() if location is not None}}


def _frozen_at(origins: Origins, model: Any) -> Location | None:
    """Where the script freezes a model of which nothing trains: by its weights, else by the adapter that it adds."""
    weights = list(model.parameters())
    if not weights or any(weight.requires_grad for weight in weights):
        return None
    if base_model(model) is not model:
        return origins.location_of(model)
    return last_freeze(frame_location(users_frame()))


def _pads_with_eos(tokenizer: Any) -> bool:
    pad = attribute(tokenizer, "pad_token_id", None)
    return pad is not None and pad == tokenizer.eos_token_id
