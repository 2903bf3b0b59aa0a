"""The new head of a classifier is frozen.

A head that is frozen as it was created keeps its random values. Training finishes without an error and the loss falls
a little, because the layers or adapters before the head learn to fit the features to a random target.

An adapter freezes every weight that it did not add, including the newly initialized classification head, unless its
configuration names the head. The saved adapter does not contain the head either, so loading it creates another random
one.

## Bad

    config = LoraConfig(r=8, target_modules=["q_lin", "v_lin"])  # <- frozen-head
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A probe also finds the last layer of a network of your own, in a loop or a Trainer, if it is frozen at the values that
torch gave it and most others train.

## Good

    config = LoraConfig(r=8, target_modules=["q_lin", "v_lin"], task_type="SEQ_CLS")
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The head is named:

    config = LoraConfig(target_modules=["q_lin", "v_lin"], modules_to_save=["pre_classifier", "classifier"])
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

It is one of the layers that get an adapter:

    model = get_peft_model(model, LoraConfig(target_modules=["q_lin", "v_lin", "pre_classifier", "classifier"]))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The script unfreezes the head itself:

    model = get_peft_model(model, LoraConfig(target_modules=["q_lin", "v_lin"]))
    for name, parameter in model.named_parameters():
        if "classifier" in name:
            parameter.requires_grad = True
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

A language model's head comes with its checkpoint:

    lm = get_peft_model(lm, LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True))
    rows = text["train"].map(lambda batch: lm_tokenizer(batch["text"], truncation=True, max_length=32), batched=True)
    rows = rows.filter(lambda row: len(row["input_ids"]) > 1).remove_columns("text")
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    pad = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=rows, data_collator=pad)

The configuration comes from elsewhere, or the checkpoint was already fine-tuned for the task:

    from my_settings import adapter_settings

    model = get_peft_model(model, LoraConfig(**adapter_settings))

## Fix

Safe: a head with random weights that never trains predicts random classes.

## References

PEFT documentation, "Working with custom models"; peft#310, peft#577, transformers#26160.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.events import Act
from lintrain.pipeline.values import python
from lintrain.pipeline.values.model import Model, Task
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

TASK_TYPES = {
    Task.SEQUENCE_CLASSIFICATION: "SEQ_CLS",
    Task.TOKEN_CLASSIFICATION: "TOKEN_CLS",
    Task.IMAGE_CLASSIFICATION: "",
    Task.AUDIO_CLASSIFICATION: "",
}
"""PEFT's task type for a model with a new head; it has none for images and audio."""

ADAPTERS = frozenset(
    {"LoraConfig", "AdaLoraConfig", "LoHaConfig", "LoKrConfig", "OFTConfig", "BOFTConfig", "IA3Config"}
)
KEEP_HEAD = frozenset({"SEQ_CLS", "TOKEN_CLS"})
INNER = frozenset(
    {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "out_lin", "dense", "c_proj", "c_fc"}
    | {"fc1", "fc2", "dense_h_to_4h", "dense_4h_to_h"}
)
"""Layers inside of transformer blocks: where a head has a `dense` layer as well, its last one has another name."""
HEAD = lazy_pattern(r"classifier|score|head|fc|proj|out|dense|cls|linear", re.IGNORECASE)
"""Names in a list of layers that may be the head."""

