"""Mistakes in scripts with a Trainer of transformers: its data, its evaluation and its settings."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name
from benchmarks.planted.operators.arguments import argument, is_true, settings, text_of, trainers, without
from benchmarks.planted.planting import plants

HEADS = ("ForSequenceClassification", "ForTokenClassification", "ForImageClassification", "ForAudioClassification")


def mapped(form: Form) -> dict[str, str]:
    """Names of tokenized data and of the data that each was mapped from, where a function of the file tokenizes."""
    found: dict[str, str] = {}
    for each in form.assigned("map"):
        call, target = each.value, each.targets[0]
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.args:
            if (
                isinstance(call.func.value, ast.Name)
                and isinstance(target, ast.Name)
                and _tokenizes(form, call.args[0])
            ):
                found[target.id] = call.func.value.id
    return {name: raw for name, raw in found.items() if raw != name and raw not in found}


def _tokenizes(form: Form, function: ast.expr) -> bool:
    named = [each for each in form.functions() if isinstance(function, ast.Name) and each.name == function.id]
    return any("tokenizer(" in ast.unparse(each) for each in [*named, function])


@plants("raw-dataset", also="removed-columns-needed missing-labels string-labels unpadded-batch")
def tokenized_data_replaced(form: Form) -> Iterator[list[Edit]]:
    """A Trainer gets the data set from before the tokenizing `map`."""
    names = mapped(form)
    for call in trainers(form, "Trainer", "Seq2SeqTrainer"):
        given = argument(call, "train_dataset")
        name = given.value if isinstance(given, ast.Subscript) else given
        if isinstance(name, ast.Name) and name.id in names and form.text.count(f"{name.id} = ") == 1:
            yield [form.here(call), form.replace(name, HERE + names[name.id])]


@plants("unpadded-batch", also="missing-labels wrong-collator raw-dataset")
def collator_removed(form: Form) -> Iterator[list[Edit]]:
    """A Trainer loses its tokenizer and a collator that pads, and the tokenizer pads nothing."""
    given = ("data_collator", "processing_class", "tokenizer")
    if form.says("padding=", "pad_to_max_length", "group_texts", "block_size"):
        return
    for call in trainers(form, "Trainer", "Seq2SeqTrainer"):
        collator = argument(call, "data_collator")
        made = next((each.value for each in form.assigned(*COLLATORS) if _is_target(each, collator)), collator)
        if isinstance(made, ast.Call) and last_name(made.func) in COLLATORS:
            yield [form.here(call), without(form, call, *given)]


COLLATORS = (
    *("DataCollatorWithPadding", "DataCollatorForTokenClassification", "DataCollatorForSeq2Seq"),
    "DataCollatorForLanguageModeling",
)


def _is_target(statement: ast.Assign, value: ast.expr | None) -> bool:
    return value is not None and ast.unparse(statement.targets[0]) == ast.unparse(value)


@plants("wrong-collator", also="unpadded-batch")
def collator_pads_no_labels(form: Form) -> Iterator[list[Edit]]:
    """The collator of token classification or of sequence-to-sequence becomes one that pads only the inputs."""
    if form.says('padding="max_length"', "padding='max_length'"):
        return
    for call in form.calls("DataCollatorForTokenClassification", "DataCollatorForSeq2Seq"):
        tokenizer = argument(call, "tokenizer") or next(iter(call.args), None)
        if tokenizer is not None and list(trainers(form, "Trainer", "Seq2SeqTrainer")):
            text = f"{HERE}DataCollatorWithPadding({form.code(tokenizer)})"
            yield [form.replace(call, text), *_imported(form, call, "DataCollatorWithPadding")]


def _imported(form: Form, call: ast.Call, name: str) -> list[Edit]:
    """An import of a name of transformers above the statement of a call."""
    return [form.before(form.statement(call), f"from transformers import {name}")]


def _sized(form: Form) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Models of more than two classes with the argument that says so: a number, or the length of something."""
    for call in form.calls("from_pretrained"):
        given = argument(call, "num_labels")
        if given is not None and any(head in ast.unparse(call.func) for head in HEADS):
            is_length = isinstance(given, ast.Call) and last_name(given.func) == "len"
            if is_length or (isinstance(given, ast.Constant) and isinstance(given.value, int) and given.value > 2):
                yield call, given


@plants("missing-num-labels", also="label-out-of-range head-for-other-labels")
def num_labels_removed(form: Form) -> Iterator[list[Edit]]:
    """A classifier of more than two classes gets a head of the default size."""
    for call, given in _sized(form):
        if isinstance(given, ast.Constant) or _length(form, given) > 2:
            yield [form.here(call), without(form, call, "num_labels", "id2label", "label2id")]


def _length(form: Form, call: ast.expr) -> int:
    """The length of a list or dictionary that the file writes out, else 0."""
    if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Name):
        for each in form.nodes(ast.Assign):
            if _is_target(each, call.args[0]) and isinstance(each.value, ast.List | ast.Dict):
                return len(each.value.elts if isinstance(each.value, ast.List) else each.value.keys)
    return 0


