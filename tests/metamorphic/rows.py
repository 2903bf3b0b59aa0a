"""Data of the hub replaced by rows in the script and a `Dataset` class, whose items are dicts or tuples."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tests.metamorphic.editing import after_imports, literal, merged, name_of_call, replaced
from tests.metamorphic.hub import HUB, Chain, Rows, chain_of, definition_of, has_split, loaded_from, rows_after, scopes
from tests.metamorphic.script import Line, Script

TIMES = 60
SPLITS = ("train", "validation", "validation_matched", "test")
TOKENS = ("input_ids", "attention_mask")


def _in_getitem(made: Sequence[str], item: str) -> list[str]:
    """The body of a class that makes an item in `__getitem__`."""
    return [
        "    self.rows = rows",
        "",
        "def __len__(self):",
        "    return len(self.rows)",
        "",
        "def __getitem__(self, index):",
        "    row = self.rows[index]",
        *(f"    {line}" for line in made),
        f"    return {item}",
    ]


def _in_init(made: Sequence[str], item: str) -> list[str]:
    """The body of a class that makes all items in `__init__`."""
    return [
        "    self.items = []",
        "    for row in rows:",
        *(f"        {line}" for line in made),
        f"        self.items.append({item})",
        "",
        "def __len__(self):",
        "    return len(self.items)",
        "",
        "def __getitem__(self, index):",
        "    return self.items[index]",
    ]


@dataclass(frozen=True, slots=True)
class Form:
    """How a `Dataset` class is written."""

    item: Callable[[Rows], str | None]
    """The code of an item; None if rows cannot be written so."""
    body: Callable[[Sequence[str], str], list[str]]


@dataclass
class Rewriting:
    """The lines of one script that are replaced."""

    script: Script
    form: Form
    lines: dict[tuple[int, int], Sequence[Line]] = field(default_factory=dict[tuple[int, int], Sequence[Line]])
    classes: int = 0
    names: set[str] = field(default_factory=set[str])
    """The variables that hold the data."""


def own_dict_rows(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with its own rows, each a dict that `__getitem__` makes."""
    return _rewritten(script, Form(_as_dict, _in_getitem))


