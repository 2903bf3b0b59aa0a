"""Every step stops for a diagnosis or a clean-up that it does not need.

Emptying the cache makes the device wait, and the next step fetch its memory anew; collecting garbage walks over all
objects of the process; detecting anomalies looks at the result of every operation of backward. Once per epoch, or
never, is enough.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        torch.cuda.empty_cache()  # <- synchronized-every-step

A tool for finding the source of NaN may be left over:

    torch.autograd.set_detect_anomaly(True)  # <- synchronized-every-step
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    torch.cuda.empty_cache()

and

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Now and then, or in a case of need, it costs little:

    for index, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        if index % 100 == 0:
            torch.cuda.empty_cache()

A flag may switch the detection on:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--debug", action="store_true")
    torch.autograd.set_detect_anomaly(parser.parse_args().debug)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Reading one number per step, as `loss.item()` does, is what most loops live with:

    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item()

## Fix

None: how often the numbers are wanted, only you know.

## References

PyTorch documentation, "Performance Tuning Guide"; `torch.cuda.empty_cache`; `torch.autograd.set_detect_anomaly`.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis import training_loops
from lintrain.pipeline.record import LibraryCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict

STOPS = {
    "torch.cuda.empty_cache": "gives the cached memory back",
    "torch.cuda.synchronize": "waits for the device",
    "gc.collect": "walks over all objects",
}
FEWEST_STEPS = 2
LEAVES = (ast.Continue, ast.Return)
DETECTS = frozenset({"torch.autograd.set_detect_anomaly", "torch.autograd.detect_anomaly"})


class SynchronizedEveryStep(Rule):
    level = Level.NOTE
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        trainings = list(training_loops.training_loops(pipeline)) if training_loops.trains_by_hand(pipeline) else []
        found: dict[Location, Finding] = {}
        run = _run_each_time(pipeline, trainings) if any(call.path in STOPS for call in pipeline.calls) else {}
        for call in pipeline.calls if trainings else ():
            if call.path in STOPS:
                training = run.get(call.location)
                if training is not None:
                    found.setdefault(call.location, self._report(call, training, f"every step {STOPS[call.path]}"))
            if call.path in DETECTS and call.is_certain and _is_switched_on(pipeline, call):
                found.setdefault(
                    call.location, self._report(call, trainings[0], "every backward pass is searched for NaN")
                )
        yield from found.values()

    def _report(self, call: LibraryCall, training: training_loops.TrainingLoop, what: str) -> Finding:
        return self.finding(
            call.location,
            f"`{call.text}`: {what}",
            related=[Related(training.steps[0].location, "steps here", "step")],
            help="do it once per epoch, or not at all",
            facts={"detects": call.path in DETECTS},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None or loop.steps < FEWEST_STEPS:
            return Verdict.inconclusive(evidence.without_loop if loop is None else f"{loop.steps} steps were followed")
        if finding.facts.get("detects"):
            told = f"{loop.searched_for_nan} of {loop.backwards} backward passes were searched for NaN"
            return (Verdict.confirmed if loop.searched_for_nan else Verdict.refuted)(told, passes=loop.searched_for_nan)
        stops = evidence.objects.stops
        times = max((each.times for each in stops if each.location.meets(finding.location)), default=0)
        told = f"{times} calls at this line in {loop.steps} steps"
        if times >= loop.steps - 1:
            return Verdict.confirmed(told, times=times)
        return Verdict.inconclusive(told, times=times) if times else Verdict.refuted(told, times=times)


def _run_each_time(
    pipeline: Pipeline, trainings: Sequence[training_loops.TrainingLoop]
) -> dict[Location, training_loops.TrainingLoop]:
    """The statements of a loop's own body, of a `with` in it, or of a function called there; with the first."""
    source, functions = pipeline.source, _own_functions(pipeline)
    loops: Sequence[ast.For | ast.While] = source.nodes_of(ast.For, ast.While)
    nodes = {source.location(node): node for node in reversed(loops)}
    first = {training.loop.location: training for training in reversed(trainings)}
    found = dict[Location, training_loops.TrainingLoop]()
    for training in trainings:
        node = nodes.get(training.loop.location)
        if node is not None and first[training.loop.location] is training:
            for statement in _statements_of(node.body, functions):
                found.setdefault(source.location(statement), training)
    return found


def _own_functions(pipeline: Pipeline) -> dict[str, ast.FunctionDef]:
    """The functions of the file's top level that are defined once, by their names."""
    functions = [node for node in pipeline.source.tree.body if isinstance(node, ast.FunctionDef)]
    names = Counter(node.name for node in pipeline.source.nodes_of(ast.FunctionDef))
    return {node.name: node for node in functions if names[node.name] == 1 and not node.decorator_list}


def _statements_of(body: list[ast.stmt], functions: Mapping[str, ast.FunctionDef]) -> Iterator[ast.Expr]:
    """The statements of a body that are expressions and always carried out, those inside a `with` among them."""
    for statement in body:
        if isinstance(statement, ast.If) and any(isinstance(node, LEAVES) for node in ast.walk(statement)):
            return
        if isinstance(statement, ast.With):
            yield from _statements_of(statement.body, functions)
        elif isinstance(statement, ast.Expr):
            yield statement
        match statement:
            case (
                ast.Expr(value=ast.Call(func=ast.Name(id=name))) | ast.Assign(value=ast.Call(func=ast.Name(id=name)))
            ) if name in functions:
                others = {other: function for other, function in functions.items() if other != name}
                yield from _statements_of(functions[name].body, others)
            case _:
                pass


def _is_switched_on(pipeline: Pipeline, call: LibraryCall) -> bool:
    """Whether the detection is certainly on: the mode is left out, or a plain `True`."""
    given = pipeline.code(call.location).partition("(")[2].removeprefix("mode=").split(",")[0].rstrip(")")
    return given == "True" or (given == "" and call.path.endswith(".detect_anomaly"))
