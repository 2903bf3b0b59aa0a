"""Two listings of files that are paired by position, one or both in an order that the file system chooses.

images, masks = os.listdir("images"), os.listdir("masks")
for image, mask in zip(images, masks): …
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LISTS = frozenset({"listdir", "glob", "iglob", "rglob", "iterdir"})
KEEPS_ORDER = frozenset({"list", "tuple", "array", "asarray"})
SORTS = frozenset({"sorted", "natsorted", "humansorted", "sort", "natsort"})

SLICES = frozenset({"from_tensor_slices"})
"""Functions that take the rows of several lists as pairs."""

SECOND_HALVES = frozenset(
    {"mask", "masks", "label", "labels", "gt", "gts", "target", "targets", "annotation", "annotations", "annot"}
    | {"ann", "anns", "truth", "segmentation", "segmentations", "seg", "segs", "hr", "hrs", "depth", "depths", "clean"}
    | {"sharp", "caption", "captions", "xml", "xmls", "edges", "edge", "anno", "annos", "msk", "msks"}
)
"""Words for what belongs to one image, and to no other one."""

UNPAIRED = lazy_pattern(r"(?i)unpaired|cycle_?gan|style_transfer")


@dataclass(frozen=True, slots=True)
class Listing:
    """A name of files: where they are listed, the code that does it, and whether they are sorted."""

    name: str
    call: Location
    code: str
    is_sorted: bool = False


@dataclass(frozen=True, slots=True)
class Paired:
    """Two listings that are paired by position, and where."""

    location: Location
    first: Listing
    second: Listing


def paired_listings(source: Source) -> Iterator[Paired]:
    """The pairs of listings of two folders, not both sorted, of which one has what belongs to the other's files."""
    if not any(name in source.text for name in LISTS) or source.contains(UNPAIRED):
        return
    for scope in (source.tree, *source.nodes_of(ast.ClassDef), *source.nodes_of(ast.FunctionDef)):
        listings, in_order = source.once(_listings, scope)
        if listings:
            for node, one, other in _pairs(scope, {**in_order, **listings}):
                if one not in listings and other not in listings:
                    continue
                first, second = (
                    _listing(source, name, (listings.get(name) or in_order[name]), is_sorted=name in in_order)
                    for name in (one, other)
                )
                if first.code != second.code and _belong(first, second):
                    yield Paired(source.location(node), first, second)


def _listing(source: Source, name: str, call: ast.Call, *, is_sorted: bool) -> Listing:
    return Listing(name, source.location(call), unparse(call), is_sorted)


def _belong(first: Listing, second: Listing) -> bool:
    """Whether just one of two listings is named after what belongs to the files of the other."""
    named = [not SECOND_HALVES.isdisjoint(words_of(f"{each.name} {each.code}")) for each in (first, second)]
    of_names = [not SECOND_HALVES.isdisjoint(words_of(each.name)) for each in (first, second)]
    return named[0] != named[1] or of_names[0] != of_names[1]


def _nodes(scope: ast.AST) -> list[ast.AST]:
    """The nodes of a function or the module, and of a class all of its methods', which share its attributes."""
    return walk(scope) if isinstance(scope, ast.ClassDef) else list(own_nodes(scope))


def _listings(scope: ast.AST) -> tuple[Mapping[str, ast.Call], Mapping[str, ast.Call]]:
    """The names, or the attributes of a class, that are set once to a listing: those in no order, and sorted ones."""
    is_class = isinstance(scope, ast.ClassDef)
    found: dict[str, ast.Call] = {}
    in_order: dict[str, ast.Call] = {}
    lost, sorted_later = set[str](), set[str]()
    for node in _nodes(scope):
        match node:
            case ast.Assign(targets=[ast.Name() | ast.Attribute() as target], value=value):
                name = unparse(target)
                listed, is_sorted = _listed(value), False
                if listed is None:
                    listed, is_sorted = _sorted_listing(value), True
                if is_class != name.startswith("self."):
                    continue
                if listed is None or name in found or name in in_order:
                    lost.add(name)
                else:
                    (in_order if is_sorted else found)[name] = listed
            case ast.Call(func=ast.Attribute(value=owner, attr="sort"), args=[], keywords=[]):
                sorted_later.add(unparse(owner))
            case ast.Call(func=ast.Attribute(value=owner, attr="sort" | "shuffle" | "reverse")):
                lost.add(unparse(owner))
            case ast.Call(func=callee, args=[given, *_]) if last_name(callee) in SORTS | {"shuffle"}:
                lost.add(unparse(given))
            case _:
                pass
    in_order |= {name: call for name, call in found.items() if name in sorted_later}
    known = {name: call for name, call in found.items() if name not in lost | sorted_later}
    return known, {name: call for name, call in in_order.items() if name not in lost}


def _sorted_listing(value: ast.expr) -> ast.Call | None:
    """The call whose files an expression sorts by their names: `sorted(os.listdir(folder))`."""
    match value:
        case ast.Call(func=callee, args=[inner], keywords=[]) if last_name(callee) in SORTS:
            return _listed(inner)
        case _:
            return None


def _listed(value: ast.expr) -> ast.Call | None:
    """The call that lists the files of an expression in the order of the file system."""
    match value:
        case ast.Call(func=callee) if last_name(callee) in LISTS:
            return value
        case ast.Call(func=callee, args=[inner, *_]) if last_name(callee) in KEEPS_ORDER:
            return _listed(inner)
        case ast.Call(func=ast.Name(id="map"), args=[_, inner]):
            return _listed(inner)
        case ast.ListComp(generators=[ast.comprehension(iter=inner)]):
            return _listed(inner)
        case ast.GeneratorExp(generators=[ast.comprehension(iter=inner)]):
            return _listed(inner)
        case _:
            return None


def _pairs(scope: ast.AST, listings: Mapping[str, ast.Call]) -> Iterator[tuple[ast.expr, str, str]]:
    """Where two of the listings are paired: by `zip`, by a split, as rows of a data set, or by one index."""
    indexed: dict[str, tuple[ast.expr, str]] = {}
    for node in _nodes(scope):
        match node:
            case ast.Call(func=callee, args=args) if last_name(callee) in {"zip", "train_test_split"}:
                names = [name for each in args if (name := unparse(each)) in listings]
                if len(names) > 1:
                    yield node, names[0], names[1]
            case ast.Call(func=callee, args=[ast.Tuple(elts=args)]) if last_name(callee) in SLICES:
                names = [name for each in args if (name := unparse(each)) in listings]
                if len(names) > 1:
                    yield node, names[0], names[1]
            case ast.Subscript(value=owner, slice=ast.Name(id=index)) if (name := unparse(owner)) in listings:
                before = indexed.setdefault(index, (node, name))
                if before[1] != name:
                    yield node, before[1], name
            case _:
                pass
