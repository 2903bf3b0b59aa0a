"""The loss of SFT is limited to assistant turns or completions, but nothing marks them.

With `assistant_only_loss=True`, TRL asks the chat template which tokens an assistant wrote. A template without
`{% generation %}` does not say, and rows that are plain text have no turns: the trainer raises an error. With
`completion_only_loss=True` it raises none: rows without a column `completion` are learned whole, with their prompts.

## Bad

    rows = Dataset.from_dict({"text": ["a b", "c d"]})
    settings = trl.SFTConfig("out", assistant_only_loss=True, bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer("gpt2", settings, train_dataset=rows)  # <- unmarked-assistant-turns
    # raises ValueError: You set `assistant_only_loss=True`, but the dataset is not conversational

Whole texts, in which nothing says where the completion begins:

    rows = Dataset.from_dict({"text": ["a b", "c d"]})
    settings = trl.SFTConfig("out", completion_only_loss=True, bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer("gpt2", settings, train_dataset=rows)  # <- unmarked-assistant-turns

A template of the script:

    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    rows = Dataset.from_dict({"messages": [turns, turns]})
    lm_tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\\n{% endfor %}"
    settings = trl.SFTConfig("out", assistant_only_loss=True, bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer(  # <- unmarked-assistant-turns
        lm, settings, train_dataset=rows, processing_class=lm_tokenizer
    )
    # raises ValueError

## Good

    rows = Dataset.from_dict({"text": ["a b", "c d"]})
    settings = trl.SFTConfig("out", assistant_only_loss=False, bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer("gpt2", settings, train_dataset=rows)

and

    rows = Dataset.from_dict({"prompt": ["a", "c"], "completion": [" b", " d"]})
    settings = trl.SFTConfig("out", completion_only_loss=True, bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer("gpt2", settings, train_dataset=rows)

## When it is fine

The template marks what the assistant wrote:

    from my_data import rows

    lm_tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }}: {% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
    )
    settings = trl.SFTConfig("out", assistant_only_loss=True, bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer(lm, settings, train_dataset=rows, processing_class=lm_tokenizer)

## Fix

None: either the data or the loss is not what was meant.

## References

TRL documentation, "SFT Trainer", train on completion only and on assistant messages only; trl 1.16.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.data import Dataset, Kind, Tokenizer
from lintrain.pipeline.values.python import Value, is_missing, is_true, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Finding, Level, Pipeline, Rule

CONVERSATIONS = frozenset({"messages", "prompt", "completion", "conversations"})
"""Columns that may hold turns."""


class UnmarkedAssistantTurns(Rule):
    level = Level.ERROR
    judges_configurations = True
    keywords = "assistant_only_loss|completion_only_loss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            settings = run.settings
            if run.overrides or settings is None:
                continue
            if is_true(settings.value("completion_only_loss")) and _has_no_completions(run):
                yield self.finding(
                    run.construction,
                    "`completion_only_loss=True`, but the rows have no `completion`",
                    help="divide each row into the columns `prompt` and `completion`",
                )
            reason = _reason(run) if is_true(settings.value("assistant_only_loss")) else ""
            if reason:
                yield self.finding(
                    run.construction,
                    f"`assistant_only_loss=True`, but {reason}",
                    help="pass conversations, and a template with `{% generation %}`",
                )


MARKED = frozenset({"completion", "completion_mask", "assistant_masks", "labels"})
"""Columns that mark what is to be learned."""


def _has_no_completions(run: TrainerRun) -> bool:
    """Whether the trainer certainly finds no completion in its rows, and learns all of them."""
    rows = run.dataset("train_dataset")
    is_own = any(not is_missing(run.value(name)) for name in ("data_collator", "formatting_func"))
    if rows is None or is_own or not run.path.endswith("SFTTrainer"):
        return False
    is_known = bool(rows.columns) and rows.is_complete and not rows.may_differ and not rows.has_transform
    return is_known and MARKED.isdisjoint(rows.columns or {}) and not _is_divided(run)


def _is_divided(run: TrainerRun) -> bool:
    """Whether the trainer may get other rows than these: a configuration that prepares none."""
    return run.settings is None or not is_missing(run.settings.value("dataset_kwargs"))


def _reason(run: TrainerRun) -> str:
    """What keeps the trainer from finding the turns of an assistant; empty if nothing certainly does."""
    rows = run.dataset("train_dataset")
    if rows is not None and _is_plain(rows):
        return "the rows are no conversations"
    tokenizer = run.value("processing_class")
    template = _template_of(tokenizer) if isinstance(tokenizer, Tokenizer) else None
    if template is not None and "generation %}" not in template.replace("-%}", "%}"):
        return "the chat template marks no turn"
    return ""


def _is_plain(rows: Dataset) -> bool:
    """Whether all columns are known, and none can hold turns."""
    columns = rows.columns or {}
    is_known = bool(columns) and rows.is_complete and not rows.may_differ and not rows.has_transform
    turns = [column for name, column in columns.items() if name in CONVERSATIONS]
    return is_known and all(column.kind is Kind.TEXT for column in turns) and not rows.is_tokenized


def _template_of(tokenizer: Tokenizer) -> str | None:
    """The text of the template that the script sets, if it sets one text only."""
    given: Value | None = tokenizer.attributes.get("chat_template")
    return text_of(given) if given is not None else None
