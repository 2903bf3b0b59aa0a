"""The samples of rules beside their pages (`tests/pages/samples.py`): what is close to a mistake, and what is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.check.one_file import first_paragraph
from lintrain.rulebook import RuleFile, load_rules
from tests.pages import samples
from tests.pages.samples import FOLDER, findings_of, misreads_samples, samples_of

RULES = {rule.name: rule for rule in load_rules()}
LONGEST_OWN = 260
"""Characters of the reason that a finding gives itself."""

FILES = sorted(FOLDER.glob("*.md"))


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_the_rule_says_of_its_samples_what_they_demand(name: str) -> None:
    rule: RuleFile = RULES[name]
    assert samples_of(FOLDER / f"{name}.md")
    assert misreads_samples(rule) == []


LONGEST_REASON = 420
"""The characters of a page's reason that surely is about one mistake; a longer one may list several."""

SHARING = frozenset({"fp16-weights-with-scaler", "missing-labels", "plain-backward", "wrong-state"})
"""Rules with a longer reason that their findings share."""

SEVERAL = frozenset(
    {
        *("constant-condition", "ineffective-setting", "wrong-attention-mask", "wrong-average", "wrong-contrast"),
        *("wrong-loss-sign", "wrong-noise", "wrong-return"),
    }
)
"""Rules whose pages say what their mistakes have in common."""

LONG = {name for name, rule in RULES.items() if len(first_paragraph(rule.manual.why)) > LONGEST_REASON}


@pytest.mark.parametrize("name", sorted(LONG - SHARING | SEVERAL))
def test_a_finding_of_one_of_several_mistakes_gives_its_own_reason(name: str) -> None:
    assert {one.message for one in findings_of(RULES[name]) if not 0 < len(one.why) <= LONGEST_OWN} == set()


CLEARED = """What is cleared is right.

```python
for x, y in loader:
    optimizer.zero_grad()
    criterion(net(x), y).backward()
    optimizer.step()
```
"""
FORGOTTEN = """
```python
for x, y in loader:
    criterion(net(x), y).backward()  # <- 3 steps with the sum
    optimizer.step()
```

```python mended
for x, y in loader:
    optimizer.zero_grad()
    criterion(net(x), y).backward()
    optimizer.step()
```
"""


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (CLEARED + FORGOTTEN, ""),
        (CLEARED.replace("y).backward()", "y).backward()  # <-"), "is marked and not reported"),
        (CLEARED.replace("    optimizer.zero_grad()\n", ""), "is reported and not marked"),
        (FORGOTTEN.replace("the sum", "the mean"), "`3 steps with the mean` is not said"),
        (FORGOTTEN.replace("# <- 3", "# <- 2"), "`2 steps with the sum` is not said"),
        (FORGOTTEN.replace("zero_grad()", "zero_grad(False)"), "its fixes give other code"),
    ],
    ids=["as they are", "lost", "extra", "other words", "other line", "other code"],
)
def test_a_sample_that_is_not_met_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    (tmp_path / "missing-zero-grad.md").write_text(text)
    monkeypatch.setattr(samples, "FOLDER", tmp_path)
    complaints = misreads_samples(RULES["missing-zero-grad"])
    assert len(complaints) == bool(complaint)
    assert complaint in "".join(complaints)


def test_a_sample_is_read_for_the_versions_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "some-rule.md"
    path.write_text("```python torch==2.4.0 trl==0.12.0\nx = 1\n```\n\n```python mended\nx = 2\n```\n")
    (sample,) = samples_of(path)
    assert (sample.line, sample.code, sample.mended) == (1, "x = 1\n", "x = 2\n")
    assert dict(sample.versions) == {"torch": "2.4.0", "trl": "0.12.0"}
    path = tmp_path / "other-rule.md"
    path.write_text("```python mendd\nx = 1\n```\n")
    with pytest.raises(ValueError, match="mendd"):
        samples_of(path)
