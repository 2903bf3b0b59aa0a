"""Imports: the libraries that the reader knows by name, and the project's own modules; all else is Unknown."""

# ruff: noqa: PTH100, PTH118 - every import asks, and a `Path` costs ten times a string

from __future__ import annotations

import ast
import os
import sys
from functools import lru_cache

from lintrain.interpreter import missing_names, project_modules
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import FUNCTIONS, attribute_of, leads_to_function, named_value, statement
from lintrain.interpreter.core.scope import Scope, StarImport, settled
from lintrain.knowledge.networks import KNOWN, PARTLY_KNOWN
from lintrain.model.location import Location
from lintrain.pipeline.record import LibraryName
from lintrain.pipeline.values.installed import NOTHING, InstalledName
from lintrain.pipeline.values.python import Class, Function, Library, Unknown, Value
from lintrain.source.configuration import Configuration
from lintrain.source.project import ModuleFile
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LIBRARIES = frozenset(
    {
        "PIL",
        "abc",
        "accelerate",
        "albumentations",
        "apex",
        "argparse",
        "attr",
        "attrs",
        "click",
        "codecs",
        "collections",
        "concurrent",
        "contextlib",
        "copy",
        "csv",
        "cv2",
        "dataclasses",
        "datasets",
        "easydict",
        "enum",
        "evaluate",
        "fire",
        "functools",
        "huggingface_hub",
        "hydra",
        "io",
        "itertools",
        "joblib",
        "json",
        "keras",
        "keras_preprocessing",
        "lightning",
        "lightning_fabric",
        "logging",
        "math",
        "ml_collections",
        "modelscope",
        "multiprocessing",
        "munch",
        "numpy",
        "omegaconf",
        "operator",
        "optuna",
        "os",
        "pandas",
        "pathlib",
        "peft",
        "pickle",
        "pydantic",
        "pydantic_settings",
        "pytorch_lightning",
        "pytorch_transformers",
        "random",
        "re",
        "scipy",
        "sentence_transformers",
        "setfit",
        "sklearn",
        "string",
        "sys",
        "tap",
        "tensorflow",
        "tensorflow_datasets",
        "tf_keras",
        "time",
        "tokenizers",
        "torch",
        "torchaudio",
        "torchmetrics",
        "torchtext",
        "torchvision",
        "tqdm",
        "transformers",
        "trl",
        "typer",
        "types",
        "typing",
        "typing_extensions",
        "tyro",
        "warnings",
        "yaml",
    }
)
"""Top-level packages whose dotted names mean something to the reader."""

FEW_FUNCTIONS = frozenset(
    {
        *("absl", "addict", "box", "configargparse", "detectron2", "einops", "fairscale", "fvcore"),
        *("importlib", "toml", "tomli", "tomllib", "wandb", "yacs"),
    }
)
"""Packages of which only the functions with an entry in the tables mean something: anything else is unknown."""

GRAPH_LOADERS = frozenset(f"torch_geometric.{name}.DataLoader" for name in ("loader", "data", "loader.dataloader"))
"""The loader of PyG, a library whose layers have no tables."""

EVERYDAY = frozenset({"datasets", "evaluate", "tokenizers", "types", "logging", "random", "string"})
"""Libraries whose names projects also use for modules of their own."""

BUILT_IN = frozenset(sys.builtin_module_names) | {"os", "__future__"}
"""What Python has loaded before it looks into any folder."""

ALIASES = {
    "tensorflow.keras": "keras",
    "tensorflow.python.keras": "keras",
    "tf_keras": "keras",
    "keras_preprocessing": "keras.preprocessing",
    "pytorch_lightning": "lightning",
    "lightning.pytorch": "lightning",
    "torchtext.legacy": "torchtext",
}
"""Packages that go by several names: rules know the one on the right."""

FLAT = frozenset(
    {
        "accelerate",
        "datasets",
        "evaluate",
        "lightning",
        "peft",
        "setfit",
        "sentence_transformers",
        "transformers",
        "trl",
    }
)
"""Packages whose public names mean the same wherever inside them they were imported from."""


INNER_TORCH = lazy_pattern(
    r"^(torch\.nn(?=\.modules\.)|torch\.optim(?!\.lr_scheduler|\.swa_utils)|torch\.utils\.data)\.[a-z_.]+\.([A-Z]\w*)"
)
"""The modules inside torch that its classes live in, as in `torch.optim.adamw.AdamW`."""

INNER_TORCHVISION = lazy_pattern(r"^(torchvision\.(?:datasets|models|transforms(?=\.transforms\.)))\.[a-z_]+\.(\w+)$")
"""The same inside torchvision: `torchvision.datasets.mnist.MNIST`, `torchvision.models.resnet.resnet18`."""

INNER_TORCHMETRICS = lazy_pattern(
    r"^torchmetrics\.(functional\.)?classification\.(?:[a-z_0-9]+\.)?(?!(?:B|b)inary|(?:M|m)ulti)(\w+)$"
)
"""The modules of the metrics that torchmetrics has under short names, as in `torchmetrics.classification.Accuracy`."""

