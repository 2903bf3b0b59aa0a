"""A last layer that is frozen at the values that torch gave it, while the layers before it train."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from lintrain.runtime.child.library import attribute, has
from lintrain.runtime.measure.left_weights import filled_by_script
from lintrain.runtime.measure.losses import name_of, past_views
from lintrain.runtime.measure.objects.statements import mentions
from lintrain.runtime.measure.seen import tensors_in

FEWEST_WEIGHTS = 16
NEAR = 0.75
"""The largest of so many values of a uniform distribution is nearer to its bound, but for 1 case in 100."""
SPREAD = (0.75, 1.25)
"""The standard deviation of such values, as a share of that of the distribution."""
SAVED = ("_saved_mat2", "_saved_weight", "_saved_other")
"""Where autograd keeps the weights of `Linear` and of convolutions, if what they are multiplied with trains."""
SCORES = ("LogSoftmax", "Softmax", "Sigmoid", "Tanh")
"""What a model may do with the outputs of its last layer."""
ON_PURPOSE = (
    r"requires_grad(_\(\s*(True\s*)?\)|\s*=\s*True)|unfreeze|toggle_optimizer|\betf\b|simplex|hadamard|reservoir|echo.?state"
    r"|feedback.?alignment|random.?(feature|projection|readout)|fixed.?(random|classifier|head|projection|readout)"
)
"""What a script says that freezes such a layer for a time, or on purpose."""


def random_head(model: Any, output: Any) -> str | None:
    """The name of the layer that gives an output, if it is frozen at random values; None if it is not, or not known.

    An adapter, a target network or the discriminator of a generator does not give the output of a model that trains.
    """
    if not has(model, "named_modules") or attribute(model, "lintrain_fresh", None) is not None:
        return None
    name = next((name for name, layer in model.named_modules() if _is_frozen(layer) and _gives(layer, output)), None)
    if name is None or not _mostly_trains(model) or not _is_as_made(model.get_submodule(name)):
        return None
    is_filled = any(each.rpartition(".")[0] == name for each in filled_by_script(model))
    return None if is_filled or mentions(ON_PURPOSE) else name


def _is_frozen(layer: Any) -> bool:
    own = list(layer.parameters(recurse=False))
    # A gradient that is still there comes from a time when the layer trained.
    return bool(own) and all(not each.requires_grad and each.grad is None for each in own)


def _gives(layer: Any, output: Any) -> bool:
    """Whether the last operation of an output is that of a layer, and a gradient flows through it."""
    weight = attribute(layer, "weight", None)
    return weight is not None and any(each.data_ptr() == weight.data_ptr() for each in _last_weights(output))


def _last_weights(output: Any) -> Iterator[Any]:
    for tensor in tensors_in(output):
        node = past_views(attribute(tensor, "grad_fn", None))
        while node is not None and name_of(node) in SCORES:
            node = past_views(node.next_functions[0][0])
        for saved in SAVED:
            weight = attribute(node, saved, None)
            if weight is not None:
                yield weight


def _mostly_trains(model: Any) -> bool:
    """Whether more of its tensors train than not: otherwise something else than this model is trained."""
    weights = list(model.parameters())
    return 2 * sum(bool(weight.requires_grad) for weight in weights) > len(weights)


def _is_as_made(layer: Any) -> bool:
    """Whether the weights are spread as torch initializes them: uniformly, up to one over the root of the inputs."""
    weight = layer.weight.detach().float()
    if weight.ndim < 2 or weight.numel() < FEWEST_WEIGHTS:
        return False
    bound = 1 / math.sqrt(weight[0].numel())
    least, most = SPREAD
    spread = float(weight.std()) * math.sqrt(3) / bound
    return NEAR * bound <= float(weight.abs().max()) <= bound * (1 + 1e-6) and least <= spread <= most
