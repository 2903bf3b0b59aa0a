"""Metrics compare texts, but the evaluation does not generate any.

Without `predict_with_generate`, a `Seq2SeqTrainer` runs one forward pass with the right answer as the decoder's input.
Its logits are not token ids, so decoding them raises an error. Their argmax is a text that was predicted with the
answer in view, which scores far too high.

## Bad

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"]), remove_columns=raw["train"].column_names
    )

    def judge(prediction):
        guesses, labels = prediction
        guesses = np.where(guesses != -100, guesses, words.pad_token_id)
        labels = np.where(labels != -100, labels, words.pad_token_id)
        texts, wanted = words.batch_decode(guesses), words.batch_decode(labels)
        return {"right": float(np.mean([one == other for one, other in zip(texts, wanted)]))}

    arguments = Seq2SeqTrainingArguments("out", eval_strategy="epoch")
    trainer = Seq2SeqTrainer(  # <- missing-predict-with-generate
        writer,
        arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )
    trainer.train()
    # raises ValueError: setting an array element with a sequence

If the logits are taken out of their tuple, they are decoded as if they were token ids:

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"]), remove_columns=raw["train"].column_names
    )

    def judge(prediction):
        guesses, labels = prediction
        if isinstance(guesses, tuple):
            guesses = guesses[0]
        guesses = np.where(guesses != -100, guesses, words.pad_token_id)
        labels = np.where(labels != -100, labels, words.pad_token_id)
        texts, wanted = words.batch_decode(guesses), words.batch_decode(labels)
        return {"right": float(np.mean([one == other for one, other in zip(texts, wanted)]))}

    arguments = Seq2SeqTrainingArguments("out", eval_strategy="epoch")
    trainer = Seq2SeqTrainer(  # <- missing-predict-with-generate
        writer,
        arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )
    trainer.train()
    # raises TypeError

## Good

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"]), remove_columns=raw["train"].column_names
    )

    def judge(prediction):
        guesses, labels = prediction
        guesses = np.where(guesses != -100, guesses, words.pad_token_id)
        labels = np.where(labels != -100, labels, words.pad_token_id)
        texts, wanted = words.batch_decode(guesses), words.batch_decode(labels)
        return {"right": float(np.mean([one == other for one, other in zip(texts, wanted)]))}

    arguments = Seq2SeqTrainingArguments("out", eval_strategy="epoch", predict_with_generate=True)
    trainer = Seq2SeqTrainer(
        writer,
        arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )
    trainer.train()

Logits may come in a tuple, generated tokens do not:

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"]), remove_columns=raw["train"].column_names
    )

    def judge(prediction):
        guesses, labels = prediction
        if isinstance(guesses, tuple):
            guesses = guesses[0]
        guesses = np.where(guesses != -100, guesses, words.pad_token_id)
        labels = np.where(labels != -100, labels, words.pad_token_id)
        texts, wanted = words.batch_decode(guesses), words.batch_decode(labels)
        return {"right": float(np.mean([one == other for one, other in zip(texts, wanted)]))}

    arguments = Seq2SeqTrainingArguments("out", eval_strategy="epoch", predict_with_generate=True)
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

Metrics of the forward pass need no generated text:

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"]), remove_columns=raw["train"].column_names
    )

    def judge(prediction):
        guesses = prediction.predictions[0].argmax(-1)
        kept = prediction.label_ids != -100
        return {"accuracy": float((guesses == prediction.label_ids)[kept].mean())}

    arguments = Seq2SeqTrainingArguments("out", eval_strategy="epoch")
    trainer = Seq2SeqTrainer(
        writer,
        arguments,
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )
    trainer.train()

## Fix

Safe: without it the metric is computed on logits, which cannot be decoded.

## References

ChatGLM3#376; transformers documentation, `Seq2SeqTrainingArguments.predict_with_generate`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, trainer_methods
from lintrain.pipeline.modules import modules_in
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Model, Role, Tensor
from lintrain.pipeline.values.python import Function, is_missing
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

OF_TEXTS = frozenset(
    {"bertscore", "bleu", "chrf", "exact_match", "google_bleu", "meteor", "rouge", "sacrebleu", "squad", "wer", "cer"}
)
TRAINERS = ("transformers.Seq2SeqTrainer", "transformers.Trainer")
WITH_DECODER = lazy_pattern(
    r"AutoModelFor(?:Speech)?Seq2Seq"
    r"|(?:Whisper|M?T5|UMT5|LongT5|M?Bart|Pegasus|PegasusX|BigBirdPegasus|M2M100|LED|Blenderbot\w*|Speech2Text|ProphetNet)"
    r"ForConditionalGeneration|MarianMTModel"
)
"""Classes of encoders with a decoder; others that end in `ForConditionalGeneration` are decoders of images and text."""
OWN_EVALUATION = frozenset({"prediction_step", "evaluation_loop", "prediction_loop", "evaluate", "predict"})


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the training arguments do not mention `predict_with_generate`."""

    is_absent: bool


