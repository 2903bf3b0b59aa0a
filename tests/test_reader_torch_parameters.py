"""Which parameters an optimizer has: those of its modules when it was made."""

from __future__ import annotations

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.events import Act
from lintrain.read import read_pipeline
from lintrain.source.source import Source
from tests.support.loops import lines_of

TRAIN = """
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
RESNET = """
import torchvision
net = torchvision.models.resnet18(weights="DEFAULT")
optimizer = optim.SGD(net.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    "change",
    [
        "net.fc = nn.Linear(512, 3)",
        "net.fc = nn.Sequential(nn.Dropout(0.2), nn.Linear(net.fc.in_features, 3))",
        "net.layer4[1] = nn.Conv2d(3, 3, 3)",
        "if args.head:\n    net.fc = nn.Linear(512, 3)",
    ],
)
def test_a_part_that_comes_after_the_optimizer_is_not_trained(change: str) -> None:
    assert lines_of("stale-parameters", f"{RESNET}{change}{TRAIN}") == [3]


@pytest.mark.parametrize(
    "change",
    [
        "net.fc = nn.Identity()",
        "net.fc = nn.Sequential(nn.Dropout(0.1), net.fc)",
        "net.fc = make_head()",
        "net.fc.weight = net.embedding.weight",
        "net = nn.DataParallel(net)",
        "net = net.half().cuda()",
        "net.fc = nn.Linear(512, 3)\nhead = optim.SGD(net.fc.parameters(), lr=0.1)",
        "net.fc = nn.Linear(512, 3)\noptimizer.add_param_group({'params': net.fc.parameters()})",
        "net.fc = nn.Linear(512, 3)\noptimizer = optim.SGD(net.parameters(), lr=0.1)",
        "other = torchvision.models.resnet18()\nother.fc = nn.Linear(512, 3)",
    ],
)
def test_what_leaves_the_parameters_or_gives_them_to_an_optimizer_is_fine(change: str) -> None:
    assert lines_of("stale-parameters", f"{RESNET}{change}{TRAIN}") == []


def test_branches_that_exclude_each_other_do_not_follow_each_other() -> None:
    code = """
import torchvision
net = torchvision.models.resnet18()
if args.resume:
    optimizer = optim.SGD(net.parameters(), lr=0.1)
else:
    net.fc = nn.Linear(512, 3)
    optimizer = None
"""
    assert lines_of("stale-parameters", code + TRAIN) == []


@pytest.mark.parametrize(
    "parameters",
    [
        "[*body.parameters(), *head.parameters()]",
        "list(body.parameters()) + list(head.parameters())",
        "itertools.chain(body.parameters(), head.parameters())",
    ],
)
def test_a_loop_over_the_parameters_of_several_modules_freezes_each_of_them(parameters: str) -> None:
    text = (
        "import itertools\nfrom torch import nn\nbody, head = nn.Linear(8, 8), nn.Linear(8, 3)\n"
        f"for parameter in {parameters}:\n    parameter.requires_grad = False\n"
    )
    pipeline = read_pipeline(Source("t.py", text), TargetVersions())
    frozen = [event.subject.origin for event in pipeline.acts(Act.FREEZE)]
    assert [pipeline.code(origin) for origin in frozen if origin] == ["nn.Linear(8, 8)", "nn.Linear(8, 3)"]
