"""Settings of the training that a script takes and never reads: options of the command line, constants, parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import namespaces
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PARSES = ("parse_args", "parse_known_args", "parse_intermixed_args")

SETTING = lazy_pattern(
    r"(?:^|_)(?:lr|lrate|learning|decay|wd|momentum|dropout|drop|batch|batchsize|epochs?|n?epochs?|seed|warmup|clip|grad"
    r"|gradient|accumulation|optimizer|optim|opt|scheduler|sched|loss|mixup|cutmix|aug|augment|augmentation|smoothing"
    r"|temperature|gamma|alpha|betas?|beta1|beta2|eps|epsilon|margin|lambda|patience|shuffle|fp16|bf16|amp|freeze"
    r"|pretrained|hidden|layers?|heads|embed|embedding|dim|len|length|crop|weights?|steps|size|channels|bias|noise|ratio|prob"
    r"|rate|power|precision|sparsity|kernel|[48]bit|bits|lora|qlora|quantize|quantization)(?:$|_)"
)
"""Words in the names of what decides what a training learns."""

ASIDE = lazy_pattern(
    r"(?:^|_)(?:log|logging|print|save|saving|interval|display|path|dir|file|name|freq|every|out|output|plot|workers|eval|test|valid"
    r"|val|start|resume|checkpoint|ckpt|gpus?|nodes?|world|rank|port|debug|verbose|run|load|pred|predict|infer|report|best"
    r"|answer)(?:$|_)"
)
"""Words in the names of what only concerns its output, its machines or its evaluation."""

UNUSED = lazy_pattern(r"(?i)not used|unused|deprecat|ignored|compat|no longer|placeholder|no effect|not implemented")


@dataclass(frozen=True, slots=True)
class Unread:
    """A setting that nothing reads: where it is taken, and its name as its user writes it."""

    location: Location
    name: str


def trains(pipeline: Pipeline) -> bool:
    """Whether a script trains something: one that only predicts often declares the options of the training again."""
    is_run = bool(pipeline.runs or pipeline.lightning_fits or any(run.fits for run in pipeline.keras_runs))
    is_loop = bool(pipeline.acts(Act.BACKWARD, Act.STEP, Act.TRAIN))
    return is_run or is_loop or pipeline.source.contains(r"\.backward\(|\.fit\(|\.step\(")


def unread_options(pipeline: Pipeline) -> list[Unread]:
    """The options of the command line about the training that neither the file nor its imports read."""
    source = pipeline.source
    if "add_argument" not in source.text or not any(f".{each}(" in source.text for each in PARSES):
        return []
    calls = source.gathered(declarations)
    named = [(call, *found) for call in calls if (found := _option(call)) is not None and _is_setting(found[1])]
    space = namespaces.followed(source, PARSES, list(pipeline.sources.values())) if named else None
    if space is None or not _is_own_parser(source, calls):
        return []
    return [
        Unread(source.location(call), flag)
        for call, flag, stored in named
        if stored not in space.read and UNUSED.search(unparse(call)) is None
    ]


def declarations(statement: ast.stmt) -> list[ast.Call]:
    """The calls of a statement that declare an option of the command line."""
    return [each for each in walk(statement) if isinstance(each, ast.Call) and _last(each.func) == "add_argument"]


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


OPTIMIZERS = lazy_pattern(r"^(?:Adam\w*|SGD|RMSprop|Adagrad|Adadelta|RAdam|NAdam|ASGD)$")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of number: the names that people give it, its arguments, and the calls that take it.

    `at` is its position in such a call. `has_default` if a call without it has another number.
    """

    names: re.Pattern[str]
    arguments: tuple[str, ...]
    calls: re.Pattern[str]
    at: int | None
    has_default: bool


KINDS = (
    Kind(lazy_pattern(r"(?i)^(?:(?:init_|base_)?lr|learning_?rate)$"), ("lr", "learning_rate"), OPTIMIZERS, 1, True),
    Kind(lazy_pattern(r"(?i)^(?:sgd_)?momentum$"), ("momentum",), lazy_pattern(r"^(?:SGD|RMSprop)$"), None, True),
    Kind(lazy_pattern(r"(?i)^(?:weight_?decay|wd)$"), ("weight_decay",), OPTIMIZERS, None, True),
    Kind(
        lazy_pattern(r"(?i)^(?:train_?)?batch_?size$"), ("batch_size",), lazy_pattern(r"^(?:DataLoader|fit)$"), 1, False
    ),
    Kind(lazy_pattern(r"(?i)^(?:n_?|num_?|max_?)?epochs$"), ("epochs",), lazy_pattern(r"^(?:fit|range)$"), 0, False),
    Kind(lazy_pattern(r"(?i)^dropout(?:_?(?:rate|prob|p))?$"), ("p", "rate"), lazy_pattern(r"^Dropout$"), 0, True),
)


@dataclass(frozen=True, slots=True)
class Replaced:
    """A number that nothing reads: where, its name, what is used in its place as code, and where."""

    location: Location
    name: str
    used: str
    call: Location


def replaced_numbers(source: Source) -> list[Replaced]:
    """The constants and parameters that a file names after a setting and never reads, while others are used."""
    return source.cached(_replaced_numbers)


