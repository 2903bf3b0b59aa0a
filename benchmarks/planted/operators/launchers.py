"""Mistakes of training in several processes and on a device: rows, files, results, moves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, receiver
from benchmarks.planted.operators.arguments import argument
from benchmarks.planted.planting import plants

FIRST_PROCESS = re.compile(
    r"(?:(?:[\w.]*\.)?(?:local_|global_)?rank(?:\(\))?|(?:torch\.)?(?:distributed|dist)\.get_rank\(\)) == 0"
    r"|(?:[\w.]*\.)?(?:is_main_process|is_local_main_process)(?:\(\))?"
)
SAVES = {"torch.save", "accelerator.save", "accelerator.save_model"}


@plants("undivided-rows", also="missing-set-epoch")
def sampler_not_given(form: Form) -> Iterator[list[Edit]]:
    """The only DistributedSampler of the training rows is made, and its loader does not get it."""
    made = [each for each in form.assigned("DistributedSampler") if "train" in ast.unparse(each)]
    if len(made) != 1 or not form.says("DistributedDataParallel", "DDP("):
        return
    name = ast.unparse(made[0].targets[0])
    for call in form.calls("DataLoader"):
        given = argument(call, "sampler")
        if isinstance(given, ast.expr) and ast.unparse(given) == name and form.function(call) is form.function(made[0]):
            others = [each for each in form.nodes(ast.Assign) if ast.unparse(each.targets[0]) == name]
            shuffled = argument(call, "shuffle")
            if len(others) == 1 and (shuffled is None or "sampler" not in ast.unparse(shuffled)):
                yield [form.drop_argument(call, "sampler"), form.here(call), form.here(made[0])]


@plants("all-ranks-write")
def saved_by_every_process(form: Form) -> Iterator[list[Edit]]:
    """`if rank == 0:` around what only saves in a training of several processes becomes `if True:`."""
    if not form.says("DistributedDataParallel", "DDP(", "Accelerator("):
        return
    for test in form.nodes(ast.If):
        if not FIRST_PROCESS.fullmatch(ast.unparse(test.test)) or test.orelse:
            continue
        saves = [call for call in form.calls("save", "save_pretrained", "save_model") if form.is_in(call, test)]
        writes = [call for call in saves if ast.unparse(call.func) in SAVES - {"accelerator.save"} or _writes(call)]
        sharded = form.says("FullyShardedDataParallel", "FSDP", "deepspeed", "save_on_each_node", "is_main_process=")
        inside = [each for each in form.ancestors(test) if isinstance(each, ast.If)]
        guarded = any("rank" in ast.unparse(each.test) or "main" in ast.unparse(each.test) for each in inside)
        returns = form.says("!= 0:\n", "not accelerator.is_main_process", "> 0:\n")
        if writes and not sharded and not guarded and not returns:
            yield [form.replace(test.test, "True"), form.here(form.statement(writes[0]))]


def _writes(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "save_pretrained"


@plants("missing-accumulate-context")
def accumulation_without_context(form: Form) -> Iterator[list[Edit]]:
    """`with accelerator.accumulate(model):` becomes `if True:`, though the Accelerator is to accumulate."""
    made = [call for call in form.calls("Accelerator") if argument(call, "gradient_accumulation_steps") is not None]
    around = [each for each in form.nodes(ast.With) if ".accumulate(" in ast.unparse(each.items[0].context_expr)]
    if len(made) == len(around) == 1 and len(around[0].items) == 1 and not form.says("sync_gradients", "no_sync"):
        start, _ = form.span(around[0])
        end = form.span(around[0].items[0].context_expr)[1]
        inside = form.calls_in(around[0], "backward")
        if inside and form.calls_in(around[0], "step") and form.loop(around[0]) is not None:
            yield [Edit(start, end, "if True"), form.here(form.statement(inside[0]))]


@plants("duplicated-eval-rows")
def metrics_of_one_process(form: Form) -> Iterator[list[Edit]]:
    """`accelerator.gather_for_metrics(x)` becomes `x`: the metric is of the rows of one process."""
    calls = [call for call in form.calls("gather_for_metrics") if "accelerator" in receiver(call)]
    if len(calls) == 1 and len(calls[0].args) == 1 and not calls[0].keywords and not form.says(".gather("):
        inner = calls[0].args[0]
        if form.loop(calls[0]) is not None:
            yield [form.replace(calls[0], HERE + form.code(inner))]


@plants("conditional-wrapper")
def saved_without_unwrapping(form: Form) -> Iterator[list[Edit]]:
    """`accelerator.unwrap_model(model).save_pretrained(…)` is called on the prepared model itself."""
    for call in form.calls("unwrap_model"):
        parent = form.parent(call)
        if "accelerator" not in receiver(call) or len(call.args) != 1 or call.keywords:
            continue
        name = ast.unparse(call.args[0])
        prepared = any(name in map(ast.unparse, each.args) for each in form.calls("prepare"))
        if not prepared:
            continue
        if isinstance(parent, ast.Attribute) and parent.attr == "save_pretrained":
            yield [form.replace(call, HERE + name)]
        elif isinstance(parent, ast.Assign) and ast.unparse(parent.targets[0]) != name:
            target = ast.unparse(parent.targets[0])
            saves = [each for each in form.calls("save_pretrained") if receiver(each) == target]
            if len(saves) == 1 and form.function(saves[0]) is form.function(call):
                yield [form.replace(call, name), form.here(form.statement(saves[0]))]


@plants("discarded-tensor", also="mixed-devices")
def moved_batch_dropped(form: Form) -> Iterator[list[Edit]]:
    """`images = images.to(device)` of a training loop, `images` unpacked from a batch, loses its `images =`."""
    for statement in form.nodes(ast.Assign):
        value, loop = statement.value, form.loop(statement)
        if not isinstance(loop, ast.For) or not isinstance(value, ast.Call) or not form.is_alone(statement):
            continue
        name = ast.unparse(statement.targets[0])
        unpacked = [each for each in ast.walk(loop.target) if isinstance(each, ast.Tuple)]
        names = {ast.unparse(each) for one in unpacked for each in one.elts}
        moves = ast.unparse(value.func) in {f"{name}.to", f"{name}.cuda"} and "device" in ast.unparse(
            value
        ) + "device" * (ast.unparse(value.func).endswith(".cuda"))
        outer = " ".join(re.findall(r"enumerate\(", ast.unparse(loop.iter)))
        is_counter = bool(outer) and isinstance(loop.target, ast.Tuple) and ast.unparse(loop.target.elts[0]) == name
        is_rows = bool(outer) and isinstance(loop.target, ast.Tuple) and ast.unparse(loop.target.elts[-1]) == name
        if moves and name in names and not is_counter and not is_rows and form.calls_in(loop, "backward"):
            written = [
                each
                for each in form.nodes(ast.Assign)
                if form.is_in(each, loop) and name in map(ast.unparse, each.targets)
            ]
            if len(written) == 1 and len(statement.targets) == 1:
                yield [form.replace(statement, HERE + form.code(value))]
