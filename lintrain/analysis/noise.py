"""The noise of models that learn to remove it, or that sample with it: its kind, and what it is compared with."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import denoising_steps, loss_terms, origins
from lintrain.analysis.built_layers import last_name
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

DRAWN = lazy_pattern(r"\brandn?(?:_like)?\(|\brandom(?:\.|_)normal\(")
"""Code that draws noise, of either kind."""

OF_ARRAYS = lazy_pattern(r"(?:^|\.)(?:random\.normal|random_normal|random\.randn)$")
"""Functions of TensorFlow, Keras, JAX and NumPy that draw normal numbers."""

NORMAL, UNIFORM = frozenset({"randn", "randn_like"}), frozenset({"rand", "rand_like"})
MIXERS = frozenset({"add_noise", "q_sample"})
FUNCTIONS = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
CLASSES = frozenset({"MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss"})
KEEPS = frozenset({"float", "to", "cuda", "detach", "half", "clone", "view", "reshape", "flatten", "squeeze"})

VELOCITY = lazy_pattern(r"prediction_type\s*=\s*[\"']v_prediction")
OTHER_TARGETS = lazy_pattern(r"get_velocity|\.prediction_type\b|config\.prediction_type")


@dataclass(frozen=True, slots=True)
class WrongNoise:
    """A mistake with noise: where, in words, what to write, and what it does to the training."""

    location: Location
    message: str
    remedy: str
    why: str


def wrong_noise(source: Source) -> Iterator[WrongNoise]:
    """The noise of a file that is of the wrong kind, and the losses that compare it with the wrong tensor."""
    if not source.contains(DRAWN):
        return
    yield from _uniform(source)
    yield from _scaled_by_variance(source)
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for node in nodes:
            if isinstance(node, ast.Call) and _is_regression(source, node) and len(node.args) > 1:
                yield from _of_loss(source, node, nodes)


def _uniform(source: Source) -> Iterator[WrongNoise]:
    """Uniform numbers where a model expects normal ones: scaled by a standard deviation, or mixed with an image."""
    for node in source.nodes:
        match node:
            case ast.Call(func=ast.Attribute(attr=name), args=[_, noise, *_]) if name in MIXERS:
                used = [noise]
            case ast.BinOp(op=ast.Mult(), left=left, right=right):
                sides = [(left, right), (right, left)]
                used = [one for one, other in sides if _is_deviation(source, other, node)]
            case _:
                continue
        for each in used:
            made = _made(source, each)
            if isinstance(made, ast.Call) and last_name(made.func) in UNIFORM and _is_of_torch(made):
                name = last_name(made.func)
                yield WrongNoise(
                    source.location(made),
                    f"`{name}` draws numbers from 0 to 1, where noise is expected to be normal",
                    f"use `{name.replace('rand', 'randn')}`",
                    "Uniform numbers have a mean of 0.5 and less than a third of the spread of normal noise, so the "
                    "model is trained on another distribution than its loss or its schedule assumes. No error is "
                    "raised.",
                )


def _scaled_by_variance(source: Source) -> Iterator[WrongNoise]:
    """Noise times `exp(logvar)`, where a divergence or the name says that this is the logarithm of the variance."""
    for left, right in _products(source) if source.contains(r"\bexp\(") else ():
        for scale, drawn in ((left, right), (right, left)):
            made = _made(source, scale)
            exponent = loss_terms.exponent(made)
            name = last_name(exponent) if exponent is not None else ""
            if name and _is_logarithm_of_variance(source, name) and _is_noise(source, drawn):
                yield WrongNoise(
                    source.location(made),
                    "the noise is scaled by the variance, and not by the standard deviation",
                    f"use `{_half(made)}`",
                    "The decoder gets samples of another distribution than the one that the divergence keeps close to "
                    "the normal one, so it is trained for the wrong samples. No error is raised.",
                )


def _products(source: Source) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Both sides of each `a * b` and `a.mul(b)` of a file."""
    yield from ((node.left, node.right) for node in source.nodes_of(ast.BinOp) if isinstance(node.op, ast.Mult))
    for call in source.nodes_of(ast.Call):
        match call:
            case ast.Call(func=ast.Attribute(value=left, attr="mul"), args=[right]):
                yield left, right
            case _:
                pass


