"""Mistakes between what a network returns and what its loss wants."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Code, Edit
from benchmarks.accuracy.finding import function_around, names_in, trainers
from benchmarks.accuracy.mutants import injects


def last_layers(code: Code) -> Iterator[ast.expr]:
    """The last layer of every Sequential that ends in a linear layer."""
    for call in code.calls("Sequential"):
        if call.args and "Linear(" in code.code(call.args[-1]) and isinstance(call.args[-1], ast.Call):
            yield call.args[-1]


def returned(code: Code) -> Iterator[ast.Return]:
    """What `forward` returns, where it returns one thing."""
    for statement in code.nodes(ast.Return):
        function = function_around(code, statement)
        if function and function.name == "forward" and isinstance(statement.value, ast.Call):
            yield statement


def ends_with(code: Code, layer: str, function: str) -> Iterator[list[Edit]]:
    """Give a network one more layer at its end: as a module of a Sequential, or around what `forward` returns."""
    has_forward = False
    for statement in returned(code):
        value = statement.value
        if value is not None and isinstance(value, ast.Call) and ast.unparse(value.func) in HEADS:
            has_forward = True
            start, end = code.span(value)
            yield [
                code.here(statement),
                Edit(start, start, f"{function}("),
                Edit(end, end, f"{', dim=1' if 'soft' in function else ''})"),
            ]
    if not has_forward and len(list(code.calls("Sequential"))) == 1 and "forward" not in code.text:
        for layer_before in last_layers(code):
            end = code.span(layer_before)[1]
            yield [Edit(end, end, f", {HERE}{layer}")]


HEADS = ("self.head", "self.classifier", "self.fc2", "self.fc", "self.output", "self.layers", "self.stack")


@injects("softmax-before-cross-entropy", shows="outputs losses")
def end_in_softmax(code: Code) -> Iterator[list[Edit]]:
    """Softmax as the last layer of a network that is given to cross-entropy."""
    if (
        names_in(code, "CrossEntropyLoss", "cross_entropy")
        and "nn" in code.text
        and "functional as nn" not in code.text
    ):
        yield from ends_with(code, "nn.Softmax(dim=1)", "nn.functional.softmax")


@injects("sigmoid-before-bce-with-logits", shows="outputs losses")
def end_in_sigmoid(code: Code) -> Iterator[list[Edit]]:
    """Sigmoid as the last layer of a network that is given to BCEWithLogits."""
    if names_in(code, "BCEWithLogitsLoss"):
        yield from ends_with(code, "nn.Sigmoid()", "torch.sigmoid")


@injects("raw-logits-in-nll-loss", shows="losses")
def take_nll_loss(code: Code) -> Iterator[list[Edit]]:
    """NLLLoss on logits."""
    for criterion in code.calls("CrossEntropyLoss"):
        if not criterion.keywords and not criterion.args and "criterion" in code.text:
            losses = [call for call in code.calls("criterion") if function_around(code, call) is None or True]
            marks = [code.here(code.statement(call)) for call in losses]
            if marks:
                yield [code.replace(criterion.func, code.code(criterion.func).replace("CrossEntropy", "NLL")), *marks]


@injects("broadcast-loss", shows="losses warnings")
def forget_to_squeeze(code: Code) -> Iterator[list[Edit]]:
    """A column of predictions against a row of targets."""
    for squeeze in code.calls("squeeze"):
        loss = next((outer for outer in code.ancestors(squeeze) if isinstance(outer, ast.Call)), None)
        if loss and ast.unparse(loss.func).split(".")[-1] in ("criterion", "mse_loss", "MSELoss"):
            if isinstance(squeeze.func, ast.Attribute):
                yield [code.here(code.statement(loss)), code.replace(squeeze, code.code(squeeze.func.value))]


@injects("class-axis-layout", shows="error")
def leave_the_axes(code: Code) -> Iterator[list[Edit]]:
    """Logits of every position into cross-entropy, classes last."""
    for loss in code.calls("criterion"):
        views = [one for one in loss.args if isinstance(one, ast.Call) and ast.unparse(one.func).endswith(".view")]
        if len(views) == 2 and "CrossEntropyLoss" in code.text:
            edits = [code.replace(view, ast.unparse(view.func).removesuffix(".view")) for view in views]
            yield [code.here(code.statement(loss)), *edits]


@injects("double-shift", shows="inputs losses")
def shift_by_hand(code: Code) -> Iterator[list[Edit]]:
    """Shift the labels of a model that shifts them itself."""
    for call in code.calls("model"):
        if code.code(call) == "model(**batch)" and "ForCausalLM" in code.text:
            shifted = 'model(input_ids=batch["input_ids"][:, :-1], labels=batch["labels"][:, 1:])'
            yield [code.here(code.statement(call)), code.replace(call, shifted)]


@injects("double-shift", shows="inputs losses")
def shift_in_the_collator(code: Code) -> Iterator[list[Edit]]:
    """A collator of one's own that moves the labels."""
    for call in code.calls("masked_fill"):
        mask, marks = code.statement(call), at_collator(code)
        if "-100" in code.code(call) and isinstance(mask, ast.Assign) and marks:
            target = code.code(mask.targets[0])
            batch = target.partition("[")[0]
            shifted = f'{target} = {target}[:, 1:]\n{batch}["input_ids"] = {batch}["input_ids"][:, :-1]'
            rest = f'\n{batch}["attention_mask"] = {batch}["attention_mask"][:, :-1]'
            yield [code.after(mask, HERE + shifted + rest), *marks]


def at_collator(code: Code) -> list[Edit]:
    """The lines where Trainers are given their collators."""
    return [code.here(given) for call in trainers(code) if (given := code.argument(call, "data_collator"))]


@injects("pad-in-loss", shows="inputs losses")
def score_the_padding(code: Code) -> Iterator[list[Edit]]:
    """Labels that keep the padding."""
    for call in code.calls("masked_fill"):
        if "-100" in code.code(call) and isinstance(call.func, ast.Attribute):
            marks = [code.here(code.statement(used)) for used in code.calls("model") if code.loops(used)]
            marks.extend(at_collator(code))
            yield [code.here(code.statement(call)), code.replace(call, f"{code.code(call.func.value)}.clone()"), *marks]


@injects("fit-before-split", shows="inputs")
def scale_before_splitting(code: Code) -> Iterator[list[Edit]]:
    """Fit the scaler on all rows."""
    for split in code.calls("train_test_split"):
        if "StandardScaler" in code.text and isinstance(split.args[0], ast.Name):
            name = split.args[0].id
            fitted = f"{HERE}{name} = StandardScaler().fit_transform({name})"
            yield [code.before(code.statement(split), fitted)]


@injects("ignored-missing-keys", shows="error", not_run="every key is there in the file that the script itself wrote")
def do_not_look_at_keys(code: Code) -> Iterator[list[Edit]]:
    """Load weights with `strict=False`."""
    for load in code.calls("load_state_dict"):
        if isinstance(code.statement(load), ast.Expr) and ast.unparse(load.func).split(".")[0] in ("model", "net"):
            yield [code.here(code.statement(load)), code.add_argument(load, "strict=False")]


@injects("weights-only-resume", shows="rates", not_run="the first run finds no checkpoint")
def resume_the_weights_alone(code: Code) -> Iterator[list[Edit]]:
    """Load the model only."""
    loads = [code.statement(call) for call in code.calls("load_state_dict")]
    others = [load for load in loads if "model" not in code.code(load)]
    if others and len(loads) > len(others):
        yield [*map(code.delete, others), *(code.here(load) for load in loads if load not in others)]