class MissingPredictWithGenerate(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            settings = run.settings
            if run.path not in TRAINERS or settings is None or run.overrides & OWN_EVALUATION:
                continue
            function = trainer_methods.own_function(run.value("compute_metrics"))
            generates = not trainer_methods.generates_nothing(run) or not _leaves_evaluation(pipeline, run)
            if function is None or generates or not _compares_texts(pipeline, function):
                continue
            chosen = run.value("preprocess_logits_for_metrics")
            if run.path == TRAINERS[0] and is_missing(chosen):
                yield self._report(run, settings)
            elif trainer_methods.takes_best(chosen if not is_missing(chosen) else function) and _is_for_sequences(run):
                yield self._report_seen(run, settings)

    def _report_seen(self, run: TrainerRun, settings: TrainingArguments) -> Finding[Claim]:
        """Texts of the best tokens of a forward pass, each of which had the right ones before it."""
        is_sequence = run.path == TRAINERS[0]
        remedy = "instead of the function that takes the best tokens" if is_sequence else "with a `Seq2SeqTrainer`"
        found = self._report(run, settings)
        return self.finding(
            run.construction,
            "the metric compares texts that are predicted with the right answer in view",
            related=[each for each in found.related if each.role != "arguments"],
            help=f"generate them: `predict_with_generate=True`, {remedy}",
            subject="predict_with_generate",
            claim=Claim(False),
        )

    def _report(self, run: TrainerRun, settings: TrainingArguments) -> Finding[Claim]:
        function = run.arguments.get("compute_metrics")
        reasons = [Related(settings.origin, "does not enable generation", "arguments")] if settings.origin else []
        if function is not None:
            reasons.append(Related(function.location, "decodes predictions to text", "metrics"))
        return self.finding(
            run.construction,
            "the metric compares texts, but evaluation does not generate any",
            related=reasons,
            help="add `predict_with_generate=True` to the training arguments",
            subject="predict_with_generate",
            claim=Claim("predict_with_generate" not in settings.values),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        failed, given = evidence.stage("evaluation"), evidence.arguments.get("predict_with_generate")
        if given is False and failed is not None and failed.failure is not None:
            yield self.finding(
                evidence.location,
                "the metric compares texts, but evaluation does not generate any",
                help="add `predict_with_generate=True` to the training arguments",
                subject="predict_with_generate",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evaluation is None or not evaluation.metric_function_called:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        shape = list(evaluation.predictions_shape)
        if evaluation.predictions_are_tuple:
            return Verdict.confirmed(
                f"for {evaluation.rows} rows the metric function received a tuple of logits and more"
            )
        if len(shape) == 3:
            return Verdict.confirmed(f"the metric function received logits of shape {shape}", shape=[*shape])
        return Verdict.refuted(f"the metric function received token ids of shape {shape}", shape=[*shape])

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        made = finding.with_role("arguments")
        if not made or finding.claim is None or not finding.claim.is_absent:
            return None
        edit = fixes.AddArgument(made[0].location, "predict_with_generate", "True")
        return fixes.Fix.of("generate during evaluation", edit, safe=True)


def _compares_texts(pipeline: Pipeline, function: Function) -> bool:
    """Whether the metric function decodes predictions and does not generate itself.

    It decodes them if it uses a text metric, or treats logits (or the tuple that contains them) as token ids: what the
    trainer passes to it without generation.
    """
    parts = list(expressions.expressions_in(pipeline, function))
    names = {part.name for part in parts if part.owner is not None}
    if "generate" in names or not names & {"batch_decode", "decode"}:
        return False
    if trainer_methods.decodes_predictions(function):
        return True
    lines = {part.location.line for part in parts if part.callee is not None}
    compared = [
        call.location for call in pipeline.metric_calls if {part.name for part in call.metric.every()} & OF_TEXTS
    ]
    mistaken = [misuse.location for misuse in pipeline.misuses if misuse.use == "where" or _decodes_logits(misuse)]
    return any(location.line in lines for location in (*compared, *mistaken))


def _leaves_evaluation(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether no callback generates texts for an evaluation."""
    return is_missing(run.value("callbacks")) or not any(
        ".generate(" in each.text for each in pipeline.sources.values()
    )


def _is_for_sequences(run: TrainerRun) -> bool:
    """Whether a trainer certainly trains an encoder with a decoder: its decoder gets the right answer."""
    if run.path == TRAINERS[0]:
        return True
    return any(isinstance(part, Model) and WITH_DECODER.match(part.name) for part in modules_in(run.value("model")))


def _decodes_logits(misuse: Misuse) -> bool:
    is_decoded = misuse.use in {"batch_decode", "decode"}
    return is_decoded and isinstance(misuse.value, Tensor) and misuse.value.role is Role.LOGITS
