"""An evaluation keeps one number for each word of the vocabulary and each token of its data.

A metric function gets the predictions of the whole evaluation set at once. For a language model these are rows times
length times vocabulary: some thousand rows of 512 tokens and 50,000 words take hundreds of gigabytes, and the first
evaluation ends the run.

## Bad

    small = transformers.GPT2Config(vocab_size=20000, n_embd=32, n_layer=1, n_head=2)
    writer = AutoModelForCausalLM.from_config(small)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)
    many = words["validation"]
    for _ in range(11):
        many = concatenate_datasets([many, many])

    def judge(prediction):
        guesses = prediction.predictions.argmax(-1)[:, :-1]
        return {"accuracy": float((guesses == prediction.label_ids[:, 1:]).mean())}

    trainer = Trainer(  # <- eval-logits-memory
        writer,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=words["train"],
        eval_dataset=many,
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
    )

## Good

    small = transformers.GPT2Config(vocab_size=20000, n_embd=32, n_layer=1, n_head=2)
    writer = AutoModelForCausalLM.from_config(small)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)

    def judge(prediction):
        return {"accuracy": float((prediction.predictions[:, :-1] == prediction.label_ids[:, 1:]).mean())}

    trainer = Trainer(
        writer,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=words["train"],
        eval_dataset=words["validation"],
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
        preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
    )

## When it is fine

A few chosen rows fit:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)

    def judge(prediction):
        guesses = prediction.predictions.argmax(-1)[:, :-1]
        return {"accuracy": float((guesses == prediction.label_ids[:, 1:]).mean())}

    trainer = Trainer(
        lm,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=words["train"],
        eval_dataset=words["validation"].select(range(16)),
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
    )

Or the metric is computed batch by batch, and nothing is kept:

    def judge(prediction, compute_result=False):
        return {"rows": float(len(prediction.label_ids))}

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)
    trainer = Trainer(
        lm,
        TrainingArguments("out", eval_strategy="epoch", batch_eval_metrics=True),
        train_dataset=words["train"],
        eval_dataset=words["validation"],
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
    )

## Fix

None: the metric function has to read the chosen tokens in the stead of the logits, which is up to its author.

## References

transformers#15466, transformers#25313; transformers documentation, `Trainer.preprocess_logits_for_metrics`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    Act,
    Dataset,
    Evidence,
    Finding,
    Level,
    Model,
    Pipeline,
    Reason,
    Rule,
    Task,
    TrainerRun,
    TrainingArguments,
    Verdict,
    confirmed,
    evaluation_strategy,
    is_left_out,
    is_missing,
    options_of,
    own_function,
    refuted,
    unsettled,
)

VOCABULARY_WIDE = frozenset({Task.CAUSAL_LM, Task.MASKED_LM})
OWN_EVALUATION = frozenset({"prediction_step", "evaluation_loop", "prediction_loop", "evaluate", "get_eval_dataloader"})
TRAINERS = frozenset({"transformers.Trainer", "trl.SFTTrainer"})
SPARES = ("batch_eval_metrics", "prediction_loss_only")
FEWER = frozenset({"select", "take", "train_test_split", "shard"})
CURE = "preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(-1)"
MOST_SHARE, SMALL_SHARE = 0.5, 0.1
GIBIBYTE = 2**30


class EvalLogitsMemory(Rule):
    level = Level.WARNING
    matters_in_tests = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            model, settings = run.model, run.settings
            if model is None or settings is None or model.task not in VOCABULARY_WIDE or run.path not in TRAINERS:
                continue
            function = own_function(run.value("compute_metrics"))
            if function is None or run.overrides & OWN_EVALUATION or not _keeps_logits(run, settings):
                continue
            if _evaluates(pipeline, run, settings) and not _has_few_rows(run):
                yield self._report(run, model)

    def _report(self, run: TrainerRun, model: Model) -> Finding:
        function = run.arguments.get("compute_metrics")
        reasons = [Reason(model.origin, "one logit for each word of its vocabulary", "model")] if model.origin else []
        if function is not None:
            reasons.append(Reason(function.place, "gets the logits of the whole set at once", "metrics"))
        return self.finding(
            run.construction,
            "the logits of all evaluation tokens are kept for the metric function",
            because=reasons,
            help=f"keep the chosen tokens only: `{CURE}`",
            subject="compute_metrics",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evaluation is None or evaluation.bytes_per_row is None or not evaluation.number_of_rows:
            return unsettled(evidence.not_reached("evaluation"))
        rows, each, free = evaluation.number_of_rows, evaluation.bytes_per_row, evaluation.free_memory
        if free is None:
            return unsettled(f"{rows} rows keep {rows * each / GIBIBYTE:.1f} GiB; what is free is not known")
        share = rows * each / free
        said = f"{rows} rows keep {rows * each / GIBIBYTE:.1f} GiB, {share:.0%} of what is free here"
        if share > MOST_SHARE:
            return confirmed(said, share=share)
        return refuted(said, share=share) if share < SMALL_SHARE else unsettled(said, share=share)


def _keeps_logits(run: TrainerRun, settings: TrainingArguments) -> bool:
    """Whether nothing makes less of the logits, batch by batch."""
    is_whole = is_missing(run.value("preprocess_logits_for_metrics"))
    return is_whole and all(is_left_out(settings, name) for name in SPARES)


def _evaluates(pipeline: Pipeline, run: TrainerRun, settings: TrainingArguments) -> bool:
    strategy = evaluation_strategy(settings)
    called = any(event.subject is run for event in pipeline.acts(Act.EVALUATE))
    return called or (strategy is not None and strategy.value != "no" and bool(run.train_calls))


def _has_few_rows(run: TrainerRun) -> bool:
    """Whether the evaluation set may be a small part of its data, or is not understood."""
    datasets = [each for each in options_of(run.value("eval_dataset")) if isinstance(each, Dataset)]
    if len(datasets) != len(options_of(run.value("eval_dataset"))):
        return True
    family = [each for dataset in datasets for each in (dataset, *dataset.lineage)]
    return any(_is_cut(each) for each in family)


def _is_cut(dataset: Dataset) -> bool:
    return "[" in (dataset.split or "") or any(step.operation in FEWER for step in dataset.steps)
