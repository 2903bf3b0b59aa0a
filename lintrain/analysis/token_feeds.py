"""The token ids that a Trainer or a loop reads: the columns of its data, the tokenizer calls that made them, the
special tokens that a script sets and writes, and the number of positions of the model that reads them.

Calls of tokenizers that pad to a length and do not truncate to it, by their code: most tokenizers are parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from lintrain.analysis import origins
from lintrain.analysis.run_data import OWN_LOADING, PLAIN_TRAINERS, is_default_collator
from lintrain.analysis.tuning import trainings
from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.knowledge.tables import CheckpointFacts
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Collator, Column, ColumnValues, Dataset, Encoding, Padding, Tokenizer
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Config, Model
from lintrain.pipeline.values.python import ABSENT, Constant, Either, Sequence, Value, is_missing, options_of, text_of
from lintrain.pipeline.values.tensors import SpecialToken, Templated, Text, TokenSetting
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class TokenFeed:
    """Rows of token ids that a plain Trainer or a DataLoader reads: `columns` are those of one row.

    `dataset` is the Hugging Face dataset that contains them, None for a dataset class of the script; `model` is the
    model that reads them, None if it is not certain.
    """

    location: Location
    columns: Mapping[str, Column]
    dataset: Dataset | None
    model: Model | None
    collator: Value
    run: TrainerRun | None = None
    loader: Loader | None = None

    @property
    def encoding(self) -> Encoding | None:
        """The tokenizer call that created the ids; None if other code may have created or changed them."""
        ids = self.columns.get("input_ids")
        return ids.made_by if ids is not None and isinstance(ids.made_by, Encoding) else None

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that created the ids; None if it is not known."""
        given = self.encoding.tokenizer if self.encoding else None
        return given if isinstance(given, Tokenizer) else None

    @property
    def has_library_collator(self) -> bool:
        """Whether a library's collator certainly creates the batches, and not a custom one."""
        if self.loader is not None and not is_missing(self.collator):
            return isinstance(self.collator, Collator)
        return isinstance(self.collator, Collator) or is_default_collator(self.collator)


def token_feeds(pipeline: Pipeline) -> Iterator[TokenFeed]:
    """The rows that the script's Trainers and DataLoaders read, if they are known in every branch."""
    for run in pipeline.runs:
        if run.path in PLAIN_TRAINERS and not run.overrides & OWN_LOADING:
            for parameter in ("train_dataset", "eval_dataset"):
                # The script's own collator is read on the rows of the training data.
                passed_on = run.passed_on if parameter == "train_dataset" else None
                for columns, dataset in _rows_in(pipeline, passed_on or run.value(parameter)):
                    yield TokenFeed(run.construction, columns, dataset, run.model, run.collator, run=run)
    model = pipeline.models[0] if len(pipeline.models) == 1 else None
    for loader in pipeline.loaders:
        if loader.origin is not None:
            for columns, dataset in _rows_in(pipeline, loader.collated_rows):
                yield TokenFeed(loader.origin, columns, dataset, model, loader.collator, loader=loader)


def called(pipeline: Pipeline) -> Iterator[TokenFeed]:
    """The token ids that calls of models in the script certainly get, as if a loader gave them."""
    for call in pipeline.model_calls:
        given = call.arguments.get("input_ids") or call.arguments.get("0")
        if given is not None and isinstance(given.value, ColumnValues):
            columns = {"input_ids": given.value.column}
            yield TokenFeed(call.location, columns, None, call.model, ABSENT)


def read_together(pipeline: Pipeline) -> Iterator[tuple[Location, Tokenizer, Model]]:
    """The tokenizer and the model of each run or loader, and where they meet."""
    for feed in token_feeds(pipeline):
        if feed.tokenizer is not None and feed.model is not None:
            yield feed.location, feed.tokenizer, feed.model
    for run in pipeline.runs:
        collator = run.collator
        given = (run.value("processing_class"), run.value("tokenizer"), getattr(collator, "tokenizer", None))
        for tokenizer in given:
            if isinstance(tokenizer, Tokenizer) and run.model is not None and run.train_calls:
                yield run.construction, tokenizer, run.model


