"""Mistakes in the rows that reach a model, and in what is made of its weights and outputs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import arguments, function_around, names_in, plain_trainers
from benchmarks.accuracy.mutants import injects
from benchmarks.accuracy.operators.models import loaded
from benchmarks.accuracy.operators.texts import tokenizer_calls


@injects("padding-to-max-length", shows="inputs")
def pad_every_row(code: Code) -> Iterator[list[Edit]]:
    """All rows as long as the longest may be, before a collator that pads each batch."""
    for call in tokenizer_calls(code):
        is_cut = code.argument(call, "max_length") and code.argument(call, "truncation")
        pads = any(code.argument(one, name) for one in plain_trainers(code) for name in PADDERS)
        if is_cut and pads and not code.argument(call, "padding") and names_in(code, "ForSequenceClassification"):
            edit = code.add_argument(call, 'padding="max_length"')
            yield [*mark(code, call), edit]


PADDERS = ("processing_class", "data_collator")


def mark(code: Code, call: ast.Call) -> list[Edit]:
    """The lines of a call: that of its statement, and its own."""
    return list(dict.fromkeys([code.here(code.statement(call)), code.here(call)]))


@injects("extra-batch-dimension", shows="error")
def tokenize_row_by_row(code: Code) -> Iterator[list[Edit]]:
    """Tensors with a leading dimension of one, out of a function that gets one row."""
    for call in tokenizer_calls(code):
        function = function_around(code, call)
        maps = [one for one in code.calls("map") if function and one.args and ast.unparse(one.args[0]) == function.name]
        texts = [*call.args, *(one.value for one in call.keywords if one.arg == "text_pair")]
        is_plain = all(isinstance(text, ast.Subscript) for text in texts) and list(plain_trainers(code))
        if function and len(maps) == 1 and is_plain and code.argument(maps[0], "batched") and returns(function, call):
            tensors = code.add_argument(call, 'return_tensors="pt"')
            yield [*mark(code, call), tensors, code.drop_argument(maps[0], "batched")]


def returns(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Whether a function does nothing but return what a call gives."""
    return len(function.body) == 1 and isinstance(function.body[0], ast.Return) and function.body[0].value is call


@injects("tuple-predictions", shows="error")
def ask_for_hidden_states(code: Code) -> Iterator[list[Edit]]:
    """More outputs than logits, before a metric that takes the predictions for logits."""
    for made in loaded(code):
        for argmax in code.calls("np.argmax"):
            function = function_around(code, argmax)
            is_metric = function and f"compute_metrics={function.name}" in code.text
            if is_metric and isinstance(made.value, ast.Call) and "isinstance(" not in ast.unparse(function or made):
                yield [*mark(code, argmax), code.add_argument(made.value, "output_hidden_states=True")]


@injects("random-weights", shows="weights losses")
def forget_the_weights(code: Code) -> Iterator[list[Edit]]:
    """A model of a checkpoint's configuration, trained at a rate for pretrained weights."""
    for made in loaded(code):
        call = made.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and list(plain_trainers(code)):
            rates = [code.argument(one, "learning_rate") for one in arguments(code)]
            if any(rate and "2e-5" in code.code(rate) for rate in rates) and "peft" not in code.text:
                inside = code.text[code.span(call.func)[1] + 1 : code.span(call)[1] - 1]
                built = f"{code.code(call.func.value)}.from_config(AutoConfig.from_pretrained({inside}))"
                imported = code.before(made, "from transformers import AutoConfig")
                yield [imported, code.here(made), code.replace(call, built)]


@injects("missing-eos", shows="inputs")
def never_end(code: Code) -> Iterator[list[Edit]]:
    """Answers that do not end with the token that ends a text; running text may go on."""
    for whole in code.nodes(ast.BinOp):
        function = function_around(code, whole)
        is_answer = ast.unparse(whole.right).endswith(".eos_token") and isinstance(whole.left, ast.Subscript)
        if function and is_answer and names_in(code, "ForCausalLM"):
            calls = [one for one in tokenizer_calls(code) if function in code.ancestors(one)]
            marks = [edit for call in calls for edit in mark(code, call)]
            yield [*dict.fromkeys(marks), code.replace(whole, code.code(whole.left))]


@injects("keras-labels-in-inputs", shows="error printed")
def put_labels_among_the_inputs(code: Code) -> Iterator[list[Edit]]:
    """Labels in the dictionary of the inputs."""
    for fit in code.calls("model.fit"):
        if len(fit.args) == 2:
            start, end = code.span(fit.args[0])[0], code.span(fit.args[1])[1]
            given = f'{{"x": {code.code(fit.args[0])}, "labels": {code.code(fit.args[1])}}}'
            yield [*dict.fromkeys([*mark(code, fit), code.here(fit.args[0])]), Edit(start, end, given)]
