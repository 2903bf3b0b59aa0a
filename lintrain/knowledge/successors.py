"""The tables of successors: arguments by the call that accepted them, names by the module that contained them.

Replacements of arguments that torch's schedules and TRL's trainers no longer accept.
"""

from __future__ import annotations

from collections.abc import Mapping

from lintrain.knowledge import api, keras_successors, lightning_successors, numpy_successors
from lintrain.knowledge.renames import ArgumentRename, NameRename
from lintrain.knowledge.target import Targets

_NEVER = r"(?!)"
"""Matches no value: the user has to decide."""


def _advice(text: str, **by_literal: str | None) -> ArgumentRename:
    """No successor on the same call; removed if its value had no effect."""
    if by_literal:
        return ArgumentRename(None, text, by_literal=by_literal)
    return ArgumentRename(None, text, fitting=_NEVER)


def _attributes_out(text: str) -> ArgumentRename:
    return ArgumentRename(None, text)


def _trainer_renamed(new: str) -> ArgumentRename:
    return ArgumentRename(new, f"`{new}=` replaces it")


_NO_PROMPT_LENGTH = ArgumentRename(
    None, "prompts are no longer truncated; truncate them in the data set", is_safe=False
)
_NOTHING_READS = _attributes_out("no code reads it; remove it")

SUCCESSORS: Mapping[str, Mapping[str, ArgumentRename]] = {
    **lightning_successors.ARGUMENTS,
    "torch.optim.lr_scheduler.LRScheduler": {
        "verbose": _attributes_out("it only printed the rate: print `scheduler.get_last_lr()` instead")
    },
    "torch.utils.data.Sampler": {"data_source": _NOTHING_READS},
    "trl.GRPOConfig": {
        "max_prompt_length": _NO_PROMPT_LENGTH,
        "wandb_log_unique_prompts": _trainer_renamed("log_unique_prompts"),
        "use_liger_loss": _trainer_renamed("use_liger_kernel"),
        "vllm_guided_decoding_regex": _trainer_renamed("vllm_structured_outputs_regex"),
        "vllm_device": _advice('`vllm_mode="colocate"`, or a separate server'),
    },
    "trl.RLOOConfig": {
        "max_prompt_length": _NO_PROMPT_LENGTH,
        "wandb_log_unique_prompts": _trainer_renamed("log_unique_prompts"),
        "vllm_guided_decoding_regex": _trainer_renamed("vllm_structured_outputs_regex"),
        "rloo_k": _trainer_renamed("num_generations"),
        "cliprange": _trainer_renamed("epsilon"),
        "kl_coef": _trainer_renamed("beta"),
        "num_ppo_epochs": _trainer_renamed("num_iterations"),
    },
}


def argument_rename(owner: str, keyword: str, targets: Targets) -> ArgumentRename | None:
    """The successor of an argument of `transformers.Trainer` and the like, if the target versions have it."""
    for group in _groups(owner):
        rename = _ARGUMENTS.get(group, {}).get(keyword) or keras_successors.argument_rename(owner, keyword)
        if rename is not None:
            taker = rename.moved_to or owner
            lacking = rename.new is not None and api.keyword_state(taker, rename.new, targets).state in (
                "gone",
                "never",
                "not_yet",
            )
            return None if lacking else rename
    return None


def name_rename(module: str, name: str, targets: Targets) -> NameRename | None:
    """The successor of a name that can no longer be imported from a module, if the target versions have it."""
    rename = _name_rename(module, name)
    if rename is None or rename.new_module is None or rename.new_name is None:
        return rename
    state = api.name_state(rename.new_module, rename.new_name, targets).state
    return None if state in ("gone", "never", "not_yet") else rename


def _name_rename(module: str, name: str) -> NameRename | None:
    if (known := _NAMES.get(f"{module}.{name}")) is not None:
        return known
    package = module.split(".")[0]
    if (known := _NAMES.get(f"{package}.{name}")) is not None:
        return known
    if package == "keras":
        return keras_successors.name_rename(module, name)
    if package in ("lightning", "pytorch_lightning"):
        return lightning_successors.name_rename(module, name)
    if module == "numpy":
        return numpy_successors.name_rename(name)
    if package == "transformers" and name.startswith("TF") and name[2:3].isupper():
        return NameRename(
            "transformers", name[2:], "use the PyTorch class; TensorFlow models were removed in version 5"
        )
    if package == "transformers" and name.startswith("Flax"):
        return NameRename("transformers", name[4:], "use the PyTorch class; Flax models were removed in version 5")
    return None


