"""A model that returns a dictionary is used as if it took and gave plain tensors.

The run ends with an error in its first step: a dictionary has no `backward`, and a loss expects a tensor.

Models of transformers return an output with named parts, such as `logits`; two names that get it as a tuple get the
names of its parts. The networks of torchvision for segmentation return a dictionary, whose entry `out` has the scores.
Detectors take a list of images and one of targets, and return a dictionary of losses in training.

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

The output of a model of transformers, given to a loss:

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    for batch in batches:
        output = model(batch["input_ids"])
        loss = F.cross_entropy(output, batch["labels"])  # <- dictionary-output
        optimizer.zero_grad()
        loss.backward()
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

and

    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    for batch in batches:
        output = model(batch["input_ids"])
        loss = F.cross_entropy(output.logits, batch["labels"])
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

A model of transformers returns a tuple where it is asked to:

    from transformers import AutoModel

    encoder = AutoModel.from_pretrained("bert-base-uncased", return_dict=False)
    states, pooled = encoder(**collator(rows))

## Fix

None: which entries are wanted is not certain.

## References

torchvision documentation, "Semantic Segmentation" and "Object Detection"; transformers documentation, "Model outputs".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import vision_outputs
from lintrain.pipeline.values.model import Model, ModelOutput
from lintrain.pipeline.values.python import Constant, Value
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, one_per_location

USES = {
    "unpacked": (
        "these names get the names of the output's parts, and not the parts",
        "An output yields the names of its parts, as a dictionary does. The assignment raises ValueError, or the first"
        " use of a name raises an error: a text such as `logits` has no methods of a tensor.",
    ),
    "tensor": (
        "this is the output of the model with all its parts, and not a tensor",
        "The output is a dictionary of named parts, such as `logits`. It has no methods of a tensor, and a loss does"
        " not accept it, so this raises an error.",
    ),
}
"""What is wrong with each use of a model's output that the reader keeps, and what it leads to."""
LOADERS = frozenset({"from_pretrained", "from_config", ""})
PLAIN = {"return_dict": True, "torchscript": False, "trust_remote_code": False}
"""Settings under which a model may return a tuple, with the values under which it does not."""


class DictionaryOutput(Rule):
    level = Level.ERROR
    keywords = "torchvision|transformers|from_pretrained & segmentation|detection|oss|ntropy|backward|=|argmax|softmax"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                found.location,
                found.problem,
                related=[Related(found.network, "the network is made here", "model")],
                why=found.why,
                help=found.remedy,
            )
            for found in vision_outputs.wrong_outputs(pipeline.source)
        )
        yield from one_per_location(
            self._report(location, output.model, use, pipeline.code(location))
            for location, output, use in _misused(pipeline)
            if isinstance(output.model, Model) and _returns_a_dictionary(pipeline, output, output.model)
        )

    def _report(self, location: Location, model: Model, use: str, code: str) -> Finding:
        made = [Related(model.origin, "the model is made here", "model")] if model.origin else []
        part = f"`{code}.logits`" if code.isidentifier() else "`.logits` of it"
        problem, why = USES[use]
        help_text = f"read the part that is wanted, such as {part}"
        return self.finding(location, problem, related=made, why=why, help=help_text)


def _misused(pipeline: Pipeline) -> Iterator[tuple[Location, ModelOutput, str]]:
    """The outputs of models that a loss gets, or that are used like a tuple or a tensor: the use is of `USES`."""
    for call in pipeline.losses:
        if call.prediction is not None and isinstance(call.prediction.value, ModelOutput) and not call.is_alternative:
            yield call.prediction.location, call.prediction.value, "tensor"
    for misuse in pipeline.misuses:
        if isinstance(misuse.value, ModelOutput) and misuse.use in USES:
            yield misuse.location, misuse.value, misuse.use


def _returns_a_dictionary(pipeline: Pipeline, output: ModelOutput, model: Model) -> bool:
    """Whether nothing asks a model of transformers for tuples, and its version is known."""
    if not model.path.startswith("transformers.") or model.framework != "torch" or model.how not in LOADERS:
        return False
    given = [call.arguments for call in pipeline.model_calls if call.output is output]
    asked = [{name: argument.value for name, argument in each.items()} for each in given]
    asked += [model.arguments, *([model.config.arguments, model.config.attributes] if model.config else [])]
    settings = [(name, of[name]) for of in asked for name in PLAIN if name in of]
    return all(_is_plain(name, value) for name, value in settings) and "transformers" not in pipeline.targets.outside


def _is_plain(name: str, value: Value) -> bool:
    """Whether a setting is written as it is by default; any other value may stand for a tuple."""
    return isinstance(value, Constant) and value.value is PLAIN[name]
