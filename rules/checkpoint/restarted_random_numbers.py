"""A resumed run starts its random numbers again, and repeats the order of rows and the dropout of the first steps.

The script sets its seed at the start, and the resumed process does so again: it shuffles as the first epoch did, uses
the same augmentation and the same dropout masks. Interrupted often, a training sees the rows of the first steps again
and again and the last ones seldom. `lintrain probe --also checkpoint` measures it.

## Bad

    start = 0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters())
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

## Good

    start = 0
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(net.parameters())
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

## When it is fine

A run without a seed has other random numbers each time, and a seed that contains the epoch has its own for each epoch:
both are not reported. A run that is never interrupted is not affected.

## Fix

None: the state of the generators can be saved, or the seed can be made from the epoch.

## References

PyTorch documentation, "Reproducibility"; `transformers.Trainer` saves `rng_state.pth` with each checkpoint.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict


class RestartedRandomNumbers(EvidenceRule):
    level = Level.NOTE
    message = "the resumed run starts its random numbers again"
    help_text = (
        "save `torch.get_rng_state()` with the checkpoint and restore it, or seed with the epoch:"
        " `torch.manual_seed(seed + epoch)`"
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
