"""Loops without a backward pass: which calls in them could compute gradients all the same."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

MADE = "net = nn.Linear(8, 3)\noptimizer = optim.Adam(net.parameters())\n"
LOOP = """for batch in loader:
    {before}
    loss = F.cross_entropy(net(batch), batch)
    {after}
    optimizer.step()
"""


def reported(before: str = "pass", after: str = "pass") -> list[int]:
    return lines_of("missing-backward", MADE + LOOP.format(before=before, after=after))


@pytest.mark.parametrize(
    "before",
    [
        "batch = {name: tensor.to(device) for name, tensor in batch.items()}",
        "weights = batch.pop('weights')",
        "packed = nn.utils.rnn.pack_padded_sequence(batch, lengths)",
        "order = torch.randperm(8).tolist()",
        "if accelerator.sync_gradients:\n        pass",
    ],
)
def test_calls_that_compute_no_gradients_hide_no_missing_backward(before: str) -> None:
    assert len(reported(before)) == 1


@pytest.mark.parametrize(
    "after",
    [
        "engine.learn(loss)",
        "differentiate(loss)",
        "torch.func.vjp(net, batch)",
        "grads = torch.autograd.grad(loss, net.weight)",
        "manager.clip_and_backward(loss)",
    ],
)
def test_calls_that_may_compute_gradients_are_trusted(after: str) -> None:
    assert reported(after=after) == []


def test_looking_at_sync_gradients_holds_no_gradients_back() -> None:
    code = """
from accelerate import Accelerator
accelerator = Accelerator(gradient_accumulation_steps=2)
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
for x, y in loader:
    accelerator.backward(F.cross_entropy(net(x), y))
    if accelerator.sync_gradients:
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
"""
    assert lines_of("missing-accumulate-context", code) == [7]


@pytest.mark.parametrize(("name", "lines"), [("testloader", [5]), ("valset", [5]), ("trainloader", []), ("reset", [])])
def test_names_without_a_mark_between_their_words_say_what_is_evaluated(name: str, lines: list[int]) -> None:
    code = "net = nn.Sequential(nn.Linear(8, 3), nn.Dropout())\nnet.eval()\nright = 0\n"
    code += f"for x, y in {name}:\n    right += (net(x) == y).sum()\n"
    assert lines_of("missing-no-grad", code) == lines
