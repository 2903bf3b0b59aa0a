"""What is known about a class of an installed package: its bases, its constructor, its methods, its `forward`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from astroid import nodes

from lintrain.installed import signatures
from lintrain.installed.definitions import Definitions, Foreign, Found
from lintrain.installed.facts import Facts
from lintrain.installed.signatures import Handed, Parameters

MOST_CLASSES = 50
"""Classes that one class derives from, itself included, that are looked at."""

ROOTS = frozenset({"abc.ABC", "builtins.object", "object", "typing.Generic"})
"""Bases that bring nothing along."""


@dataclass(frozen=True)
class Lineage:
    """The package's own classes that a class derives from, nearest first, and its bases of other packages, in order.

    `is_closed` if there are no others.
    """

    own: tuple[Found, ...]
    foreign: tuple[str, ...]
    is_closed: bool


@dataclass(frozen=True)
class Constructor:
    """What making an object accepts; `items` is None if that is not known.

    `handed` is what of it reaches the constructor of the first base of another package.
    """

    items: tuple[str, ...] | None
    positional: tuple[str, ...] | None = None
    handed: Handed | None = None


OPEN = Constructor(None)


@dataclass(eq=False)
class Classes:
    """Describes the classes of one package."""

    definitions: Definitions
    _constructors: dict[nodes.ClassDef, Constructor] = field(default_factory=dict[nodes.ClassDef, Constructor])

    def facts(self, found: Found, node: nodes.ClassDef) -> Facts:
        """Everything about a class."""
        lineage = self._lineage(found)
        classes = [each.node for each in lineage.own if isinstance(each.node, nodes.ClassDef)]
        constructor = self._constructor(found) if lineage.is_closed else OPEN
        handed = constructor.handed
        return Facts(
            "class",
            f"{found.module}.{node.name}",
            constructor.items,
            constructor.positional,
            bases=tuple(map(public_name, lineage.foreign)),
            is_closed=lineage.is_closed,
            methods=tuple(sorted({name for each in classes for name in each.locals if not name.startswith("__")})),
            forward=_forward_of(classes),
            handed=None if handed is None else handed.named,
            hands_rest=handed is not None and handed.rest,
            opaque=() if handed is None else tuple(sorted(handed.opaque)),
            sets=tuple(sorted({name for each in classes for name in _attributes_set(each)})),
            fields=_fields_of(classes),
            has_hooks=any(name in each.locals for each in classes for name in ("__init__", "__post_init__", "__new__")),
        )

    def _lineage(self, found: Found) -> Lineage:
        own, foreign, is_closed = dict[nodes.NodeNG, Found](), dict[str, None](), True
        pending = [found]
        while pending:
            each = pending.pop(0)
            node = each.node
            if node in own or not isinstance(node, nodes.ClassDef) or len(own) > MOST_CLASSES:
                is_closed = is_closed and node in own
                continue
            own[node] = each
            is_closed = is_closed and _has_plain_metaclass(node)
            for base in _bases_of(node):
                match self.definitions.named(each.module, base):
                    case Found() as above:
                        pending.append(above)
                    case Foreign(path=path):
                        foreign[path] = None
                    case _:
                        name = base.as_string().partition("[")[0]
                        is_closed = is_closed and name in ("object", "Exception")
        return Lineage(tuple(own.values()), tuple(path for path in foreign if path not in ROOTS), is_closed)

    def _constructor(self, found: Found) -> Constructor:
        """What a class accepts, whose bases are all known."""
        node = found.node
        if not isinstance(node, nodes.ClassDef):
            return OPEN
        if node not in self._constructors:
            self._constructors[node] = OPEN  # for a class that derives from itself
            self._constructors[node] = self._read_constructor(found, node)
        return self._constructors[node]

    def _read_constructor(self, found: Found, node: nodes.ClassDef) -> Constructor:
        if not signatures.other_decorators_are_harmless(node) or "__new__" in node.locals:
            return OPEN
        own = node.locals.get("__init__", [])
        if signatures.is_dataclass(node) and not own:
            return _of_fields(signatures.fields_of(node), self._above(found, node))
        if not own:
            return self._above(found, node)
        constructor = own[-1]
        if len(own) != 1 or not isinstance(constructor, nodes.FunctionDef) or not signatures.is_harmless(constructor):
            return OPEN
        above = self._above(found, node)
        handed = signatures.handed_on(constructor, above.positional)
        return _over(signatures.parameters_of(constructor, has_receiver=True), handed, above)

    def _above(self, found: Found, node: nodes.ClassDef) -> Constructor:
        """The constructor that a class inherits: of its first base that has one."""
        meanings = [self.definitions.named(found.module, base) for base in _bases_of(node)]
        for meaning in meanings:
            match meaning:
                case Found(node=nodes.ClassDef() as base):
                    inherited = self._constructor(meaning)
                    if inherited.items != () or len(meanings) == 1 or "__init__" in base.locals:
                        return inherited
                case Foreign(path=path) if path not in ROOTS:
                    return Constructor((f"<{public_name(path)}",), None, Handed(rest=True, by_position=True))
                case _:
                    pass
        return Constructor((), ())


def _has_plain_metaclass(node: nodes.ClassDef) -> bool:
    """Whether nothing but the constructor decides what a call of the class accepts."""
    # `metaclass()` of astroid would infer it from the bases, over all their modules.
    named: object = getattr(node, "_metaclass", None)
    return named is None or (isinstance(named, nodes.NodeNG) and named.as_string().endswith("ABCMeta"))


def _bases_of(node: nodes.ClassDef) -> list[nodes.NodeNG]:
    return [base for base in node.bases if isinstance(base, nodes.NodeNG)]


def public_name(path: str) -> str:
    """`transformers.trainer.Trainer` as `transformers.Trainer`: packages export classes, modules are lower case."""
    first, *rest = path.split(".")
    if first == "torch":
        return path
    index = next((at for at, part in enumerate(rest) if not part.islower()), len(rest) - 1)
    return ".".join([first, *rest[index:]])


def _of_fields(fields: dict[str, str | None], above: Constructor) -> Constructor:
    """The constructor of a dataclass: the parameters of its base, then its own fields."""
    items = tuple(name if default is None else f"{name}={default}" for name, default in fields.items())
    if above.items is None:
        return OPEN
    positional = None if above.positional is None else tuple(dict.fromkeys((*above.positional, *fields)))
    return Constructor(_merged(above.items, items), positional)


def _merged(base: tuple[str, ...], items: tuple[str, ...]) -> tuple[str, ...]:
    named = {item.partition("=")[0]: item for item in base}
    named.update((item.partition("=")[0], item) for item in items)
    return tuple(named.values())


def _over(own: Parameters, handed: Handed | None, above: Constructor) -> Constructor:
    """A constructor of its own above that of the base: what it does not take itself may go on in `**kwargs`."""
    items = own.items
    if own.rest and handed is not None and handed.rest and above.items is not None:
        items = _with_base(above.items, own.items, handed)
    positional = None if own.rest_by_position else own.positional
    if own.rest_by_position and handed is not None and handed.by_position and above.positional is not None:
        positional = (*own.positional, *above.positional)
    return Constructor(items, positional, _composed(own, handed, above))


def _with_base(above: tuple[str, ...], own: tuple[str, ...], handed: Handed) -> tuple[str, ...]:
    """The own parameters and those of the base that `**kwargs` may bring; a base of the tables stays first."""
    given = handed.opaque | handed.named.keys()
    rest = tuple(item for item in above if item.partition("=")[0] not in {*given, "*", "/"})
    named = tuple(item for item in rest if not item.startswith("**"))
    own_items = tuple(item for item in own if not item.startswith("*") and item != "/")
    return (*_merged(named, own_items), *(item for item in rest if item.startswith("**")))


def _composed(own: Parameters, handed: Handed | None, above: Constructor) -> Handed | None:
    """What of the own parameters reaches the base of the other package, through the constructors in between."""
    inner = above.handed
    if handed is None or inner is None:
        return None
    if inner.rest and not inner.named and not inner.opaque:
        return handed
    named, opaque = dict[str, str](), set(inner.opaque)
    for last, middle in inner.named.items():
        if middle in handed.named:
            named[last] = handed.named[middle]
        elif middle in handed.opaque or not handed.rest or middle in own.taken:
            opaque.add(last)
        else:
            named[last] = middle
    if inner.rest:
        named.update({last: mine for last, mine in handed.named.items() if last not in inner.named.values()})
        opaque |= {name for name in handed.opaque if name not in inner.named.values()}
    return Handed(named, inner.rest and handed.rest, inner.by_position and handed.by_position, frozenset(opaque))


def _forward_of(classes: list[nodes.ClassDef]) -> tuple[str, ...] | None:
    """The parameters of the nearest `forward`, as `inspect.signature` lists them; None if there is none to read."""
    found = next((each.locals["forward"] for each in classes if "forward" in each.locals), list[nodes.NodeNG]())
    if len(found) != 1 or not isinstance(found[0], nodes.FunctionDef):
        return None
    if not signatures.is_harmless(found[0], signatures.KEEPS_FORWARD):
        return None
    return tuple(signatures.parameters_of(found[0], has_receiver=True).names)


def _attributes_set(node: nodes.ClassDef) -> Iterator[str]:
    """The attributes that methods of a class set on its objects."""
    for each in node.nodes_of_class(nodes.AssignAttr):
        if isinstance(each.expr, nodes.Name) and each.expr.name == "self":
            yield each.attrname


def _fields_of(classes: list[nodes.ClassDef]) -> dict[str, str | None]:
    """The annotated fields of dataclasses with their defaults, the nearest class last."""
    found: dict[str, str | None] = {}
    for each in reversed(classes):
        found.update(signatures.fields_of(each) if signatures.is_dataclass(each) else {})
    return found
