"""Labels of -100, which mark positions to ignore, are decoded or scored.

Collators set labels to -100 where no loss should be computed, and the Trainer pads labels with it. A tokenizer cannot
decode -100 and raises an error in the first evaluation; a metric counts it as one more class, and the score is far too
low.

## Bad

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"]), remove_columns=raw["train"].column_names
    )

    def judge(prediction):
        labels = prediction.label_ids
        texts = words.batch_decode(labels, skip_special_tokens=True)  # <- ignored-index-in-metric
        return {"length": float(np.mean([len(text) for text in texts]))}

    trainer = Seq2SeqTrainer(
        writer,
        Seq2SeqTrainingArguments("out", eval_strategy="epoch", predict_with_generate=True),
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )
    # raises OverflowError

Scored:

    tagger = AutoModelForTokenClassification.from_pretrained(checkpoint, num_labels=3)
    tagged = raw.map(lambda row: tokenizer(row["premise"], truncation=True))
    tagged = tagged.map(lambda row: {"labels": [token % 3 for token in row["input_ids"]]}, remove_columns=["label"])

    def judge(prediction):
        logits, labels = prediction
        classes = logits.argmax(-1)
        return {"accuracy": accuracy_score(labels.flatten(), classes.flatten())}  # <- ignored-index-in-metric

    trainer = Trainer(
        tagger,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tagged["train"],
        eval_dataset=tagged["validation_matched"],
        data_collator=DataCollatorForTokenClassification(tokenizer),
        compute_metrics=judge,
    )

The same in a mean over all tokens, where ignored positions always count as errors:

    tagger = AutoModelForTokenClassification.from_pretrained(checkpoint, num_labels=3)
    tagged = raw.map(lambda row: tokenizer(row["premise"], truncation=True))
    tagged = tagged.map(lambda row: {"labels": [token % 3 for token in row["input_ids"]]}, remove_columns=["label"])

    def judge(prediction):
        classes = prediction.predictions.argmax(-1)
        return {"accuracy": float((classes == prediction.label_ids).mean())}  # <- ignored-index-in-metric

    trainer = Trainer(
        tagger,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tagged["train"],
        eval_dataset=tagged["validation_matched"],
        data_collator=DataCollatorForTokenClassification(tokenizer),
        compute_metrics=judge,
    )

## Good

    writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
    words = AutoTokenizer.from_pretrained("t5-small")
    pairs = raw.map(
        lambda row: words(row["premise"], text_target=row["hypothesis"]), remove_columns=raw["train"].column_names
    )

    def judge(prediction):
        labels = prediction.label_ids
        labels = np.where(labels != -100, labels, words.pad_token_id)
        texts = words.batch_decode(labels, skip_special_tokens=True)
        return {"length": float(np.mean([len(text) for text in texts]))}

    trainer = Seq2SeqTrainer(
        writer,
        Seq2SeqTrainingArguments("out", eval_strategy="epoch", predict_with_generate=True),
        train_dataset=pairs["train"],
        eval_dataset=pairs["validation_matched"],
        data_collator=DataCollatorForSeq2Seq(words, writer),
        compute_metrics=judge,
    )

Scored:

    tagger = AutoModelForTokenClassification.from_pretrained(checkpoint, num_labels=3)
    tagged = raw.map(lambda row: tokenizer(row["premise"], truncation=True))
    tagged = tagged.map(lambda row: {"labels": [token % 3 for token in row["input_ids"]]}, remove_columns=["label"])

    def judge(prediction):
        logits, labels = prediction
        classes = logits.argmax(-1)
        return {"accuracy": accuracy_score(labels[labels != -100], classes[labels != -100])}

    trainer = Trainer(
        tagger,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tagged["train"],
        eval_dataset=tagged["validation_matched"],
        data_collator=DataCollatorForTokenClassification(tokenizer),
        compute_metrics=judge,
    )

## When it is fine

One label per row is never padded:

    def judge(prediction):
        logits, labels = prediction
        return {"accuracy": accuracy_score(labels.flatten(), logits.argmax(-1).flatten())}

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        data_collator=collator,
        compute_metrics=judge,
    )

Ignored positions may be skipped one by one:

    tagger = AutoModelForTokenClassification.from_pretrained(checkpoint, num_labels=3)
    tagged = raw.map(lambda row: tokenizer(row["premise"], truncation=True))
    tagged = tagged.map(lambda row: {"labels": [token % 3 for token in row["input_ids"]]}, remove_columns=["label"])

    def judge(prediction):
        classes, labels = prediction.predictions.argmax(-1), prediction.label_ids
        kept = labels[labels != -100]
        guessed = [each for rows in zip(labels, classes) for label, each in zip(*rows) if label != -100]
        return {"accuracy": accuracy_score(kept, guessed)}

    trainer = Trainer(
        tagger,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=tagged["train"],
        eval_dataset=tagged["validation_matched"],
        data_collator=DataCollatorForTokenClassification(tokenizer),
        compute_metrics=judge,
    )

## Fix

Safe: -100 is not a token id, and decoding it raises an error.

## References

transformers#27714, transformers#10046; documentation of `DataCollatorForTokenClassification.label_pad_token_id`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import metric_verdicts, run_data, script_text
from lintrain.pipeline.values import data, python, training
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Model, Role, Task, Tensor
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

PER_TOKEN = frozenset({Task.TOKEN_CLASSIFICATION, Task.SEQ2SEQ_LM, Task.CAUSAL_LM, Task.MASKED_LM})
FILLS = frozenset(
    f"transformers.DataCollatorFor{kind}" for kind in ("TokenClassification", "Seq2Seq", "LanguageModeling")
)
RAISED = ("number too small to fit", "convert negative int", "out of range integral type", "piece id is out of range")
SMALLEST_CHANGE = 1e-9
DECODES = frozenset({"batch_decode", "decode"})
HITS = "mean of hits"
EXCLUDE = "exclude these positions from predictions and labels"


@dataclass(frozen=True, slots=True)
class Claim:
    """What the labels are used for; the name to assign the replaced labels to, and the name of their tokenizer."""

    use: str
    name: str | None
    tokenizer: str | None


class IgnoredIndexInMetric(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[Location]()
        for labels, location, text, use in _uses(pipeline):
            run = _run_of(pipeline, labels)
            collator = run.value("data_collator") if run else None
            if run is None or collator is None or location in seen:
                continue
            seen.add(location)
            yield self._report(pipeline, location, text, use, collator)
        yield from one_per_location(self._report_generated(pipeline, *found) for found in _generated(pipeline))

    def _report(
        self, pipeline: Pipeline, location: Location, text: str, use: str, collator: python.Value
    ) -> Finding[Claim]:
        reasons = [Related(collator.origin, "pads labels with -100", "collator")] if collator.origin else []
        decodes = use in DECODES
        name = text if decodes and text.isidentifier() and _imports_numpy(pipeline) else None
        message, advice = _message(text, use)
        return self.finding(
            location,
            message,
            related=reasons,
            help=advice,
            subject="compute_metrics",
            claim=Claim(use, name, run_data.tokenizer_name(pipeline, location)),
        )

    def _report_generated(self, pipeline: Pipeline, location: Location, text: str, given: Location) -> Finding[Claim]:
        name = text if text.isidentifier() and _imports_numpy(pipeline) else None
        return self.finding(
            location,
            f"`{text}` contains -100, which cannot be decoded",
            related=[
                Related(given, f"batches that end below it are padded to {T5_LENGTH}, and to each other with -100")
            ],
            help=_message(text, "decode")[1],
            subject="compute_metrics",
            claim=Claim(GENERATED, name, run_data.tokenizer_name(pipeline, location)),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation, stage = evidence.evaluation, evidence.stage("evaluation")
        if evaluation is None or not evaluation.metric_function_called or evaluation.ignored_labels is None:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        if finding.claim is not None and finding.claim.use == GENERATED:
            is_raised = stage is not None and stage.failure is not None and stage.failure.contains(*RAISED)
            outcome = Verdict.confirmed if is_raised else Verdict.inconclusive
            return outcome(
                f"decoding {'raises an error' if is_raised else 'raised no error'} in {evaluation.rows} rows"
            )
        text = f"{evaluation.ignored_labels} of {evaluation.labels} labels are -100"
        if evaluation.ignored_labels == 0:
            split = evidence.split("eval_dataset")
            is_part = split is not None and split.rows is not None and evaluation.rows < split.rows
            # Other rows may be of another length than the few that were evaluated.
            return Verdict.inconclusive(f"{text} in {evaluation.rows} rows") if is_part else Verdict.refuted(text)
        if stage is not None and stage.failure is not None:
            is_this = stage.failure.contains(*RAISED)
            return (
                Verdict.confirmed(f"{text}, and decoding raises {stage.failure.type}")
                if is_this
                else Verdict.inconclusive(text)
            )
        change = evaluation.change_by_ignored
        if change is None:
            return Verdict.inconclusive(f"{text}; their effect on the metrics was not measured")
        if change > SMALLEST_CHANGE:
            return Verdict.confirmed(f"{text}; doubling their number changes a metric by {change:.3g}", change=change)
        return Verdict.refuted(
            f"{text}; doubling their number changes no metric by more than {change:.1g}", change=change
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        """The metrics in a training loop or a Lightning module that also score labels of -100."""
        for location, function, verdict in metric_verdicts.scored_ignored(evidence):
            message = f"`{function}` also scores labels of -100, which mark positions to ignore"
            yield self.finding(location, message, help=EXCLUDE), verdict
        evaluation, failed = evidence.evaluation, evidence.failed_place(*RAISED)
        is_scored = evaluation is not None and evaluation.metric_function_called and evaluation.ignored_labels
        if evidence.loop is None and is_scored and failed is not None:
            found = self.finding(failed, "labels of -100 are decoded, which are no tokens", help=EXCLUDE)
            if (name := metric_verdicts.decoded_predictions(evidence, *RAISED)) is not None:
                message, advice = _message(name, "decode")
                found = self.finding(failed, message, help=advice, claim=Claim(GENERATED, None, None))
            yield from self.if_confirmed(found, evidence)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.name or not claim.tokenizer:
            return None
        statement = f"{claim.name} = np.where({claim.name} != -100, {claim.name}, {claim.tokenizer}.pad_token_id)"
        return fixes.Fix.of(
            "replace -100 with the padding token", fixes.InsertBefore(finding.location, statement), safe=True
        )


def _message(text: str, use: str) -> tuple[str, str]:
    """The message and the help for labels in this use."""
    if use in DECODES:
        advice = f"replace -100 with the padding token: `np.where({text} != -100, {text}, tokenizer.pad_token_id)`"
        return f"`{text}` contains -100, which cannot be decoded", advice
    if use == HITS:
        return f"the mean of `{text}` includes labels of -100", EXCLUDE
    advice = f"exclude these positions: `{text}[{text} != -100]`, and the same positions of the predictions"
    return f"`{text}` contains -100, which is scored as a class", advice


def _run_of(pipeline: Pipeline, labels: Tensor) -> training.TrainerRun | None:
    """The run whose labels these are, if its collator certainly pads them with -100."""
    models = [each for each in python.options_of(labels.model) if isinstance(each, Model)]
    if not models or not all(each.task in PER_TOKEN or each.path.endswith("ForCTC") for each in models):
        return None
    for run in pipeline.runs:
        if models[0] in python.options_of(run.value("model")) and _fills(pipeline, run.value("data_collator")):
            return run
    return None


def _fills(pipeline: Pipeline, collator: python.Value) -> bool:
    """Whether a collator certainly writes -100 into labels: one of transformers, or code of the script with -100."""
    match collator:
        case data.Collator(path=path, arguments=arguments):
            return path in FILLS and "label_pad_token_id" not in arguments
        case (
            python.Instance(cls=python.Class(origin=Location() as origin))
            | python.Function(origin=Location() as origin)
        ):
            return FILLED.search(pipeline.code(origin)) is not None
        case _:
            return False


FILLED = lazy_pattern(r"masked_fill_?\([^#]{1,200}?,\s*-100\s*\)|labels?\[.*\]\s*=\s*-100|labels?\b.*\[-100\]\s*\*")
"""Code of a collator that replaces labels of padding."""


def _imports_numpy(pipeline: Pipeline) -> bool:
    """Whether `np` is NumPy in the whole script."""
    return script_text.Import("numpy", None, "np", is_top_level=True) in script_text.imports_of(pipeline.source)


def _generated(pipeline: Pipeline) -> Iterator[tuple[Location, str, Location]]:
    """The generated tokens of T5 that a metric decodes with what pads one batch to the length of another.

    The Trainer pads each batch to the `max_length` of the model's generation configuration, which T5 does not set, and
    longer batches to each other with -100.
    """
    if pipeline.source.contains(r"generation_config|GenerationConfig|\bmax_length *=.*\bevaluate\("):
        return
    for misuse in pipeline.misuses:
        tokens = misuse.value
        if misuse.use not in DECODES or not isinstance(tokens, Tensor) or tokens.role is not Role.TOKENS:
            continue
        runs = [run for run in pipeline.runs if run.model is tokens.model and not tokens.is_cleaned]
        given = [_length_given(run) for run in runs if tokens.origin is None]
        if given and given[0] is not None and None not in given:
            yield misuse.location, misuse.text, given[0]


def _length_given(run: training.TrainerRun) -> Location | None:
    """Where a run of T5 is given a greater length for its generated texts than it pads them to."""
    settings, model = run.settings, run.model
    is_t5 = isinstance(model, Model) and T5.search(python.text_of(model.checkpoint) or "") is not None
    if settings is None or not is_t5:
        return None
    length = python.number_of(settings.value("generation_max_length"))
    return settings.locations.get("generation_max_length") if length is not None and length > T5_LENGTH else None


T5, T5_LENGTH = lazy_pattern(r"(^|/)(flan-|m|by|um|google-)?t5-"), 20
"""Checkpoints whose configuration leaves the length of a generated text at the default of transformers."""

GENERATED = "generated"


def _uses(pipeline: Pipeline) -> Iterator[tuple[Tensor, Location, str, str]]:
    """The labels that are decoded or scored as classes without excluding -100."""
    for misuse in pipeline.misuses:
        labels = misuse.value if isinstance(misuse.value, Tensor) and misuse.value.role is Role.LABELS else None
        is_text = labels is not None and isinstance(labels.model, Model) and labels.model.task is Task.CAUSAL_LM
        uses = DECODES if is_text else {*DECODES, HITS}  # text in blocks of one length has no label of -100
        if misuse.use in uses and labels is not None and not labels.is_cleaned:
            yield labels, misuse.location, misuse.text, misuse.use
    for call in pipeline.metric_calls:
        if "sample_weight" in pipeline.code(call.location):  # entries may weigh nothing
            continue
        labels = _labels(call.references)
        if labels is not None and call.references is not None and call.metric.takes_classes:
            yield labels, call.references.location, call.references.text, "scored"


def _labels(argument: Argument | None) -> Tensor | None:
    value = argument.value if argument else None
    return value if isinstance(value, Tensor) and value.role is Role.LABELS and not value.is_cleaned else None
