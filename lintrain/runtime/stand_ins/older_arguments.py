"""Arguments that only an older version of a library had: moved to where the installed one takes them, or left out."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.stand_ins.ledger import Ledger

RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "tokenizer": "processing_class",
    "max_seq_length": "max_length",
    "n_iter": "max_iter",
    "sparse": "sparse_output",
}
"""Arguments that the installed version has under another name; others that it lacks are left out."""


def leave_out(ledger: Ledger, owner: Any) -> None:
    """Arguments of a class, and of those made from it, that only an older version of a library had."""
    adapted = set[Any]()

    def make(cls: Any, *_: Any, **__: Any) -> Any:
        if cls not in adapted:  # a class is whole only when an object of it is made
            adapted.add(cls)
            cls.__init__ = _without_older(ledger, cls.__name__, cls.__init__)
            # A class of the script's own may take any argument, and hand it on.
            for each in cls.__mro__:
                if each not in adapted and issubclass(each, owner) and "__init__" in vars(each):
                    adapted.add(each)
                    each.__init__ = _without_older(ledger, each.__name__, each.__init__)
        return object.__new__(cls)

    owner.__new__ = make


def fill_by_method(ledger: Ledger, module: Any) -> None:
    """`rows.fillna(method="ffill")`, which pandas 3 has as `rows.ffill()`."""
    owner = module.NDFrame
    fill = owner.fillna
    if "method" in inspect.signature(fill).parameters:
        return

    @functools.wraps(fill)
    def fillna(self: Any, *args: Any, method: str | None = None, **kwargs: Any) -> Any:
        if method is None:
            return fill(self, *args, **kwargs)
        name = "ffill" if method in ("ffill", "pad") else "bfill"
        ledger.replace(StandInKind.PACKAGE, "fillna(method=)", f"{name}(): the installed version has no method")
        return getattr(self, name)(**kwargs)

    owner.fillna = fillna


def _without_older(ledger: Ledger, name: str, build: Callable[..., None]) -> Any:
    try:
        known = inspect.signature(build, eval_str=True).parameters
    except NameError:  # an annotation that is only there for type checkers
        known = inspect.signature(build).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())
    settings: Any = _settings_of(known)

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        moved: dict[str, Any] = {}
        older = [] if takes_any else [each for each in kwargs if each not in known]
        for each in older:
            value, new = kwargs.pop(each), RENAMED.get(each, each)
            # TRL took from its trainers what their settings have today.
            has_moved = new not in known and new in getattr(settings, "__dataclass_fields__", ())
            there = f"{getattr(settings, '__name__', '')}({new}=)"
            by = there if has_moved else f"{new}=" if new in known else "left out"
            ledger.replace(StandInKind.PACKAGE, f"{name}({each}=)", f"{by}: the installed version has no {each}")
            if has_moved:
                moved[new] = value
            elif new in known:
                kwargs.setdefault(new, value)
        # A call that the installed version takes is judged by it, with the error that it raises.
        if older:
            leave_out_second_adapter(ledger, name, args, kwargs)
        if settings is not None:
            at = [*known].index("args")
            args, kwargs = _with_own_settings(ledger, name, settings, at, (args, kwargs), moved)
        build(self, *args, **kwargs)

    return init


def _settings_of(known: Mapping[str, inspect.Parameter]) -> Any:
    """The narrowest class of settings that a trainer takes, as in `DPOConfig | None`; None if it does not say."""
    given: Any = known["args"].annotation if "args" in known else None
    classes: list[Any] = [each for each in typing.get_args(given) or (given,) if hasattr(each, "__dataclass_fields__")]
    return next((each for each in classes if all(issubclass(each, other) for other in classes)), None)


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _with_own_settings(
    ledger: Ledger, name: str, settings: Any, at: int, arguments: Arguments, moved: dict[str, Any]
) -> Arguments:
    """The arguments with settings of the trainer's own class, made from the plain ones that older versions took."""
    args, kwargs = arguments
    given: Any = args[at - 1] if len(args) >= at else kwargs.get("args")  # the first parameter is the trainer itself
    if isinstance(given, settings):
        for each, value in moved.items():
            setattr(given, each, value)
        return arguments
    if given is None and moved:
        made = settings("out", **moved)
    elif given is not None and issubclass(settings, type(given)):
        fields = settings.__dataclass_fields__
        values = {each: value for each, value in given.to_dict().items() if each in fields and fields[each].init}
        made = settings(**{**values, **moved})
        what = f"{settings.__name__} with the same values, as the installed version takes it"
        ledger.replace(StandInKind.PACKAGE, f"{name}(args={type(given).__name__})", what)
    else:
        return arguments
    return ((*args[: at - 1], made, *args[at:]), kwargs) if len(args) >= at else (args, {**kwargs, "args": made})


def leave_out_second_adapter(ledger: Ledger, trainer: str, args: tuple[Any, ...], given: dict[str, Any]) -> None:
    """Of a call that an older TRL was written for: `peft_config` next to a model with an adapter, which it ignored."""
    model: Any = given.get("model", next(iter(args), None))
    if given.get("peft_config") is not None and any(each.__name__ == "PeftModel" for each in type(model).__mro__):
        del given["peft_config"]
        what = "left out: the model has an adapter, and the version that the call is written for adds no other"
        ledger.replace(StandInKind.PACKAGE, f"{trainer}(peft_config=)", what)
