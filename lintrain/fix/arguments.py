"""Edits of a call's keyword arguments.

Parameters of functions.
"""

from __future__ import annotations

import libcst as cst

from lintrain.fix.comma_list import NOTHING, CommaList, read_value
from lintrain.fix.tree import FixError, Step, Tree, span_of
from lintrain.model.fixes import AddArgument, AddParameter, RemoveArgument, RenameArgument, SetArgument

ArgumentEdit = AddArgument | RenameArgument | RemoveArgument


def argument_step(tree: Tree, edit: ArgumentEdit) -> Step | None:
    """The change of a call, or None if the call is already as requested; raises FixError if there is no such call."""
    call = tree.call_at(edit.call)
    if call is None:
        if any(_is_done(started, edit) for started in tree.calls_starting_at(edit.call)):
            return None
        raise FixError(f"{edit.call}: there is no call at this location")
    if _is_done(call, edit):
        return None
    match edit:
        case AddArgument():
            return _adding(tree, call, edit)
        case RemoveArgument():
            return _removing(tree, call, edit)
        case RenameArgument():
            return _renaming(tree, call, edit)


def _is_done(call: cst.Call, edit: ArgumentEdit) -> bool:
    match edit:
        case AddArgument():
            return argument(call, edit.name) is not None
        case RemoveArgument():
            return argument(call, edit.name) is None
        case RenameArgument():
            return argument(call, edit.name) is None and argument(call, edit.new_name) is not None


def _adding(tree: Tree, call: cst.Call, edit: AddArgument) -> Step:
    value = read_value(edit.value, tree.module)
    line, column = tree.spans[call][1]
    closing = (line, column - 1)

    def change(node: cst.CSTNode) -> list[cst.CSTNode]:
        return [with_argument(cst.ensure_type(node, cst.Call), edit.name, value)]

    return Step(edit, call, change, 1, (closing, closing), frozenset({(call, edit.name)}))


def _removing(tree: Tree, call: cst.Call, edit: RemoveArgument) -> Step:
    def change(node: cst.CSTNode) -> list[cst.CSTNode]:
        return [without_argument(cst.ensure_type(node, cst.Call), edit.name)]

    return Step(edit, call, change, 0, tree.spans[_named(call, edit.name)], frozenset({(call, edit.name)}))


def _renaming(tree: Tree, call: cst.Call, edit: RenameArgument) -> Step:
    name, new_name = edit.name, edit.new_name
    arg = _named(call, name)
    if new_name != name and argument(call, new_name) is not None:
        raise FixError(f"{edit.call}: the call has both `{name}` and `{new_name}`")
    value = None if edit.new_value is None else read_value(edit.new_value, tree.module)
    span = tree.spans[arg if value is not None or arg.keyword is None else arg.keyword]

    def change(node: cst.CSTNode) -> list[cst.CSTNode]:
        return [with_renamed_argument(cst.ensure_type(node, cst.Call), name, new_name, value)]

    return Step(edit, call, change, 0, span, frozenset({(call, name), (call, new_name)}))


def _named(call: cst.Call, name: str) -> cst.Arg:
    index = argument(call, name)
    if index is None:
        raise FixError(f"the call has no argument `{name}`")
    return call.args[index]


def argument(call: cst.Call, name: str) -> int | None:
    """The position of a keyword argument, or None if the call has no argument of this name."""
    return next((index for index, arg in enumerate(call.args) if arg.keyword and arg.keyword.value == name), None)


