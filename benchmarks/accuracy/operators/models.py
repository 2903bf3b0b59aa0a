"""Mistakes with pretrained models, adapters and precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Code, Edit
from benchmarks.accuracy.finding import arguments, names_in, plain_trainers
from benchmarks.accuracy.mutants import injects
from benchmarks.accuracy.operators.texts import is_model


def loaded(code: Code) -> Iterator[ast.Assign]:
    """The statements `model = AutoModel….from_pretrained(…)` at the top of a script."""
    for made in code.nodes(ast.Assign):
        if isinstance(made.value, ast.Call) and is_model(made.value) and isinstance(made.targets[0], ast.Name):
            yield made


@injects("ineffective-freeze", shows="weights", not_run="a freeze that freezes nothing leaves the run as it was")
def set_an_attribute(code: Code) -> Iterator[list[Edit]]:
    """`requires_grad = False` on a module."""
    for made in loaded(code):
        yield [code.after(made, f"{HERE}{ast.unparse(made.targets[0])}.base_model.requires_grad = False")]


@injects("nothing-trainable", shows="error")
def freeze_everything(code: Code) -> Iterator[list[Edit]]:
    """Freeze every parameter."""
    for made in loaded(code):
        name = ast.unparse(made.targets[0])
        if "peft" not in code.text:
            freeze = f"for parameter in {name}.parameters():\n    {HERE}parameter.requires_grad = False"
            yield [code.after(made, freeze)]


@injects("frozen-head", shows="weights gradients")
def forget_the_task(code: Code) -> Iterator[list[Edit]]:
    """An adapter on a classifier without its task."""
    for config in code.calls("LoraConfig"):
        task = code.argument(config, "task_type")
        if task and names_in(code, "ForSequenceClassification"):
            yield [code.here(code.statement(config)), code.drop_argument(config, "task_type")]


@injects("nothing-trainable", shows="error")
def load_an_adapter_for_inference(code: Code) -> Iterator[list[Edit]]:
    """An adapter that is meant for inference."""
    for config in code.calls("LoraConfig"):
        for wrapped in code.calls("get_peft_model"):
            yield [
                code.here(code.statement(wrapped)),
                code.here(code.statement(config)),
                code.add_argument(config, "inference_mode=True"),
            ]


@injects("missing-lora-targets", shows="error")
def name_other_layers(code: Code) -> Iterator[list[Edit]]:
    """Layers of another family."""
    for config in code.calls("LoraConfig"):
        targets = code.argument(config, "target_modules")
        if targets and "list" not in code.code(targets):
            yield [
                code.here(code.statement(config)),
                code.here(config),
                code.here(targets),
                code.replace(targets.value, '["query_key_value"]'),
            ]


@injects("half-precision-weights", shows="weights")
def train_half_weights(code: Code) -> Iterator[list[Edit]]:
    """All weights in bfloat16, at a low rate."""
    for made in loaded(code):
        if isinstance(made.value, ast.Call) and "peft" not in code.text and list(plain_trainers(code)):
            rates = [code.argument(one, "learning_rate") for one in arguments(code)]
            if any(rate and "2e-5" in code.code(rate) for rate in rates) and not code.argument(made.value, "dtype"):
                edits = [code.add_argument(made.value, f'{HERE}dtype="bfloat16"')]
                yield [code.here(made), *edits]


@injects("fp16-overflow-prone-model", shows="error", not_run="float16 overflows on a GPU")
def train_t5_in_float16(code: Code) -> Iterator[list[Edit]]:
    """mT5 in float16; the first T5 in its small size holds its activations in bounds."""
    for made in arguments(code):
        for name in code.nodes(ast.Constant):
            if name.value == "t5-small":
                fp16 = code.add_argument(made, f"{HERE}fp16=True")
                yield [code.replace(name, '"google/mt5-small"'), code.here(made), fp16]


@injects("fp16-weights-with-scaler", shows="error", not_run="without a GPU the scaler is off")
def scale_float16_weights(code: Code) -> Iterator[list[Edit]]:
    """Weights in float16, with a scaler."""
    for made in loaded(code):
        if isinstance(made.value, ast.Call) and list(plain_trainers(code)) and "peft" not in code.text:
            if not names_in(code, "t5-small") and not code.argument(made.value, "dtype"):
                scaled = [code.add_argument(one, "fp16=True") for one in arguments(code)]
                if scaled:
                    yield [code.here(made), code.add_argument(made.value, f'{HERE}dtype="float16"'), *scaled]


@injects("headless-model", shows="error")
def leave_out_the_head(code: Code) -> Iterator[list[Edit]]:
    """AutoModel for Trainer."""
    for made in loaded(code):
        call = made.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and list(plain_trainers(code)):
            if isinstance(call.func.value, ast.Name) and "peft" not in code.text:
                (trainer, *_) = plain_trainers(code)
                named = code.before(made, "from transformers import AutoModel\n")
                marks = [code.here(made), code.here(code.statement(trainer)), *map(code.here, trainer.keywords[:1])]
                yield [named, code.replace(call.func.value, "AutoModel"), *dict.fromkeys(marks)]


@injects("regression-head-for-classes", shows="error losses")
def give_classes_one_output(code: Code) -> Iterator[list[Edit]]:
    """One output for several classes."""
    for made in loaded(code):
        call = made.value
        labels = code.argument(call, "num_labels") if isinstance(call, ast.Call) else None
        is_count = labels and isinstance(labels.value, ast.Constant) and labels.value.value in (2, 3, 4)
        if labels and is_count and "id2label" not in code.text and list(plain_trainers(code)):  # names tell the count
            yield [code.here(made), code.here(labels), code.replace(labels.value, "1")]


@injects("integer-multilabel-targets", shows="error")
def leave_targets_whole(code: Code) -> Iterator[list[Edit]]:
    """Zeros and ones as whole numbers."""
    for cast in code.calls("float"):
        if names_in(code, "multi_label_classification") and "topic in given" in code.code(cast):
            trainer = next(plain_trainers(code))
            marks = [code.here(code.statement(trainer)), code.here(code.statement(cast))]
            yield [code.replace(cast, f"int({code.code(cast.args[0])})"), *marks]
