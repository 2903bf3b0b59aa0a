"""Edits of a configuration file: keys are changed in its text, so that comments and layout stay as they are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.configurations.components import sections_of
from lintrain.configurations.document import Entry, Node, NotReadError, Section, quoted, read_document
from lintrain.configurations.kinds import parts_of
from lintrain.model.fixes import AddArgument, Edit, Fix, RemoveArgument, RenameArgument, Replace, SetArgument
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


class NotEditableError(Exception):
    """An edit that has no counterpart in the file."""


@dataclass(frozen=True, slots=True)
class Change:
    """New text for a range of the file, in characters from its start."""

    start: int
    end: int
    text: str


def edited(path: str, text: str, fixes: Sequence[Fix]) -> str:
    """The text with these fixes; of fixes that touch the same range only the first; raises NotEditableError."""
    try:
        editor = _Editor(path, text, read_document(path, text))
    except NotReadError as error:
        raise NotEditableError(str(error)) from error
    changes: list[Change] = []
    for fix in fixes:
        wanted = [each for edit in fix.edits for each in editor.changes(edit)]
        if not any(one.start < other.end and other.start < one.end for one in wanted for other in changes):
            changes.extend(each for each in wanted if each not in changes)
    for change in sorted(changes, key=lambda each: each.start, reverse=True):
        text = text[: change.start] + change.text + text[change.end :]
    try:
        read_document(path, text)
    except NotReadError as error:
        raise NotEditableError(f"the fixed text is not valid: {error}") from error
    return text


def can_be_edited(path: str, text: str, fix: Fix) -> bool:
    """Whether the file has what a fix changes."""
    try:
        return edited(path, text, [fix]) != text
    except NotEditableError:
        return False


class _Editor:
    """Finds what an edit is about in one file."""

    def __init__(self, path: str, text: str, document: Node) -> None:
        self.text = text
        self.lines = text.split("\n")
        self.is_json = path.endswith(".json")
        self.sections = list(sections_of(document))
        self.foreign = [part.section.location for part in parts_of(document) if part.kind.has_own_names]
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        self.starts = starts

    def changes(self, edit: Edit) -> Iterator[Change]:
        """The changes of the text that make an edit; raises NotEditableError."""
        match edit:
            case RenameArgument(call, name, new_name, new_value):
                entry = self._entry(call, name)
                yield self._at(entry.key_location, self._key(new_name, entry))
                if new_value is not None:
                    yield self._at(entry.value.location, self._value(new_value))
            case RemoveArgument(call, name):
                yield self._removal(self._section(call, name), self._entry(call, name))
            case AddArgument(call, name, value):
                yield from self._addition(call, name, value)
            case Replace(location, code):
                yield from self._replacement(location, code)
            case SetArgument(location, name, value):
                yield from self._replacement(location, f"{name}={value}")
            case _:
                raise NotEditableError("the edit is one of Python")

    def _section(self, call: Location, name: str) -> Section:
        """The section that a call was made of: the one at its location, else the innermost around it with the key."""
        exact = [each for each in self.sections if each.location == call and each.entry(name)]
        around = [each for each in self.sections if each.location.holds(call) and each.entry(name)]
        if not (found := [*exact, *reversed(around)]):
            raise NotEditableError(f"there is no key `{name}`")
        return found[0]

    def _entry(self, call: Location, name: str) -> Entry:
        entry = self._section(call, name).entry(name)
        if entry is None or not entry.is_own:
            raise NotEditableError(f"the key `{name}` comes from an alias")
        return entry

    def _addition(self, call: Location, name: str, value: str) -> Iterator[Change]:
        section = next((each for each in self.sections if each.location == call), None)
        own = [each for each in section.entries if each.is_own] if section else []
        if section is None or not own or call in self.foreign:
            raise NotEditableError("the argument is no key of the file")
        if section.entry(name) is not None:
            return
        last = own[-1]
        end = self._offset(last.value.location.end_line, last.value.location.end_column)
        written = f"{self._key(name, last)}: {self._value(value)}"
        is_alone = not self.lines[last.key_location.line - 1][: last.key_location.column - 1].strip()
        indent = " " * (last.key_location.column - 1)
        if self._is_flow(section):
            yield Change(end, end, f",\n{indent}{written}" if is_alone else f", {written}")
            return
        end = self.starts[last.location.end_line] - 1
        yield Change(end, end, f"\n{indent}{written}")

    def _removal(self, section: Section, entry: Entry) -> Change:
        own = [each for each in section.entries if each.is_own]
        index = own.index(entry)
        start, end = self._range(entry.location)
        if self._is_flow(section):
            if index + 1 < len(own):
                return Change(start, self._range(own[index + 1].location)[0], "")
            return Change(self._range(own[index - 1].location)[1] if index else start, end, "")
        line = entry.key_location.line
        if self.lines[line - 1][: entry.key_location.column - 1].strip() or len(own) == 1:
            raise NotEditableError("the key is the first of an item, or the only one")
        return Change(self.starts[line - 1], min(self.starts[entry.location.end_line], len(self.text)), "")

    def _replacement(self, location: Location, code: str) -> Iterator[Change]:
        entry = next((each for part in self.sections for each in part.entries if each.location == location), None)
        name, value = _parts_of(code)
        if entry is not None and entry.is_own and name is not None:
            yield self._at(entry.key_location, self._key(name, entry))
            yield self._at(entry.value.location, self._value(value))
            return
        if entry is not None and entry.is_own:
            yield self._at(entry.value.location, self._value(value))
            return
        values = [each.value for part in self.sections for each in part.entries if each.is_own]
        if name is not None or not any(each.location == location for each in values):
            raise NotEditableError("there is no such value in the file")
        yield self._at(location, self._value(value))

    def _is_flow(self, section: Section) -> bool:
        """Whether a section is written in braces."""
        start = self._offset(section.location.line, section.location.column)
        return self.text[start : start + 1] == "{"

    def _at(self, location: Location, text: str) -> Change:
        return Change(*self._range(location), text)

    def _range(self, location: Location) -> tuple[int, int]:
        start = self._offset(location.line, location.column)
        return start, self._offset(location.end_line, location.end_column)

    def _offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column - 1

    def _key(self, name: str, like: Entry) -> str:
        """A key in the quotes of another one."""
        start, _ = self._range(like.key_location)
        quote = self.text[start : start + 1]
        return f"{quote}{name}{quote}" if quote in ('"', "'") else name

    def _value(self, code: str) -> str:
        """A literal of Python as the file has it."""
        import json

        try:
            value = ast.literal_eval(code)
        except (ValueError, SyntaxError) as error:
            if code in self.text and re.fullmatch(r"[\w./-]+", code):
                return code  # the text of a value of this file
            raise NotEditableError(f"`{code}` is no value") from error
        if isinstance(value, float):
            # Without a point YAML 1.1 reads a text: `2e-5`.
            return code if "." in code or "e" not in code else code.replace("e", ".0e")
        return json.dumps(value) if self.is_json else quoted(value)


def _parts_of(code: str) -> tuple[str | None, str]:
    """The name and value of `name=value`, or None and the code."""
    try:
        call = ast.parse(f"_({code})", mode="eval").body
    except SyntaxError as error:
        raise NotEditableError(f"`{code}` is no value") from error
    match call:
        case ast.Call(args=[], keywords=[ast.keyword(arg=str(name), value=value)]):
            return name, ast.unparse(value)
        case _:
            return None, code