def _replaced_numbers(source: Source) -> list[Replaced]:
    if source.contains(r"\bexec\(|\bglobals\(|\blocals\(|__all__"):
        return []
    return [*_constants(source), *_parameters(source)]


def _constants(source: Source) -> Iterator[Replaced]:
    """The constants at the top of a file that nothing reads."""
    found = [(node, *named) for node in source.tree.body if (named := _numbered(node)) is not None]
    read = {each.id for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Load)} if found else set[str]()
    masked = "\n".join(source.notebook.masked.values()) if source.notebook else ""
    for node, name, number, kind in found:
        if name not in read and not source.contains(rf"[\"']{name}[\"']") and name not in masked:
            yield from _differing(source, node, name, number, kind, source.nodes_of(ast.Call))


def _numbered(node: ast.stmt) -> tuple[str, float, Kind] | None:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | float() as number)):
            kind = _kind_of(name)
            return (name, number, kind) if kind is not None else None
        case _:
            return None


def _parameters(source: Source) -> Iterator[Replaced]:
    """The parameters of functions that these do not read, although they make what the parameter is for."""
    classes = {id(part): each for each in source.nodes_of(ast.ClassDef) for part in each.body}
    for function in source.nodes_of(ast.FunctionDef):
        for taken in (*function.args.args, *function.args.kwonlyargs):
            kind = _kind_of(taken.arg)
            if kind is None or any(isinstance(each, ast.Name) and each.id == taken.arg for each in walk(function)):
                continue
            scope = classes[id(function)] if function.name == "__init__" and id(function) in classes else function
            calls = [each for each in walk(scope) if isinstance(each, ast.Call)]
            if not any(_last(each.func) == "save_hyperparameters" for each in calls):
                yield from _differing(source, taken, taken.arg, None, kind, calls)


def is_setting(name: str) -> bool:
    """Whether a name is that of a setting whose numbers `replaced_numbers` follows."""
    return _kind_of(name) is not None


def _kind_of(name: str) -> Kind | None:
    return next((each for each in KINDS if each.names.search(name)), None)


def _differing(
    source: Source, node: ast.stmt | ast.arg, name: str, number: float | None, kind: Kind, calls: Sequence[ast.Call]
) -> Iterator[Replaced]:
    """The number of this name, if each call that it is for has another one in the code."""
    epochs = {id(each.iter) for each in source.nodes_of(ast.For) if "epoch" in unparse(each.target)}
    called = [
        each
        for each in calls
        if kind.calls.search(_last(each.func)) and (_last(each.func) != "range" or id(each) in epochs)
    ]
    given = [_given(each, kind) for each in called]
    known = [each for each in given if each is not None and each[1] != number]
    if called and len(known) == len(called):
        yield Replaced(source.location(node), name, known[0][0], source.location(called[0]))


def _given(call: ast.Call, kind: Kind) -> tuple[str, object] | None:
    """The argument of a call as code, and its number; None if it is not written there."""
    named = {each.arg: each.value for each in call.keywords}
    if None in named or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    value = next((named[each] for each in kind.arguments if each in named), None)
    if value is None and kind.at is not None and len(call.args) > kind.at and _last(call.func) != "fit":
        value = call.args[kind.at]
    if value is None:
        is_default = kind.has_default and len(call.args) <= 1 + (kind.at == 1)
        return (f"no `{kind.arguments[0]}`", None) if is_default else None
    code = f"`{unparse(call)}`" if _last(call.func) == "range" else f"`{kind.arguments[0]}={unparse(value)}`"
    return (code, value.value) if isinstance(value, ast.Constant) else None


def _last(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


RATES = frozenset({"lr", "learning_rate", "LR"})
DEFAULT_RATES = frozenset(
    {"Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "Adadelta", "Adamax", "NAdam", "RAdam", "Lion"}
)
"""Optimizers that have a rate of their own, if they are given none."""


def kept_rates(source: Source) -> Iterator[tuple[Location, str, Location]]:
    """The rates that modules of Lightning keep, while their optimizers get none: where, the name, the optimizer."""
    read = {node.attr for node in source.nodes_of(ast.Attribute) if isinstance(node.ctx, ast.Load)}
    for cls in source.nodes_of(ast.ClassDef):
        methods = {each.name: each for each in cls.body if isinstance(each, ast.FunctionDef)}
        if not methods.keys() >= {"__init__", "configure_optimizers"}:
            continue
        calls = [node for node in walk(methods["configure_optimizers"]) if isinstance(node, ast.Call)]
        made = [each for each in calls if _last(each.func) in DEFAULT_RATES]
        if len(made) != 1 or not _has_default_rate(made[0]):
            continue
        for node in walk(methods["__init__"]):
            match node:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)], value=ast.Name()) if (
                    name in RATES - read
                ):
                    yield source.location(node), name, source.location(made[0])
                case _:
                    pass


def _has_default_rate(optimizer: ast.Call) -> bool:
    named = {each.arg for each in optimizer.keywords}
    return len(optimizer.args) <= 1 and named.isdisjoint({"lr", None})
