"""Text that already starts with the BOS token gets a second one from the tokenizer.

Most chat templates write the BOS token into the text, and the tokenizer then adds another one. The model was never
trained on such sequences. No error is raised, and the prompts in generation differ from the training data.

`SFTTrainer` tokenizes a column of text with special tokens, and a column of conversations without. Labels of Whisper
start with the token that the model puts in front of them itself; a collator that looks for `bos_token_id`, which is
another token there, leaves it in.

## Bad

    tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-3.2-1B", add_bos_token=True, pad_token="<unk>")
    lm = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
    tokenizer.chat_template = "{{ bos_token }}{% for turn in messages %}{{ turn['content'] }}{% endfor %}"

    def tokenize_turn(row):
        chat = tokenizer.apply_chat_template([{"role": "user", "content": row["text"]}], tokenize=False)
        return tokenizer(chat, truncation=True, max_length=64)  # <- double-bos

    turns = text.map(tokenize_turn, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=turns["train"], data_collator=collator)

## Good

    tokenizer = AutoTokenizer.from_pretrained("meta-llama/Llama-3.2-1B", add_bos_token=True, pad_token="<unk>")
    lm = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.2-1B")
    tokenizer.chat_template = "{{ bos_token }}{% for turn in messages %}{{ turn['content'] }}{% endfor %}"

    def tokenize_turn(row):
        chat = tokenizer.apply_chat_template([{"role": "user", "content": row["text"]}], tokenize=False)
        return tokenizer(chat, truncation=True, max_length=64, add_special_tokens=False)

    turns = text.map(tokenize_turn, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=turns["train"], data_collator=collator)

## When it is fine

The tokenizer of GPT-2 adds no BOS token:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_line(row):
        return lm_tokenizer(lm_tokenizer.bos_token + row["text"], truncation=True, max_length=64)

    lines = text.map(tokenize_line, remove_columns=["text"])
    collator = DataCollatorForSeq2Seq(lm_tokenizer)
    trainer = Trainer(lm, args, train_dataset=lines["train"].map(lambda row: {"labels": row["input_ids"]}),
                      data_collator=collator)

An unknown template may not contain the BOS token:

    import sys

    lm_tokenizer = AutoTokenizer.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "gpt2")

    def tokenize_turn(row):
        chat = lm_tokenizer.apply_chat_template(row["messages"], tokenize=False)
        return lm_tokenizer(chat, truncation=True)

## Fix

Safe: the text already contains the token, and no model is trained with two of them.

## References

OpenRLHF#393, DeepSeek-R1#151; Transformers documentation, "Chat templates".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import padded_labels, run_data, script_text, speech_labels, token_feeds
from lintrain.pipeline.values.data import ColumnValues, Encoding, Kind, Tokenizer
from lintrain.pipeline.values.python import Constant, Value, is_missing, is_true, literal, text_of
from lintrain.pipeline.values.tensors import SpecialToken, Templated
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

ADDS_BOS = frozenset({"gemma", "gemma2", "llama", "mistral"})
"""Model types whose published tokenizers add the BOS token to every text."""

TEMPLATE_HAS_BOS = lazy_pattern(
    r"^(?:(?:meta-llama/.*|unsloth/.*llama.*)(?:chat|Instruct)|(?:mistralai/.*|unsloth/mi[sx]tral.*)Instruct"
    r"|(?:google|unsloth)/(?:code|med)?gemma.*-it\b)",
    re.IGNORECASE,
)
"""Checkpoints whose chat templates contain the BOS token, and whose tokenizers add one to every text."""

BOS_TEXTS: dict[str, tuple[str, ...]] = {
    "gemma": ("<bos>",),
    "gemma2": ("<bos>",),
    "llama": ("<s>",),
    "mistral": ("<s>",),
}
"""The text of the BOS token by model type."""

LLAMA_3 = re.compile(r"llama-?3", re.IGNORECASE)
"""Names of checkpoints whose BOS token is `<|begin_of_text|>`."""

DROPS_FIRST = r"\[(:, ?)?1:\]"
"""Code that may remove the first token of a row."""

WHISPER = r"\bWhisper(?:Processor|Tokenizer|ForConditionalGeneration)|openai/whisper"

FEW = 0.05
"""The share of rows with two BOS tokens above which the finding is confirmed."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the tokenizer call already has the argument `add_special_tokens`."""

    is_given: bool


