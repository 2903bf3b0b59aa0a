"""Mistakes in the set-up of a Trainer and in its evaluation."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Code, Edit, Located
from benchmarks.accuracy.finding import arguments, is_text, names_in, plain_trainers, trainers
from benchmarks.accuracy.mutants import injects

STOCK = ("ForSequenceClassification", "ForTokenClassification", "ForMaskedLM", "ForSeq2SeqLM")


def at_trainer(code: Code, call: ast.Call, *names: str) -> list[Edit]:
    """The lines of a Trainer call: its first, and those of some of its arguments."""
    given = [code.argument(call, name) for name in names]
    return [code.here(code.statement(call)), *(code.here(one) for one in given if one)]


@injects("unpadded-batch", shows="error")
def forget_to_pad(code: Code) -> Iterator[list[Edit]]:
    """No collator and no tokenizer for Trainer."""
    for call in plain_trainers(code):
        given = [name for name in ("data_collator", "processing_class") if code.argument(call, name)]
        if given and names_in(code, "ForSequenceClassification") and "padding=" not in code.text:
            yield [*drop(code, call, *given), *at_trainer(code, call)]


def drop(code: Code, call: ast.Call, *names: str) -> list[Edit]:
    """Write a call anew without some of its arguments, on as many lines as it had."""
    given: list[Located] = [*call.args, *(one for one in call.keywords if one.arg not in names)]
    first, last = code.span(call)[0], code.span(call)[1]
    opening = code.span(call.func)[1] + 1
    lines = ",\n    ".join(code.code(one) for one in given)
    has_lines = "\n" in code.text[first:last]
    inner = f"\n    {lines}\n" if has_lines else ", ".join(code.code(one) for one in given)
    return [Edit(opening, last - 1, inner)]


@injects("missing-eval-dataset", shows="error")
def forget_the_evaluation_data(code: Code) -> Iterator[list[Edit]]:
    """Evaluation is asked for, without data."""
    for call in plain_trainers(code):
        asked = any(code.argument(made, "eval_strategy") for made in arguments(code))
        if code.argument(call, "eval_dataset") and asked:
            yield [code.drop_argument(call, "eval_dataset"), *at_trainer(code, call, "args")]


@injects("train-data-in-eval", shows="printed inputs")
def evaluate_on_training_rows(code: Code) -> Iterator[list[Edit]]:
    """The training rows as evaluation rows."""
    for call in plain_trainers(code):
        train, held_out = code.argument(call, "train_dataset"), code.argument(call, "eval_dataset")
        if train and held_out and not isinstance(train.value, ast.IfExp):
            yield [code.here(held_out), code.replace(held_out.value, code.code(train.value))]


@injects("missing-labels", shows="error")
def lose_the_labels(code: Code) -> Iterator[list[Edit]]:
    """Take the label column out of the training data."""
    for call in plain_trainers(code):
        train = code.argument(call, "train_dataset")
        is_known = (
            "load_dataset(" in code.text and '"csv"' not in code.text
        )  # the columns of a file are not in the text
        if train and is_known and names_in(code, "ForSequenceClassification"):
            if isinstance(train.value, ast.Name | ast.Subscript):
                marks = at_trainer(code, call, "train_dataset")
                end = code.span(train)[1]
                yield [*marks, Edit(end, end, '.remove_columns(["label"])')]


@injects("raw-dataset", shows="error")
def hand_over_the_raw_data(code: Code) -> Iterator[list[Edit]]:
    """The data as it was before it was tokenized."""
    tokenized = {
        ast.unparse(one.targets[0]): ast.unparse(one.value.func.value)
        for one in code.nodes(ast.Assign)
        if isinstance(one.value, ast.Call)
        and isinstance(one.value.func, ast.Attribute)
        and one.value.func.attr == "map"
        and tokenizes(code, one.value)
    }
    for call in plain_trainers(code):
        train = code.argument(call, "train_dataset")
        name = train.value.value if train and isinstance(train.value, ast.Subscript) else None
        if train and isinstance(name, ast.Name) and tokenized.get(name.id, name.id) not in (name.id, ""):
            if tokenized[name.id].isidentifier():
                yield [*at_trainer(code, call, "train_dataset"), code.replace(name, tokenized[name.id])]


def tokenizes(code: Code, mapped: ast.Call) -> bool:
    """Whether the function of a `map` calls the tokenizer."""
    named = [one for one in code.nodes(ast.FunctionDef) if mapped.args and ast.unparse(mapped.args[0]) == one.name]
    return any("tokenizer(" in ast.unparse(one) or "tok(" in ast.unparse(one) for one in [*named, *mapped.args])


@injects("missing-num-labels", shows="error outputs")
def forget_the_classes(code: Code) -> Iterator[list[Edit]]:
    """A head of the default size."""
    for call in code.calls("AutoModelForSequenceClassification.from_pretrained"):
        given = code.argument(call, "num_labels")
        sized = [name for name in ("num_labels", "id2label", "label2id") if code.argument(call, name)]
        if given and not is_two(given.value) and not names_in(code, "problem_type") and "csv" not in code.text:
            yield [code.here(code.statement(call)), code.here(call), *drop(code, call, *sized)]


def is_two(node: ast.AST) -> bool:
    """Whether a node is a literal 2."""
    return isinstance(node, ast.Constant) and node.value == 2


@injects("stock-loss-not-scaled", shows="losses gradients")
def accumulate_what_nobody_divides(code: Code) -> Iterator[list[Edit]]:
    """Accumulate the losses of a stock head.

    Not of a checkpoint that the user chooses: only the losses of some models leave the number of items unused.
    """
    for made in arguments(code):
        if names_in(code, "options.checkpoint"):
            continue
        if (
            names_in(code, *STOCK)
            and list(plain_trainers(code))
            and not code.argument(made, "gradient_accumulation_steps")
        ):
            yield [code.here(made), code.add_argument(made, f"{HERE}gradient_accumulation_steps=4")]


OVERRIDE = """

