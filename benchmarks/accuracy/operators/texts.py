"""Mistakes with tokenizers, collators and checkpoints."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Code, Edit
from benchmarks.accuracy.finding import arguments, names_in, plain_trainers, trainers
from benchmarks.accuracy.mutants import injects
from benchmarks.accuracy.operators.trainers import at_trainer, drop

ENCODERS = ("bert-base", "distilbert-base", "roberta-base")
SENTENCES = ('"glue"', '"ag_news"')
"""Data sets whose rows are all far shorter than any model's longest input."""


def tokenizer_calls(code: Code) -> Iterator[ast.Call]:
    """The calls of a tokenizer on texts."""
    yield from code.calls("tokenizer", "tok")


@injects("missing-truncation", shows="inputs", not_run="the texts of the tiny data are short")
def forget_to_truncate(code: Code) -> Iterator[list[Edit]]:
    """A tokenizer that cuts nothing, before a model with a longest input."""
    for call in tokenizer_calls(code):
        cuts = [name for name in ("truncation", "max_length") if code.argument(call, name)]
        may_be_long = "load_dataset(" in code.text and not names_in(code, "csv", "filter", *SENTENCES)
        if "truncation" in cuts and names_in(code, *ENCODERS) and may_be_long:
            yield [code.here(code.statement(call)), code.here(call), *drop(code, call, *cuts)]


def cut_rows(code: Code) -> Iterator[tuple[ast.Call, ast.keyword]]:
    """The calls of a tokenizer that name a longest row, with that argument, in a script that trains an encoder."""
    checkpoints = [checkpoint_of(code, call.args[0]) for call in code.nodes(ast.Call) if is_model(call) and call.args]
    if not checkpoints or not all(name.startswith(ENCODERS) for name in checkpoints):
        return
    for call in tokenizer_calls(code):
        longest = code.argument(call, "max_length")
        if longest and isinstance(longest.value, ast.Constant):
            yield call, longest


@injects("over-long-input", shows="error")
def pad_past_the_positions(code: Code) -> Iterator[list[Edit]]:
    """Every row padded to more tokens than an encoder has positions."""
    for call, longest in cut_rows(code) if "roberta" not in code.text else ():
        padded = [] if code.argument(call, "padding") else [code.add_argument(call, 'padding="max_length"')]
        yield [code.here(code.statement(call)), code.here(call), code.replace(longest.value, "600"), *padded]


@injects("over-long-input", shows="inputs error", not_run="the texts of the tiny data are short")
def cut_past_the_positions(code: Code) -> Iterator[list[Edit]]:
    """Rows of running text, cut to more tokens than an encoder has positions."""
    for call, longest in cut_rows(code):
        if '"wikitext"' in code.text:
            yield [code.here(code.statement(call)), code.here(call), code.replace(longest.value, "1000")]


@injects("pad-token-is-eos", shows="inputs")
def pad_with_the_end(code: Code) -> Iterator[list[Edit]]:
    """The end of a text as padding, which the collator does not score."""
    for added in code.calls("add_special_tokens"):
        if "DataCollatorForLanguageModeling" in code.text and isinstance(added.func, ast.Attribute):
            name = code.code(added.func.value)
            yield [code.here(code.statement(added)), code.replace(added, f"{name}.pad_token = {name}.eos_token")]


@injects("missing-pad-token", shows="error")
def forget_the_padding_token(code: Code) -> Iterator[list[Edit]]:
    """Padding by a tokenizer that has no token for it."""
    for added in code.calls("add_special_tokens"):
        resized = [code.statement(call) for call in code.calls("resize_token_embeddings")]
        if "DataCollatorForLanguageModeling" in code.text and not code.statement(added).col_offset:
            marks = [code.here(code.statement(call)) for call in code.calls("DataCollatorForLanguageModeling")]
            more = [code.here(call) for call in code.calls("DataCollatorForLanguageModeling")]
            yield [code.delete(code.statement(added)), *map(code.delete, resized), *dict.fromkeys([*marks, *more])]


@injects("unresized-embeddings", shows="error outputs")
def forget_the_new_rows(code: Code) -> Iterator[list[Edit]]:
    """New tokens without rows in the embeddings."""
    for resized in code.calls("resize_token_embeddings"):
        for added in code.calls("add_special_tokens"):
            yield [code.delete(code.statement(resized)), code.here(code.statement(added))]


@injects("tokenizer-model-mismatch", shows="inputs error")
def take_another_tokenizer(code: Code) -> Iterator[list[Edit]]:
    """The tokenizer of another checkpoint."""
    for call in code.calls("AutoTokenizer.from_pretrained"):
        if names_in(code, *ENCODERS) and call.args and "options" not in code.code(call):
            other = "bert-base-uncased" if checkpoint_of(code, call.args[0]) == "roberta-base" else "roberta-base"
            calls = [*trainers(code), *code.calls("DataLoader")]
            used = [code.here(location) for one in calls for location in (code.statement(one), one)]
            used = used or [code.here(code.statement(call))]
            yield [code.replace(call.args[0], f'"{other}"'), *dict.fromkeys(used)]


def checkpoint_of(code: Code, given: ast.expr) -> str:
    """The name of the checkpoint that is given, also by a name of the script's."""
    if isinstance(given, ast.Constant):
        return str(given.value)
    named = [one.value for one in code.nodes(ast.Assign) if ast.unparse(one.targets[0]) == ast.unparse(given)]
    return next((str(one.value) for one in named if isinstance(one, ast.Constant)), "")


def is_model(call: ast.Call) -> bool:
    """Whether a call loads a pretrained model."""
    name = ast.unparse(call.func)
    return name.startswith("AutoModel") and name.endswith("from_pretrained")


