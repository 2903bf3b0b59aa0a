"""`torch.load` refuses a file that the script itself saves, because it holds more than weights.

Since torch 2.6, `torch.load` restores tensors, containers and plain numbers alone. A whole network, the options of the
command line, a NumPy number such as the best score, a `deque`, a `defaultdict`, a `Path`, or an object of the script's
own classes ends it with an UnpicklingError. Saving succeeds, so the run fails only when the best weights are loaded
after the training, or when it is resumed.

## Bad

    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    torch.save(net, "net.pt")
    best = torch.load("net.pt")  # <- unloadable-checkpoint
    # raises UnpicklingError

The best score is a number of NumPy:

    scores = [0.5, 0.7]
    best = np.mean(scores)
    torch.save({"net": net.state_dict(), "best": best}, "net.pt")
    saved = torch.load("net.pt")  # <- unloadable-checkpoint
    net.load_state_dict(saved["net"])
    # raises UnpicklingError

The options of the command line:

    import argparse

    options = argparse.ArgumentParser().parse_args([])
    torch.save({"net": net.state_dict(), "options": options}, "net.pt")
    saved = torch.load("net.pt", map_location="cpu")  # <- unloadable-checkpoint
    net.load_state_dict(saved["net"])
    # raises UnpicklingError

## Good

    import argparse

    options = argparse.ArgumentParser().parse_args([])
    scores = [0.5, 0.7]
    best = float(np.mean(scores))
    torch.save({"net": net.state_dict(), "best": best, "options": vars(options)}, "net.pt")
    saved = torch.load("net.pt")
    net.load_state_dict(saved["net"])

## When it is fine

A file of your own may be read with everything that it holds:

    torch.save(net, "net.pt")
    best = torch.load("net.pt", weights_only=False)

## Fix

None: saving weights alone and loading with `weights_only=False` are both reasonable.

## References

PyTorch documentation, `torch.load` and "Serialization semantics"; release notes of torch 2.6.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.refused_files import RefusedFile, refused_files
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class UnloadableCheckpoint(Rule):
    level = Level.ERROR
    keywords = "torch & load & save"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return "torch.load" in source.text and "torch.save" in source.text

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, refused_files(pipeline)))

    def _report(self, found: RefusedFile) -> Finding:
        return self.finding(
            found.location,
            f"`torch.load` refuses this file, which holds {found.holds}",
            related=[Related(found.saved, "saved here", "saved")],
            help=f"{found.remedy}, or pass `weights_only=False` for a file of your own",
        )
