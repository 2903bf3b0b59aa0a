"""What is told of a rule by the text of its file is what the rule itself says."""

from __future__ import annotations

from pathlib import Path

from lintrain.check.one_file import check_source
from lintrain.rule import Rule
from lintrain.rulebook import RuleFile, load_rules
from lintrain.source.project import Project
from lintrain.source.source import Source
from lintrain.verdicts.endings.explaining import kinds
from tests.pages.demands import installed_versions
from tests.support.stages import EVERY_STAGE

RULES = load_rules()

LOOP = """
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in batches:
    loss = model(batch).sum()
    loss.backward()
    optimizer.step()
"""


@EVERY_STAGE
def test_the_text_of_a_rule_tells_what_it_needs(rules: list[RuleFile]) -> None:
    for file in rules:
        from_outside, rule = RuleFile(file.path), file.rule
        assert " & ".join("|".join(group) for group in from_outside.keywords) == rule.keywords, file.name
        assert from_outside.reads_text is (type(rule).check is not Rule.check), file.name
        assert from_outside.is_preview is rule.is_preview, file.name
        assert from_outside.needs_training is rule.needs_training, file.name
        assert from_outside.judges_networks is rule.judges_networks, file.name
        assert not (rule.judges_networks and rule.needs_training), file.name
        assert from_outside.matters_in_tests is rule.matters_in_tests, file.name
        assert rule.needs_training or "prescreen" in vars(type(rule)) or rule.keywords, file.name


def test_a_preview_rule_is_known_without_its_code(tmp_path: Path) -> None:
    path = tmp_path / "early.py"
    text = "from __future__ import annotations\n\n\nclass Early(Rule):\n    level = Level.NOTE\n    is_preview = True\n"
    path.write_text(f'"""A page."""\n\n{text}    keywords = "fit"\n')
    early, *others = [RuleFile(path), *(RuleFile(rule.path) for rule in RULES)]
    assert early.is_preview
    assert [each.name for each in (early, *others) if each.is_preview and each.is_loaded] == []


def test_a_rule_is_loaded_only_where_its_words_are_said() -> None:
    with_backward = [rule for rule in RULES if rule.name in {"missing-zero-grad", "raw-dataset"}]
    fresh = [RuleFile(rule.path) for rule in with_backward]
    reading = check_source(Source("train.py", LOOP), fresh, installed_versions)
    assert [one.finding.rule for one in reading.reported] == ["missing-zero-grad"]
    assert {rule.name: rule.is_loaded for rule in fresh} == {"missing-zero-grad": True, "raw-dataset": False}


def test_words_said_by_a_module_of_the_script_count(tmp_path: Path) -> None:
    (tmp_path / "steps.py").write_text(
        "def run(model, optimizer, batches):\n    for batch in batches:\n        loss = model(batch).sum()\n"
        "        loss.backward()\n        optimizer.step()\n"
    )
    script = tmp_path / "train.py"
    text = LOOP.partition("for batch")[0] + "from steps import run\nrun(model, optimizer, batches)\n"
    script.write_text(text)
    rules = [RuleFile(rule.path) for rule in RULES if rule.name == "missing-zero-grad"]
    reading = check_source(Source(str(script), text), rules, installed_versions, Project())
    assert [Path(one.finding.location.path).name for one in reading.reported] == ["steps.py"]


def test_the_page_about_probes_lists_the_rules_that_no_run_shows() -> None:
    page = (Path(__file__).parent.parent / "docs" / "probe.md").read_text("utf-8")
    section = page.partition("## What a run cannot show\n")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = sorted(name.strip(" `") for cell in cells for name in cell.split(","))
    methods = ("verify", "suspects", "inspect")
    explained = {kind.page for kind in kinds()}
    silent = [
        rule.name
        for rule in RULES
        if rule.name not in explained and all(getattr(type(rule.rule), m) is getattr(Rule, m) for m in methods)
    ]
    assert listed == sorted(silent)
    assert f"These {len(silent)} are" in section
