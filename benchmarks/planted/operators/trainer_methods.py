"""Mistakes in what a script adds to a Trainer of transformers: losses, callbacks, metrics and early stopping."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, is_true, settings, text_of, trainers, without
from benchmarks.planted.operators.trainers import metric_functions
from benchmarks.planted.planting import plants


def _methods(form: Form, base: str, *names: str) -> Iterator[ast.FunctionDef]:
    """The methods of these names in classes whose base ends so."""
    if not form.says("transformers", "trl"):
        return
    for each in form.nodes(ast.ClassDef):
        if any(last_name(one).endswith(base) for one in each.bases):
            methods = (one for one in each.body if isinstance(one, ast.FunctionDef))
            yield from (one for one in methods if one.name in names or (not names and one.name.startswith("on_")))


def _parameters(form: Form, method: ast.FunctionDef) -> tuple[int, int]:
    """The characters from which to which the parameters of a method are written."""
    start = form.text.index("(", form.span(method)[0]) + 1
    body = form.span(method.body[0])[0]
    arrow = form.text.find("->", start, body)
    return start, form.text.rindex(")", start, body if arrow < 0 else arrow)


@plants("compute-loss-signature")
def outputs_not_returned(form: Form) -> Iterator[list[Edit]]:
    """`compute_loss` of a Trainer returns the loss alone, where an evaluation asks for the outputs, too."""
    for method in _methods(form, "Trainer", "compute_loss"):
        if not form.says("eval_dataset=", ".evaluate("):
            continue
        around = form.parent(method)
        # Such a method may ask for the loss alone.
        if isinstance(around, ast.ClassDef) and any(
            getattr(each, "name", "") in ("prediction_step", "evaluation_loop", "evaluate") for each in around.body
        ):
            continue
        returns = [each for each in form.nodes(ast.Return) if form.is_in(each, method)]
        value = returns[0].value if len(returns) == 1 else None
        if isinstance(value, ast.IfExp) and ast.unparse(value.test) == "return_outputs":
            yield [form.here(method), form.replace(value, HERE + form.code(value.orelse))]


@plants("compute-loss-signature", also="unknown-argument")
def items_not_accepted(form: Form) -> Iterator[list[Edit]]:
    """`compute_loss` of a Trainer does not take `num_items_in_batch`, which the training passes."""
    for method in _methods(form, "Trainer", "compute_loss"):
        given = method.args
        names = [each.arg for each in [*given.args, *given.kwonlyargs]]
        is_taken = "num_items_in_batch" in names or given.kwarg is not None
        body = "\n".join(ast.unparse(each) for each in method.body)
        kwarg = given.kwarg.arg if given.kwarg else "num_items_in_batch"
        if is_taken and kwarg not in body and "num_items_in_batch" not in body and names[-1:] != ["self"]:
            start, closing = _parameters(form, method)
            kept = [each for each in names if each != "num_items_in_batch"]
            if kept == ["self", "model", "inputs", "return_outputs"]:
                yield [form.here(method), Edit(start, closing, "self, model, inputs, return_outputs=False")]


@plants("callback-signature")
def callback_takes_no_more_arguments(form: Form) -> Iterator[list[Edit]]:
    """A method of a callback of a Trainer loses its `**kwargs`, and each event passes the model and more."""
    for method in _methods(form, "TrainerCallback"):
        given = method.args
        plain = [each.arg for each in given.args] == ["self", "args", "state", "control"]
        body = "\n".join(ast.unparse(each) for each in method.body)
        if given.kwarg is not None and given.kwarg.arg not in body and plain and not given.kwonlyargs:
            yield [form.here(method), Edit(*_parameters(form, method), "self, args, state, control")]


@plants("removed-columns-needed", also="missing-labels raw-dataset")
def columns_of_a_transform_removed(form: Form) -> Iterator[list[Edit]]:
    """The Trainer removes the columns that a transform of the data set or a collator of the file reads."""
    for call in settings(form, "remove_unused_columns"):
        given = argument(call, "remove_unused_columns")
        if isinstance(given, ast.Constant) and given.value is False and len(list(settings(form))) == 1:
            transforms = list(form.calls("set_transform", "with_transform"))
            if transforms and any("image" in ast.unparse(each).lower() for each in form.functions()):
                found = list(trainers(form, "Trainer"))
                if found:
                    marks = [form.here(call), *map(form.here, [*found, *transforms])]
                    yield [*marks, without(form, call, "remove_unused_columns")]


RAW = ("text", "image", "audio", "messages", "prompt", "sentence", "question", "answer", "caption", "response")


@plants("removed-columns-needed", also="missing-labels raw-dataset")
def columns_of_a_collator_removed(form: Form) -> Iterator[list[Edit]]:
    """The Trainer removes the raw columns that a collator of the file reads."""
    found = list(trainers(form, "Trainer", "Seq2SeqTrainer"))
    given = [each for call in found if (each := argument(call, "data_collator")) is not None]
    names = {ast.unparse(each.func) if isinstance(each, ast.Call) else ast.unparse(each) for each in given}
    made: list[ast.FunctionDef | ast.ClassDef] = [*form.functions(), *form.nodes(ast.ClassDef)]
    own = [each for each in made if each.name in names]
    reads = [
        each
        for each in form.nodes(ast.Subscript)
        if text_of(each.slice) in RAW and isinstance(each.ctx, ast.Load) and any(form.is_in(each, one) for one in own)
    ]
    for call in settings(form, "remove_unused_columns"):
        kept = argument(call, "remove_unused_columns")
        if reads and isinstance(kept, ast.Constant) and kept.value is False and len(list(settings(form))) == 1:
            yield [form.here(call), *map(form.here, [*found, *reads]), without(form, call, "remove_unused_columns")]


SCORES = ("precision_recall_fscore_support", "f1_score", "precision_score", "recall_score", "classification_report")


@plants("swapped-metric-arguments", also="swapped-names")
def labels_scored_as_predictions(form: Form) -> Iterator[list[Edit]]:
    """A score that is not symmetric gets the predictions as labels, and the labels as predictions."""
    for function in metric_functions(form):
        for call in form.calls_in(function, *SCORES):
            names = [ast.unparse(each) for each in call.args[:2]]
            if len(names) == 2 and re.search("label|true|ref", names[0]) and re.search("pred", names[1]):
                if not re.search("pred", names[0]):
                    one, other = call.args[:2]
                    # The mean over classes of F1 is the same for both orders.
                    if last_name(call.func) != "f1_score":
                        edits = [form.replace(one, HERE + form.code(other)), form.replace(other, form.code(one))]
                        yield edits
        for call in form.calls_in(function, "compute"):
            predictions, references = argument(call, "predictions"), argument(call, "references")
            if predictions is not None and references is not None and not re.search("acc", receiver(call)):
                if re.search("pred", ast.unparse(predictions)) and re.search("label|ref", ast.unparse(references)):
                    if re.search("bleu|wer|cer|precision|recall|seqeval|meteor", receiver(call)):
                        texts = form.code(predictions), HERE + form.code(references)
                        yield [form.replace(predictions, texts[1]), form.replace(references, texts[0])]


@plants("swapped-metric-arguments", also="swapped-names logits-in-metric")
def labels_unpacked_as_logits(form: Form) -> Iterator[list[Edit]]:
    """The pair that a metric function gets is unpacked in the wrong order."""
    for function in metric_functions(form):
        row = function.args.args[0].arg if function.args.args else ""
        for statement in form.nodes(ast.Assign):
            target = statement.targets[0]
            if form.is_in(statement, function) and isinstance(target, ast.Tuple) and len(target.elts) == 2:
                one, other = target.elts
                is_pair = ast.unparse(statement.value) == row and "label" in ast.unparse(other)
                if is_pair and form.calls_in(function, "argmax", "batch_decode"):
                    yield [
                        form.here(function),
                        form.replace(one, HERE + form.code(other)),
                        form.replace(other, form.code(one)),
                    ]


@plants("early-stopping-without-metric", also="unavailable-monitor")
def early_stopping_without_best_model(form: Form) -> Iterator[list[Edit]]:
    """A Trainer stops early, and neither the best model nor its metric is asked for."""
    if not form.says("EarlyStoppingCallback("):
        return
    for call in settings(form, "load_best_model_at_end"):
        if is_true(argument(call, "load_best_model_at_end")) and len(list(settings(form))) == 1:
            stops = list(form.calls("EarlyStoppingCallback"))
            marks = [form.here(call), *map(form.here, [*stops, *trainers(form)])]
            yield [*marks, without(form, call, "load_best_model_at_end", "metric_for_best_model", "greater_is_better")]


@plants("threshold-on-logits", also="logits-in-metric")
def sigmoid_of_metric_removed(form: Form) -> Iterator[list[Edit]]:
    """The metric function of a classifier of several labels a row compares logits with 0.5."""
    for function in metric_functions(form):
        text = ast.unparse(function)
        if not re.search(r"(>=?|>) ?0?\.5|threshold", text):
            continue
        for call in form.calls_in(function, "sigmoid", "Sigmoid", "expit"):
            around = form.parent(call)
            whole = around if isinstance(around, ast.Call) and around.func is call else call
            given = whole.args[0] if whole.args else None
            if given is not None and whole.lineno and last_name(whole.func) in ("sigmoid", "expit", ""):
                yield [form.here(function), form.replace(whole, HERE + form.code(given))]
        names = [ast.unparse(each.targets[0]) for each in form.assigned("Sigmoid") if form.is_in(each, function)]
        for call in form.calls_in(function, *names) if names else ():
            if len(call.args) == 1:
                yield [form.here(function), form.replace(call, HERE + form.code(call.args[0]))]
