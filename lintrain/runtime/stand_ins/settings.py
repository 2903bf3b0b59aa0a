"""Settings that need a GPU or a package for one: taken to what this machine has, before a library refuses them."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from typing import Any, cast

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row, library
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.runtime.stand_ins.older_arguments import fill_by_method, leave_out
from lintrain.runtime.stand_ins.small_configs import small_config

WITHOUT = {
    "fp16": False,
    "tf32": None,
    "fp16_full_eval": False,
    "bf16_full_eval": False,
    "deepspeed": None,
    "fsdp": "",
    "fsdp_config": None,
    "use_liger_kernel": False,
    "use_liger": False,
    "use_vllm": False,
    "activation_offloading": False,
    "torch_compile": False,
    "torch_compile_backend": None,
    "torch_compile_mode": None,
    "fp16_opt_level": "O1",
}
"""Training arguments, and what they are without a GPU."""
TEMPLATES = (".jinja", ".jinja2", ".j2")
OF_MEDIA = re.compile(r"(image|video|audio|vision|boi|eoi)\w*_token_(id|index)")
PLAIN_OPTIMIZER = "adamw_torch"
OF_GPUS = ("adamw_hf", "paged", "8bit", "4bit", "bnb", "apex", "galore", "torchao", "schedule_free", "npu")
PLUGINS = ("deepspeed_plugin", "deepspeed_plugins", "fsdp_plugin", "megatron_lm_plugin", "parallelism_config")
DROPPED = (
    "quantization_config",
    "load_in_4bit",
    "load_in_8bit",
    "device_map",
    "max_memory",
    "offload_folder",
    "offload_state_dict",
    "use_flash_attention_2",
    "low_cpu_mem_usage",
    "tp_plan",
    "use_kernels",
)
"""Arguments of `from_pretrained` that place or quantize weights."""
REMOVED = ("load_in_4bit", "load_in_8bit")
"""Those that transformers 5 has no longer."""
QUANTIZES = ("quantization_config", "load_in_4bit", "load_in_8bit")
TRACKERS = ("wandb", "tensorboard", "mlflow", "comet_ml", "trackio", "swanlab", "all")


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Change settings as libraries are given them."""
    hooks.add("transformers.training_args", lambda module: leave_out(ledger, module.TrainingArguments))
    hooks.add("transformers.trainer", lambda module: leave_out(ledger, module.Trainer))
    hooks.add("pytorch_lightning.trainer.trainer", lambda module: leave_out(ledger, module.Trainer))
    hooks.add("lightning.pytorch.trainer.trainer", lambda module: leave_out(ledger, module.Trainer))
    hooks.add("sklearn.base", lambda module: leave_out(ledger, module.BaseEstimator))
    hooks.add("pandas.core.generic", functools.partial(fill_by_method, ledger))
    hooks.add("tqdm.notebook", _show_plainly)
    hooks.add("transformers.training_args", functools.partial(_change_arguments, ledger))
    hooks.add("transformers.modeling_utils", functools.partial(_load_plainly, ledger))
    hooks.add("transformers.models.auto.auto_factory", functools.partial(_load_automatically, ledger))
    hooks.add("transformers.utils.quantization_config", functools.partial(_accept_quantization, ledger))
    hooks.add("transformers.generation.utils", functools.partial(_generate_briefly, ledger))
    hooks.add("accelerate.accelerator", functools.partial(_prepare_plainly, ledger))
    hooks.add("peft.mapping_func", functools.partial(_adapt_own_layers, ledger))
    hooks.add("peft.tuners.lora.eva", functools.partial(_converge_at_once, ledger))
    hooks.add("accelerate.utils.dataclasses", functools.partial(_accept_plugins, ledger))


def _note(ledger: Ledger, name: str, value: Any, by: str) -> None:
    shown = value if isinstance(value, str | int | float | bool) else type(value).__name__
    ledger.replace(StandInKind.DEVICE, f"{name}={shown}", by)


