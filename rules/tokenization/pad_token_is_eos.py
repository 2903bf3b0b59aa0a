"""The EOS token is also the padding token, and all padding is masked in the labels.

Every EOS token in the data loses its label, too, so the model never learns to stop. The loss looks normal, and
generated text continues until the length limit.

## Bad

    lm_tokenizer.pad_token = lm_tokenizer.eos_token  # <- pad-token-is-eos

    def tokenize_lines(batch):
        return lm_tokenizer([line + lm_tokenizer.eos_token for line in batch["text"]], truncation=True, max_length=64)

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

## Good

    lm_tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    lm.resize_token_embeddings(len(lm_tokenizer))

    def tokenize_lines(batch):
        return lm_tokenizer([line + lm_tokenizer.eos_token for line in batch["text"]], truncation=True, max_length=64)

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

## When it is fine

A collator that masks padding by its position keeps the label of the EOS token:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_lines(batch):
        rows = lm_tokenizer([line + lm_tokenizer.eos_token for line in batch["text"]], truncation=True, max_length=64)
        return {**rows, "labels": rows["input_ids"]}

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForSeq2Seq(lm_tokenizer)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

The tokenizer may already have a separate padding token:

    import sys

    lm_tokenizer = AutoTokenizer.from_pretrained(sys.argv[1] if len(sys.argv) > 1 else "gpt2")
    if lm_tokenizer.pad_token is None:
        lm_tokenizer.pad_token = lm_tokenizer.eos_token

    def tokenize_lines(batch):
        return lm_tokenizer([line + " " for line in batch["text"]], truncation=True, max_length=64)

    lines = text.map(tokenize_lines, batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)

TRL since version 0.16 masks padding by its position, and adds the token itself. An older `SFTTrainer`, which takes
`tokenizer` or `dataset_text_field`, masks every EOS token, whatever the text holds.

Text without an EOS token has no label to lose:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda batch: lm_tokenizer(batch["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"].select(range(1, 40)), data_collator=collator)

## Fix

Asks first: it adds a padding token and a row of the embedding for it, and a collator that masks by the attention mask
is an alternative. Offered if tokenizer and model are created in the same scope and not used before.

## References

transformers#23530, transformers#22794, trl#976; Transformers documentation, `DataCollatorForLanguageModeling`; TRL 0.15
and 0.16, `SFTTrainer.__init__`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import collators, expressions, script_text, speech_labels, token_feeds
from lintrain.analysis.run_data import OWN_LOADING
from lintrain.pipeline import blocks
from lintrain.pipeline.values.data import Collator, Tokenizer
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import is_missing, literal
from lintrain.pipeline.values.tensors import TokenSetting
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    fixes,
    lazy_pattern,
    one_per_location,
)

SFT = "trl.SFTTrainer"
OLD_SFT = frozenset({"tokenizer", "dataset_text_field", "max_seq_length", "packing"})
"""Arguments that `SFTTrainer` had only while its own collator was that of transformers: until TRL 0.15."""

PATCHES = r"(?m)^\s*(?:from|import) unsloth"
"""A library that lets newer versions of TRL take the old arguments."""

OTHER_ENDS = lazy_pattern(
    r"im_end|eot_id|end_of_turn|<\|end|apply_chat_template|chat_template\s*=|setup_chat|###? ?End|CompletionOnly"
)
"""Ends of a turn or an example by other names."""

OTHER_TURNS = lazy_pattern(r"gemma|phi-?[34]", re.IGNORECASE)
"""Models whose turns end with another token than EOS, which the text of a data set may hold."""

IGNORED = "-100"
SETS_PAD_ID = r"\.pad_token_id\s*=[^=]"
"""Code that sets the padding token of a model."""


WHISPER = r"\bWhisper(?:Processor|Tokenizer|ForConditionalGeneration)|openai/whisper"


def _pads_otherwise(pipeline: Pipeline) -> bool:
    """Whether a script certainly gives a tokenizer another padding token than its own."""
    settings = [
        setting for each in pipeline.tokenizers for setting in each.settings if setting.name in token_feeds.PAD_SETTINGS
    ]
    return any(not setting.conditions for setting in settings)


class PadTokenIsEos(Rule):
    level = Level.ERROR
    keywords = "pad_token"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if script_text.mentions(pipeline, WHISPER) and not _pads_otherwise(pipeline):
            yield from one_per_location(map(self._report_whisper, speech_labels.masked_ends(pipeline.source)))
        reported: set[Location] = set()
        for tokenizer in pipeline.tokenizers:
            setting = token_feeds.padding_by_eos(pipeline, tokenizer)
            written, unlabelled = _written_at(pipeline, tokenizer), _unlabelled_at(pipeline, tokenizer)
            if setting is None or written is None or unlabelled is None or setting.location in reported:
                continue
            reported.add(setting.location)
            yield self.finding(
                setting.location,
                "padding is the EOS token, so EOS tokens lose their labels",
                related=[
                    Related(written, "an EOS token is added to the data here", "eos token"),
                    Related(unlabelled, "padding tokens lose their labels here", "labels"),
                    *_statements(pipeline, tokenizer, setting),
                ],
                help="add a separate padding token and resize the embeddings, or mask labels by the attention mask",
            )

    def _report_whisper(self, location: Location) -> Finding:
        return self.finding(
            location,
            "padding of Whisper is its end token, so the end of each text loses its label",
            why="The tokenizer pads with it from the start. The model never learns where a text ends, and goes on "
            "writing after it. No error is raised.",
            help="mask by the attention mask: `labels.masked_fill(mask.ne(1), -100)`",
            subject="labels",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        batch, model = evidence.batch(), evidence.model
        edges, labels = (batch.edges, batch.labels) if batch is not None else (None, None)
        if batch is None or edges is None or labels is None or model is None or model.task != "CausalLM":
            return
        if batch.pad_is_eos and labels.supervised and 2 * edges.ends_with_eos > edges.rows:
            yield self.finding(
                evidence.location_of("padding", "collator"),
                "padding is the EOS token, so EOS tokens lose their labels",
                help="add a separate padding token and resize the embeddings, or mask labels by the attention mask",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch()
        if batch is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        labels = batch.labels
        if labels is None or not labels.eos_attended:
            return Verdict.inconclusive("the attended tokens of the batches contain no EOS token")
        text = f"{labels.eos_supervised} of {labels.eos_attended} EOS tokens have a label"
        if labels.eos_supervised:
            return Verdict.refuted(text, supervised=labels.eos_supervised, attended=labels.eos_attended)
        return Verdict.confirmed(text, supervised=0, attended=labels.eos_attended)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        added = [fixes.Replace(each.location, each.text) for each in finding.with_role("setting")]
        resized = [fixes.InsertAfter(each.location, each.text) for each in finding.with_role("model") if each.text]
        return fixes.Fix.of("add a separate padding token", *added, *resized, safe=False) if added else None


def _written_at(pipeline: Pipeline, tokenizer: Tokenizer) -> Location | None:
    """Where EOS tokens come into the data: a text, a tokenizer that adds them, or a trainer of TRL for examples.

    TRL adds the token or leaves out any: whatever the text of an example holds, its end has no label then. A chat has
    ends of other names.
    """
    written = token_feeds.location_in_data(pipeline, tokenizer, "eos")
    adds = tokenizer.arguments.get("add_eos_token")
    if written is None and adds is not None and literal(adds) is True:
        return tokenizer.origin
    name = literal(tokenizer.checkpoint)
    is_known = isinstance(name, str) and not OTHER_TURNS.search(name)
    if written is None and is_known and not script_text.mentions(pipeline, OTHER_ENDS):
        return next((run.construction for run in _sft_runs(pipeline, tokenizer) if run.train_calls), None)
    return written


def _sft_runs(pipeline: Pipeline, tokenizer: Tokenizer) -> Iterator[TrainerRun]:
    """The runs of TRL's `SFTTrainer` whose labels of padding are masked by its id."""
    for run in pipeline.runs:
        if run.path != SFT or run.overrides & OWN_LOADING or script_text.mentions(pipeline, PATCHES):
            continue
        collator = run.collator
        if isinstance(collator, Collator):
            masks = collators.masks_words(collator) is False and collators.tokenizer_of(collator) is tokenizer
        else:
            given = run.value("tokenizer"), run.value("processing_class")
            masks = is_missing(collator) and bool(run.arguments.keys() & OLD_SFT) and any(x is tokenizer for x in given)
        if masks:
            yield run


