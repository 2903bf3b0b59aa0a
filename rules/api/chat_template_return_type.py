"""The result of `apply_chat_template` is used as token ids, but it is a dictionary.

Since transformers 5.0 the method returns a dictionary with `input_ids` and `attention_mask` by default. Older code
treats the result as a list or a tensor: `shape` and `generate` raise an error, `len` counts the keys, and an
`input_ids` column that holds the whole dictionary fails only in the collator.

## Bad

    # lintrain probe train.py
    lm_tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    messages = [{"role": "user", "content": "good morning"}]
    prompt = lm_tokenizer.apply_chat_template(messages, return_tensors="pt")  # <- chat-template-return-type
    print(lm.generate(prompt, max_new_tokens=2))
    # raises AttributeError

In a data set:

    # lintrain probe train.py
    lm_tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"

    def tokenize_chat(row):
        messages = [{"role": "user", "content": row["premise"]}]
        return {"input_ids": lm_tokenizer.apply_chat_template(messages)}  # <- chat-template-return-type

    rows = raw["train"].map(tokenize_chat, remove_columns=raw["train"].column_names)
    print(rows[0])

## Good

    # lintrain probe train.py
    lm_tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    messages = [{"role": "user", "content": "good morning"}]
    prompt = lm_tokenizer.apply_chat_template(messages, return_tensors="pt", return_dict=False)
    print(lm.generate(prompt, max_new_tokens=2))

In a data set:

    # lintrain probe train.py
    lm_tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"

    def tokenize_chat(row):
        messages = [{"role": "user", "content": row["premise"]}]
        return {"input_ids": lm_tokenizer.apply_chat_template(messages, return_dict=False)}

    rows = raw["train"].map(tokenize_chat, remove_columns=raw["train"].column_names)
    print(rows[0])

## When it is fine

The script reads `input_ids` from the result, or requests text:

    lm_tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    messages = [{"role": "user", "content": "good morning"}]
    prompt = lm_tokenizer.apply_chat_template(messages, return_tensors="pt").to(lm.device)
    print(lm.generate(**prompt, max_new_tokens=2), prompt["input_ids"].shape)
    written = lm_tokenizer.apply_chat_template(messages, tokenize=False)
    print(len(written), written + "!")

Code that supports several versions checks the type:

    lm_tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    prompt = lm_tokenizer.apply_chat_template([{"role": "user", "content": "good morning"}], return_tensors="pt")
    if not isinstance(prompt, torch.Tensor):
        prompt = prompt["input_ids"]
    print(lm.generate(prompt, max_new_tokens=2))

## Fix

Safe where a version is stated: a dictionary that is used as a list or a tensor of ids raises an error. Asks first where
the newest version is assumed.

## References

Transformers 5.0, migration guide; measured on transformers 5.23.
"""

from __future__ import annotations

import ast  # the rule is about the expression that contains the result
import re
from collections.abc import Iterator

from lintrain.analysis import library_arguments
from lintrain.knowledge import api
from lintrain.pipeline.values.data import Encoding, Tokenizer
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Source, Verdict, fixes
from lintrain.source import parsing
from lintrain.source.nodes import unparse, walk

METHOD = "transformers.PreTrainedTokenizerBase.apply_chat_template"
SETS_RETURN_TYPE = frozenset({"return_dict", "return_assistant_tokens_mask", None})
OF_TENSORS = frozenset(
    {"shape", "size", "tolist", "dim", "numel", "squeeze", "unsqueeze", "dtype", "ndim", "append", "extend"}
)
OF_IDS = frozenset({"inputs", "input_ids", "labels"})
TAKES_IDS = r"torch\.((as_)?tensor|LongTensor)|len"
CHECKS_TYPE = r"isinstance|hasattr|type|getattr"
SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module


