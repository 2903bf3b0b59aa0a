"""A loop that was measured trains on until the script evaluates: between its batches, or after all of its epochs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import probe
from tests.test_probe_loops import HEAD

pytestmark = [pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

EPOCHS = """
losses = []
for epoch in range(20):
    model.train()
    for step, (x, y) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""
AFTER = "right = (model(held_out.tensors[0]).argmax(dim=1) == held_out.tensors[1]).sum()\nprint(right)\n"
WITHIN = """
        if step % 10 == 9:
            with torch.no_grad():
                for x, y in eval_loader:
                    nn.functional.cross_entropy(model(x), y)
"""
FULL_BATCH = """
x, y = rows.tensors
for epoch in range(200):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("script", "passes", "with_gradients"),
    [
        (EPOCHS + AFTER, 1, 1),
        (EPOCHS + WITHIN, 2, 0),
        (FULL_BATCH + AFTER, 1, 1),
    ],
)
def test_an_evaluation_that_comes_late_is_seen(script: str, passes: int, with_gradients: int, tmp_path: Path) -> None:
    loop = probe(tmp_path, HEAD + script).run["loop"]
    assert (loop["evaluated"], loop["evaluated_in_train_mode"], loop["recorded_for_nothing"]) == (
        passes,
        passes,
        with_gradients,
    )
    assert loop["steps"] == 4


BY_NEXT = """
for epoch in range(20):
    batches = iter(train_loader)
    for _ in range(len(train_loader)):
        x, y = next(batches)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        for x, y in eval_loader:
            nn.functional.cross_entropy(model(x), y)
"""
PREPARED = "from accelerate import Accelerator\ntrain_loader = Accelerator(cpu=True).prepare(train_loader)\n"


@pytest.mark.parametrize("loaders", ["", PREPARED])
def test_a_loop_that_asks_for_each_batch_with_next_is_followed_to_its_evaluation(loaders: str, tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD.replace("4000", "240") + loaders + BY_NEXT)
    assert (probed.stages["step"], probed.stages["evaluation"]) == ("passed", "passed")
    assert probed.run["loop"]["steps"] == 4


MADE_PER_EPOCH = """
def batches(data):
    return torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)


for epoch in range(3):
    for x, y in batches(rows):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
EVALUATED_TOO = """
    with torch.no_grad():
        for x, y in batches(held_out):
            nn.functional.cross_entropy(model(x), y)
"""


def test_a_loader_that_is_made_in_each_epoch_is_no_evaluation(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + MADE_PER_EPOCH)
    assert (probed.code, probed.stages["step"], probed.stages["evaluation"]) == (0, "passed", "not reached")
    assert [split["argument"] for split in probed.run["splits"]] == ["train_dataset"]


def test_an_evaluation_by_a_loader_that_is_made_in_each_epoch_is_one(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + MADE_PER_EPOCH + EVALUATED_TOO)
    assert probed.stages["evaluation"] == "passed"
    assert [split["argument"] for split in probed.run["splits"]] == ["train_dataset", "eval_dataset"]


IN_PAIRS = """
others = torch.utils.data.DataLoader(held_out.tensors[0], batch_size=16)
for epoch in range(3):
    for u, (x, y) in zip(others, train_loader):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


def test_a_loader_that_gives_each_step_a_second_batch_is_no_evaluation(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + IN_PAIRS)
    assert [split["argument"] for split in probed.run["splits"]] == ["train_dataset"]
    assert probed.stages["evaluation"] == "not reached"


def test_what_fails_because_training_was_short_is_no_error_of_the_script(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + EPOCHS + "assert len(losses) == 20 * len(train_loader)\n")
    assert probed.code == 0


def test_a_name_that_is_missing_after_training_is_an_error_of_the_script(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + EPOCHS + "print(undefined)\n")
    assert (probed.code, probed.stages["evaluation"]) == (1, "failed")


def test_a_script_that_waits_after_training_is_ended(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + EPOCHS + "import time\ntime.sleep(3600)\n")
    assert (probed.code, probed.stages["step"]) == (0, "passed")


SECOND = """
def first():
    for x, y in train_loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def second():
    for x, y in train_loader:
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


first()
if len(rows) > 10_000_000:
    second()
"""


def test_a_loop_that_the_run_did_not_come_to_is_not_judged_by_another(tmp_path: Path) -> None:
    (finding,) = probe(tmp_path, HEAD + SECOND).document["findings"]
    assert (finding["rule"], finding["verdict"]["outcome"]) == ("missing-zero-grad", "inconclusive")
    assert "did not run this line" in finding["verdict"]["reason"]


@pytest.mark.turns(one_in=1)
def test_a_loop_of_a_function_that_ran_is_judged(tmp_path: Path) -> None:
    (finding,) = probe(tmp_path, HEAD + SECOND.replace("first()\nif", "if").replace(" > 10", " < 10")).document[
        "findings"
    ]
    assert (finding["rule"], finding["verdict"]["outcome"]) == ("missing-zero-grad", "confirmed")
