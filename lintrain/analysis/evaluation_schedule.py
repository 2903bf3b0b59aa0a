"""When a run certainly evaluates and saves, and what counts as the best: by training arguments, or in a loop."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator
from enum import Enum, auto

from lintrain.model.finding import Related
from lintrain.model.location import Location
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Absent, Constant, Library, Value, is_missing, is_true, literal
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

EVALUATION_NAMES = ("eval_strategy", "evaluation_strategy")
"""The argument that sets when to evaluate: its name since transformers 4.41, and its former name."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """`no`, `steps`, `epoch` or `best`, with the argument that sets it; `location` is None for the default."""

    name: str
    value: str
    location: Location | None

    def reason(self, note: str) -> tuple[Related, ...]:
        """The location that sets it, with a note."""
        return (Related(self.location, note, "origin"),) if self.location else ()


def evaluation_strategy(settings: TrainingArguments) -> Strategy | None:
    """When a run evaluates during training; None if that is not certain."""
    for name in EVALUATION_NAMES:
        if not isinstance(settings.value(name), Absent):
            return _strategy(settings, name, "no")
    return Strategy("eval_strategy", "no", None)


def saving_strategy(settings: TrainingArguments) -> Strategy | None:
    """When a run saves checkpoints; None if that is not certain."""
    return _strategy(settings, "save_strategy", "steps")


def _strategy(settings: TrainingArguments, name: str, default: str) -> Strategy | None:
    value = settings.value(name)
    if isinstance(value, Absent):
        return Strategy(name, default, None)
    text = _text_of(value)
    return Strategy(name, text, settings.locations.get(name)) if text else None


def _text_of(value: Value) -> str | None:
    """A strategy given as text or as a member of the library's enum."""
    match value:
        case Constant(value=str(text), may_differ=False):
            return text.lower()
        case Library(path=path) if "Strategy." in path:
            return path.rpartition(".")[2].lower()
        case _:
            return None


def keeps_the_best(settings: TrainingArguments) -> bool:
    """Whether the best checkpoint is certainly selected: it is loaded at the end, or only the best is saved."""
    saving = saving_strategy(settings)
    return is_true(settings.value("load_best_model_at_end")) or (saving is not None and saving.value == "best")


def best_metric(settings: TrainingArguments) -> str | None:
    """The metric that certainly selects the best checkpoint, without the Trainer's prefix `eval_`."""
    name = literal(settings.value("metric_for_best_model"))
    return name.removeprefix("eval_") if isinstance(name, str) else None


def is_evaluated(pipeline: Pipeline, run: TrainerRun) -> bool:
    """Whether the script certainly evaluates a run: by a call, or by its evaluation strategy."""
    if any(event.subject is run for event in pipeline.acts(Act.EVALUATE)):
        return True
    strategy = evaluation_strategy(run.settings) if run.settings else None
    return strategy is not None and strategy.value != "no"


def is_given_in_call(settings: TrainingArguments, name: str) -> bool:
    """Whether an argument is in the call that creates them, which the library's own checks cover."""
    location = settings.locations.get(name)
    return location is not None and settings.origin is not None and settings.origin.holds(location)


def is_left_out(settings: TrainingArguments, name: str) -> bool:
    """Whether an argument is certainly not set."""
    return is_missing(settings.value(name))


HIGHER = lazy_pattern(r"(?:^|_)(?:acc|accuracy|f1|auc|auroc|iou|miou|dice|recall|precision|bleu|psnr|ssim)(?:$|_|\d)")
LOWER = lazy_pattern(r"(?:^|_)(?:loss|mae|mse|rmse|perplexity|ppl|wer|cer)(?:$|_|\d)")
TURNED = lazy_pattern(r"neg|minus|inv|worst|gap|diff(?!us)|drop|advers|(?:^|_)adv(?:$|_)|attack|fool|poison|backdoor")
"""Words for values that are turned around, for the worst one, or for those that an attack on the model lowers."""

