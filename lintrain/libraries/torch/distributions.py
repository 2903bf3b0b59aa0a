"""What the methods of torch's distributions give."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import method
from lintrain.interpreter.shapes import ANY
from lintrain.libraries.torch.functions import computed
from lintrain.pipeline.values.python import UNKNOWN, LibraryObject, Value
from lintrain.pipeline.values.tensors import Operation

DRAWN = frozenset({"sample", "rsample", "sample_n"})
OF_DISTRIBUTIONS = ("log_prob", "entropy", "cdf", "icdf", "perplexity", *sorted(DRAWN))


@method(LibraryObject, *OF_DISTRIBUTIONS)
def _of_distribution(call: Call) -> Value:
    """`Normal(mean, deviation).log_prob(x)`: a tensor."""
    receiver = call.receiver
    if not isinstance(receiver, LibraryObject) or not receiver.path.startswith("torch.distributions."):
        escape(call)
        return UNKNOWN
    name = call.path.rpartition(".")[2]
    given = [*receiver.arguments.values(), *(argument.value for argument in call.positional)]
    made = computed(call, name, given, ANY)
    if name in DRAWN - {"rsample"}:
        # `sample` runs without a gradient, `rsample` with one.
        made.cut = made.cut or Operation(name, call.location, call.text)
    return made
