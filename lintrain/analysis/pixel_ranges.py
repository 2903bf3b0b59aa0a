"""Which numbers images have where a network of Keras gets them: scaled twice, or as another backbone expects them."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import handed_on, keras_runs
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Layer, Network
from lintrain.pipeline.values.python import Value, number_of
from lintrain.pipeline.values.training import KerasRun, LabelledBatches, Pixels
from lintrain.source.nodes import unparse, walk
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
    yield from _divided_by_255(pipeline)
    yield from _prepared_and_divided(pipeline.source)


def _scaled_twice(pipeline: Pipeline, run: KerasRun) -> Iterator[RangeMismatch]:
    """Pixels that are divided by 255 before `fit`, and once more by a `Rescaling` of the network."""
    layers = run.model.layers if isinstance(run.model, Network) and run.model.path == "keras.Sequential" else []
    scaling = next((each for each in layers[:4] if isinstance(each, Layer) and each.name == "Rescaling"), None)
    scale = number_of(scaling.arguments.get("scale", scaling.arguments.get("0", Value()))) if scaling else None
    if scaling is None or scaling.origin is None or scale is None or not 0 < abs(scale) < 0.01:
        return
    given = [arguments["x"].value for _, arguments in run.fits if "x" in arguments]
    for value in given[:1]:
        made = _scaled_array(pipeline, value)
        if made is not None:
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


SCALES_OTHERWISE = (
    r"include_preprocessing|preprocess_input|preprocessing_function|imagenet_utils|127\.5|/ *127|Lambda\(|offset *="
    r"|\bNormalization\(|\* *255|\* *2(?:\.0*)?\b|- *0?\.5\b|featurewise|samplewise|0\.485|103\.9"
)
"""Code that may give pixels from 0 to 1 the range that a pretrained network expects."""


def _divided_by_255(pipeline: Pipeline) -> Iterator[RangeMismatch]:
    """Pixels from 0 to 1 for a pretrained network: each of `keras.applications` was trained on other numbers."""
    source = pipeline.source
    networks = list(_backbones(source)) if source.contains("255") else []
    if not networks or source.contains(SCALES_OTHERWISE):
        return
    name, made = networks[0]
    expected = FAMILIES[next(of for start, of in NETWORKS.items() if name.startswith(start))]
    for location in itertools.islice(_divisions(pipeline), 1):
        if expected == FAMILIES["efficientnet"]:
            problem = f"`{name}` scales pixels itself, and gets them divided by 255"
            remedy = "leave out this scaling: the network expects pixels from 0 to 255"
        else:
            problem = f"`{name}` expects {expected}, and gets pixels from 0 to 1"
            problem = problem if len(problem) <= 80 else f"`{name}` expects other numbers than pixels from 0 to 1"
            remedy = "use `preprocess_input` of the module of this network instead"
        yield RangeMismatch(location, problem, remedy, made, "the network is made here")


def _divisions(pipeline: Pipeline) -> Iterator[Location]:
    """Where pixels are divided by 255: by all generators, by the layers of the only network, or in an array."""
    source = pipeline.source
    generators = [each for each in source.nodes_of(ast.Call) if last_name(each.func) == "ImageDataGenerator"]
    if generators and all("255" in unparse(_rescale(each) or ast.Constant(None)) for each in generators):
        yield source.location(generators[0])
    layers = [each for each in source.nodes_of(ast.Call) if last_name(each.func) == "Rescaling"]
    is_single = _trains_one_network(source)
    if layers and not generators and is_single and all("255" in unparse(each) for each in layers):
        yield source.location(layers[0])
    if not layers and not generators and is_single:
        yield from _mapped_divisions(source)
    for run in pipeline.keras_runs:
        for _, arguments in run.fits:
            made = _scaled_array(pipeline, arguments["x"].value) if "x" in arguments else None
            if made is not None:
                yield made


def _trains_one_network(source: Source) -> bool:
    """Whether a file trains one network, once, or again after it is unfrozen."""
    methods = (each.func for each in source.nodes_of(ast.Call) if isinstance(each.func, ast.Attribute))
    compiled = [unparse(each.value) for each in methods if each.attr == "compile"]
    return len(compiled) == 1 or (len(set(compiled)) == 1 and len(list(_backbones(source))) == 1)


OF_IMAGES = re.compile(r"im(?:g|age)s?|pixels|x", re.IGNORECASE)
"""Names of pixels, and not of masks."""


def _mapped_divisions(source: Source) -> Iterator[Location]:
    """Where a function that is mapped over the rows of a data set divides images by 255."""
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(attr="map"), args=[ast.Lambda() as mapped, *_]):
                functions: list[ast.AST] = [mapped]
            case ast.Call(func=ast.Attribute(attr="map"), args=[ast.Name(id=name), *_]):
                functions = [*handed_on.functions_of(source, name)]
            case _:
                continue
        for node in (each for function in functions for each in walk(function)):
            match node:
                case ast.BinOp(op=ast.Div(), left=divided, right=ast.Constant(value=255 | 255.0)) if any(
                    OF_IMAGES.fullmatch(each.id) for each in walk(divided) if isinstance(each, ast.Name)
                ):
                    yield source.location(node)
                case _:
                    pass


def _rescale(generator: ast.Call) -> ast.expr | None:
    return next((each.value for each in generator.keywords if each.arg == "rescale"), None)


def _scaled_array(pipeline: Pipeline, value: Value) -> Location | None:
    """Where images that are given to `fit` were divided by 255."""
    pixels = value.pixels if isinstance(value, LabelledBatches) else value
    made = pixels.origin if isinstance(pixels, Pixels) and keras_runs.are_scaled(value) else None
    return made if made is not None and re.search(r"/=? *255|rescale", pipeline.code(made)) else None


def _prepared_and_divided(source: Source) -> Iterator[RangeMismatch]:
    """Generators that divide by 255 what the `preprocess_input` of Keras gives."""
    modules = dict(_preprocessing(source)) if source.contains("preprocessing_function") else {}
    for call in source.nodes_of(ast.Call) if modules else ():
        rescale = _rescale(call)
        given = next((each.value for each in call.keywords if each.arg == "preprocessing_function"), None)
        if rescale is None or given is None or modules.keys().isdisjoint(FAMILIES):
            continue
        if "255" in unparse(rescale) and last_name(given) == "preprocess_input":
            yield RangeMismatch(
                source.location(rescale),
                "this divides by 255 what `preprocess_input` has prepared",
                "leave out `rescale`: the function prepares the pixels by itself",
                source.location(given),
                "prepared here, before `rescale`",
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
    others = source.cached(_names_of_others)
    for call in source.nodes_of(ast.Call):
        name = last_name(call.func) or ""
        if isinstance(call.func, ast.Name) and name in others:
            continue
        is_known = any(re.fullmatch(rf"{start}\w*", name) for start in NETWORKS)
        is_new = any(each.arg == "weights" and unparse(each.value) == "None" for each in call.keywords)
        is_whole = any(each.arg in {"include_top", "input_shape", "weights", "input_tensor"} for each in call.keywords)
        if is_known and is_whole and not is_new:
            yield name, source.location(call)


def _names_of_others(source: Source) -> frozenset[str]:
    """The names of a file that are its own functions and classes, or imported from elsewhere than Keras."""
    made: Sequence[ast.FunctionDef | ast.ClassDef] = source.nodes_of(ast.FunctionDef, ast.ClassDef)
    own = {each.name for each in made}
    imported = (node for node in source.nodes_of(ast.ImportFrom) if "applications" not in (node.module or ""))
    return frozenset(own | {each.asname or each.name for node in imported for each in node.names})
