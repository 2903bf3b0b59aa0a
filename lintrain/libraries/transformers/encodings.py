"""Tokenizers and collators of transformers: which columns their calls give, and how these are padded and cut."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    called,
    family,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.libraries.huggingface_hub import downloaded
from lintrain.libraries.transformers.generated import holds_prompt
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Column, ColumnValues, Dataset, Encoding, Kind, Padding, Rows, Tokenizer
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Either,
    Mapping,
    Sequence,
    Unknown,
    Value,
    is_missing,
    is_true,
    join,
    number_of,
    options_of,
    text_of,
)
from lintrain.pipeline.values.tensors import (
    SPECIAL_TOKENS,
    Generated,
    SpecialToken,
    Templated,
    TemplatedTokens,
    Text,
    TokenSetting,
)
from lintrain.startup.lazy_pattern import lazy_pattern

INPUTS = ("text", "text_pair", "text_target", "text_pair_target")

EXTRAS = {
    "return_offsets_mapping": "offset_mapping",
    "return_special_tokens_mask": "special_tokens_mask",
    "return_length": "length",
    "return_overflowing_tokens": "overflow_to_sample_mapping",
}
"""The columns that a switch adds."""


@called(Tokenizer)
@method(Tokenizer, "__call__", "encode_plus", "batch_encode_plus")
def encode(call: Call) -> Value:
    """`tokenizer(text, ...)`: an encoding."""
    if not isinstance(call.receiver, Tokenizer):
        return UNKNOWN
    arguments = call.values(*INPUTS)
    if "batch_text_or_text_pairs" in arguments:
        arguments.setdefault("text", arguments["batch_text_or_text_pairs"])
    # A processor passes such options to a tokenizer and to the processor of images, each with defaults of its own.
    is_plain = not call.receiver.is_processor
    padding = padding_of(call) if is_plain or not is_missing(call.value("padding")) else Padding.UNKNOWN
    truncated = truncation_of(call, padding) if is_plain else None
    max_length = number_of(call.value("max_length"))
    limit = int(max_length) if max_length is not None else None
    encoding = Encoding(
        call.receiver,
        padding=padding,
        truncated=truncated,
        max_length=limit,
        inputs=arguments.get("text", UNKNOWN),
        arguments=arguments,
        returns_tensors=not is_missing(call.value("return_tensors")),
        is_complete=not call.is_open and "**" not in call.keywords and is_plain,
        text=call.text,
        depth=len(call.reader.conditions),
        origin=call.location,
    )
    if is_plain or "text" in call.keywords:
        encoding.columns = _columns(call, encoding)
    call.reader.record.encodings.append(encoding)
    _note_text(call, arguments)
    return encoding


def _columns(call: Call, encoding: Encoding) -> dict[str, Column]:
    arguments = encoding.arguments
    like = Column(
        "",
        padding=encoding.padding,
        truncated=encoding.truncated,
        max_length=encoding.max_length,
        source="tokenizer",
        made_by=encoding,
        is_stacked=_stacks(encoding),
    )

    def tokens(name: str, kind: Kind = Kind.TOKENS) -> Column:
        return replace(like, name=name, kind=kind)

    columns: dict[str, Column] = {}
    target = arguments.get("text_target", Constant(None))
    has_text = not is_missing(arguments.get("text", Constant(None)))
    if has_text or not is_missing(target):
        columns = {"input_ids": tokens("input_ids"), "attention_mask": tokens("attention_mask", Kind.MASK)}
    if has_text and not is_missing(target):
        columns["labels"] = tokens("labels")
    for switch, name in EXTRAS.items():
        if not is_missing(given := call.value(switch)) and not (isinstance(given, Constant) and not given.value):
            # A switch that is not known (`return_length=args.lengths`) counts as on: a column too many is looked up by
            # none, one too few would be reported as missing.
            columns[name] = Column(name, Kind.MASK if name == "special_tokens_mask" else Kind.UNKNOWN)
    return columns


def _stacks(encoding: Encoding) -> bool:
    """Whether a call gives tensors [1, tokens] for one text: not those of a batch of rows."""
    wanted = encoding.arguments.get("return_tensors")
    text = encoding.inputs
    # `return_tensors="pt"` on one text gives [1, tokens]. Collated from such rows, a batch has an axis too many.
    is_batch = not isinstance(text, ColumnValues) or not isinstance(text.dataset, Rows) or text.dataset.is_batch
    # Every option has to be one text: with a list among them the result may be a batch.
    is_single = all(_is_one_text(option) for option in options_of(text)) or not is_batch
    return isinstance(wanted, Constant) and isinstance(wanted.value, str) and not wanted.default and is_single


def _is_one_text(value: Value) -> bool:
    return isinstance(value, Unknown | Text) or text_of(value) is not None


def padding_of(call: Call) -> Padding:
    """How far a tokenizer call pads; `pad_to_max_length=True` is the old spelling."""
    if is_true(call.value("pad_to_max_length")):
        return Padding.FIXED
    given = call.value("padding")
    if isinstance(given, Absent):
        # `**options` may hold the padding, which must not be reported as missing then.
        return Padding.UNKNOWN if call.is_open or "**" in call.keywords else Padding.NONE
    # The default of an option of the command line is no decision: the user may pass another value.
    if not isinstance(given, Constant) or given.default:
        return Padding.UNKNOWN
    if isinstance(given.value, bool):
        return Padding.LONGEST if given.value else Padding.NONE
    known = {"longest": Padding.LONGEST, "max_length": Padding.FIXED, "do_not_pad": Padding.NONE, None: Padding.NONE}
    return known.get(given.value, Padding.UNKNOWN) if isinstance(given.value, str | None) else Padding.UNKNOWN


def truncation_of(call: Call, padding: Padding) -> bool | None:
    """Whether a tokenizer call cuts; `max_length` alone does so where no padding is asked for."""
    given = call.value("truncation")
    if isinstance(given, Absent):
        if call.is_open or "**" in call.keywords:
            return None
        limit = call.value("max_length")
        if is_missing(limit):
            return False
        # transformers takes `max_length` without padding as a wish to cut, with a warning. Beside padding it
        # says only how far to pad.
        return {Padding.NONE: True, Padding.UNKNOWN: None}.get(padding, False)
    if not isinstance(given, Constant) or given.default:
        return None
    return given.value not in {False, None, "do_not_truncate"}


def _note_text(call: Call, arguments: dict[str, Value]) -> None:
    """A column that is handed to a tokenizer holds text."""
    for name in INPUTS:
        _note_column(call, arguments.get(name, UNKNOWN))


def _note_column(call: Call, value: Value) -> None:
    match value:
        case (
            ColumnValues(column=column, dataset=Rows(dataset=Dataset() as dataset))
            | ColumnValues(column=column, dataset=Dataset() as dataset)
        ):
            # A column that is known to hold something else keeps its kind.
            if column.kind in {Kind.TEXT, Kind.UNKNOWN}:
                dataset.read_as_text.setdefault(column.name, call.location)
        case Sequence(items=items) | Text(parts=items):
            # A bound for a long list of texts in the script: its first items say what the others are.
            for item in items[:4]:
                _note_column(call, item)
        case Either(options=options):
            for option in options:
                _note_column(call, option)
        case _:
            pass


@method(Tokenizer, "encode")
def _ids(call: Call) -> Value:
    """`tokenizer.encode(text)`: the token ids alone."""
    encoding = encode(call)
    ids = encoding.columns.get("input_ids") if isinstance(encoding, Encoding) else None
    return UNKNOWN if ids is None else ColumnValues(ids, encoding)


@method(Tokenizer, "pad")
def _pad(call: Call) -> Value:
    """`tokenizer.pad(rows)`: the same columns, padded; by default to the longest row."""
    given = call.argument("padding")
    padding = padding_of(call) if given or call.is_open else Padding.LONGEST
    held = call.value("encoded_inputs", 0)
    # A list of encodings has the columns of each of them.
    source = held.items[0] if isinstance(held, Sequence) and held.items else held
    known = source.columns if isinstance(source, Rows | Encoding) else {}
    columns = {
        name: Column(name, column.kind, padding=padding, source="tokenizer.pad")
        for name, column in known.items()
        if column.kind in {Kind.TOKENS, Kind.MASK}
    }
    return Encoding(
        call.receiver, columns, padding=padding, is_complete=False, text=call.text, origin=call.location, inputs=source
    )


@method(Tokenizer, "apply_chat_template")
def _apply_chat_template(call: Call) -> Value:
    """Token ids; text with `tokenize=False`; by the version or `return_dict`, a dictionary of columns."""
    tokenize, wanted = call.value("tokenize"), call.value("return_dict")
    written = Templated(
        owner=call.receiver,
        adds_prompt=call.value("add_generation_prompt"),
        goes_on=call.value("continue_final_message"),
        last_role=_last_role(call.value("conversation", 0)),
        origin=call.location,
    )
    if isinstance(tokenize, Constant) and tokenize.value is False and not tokenize.default:
        return ColumnValues(Column("", Kind.TEXT, written=written), origin=call.location)
    padding = padding_of(call)
    truncated = truncation_of(call, padding)
    source = "apply_chat_template"
    ids = Column("input_ids", Kind.TOKENS, padding=padding, truncated=truncated, source=source, written=written)
    encoding = Encoding(
        call.receiver,
        {"input_ids": ids, "attention_mask": Column("attention_mask", Kind.MASK, padding=padding)},
        padding=padding,
        truncated=truncated,
        inputs=call.value("conversation", 0),
        arguments=call.values("conversation"),
        is_complete=False,
        text=call.text,
        depth=len(call.reader.conditions),
        origin=call.location,
    )
    call.reader.record.encodings.append(encoding)
    # Without `return_dict` older versions give a list of ids and newer ones a dictionary (transformers 5).
    if is_true(wanted):
        return encoding
    may_be_text = call.is_open or isinstance(tokenize, Unknown)
    return UNKNOWN if may_be_text else TemplatedTokens(text_of=written, origin=call.location)


def _last_role(conversation: Value) -> Value:
    """The role of the last message of a conversation that is written in the script."""
    last = conversation.items[-1] if isinstance(conversation, Sequence) and conversation.items else UNKNOWN
    is_known = isinstance(conversation, Sequence) and conversation.is_complete and isinstance(last, Mapping)
    return last.entries.get("role", UNKNOWN) if is_known and isinstance(last, Mapping) else UNKNOWN


MADE = lazy_pattern(r"transformers\.\w*(?:Tokenizer(?:Fast)?|Processor|FeatureExtractor)(?:\.from_pretrained)?$")


@family("transformers")
def _tokenizer(path: str) -> Transfer | None:
    return make_tokenizer if MADE.match(path) else None


def make_tokenizer(call: Call) -> Value:
    """`AutoTokenizer.from_pretrained(checkpoint)`."""
    is_loaded = call.path.endswith(".from_pretrained")
    made = Tokenizer(
        call.path.removesuffix(".from_pretrained"),
        downloaded(call.reader, call.value("pretrained_model_name_or_path", 0)) if is_loaded else UNKNOWN,
        call.values("pretrained_model_name_or_path") if is_loaded else call.values(),
        is_complete=not call.is_open and "**" not in call.keywords,
        depth=len(call.reader.conditions),
        origin=call.location,
    )
    for name, argument in call.keywords.items():
        if name in SPECIAL_TOKENS:
            made.settings.append(TokenSetting(name, argument.value, argument.keyword or argument.location))
        if name == "additional_special_tokens":
            made.additions.append(TokenSetting(name, argument.value, argument.keyword or argument.location))
    call.reader.record.tokenizers.append(made)
    return made


@stored_attribute_of(Tokenizer)
def _set(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`tokenizer.pad_token = ...`; one that may be skipped leaves it open."""
    if not isinstance(owner, Tokenizer):
        return
    before = owner.attributes.get(name, UNKNOWN)
    # A weak update: `if tokenizer.pad_token is None:` may skip it, so the value before stays possible.
    owner.attributes[name] = value if not reader.conditions else join([before, value])
    if name in SPECIAL_TOKENS:
        owner.settings.append(TokenSetting(name, value, location, tuple(reader.conditions[owner.depth :])))


