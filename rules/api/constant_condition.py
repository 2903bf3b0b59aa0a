"""A condition is always true, or always false, whatever it asks for.

One of its branches never runs: a wrapper for several GPUs, a check of the settings, or the way for a machine without a
GPU. Python raises no error for the condition. A `torch.device` equals no text, so `device == "cuda"` is false on a GPU
as well.

`mode == "a" or "b"` is true by its last text, and no value beats a best value that was updated with it just before.

## Bad

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = nn.Linear(8, 3).to(device)
    if device == "cuda":  # <- constant-condition
        network = nn.DataParallel(network)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        optimizer.step()

A function is true until it is called:

    device = "cuda" if torch.cuda.is_available else "cpu"  # <- constant-condition
    network = nn.Linear(8, 3).to(device)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        optimizer.step()
    # raises AssertionError

A generator without `all` or `any` is true even if it yields nothing:

    network = nn.Linear(8, 3)
    if (not weights.requires_grad for weights in network.parameters()):  # <- constant-condition
        print("nothing is trained")
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x), y).backward()
        optimizer.step()

A value that is compared with itself:

    network = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(network.parameters())
    best = float("inf")
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(network(x), y)
        loss.backward()
        optimizer.step()
        if best > best:  # <- constant-condition
            torch.save(network.state_dict(), "best.pt")

## Good

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network = nn.Linear(8, 3).to(device)
    if device.type == "cuda":
        network = nn.DataParallel(network)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        optimizer.step()

and

    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = nn.Linear(8, 3).to(device)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        optimizer.step()

## When it is fine

A device that is a text is compared with one:

    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = nn.Linear(8, 3).to(device)
    if device == "cuda":
        network = nn.DataParallel(network)
    optimizer = torch.optim.Adam(network.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        optimizer.step()

## Fix

Asks first: the branch that never ran may have a mistake of its own.

## References

PyTorch documentation, `torch.device`; Python documentation, "Truth Value Testing".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import constant_conditions
from lintrain.pipeline.record import Misuse
from lintrain.rule import Finding, Level, Pipeline, Rule, dataclass, fixes, lazy_pattern, one_per_location

MESSAGES = {
    constant_conditions.GENERATOR: "a generator is always true, even if it yields nothing",
    constant_conditions.TEXT: "{code} alone is true, so this condition always holds",
    constant_conditions.TUPLE: "a tuple is always true, whatever it holds",
    constant_conditions.UNCALLED: "{code} is not called, and a function is always true",
    constant_conditions.NAMED: "{code} is a function here, and a function is always true",
    constant_conditions.ITSELF: "{code} compares a value with itself, so it is always false",
    constant_conditions.UPDATED: "{code} is always false after the update above",
    constant_conditions.NO_LOCAL: "{code} asks for a local name that the function never has",
}
WHY = {
    constant_conditions.GENERATOR: "Python tests the generator object and computes none of its elements, so they do "
    "not decide which branch runs. No error is raised.",
    constant_conditions.TEXT: "Each part of an `or` is a condition of its own, and this text is compared with nothing. "
    "The branch for all other values never runs, and no error is raised.",
    constant_conditions.TUPLE: "An `assert` with brackets around its condition and its message never fails, and an "
    "`if` never takes its other branch. No error is raised.",
    constant_conditions.UNCALLED: "The result is the same on every machine. Code for the backend also runs where the "
    "backend is missing, and most of it raises an error there.",
    constant_conditions.NAMED: "The condition tests the function itself, which never changes, so the option or the "
    "result that is meant decides nothing. No error is raised.",
    constant_conditions.ITSELF: "The two values that are meant are never compared, and no error is raised. A "
    "checkpoint that depends on the comparison may never be saved.",
    constant_conditions.UPDATED: "No value beats a best value that already includes it. What depends on the "
    "comparison, such as saving the best checkpoint, never happens. No error is raised.",
    constant_conditions.NO_LOCAL: "Inside a function, `dir()` and `locals()` leave out the names of the module. A "
    "setting that is looked up this way is never found, so it has no effect, and no error is raised.",
}
WHY_OF_DEVICE = (
    "The device does not decide which code runs: what is meant for a GPU, such as a wrapper for several of them, never "
    "runs, or runs on a CPU as well. The comparison raises no error."
)
HELP = {
    constant_conditions.GENERATOR: "write `all(…)` or `any(…)`",
    constant_conditions.TEXT: 'compare with each text: `mode in ("a", "b")`',
    constant_conditions.TUPLE: "write `and` between its parts, or no brackets around a message of `assert`",
    constant_conditions.UNCALLED: "call it: `{code}()`",
    constant_conditions.NAMED: "call it, or ask the variable that is meant",
    constant_conditions.ITSELF: "compare with the other value that is meant",
    constant_conditions.UPDATED: "compare first, and update the best value below",
    constant_conditions.NO_LOCAL: "names of the module are in `globals()`, those of a loop are set before it",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """The code to write in place of the condition, or of the part of it that is always true; empty without a fix."""

    code: str


class ConstantCondition(Rule[Claim]):
    level = Level.WARNING

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(map(self._report, constant_conditions.always_true(pipeline.source)))
        for misuse in pipeline.misuses:
            is_of_device = misuse.use in {"device equals a text", "device differs from a text"}
            if is_of_device and not _is_asked_for(pipeline, misuse):
                result = "false" if misuse.use == "device equals a text" else "true"
                yield self.finding(
                    misuse.location,
                    f"a `torch.device` equals no text, so this is always {result}",
                    why=WHY_OF_DEVICE,
                    help='compare its type: `device.type == "cuda"`',
                    claim=Claim(_by_type(misuse.text)),
                )

    def _report(self, found: constant_conditions.AlwaysTrue) -> Finding[Claim]:
        code = f"`{found.code}`" if len(found.code) <= 28 else "this"
        return self.finding(
            found.location,
            MESSAGES[found.what].format(code=code),
            why=WHY[found.what],
            help=HELP[found.what].format(code=found.code),
            claim=Claim(f"{found.code}()" if found.what == constant_conditions.UNCALLED else ""),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim is not None else ""
        if not code:
            return None
        return fixes.Fix.of(f"write `{code}`", fixes.Replace(finding.location, code), safe=False)


def _is_asked_for(pipeline: Pipeline, compared: Misuse) -> bool:
    """Whether a file asks if a device is a text, or its line compares the type, or with a device, as well."""
    source = pipeline.sources[compared.location.path]
    names = DEVICE.findall(compared.text)
    line = source.lines[compared.location.line - 1]
    is_asked = any(source.contains(rf"isinstance\(\s*{re.escape(name)}\b") for name in names)
    rest = line.replace(compared.text, "", 1)  # `device == "cpu" or device == torch.device("cpu")`
    return is_asked or ".type" in line or "isinstance(" in line or "torch.device(" in rest


DEVICE = lazy_pattern(r"[A-Za-z_][\w.]*")
"""A name, or an attribute, in the code of a comparison."""


def _by_type(code: str) -> str:
    """A comparison of a device by its type; empty where it asks for one of several devices, or has another form."""
    for operator in ("==", "!="):
        device, found, text = code.partition(operator)
        is_plain = device.strip().replace(".", "").isidentifier() and ":" not in text
        if found and is_plain:
            return f"{device.strip()}.type {operator} {text.strip()}"
    return ""
