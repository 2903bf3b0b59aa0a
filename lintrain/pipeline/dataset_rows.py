"""Which rows a data set has of its source, and whether two data sets share rows."""

from __future__ import annotations

from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import TorchDataset
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, Constant, Either, Instance, Sequence, Unknown, Value
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

IN_ORDER = frozenset(
    {
        "load_dataset",
        "load_from_disk",
        "from_dict",
        "from_list",
        "from_csv",
        "from_json",
        "from_parquet",
        "from_text",
        "map",
        "rename_column",
        "rename_columns",
        "remove_columns",
        "select_columns",
        "add_column",
        "cast",
        "cast_column",
        "class_encode_column",
        "with_format",
        "with_transform",
        "flatten",
        "flatten_indices",
        "to_iterable_dataset",
    }
)
"""Operations that keep all rows in their order."""

CUTTING = frozenset(
    {
        *("select", "take", "skip", "filter", "shard", "split_dataset_by_node"),
        *("train_test_split", "random_split", "Subset"),
    }
)
"""Operations that keep some rows only."""

MAKES_ROWS = lazy_pattern(r"overflow|group|chunk|pack|remove_columns|concat")
"""Code of maps after which there may be more rows, or fewer."""

REORDERING = frozenset({"shuffle", "sort"})


@dataclass(frozen=True, slots=True)
class Sharing:
    """Rows that two data sets have in common: `how` is "same", "part" (of the first's rows in the second), "overlap".

    `source` is the data set that both come from, where it is one object.
    """

    how: str
    source: Dataset | None = None


def is_in_order(dataset: Dataset) -> bool:
    """Whether its rows are certainly in the order of their source."""
    kept = IN_ORDER | {"select", "take", "skip", "filter"}
    return all(step.operation in kept for step in dataset.steps) and dataset.split is not None


def rows_of(dataset: Dataset) -> int | None:
    """How many rows a data set has; a `map` is taken to keep their number, unless it is one that may make others."""
    for made in dataset.lineage:
        step = made.steps[-1]
        if made.rows is not None or step.operation not in IN_ORDER | REORDERING or MAKES_ROWS.search(step.text):
            return made.rows
    return None


def sharing(train: Value, evaluation: Value) -> Sharing | None:
    """What two data sets certainly share of their rows, or None if that is nothing or not known."""
    if isinstance(train, Dataset) and isinstance(evaluation, Dataset):
        return _of_datasets(train, evaluation)
    if train is evaluation and (isinstance(train, TorchDataset | Instance | Sequence) or _is_named(train)):
        return Sharing("same")
    if isinstance(train, TorchDataset) and isinstance(evaluation, TorchDataset):
        if _are_split_apart(train, evaluation):
            return Sharing("overlap")
        return Sharing("same") if _are_made_alike(train, evaluation) else None
    return None


def _are_split_apart(one: TorchDataset, other: TorchDataset) -> bool:
    """Whether two calls of `random_split` divided the same rows, each with random numbers of its own."""
    are_splits = all(each.name == "random_split" and each.is_complete and each.origin for each in (one, other))
    is_seeded = any("generator" in each.arguments or "2" in each.arguments for each in (one, other))
    if not are_splits or is_seeded or one.origin == other.origin or not one.parts or not other.parts:
        return False
    return _are_same(one.parts[0], other.parts[0])


def _is_named(value: Value) -> bool:
    """Whether a value that is not known is one thing: what a parameter holds, or an attribute."""
    return isinstance(value, Unknown) and bool(value.name)


def _are_made_alike(one: TorchDataset, other: TorchDataset) -> bool:
    """Whether two data sets have the same rows: those of torchvision the same class and the same `train` or `split`.

    Those of tensors have the same tensors.
    """
    if one.path == other.path and one.name == "TensorDataset" and one.is_complete and other.is_complete:
        pairs = [
            (each.value, other.arguments[name].value) for name, each in one.arguments.items() if name in other.arguments
        ]
        # Tensors that the script makes itself are a demonstration, where nothing is held out.
        is_same = all(a is b and a is not UNKNOWN and not isinstance(a, Tensor) for a, b in pairs)
        return bool(pairs) and len(pairs) == len(one.arguments) and is_same
    if one.path != other.path or not one.path.startswith("torchvision.") or not (one.is_complete and other.is_complete):
        return False
    given = [
        {name: each.value for name, each in made.arguments.items() if name in CHOOSES_ROWS} for made in (one, other)
    ]
    is_same = all(_are_same(value, given[1].get(name)) for name, value in given[0].items())
    return bool(given[0]) and given[0].keys() == given[1].keys() and is_same


