"""The first module whose output is not finite."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lintrain.probe.child.kinds import is_mapping, is_row
from lintrain.probe.child.library import library
from lintrain.probe.child.trainer.run import TrainerRun


def first_non_finite(run: TrainerRun, batch: Any) -> tuple[str | None, bool | None]:
    """The name of the first module with NaN or Inf in its output, and whether its input had it already."""
    found: list[tuple[str, bool]] = []
    hooks = [
        module.register_forward_hook(_watch(name or type(module).__name__, found))
        for name, module in run.model.named_modules()
        if not any(True for _ in module.children())
    ]
    try:
        with library("torch").no_grad():
            inputs = run.trainer._prepare_inputs(batch)
            run.wrapped(**inputs)
    except Exception:  # noqa: BLE001 - the step itself went through before; without the name the finding still stands
        return None, None
    finally:
        for hook in hooks:
            hook.remove()
    return found[0] if found else (None, None)


def _watch(name: str, found: list[tuple[str, bool]]) -> Any:
    def hook(_module: Any, inputs: Any, output: Any) -> None:
        if not found and _any_non_finite(output):
            found.append((name, _any_non_finite(inputs)))

    return hook


def _any_non_finite(value: Any) -> bool:
    return any(not bool(library("torch").isfinite(tensor).all()) for tensor in _floats(value))


def _floats(value: Any) -> Iterator[Any]:
    if hasattr(value, "is_floating_point") and value.is_floating_point():
        yield value
    parts = value if is_row(value) else value.values() if is_mapping(value) else ()
    for part in parts:
        yield from _floats(part)
