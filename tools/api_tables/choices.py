"""Which values arguments and keys may have, in any version.

They are the members of enumerations and literal types, the `choices` of fields, and, in TRL, the values that a trainer
compares a setting with before it raises for all others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tools.api_tables.package_tree import Found, PackageTree
from tools.api_tables.signatures import lineage_of

Choice = str | int
Choices = Mapping[str, Mapping[str, tuple[Choice, ...]]]
"""By callable and argument."""

CONVERTED = {
    "lr_scheduler_type": "SchedulerType",
    "optim": "OptimizerNames",
    "eval_strategy": "IntervalStrategy",
    "evaluation_strategy": "IntervalStrategy",
    "logging_strategy": "IntervalStrategy",
    "save_strategy": "SaveStrategy",
    "hub_strategy": "HubStrategy",
}
"""Training arguments that are declared as text, and made members of these when they are set."""

CLASSES = {
    "llamafactory": (
        ("llamafactory.config", "llamafactory.hparams.finetuning_args", "FinetuningArguments"),
        ("llamafactory.config", "llamafactory.hparams.model_args", "ModelArguments"),
        ("llamafactory.config", "llamafactory.hparams.data_args", "DataArguments"),
    ),
    "axolotl": (("axolotl.config", "axolotl.utils.schemas.config", "AxolotlInputConfig"),),
    "deepspeed": (
        ("deepspeed.config.zero_optimization", "deepspeed.runtime.zero.config", "DeepSpeedZeroConfig"),
        (
            "deepspeed.config.zero_optimization.offload_param",
            "deepspeed.runtime.zero.offload_config",
            "DeepSpeedZeroOffloadParamConfig",
        ),
        (
            "deepspeed.config.zero_optimization.offload_optimizer",
            "deepspeed.runtime.zero.offload_config",
            "DeepSpeedZeroOffloadOptimizerConfig",
        ),
    ),
}


def choices_of(tree: PackageTree) -> Iterator[tuple[str, str, tuple[Choice, ...]]]:
    """The callables, arguments and choices of one version of a package."""
    if tree.package == "transformers":
        for name, enumeration in CONVERTED.items():
            if members := _members(_trainer_enumeration(tree, enumeration)):
                yield "transformers.TrainingArguments", name, members
    if tree.package == "accelerate":
        members = _members(tree.find("accelerate.utils.dataclasses", "PrecisionType"))
        kinds = _members(tree.find("accelerate.utils.dataclasses", "DistributedType"))
        yield "accelerate.config", "mixed_precision", members
        yield "accelerate.config", "distributed_type", kinds
    if tree.package == "axolotl":
        custom = tree.find("axolotl.utils.schemas.enums", "CustomSupportedOptimizers")
        yield "axolotl.config", "optimizer", _members(custom)
    if tree.package == "trl":
        yield from choices_of_trl(tree)
    for path, module, name in CLASSES.get(tree.package, ()):
        found = tree.find(module, name)
        for part in lineage_of(tree, found) if found is not None else ():
            for key, choices in _of_class(tree, part):
                yield path, key, choices


# -------------------------------------------------------------------------------------------------------------- TRL


def choices_of_trl(tree: PackageTree) -> Iterator[tuple[str, str, tuple[Choice, ...]]]:
    """The choices of the configurations of TRL's trainers."""
    for module in sorted(tree.sources):
        if not module.endswith("_config") or ".experimental." in module:
            continue
        trainer = tree.tree(f"{module.removesuffix('config')}trainer")
        compared = _compared(tree.tree(module)) | _compared(trainer)
        for part in tree.tree(module).body:
            if isinstance(part, ast.ClassDef) and part.name.endswith("Config"):
                for name, field in _fields(part):
                    if choices := _of_field(field) or compared.get(name, ()):
                        yield f"trl.{part.name}", name, tuple(sorted({*choices, *_default(field)}))


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, ast.AnnAssign]]:
    """The fields that hold a text, or a list of texts."""
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if "str" in {each.id for each in ast.walk(annotation) if isinstance(each, ast.Name)}:
                    yield name, part
            case _:
                pass


def _of_field(field: ast.AnnAssign) -> tuple[str, ...]:
    """The `choices` in the metadata of a field."""
    for node in ast.walk(field):
        match node:
            case ast.Dict(keys=keys, values=values):
                pairs = zip(keys, values, strict=True)
                named = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
                return _texts(named["choices"]) if "choices" in named else ()
            case _:
                pass
    return ()


