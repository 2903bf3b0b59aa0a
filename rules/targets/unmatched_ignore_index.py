"""The labels are padded with one number, and the loss ignores another.

A cross-entropy leaves out the labels that equal its `ignore_index`, which is -100 by default. Padding with another
negative number raises an error; padding with the number of a class trains the network to predict that class, while a
real class that `ignore_index` names is never learned.

## Bad

    rows = [torch.tensor([0, 1]), torch.tensor([2])]
    labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)  # <- unmatched-ignore-index
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(net(features[:4]), labels.flatten()).backward()
        optimizer.step()

    # raises IndexError: Target -1 is out of bounds

## Good

    rows = [torch.tensor([0, 1]), torch.tensor([2])]
    labels = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-100)
    for _ in range(2):
        optimizer.zero_grad()
        F.cross_entropy(net(features[:4]), labels.flatten()).backward()
        optimizer.step()

## When it is fine

Inputs may be padded with any number, and the loss may ignore the number of the padding:

    from torch.nn.utils.rnn import pad_sequence

    inputs = pad_sequence([torch.ones(2, 8), torch.ones(1, 8)], batch_first=True, padding_value=-1)
    labels = pad_sequence([torch.tensor([0, 1]), torch.tensor([2])], batch_first=True, padding_value=-1)
    for _ in range(2):
        optimizer.zero_grad()
        scores = net(inputs)
        F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-1).backward()
        optimizer.step()

## Fix

Asks first: the padding may be compared with its number elsewhere.

## References

PyTorch documentation, `torch.nn.CrossEntropyLoss`: `ignore_index`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lintrain.analysis import expressions, label_ranges, masked_prompts, padded_rows, script_text
from lintrain.pipeline.values.data import Collator
from lintrain.pipeline.values.python import ABSENT, is_missing, literal, text_of
from lintrain.pipeline.values.tensors import SpecialToken
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

if TYPE_CHECKING:
    from lintrain.evidence.run import TargetAlignment

PADS = "torch.nn.utils.rnn.pad_sequence"
LOSSES = frozenset({"cross_entropy", "nll_loss"})
DEFAULT = -100
TARGETS = lazy_pattern(r"(?i)(?:^|[^a-z])(?:labels?|targets?|tags?|trgs?|tgts?|ys?)(?:$|[^a-z])")
"""Names of what a loss compares with."""

OUT_OF_BOUNDS = "is out of bounds"


WRITES_LABELS = lazy_pattern(r"(?m)^\s*\w*(?:labels?|targets?)\[[^\]]*\]\s*=\s*(?:0|-1)\s*(?:#.*)?$")

OWN_LOSS = r"ignore_index|\bIGNORE|loss_mask|label_mask\s*\*"
"""Code of losses that leave labels out themselves."""


LATER = r"==\s*[\w.]+\]?\s*(?:,\s*|\]\s*=\s*)-100|masked_fill|-100 if"
"""Code that puts -100 in the place of other labels."""

BEFORE = r"(?m)^\s*(?:from|import) pytorch_(?:transformers|pretrained_bert)\b"
"""The packages that became transformers: their models ignore -1."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The number that the labels are padded with, the one that the loss ignores, and where the padding is written."""

    number: int
    ignored: int = DEFAULT
    padding: Location | None = None


@dataclass(frozen=True, slots=True)
class Padding:
    """A call that pads labels, where it says with what, and the number."""

    call: Location
    location: Location
    number: int


