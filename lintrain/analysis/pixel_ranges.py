"""Which numbers images have where a network of Keras gets them: scaled twice, or as another backbone expects them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import keras_runs
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Layer, Network
from lintrain.pipeline.values.python import Value, number_of
from lintrain.pipeline.values.training import KerasRun, LabelledBatches, Pixels
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

FAMILIES = {
    **dict.fromkeys(("vgg16", "vgg19", "resnet", "resnet50", "imagenet_utils"), "channels in the order BGR, centred"),
    **dict.fromkeys(("inception_v3", "xception", "mobilenet", "mobilenet_v2"), "numbers from -1 to 1"),
    **dict.fromkeys(("inception_resnet_v2", "nasnet", "resnet_v2"), "numbers from -1 to 1"),
    "densenet": "numbers of the mean and scale of ImageNet",
    **dict.fromkeys(("efficientnet", "efficientnet_v2", "mobilenet_v3", "convnext"), "pixels from 0 to 255"),
}
"""What `preprocess_input` of the modules of `keras.applications` gives, and their networks expect."""

NETWORKS = {
    "VGG": "vgg16",
    "ResNetRS": "efficientnet",
    "ResNet50V2": "resnet_v2",
    "ResNet101V2": "resnet_v2",
    "ResNet152V2": "resnet_v2",
    "ResNet": "resnet",
    "InceptionV3": "inception_v3",
    "Xception": "xception",
    "InceptionResNetV2": "inception_resnet_v2",
    "MobileNetV3": "mobilenet_v3",
    "MobileNetV2": "mobilenet_v2",
    "MobileNet": "mobilenet",
    "NASNet": "nasnet",
    "DenseNet": "densenet",
    "EfficientNet": "efficientnet",
    "ConvNeXt": "convnext",
}
"""The modules of networks by how their names start, longer ones first."""

MODULE = re.compile(r"(?:keras|applications)\.(?:applications\.)?(\w+)(?:\.preprocess_input)?$")


@dataclass(frozen=True, slots=True)
class RangeMismatch:
    """Images with other numbers than a network expects: where, what is wrong, what to write, and the other half."""

    location: Location
    problem: str
    remedy: str
    other: Location
    about: str


def range_mismatches(pipeline: Pipeline) -> Iterator[RangeMismatch]:
    """The mismatches of a script."""
    for run in pipeline.keras_runs:
        yield from _scaled_twice(pipeline, run)
    yield from _of_another(pipeline.source)
    yield from _scaled_for(pipeline.source)


def _scaled_twice(pipeline: Pipeline, run: KerasRun) -> Iterator[RangeMismatch]:
    """Pixels that are divided by 255 before `fit`, and once more by a `Rescaling` of the network."""
    layers = run.model.layers if isinstance(run.model, Network) and run.model.path == "keras.Sequential" else []
    scaling = next((each for each in layers[:4] if isinstance(each, Layer) and each.name == "Rescaling"), None)
    scale = number_of(scaling.arguments.get("scale", scaling.arguments.get("0", Value()))) if scaling else None
    if scaling is None or scaling.origin is None or scale is None or not 0 < abs(scale) < 0.01:
        return
    given = [arguments["x"].value for _, arguments in run.fits if "x" in arguments]
    for value in given[:1]:
        pixels = value.pixels if isinstance(value, LabelledBatches) else value
        made = pixels.origin if isinstance(pixels, Pixels) and keras_runs.are_scaled(value) else None
        if made is not None and re.search(r"/=? *255|rescale", pipeline.code(made)):
            yield RangeMismatch(
                scaling.origin,
                "these pixels are divided by 255 a second time",
                "scale them once: in front of the network, or by this layer",
                made,
                "scaled here",
            )


def _of_another(source: Source) -> Iterator[RangeMismatch]:
    """The only `preprocess_input` of a file, where its only pretrained network is one of another family."""
    if not source.contains("preprocess_input"):
        return
    used = list(_preprocessing(source))
    networks = list(_backbones(source))
    modules, names = {module for module, _ in used}, {name for name, _ in networks}
    if len(modules) != 1 or len(names) != 1:
        return
    (module, location), (name, made) = used[0], networks[0]
    expected = next(FAMILIES[of] for start, of in NETWORKS.items() if name.startswith(start))
    if module in FAMILIES and FAMILIES[module] != expected:
        yield RangeMismatch(
            location,
            f"`{name}` expects {expected}, which `{module}` does not give"
            if len(name) + len(expected) + len(module) < 48
            else f"`{name}` expects other numbers than `{module}` gives",
            f"import `preprocess_input` from the module of `{name}`",
            made,
            "the network is made here",
        )


def _scaled_for(source: Source) -> Iterator[RangeMismatch]:
    """Pixels that every generator divides by 255, for the only network, which expects them from 0 to 255."""
    networks = list(_backbones(source)) if source.contains("ImageDataGenerator") else []
    expected = {FAMILIES[next(of for start, of in NETWORKS.items() if name.startswith(start))] for name, _ in networks}
    # A layer or function of the script may scale them back.
    is_open = source.contains(
        r"include_preprocessing|preprocess_input|preprocessing_function|Rescaling|\* *255|Lambda\("
    )
    if len(networks) != 1 or expected != {FAMILIES["efficientnet"]} or is_open:
        return
    generators = [each for each in source.nodes_of(ast.Call) if last_name(each.func) == "ImageDataGenerator"]
    scales = [next((k.value for k in each.keywords if k.arg == "rescale"), None) for each in generators]
    if generators and all(scale is not None and "255" in unparse(scale) for scale in scales):
        yield RangeMismatch(
            source.location(generators[0]),
            f"`{networks[0][0]}` scales pixels itself, and gets them divided by 255",
            "leave out `rescale`: this network expects pixels from 0 to 255",
            networks[0][1],
            "the network is made here",
        )


def _preprocessing(source: Source) -> Iterator[tuple[str, Location]]:
    """The modules of Keras whose `preprocess_input` a file uses."""
    for node in source.nodes_of(ast.ImportFrom):
        found = MODULE.search(node.module or "")
        if found and any(each.name == "preprocess_input" for each in node.names):
            yield found[1], source.location(node)
    for attribute in source.nodes_of(ast.Attribute):
        if attribute.attr == "preprocess_input":
            code = unparse(attribute.value)
            yield code.rpartition(".")[2], source.location(attribute)


def _backbones(source: Source) -> Iterator[tuple[str, Location]]:
    """The networks of `keras.applications` that a file makes with weights that were trained."""
    for call in source.nodes_of(ast.Call):
        name = last_name(call.func) or ""
        is_known = any(re.fullmatch(rf"{start}\w*", name) for start in NETWORKS)
        is_new = any(each.arg == "weights" and unparse(each.value) == "None" for each in call.keywords)
        is_whole = any(each.arg in {"include_top", "input_shape", "weights", "input_tensor"} for each in call.keywords)
        if is_known and is_whole and not is_new:
            yield name, source.location(call)
