"""Sentences from templates, with the labels that follow from how they were put together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random

WHO = ("a dog", "an old man", "the young teacher", "a girl in a red coat", "a small child", "the cook", "a tall woman")
WHERE = ("in the park", "near the river", "at the market", "on a crowded street", "behind the little white house")
OUTDOORS = ("is running", "is walking slowly", "is playing", "is waiting for the bus", "is carrying a heavy basket")
WHEN = ("", "", "early in the morning", "while it is raining", "after a long and tiring day of work")
MOODS = ("is happy", "is thinking about dinner", "has two brothers", "is late again", "likes music")
DENIALS = ("nobody is there", "is asleep in bed", "is sitting still at home", "is not there at all")
PRAISE = ("a warm and funny film", "a great cast", "the best story of the year", "a moving and honest picture")
BLAME = ("a dull and lifeless film", "a weak cast", "the worst story of the year", "a noisy and empty picture")
ENDINGS = ("", "from start to end", "with one exception", "and that is all there is to say about it")
TOPICS = {
    "World": ("the president met the ambassador", "the border talks went on", "the vote was held again"),
    "Sports": ("the team won the final", "the coach named his players", "the runner broke a record"),
    "Business": ("the shares fell sharply", "the bank raised its prices", "the company sold a branch"),
    "Sci/Tech": ("the probe reached the planet", "the new chip is faster", "the software was released"),
}


def entailment_rows(rows: int, seed: int) -> Iterator[dict[str, str | int]]:
    """Premises with hypotheses that follow (0), may be true (1) or contradict (2), in turn."""
    random = Random(seed)
    for number in range(rows):
        who, action, where = random.choice(WHO), random.choice(OUTDOORS), random.choice(WHERE)
        premise = _joined(who, action, where, random.choice(WHEN))
        told = (_joined(who, action), _joined(who, random.choice(MOODS)), _joined(who, random.choice(DENIALS)))
        yield {"premise": premise, "hypothesis": told[number % 3], "label": number % 3}


def paraphrase_rows(rows: int, seed: int) -> Iterator[dict[str, str | int]]:
    """Pairs of sentences that say the same (1) or something else (0), in turn."""
    random = Random(seed)
    for number in range(rows):
        who, action, where = random.choice(WHO), random.choice(OUTDOORS), random.choice(WHERE)
        same, other = _joined(where, who, action), _joined(who, random.choice(MOODS))
        yield {
            "sentence1": _joined(who, action, where),
            "sentence2": same if number % 2 else other,
            "label": number % 2,
        }


def opinion_rows(rows: int, seed: int, *, by_class: bool = False) -> Iterator[dict[str, str | int]]:
    """Reviews that blame (0) or praise (1): in turn, or all of one class first."""
    random = Random(seed)
    for number in range(rows):
        label = int(number >= rows // 2) if by_class else number % 2
        yield {"text": _one_of(random, PRAISE if label else BLAME, ENDINGS, held_out=seed > 0), "label": label}


def topic_rows(rows: int, seed: int) -> Iterator[dict[str, str | int]]:
    """News lines of four topics, in turn."""
    random = Random(seed)
    topics = list(TOPICS.values())
    for number in range(rows):
        label = number % len(topics)
        yield {"text": _one_of(random, topics[label], WHEN[1:], held_out=seed > 0), "label": label}


def plain_rows(rows: int, seed: int) -> Iterator[dict[str, str | int]]:
    """Running text without labels; some lines are empty, as in WikiText."""
    random = Random(seed)
    for _ in range(rows):
        sentence = _joined(random.choice(WHO), random.choice(OUTDOORS), random.choice(WHERE), random.choice(WHEN))
        yield {"text": "" if random.random() < 0.1 else f"{sentence} . {sentence} again ."}


def vocabulary_text() -> list[str]:
    """Every word of every template."""
    parts = [*WHO, *WHERE, *OUTDOORS, *WHEN, *MOODS, *DENIALS, *PRAISE, *BLAME, *ENDINGS, "again ."]
    return [*parts, *(line for lines in TOPICS.values() for line in lines)]


def _one_of(random: Random, begins: Sequence[str], ends: Sequence[str], *, held_out: bool) -> str:
    """One of few sentences; a third of them is kept for the held-out splits, so that no row is in two splits."""
    pairs = [(first, second) for first in range(len(begins)) for second in range(len(ends))]
    first, second = random.choice([pair for pair in pairs if (sum(pair) % 3 == 0) is held_out])
    return _joined(begins[first], ends[second])


def _joined(*parts: str) -> str:
    return " ".join(part for part in parts if part)
