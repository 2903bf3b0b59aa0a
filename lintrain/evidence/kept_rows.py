"""What a tokenizer keeps of texts, and a collator of the rows that it receives."""

from __future__ import annotations

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class CollatedRows:
    """Rows of the first batches of a data set, compared with the rows that the collator received.

    `matched` rows of the batches have the content of exactly one of these. `relabelled` of them have another label
    than that row; `are_swapped`: the batches hold the labels of their rows, each as often, but not by one rule for each
    label. `misplaced` rows have the labels of their tokens at other tokens. Of `tokens` in the matched rows, `lost` are
    not in the batch, in `cut` rows, on one `side` (`left`, `right`, or "" for both); `longest` is what was kept of the
    longest. `alike` rows of the batches have content that others have too, `conflicting` of them with another label;
    `are_tokens` says that the content is tokens.
    """

    rows: int
    matched: int = 0
    relabelled: int = 0
    are_swapped: bool = False
    misplaced: int = 0
    tokens: int = 0
    lost: int = 0
    cut: int = 0
    side: str = ""
    longest: int = 0
    alike: int = 0
    conflicting: int = 0
    are_tokens: bool = False


@dataclass(frozen=True, slots=True)
class SegmentEvidence:
    """Token types of the probed batches next to their separators.

    `pairs` of the `rows` are two texts: one separator inside, one at the end. In `flat` of these every token has type
    0, or there are no types; `divided` change their type at the separator. `first` and `second` count the attended
    tokens of type 0 and of others. `given` says whether the batches have types.
    """

    rows: int
    pairs: int
    flat: int
    divided: int
    first: int
    second: int
    given: bool


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """A few texts that a tokenizer encoded at one place of the script, encoded once more without truncation.

    `cut` of the `texts` lost tokens, together `lost` of `tokens`, on one `side`; `pairs` of them are two texts, of
    which `second_lost` kept nothing of the second. `limit` is the longest that was kept. The round trip back to text
    was compared for `decoded` texts: the others have unknown tokens. `with_capitals` of these have capital letters,
    `lost_capitals` came back without any; likewise for accents, newlines, and indentation or several spaces.
    `are_targets`: their ids are the labels of rows. `made` are the data sets, by their arguments, whose rows hold their
    ids. `tokenizer` is the name or folder that it was loaded from, `shared` the share of the tokens of the run's
    tokenizer that have the same id in it.
    """

    location: Location
    texts: int
    tokens: int = 0
    cut: int = 0
    lost: int = 0
    side: str = "right"
    limit: int = 0
    pairs: int = 0
    second_lost: int = 0
    decoded: int = 0
    with_capitals: int = 0
    lost_capitals: int = 0
    with_accents: int = 0
    lost_accents: int = 0
    with_newlines: int = 0
    lost_newlines: int = 0
    with_spaces: int = 0
    lost_spaces: int = 0
    are_targets: bool = False
    made: tuple[str, ...] = ()
    tokenizer: str = ""
    shared: float | None = None
