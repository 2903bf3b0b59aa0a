"""Which classes of transformers and TRL are trainers or training arguments, by the tables of their signatures.

A trainer is a class whose name says so and that accepts `train_dataset`; training arguments are `TrainingArguments` and
the classes whose signature extends it. The lists follow the tables: a trainer of a new version needs no edit here.
"""

from __future__ import annotations

from functools import cache

from lintrain.knowledge.tables import callable_names, history_of

TRAINER = "transformers.Trainer"
TRAINING_ARGUMENTS = "transformers.TrainingArguments"
PACKAGES = ("transformers", "trl")


@cache
def trainer_parameters(path: str) -> tuple[str, ...] | None:
    """The parameters of a trainer in order, as of the newest version that lists them; None for other paths."""
    if not path.endswith("Trainer"):
        return None
    # The last versions of a deprecated class often accept `*args, **kwargs` and only warn.
    newest_first = (_names(signature) for signature in reversed(_signatures(path)))
    return next((names for names in newest_first if "train_dataset" in names), None)


@cache
def is_training_arguments(path: str) -> bool:
    """Whether a path is `TrainingArguments` or a class that extends it, such as `trl.SFTConfig`."""
    if path == TRAINING_ARGUMENTS:
        return True
    if not path.endswith(("Config", "TrainingArguments")):
        return False
    if path.rpartition(".")[2].startswith("TF"):
        return False  # they belong to Keras, where `Model.fit` trains
    bases = {part[1:] for signature in _signatures(path) for part in signature if part.startswith("<")}
    # Seq2SeqTrainingArguments is in the tables with all of its parameters.
    return any(is_training_arguments(base) for base in bases) or any(
        {"output_dir", "per_device_train_batch_size"} <= {*_names(each)} for each in reversed(_signatures(path))
    )


def _signatures(path: str) -> list[tuple[str, ...]]:
    package = path.partition(".")[0]
    if package not in PACKAGES or path not in callable_names(package):
        return []
    return [signature for signature in history_of(package, path) if signature is not None]


def _names(signature: tuple[str, ...]) -> tuple[str, ...]:
    names = (part.partition("=")[0] for part in signature)
    return tuple(name for name in names if name.isidentifier())
