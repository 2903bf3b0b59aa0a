"""The data sets that are passed to a training run, by argument, and the tokenized copies of each."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.model.finding import Related
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import Collator, Dataset, DatasetDict, Kind, Tokenizer
from lintrain.pipeline.values.installed import InstalledObject
from lintrain.pipeline.values.python import Constant, Library, Value, is_missing, options_of, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PLAIN_TRAINERS = frozenset({"transformers.Trainer", "transformers.Seq2SeqTrainer"})
"""Trainers that need tokenized rows; those of TRL tokenize rows themselves."""

OWN_LOADING = frozenset(
    {"get_train_dataloader", "get_eval_dataloader", "_get_dataloader", "_remove_unused_columns", "get_batch_samples"}
)
"""Methods with which a subclass of Trainer changes how it reads its data."""

MODEL_INPUTS = frozenset(
    {
        "input_ids",
        "inputs_embeds",
        "pixel_values",
        "input_features",
        "input_values",
        "decoder_input_ids",
        "encoder_outputs",
        "bbox",
    }
)
"""Columns that can be the main input of a transformers model."""

LABEL_COLUMNS = frozenset({"label", "labels", "label_ids", "start_positions", "end_positions", "next_sentence_label"})
"""Columns that Trainer and the collators of transformers use as labels."""


@dataclass(frozen=True, slots=True)
class Given:
    """The data set that an argument passes to a run; several if it depends on a branch."""

    run: TrainerRun
    parameter: str
    argument: Argument
    datasets: tuple[Dataset, ...]

    @property
    def text(self) -> str:
        """The argument's code for a message, or its name if the code is long."""
        code = self.argument.text
        return f"`{code}`" if 0 < len(code) <= 38 and "\n" not in code else f"the {self.parameter}"


def given_datasets(pipeline: Pipeline) -> Iterator[Given]:
    """The data sets that are passed to plain Trainers, if they are known in every branch."""
    for run in pipeline.runs:
        if run.path not in PLAIN_TRAINERS or run.overrides & OWN_LOADING:
            continue
        for parameter in ("train_dataset", "eval_dataset"):
            argument = run.arguments.get(parameter)
            if argument is None or parameter in run.attributes:
                continue
            is_passed_on = parameter == "train_dataset" and run.passed_on is not None
            datasets = _datasets_of(pipeline, run.collated_rows if is_passed_on else argument.value)
            if datasets and not any(dataset.has_transform for dataset in datasets):
                yield Given(run, parameter, argument, datasets)


def _datasets_of(pipeline: Pipeline, value: Value) -> tuple[Dataset, ...]:
    options = [option for option in options_of(value) if not (isinstance(option, Constant) and option.value is None)]
    datasets = tuple(rows for option in options if (rows := pipeline.rows_of(option)) is not None)
    return datasets if len(datasets) == len(options) else ()


def collates_plainly(run: TrainerRun) -> bool:
    """Whether the rows are certainly collated by transformers, without code of the script."""
    collator = run.collator
    return is_default_collator(collator) or (isinstance(collator, Collator) and collator.tokenizes is False)


def is_default_collator(collator: Value) -> bool:
    """Whether no collator is passed, or the one that Trainer uses without a tokenizer."""
    named = isinstance(collator, Library) and collator.path == "transformers.default_data_collator"
    return named or is_missing(collator)


def keeps_labels(run: TrainerRun) -> bool:
    """Whether the labels of a run's rows certainly reach the model as they are: no collator makes others."""
    if (
        run.path not in PLAIN_TRAINERS
        or "compute_loss" in run.overrides
        or not is_missing(run.value("compute_loss_func"))
    ):
        return False
    collator = run.collator
    return is_default_collator(collator) or (isinstance(collator, Collator) and collator.makes_labels is False)


def has_own_model(run: TrainerRun) -> bool:
    """Whether the model may not belong to a library, so that its inputs may have other names."""
    return run.model is None or not run.model.path.startswith(("transformers.", "peft."))


def installed_inputs(run: TrainerRun) -> frozenset[str] | None:
    """The columns that Trainer keeps for a model of an installed package without tables: what its `forward` accepts.

    None for other models, and where the arguments may name more.
    """
    model = run.value("model")
    if not isinstance(model, InstalledObject) or model.facts.forward is None or not model.facts.is_closed:
        return None
    if run.settings is not None and not is_missing(run.settings.usual("label_names")):
        return None
    return frozenset(model.facts.forward) | {"label", "label_ids"}


