"""Random numbers start again: in each epoch, or in a resumed run, which repeats the order of rows and the dropout.

A constant seed inside the training loop gives every epoch the same order of rows, the same crops and the same noise.
A seed in `__getitem__` gives every row the same augmentation.

The script sets its seed at the start, and the resumed process does so again: it shuffles as the first epoch did, uses
the same augmentation and the same dropout masks. Interrupted often, a training sees the rows of the first steps again
and again and the last ones seldom. `lintrain probe --also checkpoint` measures it.

## Bad

    start = 0
    torch.manual_seed(0)
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
    for epoch in range(start, 3):
        for x, y in DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True):
            optimizer.zero_grad()
            criterion(net(x), y).backward()  # <- restarted-random-numbers
            optimizer.step()
        torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "last.pt")

In each epoch:

    for epoch in range(3):
        torch.manual_seed(0)  # <- restarted-random-numbers
        order = torch.randperm(len(features))
        for rows in order.split(16):
            optimizer.zero_grad()
            criterion(net(features[rows]), targets[rows]).backward()
            optimizer.step()

## Good

    start = 0
    torch.manual_seed(0)
    if os.path.exists("last.pt"):
        saved = torch.load("last.pt")
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
        torch.set_rng_state(saved["random"])
    for epoch in range(start, 3):
        for x, y in DataLoader(TensorDataset(features, targets), batch_size=16, shuffle=True):
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        torch.save({**state, "random": torch.get_rng_state()}, "last.pt")

and

    torch.manual_seed(0)
    for epoch in range(3):
        order = torch.randperm(len(features))
        for rows in order.split(16):
            optimizer.zero_grad()
            criterion(net(features[rows]), targets[rows]).backward()
            optimizer.step()

## When it is fine

A run without a seed has other random numbers each time, and a seed that contains the epoch has its own for each epoch:
both are not reported. A run that is never interrupted is not affected.

## Fix

None: the state of the generators can be saved, or the seed can be made from the epoch.

## References

PyTorch documentation, "Reproducibility"; `transformers.Trainer` saves `rng_state.pth` with each checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import constant_seeds
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict


class RestartedRandomNumbers(Rule):
    level = Level.WARNING
    keywords = "seed"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.cached(constant_seeds.may_repeat_seed)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in constant_seeds.repeated_seeds(pipeline.source):
            place = "before the loop" if found.each == "round" else "once, at the start of the script"
            yield self.finding(
                found.location,
                f"each {found.each} starts the same random numbers again",
                related=[Related(found.repeats, "it repeats here", "loop")],
                help=f"set the seed {place}, or make it from the epoch: `seed + epoch`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        resumed = evidence.checkpoint
        if resumed is None:
            return Verdict.inconclusive(evidence.unasked("checkpoint"))
        if resumed.repeats_step is not None:
            text = f"the first resumed step has the {resumed.rows} rows of step {resumed.repeats_step} in their order"
            return Verdict.confirmed(f"{text}; without the interruption it has others", rows=resumed.rows)
        if resumed.restarted:
            return Verdict.confirmed(
                f"the random numbers of {', '.join(resumed.restarted)} are those of the first step"
            )
        if resumed.generators:
            return Verdict.refuted(f"the random numbers of {', '.join(resumed.generators)} are new ones")
        return Verdict.refuted("the random numbers go on, with the same rows as without the interruption")
