"""All workers of a loader use the same random numbers.

A random generator that a data set stores as an attribute is copied to every worker process, with its state. All workers
then use the same random numbers: crops, noise and negative samples repeat from worker to worker, which reduces the
variety of the data. PyTorch seeds its own global generator and that of NumPy in each worker, but not a stored one.

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

or with the global generator, which PyTorch seeds in each worker:

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

A `worker_init_fn` may seed the copy of each worker, and without workers there are no copies:

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

Random numbers that are generated once, before the workers start, are the same in all workers on purpose:

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

Asks first: the fix seeds the generator of each worker with the seed of PyTorch, and one generator per row may be
intended. Offered if the class and its generators are defined at module level in the file of the loader.

## References

PyTorch documentation, "Randomness in multi-process data loading". Measured on torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, script_text
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
"""Functions that create a random generator with its own state."""


class StoredWorkerRng(Rule):
    level = Level.WARNING
    keywords = "DataLoader"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for loader in pipeline.loaders:
            workers = literal(loader.value("num_workers"))
            rows = loader.dataset
            if not isinstance(workers, int) or workers < 2 or not isinstance(rows, Instance) or not loader.is_complete:
                continue
            names = _used_generators(rows) if is_missing(loader.value("worker_init_fn")) else []
            if names and loader.origin is not None:
                yield self._report(pipeline, loader, rows, names, workers)

    def _report(self, pipeline: Pipeline, loader: Loader, rows: Instance, names: list[str], workers: int) -> Finding:
        assert loader.origin is not None
        made = rows.attributes[names[0]].origin
        return self.finding(
            loader.origin,
            f"{workers} workers use the same random numbers from copies of `{names[0]}`",
            related=[
                *([Related(made, "created once, before the workers start", "origin")] if made else []),
                *_seeding(pipeline, loader, rows, names),
            ],
            help="create the generator in the worker: in `__getitem__`, or in a `worker_init_fn`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        for loader in evidence.objects.loaders:
            if loader.copies is not None and loader.generators and not loader.copies.is_stream:
                yield self.finding(
                    loader.location,
                    f"all {loader.workers} workers copy the random generator that the data set stores",
                    help="create the generator in `worker_init_fn`, from `torch.initial_seed()`",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        made = evidence.objects.loaders_at(finding.location)
        read = next((each.copies for each in made if each.copies), None)
        if made and made[0].generators == 0:
            return Verdict.refuted("the data set stores no random generator", generators=0)
        if read is None:
            why = next((each.reason for each in made if each.reason), "")
            return Verdict.inconclusive(why or f"no workers were tested for the {len(made)} loaders of this line")
        numbers = {"read": read.read, "different": read.different, "alike": read.alike}
        if read.different == 1:
            return Verdict.refuted(f"reading {read.read} rows used no stored generator", **numbers)
        if read.alike == read.read:
            return Verdict.confirmed(f"2 workers used the same random numbers for all {read.read} rows", **numbers)
        if read.shared == 0:
            return Verdict.refuted(f"2 workers used different random numbers for all {read.read} rows", **numbers)
        text = f"2 workers used the same random numbers for {read.alike} of {read.read} rows"
        return Verdict.inconclusive(text, **numbers)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        classes = finding.with_role("class")
        if not classes:
            return None
        return fixes.Fix.of(
            "seed the generator in each worker",
            fixes.InsertAfter(classes[0].location, f"\n\n{classes[0].text}"),
            fixes.AddArgument(
                finding.location, "worker_init_fn", classes[0].text.partition("(")[0].removeprefix("def ")
            ),
            fixes.AddImport("torch.utils.data", "get_worker_info"),
            safe=False,
        )


def _used_generators(rows: Instance) -> list[str]:
    """The attributes with a generator that reading a row uses; empty if the class itself distinguishes workers."""
    if any("worker" in expressions.code_of(each) for each in rows.cls.lineage()):
        return []
    found = rows.cls.lookup("__getitem__")
    method = found[1] if found else None
    if not isinstance(method, Function) or rows.cls.lookup("__getstate__") or rows.cls.lookup("__setstate__"):
        return []
    used, stored = script_text.attributes_used(method), script_text.attributes_assigned(method)
    names = dict.fromkeys(name for name in used if name not in stored)
    return [name for name in names if _is_generator(rows.attributes.get(name))]


def _is_generator(value: Value | None) -> bool:
    return isinstance(value, LibraryObject) and value.path in GENERATORS


def _seeding(pipeline: Pipeline, loader: Loader, rows: Instance, names: list[str]) -> list[Related]:
    """The class with the code of a function that seeds the generators of each worker; empty without a fix."""
    name = f"seed_{rows.cls.node.name.lower()}"
    location = script_text.at_top_level(pipeline.source, rows.cls)
    if location is None or script_text.may_be_taken(pipeline.source, name) or "worker_init_fn" in loader.arguments:
        return []
    made = [_seeded(pipeline, rows.attributes[each]) for each in names]
    if None in made:
        return []
    lines = [f"    own.dataset.{each} = {code}" for each, code in zip(names, made, strict=True)]
    code = "\n".join([f"def {name}(worker):", "    own = get_worker_info()", *lines])
    return [Related(location, "each worker has a copy", "class", code)]


def _seeded(pipeline: Pipeline, generator: Value) -> str | None:
    """The code that creates such a generator from the seed of a worker, with the names that the script uses."""
    location = generator.origin
    if not isinstance(generator, LibraryObject) or location is None or location.path != pipeline.source.path:
        return None
    maker = pipeline.code(location).partition("(")[0]
    seeds = {"torch.Generator": "().manual_seed(own.seed)", "numpy.random.RandomState": "(own.seed % 2**32)"}
    return None if generator.path == "numpy.random.Generator" else maker + seeds.get(generator.path, "(own.seed)")