PLAIN_FAMILIES = lazy_pattern(
    r"(?:[\w-]+/)?(?:distil|x?lm-?)?(?:bert|roberta|albert|electra|gpt-?2|opt-|llama|mistral|t5|bart|vit(?!s|pose)|deit|swin)",
    re.IGNORECASE,
)
"""Families of models, by their class or checkpoint, whose `forward` takes nothing but the inputs below."""

PLAIN_INPUTS = frozenset(
    {
        *("input_ids", "attention_mask", "token_type_ids", "position_ids", "head_mask", "inputs_embeds", "labels"),
        *("label", "label_ids", "next_sentence_label", "sentence_order_label", "start_positions", "end_positions"),
        *("decoder_input_ids", "decoder_attention_mask", "decoder_inputs_embeds", "decoder_head_mask", "use_cache"),
        *("encoder_outputs", "encoder_hidden_states", "encoder_attention_mask", "cross_attn_head_mask", "mc_labels"),
        *("past_key_values", "output_attentions", "output_hidden_states", "return_dict", "cache_position"),
        *("logits_to_keep", "mc_token_ids", "pixel_values", "bool_masked_pos", "interpolate_pos_encoding", "cache"),
        *("decoder_position_ids", "past_key_value", "inputs", "num_items_in_batch", "noise"),
    }
)


def plain_inputs(run: TrainerRun) -> frozenset[str] | None:
    """The columns that Trainer keeps at most for a model of a well-known family; None for others."""
    model = run.model
    if model is None or not model.path.startswith("transformers."):
        return None
    name, checkpoint = model.path.rpartition(".")[2], text_of(model.checkpoint) or ""
    is_plain = PLAIN_FAMILIES.match(checkpoint if name.startswith("Auto") else name) is not None
    is_named = run.settings is not None and not is_missing(run.settings.usual("label_names"))
    return PLAIN_INPUTS if is_plain and not is_named else None


def is_text(dataset: Dataset) -> bool:
    """Whether all its columns are known, some are text or lists of words, and none is a model input."""
    columns = dataset.columns or {}
    if not dataset.is_complete or dataset.may_differ or set(columns) & MODEL_INPUTS:
        return False
    kinds = {column.kind for column in columns.values()}
    return bool(_known_text(dataset)) and not kinds & {Kind.TOKENS, Kind.IMAGE, Kind.AUDIO}


def _known_text(dataset: Dataset) -> tuple[str, ...]:
    """The columns that are certainly text, or lists of words."""
    columns = (dataset.columns or {}).items()
    return tuple(
        name
        for name, column in columns
        if column.kind is Kind.TEXT or (column.kind is Kind.LIST and column.item is Kind.TEXT)
    )


def is_read_as_text(dataset: Dataset) -> bool:
    """Whether code passes some of its columns to a tokenizer, and none of its columns is known to be tokenized."""
    columns = dataset.columns or {}
    return bool(dataset.read_as_text) and not dataset.is_tokenized and not set(columns) & MODEL_INPUTS


def text_columns(dataset: Dataset) -> tuple[str, ...]:
    """The columns that are known to be text, or are passed to a tokenizer, in the order of the columns."""
    return _known_text(dataset) or tuple(dataset.read_as_text)


def has_tokenized_copy(pipeline: Pipeline, dataset: Dataset) -> bool:
    """Whether the script tokenizes these rows."""
    tokenized = pipeline.cached(_origins_of_tokens, pipeline)
    is_read_alike = bool(dataset.read_as_text) and id(dataset.read_as_text) in tokenized
    return is_read_alike or any(id(each) in tokenized for each in (dataset, *dataset.lineage))


def _origins_of_tokens(pipeline: Pipeline, _: Pipeline) -> set[int]:
    """The identities of all data sets that are tokenized, and of the text columns that they share with other splits."""
    made = (
        each for value in pipeline.datasets for each in (value.every() if isinstance(value, DatasetDict) else [value])
    )
    ancestors = [ancestor for each in made if each.is_tokenized for ancestor in each.lineage]
    return {id(each) for each in ancestors} | {id(each.read_as_text) for each in ancestors if each.read_as_text}


