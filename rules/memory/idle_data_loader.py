"""A loader without workers reads files or tokenizes each row while the model waits.

Without workers, the loader prepares a batch only after the previous step: the device is idle while images are opened or
texts are tokenized row by row. A few workers prepare the next batches during the training step.

## Bad

    class Reviews(torch.utils.data.Dataset):
        def __init__(self, texts, labels):
            self.texts, self.labels = texts, labels

        def __len__(self):
            return len(self.texts)

        def __getitem__(self, index):
            row = tokenizer(self.texts[index], padding="max_length", max_length=16, truncation=True)
            return {"input_ids": torch.tensor(row["input_ids"]), "labels": self.labels[index]}

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    rows = Reviews(raw["train"]["premise"], raw["train"]["label"])
    batches = DataLoader(rows, batch_size=16, shuffle=True)  # <- idle-data-loader
    for batch in batches:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Good

    class Reviews(torch.utils.data.Dataset):
        def __init__(self, texts, labels):
            self.texts, self.labels = texts, labels

        def __len__(self):
            return len(self.texts)

        def __getitem__(self, index):
            row = tokenizer(self.texts[index], padding="max_length", max_length=16, truncation=True)
            return {"input_ids": torch.tensor(row["input_ids"]), "labels": self.labels[index]}

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    rows = Reviews(raw["train"]["premise"], raw["train"]["label"])
    batches = DataLoader(rows, batch_size=16, shuffle=True, num_workers=2)
    for batch in batches:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## When it is fine

The rows are tokenized once in advance, or the number of workers is an option:

    import argparse

    class Reviews(torch.utils.data.Dataset):
        def __init__(self, texts, labels):
            rows = tokenizer(list(texts), padding="max_length", max_length=16, truncation=True)
            self.tokens, self.labels = torch.tensor(rows["input_ids"]), labels

        def __len__(self):
            return len(self.tokens)

        def __getitem__(self, index):
            return {"input_ids": self.tokens[index], "labels": self.labels[index]}

    class Files(Reviews):
        def __getitem__(self, index):
            return {"input_ids": torch.load(f"rows/{index}.pt"), "labels": self.labels[index]}

    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    rows = Reviews(raw["train"]["premise"], raw["train"]["label"])
    files = DataLoader(Files(raw["train"]["premise"], raw["train"]["label"]), num_workers=parser.parse_args().workers)
    for batch in DataLoader(rows, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

A cache processes each row only once:

    class Reviews(torch.utils.data.Dataset):
        def __init__(self, texts, labels):
            self.texts, self.labels, self.cache = texts, labels, {}

        def __len__(self):
            return len(self.texts)

        def __getitem__(self, index):
            if index not in self.cache:
                self.cache[index] = tokenizer(self.texts[index], padding="max_length", max_length=16, truncation=True)
            return {"input_ids": torch.tensor(self.cache[index]["input_ids"]), "labels": self.labels[index]}

    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=3).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    for batch in DataLoader(Reviews(raw["train"]["premise"], raw["train"]["label"]), batch_size=16):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

## Fix

Asks first: workers need memory, and the random numbers change.

## References

PyTorch documentation, "Performance Tuning Guide", section "Enable asynchronous data loading and augmentation".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, loaders, script_text
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.python import Instance, is_missing, literal
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, dataclass, fixes, lazy_pattern

HEAVY = (
    (
        re.compile(r"(\w+\.)*Image\.open|cv2\.imread|imageio\.(v\d\.)?imread|skimage\.io\.imread|(\w+\.)*read_image"),
        "decodes an image",
    ),
    (
        re.compile(r"torchaudio\.load|librosa\.load|(sf|soundfile)\.read|decord\.\w+|(cv2\.)?VideoCapture"),
        "decodes sound or video",
    ),
    (re.compile(r"(self\.)?_?tokenizer(\.(encode|encode_plus|__call__))?"), "tokenizes a text"),
    (re.compile(r"nib(abel)?\.load|pydicom\.(dcmread|read_file)|h5py\.File|rasterio\.open"), "reads a file"),
)
"""Calls that take long for one row, by their code, and what they do."""

CACHES = lazy_pattern(r"cache|memo|in_memory|preload", re.IGNORECASE)
"""Names in classes that cache their rows."""

CHECKS_PLATFORM = r"sys\.platform|os\.name\b|platform\.system|get_ipython|google\.colab"
"""Code that checks the platform, since workers are not available on all of them."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the loader has no `num_workers`, so that the fix can add it."""

    is_default: bool = False


class IdleDataLoader(Rule[Claim]):
    level = Level.NOTE
    keywords = "DataLoader & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if (
            not pipeline.loaders
            or pipeline.source.path.endswith(".ipynb")
            or script_text.mentions(pipeline, CHECKS_PLATFORM)
        ):
            return
        found: dict[Location, Finding[Claim]] = {}
        for feeding in loaders.feedings(pipeline):
            loader, dataset = feeding.loader, feeding.loader.dataset
            if loader.origin is None or not isinstance(dataset, Instance) or not _has_no_workers(loader):
                continue
            heavy = _heavy_call(pipeline, dataset)
            if heavy is not None and not loaders.is_deliberate(pipeline, loader.origin):
                found.setdefault(loader.origin, self._report(loader.origin, *heavy, loader))
        yield from found.values()

    def _report(self, location: Location, call: Location, work: str, loader: Loader) -> Finding[Claim]:
        return self.finding(
            location,
            f"without workers, the model waits while `__getitem__` {work}",
            related=[Related(call, "runs for every row", "work")],
            help="pass `num_workers` to the loader, and on a GPU `pin_memory=True`",
            claim=Claim("num_workers" not in loader.arguments),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.is_default:
            return None
        return fixes.Fix.of("use two workers", fixes.AddArgument(finding.location, "num_workers", "2"), safe=False)


def _has_no_workers(loader: Loader) -> bool:
    """Whether a loader certainly has no workers."""
    workers = loader.value("num_workers")
    return loader.is_complete and (is_missing(workers) or (literal(workers) == 0 and literal(workers) is not False))


def _heavy_call(pipeline: Pipeline, dataset: Instance) -> tuple[Location, str] | None:
    """A slow call that each `__getitem__` of a data set makes, and what it does."""
    cls = dataset.cls
    found = cls.lookup("__getitem__")
    if found is None or cls.has_unknown_base:
        return None
    if any(CACHES.search(expressions.code_of(each)) for each in cls.lineage()):
        return None
    for call in script_text.calls_in_method(pipeline, found[0], "__getitem__"):
        for pattern, work in HEAVY:
            if call.callee and pattern.fullmatch(call.callee.code) and not _is_own_part(dataset, call.callee.code):
                return call.location, work
    return None


def _is_own_part(dataset: Instance, code: str) -> bool:
    """Whether a method is of an object of a class of the script, which may only look words up: `self.tokenizer.encode`.

    Of such a class the name says nothing about its cost.
    """
    owner = code.removeprefix("self.").partition(".")[0]
    part = dataset.attributes.get(owner) if code.startswith("self.") else None
    return isinstance(part, Instance) and not part.cls.has_unknown_base
