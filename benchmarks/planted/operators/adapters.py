"""Mistakes in scripts with PEFT or TRL: adapters, preferences, rewards."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, settings, text_of, trainers, without
from benchmarks.planted.planting import plants

PROJECTIONS = {"q_proj", "k_proj", "v_proj", "o_proj"}
FAMILY = re.compile(r"""["'][\w.-]+/[\w.-]*(llama|qwen|mistral|gemma|phi|smollm|opt)[\w.-]*["']""", re.IGNORECASE)


@plants("missing-lora-targets", also="unadapted-layer nothing-trainable")
def targets_of_another_architecture(form: Form) -> Iterator[list[Edit]]:
    """LoRA targets the layers of another architecture than that of the checkpoint."""
    for call in form.calls("LoraConfig"):
        given = argument(call, "target_modules")
        if (
            isinstance(given, ast.List)
            and FAMILY.search(form.text)
            and PROJECTIONS & {text_of(one) for one in given.elts}
        ):
            yield [form.here(call), form.replace(given, f'{HERE}["query_key_value"]')]


@plants("frozen-head", also="unsaved-model ineffective-setting")
def task_of_a_language_model(form: Form) -> Iterator[list[Edit]]:
    """The adapter of a classifier is configured as that of a language model, so the new head is frozen."""
    if not form.says("ForSequenceClassification", "ForTokenClassification") or form.says("ForCausalLM"):
        return
    for call in form.calls("LoraConfig"):
        given = argument(call, "task_type")
        if given is not None and ("SEQ_CLS" in form.code(given) or "TOKEN_CLS" in form.code(given)):
            if argument(call, "modules_to_save") is None:
                yield [form.here(call), form.replace(given, f'{HERE}"CAUSAL_LM"')]


def _adapted(form: Form) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """`model = get_peft_model(model, config)`, alone in its file."""
    found = list(form.assigned("get_peft_model"))
    for statement in found if len(found) == 1 else ():
        call = statement.value
        if isinstance(call, ast.Call) and len(call.args) == 2 and form.is_alone(statement):
            yield statement, call


@plants("adapter-given-twice")
def adapter_configured_again(form: Form) -> Iterator[list[Edit]]:
    """A trainer gets a model with an adapter, and `peft_config` as well."""
    for statement, call in _adapted(form):
        for trainer in trainers(form, "SFTTrainer", "DPOTrainer", "GRPOTrainer", "RewardTrainer", "ORPOTrainer"):
            model = argument(trainer, "model") or next(iter(trainer.args), None)
            is_same = model is not None and form.code(model) == form.code(statement.targets[0])
            if is_same and argument(trainer, "peft_config") is None and form.function(trainer) is form.function(call):
                config = form.code(call.args[1])
                if config.isidentifier():
                    yield [form.here(trainer), without(form, trainer, add=f"peft_config={config}")]


@plants("quantized-without-adapter", also="nothing-trainable")
def adapter_left_out(form: Form) -> Iterator[list[Edit]]:
    """A model in 4 or 8 bits is trained without an adapter."""
    if not form.says("load_in_4bit=True", "load_in_8bit=True") or form.says("unsloth"):
        return
    loads = [each for each in form.calls("from_pretrained") if argument(each, "quantization_config") is not None]
    found = list(trainers(form))
    for statement, call in _adapted(form):
        same = form.code(call.args[0]) == form.code(statement.targets[0])
        if same and loads and found and not any(argument(each, "peft_config") is not None for each in found):
            yield [form.delete(statement), *map(form.here, [*loads, *found])]
    for call in found if not form.says("get_peft_model(") else ():
        if loads and argument(call, "peft_config") is not None:
            yield [form.here(call), *map(form.here, loads), without(form, call, "peft_config")]


@plants("missing-preference-columns", also="missing-column")
def chosen_answers_renamed(form: Form) -> Iterator[list[Edit]]:
    """The rows of a preference trainer have `preferred` in place of `chosen`."""
    if not list(trainers(form, "DPOTrainer", "ORPOTrainer", "CPOTrainer", "RewardTrainer")):
        return
    for each in form.nodes(ast.Dict):
        for key in each.keys:
            names = {text_of(one) for one in each.keys}
            if key is not None and text_of(key) == "chosen" and {"prompt", "rejected"} <= names:
                yield [form.here(each), *map(form.here, trainers(form)), form.replace(key, '"preferred"')]


def _rewards(form: Form) -> Iterator[ast.FunctionDef]:
    """The functions of the file that a GRPO trainer gets as rewards."""
    names: set[str] = set()
    for call in form.calls("GRPOTrainer"):
        given = argument(call, "reward_funcs")
        names |= {last_name(one) for one in (given.elts if isinstance(given, ast.List) else [given]) if one is not None}
    yield from (each for each in form.functions() if each.name in names and form.class_of(each) is None)


@plants("reward-signature", also="equal-rewards")
def reward_is_one_number(form: Form) -> Iterator[list[Edit]]:
    """A reward function returns the mean of its rewards in place of the list."""
    for function in _rewards(form):
        returns = [each for each in form.nodes(ast.Return) if form.function(each) is function]
        value = returns[0].value if len(returns) == 1 else None
        if isinstance(value, ast.Name | ast.ListComp):
            text = form.code(value)
            yield [form.here(returns[0]), form.here(function), form.replace(value, f"sum({text}) / len(completions)")]


@plants("reward-signature")
def reward_takes_no_columns(form: Form) -> Iterator[list[Edit]]:
    """A reward function no longer accepts further columns."""
    for function in _rewards(form):
        rest = function.args.kwarg
        if rest is not None and ast.unparse(function).count(rest.arg) == 1:
            text = form.text
            start = text.index("(", form.span(function)[0])
            cut = re.search(rf",?\s*\*\*\s*{rest.arg}(\s*:\s*[\w\[\], .]+?)?\s*(?=[,)])", text[start:])
            if cut:
                yield [form.here(function), Edit(start + cut.start(), start + cut.end(), "")]


@plants("uneven-generations")
def generations_do_not_divide(form: Form) -> Iterator[list[Edit]]:
    """The batch of GRPO cannot be divided into groups of 7 completions."""
    for call in form.calls("GRPOConfig"):
        count, size = argument(call, "num_generations"), argument(call, "per_device_train_batch_size")
        more = argument(call, "gradient_accumulation_steps")
        numbers = [each.value for each in (size, more) if isinstance(each, ast.Constant)]
        is_whole = all(isinstance(each, int) and each % 7 for each in numbers)
        if isinstance(count, ast.Constant) and isinstance(size, ast.Constant) and is_whole:
            if more is None or isinstance(more, ast.Constant):
                yield [form.here(call), form.replace(count, f"{HERE}7")]


@plants("cache-with-checkpointing")
def cache_kept_on(form: Form) -> Iterator[list[Edit]]:
    """Activations are recomputed, and the cache of keys and values is switched on."""
    if not form.says("gradient_checkpointing=True", "gradient_checkpointing_enable()"):
        return
    for statement in form.nodes(ast.Assign):
        target, value = statement.targets[0], statement.value
        if ast.unparse(target).endswith(".config.use_cache") and isinstance(value, ast.Constant) and not value.value:
            if form.text.count("use_cache") == 1:
                yield [form.here(statement), form.replace(value, "True")]


@plants("missing-eos", also="broken-texts")
def end_of_text_removed(form: Form) -> Iterator[list[Edit]]:
    """Training texts no longer end with the token that ends a text."""
    if form.text.count("eos_token") > form.text.count("pad_token = tokenizer.eos_token") + 2:
        return
    for each in form.nodes(ast.BinOp):
        right = ast.unparse(each.right)
        if isinstance(each.op, ast.Add) and (right.endswith("eos_token") or right == "EOS_TOKEN"):
            if list(trainers(form)):
                yield [form.here(each), *map(form.here, trainers(form)), form.replace(each, form.code(each.left))]


@plants("discarded-load")
def merged_model_dropped(form: Form) -> Iterator[list[Edit]]:
    """The result of `merge_and_unload()` is not kept, and the model with its adapter is saved instead."""
    for statement in form.assigned("merge_and_unload"):
        call, name = statement.value, ast.unparse(statement.targets[0])
        # The merge changes the layers of the base model in place, so a model that is only used computes the same.
        saves = [each for each in form.calls("save_pretrained", "push_to_hub") if receiver(each) == name]
        is_saved = any(
            each.lineno > statement.lineno and form.function(each) is form.function(statement) for each in saves
        )
        if is_saved and form.is_alone(statement) and isinstance(call, ast.Call) and receiver(call) == name:
            yield [form.replace(statement, HERE + form.code(call))]


@plants("high-learning-rate")
def rate_of_preferences_raised(form: Form) -> Iterator[list[Edit]]:
    """Preferences are trained with ten thousand times their rate."""
    for call in settings(form, "learning_rate"):
        rate = argument(call, "learning_rate")
        if last_name(call.func) in ("DPOConfig", "GRPOConfig") and isinstance(rate, ast.Constant):
            if isinstance(rate.value, float) and rate.value <= 1e-5:
                yield [form.here(call), form.replace(rate, f"{HERE}{rate.value * 10000:g}")]


@plants("stale-parameters", also="nothing-trainable unchanged-parameters")
def adapter_after_optimizer(form: Form) -> Iterator[list[Edit]]:
    """The adapter is added after the optimizer got the parameters of the model."""
    for statement, call in _adapted(form):
        name = form.code(statement.targets[0])
        for made in form.assigned("AdamW", "Adam", "SGD", "PagedAdamW8bit", "AdamW8bit"):
            is_later = made.lineno > statement.lineno and form.are_neighbours(made, statement)
            if is_later and form.is_alone(made) and f"{name}.parameters()" in form.code(made.value):
                if form.code(call.args[0]) == name:
                    text = HERE + form.lines_of(statement)
                    yield [form.delete(statement), form.after(made, text), form.here(made)]


@plants("nothing-trainable", also="detached-loss quantized-without-adapter")
def preparation_for_bits_forgotten(form: Form) -> Iterator[list[Edit]]:
    """A model in 4 or 8 bits gets an adapter and recomputed activations, and is not prepared for training."""
    is_recomputed = form.says("gradient_checkpointing=True", "gradient_checkpointing_enable(")
    # TRL prepares a model that it adapts itself.
    if not is_recomputed or form.says("unsloth", "enable_input_require_grads", "use_reentrant", "peft_config="):
        return
    for statement in form.assigned("prepare_model_for_kbit_training"):
        call = statement.value
        same = isinstance(call, ast.Call) and call.args and form.code(call.args[0]) == form.code(statement.targets[0])
        if same and form.is_alone(statement) and form.says("load_in_4bit=True", "load_in_8bit=True"):
            marks = [form.here(each) for each in form.calls("get_peft_model")]
            if marks:
                yield [form.delete(statement), *marks]