@plants("missing-num-labels", also="label-out-of-range head-for-other-labels contradictory-settings")
def num_labels_one_less(form: Form) -> Iterator[list[Edit]]:
    """The head gets one output less than the list of labels has entries."""
    for call, given in _sized(form):
        if isinstance(given, ast.Call):
            yield [form.here(call), form.replace(given, f"{form.code(given)} - 1")]


def metric_functions(form: Form) -> Iterator[ast.FunctionDef]:
    """The functions that Trainers get as `compute_metrics`."""
    names = {last_name(each) for call in trainers(form) if (each := argument(call, "compute_metrics")) is not None}
    yield from (each for each in form.functions() if each.name in names)


@plants("logits-in-metric", also="threshold-on-logits tuple-predictions")
def argmax_removed(form: Form) -> Iterator[list[Edit]]:
    """The metric function compares logits with the labels."""
    for function in metric_functions(form):
        scores = form.calls_in(function, "compute", "accuracy_score", "f1_score", "precision_recall_fscore_support")
        for call in form.calls_in(function, "argmax"):
            of = (
                call.args[0] if last_name(getattr(call.func, "value", call)) == "np" else getattr(call.func, "value", 0)
            )
            if scores and isinstance(of, ast.expr) and "batch_decode" not in ast.unparse(function):
                yield [form.here(function), form.replace(call, form.code(of))]


@plants("argmax-without-axis")
def argmax_axis_removed(form: Form) -> Iterator[list[Edit]]:
    """The metric function takes one argmax over all rows."""
    for function in metric_functions(form):
        for call in form.calls_in(function, "argmax"):
            if last_name(getattr(call.func, "value", call)) == "np" and argument(call, "axis") is not None:
                yield [form.here(call), without(form, call, "axis")]


@plants("non-dict-metrics")
def metric_returned_alone(form: Form) -> Iterator[list[Edit]]:
    """The metric function returns its number without a name."""
    for function in metric_functions(form):
        for returned in form.nodes(ast.Return):
            value = returned.value
            is_number = isinstance(value, ast.Dict) and len(value.values) == 1 and value.keys[0] is not None
            if form.is_in(returned, function) and isinstance(value, ast.Dict) and is_number:
                yield [form.here(returned), form.replace(value, form.code(value.values[0]))]


@plants("ignored-index-in-metric")
def ignored_labels_decoded(form: Form) -> Iterator[list[Edit]]:
    """Labels of -100 are not replaced before they are decoded."""
    for function in metric_functions(form):
        decodes = form.calls_in(function, "batch_decode")
        for statement in form.nodes(ast.Assign):
            text = ast.unparse(statement)
            is_mask = "-100" in text and "label" in text.split("=")[0] and ("where(" in text or "[" in text)
            if form.is_in(statement, function) and len(decodes) > 1 and is_mask and form.is_alone(statement):
                yield [form.delete(statement), *map(form.here, decodes)]


@plants("missing-predict-with-generate")
def generation_removed(form: Form) -> Iterator[list[Edit]]:
    """Texts are compared, but the evaluation no longer generates any."""
    decodes = any("batch_decode" in ast.unparse(each) for each in metric_functions(form))
    for call in settings(form, "predict_with_generate"):
        if decodes and is_true(argument(call, "predict_with_generate")):
            yield [*map(form.here, trainers(form)), form.here(call), without(form, call, "predict_with_generate")]


@plants("missing-best-metric")
def best_metric_misspelt(form: Form) -> Iterator[list[Edit]]:
    """`metric_for_best_model` names a metric that is not computed."""
    for call in settings(form, "metric_for_best_model"):
        given = argument(call, "metric_for_best_model")
        if text_of(given) and list(trainers(form)):
            assert given is not None
            yield [form.here(call), form.replace(given, f'{HERE}"{text_of(given)}_overall"')]


@plants("wrong-metric-direction")
def best_metric_reversed(form: Form) -> Iterator[list[Edit]]:
    """The worst checkpoint counts as the best: `greater_is_better` is reversed."""
    known = ("loss", "eval_loss", "wer", "cer", "eval_wer", "accuracy", "f1", "eval_accuracy", "eval_f1", "rouge1")
    for call in settings(form, "greater_is_better"):
        better = argument(call, "greater_is_better")
        if text_of(argument(call, "metric_for_best_model")) in known and isinstance(better, ast.Constant):
            yield [form.here(call), form.replace(better, f"{HERE}{not better.value}")]


@plants("unmatched-save-strategy")
def checkpoints_saved_at_other_times(form: Form) -> Iterator[list[Edit]]:
    """The best checkpoint is asked for, and saves are made at other times than evaluations."""
    for call in settings(form, "load_best_model_at_end"):
        save, check = argument(call, "save_strategy"), evaluation_of(call)
        if is_true(argument(call, "load_best_model_at_end")) and text_of(save) == text_of(check) == "epoch":
            assert save is not None
            yield [form.here(call), form.replace(save, f'{HERE}"steps"')]