class OwnTrainer(Trainer):
    {first}def compute_loss({parameters}):
        {labels} = inputs.get("labels")
        outputs = model(**inputs)
        loss = torch.nn.functional.cross_entropy(outputs.logits, {labels})
        return (loss, outputs) if return_outputs else loss

"""


def with_own_loss(code: Code, parameters: str, *more: str) -> Iterator[list[Edit]]:
    """Derive from Trainer with a loss of one's own."""
    for call in plain_trainers(code):
        is_classifier = names_in(code, "AutoModelForSequenceClassification") and "problem_type" not in code.text
        if is_classifier and ast.unparse(call.func) == "Trainer" and not code.statement(call).col_offset:
            text = OVERRIDE.format(first=HERE, parameters=parameters, labels="labels")
            own = [code.before(code.statement(call), f"import torch\n{text}"), code.replace(call.func, "OwnTrainer")]
            yield [*own, *(code.add_argument(made, one) for made in arguments(code) for one in more)]


@injects("compute-loss-signature", shows="error")
def leave_out_a_parameter(code: Code) -> Iterator[list[Edit]]:
    """An override that does not take the number of items."""
    yield from with_own_loss(code, "self, model, inputs, return_outputs=False")


@injects("unscaled-compute-loss", shows="losses")
def do_not_use_the_number_of_items(code: Code) -> Iterator[list[Edit]]:
    """An override that returns the mean of a batch, while batches are accumulated."""
    parameters = "self, model, inputs, return_outputs=False, num_items_in_batch=None"
    yield from with_own_loss(code, parameters, "gradient_accumulation_steps=4")


@injects("unmatched-save-strategy", shows="error")
def save_at_other_times(code: Code) -> Iterator[list[Edit]]:
    """Keep the best of what is saved at other times than it is evaluated."""
    for made in arguments(code):
        best, save, check = (code.argument(made, f"{name}") for name in BEST)
        if best and save and check and is_text(check.value, "epoch"):
            yield [code.here(made), code.drop_argument(made, "save_strategy")]


BEST = ("load_best_model_at_end", "save_strategy", "eval_strategy")


@injects("missing-best-metric", shows="error")
def name_another_metric(code: Code) -> Iterator[list[Edit]]:
    """The best by a metric that nobody computes."""
    for made in arguments(code):
        best = code.argument(made, "metric_for_best_model")
        if best:
            yield [code.here(made), code.here(best), code.replace(best.value, '"bleu"')]


@injects("wrong-metric-direction", shows="printed saved", not_run="which checkpoint is kept leaves no trace here")
def forget_that_less_is_better(code: Code) -> Iterator[list[Edit]]:
    """The best by an error, its direction not given."""
    for made in arguments(code):
        best = code.argument(made, "metric_for_best_model")
        if best and is_text(best.value, "mae", "mse", "wer") and code.argument(made, "greater_is_better"):
            yield [code.here(made), code.here(best), code.drop_argument(made, "greater_is_better")]