def paired(pipeline: Pipeline) -> Iterator[tuple[Location, Tokenizer, Model]]:
    """The only tokenizer of a script that pads, and the models that it trains or calls in its loops."""
    pads = any(each.padding in {Padding.LONGEST, Padding.FIXED} for each in pipeline.encodings)
    if not pads or len(pipeline.tokenizers) != 1:
        return
    for training in trainings(pipeline):
        if training.optimizer is not None and isinstance(training.model, Model):
            yield training.location, pipeline.tokenizers[0], training.model
    if len(pipeline.models) == 1 and pipeline.acts(Act.BACKWARD):
        yield from ((call.location, pipeline.tokenizers[0], call.model) for call in pipeline.model_calls)


def _rows_in(pipeline: Pipeline, value: Value) -> Iterator[tuple[Mapping[str, Column], Dataset | None]]:
    """The columns and the dataset of each possible value; none at all if one of them is unknown."""
    options = [option for option in options_of(value) if not is_missing(option)]
    known: list[tuple[Mapping[str, Column], Dataset | None]] = []
    for option in options:
        rows = pipeline.rows_of(option)
        if rows is not None and not rows.has_transform:
            known.append((rows.columns or {}, rows if rows.library else None))
    yield from known if len(known) == len(options) else ()


_LEARNED = frozenset(
    {"albert", "bart", "bert", "camembert", "distilbert", "electra", "gpt2", "gpt_neo", "opt", "roberta", "xlm-roberta"}
)
"""Model types with learned position embeddings."""

_SKIPS_PADDING = frozenset({"camembert", "opt", "roberta", "xlm-roberta"})
"""Model types with learned positions that give padding no position."""

_SHORT = frozenset(
    {
        "ag_news",
        "conll2003",
        "dair-ai/emotion",
        "emotion",
        "fancyzhx/ag_news",
        "glue",
        "multi_nli",
        "nyu-mll/glue",
        "nyu-mll/multi_nli",
        "paws",
        "rotten_tomatoes",
        "snli",
        "sst2",
        "stanfordnlp/snli",
        "stanfordnlp/sst2",
        "trec",
        "tweet_eval",
        "wnut_17",
        "xnli",
    }
)
"""Datasets of sentences, all far shorter than 512 tokens."""


def learned_positions(pipeline: Pipeline, feed: TokenFeed) -> tuple[int | None, str]:
    """The number of learned positions of the model that reads the rows, and the name of its checkpoint."""
    model = feed.model
    if model is not None and (model.config is not None or "config" in model.arguments or not model.is_complete):
        return None, ""
    owner = feed.model or feed.tokenizer
    facts = certain_facts(pipeline, owner) if owner else None
    if owner is None or facts is None or facts.model_type not in _LEARNED:
        return None, ""
    return facts.max_positions, text_of(owner.checkpoint) or ""


def pads_take_positions(pipeline: Pipeline, feed: TokenFeed) -> bool:
    """Whether padding certainly takes positions in the model, as text does."""
    facts = certain_facts(pipeline, feed.model) if feed.model else None
    return facts is not None and facts.model_type in _LEARNED - _SKIPS_PADDING


def may_be_short(dataset: Dataset | None) -> bool:
    """Whether rows may be short: sentences of a well-known dataset, or rows that the script creates."""
    root = dataset.lineage[-1] if dataset else None
    if root is None:
        return False
    return root.hub_name in _SHORT or root.operations[:1] in {("from_dict",), ("from_list",)}


PAD_SETTINGS = frozenset({"pad_token", "pad_token_id"})
"""Attributes of a tokenizer that set its padding token."""

EOS_TEXTS = {
    "gpt2": ("<|endoftext|>",),
    "gpt_neo": ("<|endoftext|>",),
    "phi": ("<|endoftext|>",),
    "mistral": ("</s>",),
}
"""The text of the EOS token by model type; Llama has another one in each generation."""

ABOUT_PADDING = lazy_pattern(r"pad_token|padding")
"""Conditions that test for a padding token."""


def certain_facts(pipeline: Pipeline, owner: Tokenizer | Model | Config) -> CheckpointFacts | None:
    """The facts about the checkpoint of a tokenizer, model or configuration; None if it is not certain or not known."""
    name = text_of(owner.checkpoint)
    if not isinstance(name, str):
        return None
    known = pipeline.checkpoints
    if name not in known:
        known[name] = checkpoint_facts(name, Path(pipeline.source.path).parent) or checkpoint_facts(name)
    return known[name]