def _groups(owner: str) -> tuple[str, ...]:
    """The keys under which the arguments of a call are listed, its own first."""
    package, _, name = owner.partition(".")
    if owner.startswith("torch.optim.lr_scheduler."):
        return ("torch.optim.lr_scheduler.LRScheduler",)
    if name.endswith(".from_pretrained"):
        return (f"{package}.from_pretrained",)
    if package == "trl" and name.endswith("Trainer"):
        return (owner, "trl.Trainer", "transformers.Trainer")
    if name.endswith("Trainer"):
        return (owner, "transformers.Trainer")
    if name.endswith("TrainingArguments") or (package == "trl" and name.endswith("Config")):
        return (owner, "transformers.TrainingArguments")
    return (owner,)


def _out(advice: str, is_safe: bool = True) -> ArgumentRename:
    return ArgumentRename(None, advice, is_safe=is_safe)


def _renamed(new: str) -> ArgumentRename:
    return ArgumentRename(new, f"`{new}=` replaces it")


def _moved(config: str, new: str) -> ArgumentRename:
    return ArgumentRename(new, f"`{new}=` of `{config.split('.')[1]}`", moved_to=config)


_UNUSED = _out("no code reads it; remove it")

_TRAINING_ARGUMENTS: Mapping[str, ArgumentRename] = {
    "evaluation_strategy": _renamed("eval_strategy"),
    "warmup_ratio": ArgumentRename(
        "warmup_steps", "`warmup_steps=` also accepts a fraction below 1", fitting=r"0?\.\d+|0(\.0*)?|[1-9]e-\d+"
    ),
    "no_cuda": _renamed("use_cpu"),
    "per_gpu_train_batch_size": _renamed("per_device_train_batch_size"),
    "per_gpu_eval_batch_size": _renamed("per_device_eval_batch_size"),
    "push_to_hub_token": _renamed("hub_token"),
    "push_to_hub_model_id": ArgumentRename(
        "hub_model_id", "`hub_model_id=` with the organization as prefix", is_safe=False
    ),
    "push_to_hub_organization": ArgumentRename(None, '`hub_model_id="organization/name"`', fitting=r"(?!)"),
    "group_by_length": ArgumentRename(
        "train_sampling_strategy",
        '`train_sampling_strategy="group_by_length"`',
        by_literal={"True": '"group_by_length"', "False": None},
    ),
    "include_inputs_for_metrics": ArgumentRename(
        "include_for_metrics", '`include_for_metrics=["inputs"]`', by_literal={"True": '["inputs"]', "False": None}
    ),
    "adafactor": ArgumentRename("optim", '`optim="adafactor"`', by_literal={"True": '"adafactor"', "False": None}),
    "torchdynamo": _renamed("torch_compile_backend"),
    "logging_dir": _out("set the environment variable `TENSORBOARD_LOGGING_DIR`", is_safe=False),
    "overwrite_output_dir": _out("Trainer never read it; checkpoints are overwritten unless resumed"),
    "save_safetensors": ArgumentRename(None, "safetensors is the only format", by_literal={"True": None}),
    "use_mps_device": _out("Apple devices are used automatically"),
    "fp16_backend": ArgumentRename(
        None, "`fp16=True` or `bf16=True` is enough", by_literal={'"auto"': None, "'auto'": None}
    ),
    "half_precision_backend": ArgumentRename(
        None, "`fp16=True` or `bf16=True` is enough", by_literal={'"auto"': None, "'auto'": None}
    ),
    "dispatch_batches": ArgumentRename(
        "accelerator_config", '`accelerator_config={"dispatch_batches": …}`', '{"dispatch_batches": {value}}'
    ),
    "split_batches": ArgumentRename(
        "accelerator_config", '`accelerator_config={"split_batches": …}`', '{"split_batches": {value}}'
    ),
    "fsdp_min_num_params": ArgumentRename(
        "fsdp_config", '`fsdp_config={"min_num_params": …}`', '{"min_num_params": {value}}'
    ),
    "fsdp_transformer_layer_cls_to_wrap": ArgumentRename(
        "fsdp_config",
        '`fsdp_config={"transformer_layer_cls_to_wrap": …}`',
        '{"transformer_layer_cls_to_wrap": {value}}',
    ),
    "tpu_metrics_debug": ArgumentRename(
        "debug", '`debug="tpu_metrics_debug"`', by_literal={"True": '"tpu_metrics_debug"', "False": None}
    ),
    "use_legacy_prediction_loop": ArgumentRename(None, "all predictions use the same loop", by_literal={"False": None}),
    "jit_mode_eval": ArgumentRename(None, "compile the model instead", by_literal={"False": None}),
    "use_ipex": ArgumentRename(None, "remove it", by_literal={"False": None}),
    "tpu_num_cores": _UNUSED,
    "fp16_opt_level": _out("apex support was removed; `fp16=True` is enough"),
    "past_index": ArgumentRename(None, "it was removed without a replacement", fitting="-1"),
    "ray_scope": _out("pass `scope` to `hyperparameter_search`", is_safe=False),
    "include_tokens_per_second": _out("set `include_num_input_tokens_seen`, which counts tokens", is_safe=False),
    "mp_parameters": _UNUSED,
}