TUNED_BEFORE = lazy_pattern(
    r"fine-?tun|sst|mnli|emotion|sentiment|ner\b|conll|squad|toxic|spam|xnli|goemo|finbert|zero-?shot|nli|reward|rerank|"
    r"cross-encoder|guard|detect",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The `task_type` that keeps the head trainable; empty if PEFT has none for it."""

    task_type: str


class FrozenHead(Rule[Claim]):
    level = Level.ERROR
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[Location]()
        for training in tuning.trainings(pipeline):
            finding = self._check_training(pipeline, training)
            if finding is not None and finding.location not in seen:
                seen.add(finding.location)
                yield finding

    def _check_training(self, pipeline: Pipeline, training: tuning.Training) -> Finding[Claim] | None:
        model = training.model
        found = _only_adapter(pipeline, training)
        if not isinstance(model, Model) or model.task not in TASK_TYPES or found is None:
            return None
        config, applied, how = found
        if config.origin is None or not _freezes_head(config, how) or not _has_new_head(pipeline, model):
            return None
        return self._report(pipeline, model, config, config.origin, applied, how)

    def _report(
        self,
        pipeline: Pipeline,
        model: Model,
        config: python.LibraryObject,
        location: Location,
        applied: Location,
        how: str,
    ) -> Finding[Claim]:
        name = config.path.rpartition(".")[2]
        given = tuning.name_in_enum(config.arguments.get("task_type", python.Constant(None)))
        task_type = "" if how == "add_adapter" or given else TASK_TYPES[model.task]
        argument = f'task_type="{task_type}"' if task_type else 'modules_to_save=["classifier"]'
        setting = f"has `task_type={given}`" if given else "names no task or head"
        made = (
            [Related(model.origin, "its head is created here, with random weights", "origin")] if model.origin else []
        )
        return self.finding(
            location,
            f"this `{name}` {setting}: the new classifier is frozen",
            related=[*made, Related(applied, "everything but the adapters is frozen here")],
            why="The adapters alone fit the features to a head that keeps its random values. The saved adapter does not"
            " contain the head, so loading it creates another random one. No error is raised.",
            help=f"pass `{argument}`{'' if task_type else ', with the name of the head'}",
            subject="peft_config",
            claim=Claim(task_type),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        # Heads of language models repeat the embedding, whose parts have several names.
        if evidence.model is not None and evidence.model.frozen_fresh and evidence.model.classifies:
            yield self.finding(
                evidence.location,
                f"the new layer of `{evidence.model.frozen_fresh[0]}` is frozen at random values",
                help="freeze the pretrained layers only",
            )
        elif evidence.forward is not None and evidence.forward.random_head is not None:
            yield self.finding(
                evidence.location,
                f"the output layer{_named(evidence.forward.random_head)} is frozen at random values",
                help="freeze only layers with trained weights",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        head = evidence.forward.random_head if evidence.forward is not None else None
        if head is not None:
            trained, tensors = model.trained_in("")
            return Verdict.confirmed(
                f"the layer{_named(head)} gives the output with the random weights that it was created with, and"
                f" {trained} of {tensors} tensors train",
                trained=trained,
            )
        fresh, frozen = len(model.fresh), len(model.frozen_fresh)
        if not model.pretrained:
            return Verdict.inconclusive("no checkpoint was loaded, so all weights are new")
        if frozen:
            names = f"`{model.frozen_fresh[0]}` and {frozen - 1} more" if frozen > 1 else f"`{model.frozen_fresh[0]}`"
            return Verdict.confirmed(
                f"{frozen} of {fresh} new tensors are frozen at random values: {names}", frozen=frozen
            )
        return Verdict.refuted(f"{frozen} of {fresh} new tensors are frozen", frozen=frozen)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.task_type:
            return None
        code = f'"{finding.claim.task_type}"'
        return fixes.Fix.of(
            f"pass `task_type={code}`", fixes.AddArgument(finding.location, "task_type", code), safe=True
        )


def _named(layer: str) -> str:
    """The layer's name, as it follows a noun; a model that is one layer has none."""
    return f" `{layer}`" if layer else ""


def _only_adapter(pipeline: Pipeline, training: tuning.Training) -> tuple[python.LibraryObject, Location, str] | None:
    """The one adapter that a model is trained with: its configuration, and the location and name of what adds it.

    None if parameters may be unfrozen afterwards.
    """
    added = tuning.changes_before(pipeline, training, Act.ADAPT)
    argument = tuning.adapter_argument(training.run)
    if len(added) + (argument is not None) != 1 or not tuning.is_left_alone(pipeline, training):
        return None
    config = argument.value if argument is not None else added[0].details["config"]
    if not isinstance(config, python.LibraryObject) or python.is_true(
        config.arguments.get("inference_mode", python.Constant(None))
    ):
        return None
    if argument is not None:
        return config, argument.location, "peft_config"
    how = python.text_of(added[0].details["how"]) or ""
    later = tuning.changes_before(pipeline, training, Act.FREEZE, Act.REPLACE)
    is_unfrozen = any(event.order > added[0].order for event in later)
    return (
        None if is_unfrozen or how.endswith("from_pretrained") else (config, added[0].location, how.rpartition(".")[2])
    )


def _freezes_head(config: python.LibraryObject, how: str) -> bool:
    """Whether an adapter of this configuration certainly freezes the head."""
    arguments = config.arguments
    task_type = arguments.get("task_type", python.Constant(None))
    known = python.is_missing(task_type) or tuning.name_in_enum(task_type) is not None
    saves = not python.is_missing(arguments.get("modules_to_save", python.Constant(None)))
    if config.path.rpartition(".")[2] not in ADAPTERS or "**" in arguments or not known or saves:
        return False
    if tuning.name_in_enum(task_type) in KEEP_HEAD and how != "add_adapter":
        return False
    return _excludes_head(arguments.get("target_modules", python.Constant(None)))


def _excludes_head(targets: python.Value) -> bool:
    """Whether none of the layers that get an adapter is the head; by default they are attention layers."""
    if python.is_missing(targets):
        return True
    if not isinstance(targets, python.Sequence) or not targets.is_complete:
        return False
    names = [python.text_of(item) for item in targets.items]
    return all(name is not None and (not HEAD.search(name) or name.split(".")[-1] in INNER) for name in names)


def _has_new_head(pipeline: Pipeline, model: Model) -> bool:
    """Whether a model's head is certainly untrained."""
    name = python.text_of(model.checkpoint)
    if not model.is_pretrained or not model.is_complete or name is None or model.attributes.keys() - {"config"}:
        return False
    facts = tuning.facts_of(pipeline, model)
    if facts is not None:
        return facts.head is None or not facts.head.endswith("Classification")
    return python.number_of(model.num_labels) is not None and name[:1] not in "./~" and not TUNED_BEFORE.search(name)
