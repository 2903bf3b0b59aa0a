"""Verdicts that rest on stand-ins: what a random model, made rows or the CPU could have caused shows nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lintrain.evidence.run import Evidence, Failure, StandIn, StandInKind
from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.model.verdict import Outcome, Verdict
from lintrain.startup.lazy_pattern import lazy_pattern

_OF_WEIGHTS: Final = (
    "cannot-overfit-batch",
    "constant-output",
    "constant-weights",
    "damaged-weights",
    "equal-rewards",
    "exploding-gradients",
    "fp16-overflow-prone-model",
    # Which tensors a checkpoint lacks: a stand-in is saved as one class, a published one may hold more (a pooler).
    "frozen-head",
    "headless-model",
    "high-learning-rate",
    "ignored-attention-mask",
    "ignored-missing-keys",
    "loss-far-from-chance",
    "low-learning-rate",
    "mismatched-weight",
    "nan-loss",
    "projected-out-of-memory",
    "random-weights",
    "two-models-on-device",
    "vanishing-epsilon",
    "vanishing-gradients",
)
_OF_TOKENIZER: Final = (
    "cut-answers",
    "double-bos",
    "fragment-special-tokens",
    "fully-masked-labels",
    "lossy-tokenizer",
    "missing-eos",
    "missing-pad-id",
    "missing-pad-token",
    "missing-truncation",
    "over-long-input",
    "pad-in-loss",
    "pad-token-is-eos",
    "padding-to-max-length",
    "token-id-out-of-range",
    "tokenizer-model-mismatch",
    "truncated-texts",
    "unknown-tokens",
    "unmarked-assistant-turns",
    "unresized-embeddings",
    "untrained-new-tokens",
)
_OF_ROWS: Final = (
    "broken-texts",
    "cannot-overfit-batch",
    "class-weight-count",
    "conflicting-labels",
    "constant-images",
    "constant-output",
    "cut-answers",
    "duplicated-eval-rows",
    "empty-last-batch",
    "failing-rows",
    "fully-masked-labels",
    "head-for-other-labels",
    "ignored-class",
    "integer-multilabel-targets",
    "label-imbalance",
    "loss-far-from-chance",
    "missing-labels",
    "missing-num-labels",
    "missing-preference-columns",
    "missing-truncation",
    "nan-loss",
    "non-finite-data",
    "over-long-input",
    "overrun-one-cycle",
    "padding-to-max-length",
    "raw-dataset",
    "regression-head-for-classes",
    "removed-columns-needed",
    "reordered-label-names",
    "scaled-class-numbers",
    "schedule-unit-mismatch",
    "shifted-eval-data",
    "single-row-batch-norm",
    "sorted-subset",
    "string-labels",
    "target-in-inputs",
    "train-data-in-eval",
    "truncated-texts",
    "unknown-tokens",
    "unshuffled-training-data",
    "warmup-exceeds-training",
)
_OF_DEVICE: Final = (
    "autocast-without-scaler",
    "both-half-precisions",
    "clip-before-unscale",
    "deepspeed-mismatch",
    "device-map-in-ddp",
    "fp16-overflow-prone-model",
    "fp16-weights-with-scaler",
    "half-precision-weights",
    "idle-data-loader",
    "missing-scaler-update",
    "mixed-devices",
    "projected-out-of-memory",
    "quantized-without-adapter",
    "synchronized-every-step",
    "two-models-on-device",
    "unscale-during-accumulation",
    "unsynchronized-timing",
)
RESTS_ON: Final[Mapping[StandInKind, frozenset[str]]] = {
    StandInKind.MODEL: frozenset({*_OF_WEIGHTS, *_OF_TOKENIZER}),
    StandInKind.DATA: frozenset(_OF_ROWS),
    StandInKind.METRIC: frozenset({"binary-average", "missing-best-metric", "unavailable-monitor"}),
    StandInKind.DEVICE: frozenset(_OF_DEVICE),
    StandInKind.PACKAGE: frozenset(),
    StandInKind.ARGUMENT: frozenset({*_OF_WEIGHTS, *_OF_TOKENIZER, *_OF_ROWS}),
}
"""By what was replaced: the rules whose verdicts depend on its values, not only on how it is used."""
OWN_ERRORS = ("NameError", "UnboundLocalError", "SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError")
"""Errors about the script's own text, whatever the values are."""

