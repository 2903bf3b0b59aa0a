"""Where expressions are found in an edited text: after an edit, only the lines that it changed are searched again.

An expression that stays within a line finds in a line what it found there before, wherever that line is now. Only the
first line is different: without the flag for lines, `^` matches nowhere else.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import field

from lintrain.source.literals import Part, finds, is_found_by_line, lines_found, parts_of
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

WORD = lazy_pattern(r"\w+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Change:
    """An edit: what it changed are the characters from `begin` to `end`, whole lines, which are now `typed`."""

    begin: int
    end: int
    typed: str
    lowered: str
    """`typed` in lower case."""

    @property
    def added(self) -> int:
        """How many characters there are more after the edit."""
        return self.begin + len(self.typed) - self.end

    def moved(self, found: list[int], part: Part, text: str) -> list[int]:
        """Where the lines start in which an expression finds something, from where those of the text before did."""
        first, last = bisect_left(found, self.begin), bisect_left(found, self.end)
        new, added = self._found_in_typed(part, text), self.added
        if not new and first == last and (added == 0 or last == len(found)):
            return found
        return [*found[:first], *new, *(start + added for start in found[last:])]

    def _found_in_typed(self, part: Part, text: str) -> list[int]:
        needed = part.needed
        typed = self.lowered if needed is not None and needed.ignores_case else self.typed
        if needed is None or not any(word in typed for word in needed.words):
            return []
        found, start = list[int](), self.begin
        for line in self.typed.split("\n")[:-1]:
            if part.pattern.search(text, start, start + len(line)) is not None:
                found.append(start)
            start += len(line) + 1
        return found


def change_of(old: str, new: str) -> Change:
    """What an edit changed; the first line counts as changed if another one is before it, or was."""
    before, after = old.split("\n"), new.split("\n")
    first, last = edited_lines(before, after)
    added = len(after) - len(before)
    if first == 0:
        last = max(last, 1, 1 - added)
    begin = sum(map(len, before[:first])) + first
    typed = "".join(f"{line}\n" for line in after[first : last + added])
    return Change(begin, begin + sum(map(len, before[first:last])) + last - first, typed, typed.lower())


def edited_lines(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines are the same before an edit, and which of the old lines is the last one that it changes."""
    most = min(len(old), len(new))
    begin = next((count for count in range(most) if old[count] != new[count]), most)
    same = next((count for count in range(most - begin) if old[-1 - count] != new[-1 - count]), most - begin)
    return begin, len(old) - same


@dataclass(eq=False)
class LatestSearch:
    """What expressions find in the last text of a file, and in the text before it."""

    text: str = ""
    previous: str = ""
    found: dict[Part, list[int]] = field(default_factory=dict["Part", list[int]])
    """Where the lines start in which an expression that was asked for finds something."""
    before: dict[Part, list[int]] = field(default_factory=dict["Part", list[int]])
    change: Change | None = None
    counted: str = ""
    counts: Counter[str] = field(default_factory=Counter[str])
    """How often each word is in the text that was `counted`."""

    def contains(self, pattern: str | re.Pattern[str], text: str) -> bool:
        """Whether a regular expression finds something in this text of the file."""
        self._turn_to(text)
        return any(self._finds(part) for part in parts_of(pattern))

    def words(self, text: str) -> frozenset[str]:
        """The words of this text of the file, each once: those of the edited lines are counted again."""
        self._turn_to(text)
        if text != self.counted:
            change = self.change if self.counted == self.previous else None
            change = change or change_of(self.counted, text)
            for word, count in Counter(WORD.findall(self.counted, change.begin, change.end)).items():
                self.counts[word] -= count
                if not self.counts[word]:
                    del self.counts[word]
            self.counts.update(WORD.findall(change.typed))
            self.counted = text
        return frozenset(self.counts)

    def _turn_to(self, text: str) -> None:
        if text != self.text:
            self.change = change_of(self.text, text)
            self.previous, self.text, self.before, self.found = self.text, text, self.found, {}

    def _finds(self, part: Part) -> bool:
        if not is_found_by_line(part, self.text):
            return finds(part, self.text)
        if part not in self.found:
            known, change = self.before.get(part), self.change
            if known is None or change is None:
                self.found[part] = lines_found(part, self.text)
            else:
                self.found[part] = change.moved(known, part, self.text)
        return bool(self.found[part])