def evaluation_of(call: ast.Call) -> ast.expr | None:
    """The strategy of the evaluation, by its new or its old name."""
    return argument(call, "eval_strategy") or argument(call, "evaluation_strategy")


@plants("unused-eval-settings", also="unmatched-save-strategy early-stopping-without-metric")
def evaluation_not_enabled(form: Form) -> Iterator[list[Edit]]:
    """Evaluation data and a metric are given, but no evaluation is asked for."""
    if form.says("do_eval", ".evaluate(", ".predict("):
        return
    for call in settings(form, "eval_strategy", "evaluation_strategy"):
        if any(argument(each, "eval_dataset") is not None for each in trainers(form)):
            marks = [form.here(call), *map(form.here, trainers(form))]
            yield [*marks, without(form, call, "eval_strategy", "evaluation_strategy")]


@plants("missing-eval-dataset", also="unavailable-monitor")
def eval_dataset_removed(form: Form) -> Iterator[list[Edit]]:
    """Evaluation is asked for, and there is no data for it."""
    asked = [each for each in settings(form) if text_of(evaluation_of(each)) in ("epoch", "steps")]
    for call in trainers(form):
        if argument(call, "eval_dataset") is not None and len(asked) == 1 and form.text.count("TrainingArguments(") < 2:
            yield [form.here(call), form.here(asked[0]), without(form, call, "eval_dataset")]


@plants("train-data-in-eval", also="overwritten-eval-data")
def training_rows_as_evaluation(form: Form) -> Iterator[list[Edit]]:
    """A Trainer evaluates on its training data."""
    for call in trainers(form):
        train, held_out = argument(call, "train_dataset"), argument(call, "eval_dataset")
        if isinstance(train, ast.Name | ast.Subscript) and isinstance(held_out, ast.Name | ast.Subscript):
            if form.code(train) != form.code(held_out):
                yield [form.here(call), form.replace(held_out, HERE + form.code(train))]


@plants("both-half-precisions", also="contradictory-settings")
def both_precisions_set(form: Form) -> Iterator[list[Edit]]:
    """Training is asked for in float16 and in bfloat16."""
    for call in settings(form, "fp16", "bf16"):
        names = [name for name in ("fp16", "bf16") if is_true(argument(call, name))]
        if len(names) == 1:
            other = "bf16" if names == ["fp16"] else "fp16"
            cut = [without(form, call, other, add=f"{HERE}{other}=True")]
            yield [form.here(call), *cut]


@plants("warmup-exceeds-training")
def warmup_longer_than_training(form: Form) -> Iterator[list[Edit]]:
    """The warm-up takes twice the steps of the training."""
    for call in settings(form, "max_steps"):
        steps = argument(call, "max_steps")
        if isinstance(steps, ast.Constant) and isinstance(steps.value, int) and steps.value > 10:
            text = f"{HERE}warmup_steps={2 * steps.value}"
            # Without a schedule there is no warm-up.
            if text_of(argument(call, "lr_scheduler_type")) != "constant":
                yield [form.here(call), without(form, call, "warmup_steps", "warmup_ratio", add=text)]


@plants("high-learning-rate")
def rate_of_fine_tuning_raised(form: Form) -> Iterator[list[Edit]]:
    """A pretrained model is trained with a thousand times its rate."""
    for call in settings(form, "learning_rate"):
        rate = argument(call, "learning_rate")
        if form.says("from_pretrained") and isinstance(rate, ast.Constant) and isinstance(rate.value, float):
            # Adapters of few weights are trained at such rates.
            if rate.value >= 1e-5 and not form.says("PromptTuning", "PromptEncoder", "PrefixTuning", "IA3"):
                yield [form.here(call), form.replace(rate, f"{HERE}{rate.value * 1000:g}")]


@plants("low-learning-rate")
def rate_of_fine_tuning_lowered(form: Form) -> Iterator[list[Edit]]:
    """A pretrained model is trained with a hundred-thousandth of its rate."""
    for call in settings(form, "learning_rate"):
        rate = argument(call, "learning_rate")
        if isinstance(rate, ast.Constant) and isinstance(rate.value, float) and 0 < rate.value <= 1e-3:
            yield [form.here(call), form.replace(rate, f"{HERE}{rate.value / 100000:g}")]


@plants("single-class-cross-entropy", also="float-class-labels integer-multilabel-targets ineffective-setting")
def one_class_a_row_expected(form: Form) -> Iterator[list[Edit]]:
    """A classifier of several labels a row is told that each row has one."""
    for call in form.calls("from_pretrained"):
        given = argument(call, "problem_type")
        if text_of(given) == "multi_label_classification" and list(trainers(form)):
            marks = [form.here(call), *map(form.here, trainers(form))]
            assert given is not None
            yield [*marks, form.replace(given, '"single_label_classification"')]