def own_dict_rows_made_at_once(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with its own rows, each a dict that `__init__` makes."""
    return _rewritten(script, Form(_as_dict, _in_init))


def own_tuple_rows(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with its own rows, each a tuple; a function of the script makes dicts of them for its collator."""
    names = set[tuple[str, ...]]()

    def as_tuple(rows: Rows) -> str | None:
        fields = _fields(script, rows)
        names.add(tuple(fields))
        return f"({', '.join(fields.values())})" if fields else None

    made = _rewritten(script, Form(as_tuple, _in_init)) if _collators(script.tree) else None
    if made is None or len(names) != 1:
        return None
    (fields,) = names
    item = "{" + ", ".join(f'"{name}": {name}' for name in fields) + "}"
    dicts = f"[{item} for {', '.join(fields)} in items]"
    return replaced(made, {each: f"lambda items: ({ast.unparse(each)})({dicts})" for each in _collators(made.tree)})


def _collators(tree: ast.Module) -> list[ast.expr]:
    """The collators of all loaders and trainers; none if one of them has none."""
    found: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (
            name_of_call(node) == "DataLoader" or name_of_call(node).endswith("Trainer")
        ):
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            collator = named.get("collate_fn", named.get("data_collator"))
            is_lightning = "train_dataset" not in named and name_of_call(node) == "Trainer"
            if collator is None and not is_lightning:
                return []
            found += [collator] if collator else []
    return found


def _as_dict(rows: Rows) -> str:
    rest = [f'"{name}": row["{column}"]' for name, column in rows.columns.items()]
    return "{" + ", ".join([*rest, *(f"**{name}" for name, _ in rows.made)]) + "}"


def _fields(script: Script, rows: Rows) -> dict[str, str]:
    """The code of a tuple's fields, by column; none if a text would be lost that something reads."""
    is_for_trainer = "train_dataset=" in script.text  # a Trainer drops texts
    if len(rows.made) != 1 or (rows.texts and not is_for_trainer) or not _gives_tokens(script, rows.made[0][1]):
        return {}
    ((made, code),) = rows.made
    tokens = [*TOKENS, *(["special_tokens_mask"] if "return_special_tokens_mask" in code else [])]
    numbers = {name: f'row["{column}"]' for name, column in rows.columns.items() if name not in rows.texts}
    return {name: f'{made}["{name}"]' for name in tokens} | numbers


def _gives_tokens(script: Script, code: str) -> bool:
    """Whether code returns the result of the tokenizer and nothing else."""
    definition = definition_of(script, code.removesuffix("(row)"))
    text = ast.unparse(definition.body[-1]).removeprefix("return ") if definition else code
    return text.startswith("tokenizer(")


def _rewritten(script: Script, form: Form) -> Script | None:
    for statements in scopes(script):
        chains = [chain for chain in map(chain_of, statements) if chain]
        source = next((one for one in chains if loaded_from(one.base) and one.target), None)
        if source:
            rewriting = Rewriting(script, form)
            if not _replace_all(rewriting, source, chains) or _asks_for_more(rewriting):
                return None
            return after_imports(script.with_lines(rewriting.lines), ["import torch.utils.data", ""])
    return None


def _asks_for_more(rewriting: Rewriting) -> bool:
    """Whether the rest of the script uses what only data of the hub has: names of classes, columns, methods."""
    gone = {number for first, last in rewriting.lines for number in range(first, last + 1)}
    rest = [line.text for number, line in enumerate(rewriting.script.lines, start=1) if number not in gone]
    names = "|".join(sorted(rewriting.names))
    asking = re.compile(rf"\.(features|column_names|num_rows|with_format)\b|\b({names})(\[[^\]]*\])?\.\w")
    return any(asking.search(text) for text in rest)


def _replace_all(rewriting: Rewriting, source: Chain, chains: Sequence[Chain]) -> bool:
    """Replace the loading and every chain that starts from it; whether all of them were understood."""
    call = loaded_from(source.base)
    assert call
    name = tuple(str(literal(argument)) for argument in call.args)
    if name not in HUB or any(name_of_call(each) != "shuffle" for each in source.calls):
        return False
    rewriting.lines[_span(rewriting, source)] = [_listed(rewriting, source, HUB[name], has_split(call))]
    rewriting.names.add(source.target)
    known = {source.target: Rows({column: column for column in HUB[name][0]})}
    later = [one for one in chains[chains.index(source) + 1 :] if isinstance(one.base, ast.Name) and one.calls]
    for number, chain in enumerate(later):
        following = later[number + 1] if number + 1 < len(later) else None
        if not _replace(rewriting, known, chain, following, has_split(call)):
            return False
    return True


def _replace(
    rewriting: Rewriting, known: dict[str, Rows], chain: Chain, following: Chain | None, is_split: bool
) -> bool:
    """Replace one chain by a class; if the following chain continues with the same variable, the class is there."""
    before = known.get(ast.unparse(chain.base))
    rows = rows_after(rewriting.script, before, chain) if before else None
    if before is None or rows is None:
        return before is None
    known[chain.target] = rows
    rewriting.names |= {chain.target} - {""}
    if following and ast.unparse(following.base) == chain.target and following.target in (chain.target, ""):
        rewriting.lines[_span(rewriting, chain)] = []
        return True
    known[chain.target] = replace(rows, chains=())
    return _write_class(rewriting, rows, is_split)


def _span(rewriting: Rewriting, chain: Chain) -> tuple[int, int]:
    """The lines of a chain, and of a `with` that holds nothing else."""
    around = (node for node in ast.walk(rewriting.script.tree) if isinstance(node, ast.With))
    whole = next((node for node in around if node.body == [chain.statement]), chain.statement)
    return whole.lineno, whole.end_lineno or 0


def _margin(rewriting: Rewriting, chain: Chain) -> str:
    text = rewriting.script.lines[_span(rewriting, chain)[0] - 1].text
    return " " * (len(text) - len(text.lstrip()))


def _listed(rewriting: Rewriting, source: Chain, rows: Sequence[dict[str, str | int]], is_split: bool) -> Line:
    """The line that writes the rows down, for each split or for the only one."""
    text = f"{list(rows)!r} * {TIMES}"
    splits = "{" + ", ".join(f'"{split}": {text}' for split in _splits(rewriting.script)) + "}"
    cut = rewriting.script.cut(*_span(rewriting, source))
    return merged(f"{_margin(rewriting, source)}{source.target} = {text if is_split else splits}", cut)


def _splits(script: Script) -> list[str]:
    """The splits that the script reads."""
    keys = {
        node.slice.value
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
    }
    return [split for split in SPLITS if split in keys] or ["train", "validation"]


def _write_class(rewriting: Rewriting, rows: Rows, is_split: bool) -> bool:
    """Replace the last of a row's chains by a class and its objects; whether the form can express the rows."""
    item, chain = rewriting.form.item(rows), rows.chains[-1]
    if item is None:
        return False
    rewriting.classes += 1
    name, margin = f"OwnRows{rewriting.classes}", _margin(rewriting, chain)
    cut = [line for each in rows.chains for line in rewriting.script.cut(*_span(rewriting, each))]
    base = ast.unparse(rows.chains[0].base)
    splits = (f'"{split}": {name}({base}["{split}"])' for split in _splits(rewriting.script))
    value = f"{name}({base})" if is_split else "{" + ", ".join(splits) + "}"
    body = rewriting.form.body([f"{variable} = {code}" for variable, code in rows.made], item)
    rewriting.lines[_span(rewriting, chain)] = [
        Line(f"{margin}class {name}(torch.utils.data.Dataset):"),
        Line(f"{margin}    def __init__(self, rows):"),
        *(merged(f"{margin}    {line}" if line else "", cut) for line in body),
        Line(""),
        merged(f"{margin}{chain.target} = {value}" if chain.target else f"{margin}return {value}", cut),
    ]
    return True