CHOOSES_ROWS = frozenset(
    {"0", "1", "2", "root", "train", "split", "subset", "mode", "background", "image_set", "year", "annFile"}
    | {"classes", "fold", "what", "name"}
)
"""Arguments of data sets of torchvision that choose the files, positional ones by their numbers."""


def _are_same(one: Value, other: Value | None) -> bool:
    """Whether two values are certainly the same: one object, or equal literals."""
    # The code proves nothing: `train=is_train` is written once and called with True and with False.
    if isinstance(one, Constant) and isinstance(other, Constant):
        return one.value == other.value
    return one is other and one is not UNKNOWN and not isinstance(one, Either)


def _of_datasets(train: Dataset, evaluation: Dataset) -> Sharing | None:
    if train is evaluation:
        return Sharing("same", train)
    ancestors = train.lineage
    common = next((each for each in evaluation.lineage if any(each is other for other in ancestors)), None)
    if common is None and not _are_loaded_alike(ancestors[-1], evaluation.lineage[-1]):
        return None
    paths = [_steps_since(common, dataset) for dataset in (train, evaluation)]
    if not all(_is_understood(path) for path in paths):
        return None
    cuts = [[made for made in path if _is_cut(made)] for path in paths]
    match cuts:
        case [[], []]:
            return Sharing("same", common)
        case [[], _]:
            return Sharing("part", common)
        case [_, []]:
            return Sharing("overlap", common)
        case _:
            is_shared = _do_overlap(paths, cuts) or _are_drawn_apart(paths, cuts)
            return Sharing("overlap", common) if is_shared else None


def _are_loaded_alike(one: Dataset, other: Dataset) -> bool:
    """Whether two calls load the same split of the same data set from the hub."""
    plain = all(made.operations == ("load_dataset",) and not made.may_differ for made in (one, other))
    known = one.hub_name is not None and one.split is not None and "data_files" not in one.steps[0].text
    alike = (one.hub_name, one.config, one.split) == (other.hub_name, other.config, other.split)
    return plain and known and alike and "data_files" not in other.steps[0].text


def _steps_since(common: Dataset | None, dataset: Dataset) -> list[Dataset]:
    """The data sets from a common one, which is left out, to this one, in the order in which they were made."""
    path: list[Dataset] = []
    for made in dataset.lineage:
        if made is common:
            break
        path.append(made)
    return path[::-1]


def _is_understood(path: list[Dataset]) -> bool:
    known = IN_ORDER | CUTTING | REORDERING | {"repeat"}
    return all(made.steps[-1].operation in known for made in path)


def _is_cut(made: Dataset) -> bool:
    return made.cut is not None or made.steps[-1].operation in CUTTING


def _do_overlap(paths: list[list[Dataset]], cuts: list[list[Dataset]]) -> bool:
    """Whether two ranges of rows that are cut out of the same order overlap."""
    if any(len(each) != 1 for each in cuts):
        return False
    one, other = cuts[0][0], cuts[1][0]
    reorders = [_reordered_before(cut[0], path) for cut, path in zip(cuts, paths, strict=True)]
    if reorders[0] != reorders[1] or any("shuffle" in text and "seed" not in text for text in reorders[0]):
        return False
    return one.cut is not None and other.cut is not None and one.cut.overlaps(other.cut) is True


SEED = lazy_pattern(r"\bseed\s*=\s*(\d+)\b")
IS_DETERMINED = lazy_pattern(r"\b(?:seed|generator)\s*=|\bshuffle\s*=\s*(?!True)|\*\*|\([^=]*,[^=]*,")
"""Arguments of `train_test_split` after which two calls may divide the rows alike."""


def _are_drawn_apart(paths: list[list[Dataset]], cuts: list[list[Dataset]]) -> bool:
    """Whether two calls of `train_test_split` divided the same rows, each with random numbers of its own."""
    if any(len(each) != 1 for each in cuts):
        return False
    steps = [cut[0].steps[-1] for cut in cuts]
    if any(each.operation != "train_test_split" for each in steps) or steps[0].location == steps[1].location:
        return False
    if any(_reordered_before(cut[0], path) for cut, path in zip(cuts, paths, strict=True)):
        return False
    seeds = [found[1] if (found := SEED.search(each.text)) else None for each in steps]
    if None not in seeds:
        return seeds[0] != seeds[1]
    return not any(IS_DETERMINED.search(each.text) for each in steps)


def _reordered_before(cut: Dataset, path: list[Dataset]) -> list[str]:
    """The code of the steps before a cut that changed the order of rows."""
    steps = [made.steps[-1] for made in path[: path.index(cut)]]
    return [step.text for step in steps if step.operation in REORDERING]