@injects("mlm-on-causal-model", shows="error inputs")
def mask_words_of_a_causal_model(code: Code) -> Iterator[list[Edit]]:
    """Leave out `mlm=False`."""
    for collator in code.calls("DataCollatorForLanguageModeling"):
        if code.argument(collator, "mlm") and "ForCausalLM" in code.text:
            yield [code.here(code.statement(collator)), code.here(collator), code.drop_argument(collator, "mlm")]


@injects("mlm-on-causal-model", shows="inputs")
def mask_nothing(code: Code) -> Iterator[list[Edit]]:
    """`mlm=False` for a masked language model."""
    for collator in code.calls("DataCollatorForLanguageModeling"):
        if "ForMaskedLM" in code.text:
            edit = code.set_argument(collator, "mlm", "False")
            yield [code.here(code.statement(collator)), code.here(collator), edit]


@injects("wrong-collator", shows="error inputs")
def pad_inputs_alone(code: Code) -> Iterator[list[Edit]]:
    """A collator that pads no labels."""
    for collator in code.calls("DataCollatorForTokenClassification", "DataCollatorForSeq2Seq"):
        if isinstance(collator.func, ast.Name) and list(plain_trainers(code)) and "lora" not in code.path:
            (trainer,) = plain_trainers(code)
            statement = code.statement(trainer)
            imported = code.before(statement, "from transformers import DataCollatorWithPadding\n")
            marks = [code.here(statement), code.here(collator)]
            built = code.replace(collator, f"DataCollatorWithPadding({code.code(given_tokenizer(collator))})")
            if not statement.col_offset and code.statement(collator) is statement:
                yield [imported, *marks, built]


def given_tokenizer(collator: ast.Call) -> ast.expr:
    """The tokenizer that a collator is given."""
    return collator.args[0] if collator.args else collator.keywords[0].value


@injects("overwritten-labels", shows="inputs error")
def score_the_prompt(code: Code) -> Iterator[list[Edit]]:
    """A collator that makes labels of its own, where the data masks the prompt."""
    for collator in code.calls("DataCollatorForSeq2Seq"):
        if "-100" in code.text and "ForCausalLM" in code.text:
            (trainer,) = plain_trainers(code)
            imported = code.before(
                code.statement(trainer), "from transformers import DataCollatorForLanguageModeling\n"
            )
            built = f"DataCollatorForLanguageModeling({code.code(given_tokenizer(collator))}, mlm=False)"
            marks = dict.fromkeys([code.here(code.statement(trainer)), code.here(collator)])
            yield [imported, *marks, code.replace(collator, built)]


@injects("removed-argument", shows="error")
def evaluate_by_the_old_name(code: Code) -> Iterator[list[Edit]]:
    """The old name of `eval_strategy`."""
    for made in arguments(code):
        strategy = code.argument(made, "eval_strategy")
        if strategy:
            start = code.span(strategy)[0]
            yield [code.here(strategy), Edit(start, start + len("eval_strategy"), "evaluation_strategy")]


@injects("removed-argument", shows="error")
def give_the_tokenizer_by_its_old_name(code: Code) -> Iterator[list[Edit]]:
    """The old name of `processing_class`."""
    for call in plain_trainers(code):
        given = code.argument(call, "processing_class")
        if given:
            start = code.span(given)[0]
            yield [code.here(given), Edit(start, start + len("processing_class"), "tokenizer")]


@injects("removed-name", shows="error")
def import_what_is_gone(code: Code) -> Iterator[list[Edit]]:
    """The optimizer that transformers had."""
    imports = [node for node in code.nodes(ast.ImportFrom) if node.module == "transformers" and not node.col_offset]
    if imports:
        yield [code.before(imports[0], f"{HERE}from transformers import AdamW")]


@injects("discarded-map", shows="inputs error")
def throw_the_result_away(code: Code) -> Iterator[list[Edit]]:
    """A method of a data set, called for nothing."""
    for made in code.nodes(ast.Assign):
        call = made.value
        if code.path.endswith(".py") and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            same = ast.unparse(made.targets[0]) == ast.unparse(call.func.value)
            if same and call.func.attr in ("map", "rename_column", "remove_columns") and "datasets" in code.text:
                yield [code.here(made), code.replace(made, code.code(call))]


@injects("dataset-from-evaluate", shows="error")
def load_data_as_a_metric(code: Code) -> Iterator[list[Edit]]:
    """`evaluate.load` for a data set."""
    for load in code.calls("load_dataset"):
        if "import evaluate" in code.text and len(load.args) == 2 and not code.statement(load).col_offset:
            first = next(node for node in code.nodes(ast.Import) if "evaluate" in code.code(node))
            if first.lineno < load.lineno:
                yield [code.here(code.statement(load)), code.replace(load.func, "evaluate.load")]


@injects("sorted-subset", shows="inputs")
def cut_before_shuffling(code: Code) -> Iterator[list[Edit]]:
    """The first rows of a data set that is sorted by class."""
    for cut in code.calls("select"):
        inner = cut.func.value if isinstance(cut.func, ast.Attribute) else None
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "shuffle":
            if "imdb" in code.text:
                yield [code.here(code.statement(cut)), code.replace(inner, code.code(inner.func.value))]


@injects("string-labels", shows="error")
def leave_labels_as_words(code: Code) -> Iterator[list[Edit]]:
    """Words as labels."""
    for made in code.nodes(ast.Assign):
        if code.code(made).startswith('df["label"] = df["label"].map('):
            marks = (mark for call in plain_trainers(code) for mark in at_trainer(code, call, "train_dataset"))
            yield [code.delete(made), *marks]