_SFT_MOVED = (
    "dataset_text_field",
    "packing",
    "eval_packing",
    "dataset_num_proc",
    "dataset_kwargs",
    "model_init_kwargs",
    "neftune_noise_alpha",
)
_DPO_MOVED = (
    "beta",
    "label_smoothing",
    "loss_type",
    "max_length",
    "precompute_ref_log_probs",
    "dataset_num_proc",
    "disable_dropout",
    "model_init_kwargs",
    "truncation_mode",
)
_AUTH = ArgumentRename("token", "`token=` replaces it")

_ARGUMENTS: Mapping[str, Mapping[str, ArgumentRename]] = {
    **SUCCESSORS,
    "transformers.TrainingArguments": _TRAINING_ARGUMENTS,
    "transformers.Trainer": {"tokenizer": _renamed("processing_class")},
    "transformers.DataCollatorForLanguageModeling": {"tf_experimental_compile": _UNUSED},
    "transformers.from_pretrained": {
        "load_in_8bit": ArgumentRename(
            "quantization_config",
            "`quantization_config=BitsAndBytesConfig(load_in_8bit=True)`",
            by_literal={"True": "BitsAndBytesConfig(load_in_8bit=True)", "False": None},
            brings="transformers.BitsAndBytesConfig",
        ),
        "load_in_4bit": ArgumentRename(
            "quantization_config",
            "`quantization_config=BitsAndBytesConfig(load_in_4bit=True)`",
            by_literal={"True": "BitsAndBytesConfig(load_in_4bit=True)", "False": None},
            brings="transformers.BitsAndBytesConfig",
        ),
        "use_auth_token": _AUTH,
        "resume_download": _out("downloads are always resumed"),
    },
    "trl.SFTConfig": {
        "max_seq_length": _renamed("max_length"),
        "use_liger": _renamed("use_liger_kernel"),
        "dataset_batch_size": _UNUSED,
        "chars_per_token": _UNUSED,
        "num_of_sequences": _UNUSED,
    },
    "trl.SFTTrainer": {
        "max_seq_length": _moved("trl.SFTConfig", "max_length"),
        **{name: _moved("trl.SFTConfig", name) for name in _SFT_MOVED},
    },
    "trl.DPOConfig": {
        "use_num_logits_to_keep": _UNUSED,
        "use_logits_to_keep": _UNUSED,
        "is_encoder_decoder": _UNUSED,
        "use_liger_loss": _renamed("use_liger_kernel"),
        "max_prompt_length": _out("`max_length` truncates prompt and completion together", is_safe=False),
    },
    "trl.KTOConfig": {
        "use_liger_loss": _renamed("use_liger_kernel"),
        "is_encoder_decoder": _UNUSED,
        "max_prompt_length": _out("`max_length` truncates prompt and completion together", is_safe=False),
    },
    "trl.DPOTrainer": {name: _moved("trl.DPOConfig", name) for name in _DPO_MOVED},
    "trl.RewardTrainer": {"max_length": _moved("trl.RewardConfig", "max_length")},
    "trl.Trainer": {"tokenizer": _renamed("processing_class")},
    "trl.ModelConfig": {"torch_dtype": _renamed("dtype")},
    "accelerate.Accelerator": {
        name: ArgumentRename(
            "dataloader_config",
            f"`dataloader_config=DataLoaderConfiguration({name}=…)`",
            f"DataLoaderConfiguration({name}={{value}})",
            brings="accelerate.utils.DataLoaderConfiguration",
        )
        for name in ("dispatch_batches", "even_batches", "use_seedable_sampler")
    },
    "datasets.load_dataset": {
        "use_auth_token": _AUTH,
        "ignore_verifications": ArgumentRename(
            "verification_mode",
            '`verification_mode="no_checks"`',
            by_literal={"True": '"no_checks"', "False": None},
        ),
        "task": ArgumentRename(None, "rename and cast the columns instead", is_safe=False, fitting="None"),
    },
    "datasets.load_dataset_builder": {"use_auth_token": _AUTH},
    "datasets.DownloadConfig": {"use_auth_token": _AUTH, "ignore_url_params": _UNUSED},
    "datasets.DatasetInfo": {"task_templates": _UNUSED},
    "datasets.load_from_disk": {"fs": ArgumentRename(None, "`storage_options=fs.storage_options`", fitting="None")},
    "datasets.Dataset.push_to_hub": {"branch": _renamed("revision")},
    "datasets.DatasetDict.push_to_hub": {"branch": _renamed("revision")},
}

