"""A Keras model is fitted without `compile`.

`fit` needs a loss and an optimizer, which only `compile` gives it. A model that the script builds has none, and neither
has a copy that `clone_model` makes. The error comes at `fit`, after all data is loaded.

## Bad

    network = keras.Sequential([keras.layers.Dense(3)])
    network.fit(x_train, y_train, verbose=0)  # <- uncompiled-model
    # raises ValueError: You must call `compile()`

## Good

    network = keras.Sequential([keras.layers.Dense(3)])
    network.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, verbose=0)

## When it is fine

A function or a method may compile the model:

    def prepare(model):
        model.compile(optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return model

    network = prepare(keras.Sequential([keras.layers.Dense(3)]))
    network.fit(x_train, y_train, verbose=0)

## Fix

None: loss and optimizer depend on the task.

## References

Keras 3.15, `Trainer.fit` and `_assert_compile_called`; tf.keras 2 raises a RuntimeError.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, handed_on, script_text, statements
from lintrain.pipeline import blocks
from lintrain.pipeline.values.model import Network
from lintrain.pipeline.values.python import Instance
from lintrain.pipeline.values.training import KerasRun
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule

SHOWS = frozenset({"len", "plot_model", "print", "type"})
"""Functions that leave a model as it is."""


class UncompiledModel(Rule):
    level = Level.ERROR
    keywords = "keras & .fit("
    judges_whole_script = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.keras_runs:
            if run.compiled is None and run.fits and _is_new(pipeline, run):
                made = run.model.origin
                yield self.finding(
                    run.fits[0][0],
                    "the model was never compiled, so `fit` has no loss",
                    related=[Related(made, "built here", "model")] if made else [],
                    help="call `compile` with an optimizer and a loss before `fit`",
                )


def _is_new(pipeline: Pipeline, run: KerasRun) -> bool:
    """Whether the script builds the model, hands it to nothing unknown, and compiles no model that may be this one."""
    own = run.model.cls if isinstance(run.model, Instance) else None
    if own is not None and any(own.lookup(name) for name in ("compile", "fit", "train_step")):
        return False
    if own is None and (not isinstance(run.model, Network) or not run.model.layers):
        return False  # a model that is loaded has its loss with it
    runs = [each for each in pipeline.keras_runs if each.model is not run.model]
    others = {each.compiled for each in runs if not _may_replace(pipeline, each, run)}
    calls = (
        call
        for source in pipeline.sources.values()
        for call in expressions.calls_of_method(source, "compile")
        if source is pipeline.source or not _is_in_unused(pipeline, call.location)
    )
    compiling = [
        call for call in calls if call.called_on is None or call.called_on.name not in {"re", "regex", "torch"}
    ]
    return not _is_handed_on(pipeline, run) and all(call.location in others for call in compiling)


def _is_in_unused(pipeline: Pipeline, location: Location) -> bool:
    """Whether code of an imported module is in a function that no other code which was read names."""
    name = statements.name_of_scope(pipeline, location)
    named = (re.findall(rf"\b{name}\b", source.text) for source in pipeline.sources.values())
    is_free = any(each.name == "*" for each in script_text.imports_of(pipeline.source))
    return bool(name) and not is_free and sum(map(len, named)) == 1


def _may_replace(pipeline: Pipeline, other: KerasRun, run: KerasRun) -> bool:
    """Whether `fit` may get a model that the script gives the same name to and compiles later, as under an `if`."""
    names = {binding.name for binding in pipeline.names_of(run.model)}
    shared = any(binding.name in names for binding in pipeline.names_of(other.model)) if other.compiled else False
    return shared and bool(other.compiled and run.model.origin and other.compiled.line > run.model.origin.line)


def _is_handed_on(pipeline: Pipeline, run: KerasRun) -> bool:
    """Whether a call gets the model by one of its names before it is fitted, of what may compile it.

    What shows a model does not, nor does a function of the script, whose own calls of `compile` are known.
    """
    names = {binding.name for binding in pipeline.names_of(run.model)}
    return any(
        argument.name in names and call.called_name not in SHOWS and not _is_own(pipeline, call.called_name)
        for source in pipeline.sources.values()
        for call in expressions.calls_in_file(source)
        for argument in (*call.arguments, *call.keywords.values())
        if not _is_after(pipeline, call.location, run.fits[0][0])
    )


def _is_own(pipeline: Pipeline, name: str) -> bool:
    """Whether a function of the script, or of a module that was read with it, has this name."""
    return any(handed_on.functions_of(source, name) for source in pipeline.sources.values())


def _is_after(pipeline: Pipeline, location: Location, fitted: Location) -> bool:
    """Whether code certainly runs after a `fit`: below it, in the same function and in no loop with it."""
    is_below = location.path == fitted.path and location.line > fitted.end_line
    return is_below and blocks.is_one_scope(pipeline, location, fitted) and blocks.loop_around(pipeline, fitted) is None