def _default(field: ast.AnnAssign) -> tuple[str, ...]:
    match field.value:
        case ast.Call(keywords=keywords):
            given = [each.value for each in keywords if each.arg in ("default", "default_factory")]
            return _texts(given[0]) if given else ()
        case _:
            return ()


def _compared(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """By setting, what a module compares it with, if it raises an error for all other values."""
    found: dict[str, set[str]] = {}
    refused = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _ends_with_error(node):
            refused.update(_settings_in(node.test))
        elif isinstance(node, ast.Compare):
            parts = (node.left, *node.comparators)
            for name in {name for part in parts for name in _settings_in(part)}:
                found.setdefault(name, set()).update(text for part in parts for text in _texts(part))
    return {name: tuple(texts) for name, texts in found.items() if name in refused and len(texts) > 1}


def _ends_with_error(node: ast.If) -> bool:
    """Whether a chain of tests ends with `else: raise …`, or is `if … not in (…): raise …`."""
    is_refusal = any(isinstance(each, ast.NotIn) for part in ast.walk(node.test) for each in _operators(part))
    last = node.body if is_refusal else node.orelse
    while len(last) == 1 and isinstance(last[0], ast.If):
        last = last[0].orelse
    return any(isinstance(part, ast.Raise) for part in last)


def _operators(node: ast.AST) -> list[ast.cmpop]:
    return node.ops if isinstance(node, ast.Compare) else []


def _settings_in(node: ast.AST) -> set[str]:
    """The last names of what an expression reads: `loss_type` of `self.loss_type`."""
    names = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return names | {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _texts(node: ast.AST) -> tuple[str, ...]:
    constants = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return tuple(each for each in constants if isinstance(each, str))


# ----------------------------------------------------------------------------------------------------- enumerations


def _trainer_enumeration(tree: PackageTree, name: str) -> Found | None:
    homes = ("transformers.trainer_utils", "transformers.training_args")
    return next((found for home in homes if (found := tree.find(home, name)) is not None and found.node), None)


def _of_class(tree: PackageTree, part: Found) -> Iterator[tuple[str, tuple[Choice, ...]]]:
    for statement in part.node.body if isinstance(part.node, ast.ClassDef) else ():
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation):
                if (choices := _annotated(tree, part.module, annotation)) is not None and len(choices) > 1:
                    yield name, choices
            case _:
                pass


def _annotated(tree: PackageTree, module: str, node: ast.expr) -> tuple[Choice, ...] | None:
    """The choices of an annotation; None if it accepts others, or is not understood."""
    match node:
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            constants = [each.value for each in ast.walk(inner) if isinstance(each, ast.Constant)]
            return tuple(each for each in constants if isinstance(each, str | int) and not isinstance(each, bool))
        case ast.Subscript(value=ast.Name(id="Optional" | "Union"), slice=inner):
            return _united(tree, module, inner.elts if isinstance(inner, ast.Tuple) else [inner])
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            return _united(tree, module, [left, right])
        case ast.Constant(value=None) | ast.Name(id="bool" | "None"):
            return ()
        case ast.Name(id=name):
            members = _members(tree.find(module, name))
            return members or None
        case _:
            return None


def _united(tree: PackageTree, module: str, nodes: list[ast.expr]) -> tuple[Choice, ...] | None:
    found = [_annotated(tree, module, node) for node in nodes]
    return None if None in found else tuple(each for choices in found for each in choices or ())


def _members(found: Found | None) -> tuple[Choice, ...]:
    """The values of an enumeration."""
    if found is None or not isinstance(found.node, ast.ClassDef):
        return ()
    bases = " ".join(ast.unparse(base) for base in found.node.bases)
    if "Enum" not in bases:
        return ()
    values = [part.value for part in found.node.body if isinstance(part, ast.Assign)]
    known = [value.value for value in values if isinstance(value, ast.Constant)]
    return tuple(each for each in known if isinstance(each, str | int) and not isinstance(each, bool))


def united(every: list[tuple[str, str, tuple[Choice, ...]]], before: Choices) -> Choices:
    """The choices of several versions together with those that a table has."""
    table: dict[str, dict[str, tuple[Choice, ...]]] = {path: dict(keys) for path, keys in before.items()}
    for path, key, choices in every:
        known = table.setdefault(path, {}).get(key, ())
        table[path][key] = tuple(sorted({*known, *choices}, key=str))
    return {path: dict(sorted(keys.items())) for path, keys in sorted(table.items())}
