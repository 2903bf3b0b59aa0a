"""An adapter freezes the new head of a classifier.

An adapter freezes every weight that it did not bring, the freshly made classification head too, unless it is told what
the head is. The head then keeps its random numbers: training runs through and its loss falls a little, because the
adapters alone bend the features towards a random target. The saved adapter holds no head either, so that another
random one takes its place after loading.

## Bad

    config = LoraConfig(r=8, target_modules=["q_lin", "v_lin"])  # <- frozen-head
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

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

The script lets the head learn by itself:

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

The configuration comes from elsewhere, or the checkpoint was fine-tuned for the task before:

    from my_settings import adapter_settings

    model = get_peft_model(model, LoraConfig(**adapter_settings))

## Fix

Safe: a head with random weights that never learns gives random classes.

## References

PEFT documentation, "Working with custom models"; peft#310, peft#577, transformers#26160.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import (
    Constant,
    LibraryObject,
    Sequence,
    Value,
    is_missing,
    is_true,
    number_of,
    text_of,
)
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes, lazy_pattern

TASK_TYPES = {
    Task.SEQUENCE_CLASSIFICATION: "SEQ_CLS",
    Task.TOKEN_CLASSIFICATION: "TOKEN_CLS",
    Task.IMAGE_CLASSIFICATION: "",
    Task.AUDIO_CLASSIFICATION: "",
}
"""What PEFT calls the task of a model with a new head; it has no name for pictures and sound."""

ADAPTERS = frozenset(
    {"LoraConfig", "AdaLoraConfig", "LoHaConfig", "LoKrConfig", "OFTConfig", "BOFTConfig", "IA3Config"}
)
KEEP_HEAD = frozenset({"SEQ_CLS", "TOKEN_CLS"})
HEAD = lazy_pattern(r"classifier|score|head|fc|proj|out|dense|cls|linear", re.IGNORECASE)
"""What a list of layers may hold where the head is one of them."""

TUNED_BEFORE = lazy_pattern(
    r"fine-?tun|sst|mnli|emotion|sentiment|ner\b|conll|squad|toxic|spam|xnli|goemo|finbert|zero-?shot|nli|reward|rerank|"
    r"cross-encoder|guard|detect",
    re.IGNORECASE,
)


class FrozenHead(Rule):
    level = Level.ERROR
    keywords = "Trainer|backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[Location]()
        for training in tuning.trainings(pipeline):
            finding = self._judge(pipeline, training)
            if finding is not None and finding.location not in seen:
                seen.add(finding.location)
                yield finding

    def _judge(self, pipeline: Pipeline, training: tuning.Training) -> Finding | None:
        model = training.model
        found = _only_adapter(pipeline, training)
        if not isinstance(model, Model) or model.task not in TASK_TYPES or found is None:
            return None
        config, applied, how = found
        if config.origin is None or not _leaves_head(config, how) or not _has_fresh_head(pipeline, model):
            return None
        return self._report(pipeline, model, config, config.origin, applied, how)

    def _report(
        self, pipeline: Pipeline, model: Model, config: LibraryObject, location: Location, applied: Location, how: str
    ) -> Finding:
        name = config.path.rpartition(".")[2]
        given = tuning.name_in_enum(config.arguments.get("task_type", Constant(None)))
        task_type = "" if how == "add_adapter" or given else TASK_TYPES[model.task]
        cure = f'task_type="{task_type}"' if task_type else 'modules_to_save=["classifier"]'
        called = f"task_type={given}" if given else "task_type"
        said = f"has `{called}`" if given else "names no task or head"
        made = [Related(model.origin, "its head is made here, with random weights", "origin")] if model.origin else []
        return self.finding(
            location,
            f"this `{name}` {said}: the new classifier is frozen",
            related=[*made, Related(applied, "frozen here but for the adapters")],
            help=f"pass `{cure}`{'' if task_type else ', with the name of the head'}",
            subject="peft_config",
            facts={"task_type": task_type},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        model = evidence.model
        if model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        fresh, frozen = len(model.fresh), len(model.frozen_fresh)
        if not model.pretrained:
            return Verdict.inconclusive("no checkpoint was loaded, so all weights are new: 0 are known to be a head's")
        if frozen:
            names = f"`{model.frozen_fresh[0]}` and {frozen - 1} more" if frozen > 1 else f"`{model.frozen_fresh[0]}`"
            return Verdict.confirmed(
                f"{frozen} of {fresh} new tensors are frozen at random values: {names}", frozen=frozen
            )
        return Verdict.refuted(f"{frozen} of {fresh} tensors that no checkpoint filled are frozen", frozen=frozen)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        task_type = finding.facts.get("task_type")
        if not isinstance(task_type, str) or not task_type:
            return None
        code = f'"{task_type}"'
        return fixes.Fix.of(
            f"pass `task_type={code}`", fixes.AddArgument(finding.location, "task_type", code), safe=True
        )


def _only_adapter(pipeline: Pipeline, training: tuning.Training) -> tuple[LibraryObject, Location, str] | None:
    """The one adapter that a model is trained with: its configuration, and the place and the name of what puts it in.

    None where parameters may be freed afterwards.
    """
    puts = tuning.changes_before(pipeline, training, Act.ADAPT)
    argument = tuning.adapter_argument(training.run)
    if len(puts) + (argument is not None) != 1 or not tuning.is_left_alone(pipeline, training):
        return None
    config = argument.value if argument is not None else puts[0].details["config"]
    if not isinstance(config, LibraryObject) or is_true(config.arguments.get("inference_mode", Constant(None))):
        return None
    if argument is not None:
        return config, argument.location, "peft_config"
    how = text_of(puts[0].details["how"]) or ""
    later = tuning.changes_before(pipeline, training, Act.FREEZE, Act.REPLACE)
    is_freed = any(event.order > puts[0].order for event in later)
    return None if is_freed or how.endswith("from_pretrained") else (config, puts[0].location, how.rpartition(".")[2])


def _leaves_head(config: LibraryObject, how: str) -> bool:
    """Whether an adapter of this configuration certainly leaves a head out."""
    arguments = config.arguments
    task_type = arguments.get("task_type", Constant(None))
    known = is_missing(task_type) or tuning.name_in_enum(task_type) is not None
    saves = not is_missing(arguments.get("modules_to_save", Constant(None)))
    if config.path.rpartition(".")[2] not in ADAPTERS or "**" in arguments or not known or saves:
        return False
    if tuning.name_in_enum(task_type) in KEEP_HEAD and how != "add_adapter":
        return False
    return _spares_head(arguments.get("target_modules", Constant(None)))


def _spares_head(targets: Value) -> bool:
    """Whether none of the layers that get an adapter is the head; by default they are those of the attention."""
    if is_missing(targets):
        return True
    if not isinstance(targets, Sequence) or not targets.is_complete:
        return False
    names = [text_of(item) for item in targets.items]
    return all((name is not None and not HEAD.search(name)) or name in {"out_lin", "o_proj"} for name in names)


def _has_fresh_head(pipeline: Pipeline, model: Model) -> bool:
    """Whether a model's head was certainly not learned before."""
    name = text_of(model.checkpoint)
    if not model.is_pretrained or not model.is_complete or name is None or model.attributes.keys() - {"config"}:
        return False
    facts = tuning.facts_of(pipeline, model)
    if facts is not None:
        return facts.head is None or not facts.head.endswith("Classification")
    return number_of(model.num_labels) is not None and name[:1] not in "./~" and not TUNED_BEFORE.search(name)
