"""A slice of what `python -m tests.growth` searches: costs that were steep once, and the sharpest forms."""

from __future__ import annotations

import time

import pytest

from lintrain.check import one_file
from lintrain.knowledge.versions import find_versions
from lintrain.rulebook import load_rules
from lintrain.source.source import Source
from tests.growth import measure
from tests.growth.__main__ import all_forms
from tests.growth.form import Form, blocks, repeated
from tests.growth.measure import costs_of, functions_of, is_steep, steep_stages, warm_up

ENOUGH = 0.4
"""CPU seconds after which a form is not repeated more often here."""

SLICE = (
    "in-loop-backward-and-step",
    "class-two-bases",
    "module-chain",
    "attributes-imported",
    "loader-of-tensors",
    "arguments-unknown",
    "page-unsaved-model-bad",
    "page-iterable-without-max-steps-bad",
)


@pytest.fixture(scope="module")
def forms() -> dict[str, Form]:
    found = {form.name: form for form in all_forms()}
    warm_up(found["assignment"])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", SLICE)
def test_the_cost_of_a_form_grows_as_its_size(forms: dict[str, Form], name: str) -> None:
    steep = steep_stages(forms[name], ENOUGH)
    assert {stage: (costs.exponent, costs.points) for stage, costs in steep.items()} == {}


def test_forms_are_many_and_each_has_a_name_of_its_own(forms: dict[str, Form]) -> None:
    assert len(forms) == len(all_forms()) > 700


def test_a_form_grows_with_the_number_of_its_repetitions() -> None:
    assert repeated("x", "x$ = x~", head="").text(3) == "x0 = x0\nx1 = x0\nx2 = x1\n"
    assert blocks("x", "if a$:", "pass", "else: b()", head="").text(2) == (
        "if a0:\n if a1:\n  pass\n else: b()\nelse: b()\n"
    )


def test_a_square_cost_is_found_with_the_function_that_takes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    form = repeated("lines", "x = 1", head="")
    monkeypatch.setattr(measure, "STAGES", {"check": lambda checked: list(_pairs(checked.given.raw))})
    costs = costs_of(form, ENOUGH)["check"]
    assert costs.exponent > measure.STEEPEST
    assert is_steep(costs)
    assert any("test_growth.py" in line for line in functions_of(form, costs.steepest_count, "check"))


def _pairs(raw: bytes) -> list[int]:
    lines = raw.splitlines()
    return [sum(map(len, lines)) for _ in lines]


SECTION = """
def encode$(batch):
    return tok(batch["text"], truncation=True)

data = raw.map(encode$, batched=True)
data$ = data.remove_columns(["text"])
model = AutoModelForSequenceClassification.from_pretrained("gpt2")
args = TrainingArguments("out$", learning_rate=0.1, num_train_epochs=$)
trainer = Trainer(model=model, args=args, train_dataset=data["train"], eval_dataset=data["test"])
trainer.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
loader = DataLoader(data$["train"], batch_size=8)
for batch in loader:
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
model.eval()
for batch in loader:
    out = model(**batch)
    print(out.logits.argmax(-1))
"""


@pytest.mark.slow
def test_a_script_of_twenty_times_the_lines_takes_at_most_twenty_five_times_as_long(
    forms: dict[str, Form], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert forms
    monkeypatch.setattr(one_file, "SECONDS", 100.0)
    sections = repeated("sections", SECTION)
    targets, rules = find_versions("/"), load_rules()

    def seconds(count: int) -> float:
        source = Source("train.py", sections.text(count))
        began = time.thread_time()
        reading = one_file.check_source(source, rules, lambda: targets)
        assert len(reading.reported) > count
        return time.thread_time() - began

    seconds(20)
    assert min(seconds(400) for _ in range(2)) < 25 * max(seconds(20) for _ in range(3))