def _half(call: ast.expr) -> str:
    """The code of the standard deviation, in the functions of the script."""
    match call:
        case ast.Call(func=function, args=[exponent]):
            return f"{unparse(function)}(0.5 * {unparse(exponent)})"
        case ast.Call(func=ast.Attribute(value=exponent)):
            return f"torch.exp(0.5 * {unparse(exponent)})"
        case _:
            return "exp(0.5 * logvar)"


def _is_logarithm_of_variance(source: Source, name: str) -> bool:
    """Whether the divergences of a file take a name for the logarithm of a variance; in a file of none, by the name."""
    known = source.cached(_variances)
    is_named = LOGARITHM.fullmatch(name) is not None
    # A function gets it by another name than the divergence: `logvar` and `latent_logvar`.
    return name in known or (is_named and all(LOGARITHM.fullmatch(each) for each in known))


LOGARITHM = lazy_pattern(r"(?i)(?:\w+_)?log_?var(?:iance)?(?:_\w+)?")


def _variances(source: Source) -> set[str]:
    """The names that the divergences of a file take for the logarithm of a variance."""
    found = set[str]()
    for node in source.nodes_of(ast.BinOp):
        if loss_terms.divergence(node) is not None:
            exponents = filter(
                None, map(loss_terms.exponent, (each for each in walk(node) if isinstance(each, ast.Call)))
            )
            found.update(map(last_name, exponents))
    return found - {""}


