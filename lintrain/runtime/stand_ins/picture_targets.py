"""What a data set of pictures gives with each of them: a class, a mask, attributes, boxes, or captions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lintrain.knowledge.stand_in_facts import table
from lintrain.runtime.child.library import library

MASKS = ("Cityscapes", "SBDataset", "VOCSegmentation")
VOC = ("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow")
CAPTIONS = 5
"""Of each picture of COCO and Flickr."""


def kind_of_target(name: str, side: int, classes: int, given: Mapping[str, Any]) -> Callable[[int, int], Any]:
    """A function of a label and the number of a row: what a class of torchvision gives as the target."""
    wanted = str(given.get("target_types", given.get("target_type", "")))
    if name in MASKS or "segmentation" in wanted:
        return _masks(side, 3 if name == "OxfordIIITPet" else classes)
    if name == "CelebA" and "identity" not in wanted:
        torch = library("torch")
        return lambda label, index: (torch.arange(classes) + index) % (2 + label % 2) // 1 % 2
    if name == "VOCDetection":
        return lambda label, index: {"annotation": _voc(VOC[label % len(VOC)], index, side)}
    if name == "CocoDetection":
        return lambda label, index: [_coco(label + 1, index, side)]
    if name in ("CocoCaptions", "Flickr8k", "Flickr30k"):
        # Five for each picture, since scripts choose one of them by its number.
        sentences = table()["sentences"]
        return lambda label, index: [sentences[(index + each) % len(sentences)] for each in range(CAPTIONS)]
    return lambda label, _: label


def _masks(side: int, classes: int) -> Callable[[int, int], Any]:
    numpy, image = library("numpy"), library("PIL.Image")
    drawn = [numpy.full((side, side), 1 + number % (classes - 1), "uint8") for number in range(classes)]
    return lambda label, _: image.fromarray(drawn[label % classes])


def _box(index: int, side: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a box in the picture."""
    left, top = index % (side // 4), index % (side // 3)
    return left, top, left + side // 2, top + side // 2


def _voc(name: str, index: int, side: int) -> dict[str, Any]:
    """As `VOCDetection` reads a file of XML: every value is a text."""
    corners = zip(("xmin", "ymin", "xmax", "ymax"), map(str, _box(index, side)), strict=True)
    thing = {"name": name, "pose": "Unspecified", "truncated": "0", "difficult": "0", "bndbox": dict(corners)}
    size = {"width": str(side), "height": str(side), "depth": "3"}
    return {"folder": "VOC2012", "filename": f"{index:06}.jpg", "size": size, "segmented": "0", "object": [thing]}


def _coco(category: int, index: int, side: int) -> dict[str, Any]:
    left, top, right, bottom = _box(index, side)
    wide, high = right - left, bottom - top
    return {
        "id": index,
        "image_id": index,
        "category_id": category,
        "bbox": [left, top, wide, high],
        "area": wide * high,
        "iscrowd": 0,
        "segmentation": [[left, top, right, top, right, bottom, left, bottom]],
    }
