"""Functions that are given a module: those that wrap or convert it, and those that call it themselves."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Value

WRAPPERS = (
    "torch.nn.DataParallel", "torch.nn.parallel.DataParallel", "torch.nn.parallel.DistributedDataParallel",
    "torch.nn.SyncBatchNorm.convert_sync_batchnorm", "torch.compile", "torch.jit.script", "torch.jit.trace",
    "torch.fx.symbolic_trace", "torch.distributed.fsdp.FullyShardedDataParallel", "torch.distributed.fsdp.fully_shard",
    "fairscale.nn.FullyShardedDataParallel", "fairscale.nn.checkpoint_wrapper",
    "apex.parallel.DistributedDataParallel", "apex.parallel.convert_syncbn_model",
)  # fmt: skip
"""What computes the same as the module that it is given, on the same weights."""

UTILITIES = ["spectral_norm", "weight_norm", "remove_spectral_norm", "remove_weight_norm"]
PARAMETRIZATIONS = ["spectral_norm", "weight_norm", "orthogonal"]
PRUNES = ["identity", "l1_unstructured", "random_unstructured", "ln_structured", "random_structured", "remove"]
QUANTIZES = ["quantize_dynamic", "prepare", "prepare_qat", "convert"]
CHECKPOINTS = ["checkpoint_wrapper", "offload_wrapper"]

CONVERSIONS = (
    *(f"torch.nn.utils.{name}" for name in UTILITIES),
    *(f"torch.nn.utils.parametrizations.{name}" for name in PARAMETRIZATIONS),
    *(f"torch.nn.utils.prune.{name}" for name in PRUNES),
    *(f"torch{package}.quantization.{name}" for package in ("", ".ao") for name in QUANTIZES),
    *(f"torch.distributed.algorithms._checkpoint.checkpoint_wrapper.{name}" for name in CHECKPOINTS),
)
"""Functions that give a module of the same layers, whose weights or intermediate values are kept in another way."""

SHARES = ("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard")

OF_CHECKPOINT = frozenset({"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug"})
"""Arguments of `checkpoint` that are not for the function that it calls."""


@function(*WRAPPERS, *CONVERSIONS)
def _wrap(call: Call) -> Value:
    given = call.value("module", 0)
    if call.path.endswith(SHARES):
        call.reader.act(Act.SHARE, call.location, given, how=Constant(call.path))
    # `torch.compile(model=...)` has another name for its parameter than the wrappers do.
    return call.value("model") if isinstance(given, Absent) else given


@function("torch.utils.checkpoint.checkpoint")
def _recomputed(call: Call) -> Value:
    """What a function gives whose intermediate values the backward pass computes a second time."""
    if call.is_open or not call.positional:
        return UNKNOWN
    called, *given = (argument.value for argument in call.positional)
    keywords = {name: each.value for name, each in call.keywords.items() if name not in OF_CHECKPOINT}
    return dispatch.call(call.reader, called, given, keywords, location=call.location)
