"""The state of an optimizer is loaded before the model is moved to the GPU, and stays on the CPU.

`load_state_dict` puts momentum and averages where the weights are at that moment. Moving the model later moves its
weights only, so the first step after a resume raises an error about two devices.

## Bad

    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    resumed = torch.optim.Adam(network.parameters())
    if os.path.exists("optimizer.pt"):
        resumed.load_state_dict(torch.load("optimizer.pt"))  # <- optimizer-state-before-device
    network.to(device)
    for x, y in loader:
        resumed.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        resumed.step()

## Good

    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    network.to(device)
    resumed = torch.optim.Adam(network.parameters())
    if os.path.exists("optimizer.pt"):
        resumed.load_state_dict(torch.load("optimizer.pt"))
    for x, y in loader:
        resumed.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        resumed.step()

## When it is fine

The script moves the state itself:

    network = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    resumed = torch.optim.Adam(network.parameters())
    if os.path.exists("optimizer.pt"):
        resumed.load_state_dict(torch.load("optimizer.pt"))
    network.to(device)
    for values in resumed.state.values():
        for name, value in values.items():
            values[name] = value.to(device)
    for x, y in loader:
        resumed.zero_grad()
        criterion(network(x.to(device)), y.to(device)).backward()
        resumed.step()

## Fix

None: which of the statements to move depends on what is between them.

## References

PyTorch documentation, `torch.optim` ("move a model to GPU before constructing optimizers"); the fix in
`SeanNaren/deepspeech.pytorch`, commit bcad2758f28e.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import checkpoints
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location

RAISED = "to be on the same device"


class OptimizerStateBeforeDevice(Rule):
    level = Level.ERROR
    keywords = "load_state_dict & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, checkpoints.states_before_moves(pipeline.source)))

    def _report(self, found: checkpoints.StateBeforeMove) -> Finding:
        shown = f"`{found.optimizer}`" if len(found.optimizer) <= 24 else "the optimizer"
        return self.finding(
            found.location,
            f"the state of {shown} is loaded before its model is moved",
            related=[Related(found.moved, "only the weights are moved here", "move")],
            help="move the model first, then load the state",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_with(RAISED)
        if stage is not None and stage.failure is not None and stage.failure.raised_in.startswith("torch.optim"):
            return Verdict.confirmed(f"the optimizer's step fails: it expects all tensors {RAISED}")
        if evidence.device == "cpu":
            return Verdict.inconclusive("a run on the CPU cannot show it")
        return Verdict.inconclusive(evidence.not_reached("step"))
