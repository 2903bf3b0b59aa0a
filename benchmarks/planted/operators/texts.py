"""Mistakes with tokenizers, tokenized data sets and language models."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, is_true, text_of, trainers, without
from benchmarks.planted.planting import plants


def mapped_functions(form: Form) -> Iterator[ast.FunctionDef]:
    """The functions of the file that are given to `map`."""
    names = {each.args[0].id for each in form.calls("map") if each.args and isinstance(each.args[0], ast.Name)}
    yield from (each for each in form.functions() if each.name in names)


@plants("missing-labels", also="raw-dataset unpadded-batch removed-columns-needed unset-label-names")
def labels_not_set(form: Form) -> Iterator[list[Edit]]:
    """A mapped function tokenizes, and no longer sets the labels."""
    if form.says("DataCollatorForLanguageModeling", "SFTTrainer", "DataCollatorForCompletion"):
        return
    for function in mapped_functions(form):
        for statement in form.nodes(ast.Assign):
            target = statement.targets[0]
            is_labels = isinstance(target, ast.Subscript) and text_of(target.slice) == "labels"
            found = [*trainers(form, "Trainer", "Seq2SeqTrainer")]
            if is_labels and form.is_in(statement, function) and found and not form.loop(statement):
                if ast.unparse(function).count("labels']") == 1 and form.is_alone(statement):
                    yield [form.delete(statement), *map(form.here, found), form.here(function)]


@plants("missing-labels", also="string-labels removed-columns-needed missing-column raw-dataset unset-label-names")
def label_column_not_renamed(form: Form) -> Iterator[list[Edit]]:
    """The column of the labels keeps a name that the model does not know."""
    for call in form.calls("rename_column"):
        names = [text_of(each) for each in call.args]
        if len(names) == 2 and names[1] in ("label", "labels") and names[0] not in ("label", "labels", "label_ids"):
            found = list(trainers(form, "Trainer", "Seq2SeqTrainer"))
            if found and isinstance(call.func, ast.Attribute):
                marks = [form.here(form.statement(call)), *map(form.here, found)]
                yield [*marks, form.replace(call, form.code(call.func.value))]


@plants(
    "missing-truncation", also="over-long-input encoding-length uneven-columns unpadded-batch padding-to-max-length"
)
def truncation_removed(form: Form) -> Iterator[list[Edit]]:
    """A mapped function tokenizes without truncation."""
    for function in mapped_functions(form):
        for call in form.calls_in(function, "tokenizer", "tok"):
            padding = argument(call, "padding")
            # With `max_length` and without padding, transformers truncates by itself.
            is_cut = argument(call, "max_length") is not None and (padding is None or ast.unparse(padding) == "False")
            if is_true(argument(call, "truncation")) and argument(call, "stride") is None and not is_cut:
                if list(trainers(form, "Trainer", "Seq2SeqTrainer")):
                    yield [form.here(call), without(form, call, "truncation")]


@plants("missing-pad-token", also="missing-pad-id unpadded-batch")
def pad_token_removed(form: Form) -> Iterator[list[Edit]]:
    """The tokenizer of a model without a padding token gets none."""
    lacks = re.search(r"""["'][\w./-]*(gpt2|llama-?2|Llama-2|mistral|pythia|gpt-neo|gpt-j)[\w./-]*["']""", form.text)
    if not lacks or form.says("add_special_tokens(", "unsloth", "pad_token=") or form.text.count("pad_token =") != 1:
        return
    for statement in form.nodes(ast.Assign):
        target, around = statement.targets[0], form.parent(statement)
        if isinstance(target, ast.Attribute) and target.attr == "pad_token" and form.is_alone(statement):
            test = ast.unparse(around.test) if isinstance(around, ast.If) else ""
            gone = around if isinstance(around, ast.If) and "pad_token" in test and len(around.body) == 1 else statement
            uses = [each for each in form.nodes(ast.Call) if is_padding(each) and each.lineno > gone.lineno]
            if uses and not (isinstance(gone, ast.If) and gone.orelse):
                yield [form.delete(gone), *map(form.here, uses)]


def is_padding(call: ast.Call) -> bool:
    """Whether a call asks for padding: of a tokenizer, or by a collator or trainer; TRL's set the token themselves."""
    padding = argument(call, "padding")
    if isinstance(padding, ast.Constant) and padding.value:
        return True
    return last_name(call.func).startswith("DataCollator") or last_name(call.func) == "Trainer"


@plants("pad-in-loss", also="unmatched-ignore-index")
def padding_kept_in_labels(form: Form) -> Iterator[list[Edit]]:
    """Labels of padding are no longer replaced by -100."""
    for choice in form.nodes(ast.IfExp):
        body, test, other = form.code(choice.body), form.code(choice.test), form.code(choice.orelse)
        kept = other if body == "-100" else body if other == "-100" else ""
        function = form.function(choice)
        is_scored = not isinstance(function, ast.FunctionDef) or re.search("metric|eval|predict", function.name)
        is_scored = is_scored or re.search("eval|infer|predict", form.path.rsplit("/", 1)[-1])
        if kept and "pad_token_id" in test and not is_scored:
            yield [form.here(form.statement(choice)), form.replace(choice, kept)]
    for statement in form.nodes(ast.Assign):
        target = statement.targets[0]
        function = form.function(statement)
        if isinstance(target, ast.Subscript) and ast.unparse(statement.value) == "-100" and form.is_alone(statement):
            is_scored = not isinstance(function, ast.FunctionDef) or re.search("metric|eval", function.name)
            is_scored = is_scored or re.search("eval|infer|predict", form.path.rsplit("/", 1)[-1])
            is_padding = "pad_token_id" in ast.unparse(target.slice) and not _pads_nothing(form, function)
            if is_padding and isinstance(function, ast.FunctionDef) and not is_scored:
                yield [form.here(function), form.delete(statement)]


def _pads_nothing(form: Form, function: ast.AST) -> bool:
    """Whether a function makes its own tensors of tokens, each of one text, and so without padding."""
    tensors = [each for each in form.nodes(ast.Call) if argument(each, "return_tensors") is not None]
    made = [each for each in tensors if form.is_in(each, function) and last_name(each.func) != "pad"]
    return bool(made) and all(argument(each, "padding") is None for each in made)


@plants("mlm-on-causal-model")
def masked_words_for_causal_model(form: Form) -> Iterator[list[Edit]]:
    """The collator of a causal model hides words in place of shifting them."""
    if not form.says("ForCausalLM", "LMHeadModel") or form.says("ForMaskedLM"):
        return
    for call in form.calls("DataCollatorForLanguageModeling"):
        given = argument(call, "mlm")
        if isinstance(given, ast.Constant) and given.value is False:
            yield [form.here(call), without(form, call, "mlm")]


@plants("tokenizer-model-mismatch")
def tokenizer_of_another_checkpoint(form: Form) -> Iterator[list[Edit]]:
    """The tokenizer is loaded from another checkpoint than the model."""
    loads = [each for each in form.calls("from_pretrained") if each.args and isinstance(each.func, ast.Attribute)]
    models = {form.code(each.args[0]) for each in loads if receiver(each).rsplit(".", 1)[-1].startswith("AutoModelFor")}
    for call in loads:
        if receiver(call) == "AutoTokenizer" and form.code(call.args[0]) in models:
            other = "gpt2" if re.search("bert", _checkpoint(form, call.args[0]), re.IGNORECASE) else "bert-base-uncased"
            if _checkpoint(form, call.args[0]):
                yield [form.here(call), form.replace(call.args[0], f'"{other}"')]


def _checkpoint(form: Form, value: ast.expr) -> str:
    """The name of a checkpoint that is written out, in the call or in the only assignment of its name."""
    if isinstance(value, ast.Name):
        given = [each.value for each in form.nodes(ast.Assign) if ast.unparse(each.targets[0]) == value.id]
        return text_of(given[0]) if len(given) == 1 else ""
    return text_of(value)


@plants("unresized-embeddings", also="token-id-out-of-range untrained-new-tokens")
def embeddings_not_resized(form: Form) -> Iterator[list[Edit]]:
    """Tokens are added, and the embedding of the model keeps its size."""
    if not form.says("add_tokens(", "add_special_tokens("):
        return
    resizes = list(form.calls("resize_token_embeddings"))
    if len(resizes) == 1 and form.is_statement(resizes[0]):
        # A tokenizer of BERT has a padding token, so nothing is added to it.
        tests = [each for each in form.ancestors(resizes[0]) if isinstance(each, ast.If)]
        if form.says("bert") and any("pad_token" in ast.unparse(each.test) for each in tests):
            return
        added = [*form.calls("add_tokens", "add_special_tokens")]
        yield [form.delete(form.statement(resizes[0])), *map(form.here, added)]


@plants("discarded-map")
def map_result_dropped(form: Form) -> Iterator[list[Edit]]:
    """The result of `map`, `filter` or `rename_column` of a data set is not kept."""
    if not form.says("load_dataset", "Dataset.from"):
        return
    for statement in form.assigned("map", "rename_column", "filter", "remove_columns"):
        call = statement.value
        if (
            isinstance(call, ast.Call)
            and receiver(call) == ast.unparse(statement.targets[0])
            and form.is_alone(statement)
        ):
            yield [form.replace(statement, HERE + form.code(call))]


@plants("row-function-on-batches")
def rows_mapped_in_batches(form: Form) -> Iterator[list[Edit]]:
    """A function that formats one row is mapped with `batched=True`."""
    for call in form.calls("map"):
        if not call.args or not isinstance(call.args[0], ast.Name) or argument(call, "batched") is not None:
            continue
        for function in form.functions():
            if function.name == call.args[0].id and len(function.args.args) == 1 and _formats(function):
                yield [form.here(call), form.here(function), without(form, call, add="batched=True")]


def _formats(function: ast.FunctionDef) -> bool:
    """Whether a function puts a column of its row into a text."""
    row = function.args.args[0].arg
    holes = (each.value for each in ast.walk(function) if isinstance(each, ast.FormattedValue))
    return any(isinstance(each, ast.Subscript) and ast.unparse(each.value) == row for each in holes)


@plants("missing-column", also="raw-dataset")
def column_misspelt(form: Form) -> Iterator[list[Edit]]:
    """A mapped function reads a column that the data of a public name do not have."""
    if len(re.findall(r"load_dataset\(", form.text)) != 1 or form.says("data_files"):
        return
    loads = [each for each in form.calls("load_dataset") if each.args]
    # A name that only an option or a configuration gives may be of any data set.
    if not loads or _checkpoint(form, loads[0].args[0]) in {"", "json", "csv", "text", "parquet"}:
        return
    for function in mapped_functions(form):
        row = function.args.args[0].arg if function.args.args else ""
        for read in form.nodes(ast.Subscript):
            if form.is_in(read, function) and isinstance(read.value, ast.Name) and read.value.id == row:
                if isinstance(read.ctx, ast.Load) and text_of(read.slice) in (
                    "text",
                    "sentence",
                    "question",
                    "document",
                ):
                    yield [form.here(read), form.replace(read, f'{row}["{text_of(read.slice)}s_"]')]


@plants("right-padded-generation", also="prompt-in-output")
def padding_moved_to_the_right(form: Form) -> Iterator[list[Edit]]:
    """Prompts of a decoder are padded on the right, and it continues the padding."""
    if not form.says("ForCausalLM", "LMHeadModel", "GRPOTrainer") or form.text.count("padding_side") != 1:
        return
    generates = [each for each in form.calls("generate") if receiver(each)]
    # A single prompt is not padded.
    pads = [
        each
        for each in form.calls("tokenizer", "tok")
        if argument(each, "padding") is not None and each.args and not form.code(each.args[0]).startswith("[")
    ]
    if not generates or not pads:
        return
    for statement in form.nodes(ast.Assign):
        target = statement.targets[0]
        if isinstance(target, ast.Attribute) and target.attr == "padding_side" and text_of(statement.value) == "left":
            yield [form.replace(statement.value, f'{HERE}"right"'), *map(form.here, [*generates, *pads])]
    for call in form.calls("from_pretrained"):
        given = argument(call, "padding_side")
        if given is not None and text_of(given) == "left":
            yield [form.replace(given, f'{HERE}"right"'), *map(form.here, [*generates, *pads])]
