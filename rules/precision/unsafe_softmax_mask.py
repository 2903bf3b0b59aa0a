"""Attention scores are masked with a number that float16 cannot represent.

Under autocast, the products of queries and keys are float16, whose smallest number is -65504; so are scores after
`.half()`. Filling in -1e9 raises an error in the first batch; the smallest number of the scores' own dtype has the same
effect after the softmax.

## Bad

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 8**0.5
            past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            weights = scores.masked_fill(~past, -1e9).softmax(dim=-1)  # <- unsafe-softmax-mask
            return self.head(weights @ x).mean(dim=1)

    network = Attention()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in DataLoader(TensorDataset(torch.randn(32, 4, 8), torch.randint(3, (32,))), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(network(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    # raises RuntimeError: value cannot be converted to type c10::Half without overflow

## Good

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 8**0.5
            past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            weights = scores.masked_fill(~past, torch.finfo(scores.dtype).min).softmax(dim=-1)
            return self.head(weights @ x).mean(dim=1)

    network = Attention()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in DataLoader(TensorDataset(torch.randn(32, 4, 8), torch.randint(3, (32,))), batch_size=16, shuffle=True):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(network(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

## When it is fine

bfloat16 and float32 can represent such numbers, and minus infinity exists in all formats:

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 8**0.5
            past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            exact = scores.float()
            half = scores.masked_fill(~past, float("-inf")).softmax(dim=-1)
            weights = exact.masked_fill(~past, -1e9).softmax(dim=-1) + half
            return self.head(weights @ x).mean(dim=1)

    class Plain(Attention):
        def forward(self, x):
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 8**0.5
            return self.head(scores.masked_fill(x[:, :, :1] > 9, -1e9).softmax(dim=-1) @ x).mean(dim=1)

    network, plain = Attention(), Plain()
    with torch.autocast("cpu", dtype=torch.float16):
        print(network(torch.randn(2, 4, 8)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print(plain(torch.randn(2, 4, 8)))
    print(plain(torch.randn(2, 4, 8)))

An argument may have any dtype, and an optional mask may never be passed:

    class Masked(nn.Module):
        def forward(self, scores, mask=None):
            if mask is not None:
                products = scores @ scores.transpose(-2, -1)
                scores = products.masked_fill(mask, -1e9)
            else:
                scores = scores.masked_fill(torch.isnan(scores), -1e9)
            return scores.softmax(dim=-1)

    network = Masked()
    with torch.autocast("cpu", dtype=torch.float16):
        print(network(torch.randn(2, 4, 4)))

## Fix

Safe: after a softmax both give 0, and the dtype can represent the number.

## References

PyTorch documentation, "Automatic Mixed Precision package", operations that run in float16; measured on torch 2.13, CPU.
"""

from __future__ import annotations

import ast  # follows the arithmetic that computes attention scores through the names of a method
import re
from collections.abc import Collection, Iterator

from lintrain.pipeline import modules
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.python import Class, Constant, Instance, Library, text_of
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)
from lintrain.source.nodes import unparse, walk

SMALLEST = -65504
OF_CUDA = frozenset({"torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"})
AUTOCASTS = OF_CUDA | {"torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"}
HALVES = frozenset({"torch.float16", "torch.half"})
PRODUCTS = frozenset({"torch.matmul", "torch.bmm", "torch.einsum", "torch.baddbmm"})
KEEP_FORMAT = frozenset(
    {"view", "reshape", "transpose", "permute", "contiguous", "squeeze", "unsqueeze", "masked_fill"}
)
NUMBER = lazy_pattern(r"[\d.e*+/() -]+|(math|np)\.sqrt\([\w.() -]+\)|[\d.]+ / (math|np)\.sqrt\([\w.() -]+\)")
SETS_FORMAT = lazy_pattern(r"autocast|custom_fwd|set_default_dtype|\.dtype\b")

OVERFLOW = "value cannot be converted to type c10::Half without overflow"


@dataclass(frozen=True, slots=True)
class Claim:
    """The name of the masked tensor; None if it is another expression."""

    name: str | None


