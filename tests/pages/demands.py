"""What is demanded of a rule's page without running it: each function gives the complaints, none for a good page."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from lintrain.check.one_file import check_source
from lintrain.fix import apply
from lintrain.knowledge.tables import COVERED_PACKAGES, REMOVED_FROM
from lintrain.knowledge.versions import TargetVersions, exactly
from lintrain.model.finding import Finding
from lintrain.model.fixes import Fix
from lintrain.rulebook import RuleFile
from lintrain.source.source import Source
from tests.pages.assembly import Script, assemble

ROOT = Path(__file__).parents[2]

BAD, GOOD, FINE = "Bad", "Good", "When it is fine"
PAGE = "page.py"
LONGEST_MESSAGE = 80
FIX_SECTION = {
    "safe": r"Safe: \S",
    "unsafe": r"Asks first: \S",
    "either": r"Safe (?=.*\. Asks\s+first )",
    "": r"None: \S",
}
"""How the section about the fix starts, by its safety."""
SCOLDING = re.compile(r"\b(?:please|invalid|should probably|you must|illegal|wrongly)\b", re.IGNORECASE)


def lacks_parts(rule: RuleFile) -> list[str]:
    """Parts that the page does not have."""
    manual = rule.manual
    missing = [heading for heading in (BAD, GOOD) if not manual.examples(heading)]
    missing += [] if manual.sections.get("References") else ["References"]
    missing += [] if manual.why else ["why it hurts"]
    if rule.reads_text and not manual.examples(FINE):
        missing.append(f"an example of {FINE!r}, where the text cannot tell")
    if not manual.title.endswith("."):
        missing.append("a first line that is a sentence with its full stop")
    if not (rule.reads_text or rule.reads_evidence):
        missing.append("any of `check`, `verify`, `inspect`")
    said = rule.manual.sections.get("Fix", "").strip()
    if not re.match(FIX_SECTION[rule.fix_safety], said, re.DOTALL):
        missing.append(f"`## Fix`, which says why its fix is {rule.fix_safety or 'none'}; it starts with {said[:20]!r}")
    return [*missing, *_repeated_headings(rule)]


def _repeated_headings(rule: RuleFile) -> list[str]:
    """Headings that stand more than once: of the texts under them only the last would be read."""
    page = ast.get_docstring(ast.parse(rule.path.read_text(encoding="utf-8"))) or ""
    counts = Counter(re.findall(r"^## +(.+?) *$", page, flags=re.MULTILINE))
    return [f"one heading `{heading}` for all, in place of {count}" for heading, count in counts.items() if count > 1]


def lacks_marks(rule: RuleFile) -> list[str]:
    """Bad examples in which no line is marked for this rule."""
    return [
        f"Bad example {number} marks no line with `# <- {rule.name}`"
        for number, script in enumerate(scripts(rule, BAD), start=1)
        if not script.marked_lines(rule.name)
    ]


def misreads_bad(rule: RuleFile) -> list[str]:
    """Lines of Bad that are reported and not marked, or marked and not reported."""
    complaints: list[str] = []
    for script in scripts(rule, BAD) if rule.reads_text else []:
        complaints += differences(Counter(found_lines(rule, script)), script.marked_lines(rule.name), script)
    return complaints


def disturbs_silence(rule: RuleFile, rules: Sequence[RuleFile]) -> list[str]:
    """Findings in Good, of any rule, and in "When it is fine", of this one."""
    good = [(script, rules) for script in scripts(rule, GOOD)]
    fine = [(script, [rule]) for script in scripts(rule, FINE)]
    return [
        f"line {finding.location.line - script.prelude_lines}: {finding.rule}: {finding.message}"
        for script, asked in [*good, *fine]
        for finding in findings_of(asked, script)
    ]


def breaks_convention(rule: RuleFile) -> list[str]:
    """Messages of findings that do not read as the house wants them."""
    return [
        f"{part} {complaint}: {text}"
        for script in scripts(rule, BAD)
        for finding in findings_of([rule], script)
        for part, text in (("message", finding.message), ("why", finding.why), ("help", finding.help))
        for complaint in _complaints_about(part, text)
        if text and not (part == "why" and text == _page_why(rule))
    ]


def _complaints_about(part: str, text: str) -> Iterator[str]:
    if part == "why":
        return reason_complaints(text)
    return text_complaints(text, longest=LONGEST_MESSAGE if part == "message" else None)


def reason_complaints(text: str) -> Iterator[str]:
    """What is wrong with a reason: it is a phrase as a message is, or whole sentences as a page has them."""
    if not text.endswith("."):
        yield from text_complaints(text)
        return
    if text[:1].islower():
        yield "starts with a small letter"
    yield from text_complaints(text[:1].lower() + text[1:-1])


def text_complaints(text: str, longest: int | None = None) -> Iterator[str]:
    """What is wrong with the wording of one message."""
    if "\n" in text:
        yield "takes more than one line"
    if longest is not None and len(text) > longest:
        yield f"has {len(text)} characters, {longest} fit a terminal"
    if text[:1].isupper() and not re.match(r"[A-Z]\w*[A-Z]|[A-Z][\w.]*[(.]|Trainer\b|Keras\b|Python\b", text):
        yield "starts with a capital"
    if text.endswith("."):
        yield "ends with a full stop"
    if SCOLDING.search(text):
        yield "judges its author"
    if text.count("`") % 2:
        yield "has an odd number of backticks"


def mends_badly(rule: RuleFile) -> list[str]:
    """What keeps fix(Bad) from being Good, or from staying the same when fixed again."""
    complaints: list[str] = []
    goods = rule.manual.examples(GOOD)
    mended = 0
    for number, bad in enumerate(rule.manual.examples(BAD) if rule.has_fix and rule.reads_text else []):
        good = goods[number] if number < len(goods) else ""
        script, wanted = assemble(bad, sharing=good), assemble(good, sharing=bad)
        fixes = fixes_of(rule, script.text)
        if not fixes:
            continue
        mended += 1
        fixed = apply(script.text, fixes)
        if not good:
            complaints.append(f"Bad example {number + 1} has a fix and no Good example of the same number")
        elif not same_code(fixed, wanted.text, unused=imports_of(script.text)):
            complaints.append(f"the fix of Bad example {number + 1} does not give Good:\n{fixed}")
        again = fixes_of(rule, fixed)
        if again and apply(fixed, again) != fixed:
            complaints.append(f"the fix of Bad example {number + 1} changes more when applied again")
    return complaints if mended or not rule.has_fix else ["it has a `fix`, and no Bad example is mended by it"]


def scripts(rule: RuleFile, heading: str) -> list[Script]:
    """The examples under a heading, each as a whole script."""
    return [assemble(example) for example in rule.manual.examples(heading)]


def findings_of(rules: Sequence[RuleFile], script: Script) -> list[Finding]:
    """What rules say of a script; a rule that raises fails the test."""
    reading = check_source(Source(PAGE, script.text), rules, installed_versions)
    if reading.crashes or reading.is_exhausted:
        raise AssertionError(f"not read: {reading.crashes or 'out of steps'}")
    return [reported.finding for reported in reading.reported]


def fixes_of(rule: RuleFile, text: str) -> list[Fix]:
    """The fixes that a rule offers for a text."""
    reading = check_source(Source(PAGE, text), [rule], installed_versions)
    return [reported.fix for reported in reading.reported if reported.fix]


def found_lines(rule: RuleFile, script: Script) -> list[int]:
    """The lines that a rule reports."""
    return [finding.location.line for finding in findings_of([rule], script)]


def differences(found: Counter[int], marked: Iterable[int], script: Script) -> list[str]:
    """How the reported lines differ from the marked ones, in lines of the example."""
    wanted = Counter(marked)
    extra = [(line, "is reported and not marked") for line in (found - wanted).elements()]
    lost = [(line, "is marked and not reported") for line in (wanted - found).elements()]
    lines = script.text.splitlines()
    return [
        f"line {line - script.prelude_lines} {what}: {lines[line - 1].strip()}"
        for line, what in sorted([*extra, *lost])
    ]


def same_code(fixed: str, wanted: str, unused: set[str]) -> bool:
    """Whether two texts parse to the same tree, their imports compared as sets; `unused` ones may be left over."""
    needed, there = imports_of(wanted), imports_of(fixed)
    return _body(fixed) == _body(wanted) and needed <= there and there <= needed | unused


def imports_of(text: str) -> set[str]:
    """The imports at the top level of a text, one by one."""
    return {
        ast.dump(ast.ImportFrom(statement.module, [alias], statement.level))
        if isinstance(statement, ast.ImportFrom)
        else ast.dump(ast.Import([alias]))
        for statement in ast.parse(text).body
        if isinstance(statement, ast.Import | ast.ImportFrom)
        for alias in statement.names
    }


def _body(text: str) -> list[str]:
    body = ast.parse(text).body
    return [ast.dump(statement) for statement in body if not isinstance(statement, ast.Import | ast.ImportFrom)]


def _page_why(rule: RuleFile) -> str:
    return " ".join(rule.manual.why.split("\n\n", 1)[0].split())


@cache
def installed_versions() -> TargetVersions:
    """The versions that the pages are about: those installed, and in a quick run those that `pyproject.toml` pins."""
    found: dict[str, str] = {}
    for package in (*COVERED_PACKAGES, *REMOVED_FROM):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found |= {package: pinned_versions()[package]} if package in pinned_versions() else {}
    return exactly(**found)


@cache
def pinned_versions() -> Mapping[str, str]:
    """The versions that the extra `test` pins, by package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = (each.partition("==") for each in project["optional-dependencies"]["test"])
    return {package: version for package, equals, version in pins if equals}
