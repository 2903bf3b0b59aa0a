"""A checkpoint does not hold, or is not given, the state that the script means.

`torch.save(model.state_dict, path)` without the brackets saves a method and with it the whole object: code that loads
it as weights fails. `load_state_dict` takes what `torch.load` gives, not the name of a file. An entry that was saved
by another key raises a KeyError when the training is resumed, and a file of weights alone is no model of Keras, whose
`save` after `fit` may overwrite the file of the best weights with the last ones. `torch.compile` and `DataParallel` put
a prefix before all names of the state. The number in the name of a checkpoint
of TensorFlow counts the checkpoints, so it is no epoch where only every fifth is saved.

## Bad

    net.load_state_dict("net.pt")  # <- wrong-state
    # raises TypeError

The brackets are missing:

    torch.save(net.state_dict, "net.pt")  # <- wrong-state

Another key:

    def resume(path):
        saved = torch.load(path)
        net.load_state_dict(saved["model"])  # <- wrong-state
        return saved["epoch"]

    torch.save({"net": net.state_dict(), "epoch": 1}, "net.pt")
    resume("net.pt")
    # raises KeyError: 'model'

The state of a wrapped network, in which all names have a prefix:

    net = nn.Linear(8, 3)
    compiled = torch.compile(net)
    torch.save(compiled.state_dict(), "net.pt")
    best = nn.Linear(8, 3)
    best.load_state_dict(torch.load("net.pt"))  # <- wrong-state
    # raises RuntimeError: Error(s) in loading state_dict for Linear:

## Good

    torch.save({"net": net.state_dict(), "epoch": 1}, "net.pt")
    saved = torch.load("net.pt")
    net.load_state_dict(saved["net"])

The network inside of the wrapper:

    net = nn.Linear(8, 3)
    compiled = torch.compile(net)
    torch.save(compiled._orig_mod.state_dict(), "net.pt")
    best = nn.Linear(8, 3)
    best.load_state_dict(torch.load("net.pt"))

## When it is fine

The content of a file that another script wrote:

    torch.save({"net": net.state_dict(), "epoch": 1}, "net.pt")

    def from_teacher(path):
        net.load_state_dict(torch.load(path)["teacher"])

## Fix

None: which of the keys is meant is not certain.

## References

PyTorch documentation, "Saving and loading models".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import wrong_states
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class WrongState(Rule):
    level = Level.ERROR
    is_preview = True
    keywords = "state_dict|load_model|save_best_only|latest_checkpoint"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(wrong_states.wrong_states(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, wrong_states.wrong_states(pipeline.source)))

    def _report(self, found: wrong_states.WrongState) -> Finding:
        saved = [Related(found.other, "saved here", "saved")] if found.other else []
        level = Level.WARNING if found.is_mild else self.level
        return self.finding(found.location, found.problem, related=saved, help=found.remedy, level=level)