INNER_KERAS = lazy_pattern(
    r"^keras\.(callbacks|layers|losses|metrics|optimizers)\.(?!legacy\.|schedules\.)[a-z_0-9.]+\.([A-Z]\w*)"
)
"""The modules inside Keras that its classes live in, as in `keras.layers.core.Dense` of Keras 2."""

KERAS_ENGINE = lazy_pattern(r"^keras\.engine\.(?:[a-z_]+\.)?(Model|Sequential|Input|Functional)$")
"""What Keras 2 builds networks with, from its module `engine` or one in it: `keras.engine.training.Model`."""

SHORT_KERAS = lazy_pattern(r"^tensorflow\.(losses|metrics|optimizers)\.(?=[A-Z]|\w+_crossentropy$)")
"""Modules of Keras that TensorFlow 2 also has without `keras`; TensorFlow 1 had other functions there."""


@lru_cache(maxsize=10_000)
def canonical(path: str) -> str:
    """The one dotted name that the reader knows a library's thing by."""
    for alias, name in ALIASES.items():
        if path == alias or path.startswith(f"{alias}."):
            path = name + path[len(alias) :]
            break
    path = SHORT_KERAS.sub(r"keras.\1.", path).replace("torch.torch.", "torch.", 1)  # torch has itself as attribute
    if path.startswith("torch."):
        return INNER_TORCH.sub(r"\1.\2", path)
    if path.startswith("torchvision."):
        return INNER_TORCHVISION.sub(r"\1.\2", path)
    if path.startswith("torchmetrics."):
        return INNER_TORCHMETRICS.sub(r"torchmetrics.\1\2", path)
    if path.startswith("keras."):
        return KERAS_ENGINE.sub(r"keras.\1", INNER_KERAS.sub(r"keras.\1.\2", path))
    parts = path.split(".")
    if parts[0] in FLAT and len(parts) > 2:
        return _flattened(parts)
    return path


def _flattened(parts: list[str]) -> str:
    """`transformers.trainer.Trainer.train` as `transformers.Trainer.train`: only modules are all lower case."""
    for index, part in enumerate(parts[1:], start=1):
        if not part.islower():
            return ".".join([parts[0], *parts[index:]])
    public = f"{parts[0]}.{parts[-1]}"
    # A function is all lower case as well: `datasets.load.load_dataset` is `datasets.load_dataset`.
    return public if public in FUNCTIONS else ".".join(parts)


def library(path: str) -> Value:
    """The library at a dotted path, or Unknown if it is none that the reader knows."""
    top = path.partition(".")[0]
    is_known = top in LIBRARIES or path in GRAPH_LOADERS or (top in PARTLY_KNOWN and path in KNOWN)
    if top in FEW_FUNCTIONS:
        is_known = leads_to_function(path)
    return Library(canonical(path)) if is_known else Unknown(name=path)


def _imported(reader: Reader, path: str) -> Value:
    """What an import of a library binds: of an installed package without tables what was read of its source."""
    if (known := named_value(reader, canonical(path))) is not None:
        return known
    value, installed = library(path), reader.record.targets.installed
    if isinstance(reader.source, Configuration):
        return Library(canonical(path))  # whichever tool the file is for
    facts = installed.of(path)
    if not isinstance(value, Unknown) or (facts is None and installed.version(path) is None):
        return value
    return InstalledName(name=path, facts=facts or NOTHING)


@attribute_of(Library)
def _library_attribute(reader: Reader, value: Library, name: str, location: Location) -> Value:
    if "." not in value.path and value.path != "builtins":
        used = LibraryName(value.path, name, location, reader.guards > 0, False)
        reader.record.names.append(used)
    path = f"{value.path}.{name}"
    # Of a package that is known for a few functions alone, any other name may be anything.
    if path.partition(".")[0] in FEW_FUNCTIONS | PARTLY_KNOWN:
        return _imported(reader, path)
    return named_value(reader, canonical(path)) or Library(canonical(path))


@statement(ast.Import)
def execute_import(reader: Reader, node: ast.Import, scope: Scope) -> Flow:
    """`import a.b as c`."""
    for alias in node.names:
        path = alias.name if alias.asname else alias.name.partition(".")[0]
        own = own_module(reader, alias.name)
        if own is not None and not alias.asname:
            # `import a.b` binds `a`, of which only the folder may exist.
            own = own_module(reader, path) or ModuleFile(path, None, _folder_of(own, alias.name))
        found = project_modules.made_module(reader, own) if own else _imported(reader, path)
        scope.bind(alias.asname or path, reader.shared(alias, found))
    return Flow.ON


def _folder_of(module: ModuleFile, path: str) -> str:
    """The folder without `__init__.py` that an imported module's path begins with."""
    return os.path.abspath(os.path.join(module.folder or module.file or "", *[".."] * path.count(".")))


