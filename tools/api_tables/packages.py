"""Which packages the tables cover, since when, and which of their classes and functions matter to training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tools.api_tables.configurations import accelerate_keys
from tools.api_tables.exports import exports, open_endings
from tools.api_tables.package_tree import PackageTree
from tools.api_tables.published import Release
from tools.api_tables.signatures import Items, method_items, signature_items
from tools.api_tables.tables import Snapshot


@dataclass(frozen=True, slots=True)
class Covered:
    """What to keep of a package.

    `signatures` are the modules whose public classes and functions are kept (`a.*`: those of all packages below),
    `methods` the classes whose methods are. Names of the modules in `skipped` (and below) are not listed, and no
    signature defined there is kept; where `only` is given, no others are listed. `functions` are kept by their full
    names. `alias` is what the package goes by in the tables: there its callables stand right below that name, as the
    reader has them.
    """

    package: str
    since: Release
    signatures: tuple[str, ...]
    methods: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    depth: int = 3
    functions: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    alias: str = ""

    @property
    def key(self) -> str:
        """What the tables call the package."""
        return self.alias or self.package


_TORCH = (
    "torch.amp",
    "torch.cuda.amp",
    "torch.nn",
    "torch.nn.parallel",
    "torch.nn.utils",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "torch.utils.data",
    "torch.utils.data.distributed",
)

_METRICS = (
    "accuracy auroc average_precision calibration_error cohen_kappa confusion_matrix f1_score fbeta_score "
    "hamming_distance hinge_loss jaccard_index matthews_corrcoef precision precision_recall_curve recall roc "
    "specificity stat_scores"
)

COVERED = (
    Covered(
        "transformers",
        (4, 40),
        ("transformers", "transformers.integrations", "transformers.trainer_utils", "transformers.trainer_pt_utils"),
        (
            "transformers.Trainer",
            "transformers.Seq2SeqTrainer",
            "transformers.PreTrainedModel",
            "transformers.PreTrainedTokenizerBase",
            "transformers.GenerationMixin",
        ),
        (
            "models",
            "cli",
            "commands",
            "onnx",
            "benchmark",
            "sagemaker",
            "kernels",
            "pipelines",
            "quantizers",
            "testing_utils",
        ),
    ),
    Covered(
        "trl",
        (0, 8),
        ("trl", "trl.trainer", "trl.experimental.*"),
        ("trl.SFTTrainer", "trl.DPOTrainer"),
        ("cli", "scripts", "commands"),
    ),
    Covered(
        "accelerate",
        (0, 30),
        ("accelerate", "accelerate.utils"),
        ("accelerate.Accelerator",),
        ("commands", "test_utils"),
    ),
    Covered(
        "datasets",
        (2, 18),
        ("datasets",),
        ("datasets.Dataset", "datasets.DatasetDict", "datasets.IterableDataset", "datasets.IterableDatasetDict"),
        ("packaged_modules", "commands", "io", "tasks"),
    ),
    Covered("evaluate", (0, 4), ("evaluate",), (), ("commands",)),
    Covered("peft", (0, 10), ("peft",), ("peft.PeftModel",), (), 2),
    Covered(
        "keras",
        # Tutorials of the years 2015 to 2017 are still copied, and most of them are written for Keras 1.
        (1, 2),
        (
            "keras",
            "keras.layers",
            "keras.optimizers",
            "keras.optimizers.schedules",
            "keras.losses",
            "keras.metrics",
            "keras.callbacks",
        ),
        ("keras.Model", "keras.Sequential"),
        ("src", "api", "_tf_keras", "ops", "applications", "integration_test", "protobuf"),
        3,
    ),
    Covered(
        "pytorch_lightning",
        (1, 5),
        # Loggers and strategies have namesakes in `lightning.fabric` that take something else.
        ("pytorch_lightning", "pytorch_lightning.callbacks"),
        ("pytorch_lightning.Trainer", "pytorch_lightning.LightningModule", "pytorch_lightning.Callback"),
        # Other modules get names of the past from `_graveyard` when the package is imported.
        only=("pytorch_lightning", "pytorch_lightning.callbacks", "pytorch_lightning.loggers"),
        alias="lightning",
    ),
    Covered(
        "torchmetrics",
        (0, 9),
        ("torchmetrics",),
        functions=tuple(f"torchmetrics.functional.{name}" for name in _METRICS.split()),
        only=("torchmetrics",),
    ),
    Covered(
        "torch",
        (1, 13),
        _TORCH,
        functions=("torch.load", "torch.save", "torch.compile"),
        only=_TORCH,
    ),
)


def snapshot(covered: Covered, version: str, tree: PackageTree) -> Snapshot:
    """What one version of a package offers, as far as it is covered."""
    names = {module: exports(tree, module) for module in sorted(tree.sources) if _is_listed(covered, module)}
    callables = dict(_callables(covered, tree))
    callables |= dict(accelerate_keys(tree)) if covered.package == "accelerate" else {}
    if covered.alias:
        names = {module.replace(covered.package, f"{covered.alias}.pytorch", 1): each for module, each in names.items()}
        callables = {_below_alias(covered, path): items for path, items in callables.items()}
    return Snapshot(version, names, open_endings(tree), callables)


def _below_alias(covered: Covered, path: str) -> str:
    """What a package with an alias calls a class or function, or a method of a class whose methods are kept."""
    owner, _, name = path.rpartition(".")
    kept = f"{owner.rpartition('.')[2]}.{name}" if owner in covered.methods else name
    return f"{covered.alias}.{kept}"


def _is_listed(covered: Covered, module: str) -> bool:
    parts = module.split(".")
    if covered.only:
        return module in covered.only
    return len(parts) <= covered.depth and not any(
        part in covered.skipped or part.startswith(("_", "dummy_")) for part in parts[1:]
    )


def _callables(covered: Covered, tree: PackageTree) -> Iterator[tuple[str, Items]]:
    kept = set[str]()
    for module, address in _modules(covered, tree):
        for name in sorted(exports(tree, module).own):
            if name.startswith("_") or f"{address}.{name}" in kept or not _is_kept(covered, tree, module, name):
                continue
            items = signature_items(tree, module, name)
            if items is not None:
                kept.add(f"{address}.{name}")
                yield f"{address}.{name}", items
    for path in covered.functions:
        module, _, name = path.rpartition(".")
        items = signature_items(tree, module, name)
        if items is not None:
            yield path, items
    for path in covered.methods:
        module, _, name = path.rpartition(".")
        # Keras 1 has its `Model` in `keras.models` only.
        home = module if tree.find(module, name) or covered.package != "keras" else f"{module}.models"
        yield from ((f"{path}.{method}", items) for method, items in method_items(tree, home, name))


def _modules(covered: Covered, tree: PackageTree) -> Iterator[tuple[str, str]]:
    """The modules whose signatures are kept, with what the reader calls them.

    `package.*` stands for all packages right below, whose names the reader has right below the whole package.
    """
    for module in covered.signatures:
        above = module.removesuffix(".*")
        if above == module:
            yield module, module
        below = sorted(f"{above}.{name}" for name in tree.children(above)) if above != module else []
        yield from ((each, covered.package) for each in below if each in tree.packages)


def _is_kept(covered: Covered, tree: PackageTree, module: str, name: str) -> bool:
    """Whether a name is a class or function of its own: no model, and not the same one under a second address."""
    found = tree.find(module, name)
    if found is None or found.node is None or (module != covered.package and tree.find(covered.package, name) == found):
        return False
    skipped = covered.skipped if covered.package == "transformers" else ()
    return not any(part in skipped for part in found.module.split("."))