def tokenized_copies(pipeline: Pipeline, dataset: Dataset, before: Location) -> list[Related]:
    """The names of tokenized copies of these rows, each with the code to pass: `tokenized["train"]`."""
    latest = {binding.name: binding for binding in pipeline.bindings if binding.location < before}
    copies: list[Related] = []
    for name, binding in latest.items():
        made = binding.value
        split = made.split(dataset.split) if isinstance(made, DatasetDict) and dataset.split else None
        if isinstance(made, Dataset) and _is_copy(made, dataset):
            copies.append(_copy(name, name, made))
        elif split is not None and _is_copy(split, dataset):
            copies.append(_copy(name, f'{name}["{dataset.split}"]', split))
    return copies


def _is_copy(made: Dataset, dataset: Dataset) -> bool:
    return made is not dataset and made.is_tokenized and dataset in made.lineage


def _copy(name: str, code: str, made: Dataset) -> Related:
    maps = [step for step in made.steps if step.operation == "map"] or made.steps
    return Related(maps[-1].location, f"its tokenized copy `{name}`, which is not passed", "tokenized copy", code)


def name_of(pipeline: Pipeline, value: Value) -> str | None:
    """The name of a value; None if it has none or several."""
    names = {binding.name for binding in pipeline.names_of(value)}
    return names.pop() if len(names) == 1 else None


def tokenizer_name(pipeline: Pipeline, location: Location) -> str | None:
    """The name of the script's only tokenizer if it is visible at a location, else None."""
    name, around = pipeline.cached(_only_tokenizer, pipeline)
    return name if all(each.holds(location) for each in around) else None


def _only_tokenizer(pipeline: Pipeline, _: Pipeline) -> tuple[str | None, list[Location]]:
    """The name of the only tokenizer, None if there are several, and the functions around where it is bound."""
    names = {name_of(pipeline, each) for each in pipeline.tokenizers}
    name = names.pop() if len(names) == 1 else None
    bound = [binding for binding in pipeline.bindings if binding.name == name and isinstance(binding.value, Tokenizer)]
    around = [each for binding in bound for each in functions_around(pipeline, binding.location)]
    return name if bound else None, around


def is_visible(pipeline: Pipeline, bound: Location, location: Location) -> bool:
    """Whether a name that is bound at one location is visible at another, as no function contains only the first."""
    return all(each.holds(location) for each in functions_around(pipeline, bound))


def functions_around(pipeline: Pipeline, location: Location) -> list[Location]:
    """The functions that a location is in."""
    return [each for each in pipeline.source_of(location).cached(_functions) if each.holds(location)]


def _functions(source: Source) -> list[Location]:
    """Where the functions of a file are."""
    return [source.location(node) for node in source.nodes_of(ast.FunctionDef, ast.AsyncFunctionDef)]


def last_map(dataset: Dataset, note: str = "the rows are made here") -> tuple[Related, ...]:
    """The location of the last `map` that a data set results from."""
    maps = [step for step in dataset.steps if step.operation == "map"]
    return tuple(Related(step.location, note, "rows", step.text) for step in maps[-1:])


def origin_of(dataset: Dataset, note: str = "made here") -> tuple[Related, ...]:
    """The location where a data set was first created."""
    return tuple(Related(step.location, note, "origin", step.text) for step in dataset.steps[:1])


MADE_INTO_TEXT = frozenset(
    {"prompt", "completion", "messages", "conversations", "chosen", "rejected", "image", "images"}
)
"""Columns of which SFTTrainer makes the text itself; images are left to its collator."""


def text_read(run: TrainerRun, names: set[str]) -> tuple[str, ...]:
    """The column of text that SFTTrainer reads, if nothing else makes the text; empty where that is not certain."""
    own = ("formatting_func", "dataset_kwargs")
    if run.path != "trl.SFTTrainer" or names & MADE_INTO_TEXT or any(not is_missing(run.value(each)) for each in own):
        return ()
    if "args" in run.arguments and run.settings is None:
        return ()
    values = run.settings.values if run.settings is not None else {}
    if not is_missing(values.get("dataset_kwargs", Constant(None))):
        return ()
    given = run.arguments["dataset_text_field"].value if "dataset_text_field" in run.arguments else None
    field = given or values.get("dataset_text_field") or Constant("text")
    name = text_of(field)
    return (name,) if name else ()
