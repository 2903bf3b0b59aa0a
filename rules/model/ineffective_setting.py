"""A size, a rate or a new head is set where nothing reads it.

A layer makes its weights when it is built, an optimizer reads its rate from `param_groups`, and a network calls its
layers by their names. A number or a module that is stored anywhere else is kept and read by nothing: the head keeps its
1,000 outputs, and the steps keep their size. No error is raised.

## Bad

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
    model[2].out_features = 3  # <- ineffective-setting
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.lr = 1e-4  # <- ineffective-setting

A rate of dropout for layers that exist:

    model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    model.config.hidden_dropout_prob = 0.3  # <- ineffective-setting
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A constant that nothing reads, and an optimizer without it:

    WEIGHT_DECAY = 1e-2  # <- ineffective-setting
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 10))
    model[2] = nn.Linear(16, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 1e-4

and

    model = AutoModelForSequenceClassification.from_pretrained(
        "bert-base-uncased", num_labels=3, hidden_dropout_prob=0.3
    )
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

and

    WEIGHT_DECAY = 1e-2
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=WEIGHT_DECAY)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

The weights change as well, and the number is kept in step with them:

    layer = nn.Linear(16, 8)
    layer.weight = nn.Parameter(layer.weight[:4])
    layer.bias = nn.Parameter(layer.bias[:4])
    layer.out_features = 4

The script reads the attribute itself:

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.lr = 0.01
    for group in optimizer.param_groups:
        group["lr"] = optimizer.lr
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Torchvision's detectors read a number of channels that the script notes on a backbone:

    backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    backbone.out_channels = 8

What a layer reads in each pass may be set:

    pool = nn.Conv2d(3, 8, 3)
    pool.stride = (2, 2)

## Fix

None: a new layer has new weights, and a rate belongs to a group of parameters.

## References

PyTorch documentation, `torch.nn.Linear` and `torch.optim.Optimizer.param_groups`; transformers 5.23,
`BertSelfOutput.__init__`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import (
    built_configs,
    foreign_settings,
    tuning,
    unread_class_weights,
    unread_configs,
    unread_settings,
)
from lintrain.pipeline import events
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import ModelPart, Module
from lintrain.pipeline.values.python import Value, literal
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, Source, lazy_pattern, one_per_location

HAVE = {
    "in_features": lazy_pattern(r"(Bil|L)inear"),
    "out_features": lazy_pattern(r"(Bil|L)inear"),
    "in_channels": lazy_pattern(r"Conv(Transpose)?[123]d"),
    "out_channels": lazy_pattern(r"Conv(Transpose)?[123]d"),
    "num_features": lazy_pattern(r"(Batch|Instance)Norm[123]d"),
    "num_embeddings": lazy_pattern(r"Embedding(Bag)?"),
}
"""Sizes that layers do not read again, each with the classes that have it: on others the name is the script's own."""

HEADS = {
    "fc": lazy_pattern(r"resnet|resnext|wide_resnet|googlenet|inception|shufflenet|regnet"),
    "classifier": lazy_pattern(r"vgg|alexnet|densenet|mobilenet|efficientnet|squeezenet|mnasnet|convnext"),
    "heads": lazy_pattern(r"vit_"),
    "head": lazy_pattern(r"swin_"),
}
"""The names of the heads of torchvision's classifiers, each with the networks that have it."""

KEYS = {"learning_rate": "lr"}
"""The keys of groups that others are written for, where it is not `weight_decay`."""

NAMED = {
    "out_features": lazy_pattern(r"\.(fc|classifier(\[-?\d+\])?|head|lm_head|score|out_proj)$"),
    "in_channels": lazy_pattern(r"\.(conv1|conv_proj|features\[0\](\[0\])?)$"),
}
"""Names that such layers have in the networks of torchvision and transformers."""


