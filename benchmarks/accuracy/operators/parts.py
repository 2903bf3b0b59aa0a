"""Mistakes with what is trained: parameters, seeds, states that are carried on, axes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Code, Edit
from benchmarks.accuracy.finding import backwards, has_one_optimizer, method_calls, names_in, optimizer_steps
from benchmarks.accuracy.mutants import injects

SEEDS = ("torch.manual_seed", "set_seed")
OPTIMIZERS = ("SGD", "Adam", "AdamW")


def seeds(code: Code) -> list[ast.stmt]:
    """The statements of the script's own file that set a seed."""
    found = (code.statement(call) for call in code.calls(*SEEDS))
    return [one for one in found if isinstance(one, ast.Expr) and "Generator" not in code.code(one)]


@injects("late-seed", shows="outputs weights", also="determinism")
def set_the_seed_late(code: Code) -> Iterator[list[Edit]]:
    """Set the seed when the layers are made, unless their weights come from a file."""
    for seed in seeds(code):
        made = [
            one
            for one in code.block(seed)
            if isinstance(one, ast.Assign) and ast.unparse(one.value).startswith(("nn.Sequential(", "Classifier("))
        ]
        if (
            len(seeds(code)) == 1
            and made
            and made[-1].lineno > seed.lineno
            and not names_in(code, "from_pretrained", "load_state")
        ):
            yield [code.delete(seed), code.after(made[-1], HERE + code.lines_of(seed))]


@injects("missing-seed", shows="outputs weights", also="determinism")
def set_no_seed(code: Code) -> Iterator[list[Edit]]:
    """Leave out the only word of seeds in a script that trains layers of its own, and runs it by itself."""
    found = seeds(code)
    is_alone = len(re.findall("seed|generator|default_rng", code.text, re.IGNORECASE)) == len(found) == 1
    if is_alone and "nn.Sequential" in code.text and backwards(code) and "notebook_launcher" not in code.text:
        yield [code.replace(found[0], "pass"), code.here(code.statement(backwards(code)[0]))]


@injects("unregistered-modules", shows="gradients weights")
def keep_layers_in_a_list(code: Code) -> Iterator[list[Edit]]:
    """A plain list of layers."""
    for kept in code.calls("nn.ModuleList"):
        yield [code.here(code.statement(kept)), code.replace(kept, code.code(kept.args[0]))]


@injects("missing-parameters", shows="gradients weights")
def leave_out_a_module(code: Code) -> Iterator[list[Edit]]:
    """Give the optimizer the parameters of the first module only."""
    for made in code.calls(*OPTIMIZERS):
        if made.args and isinstance(made.args[0], ast.List) and len(made.args[0].elts) > 1:
            first = made.args[0].elts[0]
            assert isinstance(first, ast.Starred)
            others = [
                ast.unparse(each).removeprefix("*").removesuffix(".parameters()") for each in made.args[0].elts[1:]
            ]
            uses = sorted({code.statement(call) for call in code.calls(*others)}, key=lambda one: one.lineno)
            yield [code.replace(made.args[0], code.code(first.value)), *map(code.here, uses)]


@injects("stale-parameters", shows="gradients weights")
def make_the_optimizer_first(code: Code) -> Iterator[list[Edit]]:
    """Make the optimizer before the model gets its new head."""
    for made in map(code.statement, code.calls(*OPTIMIZERS)):
        for given in code.nodes(ast.Assign):
            target = given.targets[0]
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == "model":
                yield [code.delete(made), code.before(given, HERE + code.lines_of(made))]


@injects("reused-graph", shows="error")
def carry_the_graph_on(code: Code) -> Iterator[list[Edit]]:
    """Do not detach the state that the next batch starts from."""
    for detach in method_calls(code, "detach"):
        statement = code.statement(detach)
        if isinstance(statement, ast.Assign) and code.loops(statement) and "state" in code.code(statement):
            calls = [one for one in code.calls("model") if "state" in code.code(one)]
            yield [code.delete(statement), *(code.here(code.statement(call)) for call in calls)]


@injects("synchronized-every-step", shows="rates", not_run="without a device nothing waits: only time would show it")
def empty_the_cache_each_time(code: Code) -> Iterator[list[Edit]]:
    """Empty the cache of the device after every step."""
    if has_one_optimizer(code) and "import torch\n" in code.text:
        for step in map(code.statement, optimizer_steps(code)):
            yield [code.after(step, f"{HERE}torch.cuda.empty_cache()")]


@injects("autocast-without-scaler", shows="gradients", not_run="autocast for CUDA is off without a GPU")
def scale_no_gradients(code: Code) -> Iterator[list[Edit]]:
    """Train in float16 without a scaler."""
    for scale in method_calls(code, "scale", "scaler"):
        if 'autocast("cuda", dtype=torch.float16)' in code.text:
            backward, step, update, made = (
                code.statement(scale),
                *(next(map(code.statement, method_calls(code, name, "scaler"))) for name in ("step", "update")),
                next(map(code.statement, code.calls("GradScaler"))),
            )
            yield [
                code.replace(backward, f"{HERE}{code.code(scale.args[0])}.backward()"),
                code.replace(step, "optimizer.step()"),
                code.delete(update),
                code.delete(made),
            ]


@injects("integer-bce-targets", shows="error")
def leave_answers_whole(code: Code) -> Iterator[list[Edit]]:
    """Give binary cross-entropy whole numbers."""
    for loss in code.calls("binary_cross_entropy_with_logits"):
        target = loss.args[1]
        if code.code(target).endswith(".float()"):
            yield [code.here(code.statement(loss)), code.replace(target, code.code(target).removesuffix(".float()"))]


@injects("missing-shift", shows="losses")
def score_the_token_that_was_read(code: Code) -> Iterator[list[Edit]]:
    """Compare each position with its own token."""
    for loss in code.calls("cross_entropy"):
        text = code.code(loss)
        if "[:, :-1]" in text and "[:, 1:]" in text:
            yield [
                code.here(code.statement(loss)),
                code.replace(loss, text.replace("[:, :-1]", "").replace("[:, 1:]", "")),
            ]


@injects("view-for-permute", shows="outputs inputs losses")
def cut_where_axes_are_swapped(code: Code) -> Iterator[list[Edit]]:
    """A view in the stead of a transpose, where the sizes are at hand."""
    for swap in method_calls(code, "transpose"):
        if code.code(swap) == "series.transpose(0, 1)":
            yield [code.here(code.statement(swap)), code.replace(swap, "series.view(steps, rows)")]


@injects("class-axis-layout", shows="error")
def leave_classes_last(code: Code) -> Iterator[list[Edit]]:
    """Logits of every position into cross-entropy, not transposed."""
    for loss in code.calls("cross_entropy"):
        if code.code(loss.args[0]) == "logits.transpose(1, 2)":
            yield [code.here(code.statement(loss)), code.replace(loss.args[0], "logits")]
