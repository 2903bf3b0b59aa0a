"""Replacements of arguments that Lightning, torch's schedules and TRL's trainers no longer accept."""

from __future__ import annotations

from collections.abc import Mapping

from lintrain.knowledge.renames import ArgumentRename

_NEVER = r"(?!)"
"""Fits no value: a person has to decide."""


def _advice(text: str, **by_literal: str | None) -> ArgumentRename:
    """No successor on the same call; removed if its value had no effect."""
    if by_literal:
        return ArgumentRename(None, text, by_literal=by_literal)
    return ArgumentRename(None, text, fitting=_NEVER)


def _out(text: str) -> ArgumentRename:
    return ArgumentRename(None, text)


def _renamed(new: str) -> ArgumentRename:
    return ArgumentRename(new, f"`{new}=` replaces it")


_DEVICES = r"[1-9]\d*|\[.*\]"

LIGHTNING_TRAINER: Mapping[str, ArgumentRename] = {
    "gpus": ArgumentRename("devices", '`accelerator="gpu", devices=…`', is_safe=False, fitting=_DEVICES),
    "tpu_cores": ArgumentRename("devices", '`accelerator="tpu", devices=…`', is_safe=False, fitting=_DEVICES),
    "ipus": _advice("IPUs are no longer supported by Lightning itself"),
    "num_processes": ArgumentRename("devices", '`accelerator="cpu", devices=…`', is_safe=False, fitting=_DEVICES),
    "auto_select_gpus": _advice('`devices="auto"`, or a number of devices', **{"False": None}),
    "checkpoint_callback": _renamed("enable_checkpointing"),
    "progress_bar_refresh_rate": ArgumentRename(
        "enable_progress_bar",
        "`callbacks=[TQDMProgressBar(refresh_rate=…)]`, or `enable_progress_bar=False`",
        by_literal={"0": "False"},
    ),
    "process_position": _advice("`callbacks=[TQDMProgressBar(process_position=…)]`", **{"0": None}),
    "weights_summary": ArgumentRename(
        "enable_model_summary", "`callbacks=[ModelSummary(max_depth=…)]`", by_literal={"None": "False", '"top"': None}
    ),
    "weights_save_path": _advice("`callbacks=[ModelCheckpoint(dirpath=…)]`", **{"None": None}),
    "resume_from_checkpoint": _advice("`trainer.fit(…, ckpt_path=…)`", **{"None": None}),
    "replace_sampler_ddp": _renamed("use_distributed_sampler"),
    "reload_dataloaders_every_epoch": ArgumentRename(
        "reload_dataloaders_every_n_epochs",
        "`reload_dataloaders_every_n_epochs=1`",
        by_literal={"True": "1", "False": None},
    ),
    "track_grad_norm": _advice(
        "log `lightning.pytorch.utilities.grad_norm` in `on_before_optimizer_step`", **{"-1": None}
    ),
    "log_gpu_memory": _advice("`callbacks=[DeviceStatsMonitor()]`", **{"None": None}),
    "flush_logs_every_n_steps": _advice("the logger has it, as `CSVLogger(flush_logs_every_n_steps=…)`"),
    "auto_lr_find": _advice("`Tuner(trainer).lr_find(model)`", **{"False": None}),
    "auto_scale_batch_size": _advice("`Tuner(trainer).scale_batch_size(model)`", **{"False": None, "None": None}),
    "prepare_data_per_node": _advice("set `prepare_data_per_node` in the data module", **{"True": None}),
    "amp_backend": _advice("`precision=` is all; apex support was removed", **{'"native"': None, "'native'": None}),
    "amp_level": _advice("`precision=` is all; apex support was removed", **{"None": None}),
    "move_metrics_to_cpu": _advice("move them in the module's hooks", **{"False": None}),
    "multiple_trainloader_mode": _advice("`CombinedLoader(loaders, mode=…)`"),
    "stochastic_weight_avg": _advice("`callbacks=[StochasticWeightAveraging(swa_lrs=…)]`", **{"False": None}),
    "terminate_on_nan": _advice("`detect_anomaly=True`", **{"False": None, "None": None}),
}
_LAMBDA_HOOKS = (
    *("on_before_accelerator_backend_setup", "on_configure_sharded_model", "on_init_start", "on_init_end"),
    *("on_epoch_start", "on_epoch_end", "on_batch_start", "on_batch_end", "on_keyboard_interrupt"),
    *("on_pretrain_routine_start", "on_pretrain_routine_end"),
)
_NO_PROMPT_LENGTH = ArgumentRename(
    None, "prompts are no longer cut; shorten them in the data beforehand", is_safe=False
)
_NOTHING_READS = _out("nothing reads it; leave it out")

SUCCESSORS: Mapping[str, Mapping[str, ArgumentRename]] = {
    "lightning.Trainer": LIGHTNING_TRAINER,
    "lightning.ModelCheckpoint": {"every_n_val_epochs": _renamed("every_n_epochs")},
    "lightning.RichProgressBar": {"refresh_rate_per_second": _advice("`refresh_rate=` counts batches")},
    "lightning.LambdaCallback": {
        hook: _advice("this hook was removed; use one of the hooks of `Callback`") for hook in _LAMBDA_HOOKS
    },
    "torch.optim.lr_scheduler.LRScheduler": {
        "verbose": _out("it only printed the rate: print `scheduler.get_last_lr()` where you want to see it")
    },
    "torch.utils.data.Sampler": {"data_source": _NOTHING_READS},
    "trl.GRPOConfig": {
        "max_prompt_length": _NO_PROMPT_LENGTH,
        "wandb_log_unique_prompts": _renamed("log_unique_prompts"),
        "use_liger_loss": _renamed("use_liger_kernel"),
        "vllm_guided_decoding_regex": _renamed("vllm_structured_outputs_regex"),
        "vllm_device": _advice('`vllm_mode="colocate"`, or a server of its own'),
    },
    "trl.RLOOConfig": {
        "max_prompt_length": _NO_PROMPT_LENGTH,
        "wandb_log_unique_prompts": _renamed("log_unique_prompts"),
        "vllm_guided_decoding_regex": _renamed("vllm_structured_outputs_regex"),
        "rloo_k": _renamed("num_generations"),
        "cliprange": _renamed("epsilon"),
        "kl_coef": _renamed("beta"),
        "num_ppo_epochs": _renamed("num_iterations"),
    },
}