KEEPS = lazy_pattern(r"save|copy|state_dict|checkpoint|best_(?:model|weights|epoch)")
"""What is done with the best model."""


@dataclass(frozen=True, slots=True)
class KeptWorst:
    """A comparison that keeps the model with the worst value: where it is, and the names of the value and the best."""

    location: Location
    value: str
    best: str
    lower_is_better: bool
    is_counted: bool = False
    """Whether no model is kept, but epochs without a better value are counted, to stop early."""


def kept_worst(source: Source) -> Iterator[KeptWorst]:
    """The comparisons `if accuracy < best_accuracy:` below which that value becomes the best, and a model is kept."""
    for node in source.nodes_of(ast.If):
        if "best" not in source.code(source.location(node.test)).lower():
            continue
        code = "\n".join(unparse(each) for each in node.body)
        for test in _comparisons(node.test):
            value, best, is_less = test
            is_set = any((best, value) in _pairs(each) for each in node.body if isinstance(each, ast.Assign))
            if not is_set or "best" not in best.lower():
                continue
            is_counted = KEEPS.search(code.replace(f"{best} =", "")) is None
            if is_counted and (not _counts(node) or source.contains(MODES)):
                continue
            of_value, of_best = (
                [kind.search(_word(name)) is not None for kind in (HIGHER, LOWER)] for name in (value, best)
            )
            is_lower = of_value == [False, True]
            # `best` alone says nothing of its kind; a name of the other kind would.
            is_open = PLAIN.match(_word(best)) is not None if is_counted else True not in of_best
            is_known = True in of_value and False in of_value and (is_open or of_best == of_value)
            if is_known and is_less is not is_lower and not _is_turned(source, value, best, is_lower=is_lower):
                yield KeptWorst(source.location(node.test), value, best, is_lower, is_counted)


MODES = lazy_pattern(r"[\"'](?:max|min)[\"']|\bmaximize\b|\(\s*-\s*\w*loss")
"""Code that stops by values of which the largest may be the best, or by a loss that is turned around."""

PLAIN = lazy_pattern(r"best(_(score|value|val|metric|result))?$")


def _counts(test: ast.If) -> bool:
    """Whether what is not better is counted, and stops the training after some epochs."""
    code = "\n".join(unparse(each) for each in test.orelse)
    return "+= 1" in code and "patience" in code


def _comparisons(test: ast.expr) -> Iterator[tuple[str, str, bool]]:
    """The value, the best one so far, and whether a smaller value is better."""
    for part in test.values if isinstance(test, ast.BoolOp) else [test]:
        match part:
            case ast.Compare(left=left, ops=[ast.Lt() | ast.LtE()], comparators=[right]):
                pairs = [(left, right, True), (right, left, False)]
            case ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()], comparators=[right]):
                pairs = [(left, right, False), (right, left, True)]
            case _:
                pairs = []
        yield from ((unparse(one), unparse(other), is_less) for one, other, is_less in pairs)


def _word(code: str) -> str:
    return code.rpartition(".")[2].lower()


def _is_turned(source: Source, value: str, best: str, *, is_lower: bool) -> bool:
    """Whether the names, or the start of the best value, show that the order is meant."""
    if TURNED.search(f"{value} {best}".lower()):
        return True
    starts = [each for name, each in _bindings(source) if name == best and each != value]
    is_meant = any(_contradicts(each, is_lower=is_lower) for each in starts)
    return not starts or is_meant or any(each.startswith("-") for name, each in _bindings(source) if name == value)


def _contradicts(start: str, *, is_lower: bool) -> bool:
    """Whether the first best value is the worst one for the comparison as it is written: infinity, a large number."""
    sign = -1 if start.startswith("-") else 1
    try:
        number = sign * math.inf if "inf" in start.lower() else float(start)
    except ValueError:
        return start != "None"
    return number > 0 if is_lower else number > LARGEST_SCORE