OF_A_CLASS: Final = lazy_pattern(r"'(?!NoneType|Tensor|Dataset|Iterable)[A-Z]\w*' object has no attribute ")
"""An error about a class, where that does not depend on the rows: a stand-in may have another kind of data set."""


OF_FORM: Final = lazy_pattern(
    r"Column '(train|test|validation|eval|dev)' doesn't exist|`?(train|eval)_dataset`? must be an? `?\w*Dataset"
)
"""A single split is asked for another one, or a trainer gets a list: that is the script's, whatever its rows are."""
LEFT_OUT: Final = lazy_pattern(r"[\w.]+\((\w+)=\)")
"""An argument that was left out, as stand-ins name it."""
REPLACED: Final = lazy_pattern(r"(?:tokenizer\.)?(\w+)(?:=.*)?")
"""An argument that loads weights for a GPU, or an attribute of a tokenizer, as stand-ins name them."""

RESTING: Final = "it rests on a stand-in"
"""How the reason of a verdict begins that a stand-in could have caused."""


def rested(verdict: Verdict, rule: str, run: Evidence, message: str = "") -> Verdict:
    """The verdict of a run, or an inconclusive one where a stand-in could have caused it.

    What was measured without an argument that the installed version lacks refutes nothing that is said of it.
    """
    is_refuted = verdict.outcome is Outcome.REFUTED
    causes = [
        each for each in run.stand_ins if rule in RESTS_ON[each.kind] or (is_refuted and _is_left_out(each, message))
    ]
    if not causes or verdict.outcome is Outcome.INCONCLUSIVE:
        return verdict
    return Verdict.inconclusive(f"{RESTING} ({_named(causes[0])}): {verdict.reason}", **verdict.measured)


def _is_left_out(stand_in: StandIn, message: str) -> bool:
    """Whether a message names what was left out or replaced: `Config(warmup_ratio=)`, `load_in_8bit=True`."""
    pattern = LEFT_OUT if stand_in.by.startswith("left out") else REPLACED
    named = pattern.fullmatch(stand_in.name)
    return named is not None and f"`{named[1]}`" in message


def _named(stand_in: StandIn) -> str:
    return f"{stand_in.kind} {stand_in.name}"


def may_come_from_stand_in(failure: Failure, run: Evidence) -> bool:
    """Whether an error may come from the values of a stand-in, and not from the script."""
    has_values = any(each.kind is not StandInKind.PACKAGE for each in run.stand_ins)
    is_about_arguments = failure.type == "TypeError" and "argument" in failure.message
    # Settings that do not fit each other are the script's own, unless one of them was made for it.
    has_settings = any(each.kind in (StandInKind.ARGUMENT, StandInKind.DEVICE) for each in run.stand_ins)
    is_of_settings = failure.raised_in.endswith(".__post_init__") and not has_settings
    if OF_FORM.match(failure.message) is not None:
        return False
    # A loop over whole batches of few made rows has nothing to iterate over: its names have no values after it.
    is_own = failure.type in OWN_ERRORS and not failure.is_of_empty_loop
    if is_own or is_about_arguments or is_of_settings or _is_about_known_class(failure, run):
        return False
    return has_values


def _is_about_known_class(failure: Failure, run: Evidence) -> bool:
    """Whether an error is about an attribute that a class does not have, with models of the published classes."""
    # A checkpoint that is not in the table may be of another family than its stand-in, whose layers have other classes.
    is_about_class = failure.type == "AttributeError" and OF_A_CLASS.match(failure.message) is not None
    models = (each.name for each in run.stand_ins if each.kind is StandInKind.MODEL)
    return is_about_class and all(checkpoint_facts(name) is not None for name in models)


def missing_argument(failure: Failure, run: Evidence) -> str | None:
    """The argument whose made value an error is about, as the script calls it."""
    # `the path, as the script requires a value`: the value comes first.
    made = ((each.name, each.by.partition(",")[0]) for each in run.stand_ins if each.kind is StandInKind.ARGUMENT)
    named = (name for name, value in made if re.search(rf"(?<![\w-]){re.escape(value)}(?![\w-])", failure.message))
    return next(named, None)
