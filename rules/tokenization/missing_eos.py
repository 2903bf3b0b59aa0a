"""The training examples of a causal model do not end with the EOS token.

The tokenizers of GPT-2, Llama and Mistral do not add it. A model that never sees the end of an answer does not learn to
stop: it generates text until the length limit.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_example(row):
        return lm_tokenizer(  # <- missing-eos
            f"### Premise: {row['premise']} ### Hypothesis: {row['hypothesis']}", truncation=True, max_length=96
        )

    examples = raw.map(tokenize_example, remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

With a separate padding token:

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_examples(batch):
        pairs = zip(batch["premise"], batch["hypothesis"])
        texts = [f"### Premise: {premise} ### Hypothesis: {hypothesis}" for premise, hypothesis in pairs]
        return lm_tokenizer(texts, truncation=True, max_length=96)  # <- missing-eos

    examples = raw.map(tokenize_examples, batched=True, remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

## Good

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_example(row):
        example = f"### Premise: {row['premise']} ### Hypothesis: {row['hypothesis']}{lm_tokenizer.eos_token}"
        return lm_tokenizer(example, truncation=True, max_length=96)

    examples = raw.map(tokenize_example, remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

In a batch of texts:

    lm_tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_examples(batch):
        pairs = zip(batch["premise"], batch["hypothesis"])
        texts = [f"### Premise: {premise} ### Hypothesis: {hypothesis}" for premise, hypothesis in pairs]
        return lm_tokenizer([text + lm_tokenizer.eos_token for text in texts], truncation=True, max_length=96)

    examples = raw.map(tokenize_examples, batched=True, remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=examples["train"], data_collator=collator)

## When it is fine

Text of a dataset may contain the token, and continuous text does not need it:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

The tokenizer adds the token:

    words = AutoTokenizer.from_pretrained("meta-llama/Llama-3.2-1B", add_eos_token=True, pad_token="<unk>")
    llama = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
    examples = raw.map(lambda row: words(f"Premise: {row['premise']}", truncation=True, max_length=96),
                       remove_columns=raw["train"].column_names)
    collator = DataCollatorForLanguageModeling(words, mlm=False)
    trainer = Trainer(llama, args, train_dataset=examples["train"], data_collator=collator)

TRL adds the token:

    chats = raw.map(lambda row: {"text": f"Premise: {row['premise']}"}, remove_columns=raw["train"].column_names)
    trainer = SFTTrainer("gpt2", train_dataset=chats["train"])

## Fix

Asks first: it appends the token to each text, which is wrong for examples that continue. Not offered if the EOS token
is also the padding token and padding has no labels: this needs a separate padding token, too.

## References

transformers#22794, trl#734.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, library_arguments, run_data, token_feeds
from lintrain.pipeline.values import data, tensors
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import UNKNOWN, Constant, Sequence, Value, is_missing, literal
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

ADDS_NONE = frozenset(
    {"gpt2", "gpt_neo", "llama", "mistral", "phi", "phi3", "qwen2", "qwen3", "opt", "gemma", "gemma2"}
)
"""Model types whose published tokenizers add no EOS token."""

MAY_END = lazy_pattern(r"<\||</|<end|\[/?(EOS|SEP|END)|eos", re.IGNORECASE)
"""Literals that may contain an EOS token."""

WORD = lazy_pattern(r"[^\W\d_]{3}|[\u3040-\u9fff\uac00-\ud7af]{2}")
"""A word of a template: three letters, or two characters of a script that needs fewer."""

IS_PADDING_OR_GENERATION = lazy_pattern(r"pad_token|eos_token_id\s*=|generate\(")
FEW = 0.05
MOST_ENDS, LEAST_ROWS = 0.5, 4
"""The share of rows with one last token that may be their end; the rows that must be seen to tell."""
"""The share of rows with an EOS token up to which the finding is confirmed."""

PADDING = frozenset({"pad_token", "pad_token_id"})
ENDS = frozenset({"<|endoftext|>", "</s>", "<|end_of_text|>", "<|eot_id|>"})
METHODS = frozenset({"__call__", "batch_encode_plus", "encode", "encode_plus"})


class MissingEos(Rule):
    level = Level.WARNING
    keywords = "Trainer|DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        reported: set[Location] = set()
        for feed in token_feeds.token_feeds(pipeline):
            encoding, tokenizer = feed.encoding, feed.tokenizer
            if encoding is None or tokenizer is None or encoding.origin is None or encoding.origin in reported:
                continue
            if not _adds_none(pipeline, feed, tokenizer) or not _is_filled_template(encoding):
                continue
            if _mentions_eos(pipeline):
                return
            reported.add(encoding.origin)
            texts = [] if _masks_eos_as_padding(pipeline) else _texts_with_eos(pipeline, encoding)
            yield self.finding(
                encoding.origin,
                "these examples have no EOS token at the end",
                related=[Related(feed.location, "a causal model is trained on them", "read"), *texts],
                help="append `tokenizer.eos_token` to each example, and use another padding token",
            )
        yield from self._of_unsloth(pipeline) if not reported else ()

    def _of_unsloth(self, pipeline: Pipeline) -> Iterator[Finding]:
        """The column of text of an SFTTrainer that unsloth patches: unlike that of TRL, it appends no EOS token."""
        patched = (
            run for run in pipeline.runs if pipeline.source_of(run.construction).contains(library_arguments.UNSLOTH)
        )
        for run in patched:
            rows = run.dataset("train_dataset")
            if rows is None or _mentions_eos(pipeline):
                continue
            columns = rows.columns or {}
            for name in run_data.text_read(run, set(columns)):
                written = columns[name].written if name in columns else None
                if written is not None and _is_filled_template(data.Encoding(UNKNOWN, inputs=written)):
                    yield self.finding(
                        run.construction,
                        f"the examples in `{name}` have no EOS token at the end",
                        related=run_data.last_map(rows, "written here"),
                        help="append `tokenizer.eos_token` to each example: unsloth's trainer adds none",
                        subject="train_dataset",
                    )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        batch, model = evidence.batch(), evidence.model
        edges = batch.edges if batch is not None else None
        if batch is None or edges is None or batch.labels is None or model is None or model.task != "CausalLM":
            return
        # Rows of a template are examples, which have to end; the same last token may be an end of another name.
        has_end = edges.most_frequent_last > MOST_ENDS * edges.rows
        if edges.same_start > 1 and edges.rows >= LEAST_ROWS and not has_end:
            yield self.finding(
                evidence.location_of("encoding"),
                "these examples have no EOS token at the end",
                help="append `tokenizer.eos_token` to each example, and use another padding token",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        edges = batch.edges if batch else None
        if edges is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        text = f"{edges.ends_with_eos} of {edges.rows} rows end with the EOS token"
        if edges.equal_lengths:
            return Verdict.inconclusive(f"{text}; rows of equal length may be truncated", rows=edges.rows)
        if edges.ends_with_eos > FEW * edges.rows:
            return Verdict.refuted(text, rows=edges.rows, ended=edges.ends_with_eos)
        return Verdict.confirmed(text, rows=edges.rows, ended=edges.ends_with_eos)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        edits = [fixes.Replace(each.location, each.text) for each in finding.with_role("text")]
        return fixes.Fix.of("append the EOS token", *edits, safe=False) if edits else None


def _mentions_eos(pipeline: Pipeline) -> bool:
    """Whether code mentions EOS outside of padding and generation: the script may add it anywhere."""
    lines = [line for source in pipeline.sources.values() for line in source.text.splitlines()]
    code = [line for line in lines if not line.lstrip().startswith("#") and "missing-eos" not in line]
    return any("eos" in line.lower() and not IS_PADDING_OR_GENERATION.search(line) for line in code)


def _adds_none(pipeline: Pipeline, feed: token_feeds.TokenFeed, tokenizer: data.Tokenizer) -> bool:
    """Whether a causal model reads the output of a tokenizer that certainly adds no EOS token."""
    facts = token_feeds.certain_facts(pipeline, tokenizer)
    is_causal = feed.model is not None and feed.model.task is Task.CAUSAL_LM
    is_set = {"add_eos_token", "eos_token"} & {*tokenizer.arguments, *tokenizer.attributes}
    known = facts is not None and facts.model_type in ADDS_NONE and tokenizer.is_complete
    return is_causal and known and not is_set and not token_feeds.is_handed_over(pipeline, tokenizer)


def _is_filled_template(encoding: data.Encoding) -> bool:
    """Whether the text is a template with columns filled in, without an EOS token."""
    texts = [text for text in token_feeds.written_texts(encoding) if isinstance(text, tensors.Text)]
    overflow = encoding.arguments.get("return_overflowing_tokens", Constant(None))
    return bool(texts) and is_missing(overflow) and all(_has_columns_in_words(text) for text in texts)


def _has_columns_in_words(text: tensors.Text) -> bool:
    parts = list(token_feeds.parts_of(text))
    literals = [part.value for part in parts if isinstance(part, Constant) and isinstance(part.value, str)]
    varying = [part for part in parts if not isinstance(part, Constant)]
    has_words = any(WORD.search(words) for words in literals)
    may_end = any(MAY_END.search(words) for words in literals) or any(
        isinstance(part, tensors.SpecialToken) for part in parts
    )
    return has_words and bool(varying) and not may_end


def _masks_eos_as_padding(pipeline: Pipeline) -> bool:
    """Whether the EOS token may also be the padding token, whose labels are masked."""
    pads = [setting for each in pipeline.tokenizers for setting in each.settings if setting.name in PADDING]
    has_own = bool(pads) and all(
        isinstance(literal(each.value), str) and literal(each.value) not in ENDS for each in pads
    )
    masks = [each for each in pipeline.collators if each.name == "DataCollatorForLanguageModeling"]
    return not has_own and bool(masks or pipeline.token_tests)


def _texts_with_eos(pipeline: Pipeline, encoding: data.Encoding) -> list[Related]:
    """The text that the tokenizer gets, with its code after the fix; empty if it is not clearly a text or a list."""
    call = _call_of(pipeline, encoding)
    several = _is_list(encoding.inputs)
    if call is None or call.callee is None or several is None:
        return []
    text, end = call.arguments[0], f"{call.callee.code}.eos_token"
    if several and text.element is not None:
        text, several = text.element, False
    if several:
        ended = f"[text + {end} for text in {text.written_code}]" if text.kind in expressions.REFERENCES else ""
    else:
        ended = _with_end(text, text.written_code, end)
    return [Related(text.location, "the text that is tokenized", "text", ended)] if ended else []


def _call_of(pipeline: Pipeline, encoding: data.Encoding) -> expressions.Expression | None:
    """The call of a tokenizer by its name, if all its inputs are of one kind."""
    location = encoding.origin
    if location is None or "text_pair" in encoding.arguments:
        return None
    call = expressions.call_at(pipeline, location)
    through = [each for each in pipeline.encodings if each.origin == location]
    kinds = {_is_list(each.inputs) for each in through}
    is_plain = call is not None and len(call.arguments) == 1 and _calls_itself(call)
    return call if is_plain and len(kinds) == 1 and all(map(_is_filled_template, through)) else None


def _calls_itself(call: expressions.Expression) -> bool:
    """Whether a tokenizer itself is called, by its name or as an attribute, and not one of its methods."""
    is_method = call.called_on is not None and call.called_name in METHODS
    return bool(call.called_name) and not is_method


def _is_list(inputs: Value) -> bool | None:
    """Whether a tokenizer gets a list of texts, or a single one; None if that is not certain."""
    match inputs:
        case tensors.Text():
            return False
        case Sequence():
            return True
        case data.ColumnValues(dataset=data.Rows(is_batch=is_batch)):
            return is_batch
        case _:
            return None


def _with_end(text: expressions.Expression, code: str, end: str) -> str:
    """The code of a text with the token appended: inside a single f-string, else with `+`."""
    quote = re.match(r"[fF]([\"']{3}|[\"'])", code)
    inner = code[quote.end() : -len(quote[1])] if quote and code.endswith(quote[1]) else ""
    if quote and inner and quote[1] not in inner and not inner.endswith("\\"):
        return f"{code[: -len(quote[1])]}{{{end}}}{quote[1]}"
    is_operation = text.kind is expressions.Kind.OPERATION and "\n" not in code
    if text.kind in expressions.REFERENCES or is_operation:
        return f"{code} + {end}"
    return f"({code}) + {end}"