class IneffectiveSetting(Rule):
    level = Level.ERROR
    keywords = "fc|classif|head|_features|_channels|_embed|.lr|.learning|cudnn|optim|drop|num_l|weight|groups|Config"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        sizes = (_size_set(pipeline.source_of(each.location), each) for each in pipeline.acts(events.Act.REPLACE))
        yield from one_per_location(self._report_size(*found) for found in sizes if found is not None)
        heads = (_head_set(pipeline.source_of(each.location), each) for each in pipeline.acts(events.Act.REPLACE))
        yield from one_per_location(self._report_head(*found) for found in heads if found is not None)
        single = (each for each in pipeline.misuses if each.use == "dropout of one layer")
        yield from one_per_location(map(self._report_dropout, single))
        yield from one_per_location(map(self._report_misplaced, tuning.misplaced_heads(pipeline.source)))
        yield from one_per_location(self._report_cudnn(*found) for found in tuning.misspelt_cudnn(pipeline.source))
        yield from one_per_location(self._report_unread(*found) for found in tuning.unread_rates(pipeline.source))
        yield from one_per_location(self._report_kept(*found) for found in unread_settings.kept_rates(pipeline.source))
        yield from map(self._report_replaced, unread_settings.replaced_numbers(pipeline.source))
        yield from map(self._report_weights, unread_class_weights.unread_weights(pipeline.source))
        yield from map(self._report_config, unread_configs.unread_configs(pipeline.source))
        rates = (each for each in pipeline.misuses if each.use == "setting of an optimizer")
        yield from one_per_location(map(self._report_rate, (each for each in rates if not _is_read(pipeline, each))))
        foreign = list(one_per_location(map(self._report_foreign, foreign_settings.stored(pipeline))))
        yield from foreign
        known = {each.location for each in foreign}
        late = (each for each in built_configs.late_settings(pipeline) if each.location not in known)
        yield from one_per_location(map(self._report_late, late))
        unread = (each for each in pipeline.misuses if each.use == "groups of a splitter without groups")
        yield from one_per_location(map(self._report_groups, unread))
        keys = (each for each in pipeline.misuses if each.use == "key of a group" and not _is_key_read(pipeline, each))
        yield from one_per_location(map(self._report_key, keys))

    def _report_weights(self, unread: unread_class_weights.UnreadWeights) -> Finding:
        return self.finding(
            unread.location,
            f"`{unread.name}` is computed, and no loss gets it",
            why="The loss counts all rows alike, as it would without the weights.",
            help="pass it to the loss: `weight=…`, or `pos_weight=…` with logits",
            level=Level.WARNING,
        )

    def _report_config(self, unread: unread_configs.UnreadConfig) -> Finding:
        if unread.is_adapter:
            return self.finding(
                unread.location,
                f"`{unread.name}` is built, and neither a model nor a trainer gets it",
                why="The model has no adapter: all of its weights are trained, or none where they are frozen.",
                help=f"pass it to the trainer, `peft_config={unread.name}`, or to `get_peft_model`",
            )
        return self.finding(
            unread.location,
            f"`{unread.name}` is built, and no model gets it",
            why="The model is loaded in the precision of its checkpoint, and needs several times the memory.",
            help=f"pass it to `from_pretrained`: `quantization_config={unread.name}`",
        )

    def _report_size(self, event: events.Event, owner: str, name: str) -> Finding:
        return self.finding(
            event.location,
            f"`{name}` is only a number here: the weights keep their size",
            why="The attribute is printed with the layer, and no pass reads it: the head keeps its outputs.",
            help=f"put a new layer in its place: `{owner} = …`",
        )

    def _report_head(self, event: events.Event, name: str, network: str, head: str) -> Finding:
        return self.finding(
            event.location,
            f"`{network}` never calls `{name}`, so its old head stays",
            why="No pass calls the new layer: the loss works with the outputs of the old head, without an error.",
            help=f"its head is `{head}`: replace that",
        )

    def _report_dropout(self, misuse: Misuse) -> Finding:
        return self.finding(
            misuse.location,
            f"this dropout applies between the layers of `{misuse.text}`, which has only one",
            why="A recurrent network drops values between its layers. With one layer it drops none.",
            help="put `nn.Dropout` after the layer, or set `num_layers`",
            level=Level.WARNING,
        )

    def _report_groups(self, misuse: Misuse) -> Finding:
        return self.finding(
            misuse.location,
            f"`{misuse.text}` ignores `groups`: rows of one group are in both parts of a fold",
            why="What is learned about a group, such as a patient, helps on its other rows: scores are too good.",
            help="use a splitter that reads them: `GroupKFold` or `StratifiedGroupKFold`",
        )

    def _report_misplaced(self, found: tuning.MisplacedHead) -> Finding:
        return self.finding(
            found.location,
            f"`{found.network}` has no head `{found.name}`, so its old one stays",
            why="A network calls its layers by name. No pass calls the new one, and the old head is used.",
            help=f"its head is `{found.head}`: replace that",
        )

    def _report_cudnn(self, location: Location, written: str, name: str) -> Finding:
        return self.finding(
            location,
            f"cuDNN has no setting `{written}`, so this changes nothing",
            why="The module takes an attribute of any name, and reads only its own.",
            help=f"write `{name}`",
        )

    def _report_unread(self, location: Location, name: str, optimizer: Location) -> Finding:
        return self.finding(
            location,
            f"`{name}` is only a number here: the optimizer keeps the rate that it was given",
            related=[Related(optimizer, "given here", "optimizer")],
            why="The optimizer copied the number when it was made, so another one does not reach it.",
            help=f'set `group["lr"] = {name}` for each group in `param_groups`, or use a schedule',
        )

    def _report_kept(self, location: Location, name: str, optimizer: Location) -> Finding:
        return self.finding(
            location,
            f"nothing reads `self.{name}`: the optimizer uses the rate that is its default",
            related=[Related(optimizer, "made without a rate", "optimizer")],
            why="Lightning keeps the number with the checkpoint and its logs, so the run looks as if it had used it.",
            help=f"pass `lr=self.{name}` to the optimizer",
        )

    def _report_rate(self, misuse: Misuse) -> Finding:
        owner, _, name = misuse.text.rpartition(".")
        key = "lr" if name == "learning_rate" else name
        return self.finding(
            misuse.location,
            f"the optimizer does not read `{name}`, so its steps stay as they are",
            why="It reads its settings from `param_groups`, and keeps any other attribute without reading it.",
            help=f'set `group["{key}"]` of each group in `{owner}.param_groups`',
        )

    def _report_replaced(self, found: unread_settings.Replaced) -> Finding:
        return self.finding(
            found.location,
            f"`{found.name}` is never read, so it changes nothing",
            related=[Related(found.call, f"this has {found.used}", "call")],
            why="Another number gives the same training.",
            help=f"use `{found.name}` in that call, or remove it",
            level=Level.WARNING,
            subject=found.name,
        )

    def _report_late(self, found: built_configs.LateSetting) -> Finding:
        made = found.model.origin
        is_head = found.outputs is not None
        return self.finding(
            found.location,
            f"the head is built already, and keeps its {found.outputs} outputs"
            if is_head
            else f"the layers are built already, so `{found.name}` changes nothing",
            related=[Related(made, "built here", "model", found.model.text)] if made else [],
            why="A model reads its configuration when it is built.",
            help=f"pass `{found.name}=` where the model is made",
            level=Level.ERROR if is_head else Level.WARNING,
        )

    def _report_foreign(self, found: foreign_settings.ForeignSetting) -> Finding:
        return self.finding(
            found.location,
            f"`{found.name}` is no setting of `{found.kind}`, so it changes nothing",
            why="A configuration keeps any name that it is given. Rates have other names in other kinds of models.",
            help=f"its rates are {', '.join(f'`{each}`' for each in found.own)}",
            level=Level.WARNING,
            subject=found.name,
        )

    def _report_key(self, misuse: Misuse) -> Finding:
        return self.finding(
            misuse.location,
            f"the optimizer does not read `{misuse.text}` of its groups, so it has no effect",
            why="A group may have any key. The parameters get the value that the optimizer has for all.",
            help=f'the key is `"{KEYS.get(misuse.text, "weight_decay")}"`',
            level=Level.WARNING,
        )