def _unlabelled_at(pipeline: Pipeline, tokenizer: Tokenizer) -> Location | None:
    """Where labels of padding are masked by its id: in the library's collator, or in the script."""
    for collation in collators.collations(pipeline):
        collator = collation.collator
        if collator is not None and collation.tokenizer is tokenizer and collators.masks_words(collator) is False:
            return collator.origin
    for run in _sft_runs(pipeline, tokenizer):
        return run.collator.origin if isinstance(run.collator, Collator) else run.construction
    for test in pipeline.token_tests:
        token = test.token
        if token.owner is tokenizer and token.name == "pad_token_id" and _masks_labels(pipeline, test.location):
            return test.location
    return None


def _masks_labels(pipeline: Pipeline, location: Location) -> bool:
    """Whether the line of a comparison masks labels."""
    line = pipeline.sources[location.path].text.splitlines()[location.line - 1]
    return IGNORED in line and "label" in line


def _statements(pipeline: Pipeline, tokenizer: Tokenizer, setting: TokenSetting) -> list[Related]:
    """The statements that add a padding token and resize, after both tokenizer and model are created."""
    statement = expressions.assignment_at(pipeline, setting.location)
    names = [each.name for each in pipeline.names_of(tokenizer)]
    model = pipeline.models[0] if len(pipeline.models) == 1 else None
    target = _name_of(pipeline, model) if model else None
    if model is None or model.origin is None or target is None or statement is None:
        return []
    if len(names) != 1 or len(tokenizer.settings) != 1:
        return []
    name, location = names[0], statement.location
    is_plain = statement.code == f"{name}.pad_token = {name}.eos_token"
    later = max(location, model.origin)
    if not is_plain or not blocks.is_one_scope(pipeline, location, model.origin) or _is_used_before(pipeline, later):
        return []
    resized = f"{target}.resize_token_embeddings(len({name}))"
    is_resized = _resizes(pipeline, later, resized)
    if is_resized is None or script_text.mentions(pipeline, SETS_PAD_ID):
        return []
    return [
        Related(location, "padding is set here", "setting", f'{name}.add_special_tokens({{"pad_token": "<|pad|>"}})'),
        Related(later, "tokenizer and model exist after this line", "model", "" if is_resized else resized),
    ]


