"""The targets of CTC loss contain the blank class.

CTC reserves one class, 0 by default, for "no output here". Decoding removes it, so a letter with this number is never
predicted. Padding with this number that `target_lengths` count is trained as output. The loss falls without an error.

## Bad

    letters = "abcdefgh"
    ids = {letter: number for number, letter in enumerate(letters)}
    words = ["abba", "cab", "head", "bead", "face", "aged"]
    recognizer = nn.Linear(8, 9)
    optimizer = torch.optim.Adam(recognizer.parameters())
    criterion = nn.CTCLoss(blank=0)  # <- blank-in-ctc-targets
    for word in words:
        frames = torch.randn(20, 1, 8)
        targets = torch.tensor([[ids[letter] for letter in word]])
        optimizer.zero_grad()
        scores = recognizer(frames).log_softmax(-1)
        loss = criterion(scores, targets, torch.tensor([20]), torch.tensor([len(word)]))
        loss.backward()
        optimizer.step()

## Good

    letters = "abcdefgh"
    ids = {letter: number for number, letter in enumerate(letters, start=1)}
    words = ["abba", "cab", "head", "bead", "face", "aged"]
    recognizer = nn.Linear(8, 9)
    optimizer = torch.optim.Adam(recognizer.parameters())
    criterion = nn.CTCLoss(blank=0)
    for word in words:
        frames = torch.randn(20, 1, 8)
        targets = torch.tensor([[ids[letter] for letter in word]])
        optimizer.zero_grad()
        scores = recognizer(frames).log_softmax(-1)
        loss = criterion(scores, targets, torch.tensor([20]), torch.tensor([len(word)]))
        loss.backward()
        optimizer.step()

## When it is fine

Padding of the targets may be the blank if `target_lengths` leave it out, and the blank may be the last class:

    recognizer = nn.Linear(8, 9)
    optimizer = torch.optim.Adam(recognizer.parameters())
    padded = torch.tensor([[3, 1, 2, 0, 0], [4, 5, 6, 7, 1]])
    lengths = torch.tensor([3, 5])
    for _ in range(4):
        scores = recognizer(torch.randn(20, 2, 8)).log_softmax(-1)
        frames = torch.full((2,), 20)
        loss = F.ctc_loss(scores, padded, frames, lengths)
        last = F.ctc_loss(log_probs=scores, targets=padded - 1, input_lengths=frames, target_lengths=lengths, blank=8)
        loss = loss + last
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Fix

None: the classes may be numbered from 1, or another class be the blank.

## References

PyTorch documentation, `torch.nn.CTCLoss`: "the target index cannot be blank"; Graves et al., "Connectionist Temporal
Classification" (2006), section 3.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import ctc_classes
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict


class BlankInCtcTargets(Rule):
    level = Level.ERROR
    keywords = "ctc_loss|CTCLoss"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in ctc_classes.blank_letters(pipeline.source):
            yield self.finding(
                found.loss,
                f"the blank of this CTC loss is class 0, which is the letter `{found.letter}`",
                related=[Related(found.numbered, "numbered from 0 here", "numbered")],
                help="number the letters from 1: `enumerate(letters, start=1)`",
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for loss in evidence.losses_of("ctc_loss"):
            if loss.ctc is not None and loss.ctc.blanks and loss.location is not None:
                yield self.finding(
                    loss.location,
                    f"the targets contain class {loss.ctc.blank}, the blank of this CTC loss",
                    help="use another class for the blank, and count no padding in `target_lengths`",
                )
                return

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if not evidence.sees_losses:
            return Verdict.inconclusive(evidence.without_loop)
        measured = [loss.ctc for loss in evidence.losses_of("ctc_loss") if loss.ctc is not None]
        for ctc in measured:
            if ctc.blanks:
                end = ", all at its end, as padding is" if ctc.at_end == ctc.blanks else ""
                return Verdict.confirmed(
                    f"{ctc.blanks} of {ctc.targets} targets are class {ctc.blank}, the blank, in {ctc.with_blanks} of "
                    f"{ctc.sequences} sequences{end}",
                    blanks=ctc.blanks,
                    targets=ctc.targets,
                )
        if measured:
            first = measured[0]
            return Verdict.refuted(f"0 of {first.targets} targets are class {first.blank}, the blank", blanks=0)
        return Verdict.inconclusive(f"none of {len(evidence.called_losses)} losses in the first batch is a CTC loss")
