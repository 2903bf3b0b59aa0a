"""Mistakes in fine-tuning of language models: prompts, preferences, adapters and models in few bits."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, is_true, text_of, trainers, without
from benchmarks.planted.planting import plants

ADAPTED = ("SFTTrainer", "DPOTrainer", "GRPOTrainer", "RewardTrainer", "ORPOTrainer", "KTOTrainer", "CPOTrainer")


def _pairs(made: ast.Dict) -> dict[str, ast.expr]:
    """The values of a dictionary by the texts that are their keys."""
    return {text_of(key): value for key, value in zip(made.keys, made.values, strict=True) if key is not None}


@plants("swapped-names")
def preferences_swapped(form: Form) -> Iterator[list[Edit]]:
    """The rejected answer is given as the chosen one, and the chosen one as the rejected."""
    if not list(trainers(form, "DPOTrainer", "ORPOTrainer", "CPOTrainer", "RewardTrainer")):
        return
    for made in form.nodes(ast.Dict):
        values = _pairs(made)
        if {"chosen", "rejected"} <= set(values):
            chosen, rejected = values["chosen"], values["rejected"]
            good, bad = form.code(chosen), form.code(rejected)
            if "chosen" in good and "rejected" in bad and "rejected" not in good and "chosen" not in bad:
                yield [form.here(chosen), form.replace(chosen, HERE + bad), form.replace(rejected, HERE + good)]


@plants("wrong-loss-sign")
def margin_of_answers_reversed(form: Form) -> Iterator[list[Edit]]:
    """The loss of preferences rewards the rejected answer: its margin is reversed."""
    for call in form.calls("logsigmoid"):
        margin = call.args[0] if len(call.args) == 1 else None
        if isinstance(margin, ast.BinOp) and isinstance(margin.op, ast.Sub):
            left, right = form.code(margin.left), form.code(margin.right)
            if re.search("chosen|accept|win", left) and re.search("reject|los(e|ing)", right):
                if isinstance(form.parent(call), ast.UnaryOp) and isinstance(margin.right, ast.Name | ast.Attribute):
                    yield [form.here(call), form.replace(margin, f"{right} - {left}")]


@plants("unfilled-answer")
def training_text_ends_with_prompt(form: Form) -> Iterator[list[Edit]]:
    """A training text ends with the header of one more answer: `add_generation_prompt=True`."""
    if not list(trainers(form, "SFTTrainer")) or form.says("generate("):
        return
    for call in form.calls("apply_chat_template"):
        given = argument(call, "add_generation_prompt")
        if isinstance(given, ast.Constant) and given.value is False:
            yield [form.here(call), form.replace(given, f"{HERE}True")]


@plants("missing-generation-prompt")
def prompt_of_answer_left_out(form: Form) -> Iterator[list[Edit]]:
    """A model answers a conversation that does not end with the header of its answer."""
    for call in form.calls("apply_chat_template"):
        function = form.function(call)
        later = [each for each in form.calls_in(function, "generate") if each.lineno > call.lineno]
        if is_true(argument(call, "add_generation_prompt")) and later and not isinstance(function, ast.Module):
            yield [form.here(call), *map(form.here, later), without(form, call, "add_generation_prompt")]


@plants("pad-token-is-eos", also="missing-eos")
def padding_becomes_end_of_text(form: Form) -> Iterator[list[Edit]]:
    """The padding token is the end of the text, which the collator then masks in the labels."""
    collators = [
        each
        for each in form.calls("DataCollatorForLanguageModeling")
        if isinstance(mlm := argument(each, "mlm"), ast.Constant) and mlm.value is False
    ]
    for statement in form.nodes(ast.Assign):
        target, value = statement.targets[0], statement.value
        if last_name(target) == "pad_token" and isinstance(target, ast.Attribute) and collators:
            owner = ast.unparse(target.value)
            if ast.unparse(value) == f"{owner}.unk_token" or text_of(value):
                if form.text.count("pad_token = ") == 1 and not form.says("</s>"):
                    marks = map(form.here, collators)
                    yield [form.here(statement), form.replace(value, f"{owner}.eos_token"), *marks]


@plants("contradictory-settings")
def compute_type_left_out(form: Form) -> Iterator[list[Edit]]:
    """A model in 4 bits computes in 32: the type of its computations is left out."""
    for call in form.calls("BitsAndBytesConfig"):
        given = argument(call, "bnb_4bit_compute_dtype")
        if given is not None and "16" in form.code(given) and is_true(argument(call, "load_in_4bit")):
            if list(trainers(form)):
                yield [form.here(call), without(form, call, "bnb_4bit_compute_dtype")]


@plants("contradictory-settings", also="wrong-argument-kind")
def reference_is_the_policy(form: Form) -> Iterator[list[Edit]]:
    """The model that is trained is its own reference."""
    for call in trainers(form, "DPOTrainer", "KTOTrainer"):
        model = argument(call, "model") or next(iter(call.args), None)
        reference = argument(call, "ref_model")
        if isinstance(model, ast.Name) and reference is not None and argument(call, "peft_config") is None:
            if not form.says("get_peft_model", "precompute_ref_log_probs=True", "PeftModel", "unsloth"):
                yield [form.here(call), form.replace(reference, HERE + model.id)]


@plants("unmarked-assistant-turns", also="fully-masked-labels")
def response_template_of_another_prompt(form: Form) -> Iterator[list[Edit]]:
    """The text at which answers begin is one that no training text has, so no token is trained."""
    for call in form.calls("DataCollatorForCompletionOnlyLM"):
        given = argument(call, "response_template") or next(iter(call.args), None)
        named = [
            each.value
            for each in form.nodes(ast.Assign)
            if given is not None and ast.unparse(each.targets[0]) == ast.unparse(given) and text_of(each.value)
        ]
        template = named[0] if len(named) == 1 else given
        text = text_of(template).strip()
        if text and template is not None and form.text.count(text) > 1 and not form.says("### Reply of model:"):
            yield [form.here(call), form.here(template), form.replace(template, f'{HERE}"### Reply of model:"')]


@plants("ineffective-setting", also="quantized-without-adapter")
def adapter_config_unused(form: Form) -> Iterator[list[Edit]]:
    """LoRA is configured, and neither the model nor the trainer gets it: all weights are trained."""
    for statement in form.assigned("LoraConfig"):
        name = ast.unparse(statement.targets[0])
        if len(re.findall(rf"\b{re.escape(name)}\b", form.text)) != (3 if name == "peft_config" else 2):
            continue
        for call in trainers(form, *ADAPTED):
            given = argument(call, "peft_config")
            if given is not None and ast.unparse(given) == name:
                yield [form.here(statement), form.here(call), without(form, call, "peft_config")]
        for made in form.assigned("get_peft_model"):
            adapts = made.value
            if not isinstance(adapts, ast.Call) or not adapts.args or name not in form.code(adapts):
                continue
            is_same = form.code(adapts.args[0]) == form.code(made.targets[0])
            if is_same and form.is_alone(made) and form.says("rainer("):
                yield [form.here(statement), form.delete(made), *map(form.here, trainers(form))]


@plants("missing-column", also="missing-preference-columns raw-dataset")
def text_column_misspelt(form: Form) -> Iterator[list[Edit]]:
    """`dataset_text_field` is the name of no column: a letter more than the one that the file makes."""
    keys = {name for made in form.nodes(ast.Dict) for name in _pairs(made)}
    for call in form.calls("SFTTrainer", "SFTConfig"):
        given = argument(call, "dataset_text_field")
        if given is not None and text_of(given) in keys:
            marks = [form.here(each) for each in trainers(form, "SFTTrainer")]
            yield [form.here(call), *marks, form.replace(given, f'{HERE}"{text_of(given)}s"')]


@plants("reward-signature", also="equal-rewards")
def completion_not_unpacked(form: Form) -> Iterator[list[Edit]]:
    """A reward function takes the messages of a completion for its text."""
    for function in form.functions():
        if not function.args.args or "completions" not in {each.arg for each in function.args.args}:
            continue
        for each in form.nodes(ast.Subscript):
            if (
                form.is_in(each, function)
                and text_of(each.slice) == "content"
                and isinstance(each.value, ast.Subscript)
            ):
                is_first = isinstance(each.value.slice, ast.Constant) and each.value.slice.value == 0
                if is_first and isinstance(each.value.value, ast.Name) and list(form.calls("GRPOTrainer")):
                    yield [form.here(function), form.replace(each, HERE + each.value.value.id)]


@plants("nothing-trainable", also="detached-loss")
def loaded_adapter_frozen(form: Form) -> Iterator[list[Edit]]:
    """An adapter is loaded for inference, and then trained further."""
    for call in form.calls("from_pretrained"):
        if receiver(call).endswith("PeftModel") and is_true(argument(call, "is_trainable")):
            marks = [form.here(each) for each in trainers(form)]
            if marks and not form.says("requires_grad"):
                yield [form.here(call), *marks, without(form, call, "is_trainable")]