def _is_of_torch(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and unparse(call.func.value) in {"torch", "th"}


def _is_deviation(source: Source, node: ast.expr, product: ast.BinOp) -> bool:
    """Whether a factor is `exp(0.5 * logvar)`, or the share of noise `sqrt(1 - alpha)`."""
    made = _made(source, node)
    code = unparse(made)
    if isinstance(made, ast.Call) and last_name(made.func) == "exp":
        return "var" in code or "std" in code or "sigma" in code
    return isinstance(made, ast.Call) and last_name(made.func) == "sqrt" and "1 - " in code and "alpha" in code


def _made(source: Source, node: ast.expr, steps: int = 6) -> ast.expr:
    """What an expression is made by, through names, methods that keep its numbers, and functions of the file."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _made(source, inner, steps)
        case ast.Name() | ast.Attribute() if steps:
            made = list(loss_terms.definitions(source, node))
            if not made or made[0][2] is not None:
                return node
            value, position, _ = made[0]
            if position is None:
                return _made(source, value, steps - 1)
            part = loss_terms.returned(source, value, position) if isinstance(value, ast.Call) else None
            return _made(source, part, steps - 1) if part is not None else node
        case _:
            return node


def _is_noise(source: Source, node: ast.expr) -> bool:
    made = _made(source, node)
    return isinstance(made, ast.Call) and (
        last_name(made.func) in NORMAL or OF_ARRAYS.search(unparse(made.func)) is not None
    )


def _is_noisy(source: Source, node: ast.expr) -> bool:
    """Whether a tensor is an image that noise was added to."""
    made = _made(source, node)
    if isinstance(made, ast.Call) and last_name(made.func) in MIXERS:
        return True
    is_sum = isinstance(made, ast.BinOp) and isinstance(made.op, ast.Add)
    return is_sum and any(_is_noise(source, each) for each in walk(made) if isinstance(each, ast.Name | ast.Call))


def _is_clean_part(source: Source, given: ast.expr, target: ast.Name) -> bool:
    """Whether a tensor is the clean image in what a network gets: `q_sample(x, t, noise)`, or a sum with noise."""
    made = _made(source, given)
    match made:
        case ast.Call(args=[ast.Name(id=clean), *_]):
            return last_name(made.func) in MIXERS and clean == target.id and not _is_noise(source, target)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            sides = ((left, right), (right, left))
        case _:
            return False
    return any(
        target.id in {each.id for each in _names(one)}
        and not any(_is_noise(source, each) for each in _names(one))
        and any(_is_noise(source, each) for each in _names(other))
        for one, other in sides
    )


def _is_regression(source: Source, call: ast.Call) -> bool:
    if last_name(call.func) in FUNCTIONS:
        return True
    code = unparse(call.func)
    made = loss_terms.assigned(source, code)
    return any(isinstance(each, ast.Call) and last_name(each.func) in CLASSES for each in made)


def _of_loss(source: Source, loss: ast.Call, nodes: Sequence[ast.AST]) -> Iterator[WrongNoise]:
    for predicted, wanted in ((loss.args[0], loss.args[1]), (loss.args[1], loss.args[0])):
        given = _input_of(source, predicted)
        target = _bare(wanted)
        if given is None or not isinstance(target, ast.Name):
            continue
        if isinstance(given, ast.Name) and given.id == target.id and _is_noisy(source, given):
            yield WrongNoise(
                source.location(loss),
                f"the network gets `{target.id}` and is trained to return it, with its noise",
                "compare the prediction with the noise that was added, or with the clean input",
                "A network that copies its input has a loss of 0, so it does not learn to remove noise. The loss "
                "falls, and no error is raised.",
            )
        elif _is_clean_part(source, given, target) and any(denoising_steps.denoising(source)):
            yield WrongNoise(
                source.location(loss),
                f"the network returns `{target.id}`, but the sampler takes its output off as noise",
                "compare the prediction with the noise that was added",
                "Each step of the sampler subtracts an image where it has to subtract noise, so the samples are wrong "
                "even if the loss is low. No error is raised.",
            )
        elif _is_noise(source, target):
            yield from _of_target(source, loss, nodes, given, target)


def _of_target(
    source: Source, loss: ast.Call, nodes: Sequence[ast.AST], given: ast.expr, target: ast.Name
) -> Iterator[WrongNoise]:
    """A loss whose target is the noise, which the network cannot see, or is not meant to return."""
    names = {each.id for origin in origins.origins(source, given) for each in _names(origin.expression)}
    unread = next((name for name in _mixtures(nodes, target.id) if not _is_read(nodes, name)), None)
    if target.id not in names and unread is not None:
        yield WrongNoise(
            source.location(loss),
            f"the network does not get `{unread}`, so it cannot know the noise",
            f"pass `{unread}` to the network",
            "The noise is independent of what the network gets, so the best answer is 0 for every input. The loss soon "
            "stops falling, and no error is raised.",
        )
    elif source.contains(VELOCITY) and not source.contains(OTHER_TARGETS):
        yield WrongNoise(
            source.location(loss),
            '`prediction_type="v_prediction"` means the velocity, but the target is the noise',
            "use `scheduler.get_velocity(…)` as the target",
            "The scheduler takes the output of the network for a velocity, so a network that returns noise gives wrong "
            "samples, even if its loss is low. No error is raised.",
        )


def _names(node: ast.expr) -> Iterator[ast.Name]:
    return (each for each in walk(node) if isinstance(each, ast.Name))


def _mixtures(nodes: Sequence[ast.AST], noise: str) -> Iterator[str]:
    """The names that a scope gives images with this noise."""
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                if any(each.id == noise for each in _names(value)) and _is_mixture(value):
                    yield name
            case _:
                pass


def _is_mixture(value: ast.expr) -> bool:
    is_sum = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add)
    return is_sum or (isinstance(value, ast.Call) and last_name(value.func) in MIXERS)


def _is_read(nodes: Sequence[ast.AST], name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Load) for each in nodes)


def _bare(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)) if name in KEEPS:
            return _bare(inner)
        case _:
            return node


def _input_of(source: Source, predicted: ast.expr) -> ast.expr | None:
    """The first argument of the network whose output a prediction is."""
    match _made(source, predicted):
        case ast.Attribute(value=ast.Call(args=[given, *_])):
            return _bare(given)
        case ast.Subscript(value=ast.Call(args=[given, *_])):
            return _bare(given)
        case ast.Call(func=ast.Name() | ast.Attribute(value=ast.Name(id="self")), args=[given, *_]):
            return _bare(given)
        case _:
            return None