class DoubleBos(Rule[Claim]):
    level = Level.WARNING
    keywords = "okeniz|rocessor"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"bos_token|apply_chat_template") or any(
            text in source.text for texts in BOS_TEXTS.values() for text in texts
        )

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if script_text.mentions(pipeline, WHISPER):
            yield from map(self._of_labels, padded_labels.compared_with_bos(pipeline.source))
            yield from one_per_location(map(self._of_kept_labels, speech_labels.kept_start_tokens(pipeline)))
        if script_text.mentions(pipeline, DROPS_FIRST):
            return
        reported: set[Location] = set()
        for encoding in pipeline.encodings:
            tokenizer = encoding.tokenizer
            if not isinstance(tokenizer, Tokenizer) or encoding.origin is None or encoding.origin in reported:
                continue
            opening = _opening(pipeline, encoding, tokenizer)
            if opening is None or not _adds_bos(pipeline, encoding, tokenizer):
                continue
            reported.add(encoding.origin)
            written = [Related(opening.origin, "the text gets its BOS token here", "written")] if opening.origin else []
            yield self.finding(
                encoding.origin,
                "the text starts with the BOS token, and the tokenizer adds a second one",
                related=written,
                help="pass `add_special_tokens=False`: the text already has its special tokens",
                claim=Claim("add_special_tokens" in encoding.arguments),
            )

        for run in pipeline.runs:
            yield from self._of_texts(pipeline, run)
        yield from one_per_location(self._of_parts(pipeline))

    def _of_parts(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The token ids of two parts of one text that are joined, where both parts got a BOS token."""
        for joined in pipeline.arithmetic.values():
            first, second = _encoding_of(joined.left), _encoding_of(joined.right)
            if joined.operator != "Add" or first is None or second is None or second.origin is None:
                continue
            tokenizer = second.tokenizer
            if not isinstance(tokenizer, Tokenizer) or not _adds_bos(pipeline, second, tokenizer):
                continue
            yield self.finding(
                second.origin,
                "this part gets a BOS token of its own, and is joined to another one",
                related=[Related(joined.location, "joined here", "written")],
                help="pass `add_special_tokens=False` for each part but the first",
                subject="parts",
                claim=Claim("add_special_tokens" in second.arguments),
            )

    def _of_labels(self, location: Location) -> Finding[Claim]:
        return self.finding(
            location,
            "labels of Whisper do not start with `bos_token_id`, so the start token stays in them",
            help="compare with `model.config.decoder_start_token_id`",
        )

    def _of_kept_labels(self, location: Location) -> Finding[Claim]:
        return self.finding(
            location,
            "labels of Whisper keep their start token, which the model puts in front again",
            help="drop it in the collator where all rows start with `model.config.decoder_start_token_id`",
            subject="labels",
        )

    def _of_texts(self, pipeline: Pipeline, run: TrainerRun) -> Iterator[Finding[Claim]]:
        """A column of text that SFTTrainer tokenizes itself, and that the script wrote by a template."""
        rows, given = run.dataset("train_dataset"), run.value("processing_class")
        tokenizer = given if isinstance(given, Tokenizer) else run.value("tokenizer")
        columns = (rows.columns or {}) if rows is not None and not rows.may_differ else {}
        for name in run_data.text_read(run, set(columns)):
            written = columns[name].written if name in columns else None
            if written is None or not isinstance(tokenizer, Tokenizer) or run.overrides:
                continue
            encoding = Encoding(tokenizer, inputs=written)
            opening = _opening(pipeline, encoding, tokenizer)
            if opening is not None and opening.origin is not None and _adds_bos(pipeline, encoding, tokenizer):
                yield self.finding(
                    opening.origin,
                    f"this writes the BOS token into `{name}`, and {run.name} adds a second one",
                    related=[Related(run.construction, "tokenizes the text with special tokens", "written")],
                    help="pass a column `messages`, for which the trainer applies the template itself",
                    subject="train_dataset",
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.batch() is not None:
            yield self.finding(
                evidence.location,
                "the rows of the batch start with two BOS tokens",
                help="pass `add_special_tokens=False` where the text has its own",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        edges = batch.edges if batch else None
        if edges is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        text = f"{edges.starts_with_two_bos} of {edges.rows} rows start with two BOS tokens"
        if edges.starts_with_two_bos > FEW * edges.rows:
            return Verdict.confirmed(text, rows=edges.rows, doubled=edges.starts_with_two_bos)
        return Verdict.refuted(text, rows=edges.rows, doubled=edges.starts_with_two_bos)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.subject in {"train_dataset", "labels"}:
            return None
        edit: fixes.AddArgument | fixes.RenameArgument = fixes.AddArgument(
            finding.location, "add_special_tokens", "False"
        )
        if finding.claim is not None and finding.claim.is_given:
            edit = fixes.RenameArgument(finding.location, "add_special_tokens", "add_special_tokens", "False")
        return fixes.Fix.of("pass `add_special_tokens=False`", edit, safe=True)


def _encoding_of(value: Value) -> Encoding | None:
    """The call of a tokenizer that gave these token ids."""
    if not isinstance(value, ColumnValues) or value.column.kind is not Kind.TOKENS or value.stretch:
        return None
    return value.dataset if isinstance(value.dataset, Encoding) else None


def _adds_bos(pipeline: Pipeline, encoding: Encoding, tokenizer: Tokenizer) -> bool:
    """Whether this call certainly adds the BOS token."""
    given = encoding.arguments.get("add_special_tokens", Constant(True))
    if "**" in encoding.arguments or not (is_true(given) or is_missing(given)):
        return False
    setting = tokenizer.attributes.get("add_bos_token", tokenizer.arguments.get("add_bos_token"))
    if setting is not None:
        return is_true(setting)
    facts, name = token_feeds.certain_facts(pipeline, tokenizer), text_of(tokenizer.checkpoint)
    is_known = facts is not None and facts.model_type in ADDS_BOS
    return tokenizer.is_complete and (is_known or (name is not None and TEMPLATE_HAS_BOS.match(name) is not None))


def _opening(pipeline: Pipeline, encoding: Encoding, tokenizer: Tokenizer) -> Value | None:
    """The value that puts the BOS token at the start of the tokenized text; None if nothing certainly does."""
    facts = token_feeds.certain_facts(pipeline, tokenizer)
    written = BOS_TEXTS.get((facts.model_type or "") if facts else "", ())
    if facts is not None and facts.model_type == "llama" and LLAMA_3.search(text_of(tokenizer.checkpoint) or ""):
        written = ("<|begin_of_text|>",)
    for text in token_feeds.written_texts(encoding):
        match token_feeds.opening_of(text):
            case SpecialToken(name="bos_token", owner=owner) as token if owner is tokenizer:
                return token
            case Templated(owner=owner) as chat if owner is tokenizer and _template_has_bos(tokenizer):
                return chat
            case Constant(value=str(start)) if written and start.lstrip().startswith(written):
                return text
            case _:
                pass
    return None


def _template_has_bos(tokenizer: Tokenizer) -> bool:
    template = tokenizer.attributes.get("chat_template", tokenizer.arguments.get("chat_template"))
    if template is not None:
        text = literal(template)
        return isinstance(text, str) and re.match(r"\s*\{\{-?\s*bos_token\s*-?\}\}", text) is not None
    name = literal(tokenizer.checkpoint)
    return isinstance(name, str) and TEMPLATE_HAS_BOS.match(name) is not None