@injects("unused-eval-settings", shows="modes")
def never_evaluate(code: Code) -> Iterator[list[Edit]]:
    """Data and a metric for evaluations that never come."""
    for call in plain_trainers(code):
        if code.argument(call, "compute_metrics") and not list(code.calls("trainer.evaluate", "trainer.predict")):
            for made in arguments(code):
                if code.argument(made, "eval_strategy") and not code.argument(made, "load_best_model_at_end"):
                    yield [*at_trainer(code, call), code.here(made), code.drop_argument(made, "eval_strategy")]


@injects("unavailable-monitor", shows="error warnings")
def stop_early_by_nothing(code: Code) -> Iterator[list[Edit]]:
    """Early stopping of a Trainer that has no best metric."""
    for callback in code.calls("EarlyStoppingCallback"):
        for made in arguments(code):
            if code.argument(made, "metric_for_best_model"):
                names = [
                    n
                    for n in ("load_best_model_at_end", "metric_for_best_model", "greater_is_better")
                    if code.argument(made, n)
                ]
                yield [code.here(callback), *drop(code, made, *names)]


@injects("missing-predict-with-generate", shows="error printed outputs")
def score_what_was_not_generated(code: Code) -> Iterator[list[Edit]]:
    """Decode the argmax of logits instead of generating."""
    for made in arguments(code):
        if code.argument(made, "predict_with_generate"):
            for call in plain_trainers(code):
                names = [n for n in ("predict_with_generate", "generation_max_length") if code.argument(made, n)]
                yield [*at_trainer(code, call), *drop(code, made, *names)]


@injects("iterable-without-max-steps", shows="error")
def forget_where_a_stream_ends(code: Code) -> Iterator[list[Edit]]:
    """A stream without `max_steps`."""
    for made in arguments(code):
        if code.argument(made, "max_steps") and "IterableDataset" in code.text:
            for call in plain_trainers(code):
                yield [*at_trainer(code, call, "train_dataset"), code.here(made), code.drop_argument(made, "max_steps")]


@injects("both-half-precisions", shows="error")
def ask_for_both_halves(code: Code) -> Iterator[list[Edit]]:
    """Half precision of both kinds."""
    for made in arguments(code):
        last = made.keywords[-1].value if made.keywords else made.args[0]
        if not names_in(code, "fp16", "bf16", "except"):
            yield [code.here(last), code.replace(last, f"{code.code(last)}, bf16=True, fp16=True")]


@injects("unsaved-model", shows="saved")
def keep_nothing(code: Code) -> Iterator[list[Edit]]:
    """Train with no checkpoint and no save.

    A notebook keeps the model in its kernel, and a run that evaluates, or ends after some steps, may be made for its
    numbers: none of these is a mistake.
    """
    saves = [code.statement(call) for call in code.calls("save_model", "model.save_pretrained")]
    for made in arguments(code):
        is_for_numbers = any(code.argument(made, name) for name in ("eval_strategy", "max_steps"))
        if code.path.endswith(".ipynb") or is_for_numbers or names_in(code, ".evaluate(", ".predict("):
            continue
        for train in code.calls("trainer.train"):
            edit = code.set_argument(made, "save_strategy", '"no"')
            yield [code.here(code.statement(train)), edit, *map(code.delete, saves)]


@injects("eval-logits-memory", shows="printed", not_probed="the logits of the small stand-ins fit any machine")
def keep_every_logit(code: Code) -> Iterator[list[Edit]]:
    """A metric of a language model that keeps all logits."""
    metric = (
        "def hit_rate(prediction):\n"
        "    guessed = prediction.predictions.argmax(axis=-1)[:, :-1]\n"
        '    return {"hits": float((guessed == prediction.label_ids[:, 1:]).mean())}\n\n'
    )
    for call in plain_trainers(code):
        is_large = "load_dataset(" in code.text and "split(" not in code.text  # a few rows of the script fit anywhere
        if names_in(code, "ForCausalLM") and code.argument(call, "eval_dataset") and is_large:
            edits = [code.before(code.statement(call), metric), code.add_argument(call, "compute_metrics=hit_rate")]
            if not code.statement(call).col_offset and "compute_metrics" not in code.text:
                yield [*edits, *at_trainer(code, call)]


@injects("double-shift", shows="inputs", not_run="")
def shift_the_blocks(code: Code) -> Iterator[list[Edit]]:
    """Blocks whose labels are moved on by one already."""
    for copy in code.calls("copy"):
        if code.code(copy) == 'blocks["input_ids"].copy()':
            for call in trainers(code):
                shifted = '[[*block[1:], -100] for block in blocks["input_ids"]]'
                yield [
                    *at_trainer(code, call, "train_dataset"),
                    code.here(code.statement(copy)),
                    code.replace(copy, shifted),
                ]
