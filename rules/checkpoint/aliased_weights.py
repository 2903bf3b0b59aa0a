"""The best weights are kept without a copy, so they are the last ones.

`state_dict()` returns references to the model's tensors, which training changes in place. What was kept at the best
epoch has changed with every later step, and loading it changes nothing.

## Bad

    best, best_weights = float("inf"), None
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
        if loss.item() < best:
            best = loss.item()
            best_weights = net.state_dict()  # <- aliased-weights
    net.load_state_dict(best_weights)

The same with the model as a whole:

    best = float("inf")
    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
        if loss.item() < best:
            best = loss.item()
            best_net = net  # <- aliased-weights
    torch.save(best_net.state_dict(), "best.pt")

## Good

    import copy

    best, best_weights = float("inf"), None
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
        if loss.item() < best:
            best = loss.item()
            best_weights = copy.deepcopy(net.state_dict())
    net.load_state_dict(best_weights)

The same with the model as a whole:

    import copy

    best = float("inf")
    for epoch in range(2):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()
            optimizer.step()
        if loss.item() < best:
            best = loss.item()
            best_net = copy.deepcopy(net)
    torch.save(best_net.state_dict(), "best.pt")

## When it is fine

Weights that are written to a file at once, or changed and loaded without a step in between:

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    weights = net.state_dict()
    torch.save(weights, "last.pt")
    weights["0.bias"] = torch.zeros(32)
    net.load_state_dict(weights)

## Fix

Asks first: the script then continues with other weights than before.

## References

PyTorch documentation, "Saving and Loading Models": `best_model_state = deepcopy(model.state_dict())`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import first_weights, kept_weights, script_text
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, dataclass, fixes

SHARDED = r"\b(?:FSDP|FullyShardedDataParallel|deepspeed|fully_shard)\b"
"""Wrappers whose `state_dict` gathers copies."""

SAME_NETWORK = (
    "The assignment copies nothing and raises no error. The second network always has the weights that are being"
    " trained, and never older or averaged ones. Freezing it also freezes the first."
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of what is kept."""

    code: str


class AliasedWeights(Rule[Claim]):
    level = Level.ERROR
    keywords = "state_dict|best|weight|bias|parameters"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return kept_weights.may_keep(source)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        source = pipeline.source
        shared = [*first_weights.shared(source), *first_weights.shared_layers(source)]
        averages, networks = list(first_weights.averages(source)), list(first_weights.same_networks(pipeline))
        aliases = [*kept_weights.aliased(pipeline), *kept_weights.kept_by_name(pipeline)]
        if not (shared or aliases or averages or networks) or script_text.mentions(pipeline, SHARDED):
            return
        for location, code in shared:
            yield self.finding(
                location,
                f"`{code}` is no copy: both networks have the same weights from here on",
                why="Each optimizer step that changes one network also changes the other. No error is raised.",
                help=f"copy the numbers: `{code}.clone()`",
                claim=Claim(code if code.endswith(".data") else f"{code}.data"),
            )
        for location, code in averages:
            numbers = code if code.endswith((".data", ".detach()")) else f"{code}.data"
            yield self.finding(
                location,
                f"`{code}` is no copy, so the average is written into the model's own weights",
                why="Each update of the average changes the weights that are being trained, and the average always"
                " equals them. No error is raised.",
                help=f"copy the numbers: `{_copy_of(numbers)}`",
                claim=Claim(numbers),
            )
        for location, first, second in networks:
            yield self.finding(
                location,
                f"`{second}` is no copy of `{first}`, but the same network",
                why=SAME_NETWORK,
                help=f"copy the network: `{_copy_of(first)}`",
                claim=Claim(first),
            )
        for alias in aliases:
            kept = "the model" if alias.is_model else _kept(alias.code)
            shown = f"`{alias.name}`" if len(alias.name) <= 30 else "this"
            yield self.finding(
                alias.location,
                f"{shown} is {kept}, and changes in every later step",
                related=[Related(alias.used, "used here as if it had not changed", "use")],
                why=_consequence(alias),
                help=f"keep a copy: `{_copy_of(alias.code)}`",
                claim=Claim(alias.code),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        copied = _copy_of(finding.claim.code)
        imports = [fixes.AddImport("copy")] if copied.startswith("copy.") else []
        return fixes.Fix.of("keep a copy", fixes.Replace(finding.location, copied), *imports, safe=False)


def _consequence(alias: kept_weights.Alias) -> str:
    """What is lost without a copy; empty for `state_dict()`, which the page explains."""
    if alias.is_model:
        return (
            "Both names refer to one model, which training changes in place. What was kept at the best epoch is the"
            " last model when it is used, and no error is raised."
        )
    if "state_dict" in alias.code:
        return ""
    return (
        "Each optimizer step changes the tensors in place, so a later comparison with the weights of the model finds no"
        " difference. No error is raised."
    )


def _kept(code: str) -> str:
    return "the model's weights" if "state_dict" in code else "a weight of the model"


def _copy_of(code: str) -> str:
    """The code of a copy: `clone` for a tensor, `deepcopy` for a model and for all of its weights."""
    if code.endswith((".data", ".detach()")):
        return f"{code}.clone()"
    return f"{code}.detach().clone()" if code.endswith((".weight", ".bias", "]")) else f"copy.deepcopy({code})"
