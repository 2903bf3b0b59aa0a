"""Images and their masks are listed in two folders and paired by position, and nothing sorts the listings.

`os.listdir` and `glob` return files in the order of the file system: that in which they were written, or that of a hash
of their names. `7.jpg` and `7_mask.png` are then at different places, on some file systems even files of the same name.
Images get the masks of other images: the loss hardly falls, and no error is raised.

## Bad

    import os

    class Scans(torch.utils.data.Dataset):
        def __init__(self, root):
            self.images = os.listdir(f"{root}/images")
            self.masks = os.listdir(f"{root}/masks")

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            image, mask = self.images[index], self.masks[index]  # <- unsorted-listings
            return torch.load(image), torch.load(mask)

## Good

    import os

    class Scans(torch.utils.data.Dataset):
        def __init__(self, root):
            self.images = sorted(os.listdir(f"{root}/images"))
            self.masks = sorted(os.listdir(f"{root}/masks"))

        def __len__(self):
            return len(self.images)

        def __getitem__(self, index):
            image, mask = self.images[index], self.masks[index]
            return torch.load(image), torch.load(mask)

## When it is fine

The name of the mask is made of that of its image:

    import os

    class Scans(torch.utils.data.Dataset):
        def __init__(self, root):
            self.root, self.images = root, os.listdir(f"{root}/images")

        def __getitem__(self, index):
            name = self.images[index]
            return torch.load(f"{self.root}/images/{name}"), torch.load(f"{self.root}/masks/{name}")

## Fix

Asks first: it sorts both listings, which pairs the files only if their names have the same order.

## References

Python documentation, `os.listdir`: "The list is in arbitrary order". Python documentation, `glob.glob`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.unsorted_listings import Paired, paired_listings
from lintrain.rule import (
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    dataclass,
    fixes,
    one_per_location,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The listings in no certain order, each with its code."""

    unsorted: tuple[Location, ...]
    codes: tuple[str, ...]


ABOUT = {False: "listed here, in no certain order", True: "listed here, and sorted"}


class UnsortedListings(Rule[Claim]):
    level = Level.ERROR
    keywords = "listdir|glob|iterdir"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in paired_listings(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(self._report(found, pipeline) for found in paired_listings(pipeline.source))

    def _report(self, found: Paired, pipeline: Pipeline) -> Finding[Claim]:
        unsorted = [each for each in (found.first, found.second) if not each.is_sorted]
        codes = [pipeline.source_of(each.call).code(each.call) for each in unsorted]
        shown = f"`{found.first.name}` and `{found.second.name}`"
        named = shown if len(shown) <= 40 else "two listings"
        about = "each is in any order" if len(unsorted) > 1 else "only one of the two is sorted"
        return self.finding(
            found.location,
            f"{named} are paired, and {about}",
            related=[Related(each.call, ABOUT[each.is_sorted], "origin") for each in (found.first, found.second)],
            help="sort both listings, or make one name of the other",
            claim=Claim(tuple(each.call for each in unsorted), tuple(codes)),
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        pairs = zip(claim.unsorted, claim.codes, strict=True)
        edits = [fixes.Replace(location, f"sorted({code})") for location, code in pairs]
        return fixes.Fix.of("sort both listings", *edits, safe=False)
