"""Single pictures that are not here, such as the mask of each picture in a folder that was made."""

from __future__ import annotations

import os
import re
import zlib
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.library import library
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.sizes import SIDE_OF_IMAGES as SIDE

PICTURE = re.compile(r"(?i)\.(jpe?g|png|bmp|tiff?|gif)$")
MASK = re.compile(r"(?i)mask|label|annot|segment|(^|[^a-z])(gt|seg|y)([^a-z]|$)|[._-]gt|gt(fine|coarse)")
"""What the file or the folder of a picture is called whose numbers are classes."""
PARTS = 2


def picture_file(ledger: Ledger, name: str) -> str | None:
    """The file of a picture that is read in place of one that is not here; None for files of other kinds."""
    found = PICTURE.search(name)
    if found is None:
        return None
    numpy, image = library("numpy"), library("PIL.Image")
    # Masks are in a folder of their own, or next to their pictures with another ending.
    parts = name.replace("\\", "/").split("/")[-PARTS:]
    is_mask = MASK.search("/".join(parts)) is not None
    folder = os.path.join(ledger.session.folder("hub"), "picture-files")
    os.makedirs(folder, exist_ok=True)
    # Without loss: in a JPEG the classes of a mask would be others.
    path = os.path.join(folder, f"{zlib.crc32(name.encode())}.png")
    random: Any = numpy.random.default_rng(zlib.crc32(name.encode()))
    side = ledger.corrections.side or SIDE
    # Two classes, which every number of them has; 255 would be none in most.
    shape, most = ((side, side), 2) if is_mask else ((side, side, 3), 256)
    image.fromarray(random.integers(0, most, shape, dtype=numpy.uint8)).save(path)
    what = "a random mask of two classes" if is_mask else "a random image"
    ledger.replace(StandInKind.DATA, parts[0], f"{what} for each file that is read of it")
    return path
