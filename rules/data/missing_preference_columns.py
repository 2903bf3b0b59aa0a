"""A trainer of TRL gets a data set without the columns that it reads.

`DPOTrainer` and `RewardTrainer` read `chosen` and `rejected`, `KTOTrainer` `prompt`, `completion` and `label`, the
trainers that generate `prompt`. `SFTTrainer` reads `text`, or the column that `dataset_text_field` names, unless the
rows are conversations or prompts with completions. With other names, the constructor raises a KeyError from inside a
`map`.

## Bad

    pairs = Dataset.from_dict({"prompt": ["a", "b"], "good": ["c", "d"], "bad": ["e", "f"]})
    settings = trl.DPOConfig("out", bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.DPOTrainer("gpt2", args=settings, train_dataset=pairs)  # <- missing-preference-columns
    # raises KeyError: 'chosen'

Instructions are not read by their names:

    rows = Dataset.from_dict({"instruction": ["a", "b"], "output": ["c", "d"]})
    settings = trl.SFTConfig("out", bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.SFTTrainer("gpt2", args=settings, train_dataset=rows)  # <- missing-preference-columns
    # raises KeyError: 'text'

## Good

    pairs = Dataset.from_dict({"prompt": ["a", "b"], "good": ["c", "d"], "bad": ["e", "f"]})
    pairs = pairs.rename_columns({"good": "chosen", "bad": "rejected"})
    settings = trl.DPOConfig("out", bf16=False, use_cpu=True, max_steps=1)
    trainer = trl.DPOTrainer("gpt2", args=settings, train_dataset=pairs)

## When it is fine

A function of the script writes the text:

    rows = Dataset.from_dict({"instruction": ["a", "b"], "output": ["c", "d"]})
    settings = trl.SFTConfig("out", bf16=False, use_cpu=True, max_steps=1)
    write = lambda row: row["instruction"] + " " + row["output"]
    trainer = trl.SFTTrainer("gpt2", args=settings, train_dataset=rows, formatting_func=write)

Columns that are not all known:

    from my_data import pairs

    trainer = trl.DPOTrainer("gpt2", train_dataset=pairs)

## Fix

None: which column is which is a guess.

## References

TRL documentation, "Dataset formats and types", which trainer reads which type; trl 1.16.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import conversations, run_data
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.python import is_missing
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Finding, Level, Pipeline, Rule

WITH_PROMPT = frozenset({"DPOTrainer", "CPOTrainer", "ORPOTrainer"})
"""Trainers that put the prompt before both answers themselves."""

PAIRS = ("chosen", "rejected")
UNPAIRED = ("prompt", "completion", "label")
READ = {
    **dict.fromkeys(("DPOTrainer", "CPOTrainer", "ORPOTrainer", "RewardTrainer"), PAIRS),
    "KTOTrainer": UNPAIRED,
    **dict.fromkeys(("GRPOTrainer", "RLOOTrainer", "OnlineDPOTrainer"), ("prompt",)),
}
"""The columns that each trainer reads. KTO divides pairs itself, and DPO finds the prompt in conversations."""


class MissingPreferenceColumns(Rule):
    level = Level.ERROR
    judges_configurations = True
    keywords = "DPO|CPO|ORPO|Reward|KTO|GRPO|RLOO|SFT"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if any(run.path.rpartition(".")[2] in WITH_PROMPT and not run.overrides for run in pipeline.runs):
            yield from self._repeated_prompts(pipeline)
        for run in pipeline.runs:
            rows, missing = run.dataset("train_dataset"), ""
            if rows is not None and run.path.startswith("trl.") and not run.overrides:
                missing = _missing(run, rows)
            if rows is None or not missing:
                continue
            argument = run.arguments["train_dataset"]
            given = f"`{argument.text}`" if 0 < len(argument.text) <= 24 else "the data set"
            yield self.finding(
                argument.location,
                f"{given} has no column `{missing}`, which {run.name} reads",
                related=run_data.origin_of(rows),
                help=f"rename its columns, which are {', '.join(rows.columns or {})}",
            )

    def _repeated_prompts(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Rows whose answers begin with the prompt, which the trainer puts before them as well."""
        for answer in conversations.repeated_prompts(pipeline.source):
            yield self.finding(
                answer,
                "`chosen` begins with the prompt, which the trainer puts before it again",
                help="leave the prompt out of `chosen` and `rejected`, or remove the column `prompt`",
                subject="chosen",
            )


def _missing(run: TrainerRun, rows: Dataset) -> str:
    """The first column that the trainer reads and the rows certainly lack; empty for rows that are prepared already."""
    names = set(rows.columns or {})
    wanted = READ.get(run.path.rpartition(".")[2], ()) or run_data.text_read(run, names)
    is_known = rows.columns is not None and rows.is_complete and not rows.may_differ and not rows.has_transform
    is_prepared = any(name.endswith("_ids") or "input_ids" in name for name in names)
    if (
        not is_known
        or is_prepared
        or "train_dataset" not in run.arguments
        or not is_missing(run.value("data_collator"))
    ):
        return ""
    if wanted is UNPAIRED and names >= set(PAIRS):
        return ""
    return next((name for name in wanted if name not in names), "")