LARGEST_SCORE = 100
"""No accuracy in percent is larger."""


def _bindings(source: Source) -> Iterator[tuple[str, str]]:
    """The code of what is assigned, by that of its target."""
    for node in source.nodes_of(ast.Assign):
        yield from _pairs(node)


def _pairs(node: ast.Assign) -> Iterator[tuple[str, str]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        else:
            pairs = [(target, node.value)]
        yield from ((unparse(one), unparse(other)) for one, other in pairs)


BEST = lazy_pattern(
    r"(?i)best|lowest|highest|(?:^|_)(?:min|max)_(?:val|valid|loss|acc|f1)|(?:loss|acc|f1|val)_(?:min|max)$"
)
ASIDE = lazy_pattern(r"(?i)epoch|iter|step|idx|index|num|count|keep|patience|thresh|target|goal|limit|baseline")
"""Words for what is no best score: the epoch that it is from, or a limit."""

NUMBER = lazy_pattern(
    r"(?i)^-?(?:[\d.]+(?:e[+-]?\d+)?|float\(['\"][+-]?inf\w*['\"]\)|(?:np|numpy|math|torch)\.inf|sys\.maxsize)$"
)
"""What a best score begins with."""


@dataclass(frozen=True, slots=True)
class NeverUpdated:
    """A comparison with a best score that stays what it was: where, the names of both, and where that one is set."""

    location: Location
    value: str
    best: str
    start: Location


def never_updated(source: Source) -> Iterator[NeverUpdated]:
    """The comparisons `if loss < best_loss:` below which a model is kept, if no code gives `best_loss` that value."""
    if not source.contains(MAY_BE_BEST):
        return
    scopes: list[ast.Module | ast.FunctionDef] = [source.tree, *source.nodes_of(ast.FunctionDef)]
    for scope in scopes:
        for test in source.once(_tests_of_best, scope):
            for value, best, _ in _comparisons(test.test):
                start = _only_start(source, scope, test, best) if _keeps(test, value, best) else None
                if start is not None:
                    yield NeverUpdated(source.location(test.test), value, best, source.location(start))


MAY_BE_BEST = lazy_pattern(r"(?i)best|lowest|highest|min|max")


def _tests_of_best(scope: ast.AST) -> list[ast.If]:
    return [each for each in own_nodes(scope) if isinstance(each, ast.If) and BEST.search(unparse(each.test))]


def _keeps(test: ast.If, value: str, best: str) -> bool:
    """Whether a value is compared with the best one so far, and a model or the value is kept where it is better."""
    name = _word(best.removesuffix("']").replace("['", "."))
    is_limit = BEST.search(value) or ASIDE.search(value) or NUMBER.search(value) or value.isupper()
    if is_limit or BEST.search(name) is None or ASIDE.search(name):
        return False
    is_kept = any(each == value for node in test.body if isinstance(node, ast.Assign) for _, each in _pairs(node))
    return is_kept or KEEPS.search("\n".join(unparse(each) for each in test.body)) is not None


def _only_start(source: Source, scope: ast.Module | ast.FunctionDef, test: ast.If, best: str) -> ast.expr | None:
    """Where a name, an attribute or an entry gets the number that it has at each run of a test."""
    if not best.isidentifier():
        return _first_number(_stored_anywhere(source, best))
    if any(best in each.names for each in source.nodes_of(ast.Global, ast.Nonlocal)) or _is_taken(scope, best):
        return None
    stores = _stored_names(scope, best)
    loop = next((each for each in own_nodes(scope) if _is_loop_around(each, test)), None)
    if not stores and scope is not source.tree:
        # A function that never sets the name reads that of the script.
        stores = _stored_names(source.tree, best)
    elif loop is None or any(isinstance(each, ast.Name) and _is_store(each, best) for each in walk(loop)):
        return None
    return _first_number(stores)


def _first_number(stores: Stores) -> ast.expr | None:
    """The first store, if each one is a number or the value of an earlier run, and one is a number."""
    numbers = [target for target, start in stores if start is Start.NUMBER]
    return numbers[0] if numbers and all(start is not Start.OTHER for _, start in stores) else None


def _is_loop_around(node: ast.AST, test: ast.If) -> bool:
    return isinstance(node, ast.For | ast.While) and any(each is test for each in walk(node))


def _is_taken(scope: ast.Module | ast.FunctionDef, name: str) -> bool:
    """Whether a name is a parameter."""
    taken = walk(scope.args) if isinstance(scope, ast.FunctionDef) else []
    return any(isinstance(each, ast.arg) and each.arg == name for each in taken)


def _is_store(node: ast.Name | ast.Attribute | ast.Subscript, code: str) -> bool:
    return not isinstance(node.ctx, ast.Load) and unparse(node) == code


class Start(Enum):
    """What a best score is set to: a number that is written there, the entry of a checkpoint, or something else."""

    NUMBER = auto()
    RESTORED = auto()
    OTHER = auto()


Stores = list[tuple[ast.expr, Start]]
"""Where something is set, and to what."""


def _stored_names(scope: ast.AST, name: str) -> Stores:
    nodes = own_nodes(scope)
    started = _starts(nodes)
    stored = [each for each in nodes if isinstance(each, ast.Name) and _is_store(each, name)]
    return [(each, started.get(id(each), Start.OTHER)) for each in stored]


def _stored_anywhere(source: Source, best: str) -> Stores:
    """Where a file sets an attribute of this name, of whatever object, or an entry with this key."""
    started = _starts(source.nodes_of(ast.Assign, ast.AnnAssign))
    if best.endswith("']"):
        key = best[best.rindex("['") + 2 : -2]
        owner = best[: best.rindex("['")]
        entries = [each for each in source.nodes_of(ast.Subscript) if not isinstance(each.ctx, ast.Load)]
        written = [each for each in entries if _may_be_entry(each, owner, key)]
        set_here: Stores = [(each, started.get(id(each), Start.OTHER)) for each in written]
        for each in source.nodes_of(ast.Dict):
            pairs = [(one, value) for one, value in zip(each.keys, each.values, strict=True) if one is not None]
            set_here += [(one, _start_of(value)) for one, value in pairs if unparse(one) == repr(key)]
        return set_here
    name = _word(best) if "[" not in best else ""
    attributes = [each for each in source.nodes_of(ast.Attribute) if each.attr.lower() == name]
    return [(each, started.get(id(each), Start.OTHER)) for each in attributes if not isinstance(each.ctx, ast.Load)]


def _may_be_entry(node: ast.Subscript, owner: str, key: str) -> bool:
    """Whether the entry with a key is set, of whatever dictionary, or one of this dictionary whose key is not known."""
    return node.slice.value == key if isinstance(node.slice, ast.Constant) else unparse(node.value) == owner


def _starts(nodes: Iterable[ast.AST]) -> dict[int, Start]:
    """What the targets of assignments get, by the identity of the target."""
    return {id(target): _start_of(value) for node in nodes for target, value in _targets(node)}


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    yield from zip(target.elts, value.elts, strict=False)
                else:
                    yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value
        case _:
            pass


def _start_of(value: ast.expr) -> Start:
    match value:
        case _ if NUMBER.search(unparse(value)):
            return Start.NUMBER
        case ast.Call(func=ast.Name(id="float"), args=[inner]) | ast.Call(func=ast.Attribute(value=inner, attr="item")):
            return _start_of(inner)
        case ast.Subscript(value=ast.Name() | ast.Attribute(), slice=ast.Constant(value=str(key))):
            return Start.RESTORED if BEST.search(key) else Start.OTHER
        case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str(key)), *_]):
            return Start.RESTORED if BEST.search(key) else Start.OTHER
        case _:
            return Start.OTHER