class ChatTemplateReturnType(Rule):
    level = Level.ERROR
    keywords = "apply_chat_template"
    needs_training = False
    matters_in_tests = True

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        chats = [each for each in pipeline.encodings if _returns_default_type(pipeline, each)]
        if not chats or api.default_value(METHOD, "return_dict", pipeline.targets) is not True:
            return
        found: dict[Location, Finding] = {}
        for chat in chats:
            use = _wrong_use(pipeline, chat.origin) if chat.origin else None
            if use is not None and chat.origin is not None:
                found.setdefault(chat.origin, self._report(pipeline, chat.origin, *use))
        yield from found.values()

    def _report(self, pipeline: Pipeline, call: Location, use: Location, usage: str) -> Finding:
        target = pipeline.targets.get("transformers")
        assumed = f" ({target.shown})" if target and target.is_assumed else ""
        return self.finding(
            call,
            f"`apply_chat_template` returns a dict, but is used {usage}{assumed}",
            related=[Related(use, f"used {usage}", "use")] if not call.holds(use) else [],
            help='pass `return_dict=False`, or read `["input_ids"]` from the result',
            level=library_arguments.level_for(target),
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        chats = evidence.objects.chats_at(finding.location)
        if not chats:
            return Verdict.inconclusive("`apply_chat_template` did not run at this line")
        first = chats[0]
        keys = ", ".join(f"`{name}`" for name in first.columns)
        if all(each.columns for each in chats):
            return Verdict.confirmed(
                f"the call returned a `{first.type}` with {len(first.columns)} keys: {keys}", type=first.type
            )
        if not any(each.columns for each in chats):
            return Verdict.refuted(f"the call returned a `{first.type}`, which has no keys", type=first.type)
        return Verdict.inconclusive(f"only some of {len(chats)} kinds of calls returned a dictionary", type=first.type)

    def fix(self, finding: Finding) -> fixes.Fix:
        edit = fixes.AddArgument(finding.location, "return_dict", "False")
        return fixes.Fix.of("pass `return_dict=False`", edit, safe=finding.level is Level.ERROR)


def _returns_default_type(pipeline: Pipeline, encoding: Encoding) -> bool:
    """Whether the return type of a call of `apply_chat_template` is the default of the installed version."""
    if encoding.origin is None or not re.search(r"\.apply_chat_template\(", encoding.text):
        return False
    is_plain = isinstance(encoding.tokenizer, Tokenizer) and not encoding.tokenizer.is_processor
    call = parsing.expression_of(pipeline.code(encoding.origin).strip())
    keywords = call.keywords if isinstance(call, ast.Call) else []
    arguments: dict[str | None, ast.expr] = {keyword.arg: keyword.value for keyword in keywords}
    tokenize = arguments.get("tokenize")
    is_tokenized = tokenize is None or (isinstance(tokenize, ast.Constant) and tokenize.value is True)
    return is_plain and is_tokenized and not SETS_RETURN_TYPE & set(arguments)


def _wrong_use(pipeline: Pipeline, origin: Location) -> tuple[Location, str] | None:
    """Where the result of a call is certainly used as token ids, and how (`as `labels``)."""
    source = pipeline.source_of(origin)
    parents = source.cached(_parents)
    call = source.cached(_calls).get(origin)
    if call is None:
        return None
    for use in _uses(source, _moved(call, parents), parents):
        usage = _used_as(use, parents)
        if usage is not None:
            return source.location(use), usage
    return None


def _calls(source: Source) -> dict[Location, ast.Call]:
    return {source.location(node): node for node in reversed(source.nodes_of(ast.Call))}


def _parents(source: Source) -> dict[ast.AST, ast.AST]:
    return {child: node for node in walk(source.tree) for child in ast.iter_child_nodes(node)}


def _moved(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> ast.expr:
    """The result after `.to(device)`, a method that the dictionary has as well as a tensor."""
    attribute = parents.get(node)
    moved = parents.get(attribute) if attribute is not None else None
    is_move = isinstance(attribute, ast.Attribute) and attribute.attr == "to" and isinstance(moved, ast.Call)
    return moved if is_move and isinstance(moved, ast.Call) else node


def _uses(source: Source, node: ast.expr, parents: dict[ast.AST, ast.AST]) -> list[ast.expr]:
    """The expressions that certainly are the result: the call, or the uses of a name assigned only once."""
    assign = parents.get(node)
    if not isinstance(assign, ast.Assign) or len(assign.targets) != 1 or not isinstance(assign.targets[0], ast.Name):
        return [node]
    named = source.cached(_names).get((_scope(assign, parents), assign.targets[0].id), [])
    stores = [each for each in named if not isinstance(each.ctx, ast.Load)]
    callers = [up for each in named if isinstance(up := parents.get(each), ast.Call)]
    if len(stores) != 1 or any(re.match(CHECKS_TYPE, unparse(caller.func)) for caller in callers):
        return []
    return [each for each in named if isinstance(each.ctx, ast.Load)]


def _names(source: Source) -> dict[tuple[ast.AST, str], list[ast.Name]]:
    """The uses of each name by scope; an outer scope also has the uses of its inner scopes."""
    parents, found = source.cached(_parents), dict[tuple[ast.AST, str], list[ast.Name]]()
    for name in source.nodes_of(ast.Name):
        scope = _scope(name, parents)
        found.setdefault((scope, name.id), []).append(name)
        while scope in parents:
            scope = _scope(parents[scope], parents)
            found.setdefault((scope, name.id), []).append(name)
    return found


def _scope(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.AST:
    while not isinstance(node, SCOPES):
        node = parents[node]
    return node


def _used_as(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> str | None:
    """How an expression is used that works for ids only; None if it may be a dictionary."""
    match parents.get(node):
        case ast.Attribute(attr=name) if name in OF_TENSORS:
            return f"as ids: `.{name}`"
        case ast.Call(func=ast.Attribute(attr="generate"), args=[first, *_]) if first is node:
            return "as input of `generate`"
        case ast.Call(func=function, args=[first, *_]) if first is node:
            called = unparse(function)
            return f"as ids: `{called}`" if re.fullmatch(TAKES_IDS, called) else None
        case ast.keyword(arg=str(name)) if name in OF_IDS:
            return f"as `{name}`"
        case ast.BinOp(op=ast.Add(), left=left, right=right) if isinstance(left, ast.List) or isinstance(
            right, ast.List
        ):
            return "as a list of ids"
        case ast.Dict(keys=keys, values=values):
            key = next(key for key, value in zip(keys, values, strict=True) if value is node)
            return f"as `{key.value}`" if isinstance(key, ast.Constant) and key.value in OF_IDS else None
        case _:
            return None
