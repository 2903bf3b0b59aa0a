"""The lengths of parts of a text count special tokens that the whole text does not have there.

A tokenizer adds special tokens to every text that it gets. If the turns of a conversation are tokenized one by one to
find where they are in the whole, each length is too large by these tokens. The masked part of the labels moves further
off with every turn, and the model learns the wrong tokens.

## Bad

    def mask_questions(turns, labels):
        start = 1
        for question, answer in turns:
            turn = len(tokenizer(question + answer).input_ids)  # <- fragment-special-tokens
            asked = len(tokenizer(question, add_special_tokens=False).input_ids)
            labels[start : start + asked] = -100
            start += turn
        return labels

    marked = mask_questions([("what is this?", "a cat")], torch.ones(32, dtype=torch.long))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    def mask_questions(turns, labels):
        start = 1
        for question, answer in turns:
            turn = len(tokenizer(question + answer, add_special_tokens=False).input_ids)
            asked = len(tokenizer(question, add_special_tokens=False).input_ids)
            labels[start : start + asked] = -100
            start += turn
        return labels

    marked = mask_questions([("what is this?", "a cat")], torch.ones(32, dtype=torch.long))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The special tokens are subtracted:

    def mask_questions(turns, labels):
        start = 1
        for question, answer in turns:
            turn = len(tokenizer(question + answer).input_ids) - 2
            asked = len(tokenizer(question, add_special_tokens=False).input_ids)
            labels[start : start + asked] = -100
            start += turn
        return labels

    marked = mask_questions([("what is this?", "a cat")], torch.ones(32, dtype=torch.long))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: the special tokens may stand for a separator that the part lacks.

## References

lm-sys/FastChat 3bef934; Transformers documentation, `PreTrainedTokenizerBase.__call__`, `add_special_tokens`.
"""

from __future__ import annotations

import ast  # the rule is about how lengths are computed and added up in a loop
from collections.abc import Iterator

from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, dataclass, fixes
from lintrain.source.nodes import unparse, walk


@dataclass(frozen=True, slots=True)
class Length:
    """The number of tokens of a part of a text: the name that gets it, the tokenizer's code and call."""

    name: str
    tokenizer: str
    call: ast.Call
    is_bare: bool
    """Whether special tokens are left out."""


class FragmentSpecialTokens(Rule):
    level = Level.WARNING
    keywords = "add_special_tokens & len("

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        source = pipeline.source
        seen = set[Location]()
        for loop in source.nodes_of(ast.For):
            lengths = list(_lengths_in(loop))
            bare = {length.tokenizer: length for length in lengths if length.is_bare}
            for length in lengths if bare else ():
                location = source.location(length.call)
                other = bare.get(length.tokenizer)
                if length.is_bare or other is None or location in seen or not _is_added_up(loop, length.name):
                    continue
                seen.add(location)
                yield self.finding(
                    location,
                    f"`{length.name}` counts special tokens, and `{other.name}` does not",
                    related=[Related(source.location(other.call), "without special tokens", "other")],
                    help="pass `add_special_tokens=False` here too",
                )

    def fix(self, finding: Finding) -> fixes.Fix:
        edit = fixes.AddArgument(finding.location, "add_special_tokens", "False")
        return fixes.Fix.of("count no special tokens", edit, safe=False)


def _lengths_in(loop: ast.For) -> Iterator[Length]:
    """The assignments `name = len(tokenizer(part).input_ids)` in a loop."""
    for node in walk(loop):
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="len"), args=[ast.expr() as ids])
            ) if (call := _tokenizing(ids)) is not None:
                given = {each.arg: each.value for each in call.keywords}
                special = given.get("add_special_tokens")
                is_bare = isinstance(special, ast.Constant) and special.value is False
                if special is None or is_bare:
                    yield Length(name, unparse(call.func), call, is_bare)
            case _:
                pass


def _tokenizing(ids: ast.expr) -> ast.Call | None:
    """The call of a tokenizer whose ids an expression reads."""
    match ids:
        case ast.Attribute(value=ast.Call() as call, attr="input_ids"):
            return call
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value="input_ids")):
            return call
        case ast.Call(func=ast.Attribute(attr="encode")):
            return ids
        case _:
            return None


def _is_added_up(loop: ast.For, name: str) -> bool:
    """Whether a loop moves a position by a length as it is: `start += turn`."""
    return any(
        isinstance(node, ast.AugAssign)
        and isinstance(node.op, ast.Add)
        and isinstance(node.value, ast.Name)
        and node.value.id == name
        for node in walk(loop)
    ) and not any(
        isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == name
        for node in walk(loop)
    )
