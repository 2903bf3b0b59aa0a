"""Parameters of several modules in one list, and views inside loops."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

TWO = """
encoder = nn.Linear(8, 4)
head = nn.Linear(4, 3)
extra = nn.Linear(3, 3)
{before}
optimizer = optim.Adam({given})
for x, y in loader:
    optimizer.zero_grad()
    loss = F.cross_entropy(extra(head(encoder(x))), y)
    loss.backward()
    optimizer.step()
"""


def left_out(given: str, before: str = "pass") -> list[int]:
    return lines_of("missing-parameters", TWO.format(given=given, before=before))


def test_a_module_that_is_not_in_the_list_is_left_out() -> None:
    assert left_out("[*encoder.parameters(), *head.parameters()]") == [8]


@pytest.mark.parametrize(
    ("given", "before"),
    [
        ("[*encoder.parameters(), *head.parameters(), *extra.parameters()]", "pass"),
        ("[*others, *head.parameters()]", "from parts import others"),
        ("[*head.parameters(), *others]", "others = [p for m in (encoder, extra) for p in m.parameters()]"),
    ],
)
def test_a_list_that_may_hold_the_others_leaves_nobody_out(given: str, before: str) -> None:
    assert left_out(given, before) == []


def test_a_view_that_swaps_axes_is_found_inside_a_loop() -> None:
    code = "for x in loader:\n    rows, steps = x.shape\n    y = x.view(steps, rows)\n"
    assert lines_of("view-for-permute", code) == [3]


def test_the_cache_is_emptied_every_step_inside_a_with_too() -> None:
    code = """
net = nn.Linear(8, 3)
optimizer = optim.Adam(net.parameters())
for x, y in loader:
    with torch.autocast("cuda"):
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
        torch.cuda.empty_cache()
"""
    assert lines_of("synchronized-every-step", code) == [7]
