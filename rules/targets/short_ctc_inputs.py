"""The inputs of CTC loss have fewer frames than their targets need.

Each target takes a frame, and two equal ones in a row a blank between them. A sequence with fewer frames has no path:
its loss is infinite. With `zero_infinity=True` it counts as 0, without a gradient, and the model never learns from it.
Often the network shortens its inputs more than it should, or the lengths are those of another axis.

## Bad

    recognizer = nn.Sequential(nn.Conv1d(8, 16, 3, stride=4), nn.ReLU(), nn.Conv1d(16, 9, 1))
    optimizer = torch.optim.Adam(recognizer.parameters())
    criterion = nn.CTCLoss(zero_infinity=True)
    for _ in range(4):
        targets = torch.randint(1, 9, (2, 8))
        scores = recognizer(torch.randn(2, 8, 24)).permute(2, 0, 1).log_softmax(-1)
        frames = torch.full((2,), len(scores))
        loss = criterion(scores, targets, frames, torch.tensor([8, 8]))  # <- short-ctc-inputs
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good

    recognizer = nn.Sequential(nn.Conv1d(8, 16, 3), nn.ReLU(), nn.Conv1d(16, 9, 1))
    optimizer = torch.optim.Adam(recognizer.parameters())
    criterion = nn.CTCLoss(zero_infinity=True)
    for _ in range(4):
        targets = torch.randint(1, 9, (2, 8))
        scores = recognizer(torch.randn(2, 8, 24)).permute(2, 0, 1).log_softmax(-1)
        frames = torch.full((2,), len(scores))
        loss = criterion(scores, targets, frames, torch.tensor([8, 8]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

A few recordings that are too short for their text are left out by `zero_infinity=True`. The rule reports them only if
they are half of a batch, or if their loss stays infinite.

## Fix

None: the network may keep more frames, or the targets be shorter units of text.

## References

PyTorch documentation, `torch.nn.CTCLoss`, `zero_infinity`; Graves et al., "Connectionist Temporal Classification"
(2006).
"""

from __future__ import annotations

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

MANY = 0.5
"""The share of a batch from which on its short sequences are no exceptions."""


class ShortCtcInputs(EvidenceRule):
    level = Level.ERROR
    message = "inputs of this CTC loss have fewer frames than their targets need"
    help_text = "shorten the inputs less, or check that `input_lengths` counts the frames of the scores"

    def location_of(self, evidence: Evidence) -> Location:
        """The first such loss."""
        short = [loss.location for loss in evidence.losses_of("ctc_loss") if loss.ctc and loss.ctc.too_short]
        return next((location for location in short if location is not None), evidence.location)

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        measured = [loss.ctc for loss in evidence.losses_of("ctc_loss") if loss.ctc is not None]
        for ctc in measured:
            if ctc.first_short is None or (ctc.zeroes_infinity and ctc.too_short < MANY * ctc.sequences):
                continue
            frames, needed = ctc.first_short
            return Verdict.confirmed(
                f"{ctc.too_short} of {ctc.sequences} sequences are too short: the first has {frames} frames and needs "
                f"{needed}; the loss of each is {'set to 0' if ctc.zeroes_infinity else 'infinite'}",
                short=ctc.too_short,
                sequences=ctc.sequences,
            )
        if measured:
            short, rows = sum(ctc.too_short for ctc in measured), sum(ctc.sequences for ctc in measured)
            return Verdict.refuted(f"{short} of {rows} sequences are too short", short=short, sequences=rows)
        return Verdict.inconclusive(f"none of {len(evidence.called_losses)} losses in the first batch is a CTC loss")
