"""Functions of libraries that make a whole network: what names it, how many classes it has, what differs by mode.

Facts of timm 1.0, segmentation_models_pytorch 0.5, efficientnet_pytorch 0.7, MONAI 1.5, torchvision 0.28 and torch.hub.
"""

from __future__ import annotations

from collections.abc import Collection

from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class Maker:
    """How a function makes a network: where the name of its architecture and its number of classes are given.

    `default` is the number of classes if none is given, None if that depends on the weights. `axes` are those of the
    output, 0 if they depend on other arguments; the classes are on axis 1. With one of the arguments `other` the
    network returns something else.
    """

    package: str
    named: tuple[str, int] | None = None
    classes: tuple[str, int | None] = ("num_classes", None)
    default: int | None = None
    axes: int = 2
    other: frozenset[str] = frozenset()


TIMM = Maker("timm", ("model_name", 0), other=frozenset({"features_only", "global_pool"}))
SEGMENTATION = Maker(
    "segmentation_models_pytorch", None, ("classes", None), default=1, axes=4, other=frozenset({"aux_params"})
)
MONAI = Maker("monai.networks.nets", None, ("out_channels", 2), axes=0)

DECODERS = ("Unet", "UnetPlusPlus", "MAnet", "Linknet", "FPN", "PSPNet", "PAN", "DeepLabV3", "DeepLabV3Plus", "UPerNet")
VOLUMES = ("UNet", "AttentionUnet", "BasicUNet", "SegResNet", "SwinUNETR", "UNETR", "VNet", "DynUNet", "DenseNet121")

MAKERS = {
    **dict.fromkeys(("timm.create_model", "timm.models.create_model", "timm.models.factory.create_model"), TIMM),
    **{f"segmentation_models_pytorch.{name}": SEGMENTATION for name in (*DECODERS, "create_model")},
    "efficientnet_pytorch.EfficientNet.from_pretrained": Maker(
        "efficientnet_pytorch", ("model_name", 0), ("num_classes", 4), default=1000
    ),
    "efficientnet_pytorch.EfficientNet.from_name": Maker("efficientnet_pytorch", ("model_name", 0), default=1000),
    **{f"monai.networks.nets.{name}": MONAI for name in VOLUMES},
}
"""Functions and classes of packages that are known for these alone, by their dotted names."""

KNOWN = frozenset(path.rsplit(".", count)[0] for path in MAKERS for count in range(path.count(".") + 1))
"""These names and those of the modules and classes that they are in: all else in their packages is not known."""

PARTLY_KNOWN = frozenset(path.partition(".")[0] for path in MAKERS)
"""The packages."""

MAKER_OF = {maker.package: maker for maker in MAKERS.values()}

READY_MADE = ("torchvision.models.", *sorted(f"{maker.package}." for maker in MAKERS.values()))
"""How the paths of modules begin that such a function made; all have weights."""

HUB_OF_TORCHVISION = lazy_pattern(r"pytorch/vision(:\S*)?")
"""The repository of `torch.hub` that has the networks of torchvision under their own names."""

NORMALIZES = lazy_pattern(
    r"(?i)(resne(x|s)?t|res2net|regnet|densenet|efficientnet|mobilenet|mixnet|mnasnet|fbnet|ghostnet|hrnet|inception|"
    r"xception|dla\d|dpn\d|vovnet|rexnet|senet|darknet|lcnet|repvgg|vgg\w*_bn)"
)
FREE = lazy_pattern(r"(?i)(^|[_.])(nf|gn|gnb|evos\w|evonorm|eca_nf|dm_nf|frozen)\w*|nfnet|resnetv2|resnet\w*_gn|maxvit")
"""Families of networks with batch normalization, and variants of them that have another one."""

CALM_BY_DEFAULT = lazy_pattern(r"vit_[a-z]_\d+$")
"""Networks of torchvision whose dropout is 0 unless they are given another rate."""

WITH_BATCH_NORM = frozenset({"AttentionUnet", "VNet", "DenseNet121"})
"""Networks of MONAI that normalize by batch, or drop out, as they are by default."""


def certainly_differs(path: str, given: Collection[str]) -> bool:
    """Whether a ready-made network certainly gives something else in train mode than in eval mode."""
    name = path.rpartition(".")[2]
    if path.startswith("torchvision.models."):
        return not CALM_BY_DEFAULT.match(name) or any("dropout" in option for option in given)
    if path.startswith("timm."):
        return NORMALIZES.search(name) is not None and not FREE.search(name)
    if path.startswith("monai."):
        return name in WITH_BATCH_NORM and "norm" not in given
    # Decoders of segmentation_models_pytorch normalize by batch, also on an encoder that does not.
    return path.startswith(READY_MADE) and not any("norm" in option for option in given)