@attribute_of(Tokenizer)
def _get(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    """What was set, or one unknown thing for each name, so that `pad_token = eos_token` can be followed."""
    if not isinstance(value, Tokenizer) or method_of(value, name) is not None:
        return None
    if name == "tokenizer" and value.is_processor:
        own = Tokenizer("transformers.AutoTokenizer", value.checkpoint, value.arguments, origin=value.origin)
        return value.attributes.setdefault(name, own)
    if name in SPECIAL_TOKENS:
        return SpecialToken(name=name, owner=value, origin=location)
    known = value.attributes.get(name, value.arguments.get(name))
    return known or dispatch.child(reader, value, name)


@method(Tokenizer, "add_special_tokens")
def _add_special_tokens(call: Call) -> Value:
    """`add_special_tokens({"pad_token": "[PAD]"})` sets attributes and grows the vocabulary."""
    tokenizer, given = call.receiver, call.value("special_tokens_dict", 0)
    if isinstance(tokenizer, Tokenizer):
        _add(call, tokenizer, given)
        entries = given.entries if isinstance(given, Mapping) else {"pad_token": UNKNOWN}
        for name, value in entries.items():
            _set(call.reader, tokenizer, str(name), value, call.location)
    return UNKNOWN


@method(Tokenizer, "add_tokens")
def _add_tokens(call: Call) -> Value:
    if isinstance(call.receiver, Tokenizer):
        _add(call, call.receiver, call.value("new_tokens", 0))
    return UNKNOWN


DECODED = frozenset({Role.LABELS, Role.LOGITS, Role.TOKENS})
"""What a Trainer gives that rules judge where it is decoded."""


@method(Tokenizer, "decode", "batch_decode")
def _decode(call: Call) -> Value:
    """Texts out of token ids: logits are none, and labels are not as long as -100 may be among them."""
    given = call.argument("sequences", 0) or call.argument("token_ids")
    if given is not None and isinstance(given.value, Tensor) and given.value.role in DECODED:
        made = Misuse(given.location, given.value, call.path.rpartition(".")[2], given.text)
        call.reader.record.misuses.append(made)
    if given is not None and holds_prompt(call.reader, given):
        text = Generated(origin=call.location)
        return text if call.path.endswith(".decode") else Sequence([text], "list", False, origin=call.location)
    return UNKNOWN


def _add(call: Call, tokenizer: Tokenizer, tokens: Value) -> None:
    conditions = tuple(call.reader.conditions[tokenizer.depth :])
    tokenizer.additions.append(TokenSetting("tokens", tokens, call.location, conditions))


@method(Tokenizer, "save_pretrained", "convert_tokens_to_ids", "convert_ids_to_tokens")
@method(Tokenizer, "get_vocab", "__len__", "tokenize", "as_target_tokenizer", "push_to_hub")
def _harmless(call: Call) -> Value:
    """What looks at a tokenizer and changes nothing."""
    return UNKNOWN
