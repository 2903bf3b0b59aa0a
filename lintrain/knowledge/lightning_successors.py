"""Replacements of the arguments, methods and hooks that Lightning no longer has, from its change log."""

from __future__ import annotations

from collections.abc import Mapping

from lintrain.knowledge.renames import ArgumentRename, NameRename

_NEVER = r"(?!)"
"""Matches no value: the user has to decide."""


def _advice(text: str, **by_literal: str | None) -> ArgumentRename:
    """No successor on the same call; removed if its value had no effect."""
    if by_literal:
        return ArgumentRename(None, text, by_literal=by_literal)
    return ArgumentRename(None, text, fitting=_NEVER)


def _renamed(new: str) -> ArgumentRename:
    return ArgumentRename(new, f"`{new}=` replaces it")


_DEVICES = r"[1-9]\d*|\[.*\]"

_TRAINER: Mapping[str, ArgumentRename] = {
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
    "flush_logs_every_n_steps": _advice("pass it to the logger: `CSVLogger(flush_logs_every_n_steps=…)`"),
    "auto_lr_find": _advice("`Tuner(trainer).lr_find(model)`", **{"False": None}),
    "auto_scale_batch_size": _advice("`Tuner(trainer).scale_batch_size(model)`", **{"False": None, "None": None}),
    "prepare_data_per_node": _advice("set `prepare_data_per_node` in the data module", **{"True": None}),
    "amp_backend": _advice("`precision=` is enough; apex support was removed", **{'"native"': None, "'native'": None}),
    "amp_level": _advice("`precision=` is enough; apex support was removed", **{"None": None}),
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

ARGUMENTS: Mapping[str, Mapping[str, ArgumentRename]] = {
    "lightning.Trainer": _TRAINER,
    "lightning.ModelCheckpoint": {"every_n_val_epochs": _renamed("every_n_epochs")},
    "lightning.RichProgressBar": {"refresh_rate_per_second": _advice("`refresh_rate=` counts batches")},
    "lightning.LambdaCallback": {
        hook: _advice("this hook was removed; use one of the hooks of `Callback`") for hook in _LAMBDA_HOOKS
    },
    "lightning.Trainer.fit": {"train_dataloader": _renamed("train_dataloaders")},
    "lightning.Trainer.validate": {"val_dataloaders": _renamed("dataloaders")},
    "lightning.Trainer.test": {"test_dataloaders": _renamed("dataloaders")},
}

_WITH_OUTPUTS = "keep the outputs in an attribute, and read and clear it in `on_{}`"
_EACH_STAGE = "write the hook of each stage: `on_train_{0}`, `on_validation_{0}`, `on_test_{0}`"
_EPOCH_ENDS = {name: _WITH_OUTPUTS.format(name) for name in ("validation_epoch_end", "test_epoch_end")}

HOOKS: Mapping[str, str] = {
    "training_epoch_end": _WITH_OUTPUTS.format("train_epoch_end"),
    **_EPOCH_ENDS,
    **{f"{step}_step_end": f"do it at the end of `{step}_step`" for step in ("training", "validation", "test")},
    **{f"on_epoch_{end}": _EACH_STAGE.format(f"epoch_{end}") for end in ("start", "end")},
    **{f"on_batch_{end}": f"write `on_train_batch_{end}`, which gets the batch, too" for end in ("start", "end")},
    **{f"on_pretrain_routine_{end}": "write `on_fit_start`" for end in ("start", "end")},
    **{f"on_init_{end}": "write `setup`, which gets the stage" for end in ("start", "end")},
    "on_before_accelerator_backend_setup": "write `setup`, which gets the stage",
    "on_configure_sharded_model": "write `setup`, which gets the stage",
    "on_keyboard_interrupt": "write `on_exception`, which gets the exception",
    "on_post_move_to_device": "share the weights in `__init__`",
    "on_hpc_save": "write `on_save_checkpoint`",
    "on_hpc_load": "write `on_load_checkpoint`",
    **{f"on_{stage}_dataloader": "do it in the method that makes the loader" for stage in ("train", "val", "test")},
}
"""What replaces a hook of a module or a callback that nothing calls any longer."""

RAISING = frozenset({"training_epoch_end", *_EPOCH_ENDS})
"""Hooks that the Trainer refuses to run a module with."""

_TUNER = "`Tuner(trainer).lr_find(model)` or `Tuner(trainer).scale_batch_size(model)`"
_NAMES = {
    "lightning.Trainer.tune": _TUNER,
    "lightning.metrics": "import it from `torchmetrics`, whose metrics of classification need a `task`",
}


def name_rename(module: str, name: str) -> NameRename | None:
    """What replaces a name of Lightning, or a hook of its module or its callback."""
    below = module.replace("lightning.pytorch", "lightning").replace("pytorch_lightning", "lightning")
    path = f"{below}.{name}"
    for key in (path, below, below.rpartition(".")[0]):
        if key in _NAMES:
            return NameRename(None, None, _NAMES[key])
    advice = HOOKS.get(name) if below.rpartition(".")[2] in ("LightningModule", "Callback") else None
    return NameRename(None, None, advice) if advice else None