def _size_set(source: Source, event: events.Event) -> tuple[events.Event, str, str] | None:
    """An event that sets a size of a layer whose weights the file leaves as they are."""
    name = literal(event.details["name"])
    if not isinstance(name, str) or name not in HAVE:
        return None
    owner = source.code(event.location).removesuffix(f".{name}")
    if not owner or not _has_size(event.subject, owner, name):
        return None
    stored = {f"{owner}.{part}{end}" for part in ("weight", "bias") for end in ("", ".data")}
    return None if stored & tuning.attributes_stored(source) else (event, owner, name)


def _head_set(source: Source, event: events.Event) -> tuple[events.Event, str, str, str] | None:
    """An event that gives a network of torchvision a head under a name that its passes do not call."""
    name, network = literal(event.details["name"]), event.subject
    if not isinstance(name, str) or name not in HEADS or event.conditions or not isinstance(network, Module):
        return None
    if not network.path.startswith("torchvision.models.") or not isinstance(event.details["value"], Module):
        return None
    has = [each for each, networks in HEADS.items() if networks.match(network.name)]
    is_used = source.contains(rf"\.{name}\(|\bdef forward_\w|\.forward *=")
    return None if is_used or name in has or not has else (event, name, network.name, has[0])


def _has_size(layer: Value, owner: str, name: str) -> bool:
    """Whether a value certainly is a layer with weights of this size."""
    if isinstance(layer, Module) and layer.path:
        return layer.path.startswith("torch.nn.") and HAVE[name].fullmatch(layer.name) is not None
    return isinstance(layer, Module | ModelPart) and name in NAMED and NAMED[name].search(owner) is not None


def _is_read(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether code reads the attribute that it sets."""
    return tuning.is_attribute_read(pipeline.source_of(misuse.location), misuse.text)


def _is_key_read(pipeline: Pipeline, misuse: Misuse) -> bool:
    """Whether code reads a key of its groups, or may: that of an own optimizer."""
    return pipeline.source_of(misuse.location).contains(rf"""(\[|get\()["']{misuse.text}["'][\],)]""")