class UnmatchedIgnoreIndex(Rule[Claim]):
    level = Level.ERROR
    keywords = "pad_sequence|label_pad_token_id|labels|targets|full|zeros|ones"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(WRITES_LABELS)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from map(self._report_masked, _masked(pipeline))
        yield from map(self._report_prompt, _masked_prompts(pipeline))
        yield from self._of_collators(pipeline)
        ignored = _ignored_by_losses(pipeline)
        for padding in _label_paddings(pipeline) if ignored else ():
            number = padding.number
            wrong = [index for index, is_given in ignored if index != number and (is_given or number < 0)]
            if len(wrong) < len(ignored):
                continue
            yield self.finding(
                padding.call,
                f"these labels are padded with {number}, but the loss ignores {wrong[0]}",
                related=[Related(padding.location, "the padding", "padding")],
                why=_why(number, wrong[0]),
                help=f"pass `padding_value={wrong[0]}`, or `ignore_index={number}` to the loss",
                claim=Claim(number, wrong[0], padding.location),
            )

        if ignored and all(index == (DEFAULT, False) for index in ignored):
            yield from one_per_location(map(self._report_learned, _learned(pipeline)))

    def _report_learned(self, rows: padded_rows.PaddedRows) -> Finding[Claim]:
        return self.finding(
            rows.location,
            f"these labels are padded with {rows.number}, which the loss counts as a class",
            why=_why(rows.number),
            help=f"pad them with -100, or pass `ignore_index={rows.number}` to the loss",
            level=Level.WARNING,
            claim=Claim(rows.number),
        )

    def _report_masked(self, masked: label_ranges.MaskedLabels) -> Finding[Claim]:
        what = "which counts as a class" if masked.number >= 0 else "and the model ignores -100"
        return self.finding(
            masked.location,
            f"labels that are to be ignored are set to {masked.number}, {what}",
            why=_why(masked.number),
            help=f"write -100, or pass `ignore_index={masked.number}` to your own loss",
            claim=Claim(masked.number),
        )

    def _report_prompt(self, masked: masked_prompts.MaskedPrompt) -> Finding[Claim]:
        return self.finding(
            masked.location,
            f"the labels of these tokens are `{masked.code}`, which counts as a class",
            why=_why(-1 if masked.code == "-1" else 0),
            help="repeat -100, which the loss leaves out",
        )

    def _of_collators(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """Collators that pad labels with a token, or with a class."""
        for collator in pipeline.collators if not script_text.mentions(pipeline, OWN_LOSS) else ():
            given = collator.arguments.get("label_pad_token_id", ABSENT)
            number = literal(given)
            is_counted = number in {0, -1} or (isinstance(given, SpecialToken) and given.kind == "pad")
            is_scored = pipeline.models and not any("compute_loss" in run.overrides for run in pipeline.runs)
            if is_counted and is_scored and collator.origin is not None and _gives_torch(collator):
                shown = number if isinstance(number, int) else "the padding token"
                yield self.finding(
                    collator.origin,
                    f"labels are padded with {shown}, which counts in the loss",
                    why=_why(number if isinstance(number, int) else 0),
                    help="leave out `label_pad_token_id`, which is -100 by default",
                )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if (stage := evidence.failed_with(OUT_OF_BOUNDS)) is not None:
            return Verdict.confirmed(f"the {stage.name} stage failed: a label {OUT_OF_BOUNDS}, 1 error")
        loop = evidence.loop
        if finding.claim is None:
            return Verdict.inconclusive("a label that counts as a class raises no error")
        if loop is None or not loop.steps:
            return Verdict.inconclusive(evidence.without_loop)
        if finding.claim.number >= 0:
            return _judged_class(loop.alignment)
        return Verdict.refuted(f"{loop.steps} steps ran without an error about a label", steps=loop.steps)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or claim.padding is None:
            return None
        edit = fixes.Replace(claim.padding, str(claim.ignored))
        return fixes.Fix.of("pad with the number that the loss ignores", edit, safe=False)


def _why(number: int, ignored: int = DEFAULT) -> str:
    """What a label that should be left out does to the training, by its number and the one that the loss ignores."""
    if number < 0:
        return (
            "A negative label that the loss does not ignore is out of bounds: the first batch that has one raises an "
            "IndexError on a CPU, or a failed assertion on a GPU."
        )
    lost = f", and the class {ignored} is never learned" if ignored >= 0 else ""
    return (
        "The model is trained to predict this class at positions that should be left out, and the mean of the loss "
        f"counts them{lost}. No error is raised."
    )


def _gives_torch(collator: Collator) -> bool:
    return text_of(collator.arguments.get("return_tensors", ABSENT)) in {None, "pt"}


def _masked_prompts(pipeline: Pipeline) -> Iterator[masked_prompts.MaskedPrompt]:
    """The labels of prompts for a model of transformers, if no other code sets them to -100 later."""
    found = list(masked_prompts.masked_prompts(pipeline.source))
    is_of_transformers = bool(found) and script_text.mentions(pipeline, r"(?m)^\s*(?:from|import) transformers\b")
    if (
        is_of_transformers
        and not script_text.mentions(pipeline, OWN_LOSS)
        and not script_text.mentions(pipeline, LATER)
    ):
        yield from found


def _judged_class(alignment: TargetAlignment | None) -> Verdict:
    """Whether padding with the number of a class counts; no error could tell it."""
    if alignment is None or alignment.padding is None:
        return Verdict.inconclusive("the run does not show which of the targets are padding")
    text = f"{alignment.padding} of {alignment.scored} targets in the loss are padding"
    if not alignment.padding:
        return Verdict.inconclusive(f"{text} in the measured batch")
    return Verdict.confirmed(text, padding=alignment.padding, scored=alignment.scored)


def _ignored_by_losses(pipeline: Pipeline) -> list[tuple[int, bool]]:
    """What the losses ignore, and whether the script says so; empty if one of them may average other rows itself."""
    found: list[tuple[int, bool]] = []
    for call in pipeline.losses:
        if call.name not in LOSSES:
            continue
        given, reduction = call.options.get("ignore_index"), call.options.get("reduction")
        index = DEFAULT if given is None or is_missing(given) else literal(given)
        if not isinstance(index, int) or (reduction is not None and literal(reduction) != "mean"):
            return []
        found.append((index, given is not None and not is_missing(given)))
    return found


def _learned(pipeline: Pipeline) -> Iterator[padded_rows.PaddedRows]:
    """The labels that are padded with a class, and that a loss gets as they are."""
    source = pipeline.source
    rows = [each for each in padded_rows.padded_rows(source) if each.number >= 0 and TARGETS.search(each.name)]
    losses = [call for call in pipeline.losses if call.name in LOSSES] if rows else []
    targets = [call.target.text if call.target is not None else "" for call in losses]
    if all(TARGETS.search(text) and not padded_rows.is_selected(source, text) for text in targets):
        yield from rows


def _label_paddings(pipeline: Pipeline) -> Iterator[Padding]:
    """The calls that pad labels with a literal number, each once."""
    seen = set[Location]()
    for call in pipeline.calls:
        padding = call.arguments.get("padding_value")
        number = literal(padding.value) if padding is not None else None
        if call.path != PADS or padding is None or call.location in seen or not isinstance(number, int):
            continue
        seen.add(call.location)
        written = expressions.call_at(pipeline, call.location)
        given = written.arguments[0].code if written is not None and written.arguments else ""
        bound = _name_bound_at(pipeline, call.location)
        if TARGETS.search(given) or TARGETS.search(bound):
            yield Padding(call.location, padding.location, number)


def _name_bound_at(pipeline: Pipeline, location: Location) -> str:
    """The code to the left of the assignment that a call is the value of."""
    line = pipeline.source_of(location).lines[location.line - 1][: location.column - 1]
    return line.rpartition("=")[0].strip()


def _masked(pipeline: Pipeline) -> Iterator[label_ranges.MaskedLabels]:
    """The labels for a model of transformers that are set to a number which its loss does not ignore."""
    is_of_transformers = script_text.mentions(pipeline, r"(?m)^\s*(?:from|import) transformers\b|tokenizer")
    if is_of_transformers and not script_text.mentions(pipeline, OWN_LOSS) and not pipeline.source.contains(BEFORE):
        yield from label_ranges.masked_labels(pipeline.source)
