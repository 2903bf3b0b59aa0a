"""The files that findings are about: a list of them, links from a finding to its line, and each file with its lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lintrain.check.result import Reported
from lintrain.model.location import Location
from lintrain.report.page.markup import Markup, joined, tag
from lintrain.report.text.frame import count
from lintrain.report.text.style import clip, printable
from lintrain.source.source import FindSource, Source
from lintrain.text import shown

MOST_LINES = 3000
"""Lines of a file that are shown; a longer one has only the code at its findings."""

MOST_OF_ALL = 20_000
LONGEST_LINE = 400


class Files:
    """The files of a page by number, and the findings on their lines."""

    def __init__(self, judged: Sequence[Reported], find_source: FindSource, first: Iterable[str] = ()) -> None:
        self._judged = judged
        self._sources: dict[str, Source | None] = {}
        for path in (*first, *(one.finding.location.path for one in judged)):
            self._sources.setdefault(path, find_source(path))
        self._numbers = {path: number for number, path in enumerate(self._sources, start=1)}
        self._listed = self._with_lines()

    def _with_lines(self) -> frozenset[str]:
        """The files that are shown whole: those of moderate length, and no notebook."""
        left, listed = MOST_OF_ALL, set[str]()
        for path, source in self._sources.items():
            lines = len(source.lines) if source is not None and source.notebook is None else 0
            if 0 < lines <= min(MOST_LINES, left):
                left -= lines
                listed.add(path)
        return frozenset(listed)

    def link(self, location: Location, text: str) -> Markup:
        """The text of a location, as a link to its line where the file is on the page."""
        code = tag("code", text)
        if location.path not in self._listed:
            return code
        return tag("a", code, href=f"#{self._line(location.path, location.line)}")

    def _line(self, path: str, line: int) -> str:
        return f"file-{self._numbers[path]}-line-{line}"

    def overview(self) -> Markup | None:
        """The list of the files with the number of their findings, if there are several."""
        by_file = self._by_file()
        if len(by_file) < 2:
            return None
        items = [
            tag(
                "li",
                tag("a", tag("code", shown(path)), href=f"#findings-{self._numbers[path]}"),
                f" {count(len(found), 'finding')}",
            )
            for path, found in by_file.items()
        ]
        return tag("nav", tag("h2", "Files"), tag("ul", items), aria_label="files", class_="files")

    def name(self, path: str) -> str:
        """The name of the place where the findings of a file begin."""
        return f"findings-{self._numbers[path]}"

    def _by_file(self) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, one in enumerate(self._judged, start=1):
            found.setdefault(one.finding.location.path, []).append(number)
        return found

    def listings(self) -> Markup | None:
        """Each file, folded: its lines, with links to the findings on them."""
        if not self._listed:
            return None
        folded = [
            self._listing(path, source) for path, source in self._sources.items() if path in self._listed and source
        ]
        return tag("section", tag("h2", "Code"), folded)

    def _listing(self, path: str, source: Source) -> Markup:
        found: dict[int, list[int]] = {}
        for number in self._by_file().get(path, ()):
            found.setdefault(self._judged[number - 1].finding.location.line, []).append(number)
        return tag(
            "details",
            tag("summary", tag("code", shown(path)), f", {count(len(source.lines), 'line')}"),
            tag("pre", self._lines(path, source.lines, found), class_="frame", tabindex="0"),
            class_="listing",
        )

    def _lines(self, path: str, lines: Sequence[str], found: Mapping[int, Sequence[int]]) -> Iterator[Markup]:
        gutter = len(str(len(lines)))
        for number, line in enumerate(lines, start=1):
            marks = found.get(number, ())
            label = f"{number:>{gutter}}"
            head = tag("a", label, href=f"#finding-{marks[0]}") if marks else label
            yield joined(
                tag(
                    "span",
                    tag("span", head, " ", class_="gutter"),
                    clip(printable(line), LONGEST_LINE),
                    id=self._line(path, number),
                    class_="line found" if marks else "line",
                ),
                "\n",
            )
