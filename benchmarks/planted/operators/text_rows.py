"""Mistakes in the rows of texts: their words, their labels, and the axes and columns that tokenizing gives them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, is_true, text_of, trainers, without
from benchmarks.planted.planting import plants


@plants("unaligned-word-labels")
def words_read_as_texts(form: Form) -> Iterator[list[Edit]]:
    """A tokenizer gets lists of words, and is not told that they are the words of one text."""
    for call in form.nodes(ast.Call):
        if is_true(argument(call, "is_split_into_words")) and form.says("word_ids("):
            yield [form.here(call), without(form, call, "is_split_into_words")]


@plants("pad-in-loss", also="unaligned-word-labels unmatched-ignore-index")
def special_tokens_labelled(form: Form) -> Iterator[list[Edit]]:
    """Special tokens and padding of token classification get the label 0, which counts, in place of -100."""
    for test in form.nodes(ast.If):
        compares = test.test
        is_none = isinstance(compares, ast.Compare) and isinstance(compares.ops[0], ast.Is)
        if is_none and "None" in ast.unparse(compares) and "word" in ast.unparse(compares) and len(test.body) == 1:
            for value in form.nodes(ast.UnaryOp):
                if ast.unparse(value) == "-100" and form.is_in(value, test.body[0]):
                    yield [form.here(test), form.replace(value, HERE + "0")]


@plants("row-function-on-batches")
def batches_mapped_row_by_row(form: Form) -> Iterator[list[Edit]]:
    """A function that goes through the texts of a batch is mapped over single rows, so it goes through characters."""
    functions = {each.name: each for each in form.functions()}
    for call in form.calls("map"):
        function = functions.get(call.args[0].id) if call.args and isinstance(call.args[0], ast.Name) else None
        if function is not None and is_true(argument(call, "batched")) and len(function.args.args) == 1:
            row = function.args.args[0].arg
            for loop in form.nodes(ast.comprehension):
                read = loop.iter
                if form.is_in(loop, function) and isinstance(read, ast.Subscript) and ast.unparse(read.value) == row:
                    if text_of(read.slice) in ("text", "sentence", "question", "document", "inputs", "input", "prompt"):
                        yield [form.here(call), form.here(function), without(form, call, "batched", "batch_size")]
                        break


@plants("uneven-columns")
def old_columns_kept(form: Form) -> Iterator[list[Edit]]:
    """A function that returns more or fewer rows than it gets is mapped, and the old columns are kept."""
    functions = {each.name: each for each in form.functions()}
    for call in form.calls("map"):
        function = functions.get(call.args[0].id) if call.args and isinstance(call.args[0], ast.Name) else None
        if function is not None and argument(call, "remove_columns") is not None and is_true(argument(call, "batched")):
            if "return_overflowing_tokens=True" in ast.unparse(function):
                yield [form.here(call), form.here(function), without(form, call, "remove_columns")]


SQUEEZED = re.compile(r"""\[['"](input_ids|attention_mask|token_type_ids)['"]\]|\.(input_ids|attention_mask)$""")


@plants("extra-batch-dimension", also="shape-mismatch")
def axis_of_one_text_kept(form: Form) -> Iterator[list[Edit]]:
    """The rows of a data set keep the axis of length 1 that `return_tensors="pt"` gives to one text."""
    for function in form.functions():
        if function.name != "__getitem__" or "return_tensors" not in ast.unparse(function):
            continue
        found = [
            call
            for call in form.calls_in(function, "squeeze", "flatten")
            if isinstance(call.func, ast.Attribute) and SQUEEZED.search(ast.unparse(call.func.value))
        ]
        tokenizes = [call for call in form.nodes(ast.Call) if text_of(argument(call, "return_tensors")) == "pt"]
        if found and any(form.is_in(each, function) for each in tokenizes) and form.says("DataLoader(", "Trainer("):
            edits = [
                form.replace(call, form.code(call.func.value)) for call in found if isinstance(call.func, ast.Attribute)
            ]
            yield [form.here(function), *(form.here(form.statement(each)) for each in found[:1]), *edits]


@plants("mutated-inputs")
def labels_share_inputs(form: Form) -> Iterator[list[Edit]]:
    """Labels are the inputs themselves, not a copy, and what is hidden in them is hidden in the inputs, too."""
    for statement in form.nodes(ast.Assign):
        call, target = statement.value, statement.targets[0]
        if not (isinstance(call, ast.Call) and last_name(call.func) in ("clone", "copy", "deepcopy")):
            continue
        of = receiver(call) if last_name(call.func) != "deepcopy" else ast.unparse(call.args[0]) if call.args else ""
        if receiver(call) == "copy":
            of = ast.unparse(call.args[0]) if call.args else ""
        if not isinstance(target, ast.Name) or "label" not in target.id or not re.search(r"input_ids", of):
            continue
        function = form.function(statement)
        hides = [
            each
            for each in form.nodes(ast.Assign)
            if form.is_in(each, function)
            and isinstance(each.targets[0], ast.Subscript)
            and ast.unparse(each.targets[0].value) == target.id
            and ast.unparse(each.value) in ("-100", "IGNORE_INDEX", "IGNORE_TOKEN_ID")
            and each.lineno > statement.lineno
        ]
        if hides:
            yield [form.here(hides[0]), form.replace(call, HERE + of)]


@plants("unformatted-dataset")
def rows_left_as_lists(form: Form) -> Iterator[list[Edit]]:
    """Data sets with lists of token ids go into a `DataLoader` that has no `collate_fn`."""
    loaders = list(form.calls("DataLoader"))
    formats = [each for each in form.calls("set_format") if form.is_statement(each)]
    if not form.says("load_dataset", "Dataset.from") or not loaders or form.says("with_format("):
        return
    if not formats or len(formats) != form.text.count("set_format(") or not form.says("tokenizer("):
        return
    kinds = {text_of(argument(each, "type") or next(iter(each.args), None)) for each in formats}
    named = {receiver(each) for each in formats}
    collated = any(argument(each, "collate_fn") is not None for each in loaders)
    if kinds == {"torch"} and not collated and any(name in ast.unparse(each) for each in loaders for name in named):
        yield [*map(form.here, loaders), *(form.delete(form.statement(each)) for each in formats)]


@plants("extra-batch-dimension", also="shape-mismatch")
def rows_get_another_axis(form: Form) -> Iterator[list[Edit]]:
    """A function that tokenizes one row asks for tensors, so each row gets an axis of length 1."""
    functions = {each.name: each for each in form.functions()}
    for call in form.calls("map"):
        function = functions.get(call.args[0].id) if call.args and isinstance(call.args[0], ast.Name) else None
        if function is None or argument(call, "batched") is not None or "return_tensors" in ast.unparse(function):
            continue
        returned = [each.value for each in form.nodes(ast.Return) if form.is_in(each, function)]
        if len(returned) == 1 and isinstance(returned[0], ast.Call) and last_name(returned[0].func) == "tokenizer":
            tokenizes = returned[0]
            found = list(trainers(form, "Trainer", "Seq2SeqTrainer"))
            if found and not form.says("group_texts", "data_collator=lambda"):
                marks = [form.here(call), form.here(function), *map(form.here, found)]
                yield [*marks, form.replace(tokenizes, with_argument(form, tokenizes, 'return_tensors="pt"'))]


def with_argument(form: Form, call: ast.Call, added: str) -> str:
    """The code of a call with one more argument."""
    given = [*(form.code(each) for each in call.args), *(form.code(each) for each in call.keywords), added]
    return f"{form.code(call.func)}({', '.join(given)})"


@plants("missing-pad-id", also="missing-pad-token")
def pad_id_of_classifier_removed(form: Form) -> Iterator[list[Edit]]:
    """The model of a classifier that has no padding token is not told the one of its tokenizer."""
    lacks = re.search(r"""["'][\w./-]*(gpt2|llama|mistral|pythia|gpt-neo|gpt-j|qwen)[\w./-]*["']""", form.text, re.I)
    if not lacks or not form.says("ForSequenceClassification") or form.text.count("pad_token_id") < 1:
        return
    for statement in form.nodes(ast.Assign):
        target = ast.unparse(statement.targets[0])
        if target.endswith("config.pad_token_id") and form.is_alone(statement) and form.text.count(target) == 1:
            models = [each for each in form.calls("from_pretrained") if "ForSequenceClassification" in receiver(each)]
            if models and not any(argument(each, "pad_token_id") is not None for each in models):
                found = list(trainers(form))
                yield [form.delete(statement), *map(form.here, [*models, *found])]


@plants("missing-generation-prompt")
def generation_prompt_removed(form: Form) -> Iterator[list[Edit]]:
    """A chat is given to `generate` without the opening of the turn that the model is to write."""
    for call in form.calls("apply_chat_template"):
        function = form.function(call)
        if is_true(argument(call, "add_generation_prompt")) and isinstance(function, ast.FunctionDef):
            # A text that is put behind the conversation may begin the answer by hand.
            is_continued = isinstance(form.parent(call), ast.BinOp)
            if any(receiver(each) for each in form.calls_in(function, "generate")) and not is_continued:
                yield [form.here(call), without(form, call, "add_generation_prompt")]
