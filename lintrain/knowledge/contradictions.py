"""Settings that exclude each other, or of which one has no effect, as the tools themselves check them.

A rule compares them with the arguments of a call: `all(is_so(value_of(name), wanted) for name, wanted in settings)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lintrain.model.level import Level

ON, OFF, GIVEN, MISSING, POSITIVE, SEVERAL, NOT_ONE = "on", "off", "given", "missing", "positive", "several", "not one"
ZERO, NOT_NONE, WRITTEN = "zero", "not none", "True in the call"
"""What a setting may be asked to be; any other text is compared with its value, or with the items of a list."""

AXOLOTL, FACTORY, TUNE = "axolotl.config", "llamafactory.config", "torchtune.config"
GENERATION = "transformers.GenerationConfig"
SAMPLING = ("temperature", "top_p", "typical_p", "min_p")


class Contradiction(NamedTuple):
    """Settings of a callable that exclude each other; the finding is at the first that is given.

    `generation_kwargs.top_k` is the entry of that name in the dictionary that is passed as `generation_kwargs`.
    """

    path: str
    settings: Mapping[str, str]
    message: str
    advice: str
    level: Level = Level.ERROR
    since: tuple[int, int] = (0, 0)
    """The first version of the package in which this holds."""


def _pairs(path: str, *pairs: tuple[str, str]) -> tuple[Contradiction, ...]:
    """Settings of which only one may be given."""
    return tuple(
        Contradiction(
            path, {one: GIVEN, other: GIVEN}, f"`{one}` and `{other}` are both set, but only one is allowed", "keep one"
        )
        for one, other in pairs
    )


_ORDINARY = (
    *_pairs(
        AXOLOTL,
        ("saves_per_epoch", "save_steps"),
        ("evals_per_epoch", "eval_steps"),
        ("warmup_ratio", "warmup_steps"),
        ("batch_size", "gradient_accumulation_steps"),
    ),
    *_pairs(FACTORY, ("val_size", "eval_dataset")),
    Contradiction(
        AXOLOTL,
        {"load_in_8bit": ON, "load_in_4bit": ON},
        "`load_in_8bit` and `load_in_4bit` are both set, but only one is allowed",
        "keep one",
    ),
    Contradiction(
        AXOLOTL,
        {"adapter": "qlora", "load_in_4bit": OFF},
        "`adapter: qlora` needs `load_in_4bit: true`",
        "set `load_in_4bit: true`, or choose `adapter: lora`",
    ),
    Contradiction(
        AXOLOTL,
        {"eval_steps": GIVEN, "val_set_size": "0", "test_datasets": MISSING},
        "`eval_steps` is set, but `val_set_size: 0` leaves no rows to evaluate on",
        "set a share such as `val_set_size: 0.05`, or remove the key",
    ),
    *(
        Contradiction(
            AXOLOTL,
            {"val_set_size": POSITIVE, name: GIVEN},
            f"`val_set_size` takes rows from the training data, but `{name}` is set",
            "set `val_set_size: 0`",
        )
        for name in ("test_datasets", "pretraining_dataset")
    ),
    Contradiction(
        AXOLOTL,
        {"eval_table_size": POSITIVE, "sample_packing": ON, "eval_sample_packing": MISSING},
        "`eval_table_size` is set, but evaluation rows are packed",
        "set `eval_sample_packing: false`",
    ),
    Contradiction(
        AXOLOTL,
        {"pretraining_dataset": GIVEN, "max_steps": MISSING},
        "`pretraining_dataset` is streamed, and `max_steps` is missing: the run has no end",
        "set `max_steps`",
    ),
    Contradiction(
        FACTORY,
        {"quantization_bit": GIVEN, "finetuning_type": "full"},
        "`quantization_bit` is set, but quantized weights cannot be trained with `finetuning_type: full`",
        "choose `finetuning_type: lora`, or remove `quantization_bit`",
    ),
    Contradiction(
        FACTORY,
        {"quantization_bit": GIVEN, "finetuning_type": "freeze"},
        "`quantization_bit` is set, but quantized weights cannot be trained with `finetuning_type: freeze`",
        "choose `finetuning_type: lora`, or remove `quantization_bit`",
    ),
    Contradiction(
        FACTORY,
        {"streaming": ON, "max_steps": MISSING, "do_train": ON},
        "`streaming` is set, and `max_steps` is missing: the length of the run is not known",
        "set `max_steps`",
    ),
    Contradiction(
        FACTORY,
        {"max_samples": GIVEN, "streaming": ON},
        "`max_samples` is set, but it cannot be combined with `streaming`",
        "remove one of them",
    ),
    Contradiction(
        FACTORY,
        {"predict_with_generate": ON, "do_train": ON, "stage": "sft"},
        "`predict_with_generate` is set, but it is not allowed while training",
        "remove it, or evaluate in a run of its own",
    ),
    Contradiction(
        FACTORY,
        {"max_length": GIVEN, "cutoff_len": MISSING, "do_train": ON},
        "`max_length` limits generated texts only; rows are cut at `cutoff_len`, which is not set",
        "write `cutoff_len`",
        Level.WARNING,
    ),
    Contradiction(
        TUNE,
        {"optimizer_in_bwd": ON, "gradient_accumulation_steps": SEVERAL},
        "`optimizer_in_bwd` steps in each backward pass, so gradients cannot be accumulated",
        "set `gradient_accumulation_steps: 1`, or `optimizer_in_bwd: False`",
    ),
    Contradiction(
        TUNE,
        {"enable_activation_offloading": ON, "enable_activation_checkpointing": OFF},
        "`enable_activation_offloading` needs `enable_activation_checkpointing`",
        "set `enable_activation_checkpointing: True`",
    ),
    *(
        Contradiction(
            GENERATION,
            {name: NOT_ONE, "do_sample": "False"},
            f"`{name}` has no effect: `do_sample` is off",
            f"set `do_sample` to true, or remove `{name}`",
            Level.WARNING,
        )
        for name in SAMPLING
    ),
)

_GROUPS = ("trl.GRPOConfig", "trl.RLOOConfig")
_SORTED_LOSSES = ("aot", "aot_unpaired")
_TRL = (
    Contradiction(
        "trl.SFTConfig",
        {"padding_free": ON, "packing": OFF, "max_length": NOT_NONE},
        "`padding_free` without `packing` does not enforce `max_length`, and the trainer raises ValueError",
        "set `packing=True`, or `max_length=None` for rows that are short enough",
        since=(1, 0),
    ),
    Contradiction(
        "trl.SFTConfig",
        {"packing_strategy": GIVEN, "packing": OFF, "padding_free": OFF},
        "`packing_strategy` has no effect: `packing` is off",
        "set `packing=True`, or remove `packing_strategy`",
        Level.WARNING,
    ),
    Contradiction(
        "trl.DPOConfig",
        {"sync_ref_model": ON, "precompute_ref_log_probs": ON},
        "`sync_ref_model` changes the reference model that `precompute_ref_log_probs` takes as fixed",
        "keep one of them",
        since=(0, 29),
    ),
    Contradiction(
        "trl.DPOConfig",
        {"loss_type": "exo_pair", "label_smoothing": ZERO},
        '`loss_type="exo_pair"` needs a `label_smoothing` above 0',
        "set `label_smoothing=1e-3`",
        since=(0, 29),
    ),
    *(
        Contradiction(
            "trl.DPOConfig",
            {"use_weighting": ON, "loss_type": name},
            f'`use_weighting` is not implemented for `loss_type="{name}"`',
            "remove `use_weighting`, or choose another loss",
            since=(0, 29),
        )
        for name in _SORTED_LOSSES
    ),
    *(
        Contradiction(
            "trl.DPOConfig",
            {"f_divergence_type": name, "loss_type": loss},
            f'`f_divergence_type="{name}"` cannot be combined with `loss_type="{loss}"`',
            'choose `f_divergence_type="reverse_kl"`, or another loss',
            since=(1, 10),
        )
        for name in ("forward_kl", "js_divergence", "alpha_divergence")
        for loss in (*_SORTED_LOSSES, "nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down")
    ),
    Contradiction(
        "trl.DPOConfig",
        {"padding_free": ON},
        "`padding_free` has no effect: this version of DPOTrainer pads all the same",
        "remove it",
        Level.WARNING,
        since=(0, 29),
    ),
    *(
        Contradiction(
            f"trl.{name}Config",
            {"beta": "0", "loss_type": loss},
            "`beta` is 0, so the loss is constant and nothing is trained",
            "set `beta=0.1`",
        )
        for name, losses in (("DPO", (MISSING, "sigmoid", "hinge", "robust")), ("KTO", (MISSING, "kto")))
        for loss in losses
    ),
    *(
        Contradiction(
            "trl.KTOConfig",
            {"per_device_train_batch_size": "1", "loss_type": loss},
            "KTO compares the rows of a batch, and a batch has one row",
            "set `per_device_train_batch_size` to 2 or more",
            since=(0, 12),
        )
        for loss in (MISSING, "kto")
    ),
    *(
        contradiction
        for path in _GROUPS
        for contradiction in (
            Contradiction(
                path,
                {"num_generations": "1"},
                "one generation has no others to be compared with, so its advantage is undefined",
                "set `num_generations` to 2 or more",
                since=(0, 17),
            ),
            Contradiction(
                path,
                {"temperature": "0"},
                "at temperature 0 all generations of a prompt are equal, so there is no advantage to learn from",
                "set `temperature=1.0`",
            ),
            *(
                Contradiction(
                    path,
                    {setting: value},
                    f"{how} all generations of a prompt are equal, so there is no advantage to learn from",
                    "sample the generations, which is the default",
                )
                for setting, value, how in (
                    ("generation_kwargs.do_sample", "False", "with greedy decoding"),
                    ("generation_kwargs.temperature", "0", "at temperature 0"),
                    ("generation_kwargs.top_k", "1", "with `top_k=1`"),
                    ("top_k", "1", "with `top_k=1`"),
                )
            ),
            Contradiction(
                path,
                {"generation_batch_size": GIVEN, "steps_per_generation": GIVEN},
                "`generation_batch_size` and `steps_per_generation` are both set, but only one is allowed",
                "keep one",
                since=(0, 18),
            ),
            Contradiction(
                path,
                {"log_completions_hub_repo": GIVEN, "log_completions": OFF},
                "`log_completions_hub_repo` is set, but `log_completions` is off",
                "set `log_completions=True`, or remove the repository",
                since=(0, 28),
            ),
        )
    ),
    Contradiction(
        "trl.GRPOConfig",
        {"auto_find_batch_size": ON},
        "`auto_find_batch_size` would split the groups of GRPO, and is refused",
        "remove it, and lower `per_device_train_batch_size`",
        since=(1, 9),
    ),
)
"""From the constructors of TRL 1.16; a version was compared with each release since 0.8."""

_FOLDS = tuple(
    Contradiction(
        f"sklearn.model_selection.{name}",
        {"random_state": GIVEN, "shuffle": OFF},
        f"`random_state` has no effect without `shuffle`, and `{name}` refuses it",
        "pass `shuffle=True`, or remove `random_state`",
    )
    for name in ("KFold", "StratifiedKFold", "StratifiedGroupKFold")
)
"""From the constructors of scikit-learn 1.9."""

_IN_FOUR_BITS = (
    Contradiction(
        "transformers.BitsAndBytesConfig",
        {"load_in_4bit": ON, "bnb_4bit_compute_dtype": MISSING},
        "the layers in 4 bits compute in float32: `bnb_4bit_compute_dtype` is missing",
        "pass `bnb_4bit_compute_dtype=torch.bfloat16`",
        Level.WARNING,
    ),
)

_LIGHTNING = (
    Contradiction(
        "lightning.Trainer",
        {"fast_dev_run": WRITTEN, "max_epochs": SEVERAL},
        "`fast_dev_run` trains on one batch and saves nothing, so `max_epochs` has no effect",
        "remove `fast_dev_run` for the training itself",
        Level.WARNING,
    ),
)

CONTRADICTIONS = (*_ORDINARY, *_TRL, *_FOLDS, *_IN_FOUR_BITS, *_LIGHTNING)

SETTING = "args."
"""Before the name of a training argument, where the arguments of a trainer itself are asked for as well."""

OF_RUNS = (
    Contradiction(
        "trl.SFTTrainer",
        {"formatting_func": GIVEN, "args.completion_only_loss": ON, "args.dataset_kwargs": MISSING},
        "`formatting_func` and `completion_only_loss` are both set, which is refused",
        "remove `completion_only_loss`, or give rows with `prompt` and `completion` and no function that joins them",
        since=(0, 18),
    ),
    Contradiction(
        "trl.SFTTrainer",
        {"data_collator": GIVEN, "args.packing": ON, "args.packing_strategy": MISSING},
        "`packing` removes the padding, and with it a `data_collator` is refused",
        'remove one of them, or set `packing_strategy="wrapped"`',
        since=(0, 20),
    ),
    Contradiction(
        "trl.SFTTrainer",
        {"compute_loss_func": GIVEN, "args.loss_type": "dft"},
        '`loss_type="dft"` sets the loss function, so `compute_loss_func` is refused',
        "keep one of them",
        since=(1, 0),
    ),
    *(
        Contradiction(
            path,
            {"model_init": GIVEN, "optimizers": GIVEN},
            "`model_init` makes a new model, which `optimizers` does not know",
            "override `create_optimizer`, or give a `model`",
        )
        for path in ("transformers.Trainer", "transformers.Seq2SeqTrainer")
    ),
)
"""Arguments of trainers that exclude each other, or a training argument, by their constructors."""


class Switch(NamedTuple):
    """Settings of a callable that begin with a prefix and have no effect while another one is off."""

    path: str
    name: str
    prefix: str


SWITCHES = (
    *(Switch(f"trl.{name}Config", "use_vllm", "vllm_") for name in ("GRPO", "RLOO", "OnlineDPO")),
    Switch("trl.ModelConfig", "use_peft", "lora_"),
)

SAME_LENGTH = (("loss_type", "loss_weights"), ("reward_funcs", "reward_weights"))
"""Settings with one item for each item of another one."""