def with_argument(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """The call with one more keyword argument; unchanged if it already has the argument."""
    if argument(call, name) is not None:
        return call
    equal = cst.AssignEqual(whitespace_before=NOTHING, whitespace_after=NOTHING)
    added = cst.Arg(value=value, keyword=cst.Name(name), equal=equal)
    return _into_call(call, _arguments(_with_parenthesised_generator(call)).append(added))


def with_renamed_argument(call: cst.Call, name: str, new_name: str, value: cst.BaseExpression | None) -> cst.Call:
    """The call with one keyword argument renamed, and with a new value if one is given."""
    index = argument(call, name)
    if index is None:
        return call
    arg = call.args[index].with_changes(keyword=cst.Name(new_name))
    if value is not None:
        arg = arg.with_changes(value=value)
    return call.with_changes(args=(*call.args[:index], arg, *call.args[index + 1 :]))


def without_argument(call: cst.Call, name: str) -> cst.Call:
    """The call without one keyword argument; unchanged if it has no argument of this name."""
    index = argument(call, name)
    return call if index is None else _into_call(call, _arguments(call).remove(index))


def _arguments(call: cst.Call) -> CommaList:
    if not call.args:
        return CommaList(call.whitespace_before_args, (), NOTHING)
    *others, last = call.args
    bare = last.with_changes(whitespace_after_arg=NOTHING)
    return CommaList(call.whitespace_before_args, (*others, bare), last.whitespace_after_arg)


def _into_call(call: cst.Call, arguments: CommaList) -> cst.Call:
    if not arguments.items:
        return call.with_changes(args=(), whitespace_before_args=arguments.opening)
    *others, last = arguments.items
    closed = last.with_changes(whitespace_after_arg=arguments.closing)
    return call.with_changes(args=(*others, closed), whitespace_before_args=arguments.opening)


def _with_parenthesised_generator(call: cst.Call) -> cst.Call:
    """The call with parentheses around a generator that is its only argument: a second argument requires them."""
    if len(call.args) != 1 or not isinstance(call.args[0].value, cst.GeneratorExp) or call.args[0].value.lpar:
        return call
    generator = call.args[0].value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return call.with_changes(args=[call.args[0].with_changes(value=generator)])


def parameter_step(tree: Tree, edit: AddParameter) -> Step | None:
    """One more parameter with a default, or None if the function has it; raises FixError if it cannot come last."""
    function = tree.compound_at(edit.function)
    if not isinstance(function, cst.FunctionDef):
        raise FixError(f"{edit.function}: there is no function at this location")
    parameters = function.params
    plain = [*parameters.posonly_params, *parameters.params]
    if any(each.name.value == edit.name for each in [*plain, *parameters.kwonly_params]):
        return None
    if not parameters.params:
        raise FixError(f"{edit.function}: the function has no parameters")
    span = tree.spans[parameters.params[-1]]
    equal = cst.AssignEqual(whitespace_before=NOTHING, whitespace_after=NOTHING)
    added = cst.Param(cst.Name(edit.name), default=read_value(edit.default, tree.module), equal=equal)

    def change(node: cst.CSTNode) -> list[cst.CSTNode]:
        changed = cst.ensure_type(node, cst.FunctionDef)
        listed = _listed(changed).append(added)
        *others, last = listed.items
        params = [*others, last.with_changes(whitespace_after_param=listed.closing)]
        return [changed.with_changes(params=changed.params.with_changes(params=params))]

    return Step(edit, function, change, 0, (span[1], span[1]), frozenset({(function, edit.name)}))


def _listed(function: cst.FunctionDef) -> CommaList:
    """The plain parameters, with the whitespace after the last one: libcst stores it elsewhere than in calls."""
    *others, last = function.params.params
    tail, comma = last.whitespace_after_param, last.comma
    last = last.with_changes(whitespace_after_param=NOTHING)
    if not isinstance(comma, cst.Comma):
        return CommaList(function.whitespace_before_params, (*others, last), tail)
    if isinstance(tail, cst.ParenthesizedWhitespace):
        last = last.with_changes(comma=comma.with_changes(whitespace_after=tail))
    return CommaList(function.whitespace_before_params, (*others, last), NOTHING)


def setting_step(tree: Tree, edit: SetArgument) -> Step:
    """The change of an argument where it is set; raises FixError if the location sets none."""
    value = read_value(edit.value, tree.module)

    def setting(held: cst.CSTNode, **changes: object) -> Step:
        return Step(edit, held, lambda old: [old.with_changes(**changes)], 0, span_of(edit.location))

    for node in tree.nodes_at(edit.location):
        around = tree.parents.get(node)
        match node, around and tree.parents.get(around):
            case cst.Arg(keyword=cst.Name()), _:
                return setting(node, keyword=cst.Name(edit.name), value=value)
            case cst.SimpleStatementLine(body=[cst.AnnAssign(value=cst.BaseExpression() as given) as field]), _:
                return setting(field, target=cst.Name(edit.name), value=_default(given, value))
            case cst.Attribute(), cst.Assign(targets=[only]) as statement if only is around:
                target = only.with_changes(target=node.with_changes(attr=cst.Name(edit.name)))
                return setting(statement, targets=[target], value=value)
            case cst.BaseExpression(), _:
                return Step(edit, node, lambda _: [value], 0, span_of(edit.location))
            case _:
                pass
    raise FixError(f"{edit.location}: no argument is set at this location")


def _default(given: cst.BaseExpression, value: cst.BaseExpression) -> cst.BaseExpression:
    """The new default of a field: inside of `field(default=…)`, where it is given so."""
    is_inside = isinstance(given, cst.Call) and argument(given, "default") is not None
    return (
        with_renamed_argument(given, "default", "default", value)
        if is_inside and isinstance(given, cst.Call)
        else value
    )
