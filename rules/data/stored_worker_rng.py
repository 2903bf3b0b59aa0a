"""All workers of a loader draw the same random numbers.

A generator that a data set keeps as an attribute is copied into every worker process, with its state. Each worker then
draws the same numbers as the others: crops, noise and negatives repeat from worker to worker, and there is less variety
than the loss assumes. Numpy's and torch's global generators are seeded anew in each worker; a kept one is not.

## Bad

    class Noisy(torch.utils.data.Dataset):
        def __init__(self):
            self.generator = np.random.default_rng(0)

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return features[index] + self.generator.normal(0, 0.1), targets[index]

    loader = DataLoader(Noisy(), batch_size=2, num_workers=2)  # <- stored-worker-rng
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    from torch.utils.data import get_worker_info

    class Noisy(torch.utils.data.Dataset):
        def __init__(self):
            self.generator = np.random.default_rng(0)

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return features[index] + self.generator.normal(0, 0.1), targets[index]

    def seed_noisy(worker):
        own = get_worker_info()
        own.dataset.generator = np.random.default_rng(own.seed)

    loader = DataLoader(Noisy(), batch_size=2, num_workers=2, worker_init_fn=seed_noisy)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

or with the global generator, which every worker seeds for itself:

    class Noisy(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return features[index] + np.random.normal(0, 0.1), targets[index]

    loader = DataLoader(Noisy(), batch_size=2, num_workers=2)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Each worker may seed its own copy when it starts, and without workers there are no copies:

    class Noisy(torch.utils.data.Dataset):
        def __init__(self):
            self.generator = np.random.default_rng(0)

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.generator.integers(1_000_000)

    def seed(worker):
        torch.utils.data.get_worker_info().dataset.generator = np.random.default_rng(worker)

    seeded = DataLoader(Noisy(), batch_size=2, num_workers=2, worker_init_fn=seed)
    alone = DataLoader(Noisy(), batch_size=2)

Draws that are made once, before there are workers, are the same for all rows on purpose:

    class Shifted(torch.utils.data.Dataset):
        def __init__(self):
            self.generator = np.random.default_rng(0)
            self.shifts = self.generator.normal(size=8)

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.shifts[index]

    loader = DataLoader(Shifted(), batch_size=2, num_workers=2)

## Fix

Asks first: each worker draws numbers of its own then, seeded by torch, and a generator for each row may be meant.
Offered where the class stands in the file of the loader, outside of functions, and the generators are made there.

## References

PyTorch documentation, "Randomness in multi-process data loading". Measured on torch 2.13.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import trainer_methods
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import Function, Instance, LibraryObject, Value, is_missing, literal
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes

GENERATORS = frozenset(
    {
        "numpy.random.default_rng",
        "numpy.random.RandomState",
        "numpy.random.Generator",
        "random.Random",
        "torch.Generator",
    }
)
"""What makes a generator of random numbers with a state of its own."""


class StoredWorkerRng(Rule):
    level = Level.WARNING
    keywords = "DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for loader in pipeline.loaders:
            workers = literal(loader.value("num_workers"))
            rows = loader.dataset
            if not isinstance(workers, int) or workers < 2 or not isinstance(rows, Instance) or not loader.is_complete:
                continue
            drawn = _drawn_from(rows) if is_missing(loader.value("worker_init_fn")) else []
            if drawn and loader.origin is not None:
                yield self._report(pipeline, loader, rows, drawn, workers)

    def _report(self, pipeline: Pipeline, loader: Loader, rows: Instance, names: list[str], workers: int) -> Finding:
        assert loader.origin is not None
        made = rows.attributes[names[0]].origin
        return self.finding(
            loader.origin,
            f"{workers} workers draw the same numbers from copies of `{names[0]}`",
            related=[
                *([Related(made, "made once, before the workers are", "origin")] if made else []),
                *_seeding(pipeline, loader, rows, names),
            ],
            help="make the generator in the worker: in `__getitem__`, or in a `worker_init_fn`",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        made = evidence.objects.loaders_at(finding.location)
        read = next((each.copies for each in made if each.copies), None)
        if made and made[0].generators == 0:
            return Verdict.refuted("the data set keeps 0 generators of random numbers", generators=0)
        if read is None:
            why = next((each.reason for each in made if each.reason), "")
            return Verdict.inconclusive(why or f"of {len(made)} loaders of this line no workers were tried")
        numbers = {"read": read.read, "different": read.different, "alike": read.alike}
        if read.different == 1:
            return Verdict.refuted(f"reading {read.read} rows drew nothing from a kept generator", **numbers)
        if read.alike == read.read:
            told = f"2 workers that read the same {read.read} rows drew the same numbers all the while"
            return Verdict.confirmed(told, **numbers)
        if read.shared == 0:
            return Verdict.refuted(
                f"2 workers that read the same {read.read} rows drew other numbers from the first on", **numbers
            )
        return Verdict.inconclusive(f"2 workers drew the same numbers for {read.alike} of {read.read} rows", **numbers)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        classes = finding.with_role("class")
        if not classes:
            return None
        return fixes.Fix.of(
            "give each worker a generator of its own",
            fixes.InsertAfter(classes[0].location, f"\n\n{classes[0].text}"),
            fixes.AddArgument(
                finding.location, "worker_init_fn", classes[0].text.partition("(")[0].removeprefix("def ")
            ),
            fixes.AddImport("torch.utils.data", "get_worker_info"),
            safe=False,
        )


def _drawn_from(rows: Instance) -> list[str]:
    """The attributes that hold a generator and are used when a row is read; none where the class seeds by worker."""
    if any("worker" in ast.unparse(owner.node) for owner in rows.cls.lineage()):
        return []
    found = rows.cls.lookup("__getitem__")
    method = found[1] if found else None
    if not isinstance(method, Function) or rows.cls.lookup("__getstate__") or rows.cls.lookup("__setstate__"):
        return []
    used = [node for node in trainer_methods.nodes_of(method) if isinstance(node, ast.Attribute)]
    stored = {node.attr for node in used if isinstance(node.ctx, ast.Store)}
    drawn = [node.attr for node in used if _is_generator(rows.attributes.get(node.attr)) and node.attr not in stored]
    return list(dict.fromkeys(drawn))


def _is_generator(value: Value | None) -> bool:
    return isinstance(value, LibraryObject) and value.path in GENERATORS


def _seeding(pipeline: Pipeline, loader: Loader, rows: Instance, names: list[str]) -> list[Related]:
    """A function that gives each worker's copy generators of its own; nothing where that is not plainly right."""
    cls = rows.cls.node
    source, name = pipeline.source, f"seed_{cls.name.lower()}"
    known = any(isinstance(node, ast.Name | ast.FunctionDef) and name in ast.unparse(node) for node in source.nodes)
    if cls not in source.tree.body or known or "worker_init_fn" in loader.arguments:
        return []
    made = [_made_anew(pipeline, rows.attributes[each]) for each in names]
    if None in made:
        return []
    lines = [f"    own.dataset.{each} = {code}" for each, code in zip(names, made, strict=True)]
    code = "\n".join([f"def {name}(worker):", "    own = get_worker_info()", *lines])
    return [Related(source.location(cls), "its copies are in the workers", "class", code)]


def _made_anew(pipeline: Pipeline, generator: Value) -> str | None:
    """The code that makes such a generator from the seed of a worker, as the script writes it."""
    location = generator.origin
    if not isinstance(generator, LibraryObject) or location is None or location.path != pipeline.source.path:
        return None
    maker = pipeline.code(location).partition("(")[0]
    seeds = {"torch.Generator": "().manual_seed(own.seed)", "numpy.random.RandomState": "(own.seed % 2**32)"}
    return None if generator.path == "numpy.random.Generator" else maker + seeds.get(generator.path, "(own.seed)")
