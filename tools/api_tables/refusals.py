"""What constructors accept behind `**kwargs`, where the last of them raises an error for every other name."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def accepted_names(constructors: Sequence[ast.FunctionDef]) -> list[str] | None:
    """The keywords that a chain of constructors takes out of `**kwargs`; None if any other may be accepted.

    The first constructor's own parameters are not among them. Each passes its `**kwargs` on to the next.
    """
    # `Model(*args, **kwargs)` makes another class, which takes `inputs` and `outputs`.
    if not constructors or constructors[0].args.vararg is not None:
        return None
    found: dict[str, None] = {}
    passed = set[str]()
    for position, node in enumerate(constructors):
        if node.args.kwarg is None:
            return [*found] if position else None
        if position:
            every = [*node.args.args[1:], *node.args.kwonlyargs]
            found.update(dict.fromkeys(each.arg for each in every if each.arg not in passed))
        allowed = _allowed(node, node.args.kwarg.arg)
        found.update(dict.fromkeys(_popped(node, node.args.kwarg.arg)))
        if allowed is not None:
            return [*dict.fromkeys((*found, *allowed))]
        given = _passed_on(node, node.args.kwarg.arg)
        if given is None:
            return None
        passed |= given
    return None


def _allowed(node: ast.FunctionDef, kwargs: str) -> list[str] | None:
    """The names in `allowed_kwargs` where there are such, none where anything left raises; else None."""
    for part in ast.walk(node):
        match part:
            case ast.Assign(targets=[ast.Name(id="allowed_kwargs")], value=ast.Set(elts=elements)):
                return [
                    each.value for each in elements if isinstance(each, ast.Constant) and isinstance(each.value, str)
                ]
            case ast.If(test=ast.Name(id=name), body=[*_, ast.Raise()]) if name == kwargs:
                return []
            case _:
                pass
    return None


def _popped(node: ast.FunctionDef, kwargs: str) -> Iterator[str]:
    for part in ast.walk(node):
        match part:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="pop" | "get"), args=[ast.Constant(value=str(key)), *_]
            ) if name == kwargs:
                yield key
            case ast.Compare(left=ast.Constant(value=str(key)), ops=[ast.In()], comparators=[ast.Name(id=name)]) if (
                name == kwargs
            ):
                yield key
            case _:
                pass


def _passed_on(node: ast.FunctionDef, kwargs: str) -> set[str] | None:
    """The keywords written in the call of the next constructor that also gets `**kwargs`; None without such a call."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr == "__init__":
            spread = [each for each in part.keywords if each.arg is None]
            if any(isinstance(each.value, ast.Name) and each.value.id == kwargs for each in spread):
                return {each.arg for each in part.keywords if each.arg is not None}
    return None