def _change_arguments(ledger: Ledger, module: Any) -> None:
    """Fields of `TrainingArguments` and of every class made from it, before they are checked."""
    owner = module.TrainingArguments
    check = owner.__post_init__

    @functools.wraps(check)
    def post_init(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name, value in WITHOUT.items():
            given = getattr(self, name, value)
            if given and given != value:
                _note(ledger, name, given, "left out: it needs a GPU or a package for one")
                setattr(self, name, value)
        template = str(getattr(self, "chat_template_path", None) or "")
        if template.endswith(TEMPLATES) and not is_there(template):
            ledger.replace(StandInKind.DATA, template, "the template of chats that the stand-in's tokenizer has")
            self.chat_template_path = None
        optimizer = str(getattr(self.optim, "value", self.optim))
        if any(each in optimizer for each in OF_GPUS):
            _note(ledger, "optim", optimizer, PLAIN_OPTIMIZER)
            self.optim = PLAIN_OPTIMIZER
        return check(self, *args, **kwargs)

    owner.__post_init__ = post_init


def _show_plainly(module: Any) -> None:
    """Progress in a notebook is written as text: there are no widgets."""
    module.tqdm = module.tqdm_notebook = library("tqdm").tqdm
    module.trange = module.tnrange = library("tqdm").trange


def _plain(ledger: Ledger, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a `from_pretrained` for a machine without a GPU."""
    found = dict(given)
    is_quantized = any(found.get(name) for name in QUANTIZES)
    is_current = int(library("transformers").__version__.partition(".")[0]) >= 5
    for name in REMOVED if is_current else ():
        # An error of the installed version, also with the value False.
        if name in found and not found[name]:
            what = f"left out: the installed version has no {name}"
            ledger.replace(StandInKind.PACKAGE, f"from_pretrained({name}=)", what)
    for name in DROPPED:
        value = found.pop(name, None)
        if value and name != "low_cpu_mem_usage":
            _note(ledger, name, value, "the whole model on the CPU, not quantized")
    if "use_auth_token" in found and is_current:
        found.pop("use_auth_token")  # a stand-in needs no token
        removed = "left out: the installed version has no use_auth_token"
        ledger.replace(StandInKind.PACKAGE, "from_pretrained(use_auth_token=)", removed)
    for name in ("dtype", "torch_dtype"):
        if str(found.get(name)) in ("float16", "torch.float16", "half"):
            _note(ledger, name, "float16", "float32: half precision is slow on the CPU")
            found[name] = "float32"
    if is_quantized:
        # A quantized layer takes inputs of any type; one that is not takes only its own.
        found.pop("torch_dtype", None)
        found["dtype"] = "float32"
    for name in ("attn_implementation", "_attn_implementation"):
        attention = found.get(name)
        if isinstance(attention, str) and ("flash" in attention or "/" in attention or "kernel" in attention):
            _note(ledger, name, attention, "sdpa")
            found[name] = "sdpa"
    return found


def _with_its_attention(ledger: Ledger, load: Callable[..., Any], cls: Any, args: Any, given: dict[str, Any]) -> Any:
    """A model loaded with the attention that took the place of one for GPUs, or the plain one where it has no other."""
    try:
        return load(cls, *args, **given)
    except ValueError as error:
        names = [name for name in given if name.endswith("attn_implementation") and given[name] == "sdpa"]
        if not names or "scaled_dot_product_attention" not in str(error):
            raise
        _note(ledger, names[0], "sdpa", "eager: the class has no other for the CPU")
        return load(cls, *args, **{**given, names[0]: "eager"})


def _load_plainly(ledger: Ledger, module: Any) -> None:
    _replace_loader(ledger, module.PreTrainedModel)


def _load_automatically(ledger: Ledger, module: Any) -> None:
    _replace_loader(ledger, module._BaseAutoModelClass)


def _replace_loader(ledger: Ledger, owner: Any) -> None:
    load = owner.__dict__["from_pretrained"].__func__

    @functools.wraps(load)
    def from_pretrained(cls: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            made = _with_its_attention(ledger, load, cls, args, _plain(ledger, kwargs))
        except OSError as error:
            made = _of_folder(ledger, cls, _name_of(args, kwargs), kwargs, error)
        except ValueError as error:
            # With code of its own, a checkpoint may be of an automatic class that transformers has no model for.
            if not kwargs.get("trust_remote_code") or "Unrecognized configuration class" not in str(error):
                raise
            made = _as_published(cls, args, _plain(ledger, kwargs))
        if kwargs.get("device_map") is not None and not is_row(made):
            made.hf_device_map = {"": "cpu"}
        ledger.name_model(_name_of(args, kwargs), type(made[0] if is_row(made) else made).__name__, is_loaded=True)
        return made

    owner.from_pretrained = classmethod(from_pretrained)
    build = owner.__dict__.get("from_config")
    if build is not None:
        make = build.__func__

        @functools.wraps(make)
        def from_config(cls: Any, *args: Any, **kwargs: Any) -> Any:
            return make(cls, *args, **_plain(ledger, kwargs))

        owner.from_config = classmethod(from_config)


def _of_folder(ledger: Ledger, owner: Any, folder: str, given: dict[str, Any], error: OSError) -> Any:
    """A small model with random weights, for a folder of this machine with a configuration and no weights."""
    kind = getattr(owner, "config_class", None)
    if "no file named" not in str(error) or kind is None or not is_there(folder):
        raise error
    others = {
        name: value for name, value in _plain(ledger, given).items() if name not in ("config", "output_loading_info")
    }
    config = given.get("config") or kind.from_pretrained(folder, **others)
    with ledger.making(folder):
        made = owner(small_config(type(config), config)).eval()
    ledger.replace(StandInKind.MODEL, folder, f"{type(made).__name__}, small, random weights: the folder has none")
    loading = {name: set[str]() for name in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")}
    return (made, loading) if given.get("output_loading_info") else made


def _as_published(owner: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """A checkpoint as the class that transformers publishes its family as."""
    transformers = library("transformers")
    config = given.get("config") or transformers.AutoConfig.from_pretrained(_name_of(args, given))
    kind: Any = getattr(transformers, config.architectures[0])
    others = {name: value for name, value in given.items() if name != "trust_remote_code"}
    made = kind.from_pretrained(*args, **others)
    return made if owner.__name__ != "AutoModel" else made.base_model


def _name_of(args: tuple[Any, ...], given: dict[str, Any]) -> str:
    """The checkpoint that `from_pretrained` was called with, with the folder that it is in."""
    name = str(args[0] if args else given.get("pretrained_model_name_or_path"))
    folder = given.get("subfolder")
    return f"{name}/{folder}" if folder else name


HEADS = ("classifier", "score", "qa_outputs")
"""Heads that PEFT saves whole without being asked, if its settings name the task."""


def _adapt_own_layers(ledger: Ledger, module: Any) -> None:
    """Layers that only the code of a checkpoint's own model names: an adapter of a stand-in gets all linear ones."""
    adapt = module.get_peft_model

    @functools.wraps(adapt)
    def get_peft_model(model: Any, peft_config: Any, *args: Any, **kwargs: Any) -> Any:
        asked: Any = getattr(peft_config, "target_modules", None)
        names: list[Any] = list(asked) if isinstance(asked, set | list) else []  # pyright: ignore[reportUnknownArgumentType]
        named = [name for name, _ in model.named_modules()]
        is_made = "trust_remote_code" in ledger.script and ledger.has_made_models
        if is_made and names and not _has_any(named, names):
            ledger.replace(
                StandInKind.MODEL, f"target_modules={sorted(map(str, names))}", "all linear layers of the stand-in"
            )
            peft_config.target_modules = "all-linear"
            # A head that is saved whole gets no adapter: PEFT refuses to do both. That of a classifier is by itself.
            whole = [*(getattr(peft_config, "modules_to_save", None) or ()), *HEADS]
            peft_config.exclude_modules = [each for each in dict.fromkeys(whole) if _has_any(named, [each])] or None
        return adapt(model, peft_config, *args, **kwargs)

    module.get_peft_model = get_peft_model


def _has_any(names: list[str], asked: Any) -> bool:
    return any(name == each or name.endswith(f".{each}") for name in names for each in asked)


def _converge_at_once(ledger: Ledger, module: Any) -> None:
    """Directions of a layer's inputs (EVA) are those of its first batches: random ones never settle."""
    owner = module.SVDHook
    build = owner.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        build(self, *args, **kwargs)
        ledger.replace(StandInKind.MODEL, "EvaConfig.tau", "-1: the inputs of a random model have no main directions")
        self.sim_thresh = -1.0

    owner.__init__ = init


LONGEST_ANSWER = 32
"""Tokens that a model generates: a random one hardly ever ends its text by itself."""


def _generate_briefly(ledger: Ledger, module: Any) -> None:
    owner = module.GenerationMixin
    generate = owner.generate

    @functools.wraps(generate)
    def generate_briefly(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get("generation_config")
        longest = kwargs.get("max_new_tokens") or getattr(asked, "max_new_tokens", None)
        if isinstance(longest, int) and longest > LONGEST_ANSWER:
            kwargs["max_new_tokens"] = LONGEST_ANSWER
            _note(ledger, "max_new_tokens", longest, f"{LONGEST_ANSWER}: a random model does not end its texts")
        # A random model writes tokens of images into its answer, and each then lacks an image in the next pass.
        if ids := _ids_of_media(getattr(self, "config", None)):
            process = library("transformers.generation.logits_process")
            kept = kwargs.get("logits_processor") or ()
            kwargs["logits_processor"] = process.LogitsProcessorList(
                [*kept, process.SuppressTokensLogitsProcessor(ids, device=getattr(self, "device", "cpu"))]
            )
        return generate(self, *args, **kwargs)

    owner.generate = generate_briefly


def _ids_of_media(config: Any) -> list[int]:
    """The numbers of a model's tokens for images, videos and sound, which stand for what a processor was given."""
    given = cast("dict[str, Any]", vars(config)) if config is not None else dict[str, Any]()
    named = {name: value for name, value in given.items() if OF_MEDIA.fullmatch(name)}
    return sorted({value for value in named.values() if isinstance(value, int) and value > 0})


def _accept_quantization(ledger: Ledger, module: Any) -> None:
    """A configuration of quantization is accepted without the package that would carry it out."""
    for name in ("BitsAndBytesConfig", "GPTQConfig", "AwqConfig", "HqqConfig", "TorchAoConfig", "QuantoConfig"):
        owner = getattr(module, name, None)
        if owner is not None and hasattr(owner, "post_init"):
            owner.post_init = _lenient(owner.post_init)


def _lenient(check: Callable[..., Any]) -> Any:
    @functools.wraps(check)
    def post_init(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return check(self, *args, **kwargs)
        except (ImportError, ValueError):  # the package is not installed, or no GPU has the format
            return None

    return post_init


def _prepare_plainly(ledger: Ledger, module: Any) -> None:
    owner = module.Accelerator
    build = owner.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in PLUGINS:
            if kwargs.get(name) is not None:
                _note(ledger, name, kwargs.pop(name), "one process on the CPU")
        asked = str(kwargs.get("mixed_precision") or os.environ.get("ACCELERATE_MIXED_PRECISION"))
        if asked in ("fp16", "fp8"):
            _note(ledger, "mixed_precision", asked, "no")
            kwargs["mixed_precision"] = "no"
        build(self, *args, **kwargs)

    owner.__init__ = init


def _accept_plugins(ledger: Ledger, module: Any) -> None:
    for name in ("DeepSpeedPlugin", "FullyShardedDataParallelPlugin"):
        owner = getattr(module, name, None)
        if owner is not None and hasattr(owner, "__post_init__"):
            owner.__post_init__ = _lenient(owner.__post_init__)
