"""Mistakes in what reaches a pretrained model: its mask, its padding, its first token, and how it was loaded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.finding import names_in, plain_trainers
from benchmarks.accuracy.mutants import injects
from benchmarks.accuracy.operators.rows import mark
from benchmarks.accuracy.operators.texts import is_model, tokenizer_calls


@injects("missing-attention-mask", shows="inputs")
def leave_the_mask_out(code: Code) -> Iterator[list[Edit]]:
    """The batch's ids and labels alone, of rows that a collator pads."""
    for call in code.calls("model"):
        if ast.unparse(call) == "model(**batch)" and names_in(code, "DataCollatorWithPadding(tokenizer"):
            is_trained = isinstance(code.parent(call), ast.Attribute) and ".loss" in code.code(code.statement(call))
            if is_trained:
                given = 'model(batch["input_ids"], labels=batch["labels"])'
                yield [*mark(code, call), code.replace(call, given)]


@injects("missing-pad-id", shows="error")
def classify_with_a_decoder(code: Code) -> Iterator[list[Edit]]:
    """GPT-2 with the end of a text as padding, of which the model is not told."""
    models = list(code.calls("AutoModelForSequenceClassification.from_pretrained"))
    tokenizers = list(code.calls("AutoTokenizer.from_pretrained"))
    runs = list(plain_trainers(code))
    is_told = any(code.argument(call, "processing_class") for call in runs) or "config" in code.text
    if len(models) == len(tokenizers) == len(runs) == 1 and "DataCollatorWithPadding(" in code.text and not is_told:
        (made,), statement = models, code.statement(tokenizers[0])
        if isinstance(statement, ast.Assign) and not statement.col_offset:
            name = ast.unparse(statement.targets[0])
            padded = code.after(statement, f"{name}.pad_token = {name}.eos_token")
            yield [*mark(code, made), *(code.replace(call.args[0], '"gpt2"') for call in (made, tokenizers[0])), padded]


@injects("double-bos", shows="inputs")
def write_the_first_token_too(code: Code) -> Iterator[list[Edit]]:
    """The begin-of-text token in a text that the tokenizer begins with it."""
    for call in tokenizer_calls(code):
        if names_in(code, "meta-llama") and call.args and isinstance(call.args[0], ast.JoinedStr):
            text = f"{ast.unparse(call.func)}.bos_token + {code.code(call.args[0])}"
            yield [*mark(code, call), code.replace(call.args[0], text)]


@injects("quantized-without-adapter", shows="error", not_run="weights in 4 bits need bitsandbytes")
def load_in_four_bits(code: Code) -> Iterator[list[Edit]]:
    """Weights in 4 bits, trained by a Trainer without adapters."""
    for call in code.nodes(ast.Call):
        runs = list(plain_trainers(code))
        is_plain = is_model(call) and not names_in(code, "peft", "float32", "config")
        statement = code.statement(call)
        if is_plain and runs and not statement.col_offset and statement is not code.statement(runs[0]):
            imported = code.before(statement, "from transformers import BitsAndBytesConfig\n")
            loaded = code.add_argument(call, "quantization_config=BitsAndBytesConfig(load_in_4bit=True)")
            yield [imported, loaded, *(edit for run in runs for edit in mark(code, run))]


@injects("device-map-in-ddp", shows="error", not_run="with one device nothing is spread")
def spread_over_all_devices(code: Code) -> Iterator[list[Edit]]:
    """Every device in each of several processes."""
    for call in code.nodes(ast.Call):
        if is_model(call) and "DistributedDataParallel(" in code.text:
            yield [*mark(code, call), code.add_argument(call, 'device_map="auto"')]


@injects("two-models-on-device", shows="printed")
def keep_a_baseline(code: Code) -> Iterator[list[Edit]]:
    """Another model, counted and left where it is."""
    for made in code.nodes(ast.Assign):
        call = made.value
        moved = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "to"
        if moved and "from_pretrained" in code.code(made) and not made.col_offset:
            lines = f"baseline = {code.code(call)}\nprint(baseline.num_parameters())"
            yield [code.before(made, lines), code.here(made)]


@injects("removed-columns-needed", shows="error")
def weigh_by_a_column(code: Code) -> Iterator[list[Edit]]:
    """A loss that reads a column which the model does not take."""
    for popped in code.nodes(ast.Assign):
        if code.code(popped) == 'labels = inputs.pop("labels")' and names_in(code, '"mrpc"', '"mnli"', '"sst2"'):
            runs = [call for call in code.nodes(ast.Call) if code.argument(call, "train_dataset")]
            marks = [edit for call in runs for edit in mark(code, call)]
            yield [*dict.fromkeys(marks), code.before(popped, 'number = inputs.pop("idx")')]
