"""A rule made for tests: it finds calls of `mistake` and `gamble`, and can mend both."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from lintrain.model.finding import Finding, Related
from lintrain.model.fixes import Fix, Replace
from lintrain.model.level import Level
from lintrain.pipeline.record import Pipeline
from lintrain.rule import Rule
from lintrain.rulebook import RuleFile

HEAD = "import transformers\n"
"""A script that does not import a library of the field is not read by rules."""


class Planted(Rule):
    level = Level.ERROR
    needs_training = False
    name = "planted"
    stage = "garden"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        source = pipeline.source
        made: Related | None = None
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "made":
                made = Related(source.location(node), "made here")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("mistake", "gamble"):
                location = source.location(node)
                yield self.finding(location, f"`{source.code(location)}` is planted", related=[made] if made else [])

    def fix(self, finding: Finding) -> Fix | None:
        return Fix.of("write `right()`", Replace(finding.location, "right()"), safe="mistake" in finding.message)


class Unwell(Planted):
    name = "unwell"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if "mistake" in pipeline.source.text:
            raise ValueError("no luck today")
        yield from ()


class Slow(Planted):
    name = "slow"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for _ in iter(int, 1):
            pass
        yield from ()


class Clumsy(Planted):
    """Its fix of `gamble()` is one that cannot be written."""

    name = "clumsy"

    def fix(self, finding: Finding) -> Fix | None:
        code = "right()" if "mistake" in finding.message else "right("
        return Fix.of(f"write `{code}`", Replace(finding.location, code), safe=True)


class OnlyMeasured(Rule):
    level = Level.WARNING
    name = "only-measured"
    stage = "garden"


PAGE = """A call that was planted.

It hurts every test
that meets it.

And more is said about it.

## Bad

    mistake()  # <- planted
"""


def rule_file(kind: type[Rule]) -> RuleFile:
    return RuleFile(Path("rules/garden") / f"{kind.name}.py", kind(), PAGE)


PLANTED = rule_file(Planted)
UNWELL = rule_file(Unwell)
SLOW = rule_file(Slow)
CLUMSY = rule_file(Clumsy)
ONLY_MEASURED = rule_file(OnlyMeasured)