def is_handed_over(pipeline: Pipeline, owner: Value) -> bool:
    """Whether unknown code gets a tokenizer or model, and may change it."""
    return any(event.subject is owner for event in pipeline.acts(Act.ESCAPE))


def lacks_pad(pipeline: Pipeline, tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer certainly has no padding token, and the script never sets one."""
    facts = certain_facts(pipeline, tokenizer)
    is_untouched = not any(setting.name in PAD_SETTINGS for setting in tokenizer.settings)
    others = [name for name in tokenizer.attributes if "pad" in name and name != "padding_side"]
    known = facts is not None and facts.has_pad_token is False and tokenizer.is_complete
    return known and is_untouched and not others and not is_handed_over(pipeline, tokenizer)


def padding_by_eos(pipeline: Pipeline, tokenizer: Tokenizer) -> TokenSetting | None:
    """The setting that makes the EOS token the padding token; None if it is not certain or changed later."""
    settings = [setting for setting in tokenizer.settings if setting.name in PAD_SETTINGS]
    if not settings or is_handed_over(pipeline, tokenizer):
        return None
    facts = certain_facts(pipeline, tokenizer)
    lacks = facts is not None and facts.has_pad_token is False
    # A setting that runs whatever the padding token is by then replaces those of other tokens before it.
    last = max((at for at, each in enumerate(settings, 1) if not _is_eos_of(each, tokenizer, facts)), default=0)
    settings = settings[last:] if any(not each.conditions for each in settings[last:]) else settings
    if not all(_is_eos_of(setting, tokenizer, facts) for setting in settings):
        return None
    return next((setting for setting in settings if is_certain_setting(setting, lacks_own=lacks)), None)


def _is_eos_of(setting: TokenSetting, tokenizer: Tokenizer, facts: CheckpointFacts | None) -> bool:
    value = setting.value
    if isinstance(value, SpecialToken):
        return value.kind == "eos" and value.owner is tokenizer
    own = [text_of(each.value) for each in tokenizer.settings if each.name == "eos_token" and not each.conditions]
    return text_of(value) in {*own, *EOS_TEXTS.get((facts.model_type or "") if facts else "", ())} - {None}


def is_certain_setting(setting: TokenSetting, *, lacks_own: bool) -> bool:
    """Whether a setting certainly runs; with `lacks_own` a test for a missing padding token is true."""
    return all(lacks_own and ABOUT_PADDING.search(condition.code) for condition in setting.conditions)


def location_in_data(pipeline: Pipeline, tokenizer: Tokenizer, kind: str) -> Location | None:
    """The first location that writes a special token (`eos`, `bos`) of a tokenizer into text of the data."""
    facts = certain_facts(pipeline, tokenizer)
    written = EOS_TEXTS.get((facts.model_type or "") if facts else "", ()) if kind == "eos" else ()
    for text in pipeline.texts:
        parts = list(parts_of(text))
        if any(_is_token(part, tokenizer, kind, written) for part in parts) and any(map(_varies, parts)):
            return text.origin
    return None


def parts_of(text: Text) -> Iterator[Value]:
    """The parts of a text in order, with nested texts flattened."""
    for part in text.parts:
        inner = part.column.written if isinstance(part, ColumnValues) else part
        if isinstance(inner, Text):
            yield from parts_of(inner)
        else:
            yield part if inner is None else inner


def _is_token(part: Value, tokenizer: Tokenizer, kind: str, written: tuple[str, ...]) -> bool:
    if isinstance(part, SpecialToken):
        return part.owner is tokenizer and part.kind == kind
    held = part.value if isinstance(part, Constant) else None
    return isinstance(held, str) and any(token in held for token in written)


def _varies(part: Value) -> bool:
    """Whether a part of a text comes from data: neither a literal nor a special token."""
    return not isinstance(part, Constant | SpecialToken)


def written_texts(encoding: Encoding) -> list[Value]:
    """The texts that the script builds for a tokenizer call: passed directly, or as rows of a list or column."""
    pending, found = [encoding.inputs], list[Value]()
    while pending:
        value = pending.pop()
        if isinstance(value, Text | Templated):
            found.append(value)
        elif isinstance(value, ColumnValues) and value.column.written is not None:
            pending.append(value.column.written)
        elif isinstance(value, Sequence):
            pending.extend(value.items[:4])
        elif isinstance(value, Either) and all(map(_is_written, value.options)):
            pending.extend(value.options)
    return found


def _is_written(value: Value) -> bool:
    if isinstance(value, ColumnValues):
        return value.column.written is not None
    return isinstance(value, Text | Templated | Sequence)


def opening_of(text: Value) -> Value | None:
    """The first part of a text that the script builds."""
    return next(parts_of(text), None) if isinstance(text, Text) else text


@dataclass(frozen=True, slots=True)
class PaddedOnly:
    """A call that gives a tokenizer a padding and a `max_length` (its code), and where it asks for no truncation."""

    location: Location
    max_length: str
    untruncated: Location | None
    to_longest: bool


def padded_only(source: Source) -> list[PaddedOnly]:
    """The calls of tokenizers that pad rows to a `max_length`, or up to it, and leave longer ones as they are."""
    return source.cached(_padded_only)


def _padded_only(source: Source) -> list[PaddedOnly]:
    # Most calls have no two keywords, and a dictionary of each takes half a millisecond.
    asking = [call for call in source.nodes_of(ast.Call) if len(call.keywords) > 1]
    calls = ((call, {each.arg: each.value for each in call.keywords}) for call in asking)
    return [
        PaddedOnly(
            source.location(call),
            unparse(given["max_length"]),
            _untruncated(source, call),
            not _is_constant(given["padding"], "max_length"),
        )
        for call, given in calls
        if {"padding", "max_length"} <= given.keys() and not _may_truncate(given)
        # A third positional argument and those after it may be the truncation.
        if len(call.args) <= 2 and _is_constant(given["padding"], True, "longest", "max_length")
        if not _is_constant(given["max_length"], None)
        if _is_tokenizer(call.func) and not (call.args and _is_literal_text(source, call.args[0]))
        if not origins.is_measured(source, unparse(given["max_length"]))
    ]


def _untruncated(source: Source, call: ast.Call) -> Location | None:
    given = (each for each in call.keywords if each.arg in ("truncation", "truncation_strategy"))
    return next((source.location(each) for each in given), None)


def _may_truncate(given: Mapping[str | None, ast.expr]) -> bool:
    """Whether the keywords of a call may ask for truncation: they do not if they say that there is none."""
    asked = [given[name] for name in ("truncation", "truncation_strategy") if name in given]
    # Padding to the longest row without truncation keeps all tokens on purpose; `max_length` does nothing then.
    is_meant = bool(asked) and not _is_constant(given["padding"], "max_length")
    return None in given or is_meant or any(not _is_constant(node, False, "do_not_truncate") for node in asked)


def _is_constant(node: ast.expr, *values: object) -> bool:
    return isinstance(node, ast.Constant) and node.value in values


def _is_tokenizer(node: ast.expr) -> bool:
    """Whether code is that of a tokenizer, or of its method that encodes texts."""
    match node:
        case ast.Attribute(value=owner, attr="encode" | "encode_plus" | "batch_encode_plus" | "__call__"):
            return "tok" in unparse(owner).lower()
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name.lower().endswith(("tokenizer", "tok"))
        case _:
            return False


def _is_literal_text(source: Source, node: ast.expr) -> bool:
    """Whether a text is written in the code, such as the empty prompt of a diffusion model, or bound to one that is."""
    match node:
        case ast.Constant():
            return True
        case ast.List(elts=texts) | ast.Tuple(elts=texts):
            return all(isinstance(each, ast.Constant) for each in texts)
        case ast.BinOp(left=text, op=ast.Mult()):
            return _is_literal_text(source, text)
        case ast.Name(id=name):
            bound = [each.value for each in source.nodes_of(ast.Assign) if _binds(each, name)]
            return any(not isinstance(value, ast.Name) and _is_literal_text(source, value) for value in bound)
        case _:
            return False


def _binds(node: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in node.targets)