@statement(ast.ImportFrom)
def execute_import_from(reader: Reader, node: ast.ImportFrom, scope: Scope) -> Flow:
    """`from a import b as c`."""
    module = node.module or ""
    own = _relative_module(reader, node.level, module) if node.level else own_module(reader, module)
    for alias in node.names:
        if own is not None:
            missing_names.note(reader, node, own, alias)
            _import_own(reader, own, alias, scope)
            continue
        if alias.name == "*":
            _import_all(scope.module(), "" if node.level else module)
            continue
        bound = alias.asname or alias.name
        path = f"{module}.{alias.name}"
        submodule = None if node.level else own_module(reader, path)
        if submodule is not None:
            scope.bind(bound, project_modules.made_module(reader, submodule))
            continue
        scope.bind(bound, Unknown(name=path) if node.level else reader.shared(alias, _imported(reader, path)))
        if not node.level:
            location = reader.source.location(alias)
            used = LibraryName(module, alias.name, location, reader.guards > 0, True, bound)
            reader.record.names.append(used)
    return Flow.ON


IN_TABLES = lazy_pattern(r"^lightning\b(?!\.fabric)")
"""The package that the tables have under `lightning.pytorch`."""


@dataclass(frozen=True, slots=True)
class LibraryStar:
    """What `from library import *` brings in: the names that the tables of the library's versions have."""

    module: str

    def __call__(self, name: str) -> Value | None:
        """The value of a name, None if the library has no such name."""
        from lintrain.knowledge import tables

        module = IN_TABLES.sub("lightning.pytorch", self.module)
        package = module.partition(".")[0]
        # Without the tables, `from torch import *` would turn every unknown name of the script into one of
        # torch.
        has = package in tables.COVERED_PACKAGES and name in tables.lives_of(package, module)
        return library(f"{self.module}.{name}") if has and not name.startswith("_") else None


def _import_all(module: Scope, path: str) -> None:
    """`from a import *`: one of a module that is not known may put another thing under any name from before."""
    path = canonical(path)
    if path.partition(".")[0] in LIBRARIES:
        module.add_star(LibraryStar(path))
    else:
        # A star from an unknown module may rebind any name, so names of earlier stars are no longer
        # certain.
        module.stars = [star for star in module.stars if not isinstance(star, LibraryStar)]


def _rebind(names: Scope, star: StarImport) -> None:
    """`from own import *`: its classes replace those of libraries that were imported under the same names before."""
    names.add_star(star)
    for name, value in list(names.names.items()):
        # Only names of classes are asked for: every module has `torch` and `np`, and would be read for them.
        if name[:1].isupper() and isinstance(value, Library):
            own = star(name)
            if isinstance(own, Class | Function):
                names.bind(name, own)


def _import_own(reader: Reader, file: ModuleFile, alias: ast.alias, scope: Scope) -> None:
    module = project_modules.made_module(reader, file)
    if alias.name == "*":
        # `from . import *` in the package itself brings in modules, under names of the package's own `__all__`.
        if module.names is not scope.module():
            _rebind(scope.module(), project_modules.starred(reader, module))
        return
    bound = alias.asname or alias.name
    if module.names is scope.module():
        # `from . import a` in the package itself
        scope.bind(bound, project_modules.submodule(reader, module, alias.name))
        return
    deferred = project_modules.imported(reader, module, alias.name)
    scope.bind(bound, settled(deferred) if scope.is_class else deferred)


def own_module(reader: Reader, path: str) -> ModuleFile | None:
    """The project's module that an absolute import means.

    A library that the reader knows by name is meant, unless a module of that name is next to the script, where
    Python looks first, or the project has one and the name is an everyday word.
    """
    project = reader.modules.project
    top = path.partition(".")[0]
    if project is None or top in BUILT_IN:
        return None
    script = reader.record.source.path
    # A folder `torch/` somewhere in the project is a copy or a stub, and `import torch` means the library.
    # `datasets/` or `evaluate.py` next to the script hide it, and Python finds those first.
    find = project.find_beside if top in LIBRARIES - EVERYDAY else project.find
    found = find(script, path)
    is_itself = found is not None and found.file == os.path.abspath(script)
    return None if is_itself and top in LIBRARIES else found


def named_object(reader: Reader, path: str, location: Location) -> Value:
    """What a dotted path in a text means (`_target_: src.models.net.Net`): of the project, else of a library."""
    parts = path.split(".")
    for count in range(len(parts) - 1, 0, -1):
        if (own := own_module(reader, ".".join(parts[:count]))) is not None:
            value = settled(project_modules.imported(reader, project_modules.made_module(reader, own), parts[count]))
            for name in parts[count + 1 :]:
                value = dispatch.attribute(reader, value, name, location)
            return value
    return _imported(reader, path)


def _relative_module(reader: Reader, level: int, path: str) -> ModuleFile | None:
    """The project's module that a relative import means; modules inside a known library are left alone."""
    project = reader.modules.project
    if project is None or project.package_of(reader.source.path) in LIBRARIES - EVERYDAY:
        return None
    return project.find_relative(reader.source.path, level, path)
