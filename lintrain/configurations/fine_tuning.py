"""Files that say everything about a fine-tuning run: axolotl, LLaMA-Factory, the `trl` command, training arguments."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import partial

from lintrain.configurations.document import Entry, Items, Node, Scalar, Section
from lintrain.configurations.kind import Kind
from lintrain.configurations.program import Keyword, Program
from lintrain.model.location import Location

CAUSAL = "transformers.AutoModelForCausalLM.from_pretrained"
LOADING = ("load_in_4bit", "load_in_8bit")

AXOLOTL = frozenset(
    {
        *("datasets", "sequence_len", "micro_batch_size", "adapter", "val_set_size", "sample_packing", "num_epochs"),
        *("dataset_prepared_path", "gradient_accumulation_steps", "output_dir", "pretraining_dataset", "lora_r"),
        *("load_in_4bit", "load_in_8bit", "rl", "optimizer", "flash_attention", "lora_target_linear", "lr_scheduler"),
        *("eval_sample_packing", "pad_to_sequence_len", "train_on_inputs", "test_datasets", "saves_per_epoch"),
    }
)
AXOLOTL_SIGNS = frozenset(
    {
        *("datasets", "pretraining_dataset", "test_datasets", "dataset_prepared_path", "sequence_len"),
        *("sample_packing", "pad_to_sequence_len", "lora_target_linear", "evals_per_epoch", "saves_per_epoch"),
    }
)
AXOLOTL_ONLY = frozenset(
    {
        *("micro_batch_size", "sequence_len", "val_set_size", "dataset_prepared_path", "sample_packing"),
        *("lora_target_linear", "pad_to_sequence_len", "base_model", "evals_per_epoch", "saves_per_epoch"),
    }
)
AXOLOTL_ARGUMENTS = {
    **{
        name: name
        for name in (
            *("output_dir", "gradient_accumulation_steps", "learning_rate", "max_steps", "warmup_steps"),
            *("warmup_ratio", "weight_decay", "bf16", "fp16", "tf32", "gradient_checkpointing", "eval_steps"),
            *("eval_strategy", "save_strategy", "save_steps", "logging_steps", "max_grad_norm", "seed"),
            *("load_best_model_at_end", "metric_for_best_model", "greater_is_better", "group_by_length"),
            "deepspeed",
        )
    },
    "micro_batch_size": "per_device_train_batch_size",
    "eval_batch_size": "per_device_eval_batch_size",
    "num_epochs": "num_train_epochs",
    "lr_scheduler": "lr_scheduler_type",
    "optimizer": "optim",
}
LORA_OF_AXOLOTL = {
    "lora_r": "r",
    "lora_alpha": "lora_alpha",
    "lora_dropout": "lora_dropout",
    "lora_target_modules": "target_modules",
    "lora_modules_to_save": "modules_to_save",
}

LORA_OF_FACTORY = {"lora_rank": "r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout"}

FACTORY = frozenset(
    {
        *("stage", "finetuning_type", "template", "cutoff_len", "dataset_dir", "lora_rank", "lora_target", "do_train"),
        *("dataset", "quantization_bit", "pref_beta", "pref_loss", "export_dir", "infer_backend", "max_samples"),
    }
)
FACTORY_ONLY = frozenset({"stage", "finetuning_type", "template"})

ARGUMENTS = frozenset(
    {
        *("output_dir", "per_device_train_batch_size", "per_device_eval_batch_size", "num_train_epochs"),
        *("gradient_accumulation_steps", "lr_scheduler_type", "logging_steps", "save_strategy", "eval_strategy"),
        *("evaluation_strategy", "save_total_limit", "warmup_ratio", "load_best_model_at_end", "save_steps"),
        *("gradient_checkpointing", "remove_unused_columns", "dataloader_num_workers", "push_to_hub", "report_to"),
        *("ddp_find_unused_parameters", "metric_for_best_model", "weight_decay", "learning_rate", "max_steps"),
        *("warmup_steps", "eval_steps", "bf16", "fp16", "seed", "optim", "logging_strategy", "overwrite_output_dir"),
    }
)
ARGUMENTS_ONLY = frozenset(
    {
        *("per_device_train_batch_size", "per_device_eval_batch_size", "num_train_epochs", "lr_scheduler_type"),
        *("save_total_limit", "load_best_model_at_end", "remove_unused_columns", "ddp_find_unused_parameters"),
        *("evaluation_strategy", "eval_strategy", "save_strategy", "logging_strategy", "overwrite_output_dir"),
    }
)
DUMPED = frozenset({"_n_gpu", "__cached__setup_devices", "log_history", "best_model_checkpoint", "total_flos"})
"""Keys of files that a run wrote about itself: what is in them is not what somebody chose."""

OTHER_WORDS = frozenset(
    {
        *("lr", "batch_size", "epochs", "num_epochs", "n_epochs", "grad_clip", "clip_grad", "grad_accum"),
        *("max_seq_len", "max_len", "clip_eps", "kl_coeff", "train_batch_size", "min_lr", "use_lora", "task_type"),
    }
)
"""Words for what training arguments call otherwise: another program reads the file, and passes on what it chooses."""

OTHER_OPTIMIZERS = frozenset(
    {"use_galore", "use_apollo", "use_badam", "use_adam_mini", "use_muon", "loraplus_lr_ratio", "freeze_vision_tower"}
)
"""Options of LLaMA-Factory that bring an optimizer of their own, or leave weights out."""

TRL_TRAINERS = (
    ("RLOO", {"rloo_k", "normalize_advantages", "reward_clip_range", "num_mini_batches"}),
    ("Reward", {"center_rewards_coefficient"}),
    ("GRPO", {"num_generations", "max_completion_length", "reward_funcs", "num_iterations", "use_vllm"}),
    ("KTO", {"desirable_weight", "undesirable_weight"}),
    ("DPO", {"beta", "loss_type", "rpo_alpha", "precompute_ref_log_probs"}),
    (
        "SFT",
        {
            *("packing", "dataset_text_field", "assistant_only_loss", "completion_only_loss", "max_seq_length"),
            *("dataset_num_proc", "chat_template_path", "padding_free", "packing_strategy"),
        },
    ),
)
TRL_DATA = frozenset({"dataset_name", "dataset_train_split", "dataset_test_split", "dataset_config"})
TRL_LORA = {"lora_r": "r", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout"}


def _is_axolotl(section: Section) -> bool:
    keys = section.keys
    # Other tools have a `base_model` beside a batch size and a rank too.
    is_run = "base_model" in keys and bool(keys & AXOLOTL_SIGNS) and len(keys & AXOLOTL) > 1
    return is_run or len(keys & AXOLOTL_ONLY) > 3


def _is_factory(section: Section) -> bool:
    keys = section.keys
    names = "model_name_or_path" in keys and len(keys & FACTORY) > 1 and keys & FACTORY_ONLY
    return bool(names) or len(keys & FACTORY) > 4


def _is_arguments(section: Section) -> bool:
    keys = section.keys
    is_other = bool(keys & (DUMPED | OTHER_WORDS))
    return len(keys & ARGUMENTS) > 2 and bool(keys & ARGUMENTS_ONLY) and not is_other


def _trl_trainer(section: Section) -> str:
    """The trainer that the keys of training arguments belong to; empty if they are for the plain one."""
    keys = section.keys
    return next((name for name, own in TRL_TRAINERS if len(own & keys) > (name == "DPO")), "")


def _names_data(section: Section) -> bool:
    keys = section.keys
    return len(keys & TRL_DATA) > 1 or {"model_name_or_path", "dataset_name"} <= keys


def _is_trl(section: Section, trainer: str) -> bool:
    named = _trl_trainer(section) or ("SFT" if _names_data(section) else "")
    starts = {"model_name_or_path", "dataset_name"} <= section.keys and len(section.keys & ARGUMENTS) > 1
    starts &= not section.keys & OTHER_WORDS
    return named == trainer and (starts or _is_arguments(section))


def _write_arguments(program: Program, section: Section) -> None:
    """The arguments alone: which model they are for is in the script that reads the file."""
    name = "Seq2SeqTrainingArguments" if "predict_with_generate" in section.keys else "TrainingArguments"
    is_part = program.is_part or "output_dir" not in section.keys
    arguments = program.call(f"transformers.{name}", section.location, program.keywords(section), is_open=is_part)
    program.assign("args", arguments, section.location)


def _write_trl(program: Program, section: Section, trainer: str) -> None:
    keywords = program.keywords(section)
    for taker in ("trl.ScriptArguments", "trl.ModelConfig"):
        program.do(program.call(taker, section.location, keywords), section.location)
    is_part = program.is_part or "output_dir" not in section.keys
    arguments = program.call(f"trl.{trainer}Config", section.location, keywords, is_open=is_part)
    program.assign("args", arguments, section.location)
    model = section.entry("model_name_or_path")
    if model is None:
        return
    given = [program.keyword(model, "model"), Keyword("args", program.name("args", model.location), model.location)]
    given += _trl_data(program, section)
    if _is_true(section.get("use_peft")):
        given.append(_adapter(program, section, TRL_LORA, section.entry("lora_target_modules")))
    _train(program, f"trl.{trainer}Trainer", model.location, given)


def _trl_data(program: Program, section: Section) -> list[Keyword]:
    """The splits that the command passes to the trainer."""
    name = section.entry("dataset_name")
    if name is None or section.get("datasets") is not None:
        # A mixture, or a key of the script that reads the file: there are rows, and nothing is known of them.
        return [Keyword("eval_dataset", program.unknown(section.location), section.location)]
    config = section.entry("dataset_config")
    given = [program.keyword(name, "path"), *([program.keyword(config, "name")] if config else [])]
    program.assign("dataset", program.call("datasets.load_dataset", name.location, given), name.location)
    strategy = section.text("eval_strategy")
    found: list[Keyword] = []
    for argument, key, split in (
        ("train_dataset", "dataset_train_split", "train"),
        ("eval_dataset", "dataset_test_split", "test"),
    ):
        if argument == "eval_dataset" and strategy in (None, "no"):
            continue
        entry = section.entry(key)
        location = entry.location if entry else name.location
        chosen = program.value(entry.value) if entry else program.constant(split, location)
        rows = program.item(program.name("dataset", location), chosen, location)
        found.append(Keyword(argument, rows, location))
    return found


def _write_factory(program: Program, section: Section) -> None:
    keywords = program.keywords(section)
    program.do(program.call("llamafactory.config", section.location, keywords), section.location)
    if section.get("export_dir") is not None or section.get("infer_backend") is not None:
        return
    arguments = program.call("transformers.Seq2SeqTrainingArguments", section.location, keywords)
    program.assign("args", arguments, section.location)
    model = section.entry("model_name_or_path")
    stage = section.text("stage") or "sft"
    if model is None or not _is_true(section.get("do_train")) or stage not in ("sft", "pt", "dpo", "kto"):
        return
    _load(program, model, ())
    given = _with_model(program, model)
    way = section.text("finetuning_type") or "lora"
    if way in ("lora", "oft"):
        _adapt(program, _adapter(program, section, LORA_OF_FACTORY, section.entry("lora_target")))
    if way == "freeze" or section.keys & OTHER_OPTIMIZERS:
        given.append(Keyword(None, program.unknown(model.location), model.location))
    evaluation = section.entry("eval_strategy") or section.entry("evaluation_strategy") or model
    if section.keys & {"val_size", "eval_dataset"}:
        given.append(Keyword("eval_dataset", program.unknown(model.location), model.location))
    _train(program, "transformers.Seq2SeqTrainer", evaluation.location, given)


def _write_axolotl(program: Program, section: Section) -> None:
    keywords = program.keywords(section)
    program.do(program.call("axolotl.config", section.location, keywords), section.location)
    for key in ("datasets", "test_datasets", "pretraining_dataset"):
        _write_axolotl_data(program, section.get(key), "pretraining_dataset" if key.startswith("pre") else "datasets")
    renamed = program.renamed(section, AXOLOTL_ARGUMENTS)
    program.assign(
        "args",
        program.call("transformers.TrainingArguments", section.location, renamed, is_open=True),
        section.location,
    )
    model = section.entry("base_model")
    if model is None or section.get("rl") is not None or section.get("pretraining_dataset") is not None:
        return
    _load(program, model, [program.keyword(each) for key in LOADING if (each := section.entry(key)) is not None])
    given = _with_model(program, model)
    if section.text("adapter") is not None:
        _adapt(program, _adapter(program, section, LORA_OF_AXOLOTL, section.entry("lora_target_modules")))
    if section.get("unfrozen_parameters") is not None or section.get("plugins") is not None:
        given.append(Keyword(None, program.unknown(model.location), model.location))
    given.append(Keyword("eval_dataset", program.unknown(model.location), model.location))
    _train(program, "transformers.Trainer", model.location, given)


def _write_axolotl_data(program: Program, node: Node | None, name: str) -> None:
    for each in node.items if isinstance(node, Items) else ():
        if isinstance(each, Section):
            call = program.call(f"axolotl.config.{name}", each.location, program.keywords(each))
            program.do(call, each.location)


def _load(program: Program, model: Entry, options: Iterable[Keyword]) -> None:
    """`model = AutoModelForCausalLM.from_pretrained(…)`, with the name of the checkpoint as it is in the file."""
    named = Keyword("pretrained_model_name_or_path", program.value(model.value), model.location)
    program.assign("model", program.call(CAUSAL, model.location, [named, *options], is_open=True), model.location)


def _with_model(program: Program, model: Entry) -> list[Keyword]:
    location = model.location
    return [Keyword(name, program.name(name, location), location) for name in ("model", "args")]


def _adapter(program: Program, section: Section, names: dict[str, str], targets: Entry | None) -> Keyword:
    """`peft_config=LoraConfig(…)`, at the key that names the layers or at the first about the adapter."""
    given = program.renamed(section, names)
    if targets is not None and "lora_target_modules" not in names:
        given.append(Keyword("target_modules", _names(program, targets.value), targets.location))
    location = targets.location if targets else given[0].location if given else _first(section)
    return Keyword("peft_config", program.call("peft.LoraConfig", location, given, is_open=True), location)


def _adapt(program: Program, config: Keyword) -> None:
    """`model = get_peft_model(model, peft_config=…)`."""
    location = config.location
    model = Keyword("model", program.name("model", location), location)
    program.assign("model", program.call("peft.get_peft_model", location, [model, config]), location)


def _names(program: Program, node: Node) -> ast.expr:
    """The layers of an adapter: a list, or names in one text with commas between them."""
    if isinstance(node, Scalar) and isinstance(node.value, str) and "," in node.value:
        parts = [program.constant(each.strip(), node.location) for each in node.value.split(",")]
        return program.at(ast.List(parts, ast.Load()), node.location)
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value.isidentifier() and node.value != "all":
        return program.at(ast.List([program.value(node)], ast.Load()), node.location)
    return program.value(node)


def _train(program: Program, path: str, location: Location, given: Iterable[Keyword]) -> None:
    program.assign("trainer", program.call(path, location, given), location)
    program.do(program.method("trainer", "train", location), location)


def _first(section: Section) -> Location:
    return section.entries[0].location if section.entries else section.location


def _is_true(node: Node | None) -> bool:
    return isinstance(node, Scalar) and node.value is True


GENERATION = frozenset({"do_sample", "max_new_tokens", "temperature", "top_p", "eos_token_id", "repetition_penalty"})


def _is_generation(section: Section) -> bool:
    is_saved = section.keys & {"transformers_version", "_from_model_config"}
    return bool(is_saved) and len(section.keys & GENERATION) > 1 and "model_type" not in section.keys


def _write_generation(program: Program, section: Section) -> None:
    path = "transformers.GenerationConfig"
    program.do(program.call(path, section.location, program.keywords(section)), section.location)


def _is_adapter(section: Section) -> bool:
    return "peft_type" in section.keys and bool(section.keys & {"r", "task_type", "target_modules"})


def _write_adapter(program: Program, section: Section) -> None:
    if section.text("peft_type") == "LORA":
        program.do(program.call("peft.LoraConfig", section.location, program.keywords(section)), section.location)


KINDS = (
    Kind(
        "axolotl",
        "an axolotl configuration",
        "axolotl",
        "axolotl train",
        _is_axolotl,
        _write_axolotl,
        module=("axolotl.cli.train",),
        has_own_names=True,
    ),
    Kind(
        "llamafactory",
        "a LLaMA-Factory configuration",
        "llamafactory",
        "llamafactory-cli train",
        _is_factory,
        _write_factory,
        module=("llamafactory.cli", "train"),
    ),
    Kind("generation", "a model's generation settings", "transformers", "", _is_generation, _write_generation),
    Kind("adapter", "an adapter's configuration", "peft", "", _is_adapter, _write_adapter),
    *(
        Kind(
            f"trl-{trainer.lower()}",
            "a configuration of TRL",
            "trl",
            f"trl {trainer.lower()} --config",
            partial(_is_trl, trainer=trainer),
            partial(_write_trl, trainer=trainer),
            module=(f"trl.scripts.{trainer.lower()}", "--config"),
            may_be_nested=True,
        )
        for trainer in ("RLOO", "Reward", "GRPO", "KTO", "DPO", "SFT")
    ),
    Kind(
        "transformers",
        "training arguments of transformers",
        "transformers",
        "",
        _is_arguments,
        _write_arguments,
        may_be_nested=True,
    ),
)