def _name_of(pipeline: Pipeline, model: Model) -> str | None:
    """The name that a model gets where it is created; None if it has several or none."""
    names = {binding.name for binding in pipeline.names_of(model)}
    made = expressions.assignment_at(pipeline, model.origin) if model.origin else None
    return made.name if made is not None and names == {made.name} else None


def _is_used_before(pipeline: Pipeline, location: Location) -> bool:
    """Whether an optimizer or a Trainer may get the model before its embedding is resized."""
    users = [each.origin for each in pipeline.optimizers] + [each.construction for each in pipeline.runs]
    return any(each is not None and (each.path != location.path or each < location) for each in users)


def _resizes(pipeline: Pipeline, later: Location, wanted: str) -> bool | None:
    """Whether the script already resizes the embedding after a location; None if it does so in another way."""
    every = expressions.calls_in_file(pipeline.source_of(later))
    calls = [call for call in every if call.callee and "resize_token_embeddings" in call.callee.code]
    if not calls:
        return None if script_text.mentions(pipeline, "resize_token_embeddings") else False
    locations = [call.location for call in calls if call.code == wanted]
    is_wanted = (
        len(locations) == len(calls) == 1
        and later < locations[0]
        and blocks.is_one_scope(pipeline, later, locations[0])
    )
    return True if is_wanted else None
