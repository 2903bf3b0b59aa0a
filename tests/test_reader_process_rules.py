"""Rules about several processes: data that each of them draws, objects that Accelerate was not given, and streams."""

from __future__ import annotations

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.reading import read_bytes
from tests.support.loops import fixes_of, lines_of
from tests.support.notebooks import notebook

DATA = """
from torch.utils.data import ConcatDataset, DataLoader, IterableDataset, Subset, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler
"""
DRAWN = """
rows = TensorDataset(torch.randn(96, 8), torch.zeros(96))
train, held_out = random_split(rows, [80, 16])
used = {used}
loader = DataLoader(used, sampler=DistributedSampler(used, num_replicas=2, rank=0))
"""


@pytest.mark.parametrize(
    ("used", "lines"),
    [
        ("train", [5]),
        ("Subset(train, range(40))", [5]),
        ("random_split(train, [40, 40])[0]", [5, 6]),
        # of a data set that is put together, all parts are there in some order
        ("ConcatDataset([train, held_out])", []),
        ("rows", []),
        # what else the call is given may be a generator
        ("random_split(rows, [80, 16], **options)[0]", []),
    ],
)
def test_a_draw_is_found_behind_the_parts_that_are_made_of_it(used: str, lines: list[int]) -> None:
    found = lines_of("rank-dependent-data", DATA + DRAWN.format(used=used))
    assert sorted(found) == lines


@pytest.mark.parametrize("sampler", ["RandomSampler(train)", "Own(train)", "None", "spread(train)"])
def test_rows_that_may_not_be_shared_out_are_left_alone(sampler: str) -> None:
    code = "from torch.utils.data import RandomSampler\n" + DATA + DRAWN.format(used="train")
    code = code.replace("DistributedSampler(used, num_replicas=2, rank=0)", sampler)
    assert lines_of("rank-dependent-data", code) == []


def test_nobody_launches_a_notebook_in_several_processes() -> None:
    code = "import torch\n" + DATA + DRAWN.format(used="train")
    rule = next(each.rule for each in load_rules() if each.name == "rank-dependent-data")
    script, cells = (("train.py", code), ("train.ipynb", notebook(code)))
    found = [
        list(rule.check(read_pipeline(read_bytes(name, text.encode()), TargetVersions())))
        for name, text in (script, cells)
    ]
    assert [len(each) for each in found] == [1, 0]


def test_a_generator_is_offered_only_where_torch_has_its_name() -> None:
    code = DATA + DRAWN.format(used="train")
    (fix,) = fixes_of("rank-dependent-data", code)
    assert fix.title == "use the same seed in every process"
    assert fixes_of("rank-dependent-data", "import torch as t\n" + code, prelude="from torch import randn\n") == []


