"""What ready-made networks give: their head, the numbers that it gets, and the scores for their classes."""

from __future__ import annotations

import re

from lintrain.interpreter.layer_shapes import OPEN, argument_of
from lintrain.interpreter.shapes import integer
from lintrain.knowledge.networks import MAKER_OF
from lintrain.pipeline.values.model import Module, Tensor
from lintrain.pipeline.values.python import Constant, Unknown, Value, text_of
from lintrain.pipeline.values.tensors import Operation, Shape

HEAD_OF = (
    (re.compile(r"resnet|resnext|regnet|shufflenet"), "fc"),
    (re.compile(r"densenet|vgg|alexnet|mobilenet|efficientnet|convnext|mnasnet"), "classifier"),
    (re.compile(r"vit_"), "heads"),
    (re.compile(r"swin|maxvit"), "head"),
)
"""The attribute of a ready-made network of torchvision that gives its output."""

HEAD_IN_TIMM = (
    (re.compile(r"^(tf_|gluon_|ssl_|swsl_)?(wide_)?res(net|next)\d+"), "fc"),
    (re.compile(r"densenet|efficientnet|mobilenet|mixnet|mnasnet|ghostnet"), "classifier"),
    (re.compile(r"^(vit|deit)_"), "head"),
)
"""The same for networks of timm, for those whose head is one layer."""

FEATURES = (
    (re.compile(r"^(resnet(18|34))$"), 512),
    (re.compile(r"^(resnet(50|101|152)|resnext\w+|wide_resnet\w+|inception_v3)$"), 2048),
    (re.compile(r"^(densenet121|googlenet|shufflenet_v2_x(0_5|1_0|1_5))$"), 1024),
    (re.compile(r"^densenet169$"), 1664),
    (re.compile(r"^densenet201$"), 1920),
    (re.compile(r"^densenet161$"), 2208),
)
"""The numbers that networks of torchvision give their head for each image."""

ENDINGS = {"sigmoid": "sigmoid", "softmax2d": "softmax", "logsoftmax": "log_softmax", "tanh": "tanh"}
"""Values of `activation` of segmentation_models_pytorch, with the operation that each is over the classes."""


def scores_of(module: Module) -> Shape | None:
    """The shape of the scores that a network gives for the classes it was made for; None if it is not known."""
    is_plain = not module.attributes and OPEN not in module.arguments
    classes = integer(module.arguments.get("num_classes", Unknown())) if is_plain else None
    axes = _axes_of(module)
    if not classes or not axes:  # for 0 classes, timm gives features
        return None
    return Shape((None, classes, *(None,) * (axes - 2)), False)


def _axes_of(module: Module) -> int:
    """The number of axes of what a ready-made network gives; 0 if that is not known."""
    if module.path.startswith("torchvision.models."):
        is_classifier = module.path.count(".") == 2 and any(pattern.search(module.name) for pattern, _ in HEAD_OF)
        return 2 if is_classifier else 0
    maker = MAKER_OF.get(module.path.rpartition(".")[0])
    dimensions = integer(argument_of(module, "spatial_dims", 0))
    return 0 if maker is None else maker.axes or (dimensions + 2 if dimensions else 0)


def last_activation(module: Module) -> Operation | None:
    """The activation that a network for segmentation is asked to end with."""
    name = ENDINGS.get(text_of(module.arguments.get("activation", Constant(None))) or "")
    return Operation(name, module.origin) if name else None


def features_of(module: Module) -> Value:
    """What a ready-made network gives its head, as far as that is known."""
    size = next((number for pattern, number in FEATURES if pattern.search(module.name)), None)
    # Another part that is replaced, such as the pooling, may give other sizes.
    is_plain = size is not None and len(module.attributes) <= 1
    return Tensor(shape=Shape((None, size), False), kind="float") if is_plain else Unknown()


def head_of(module: Module) -> Value | None:
    """The head that a script put on a ready-made network; None if it has its own."""
    heads = HEAD_OF if module.path.startswith("torchvision.models.") else HEAD_IN_TIMM
    if not module.path.startswith(("torchvision.models.", "timm.")):
        return None
    attribute = next((name for pattern, name in heads if pattern.search(module.name)), None)
    return module.attributes.get(attribute) if attribute is not None else None
