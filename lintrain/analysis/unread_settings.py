"""Settings of the training that a script takes and never reads: options of the command line."""

from __future__ import annotations

import ast
import re

from lintrain.analysis import namespaces
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PARSES = ("parse_args", "parse_known_args", "parse_intermixed_args")

SETTING = lazy_pattern(
    r"(?:^|_)(?:lr|lrate|learning|decay|wd|momentum|dropout|drop|batch|batchsize|epochs?|n?epochs?|seed|warmup|clip|grad"
    r"|gradient|accumulation|optimizer|optim|opt|scheduler|sched|loss|mixup|cutmix|aug|augment|augmentation|smoothing"
    r"|temperature|gamma|alpha|betas?|beta1|beta2|eps|epsilon|margin|lambda|patience|shuffle|fp16|bf16|amp|freeze"
    r"|pretrained|hidden|layers?|heads|embed|embedding|dim|max_len|max_length|crop|weights?|steps)(?:$|_)"
)
"""Words in the names of what decides what a training learns."""

ASIDE = lazy_pattern(
    r"(?:^|_)(?:log|print|save|saving|interval|display|path|dir|file|name|freq|every|out|output|plot|workers|eval|test|valid"
    r"|val|start|resume|checkpoint|ckpt|gpus?|nodes?|world|rank|port|debug|verbose|run|load|pred|predict|infer|report)(?:$|_)"
)
"""Words in the names of what only concerns its output, its machines or its evaluation."""

UNUSED = lazy_pattern(r"(?i)not used|unused|deprecat|ignored|compat|no longer|placeholder|no effect|not implemented")


@dataclass(frozen=True, slots=True)
class Unread:
    """A setting that nothing reads: where it is taken, and its name as its user writes it."""

    location: Location
    name: str


def unread_options(source: Source) -> list[Unread]:
    """The options of the command line about the training that no code of the file reads."""
    return source.cached(_unread_options)


def _unread_options(source: Source) -> list[Unread]:
    if "add_argument" not in source.text or not any(f".{each}(" in source.text for each in PARSES):
        return []
    calls = [each for each in source.nodes_of(ast.Call) if _last(each.func) == "add_argument"]
    named = [(call, *found) for call in calls if (found := _option(call)) is not None and _is_setting(found[1])]
    space = namespaces.followed(source, PARSES) if named else None
    if space is None or not _is_own_parser(source, calls):
        return []
    return [
        Unread(source.location(call), flag)
        for call, flag, stored in named
        if stored not in space.read and UNUSED.search(unparse(call)) is None
    ]


def _is_own_parser(source: Source, calls: list[ast.Call]) -> bool:
    """Whether the file parses what it declares, and does not take the values of a parser of other files as well."""
    return bool(calls) and not source.contains(r"\bexec\(|\bglobals\(|parse_args\([^)]*namespace\s*=")


def _option(call: ast.Call) -> tuple[str, str] | None:
    """The flag of an option, and the name under which it is stored; None for what is always given."""
    given = {each.arg: each.value for each in call.keywords}
    flags = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    action = given.get("action")
    is_special = action is not None and unparse(action).strip("'\"") in {"help", "version"}
    if not flags or not flags[0].startswith("-") or len(flags) != len(call.args) or None in given or is_special:
        return None
    flag = next((each for each in flags if each.startswith("--")), flags[0])
    stored = given.get("dest")
    if stored is not None and not (isinstance(stored, ast.Constant) and isinstance(stored.value, str)):
        return None
    name = str(stored.value) if isinstance(stored, ast.Constant) else flag.lstrip("-").replace("-", "_")
    return flag, name


def _is_setting(name: str) -> bool:
    """Whether a name is that of a setting of the training."""
    lowered = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return SETTING.search(lowered) is not None and ASIDE.search(lowered) is None


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
