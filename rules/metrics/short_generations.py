"""The evaluation generates at most 20 tokens, and the labels are longer.

Checkpoints of T5 and mT5 have no length of their own for generation, so `generate` stops after 20 tokens. A metric that
compares texts is then computed from the beginnings of answers: ROUGE and BLEU are far too low, and the best checkpoint
is chosen by them. The trained model is better than its score.

## Bad

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"], max_length=64, truncation=True),
        remove_columns=raw["train"].column_names,
    )

    def judge(prediction):
        guesses, labels = prediction
        guesses = np.where(guesses != -100, guesses, words.pad_token_id)
        labels = np.where(labels != -100, labels, words.pad_token_id)
        texts, wanted = words.batch_decode(guesses), words.batch_decode(labels)
        return {"right": float(np.mean([one == other for one, other in zip(texts, wanted)]))}

    arguments = Seq2SeqTrainingArguments(  # <- short-generations
        "out", eval_strategy="epoch", predict_with_generate=True
    )
    trainer = Seq2SeqTrainer(
        writer,
        arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )
    trainer.train()

## Good

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"], max_length=64, truncation=True),
        remove_columns=raw["train"].column_names,
    )

    def judge(prediction):
        guesses, labels = prediction
        guesses = np.where(guesses != -100, guesses, words.pad_token_id)
        labels = np.where(labels != -100, labels, words.pad_token_id)
        texts, wanted = words.batch_decode(guesses), words.batch_decode(labels)
        return {"right": float(np.mean([one == other for one, other in zip(texts, wanted)]))}

    arguments = Seq2SeqTrainingArguments(
        "out", eval_strategy="epoch", predict_with_generate=True, generation_max_length=64
    )
    trainer = Seq2SeqTrainer(
        writer,
        arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )
    trainer.train()

## When it is fine

Labels of a few tokens fit:

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"], max_length=16, truncation=True),
        remove_columns=raw["train"].column_names,
    )
    arguments = Seq2SeqTrainingArguments("out", eval_strategy="epoch", predict_with_generate=True)
    trainer = Seq2SeqTrainer(
        writer,
        arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=lambda prediction: {"rows": len(prediction.predictions)},
    )
    trainer.train()

## Fix

Asks first: longer texts make the evaluation slower.

## References

Transformers documentation, `Seq2SeqTrainingArguments.generation_max_length` and `GenerationConfig.max_length`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import is_missing, is_true, options_of
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes, lazy_pattern

DEFAULT = 20
"""The tokens that `generate` gives without a length (transformers 4.0 to 5.23), without the decoder start."""

WITHOUT_LENGTH = frozenset({"t5", "mt5", "umt5"})
"""Model types whose published checkpoints say nothing about the length of generated texts."""

MAY_SET_LENGTH = lazy_pattern(
    r"\.generation_config\b|generation_max_length|config\.(max_length|max_new_tokens)"
    r"|\b(evaluate|predict)\([^()]*\bmax_(length|new_tokens)|_gen_kwargs|val_max_target_length"
)
"""Code that may set a length for the evaluation, in the arguments or in the model."""

OWN_EVALUATION = frozenset({"prediction_step", "evaluation_loop", "prediction_loop", "evaluate", "predict"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The tokens that the longest label may have."""

    longest: int


class ShortGenerations(Rule[Claim]):
    level = Level.WARNING
    keywords = "Seq2SeqTrainer & predict_with_generate"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if any(source.contains(MAY_SET_LENGTH) for source in pipeline.sources.values()):
            return
        for run in pipeline.runs:
            settings, longest = run.settings, _longest_label(pipeline, run)
            if settings is None or settings.origin is None or longest is None or longest <= DEFAULT:
                continue
            if _scores_generations(run, settings) and _has_no_length(pipeline, run.model):
                yield self.finding(
                    settings.origin,
                    f"evaluation generates {DEFAULT} tokens at most, and labels have up to {longest}",
                    related=[Related(run.construction, "computes its metrics from these texts", "trainer")],
                    help=f"pass `generation_max_length={longest}`",
                    subject="generation_max_length",
                    claim=Claim(longest),
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evaluation is None or not evaluation.metric_function_called or len(evaluation.predictions_shape) != 2:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        length = evaluation.predictions_shape[1]
        text = f"the metric function received texts of {length} tokens"
        # The first one is the start of the decoder.
        return (Verdict.confirmed if length <= DEFAULT + 1 else Verdict.refuted)(text, tokens=length)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.AddArgument(finding.location, "generation_max_length", str(finding.claim.longest))
        return fixes.Fix.of("generate texts as long as the labels", edit, safe=False)


def _scores_generations(run: TrainerRun, settings: TrainingArguments) -> bool:
    """Whether metrics are certainly computed from generated texts, whose length the arguments leave open."""
    is_open = all(is_missing(settings.value(name)) for name in ("generation_max_length", "generation_config"))
    has_metrics = not is_missing(run.value("compute_metrics")) and not run.overrides & OWN_EVALUATION
    return is_open and has_metrics and is_true(settings.value("predict_with_generate"))


def _has_no_length(pipeline: Pipeline, model: Model | None) -> bool:
    """Whether a model is certainly a checkpoint that has no length for generation, as it was published."""
    if model is None or not model.is_pretrained or model.attributes:
        return False
    facts = tuning.facts_of(pipeline, model)
    return facts is not None and facts.model_type in WITHOUT_LENGTH


def _longest_label(pipeline: Pipeline, run: TrainerRun) -> int | None:
    """The most tokens of a label in the data for training; None if that is not known."""
    sets = [pipeline.rows_of(option) for option in options_of(run.value("train_dataset"))]
    lengths = [
        each.columns["labels"].max_length
        for each in sets
        if isinstance(each, Dataset) and each.columns and "labels" in each.columns
    ]
    known = [length for length in lengths if length is not None]
    return max(known) if known and len(known) == len(sets) else None
