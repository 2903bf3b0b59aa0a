"""Which keys the configuration files of a tool may have, as the signatures of functions that have the tool's name.

`axolotl.config` takes the keys of an axolotl file by name, `axolotl.config.datasets` those of one item of its list. So
the rules about arguments judge the keys of a file, by version, as they judge the arguments of a call.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tools.api_tables.exports import exports
from tools.api_tables.package_tree import Definition, PackageTree
from tools.api_tables.published import Release
from tools.api_tables.signatures import Items, lineage_of, literal_text, signature_items
from tools.api_tables.tables import Snapshot

Callables = Iterator[tuple[str, Items]]


@dataclass(frozen=True, slots=True)
class Configured:
    """A tool that is started with a configuration file, since when its versions are read, and how.

    `beside` is another folder of its package file that reads the configuration.
    """

    package: str
    since: Release
    read: Callable[[PackageTree], Callables]
    beside: str = ""

    @property
    def key(self) -> str:
        """What the tables call the package."""
        return self.package


def configured_snapshot(configured: Configured, version: str, tree: PackageTree) -> Snapshot:
    """The keys of one version; names to import are not listed."""
    return Snapshot(version, {}, (), dict(configured.read(tree)))


def fields_of(tree: PackageTree, module: str, name: str) -> dict[str, str]:
    """The fields of a dataclass or pydantic model with those of its bases, by name, as items of a signature."""
    found = tree.find(module, name)
    lineage = lineage_of(tree, found) if found is not None else []
    fields: dict[str, str] = {}
    for part in reversed(lineage):
        if isinstance(part.node, ast.ClassDef):
            fields.update(_own_fields(part.node))
    return fields


def _own_fields(node: Definition) -> Iterator[tuple[str, str]]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                if "ClassVar" not in ast.unparse(annotation) and not name.startswith("_"):
                    yield from ((each, f"{each}={_default(value)}") for each in (name, *_aliases(value)))
            case _:
                pass


def _default(value: ast.expr | None) -> str:
    if not isinstance(value, ast.Call):
        return literal_text(value) if value is not None else "?"
    options = {keyword.arg: keyword.value for keyword in value.keywords}
    if "default" in options:
        return literal_text(options["default"])
    return literal_text(value.args[0]) if value.args else "?"


def _aliases(value: ast.expr | None) -> Iterator[str]:
    """Other names that a pydantic field accepts."""
    for keyword in value.keywords if isinstance(value, ast.Call) else ():
        if keyword.arg in ("alias", "validation_alias"):
            yield from (each.value for each in ast.walk(keyword.value) if _is_name(each))  # type: ignore[attr-defined]


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier()


def _by_name(fields: Mapping[str, str]) -> Items:
    return ("*", *fields.values())


def _named(names: Iterable[str]) -> dict[str, str]:
    return {name: f"{name}=?" for name in sorted(set(names))}


AXOLOTL_DATA = re.compile(r"""(?:data|cfg|ds_cfg|self)(?:\.get\(|\[)\s*["'](\w+)["']""")
AXOLOTL_ITEMS = {
    "datasets": ("SFTDataset", "DPODataset", "KTODataset", "StepwiseSupervisedDataset", "UserDefinedDPOType"),
    "pretraining_dataset": ("PretrainingDataset",),
}


def _axolotl(tree: PackageTree) -> Callables:
    schemas = [name for name in sorted(tree.sources) if re.search(r"utils\.(schemas|config)(\.|$)", name)]
    home = next((name for name in schemas if _defines(tree, name, "AxolotlInputConfig")), None)
    if home is None:
        return
    fields = fields_of(tree, home, "AxolotlInputConfig") | fields_of(tree, home, "AxolotlConfigWCapabilities")
    for module in sorted(tree.sources):
        if re.fullmatch(r"axolotl\.integrations\.\w+\.args", module):
            # A plugin brings keys of its own, and any file may name it.
            for node in tree.tree(module).body:
                fields |= fields_of(tree, module, node.name) if isinstance(node, ast.ClassDef) else {}
    # Keys of the past are no fields any more, but a validator still replaces or explains them.
    old = {name for module in schemas for name in AXOLOTL_DATA.findall(tree.sources[module])}
    yield "axolotl.config", _by_name(_named(old - fields.keys()) | fields)
    for key, classes in AXOLOTL_ITEMS.items():
        known: dict[str, str] = {}
        for name in classes:
            known |= fields_of(tree, home, name)
        if known:
            yield f"axolotl.config.{key}", _by_name(known)


def _defines(tree: PackageTree, module: str, name: str) -> bool:
    return any(isinstance(node, ast.ClassDef) and node.name == name for node in tree.tree(module).body)


def _llamafactory(tree: PackageTree) -> Callables:
    module = "llamafactory.hparams.parser"
    named = re.findall(r"\b\w+Arguments?\b", tree.sources.get(module, ""))
    fields: dict[str, str] = {}
    for name in dict.fromkeys(named):
        fields |= fields_of(tree, module, name)
    yield "llamafactory.config", ("<transformers.Seq2SeqTrainingArguments", *fields.values())


CONSTANT = re.compile(r"""^[A-Z][A-Z0-9_]*\s*=\s*["']([a-z][a-z0-9_]*)["']""", re.MULTILINE)
READ_BY_NAME = re.compile(
    r"""(?:config|\w*_dict|\w*params)(?:\.get\(|\[)\s*["']([a-z][a-z0-9_]*)["']|["']([a-z][a-z0-9_]*)["']\s+in\s+\w*config"""
)
DEEPSPEED_SECTIONS = {
    "zero_optimization": ("deepspeed.runtime.zero.config", "DeepSpeedZeroConfig"),
    "zero_optimization.offload_param": ("deepspeed.runtime.zero.offload_config", "DeepSpeedZeroOffloadParamConfig"),
    "zero_optimization.offload_optimizer": (
        "deepspeed.runtime.zero.offload_config",
        "DeepSpeedZeroOffloadOptimizerConfig",
    ),
    "fp16": ("deepspeed.runtime.precision_config", "DeepSpeedFP16Config"),
    "bf16": ("deepspeed.runtime.precision_config", "DeepSpeedBF16Config"),
    "comms_logger": ("deepspeed.comm.config", "CommsLoggerConfig"),
    "tensorboard": ("deepspeed.monitor.config", "TensorBoardConfig"),
    "wandb": ("deepspeed.monitor.config", "WandbConfig"),
    "csv_monitor": ("deepspeed.monitor.config", "CSVConfig"),
}


HALF_PRECISION = (
    *("enabled", "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis", "min_loss_scale"),
    *("consecutive_hysteresis", "auto_cast", "master_weights_and_grads", "fp16_master_weights_and_grads"),
)
"""Keys of `fp16`, before it was a class, whose constants are named after something else."""


def _deepspeed(tree: PackageTree) -> Callables:
    """Keys at the top are read one by one, by names that constants hold."""
    homes = [name for name in sorted(tree.sources) if re.search(r"\.(?:\w*constants|config|\w+_config)$", name)]
    keys = {key for module in homes for key in CONSTANT.findall(tree.sources[module])}
    keys |= {one or other for module in homes for one, other in READ_BY_NAME.findall(tree.sources[module])}
    monitor = fields_of(tree, "deepspeed.monitor.config", "DeepSpeedMonitorConfig")
    yield "deepspeed.config", _by_name(_named(keys | monitor.keys() | {"compile", "weight_quantization", "timers"}))
    for key, (module, name) in DEEPSPEED_SECTIONS.items():
        if fields := fields_of(tree, module, name):
            yield f"deepspeed.config.{key}", _by_name(fields)
    precision = tree.sources.get("deepspeed.runtime.constants", "")
    if halves := re.findall(r"""^FP16_\w+\s*=\s*["']([a-z_0-9]+)["']""", precision, re.MULTILINE):
        yield "deepspeed.config.fp16", _by_name(_named({*halves, *HALF_PRECISION}))


def _torchtune(tree: PackageTree) -> Callables:
    """The components that a file may name, under each module that exports them, and the keys that recipes read."""
    recipes = "\n".join(text for name, text in tree.sources.items() if name.startswith("recipes"))
    keys = re.findall(r"""\b(?:self\.)?_?cfg(?:\.get\(\s*["']|\.|\[["'])([a-z]\w+)""", recipes)
    yield "torchtune.config", ("*", *_named({*keys, "model", "tokenizer"} - {"get"}).values())
    modules = [name for name in sorted(tree.sources) if name.startswith("torchtune.") and "._" not in name]
    modules.remove("torchtune.config")
    for module in modules:
        for name in sorted(exports(tree, module).own):
            if not name.startswith("_") and (items := signature_items(tree, module, name)) is not None:
                yield f"{module}.{name}", items


def accelerate_keys(tree: PackageTree) -> Callables:
    """The keys of the file that `accelerate config` writes: unknown ones are an error."""
    module = "accelerate.commands.config.config_args"
    fields = fields_of(tree, module, "ClusterConfig") | fields_of(tree, module, "SageMakerConfig")
    # Keys of older files, which are converted.
    yield "accelerate.config", _by_name(_named({"fp16", "dynamo_backend"}) | fields)
    sources = [source for name, source in tree.sources.items() if name.startswith("accelerate")]
    names = {name for source in sources for pair in FSDP_KEY.findall(source) for name in pair if name}
    yield "accelerate.config.fsdp_config", _by_name(_named(name for name in names if name.startswith("fsdp_")))
    # What the section holds becomes an option of the launcher.
    options = re.findall(r'"--([a-z][a-z0-9_]+)"', tree.sources.get("accelerate.commands.launch", ""))
    written = re.findall(r'deepspeed_config\["(\w+)"\]', tree.sources.get("accelerate.commands.config.cluster", ""))
    yield "accelerate.config.deepspeed_config", _by_name(_named({*options, *written}))


FSDP_KEY = re.compile(r"""fsdp_config(?:\.get\(|\[|\.pop\()\s*["'](\w+)["']|["'](fsdp_\w+)["']""")

CONFIGURED = (
    Configured("axolotl", (0, 5), _axolotl),
    Configured("deepspeed", (0, 14), _deepspeed),
    Configured("llamafactory", (0, 7), _llamafactory),
    Configured("torchtune", (0, 1), _torchtune, "recipes"),
)