class UnsafeSoftmaxMask(Rule[Claim]):
    level = Level.ERROR
    keywords = "autocast|half|float16"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        found: dict[Location, Finding[Claim]] = {}
        casts = {call.location for call in pipeline.calls if call.path in AUTOCASTS and _is_float16(pipeline, call)}
        for forward in pipeline.acts(Act.FORWARD) if casts else ():
            cast = _cast_around(pipeline, forward, casts)
            for part in modules.modules_in(forward.subject) if cast is not None else ():
                if isinstance(part, Instance) and cast is not None:
                    for finding in self._in_class(pipeline, part.cls, cast):
                        found.setdefault(finding.location, finding)
        for forward in pipeline.acts(Act.FORWARD):
            cast = _halved(pipeline, forward)
            for part in modules.modules_in(forward.subject):
                for finding in self._of_half(pipeline, part.cls, cast) if isinstance(part, Instance) else ():
                    found.setdefault(finding.location, finding)
        yield from found.values()

    def _in_class(self, pipeline: Pipeline, cls: Class, cast: Location) -> Iterator[Finding[Claim]]:
        for call, filled, method in _fillings(cls):
            if _is_product(_owner(call), method, call.lineno) and not SETS_FORMAT.search(unparse(method)):
                related = [Related(cast, "autocast to float16 here", "autocast")]
                yield self._found(pipeline, cls, call, filled, ", the scores' dtype under autocast", related)

    def _of_half(self, pipeline: Pipeline, cls: Class, cast: Location | None) -> Iterator[Finding[Claim]]:
        """Scores that the script itself makes float16, or those of a model whose weights are float16."""
        for call, filled, method in _fillings(cls):
            is_product = cast is not None and not SETS_FORMAT.search(unparse(method))
            if _is_half(_owner(call), method, call.lineno):
                yield self._found(pipeline, cls, call, filled, ", the scores' dtype", [])
            elif is_product and cast is not None and _is_product(_owner(call), method, call.lineno):
                related = [Related(cast, "the weights become float16 here", "cast")]
                yield self._found(pipeline, cls, call, filled, ", the dtype of the model", related)

    def _found(
        self, pipeline: Pipeline, cls: Class, call: ast.Call, filled: ast.expr, dtype: str, related: list[Related]
    ) -> Finding[Claim]:
        source = pipeline.source_of(cls.origin) if cls.origin else pipeline.source
        name, code = unparse(_owner(call)), source.code(source.location(filled))
        return self.finding(
            source.location(filled),
            f"`{code}` does not fit into float16{dtype}",
            related=related,
            help="fill in `torch.finfo(scores.dtype).min`, with the masked tensor for `scores`",
            claim=Claim(name if name.isidentifier() else None),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if location := evidence.failed_place(OVERFLOW):
            yield self.finding(
                location,
                "a float16 tensor is filled with a number that does not fit into float16",
                help="fill in `torch.finfo(scores.dtype).min`, with the masked tensor for `scores`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if evidence.failed_with(OVERFLOW):
            return Verdict.confirmed(f"`{OVERFLOW}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.backwards} forward passes filled in a number that fits into the dtype"
        return (
            Verdict.refuted(text, passes=loop.backwards)
            if loop.backwards
            else Verdict.inconclusive(evidence.not_reached("backward"))
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        name = finding.claim.name if finding.claim else None
        if name is None:
            return None
        return fixes.Fix.of(
            "fill in the smallest number", fixes.Replace(finding.location, f"torch.finfo({name}.dtype).min"), safe=True
        )


def _cast_around(pipeline: Pipeline, forward: Event, casts: Collection[Location]) -> Location | None:
    """The autocast to float16 that certainly encloses a call of a model."""
    source = pipeline.source_of(forward.location)
    found: Location | None = None
    for node in source.nodes_of(ast.With):
        if source.location(node).holds(forward.location):
            items = [source.location(item.context_expr) for item in node.items]
            is_cast = any("autocast" in source.code(location) for location in items)
            found = next((location for location in items if location in casts), None if is_cast else found)
    return found


def _is_float16(pipeline: Pipeline, call: LibraryCall) -> bool:
    """Whether autocast is enabled and its format is float16, the default on CUDA."""
    dtype, enabled = call.arguments.get("dtype"), call.arguments.get("enabled")
    is_on = enabled is None or (isinstance(enabled.value, Constant) and enabled.value.value is True)
    if dtype is not None:
        return is_on and isinstance(dtype.value, Library) and dtype.value.path in HALVES
    on_gpu = call.path in OF_CUDA or re.search(
        r"""\(\s*(device_type=)?["']cuda["']\s*\)""", pipeline.code(call.location)
    )
    return is_on and not call.is_open and bool(on_gpu)


def _forward_of(cls: Class) -> ast.FunctionDef | None:
    found = cls.lookup("forward")
    body = found[0].node.body if found else []
    return next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == "forward"), None)


def _always_called(method: ast.FunctionDef) -> Iterator[ast.Call]:
    """The calls in the statements that a method always executes."""
    for statement in method.body:
        if isinstance(statement, ast.Assign | ast.Return | ast.Expr):
            yield from (node for node in walk(statement) if isinstance(node, ast.Call))


def _fillings(cls: Class) -> Iterator[tuple[ast.Call, ast.expr, ast.FunctionDef]]:
    """The calls that fill in a number too large for float16, in what a forward always executes."""
    method = _forward_of(cls)
    for call in _always_called(method) if method is not None else ():
        if (filled := _filled_with(call)) is not None and method is not None:
            yield call, filled, method


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _halved(pipeline: Pipeline, forward: Event) -> Location | None:
    """The last call that certainly changes the format of a model before it is called, if that is to float16."""
    casts = [each for each in pipeline.acts(Act.CAST) if each.subject is forward.subject]
    before = [each for each in casts if each.order < forward.order]
    is_certain = before and len(before) == len(casts) and not before[-1].conditions and not before[-1].loops
    return before[-1].location if is_certain and text_of(before[-1].details["dtype"]) == "float16" else None


def _is_half(node: ast.expr, method: ast.FunctionDef, line: int, depth: int = 6) -> bool:
    """Whether an expression is certainly made float16 by its own code: `scores.half()`."""
    match node:
        case ast.Call(func=ast.Attribute(attr="half"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(attr="to"), args=[argument]):
            return unparse(argument) in HALVES
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in KEEP_FORMAT:
            return _is_half(owner, method, line, depth - 1)
        case ast.Name(id=name) if depth > 0:
            made = _made(name, method, line)
            return bool(made) and all(_is_half(value, method, value.lineno, depth - 1) for value in made)
        case _:
            return False


def _filled_with(call: ast.Call) -> ast.expr | None:
    """The number that a call of `masked_fill` fills in, if float16 cannot represent it."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if name not in {"masked_fill", "masked_fill_"} or len(call.args) != 2:
        return None
    filled = call.args[1]
    match filled:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return filled if float("-inf") < -number < SMALLEST else None
        case _:
            return filled if unparse(filled) == "torch.finfo(torch.float32).min" else None


def _is_product(node: ast.expr, method: ast.FunctionDef, line: int, depth: int = 6) -> bool:
    """Whether an expression is certainly a matrix product, perhaps scaled, which autocast computes in float16."""
    match node:
        case ast.BinOp(op=ast.MatMult()):
            return True
        case ast.BinOp(left=left, op=ast.Div() | ast.Mult(), right=right):
            return NUMBER.fullmatch(unparse(right)) is not None and _is_product(left, method, line, depth - 1)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in KEEP_FORMAT:
            return _is_product(owner, method, line, depth - 1)
        case ast.Call(func=function):
            return unparse(function) in PRODUCTS
        case ast.Name(id=name) if depth > 0:
            made = _made(name, method, line)
            return bool(made) and all(_is_product(value, method, value.lineno, depth - 1) for value in made)
        case _:
            return False


def _made(name: str, method: ast.FunctionDef, line: int) -> list[ast.expr]:
    """The values that are assigned to a name before a line of a method; empty if it may have other values."""
    nodes = list(walk(method))
    stores = [
        node for node in nodes if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    assigns = [node for node in nodes if isinstance(node, ast.Assign) and any(each in stores for each in node.targets)]
    adds = [node for node in nodes if isinstance(node, ast.AugAssign) and node.target in stores]
    is_plain = len(stores) == len(assigns) + len(adds) and all(each.arg != name for each in method.args.args)
    return [node.value for node in assigns if node.lineno < line] if is_plain else []