_GLUE_GONE = NameRename(None, None, "load GLUE with `datasets.load_dataset` and `evaluate.load`")
_TEXT_DATASET = NameRename(None, None, '`load_dataset("text", data_files=…)` and `map` a tokenizer over it')
# By default, it masks single tokens: the same name would train another model.
_WHOLE_WORD = NameRename(None, None, "`DataCollatorForLanguageModeling(whole_word_mask=True)`")

_NAMES: Mapping[str, NameRename] = {
    "torch._six.inf": NameRename("torch", "inf", "`torch.inf`", True),
    "torch.symeig": NameRename(None, None, "`torch.linalg.eigh`, or `torch.linalg.eigvalsh` for the values alone"),
    "torch.lstsq": NameRename(None, None, "`torch.linalg.lstsq`, whose arguments are in the other order"),
    "torch.solve": NameRename(None, None, "`torch.linalg.solve`, whose arguments are in the other order"),
    "torch.rfft": NameRename(None, None, "`torch.fft.rfft`, which returns complex numbers"),
    "torch.irfft": NameRename(None, None, "`torch.fft.irfft`, which takes complex numbers"),
    # Both use decoupled decay, but torch decays by 0.01 by default and the old class by 0.0.
    "transformers.AdamW": NameRename(
        "torch.optim", "AdamW", "`torch.optim.AdamW` decays weights by 0.01 unless `weight_decay=0.0` is passed"
    ),
    "transformers.AutoModelWithLMHead": NameRename(
        None, None, "`AutoModelForCausalLM`, `AutoModelForMaskedLM` or `AutoModelForSeq2SeqLM`"
    ),
    "transformers.AutoModelForVision2Seq": NameRename(
        "transformers", "AutoModelForImageTextToText", "`AutoModelForImageTextToText`"
    ),
    "transformers.EvaluationStrategy": NameRename(
        "transformers.trainer_utils", "IntervalStrategy", "`IntervalStrategy`", True
    ),
    "transformers.DataCollatorForWholeWordMask": _WHOLE_WORD,
    "transformers.LineByLineTextDataset": _TEXT_DATASET,
    "transformers.TextDataset": _TEXT_DATASET,
    "transformers.GlueDataset": _GLUE_GONE,
    "transformers.GlueDataTrainingArguments": _GLUE_GONE,
    "transformers.glue_compute_metrics": _GLUE_GONE,
    "transformers.create_optimizer": NameRename(None, None, "`keras.optimizers.AdamW` with a schedule"),
    "transformers.KerasMetricCallback": NameRename(None, None, "TensorFlow support was removed in version 5"),
    "transformers.PushToHubCallback": NameRename(None, None, "TensorFlow support was removed in version 5"),
    "transformers.TFTrainingArguments": NameRename("transformers", "TrainingArguments", "`TrainingArguments`"),
    "transformers.is_torch_tpu_available": NameRename(
        "transformers", "is_torch_xla_available", "`is_torch_xla_available`"
    ),
    "transformers.TRANSFORMERS_CACHE": NameRename(None, None, "`huggingface_hub.constants.HF_HUB_CACHE`"),
    "transformers.deepspeed": NameRename(
        "transformers.integrations", "deepspeed", "`transformers.integrations.deepspeed`", True
    ),
    "datasets.load_metric": NameRename("evaluate", "load", "`evaluate.load`", True),
    "datasets.list_metrics": NameRename("evaluate", "list_evaluation_modules", "`evaluate.list_evaluation_modules`"),
    "datasets.Metric": NameRename("evaluate", "Metric", "`evaluate.Metric`", True),
    "datasets.list_datasets": NameRename("huggingface_hub", "list_datasets", "`huggingface_hub.list_datasets`"),
    "datasets.set_caching_enabled": NameRename(None, None, "`enable_caching()` or `disable_caching()`"),
    "trl.DataCollatorForCompletionOnlyLM": NameRename(
        None, None, "`SFTConfig(completion_only_loss=True)` with prompt and completion columns"
    ),
    "trl.ConstantLengthDataset": NameRename(None, None, "`SFTConfig(packing=True)`"),
    "trl.setup_chat_format": NameRename(
        "trl", "clone_chat_template", "`clone_chat_template` with the tokenizer to copy from; it returns three values"
    ),
    "trl.set_seed": NameRename("transformers", "set_seed", "`transformers.set_seed`", True),
    "peft.BoneConfig": NameRename("peft", "MissConfig", "`MissConfig`"),
}
