"""The texts in the cells of an Excel workbook."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"

CONTROL = re.compile(r"_x([0-9A-F]{4})_")
"""How a workbook writes a character that XML cannot hold, such as a carriage return."""


def read_cells(workbook: Path) -> dict[str, str]:
    """The text of every cell that has one, by sheet and cell: `Sheet 1!C2`."""
    with zipfile.ZipFile(workbook) as archive:
        strings = [_text(item) for item in _root(archive, "xl/sharedStrings.xml").iter(f"{MAIN}si")]
        return {
            f"{sheet}!{cell}": text
            for sheet, part in _sheets(archive)
            for cell, text in _cells(_root(archive, part), strings)
        }


def _root(archive: zipfile.ZipFile, part: str) -> ElementTree.Element:
    return ElementTree.fromstring(archive.read(part))


def _sheets(archive: zipfile.ZipFile) -> Iterator[tuple[str, str]]:
    """The name of each sheet and the part of the archive that holds it."""
    relations = _root(archive, "xl/_rels/workbook.xml.rels")
    targets = {relation.attrib["Id"]: relation.attrib["Target"] for relation in relations}
    for sheet in _root(archive, "xl/workbook.xml").iter(f"{MAIN}sheet"):
        yield sheet.attrib["name"], f"xl/{targets[sheet.attrib[RELATION]]}"


def _cells(sheet: ElementTree.Element, strings: list[str]) -> Iterator[tuple[str, str]]:
    for cell in sheet.iter(f"{MAIN}c"):
        value = cell.find(f"{MAIN}v")
        if value is not None and value.text and cell.get("t") == "s":
            yield cell.attrib["r"], strings[int(value.text)]


def _text(item: ElementTree.Element) -> str:
    """The text of a shared string, whose parts may have formats of their own."""
    text = "".join(part.text or "" for part in item.iter(f"{MAIN}t"))
    return CONTROL.sub(lambda found: chr(int(found[1], 16)), text).replace("\r\n", "\n")
