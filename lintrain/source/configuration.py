"""A training configuration as a source: its tree is the Python that its tool runs for it."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING

from lintrain.source.source import MARK, Source
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.configurations.document import Node, Section
    from lintrain.configurations.kinds import Part
    from lintrain.model.fixes import Fix
    from lintrain.source.suppression import Suppression


COMMENT = lazy_pattern(r"""(?:^|(?<=\s))#.*|"(?:\\.|[^"\\])*"|(?<![\w)])'[^']*'""")


def _comment_alone(line: str) -> str:
    """A line of YAML with what is before its comment as one word, so that comments are found as in Python."""
    found = next((each for each in COMMENT.finditer(line) if each[0].startswith("#")), None)
    code = line if found is None else line[: found.start()]
    masked = "x" * len(code.rstrip()) + code[len(code.rstrip()) :]
    return masked + (found[0] if found is not None else "")


class Configuration(Source):
    """A YAML or JSON file. One that is no training configuration, or that is not valid, is an empty program."""

    def __reduce__(self) -> tuple[type[Source], tuple[object, ...]]:
        """What is sent to another process: the text alone."""
        return Configuration, (self.path, self.text, self.notebook, self.writing)

    def without_tree(self) -> Source:
        """The same source with nothing derived from its text."""
        return Configuration(self.path, self.text, self.notebook, self.writing)

    @cached_property
    def document(self) -> Node | None:
        """The content of the file; None if it cannot be read."""
        from lintrain.configurations.document import NotReadError, read_document

        try:
            return read_document(self.path, self.text)
        except NotReadError:
            return None

    @cached_property
    def parts(self) -> list[Part]:
        """The configurations in it."""
        from lintrain.configurations.kinds import may_configure, parts_of

        if not may_configure(self.text.encode(errors="replace")) or self.document is None:
            return []
        return parts_of(self.document)

    @property
    def sections(self) -> list[Section]:
        """All sections of the configurations in it."""
        from lintrain.configurations.components import sections_of

        return [section for part in self.parts for section in sections_of(part.section)]

    @cached_property
    def tree(self) -> ast.Module:
        """What its tool runs."""
        from lintrain.configurations.program import Program

        program = Program(self.lines)
        for part in self.parts:
            program.is_part = part.is_nested
            part.kind.write(program, part.section)
        return program.module

    def has_content_of(self, text: str) -> bool:
        """Whether another text has the same keys and values."""
        from lintrain.configurations.document import NotReadError, plain, read_document

        try:
            return self.document is not None and plain(read_document(self.path, text)) == plain(self.document)
        except NotReadError:
            return False

    def takes(self, fix: Fix) -> bool:
        """Whether a fix of the program is one of the file."""
        from lintrain.configurations.editing import can_be_edited

        return can_be_edited(self.path, self.text, fix)

    @property
    def is_repaired(self) -> bool:
        """Never: a file that is not valid has no tree."""
        return False

    @property
    def flaws(self) -> tuple[SyntaxError, ...]:
        """None."""
        return ()

    @cached_property
    def is_partial(self) -> bool:
        """Never: the file says all that its tool gets."""
        return False

    @cached_property
    def holds_unit_tests(self) -> bool:
        """Never."""
        return False

    @cached_property
    def suppressions(self) -> tuple[Suppression, ...]:
        """The suppression comments, which are those of YAML too; JSON has none."""
        if self.path.endswith(".json") or MARK not in self.text:
            return ()
        from lintrain.source.suppression import find_suppressions

        lines = [_comment_alone(line) for line in self.lines]
        return find_suppressions(self.path, "\n".join(lines), lines)

    def forget_tree(self) -> None:
        """Free everything that is derived from the text."""
        for made in ("document", "parts"):
            self.__dict__.pop(made, None)
        super().forget_tree()