ACCELERATED = """
from accelerate import Accelerator
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
accelerator = Accelerator()
{prepared}
for x, y in loader:
    optimizer.zero_grad()
    accelerator.backward(F.cross_entropy(net(x), y))
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("prepared", "lines"),
    [
        # an optimizer beside a loader of another module, which has a name
        ("from data import loader\nnet, loader = accelerator.prepare(net, loader)", [10]),
        (
            "from data import loader\nfrom log import show\nnet, loader = accelerator.prepare(net, loader)\n"
            "show(loss, net)",
            [12],
        ),
        # a name that nothing binds is as good as one that was imported
        ("net, loader = accelerator.prepare(net, loader)", [9]),
        # nobody knows what was prepared
        ("net, other = accelerator.prepare(net, find(optimizer))", []),
        # other code has the optimizer, alone or in something that holds it
        ("from data import loader\nnet, loader = accelerator.prepare(net, loader)\nregister(optimizer)", []),
        ("from data import loader\nnet, loader = accelerator.prepare(net, loader)\nregister([optimizer])", []),
        (
            "from data import loader\nnet, loader = accelerator.prepare(net, loader)\n"
            "register(parts={'optimizer': optimizer})",
            [],
        ),
        # two accelerators
        ("from data import loader\nother = Accelerator()\nnet, loader = accelerator.prepare(net, loader)", []),
        ("from data import loader", []),
        # another model was prepared
        ("from data import loader\nother, loader = accelerator.prepare(nn.Linear(2, 2), loader)", []),
    ],
)
def test_an_optimizer_that_other_code_may_prepare_is_left_alone(prepared: str, lines: list[int]) -> None:
    assert lines_of("unprepared-object", ACCELERATED.format(prepared=prepared)) == lines


@pytest.mark.parametrize(
    "made",
    ["Accelerator(**options)", "Accelerator(deepspeed_plugin=plugin)", "Accelerator(fsdp_plugin=plugin)", "Fabric()"],
)
def test_an_accelerator_of_unknown_settings_may_prepare_by_itself(made: str) -> None:
    prepared = "from data import loader\nnet, loader = accelerator.prepare(net, loader)"
    code = "from lightning.fabric import Fabric\n" + ACCELERATED.format(prepared=prepared)
    assert lines_of("unprepared-object", code.replace("Accelerator()", made)) == []


LOADERS = """
from torch.utils.data import DataLoader
from accelerate import Accelerator
net = nn.Linear(8, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
accelerator = Accelerator()
rows = DataLoader(data, {given})
{prepared}
for x, y in {over}:
    optimizer.zero_grad()
    accelerator.backward(F.cross_entropy(net(x), y))
    optimizer.step()
"""
ALL = "net, optimizer = accelerator.prepare(net, optimizer)"


@pytest.mark.parametrize(
    ("given", "prepared", "over", "lines"),
    [
        ("batch_size=4", ALL, "rows", [6]),
        ("batch_size=4", ALL + "\nshow(data)", "rows", [6]),
        # the loop goes through something else
        ("batch_size=4", ALL, "others", []),
        # what chooses the rows may share them out
        ("batch_size=4, sampler=own", ALL, "rows", []),
        ("batch_sampler=own", ALL, "rows", []),
        ("**options", ALL, "rows", []),
        ("data.shard(4, rank)", ALL, "rows", []),
        # other code may prepare it
        ("batch_size=4", ALL + "\nprepare(rows)", "rows", []),
        ("batch_size=4", "net, optimizer, others = accelerator.prepare(net, optimizer, others)", "rows", []),
        (
            "batch_size=4",
            "from data import others\nnet, optimizer, o = accelerator.prepare(net, optimizer, others)",
            "rows",
            [],
        ),
        # the optimizer was prepared nowhere either: something else is going on
        ("batch_size=4", "net = accelerator.prepare(net)\nregister(optimizer)", "rows", []),
    ],
)
def test_a_loader_that_may_be_shared_out_is_left_alone(given: str, prepared: str, over: str, lines: list[int]) -> None:
    assert lines_of("unprepared-object", LOADERS.format(given=given, prepared=prepared, over=over)) == lines


STREAM = """
class Numbers(IterableDataset):
    {settings}

    def length(self):
        return unknown()

    def __iter__(self):
        {body}

loader = DataLoader({made}, num_workers=2)
"""


@pytest.mark.parametrize(
    ("settings", "body", "is_found"),
    [
        ("rows = [1, 2, 3]", "return iter(self.rows)", True),
        ("rows = {'a': 1}", "return iter(self.rows)", True),
        ("rows = 8", "yield from range(self.rows)", True),
        ("path = 'rows.txt'", "yield from open(self.path)", True),
        ("path = 'rows.txt'", "for line in open(self.path):\n            yield line.split()", True),
        # functions of other modules may ask for the worker
        ("rows = 8", "yield from split(range(self.rows))", False),
        ("rows = 8", "for row in part_of(range(self.rows)):\n            yield row", False),
        # so may what nobody knows
        ("rows = load()", "return iter(self.rows)", False),
        ("rows = {}", "return iter(self.rows)", False),
        ("rows = 8", "return iter(self.others)", False),
    ],
)
def test_a_stream_that_certainly_gives_all_rows_in_every_worker_is_found(
    settings: str, body: str, is_found: bool
) -> None:
    code = DATA + STREAM.format(settings=settings, body=body, made="Numbers()")
    assert bool(lines_of("duplicated-worker-data", code)) is is_found


def test_a_class_without_an_iterator_of_its_own_is_left_alone() -> None:
    code = DATA + "class Rows(IterableDataset):\n    rows = 8\n\nloader = DataLoader(Rows(), num_workers=2)\n"
    assert lines_of("duplicated-worker-data", code) == []


PLAIN = """
class Numbers({bases}):
    def __iter__(self):
        return iter(range(8))

loader = DataLoader(Numbers(), {given})
"""


@pytest.mark.parametrize(
    ("bases", "given", "is_found"),
    [
        ("IterableDataset", "num_workers=2", True),
        ("IterableDataset", "num_workers=4, worker_init_fn=None", True),
        ("IterableDataset", "num_workers=1", False),
        ("IterableDataset", "num_workers=count", False),
        ("IterableDataset", "num_workers='2'", False),
        ("IterableDataset", "num_workers=2, worker_init_fn=share", False),
        ("IterableDataset", "num_workers=2, **options", False),
        # another base may share the rows out, and what is no stream has no rows to give twice
        ("Shared, IterableDataset", "num_workers=2", False),
        ("torch.nn.Module, IterableDataset", "num_workers=2", False),
        ("torch.utils.data.Dataset", "num_workers=2", False),
    ],
)
def test_only_a_plain_stream_in_several_workers_is_certain(bases: str, given: str, is_found: bool) -> None:
    code = DATA + PLAIN.format(bases=bases, given=given)
    assert bool(lines_of("duplicated-worker-data", code)) is is_found
