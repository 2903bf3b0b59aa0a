"""A network of torchvision for segmentation or detection is used as if it took and gave plain tensors.

The networks for segmentation return a dictionary, whose entry `out` has the scores. Detectors take a list of images
and one of targets, and return a dictionary of losses in training. The run ends with an error in its first step: an
image has another number of boxes than the next, a dictionary has no `backward`, a loss gets no tensor.

## Bad

    from torchvision.models.segmentation import fcn_resnet50

    network = fcn_resnet50(num_classes=3)
    optimizer = torch.optim.Adam(network.parameters())
    for images, masks in batches:
        outputs = network(images)
        loss = criterion(outputs, masks)  # <- dictionary-output
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

The losses of a detector, and a loader that stacks its rows:

    from torchvision.models.detection import fasterrcnn_resnet50_fpn

    detector = fasterrcnn_resnet50_fpn(num_classes=3)
    optimizer = torch.optim.Adam(detector.parameters())
    loader = DataLoader(rows, batch_size=4)  # <- dictionary-output
    for images, targets in loader:
        loss = detector(images, targets)
        optimizer.zero_grad()
        loss.backward()  # <- dictionary-output
        optimizer.step()

## Good

    from torchvision.models.segmentation import fcn_resnet50

    network = fcn_resnet50(num_classes=3)
    optimizer = torch.optim.Adam(network.parameters())
    for images, masks in batches:
        outputs = network(images)["out"]
        loss = criterion(outputs, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

and

    from torchvision.models.detection import fasterrcnn_resnet50_fpn

    detector = fasterrcnn_resnet50_fpn(num_classes=3)
    optimizer = torch.optim.Adam(detector.parameters())
    loader = DataLoader(rows, batch_size=4, collate_fn=lambda rows: tuple(zip(*rows)))
    for images, targets in loader:
        loss = sum(detector(images, targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

The losses are added up before:

    from torchvision.models.detection import fasterrcnn_resnet50_fpn

    detector = fasterrcnn_resnet50_fpn(num_classes=3)
    optimizer = torch.optim.Adam(detector.parameters())
    for images, targets in batches:
        losses = detector(images, targets)
        loss = losses["loss_classifier"] + losses["loss_box_reg"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Fix

None: which entries are wanted is not certain.

## References

torchvision documentation, "Semantic Segmentation" and "Object Detection".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import vision_outputs
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class DictionaryOutput(Rule):
    level = Level.ERROR
    keywords = "torchvision & segmentation|detection"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                found.location,
                found.problem,
                related=[Related(found.network, "the network is made here", "model")],
                help=found.remedy,
            )
            for found in vision_outputs.wrong_outputs(pipeline.source)
        )
