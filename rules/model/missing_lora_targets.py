"""LoRA targets layers that the model does not have.

Layer names differ between model families: `q_proj` in Llama is `q_lin` in DistilBERT and part of `c_attn` in GPT-2. If
none of the names matches, wrapping the model raises an error, after the model was loaded.

## Bad

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj", "v_proj"])  # <- missing-lora-targets
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises No modules were targeted for adaptation

## Good

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_lin", "v_lin"])
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

All linear layers, whatever their names:

    model = get_peft_model(model, LoraConfig(target_modules="all-linear"))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

One matching name is enough, so a list for several families works:

    config = LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj", "v_proj", "q_lin", "v_lin"])
    model = get_peft_model(model, config)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The model family of the checkpoint is unknown:

    from my_settings import name

    model = AutoModelForSequenceClassification.from_pretrained(name, num_labels=3)
    model = get_peft_model(model, LoraConfig(task_type="SEQ_CLS", target_modules=["q_proj", "v_proj"]))

## Fix

Asks first: it names the corresponding layers of this family, and others may be intended too.

## References

PEFT documentation, "Troubleshooting" and `LoraConfig.target_modules`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tuning
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Model
from lintrain.pipeline.values.python import Constant, LibraryObject, Sequence, Value, literal, text_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes, lazy_pattern

ENCODER = ("query", "key", "value", "dense", "out_proj", "decoder")
DECODER = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "embed_tokens")
TEXT_TO_TEXT = ("q", "k", "v", "o", "wi", "wi_0", "wi_1", "wo", "dense", "out_proj", "embed_tokens", "shared")
BART = ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "dense", "embed_tokens", "shared")

LAYERS = {
    "bert": ENCODER,
    "roberta": ENCODER,
    "xlm-roberta": ENCODER,
    "camembert": ENCODER,
    "electra": ENCODER,
    "distilbert": ("q_lin", "k_lin", "v_lin", "out_lin", "lin1", "lin2"),
    "gpt2": ("c_attn", "c_proj", "c_fc"),
    "llama": DECODER,
    "mistral": DECODER,
    "qwen2": DECODER,
    "qwen3": DECODER,
    "phi3": ("qkv_proj", "o_proj", "gate_up_proj", "down_proj", "embed_tokens"),
    "phi": ("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2", "embed_tokens"),
    "gemma": DECODER,
    "gemma2": DECODER,
    "opt": ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2", "embed_tokens", "project_in", "project_out"),
    "t5": TEXT_TO_TEXT,
    "mt5": TEXT_TO_TEXT,
    "bart": BART,
    "mbart": BART,
}
"""The layers of well-known families that LoRA can adapt, as in transformers 5.23; other names are not judged."""

KNOWN = frozenset(
    {name for names in LAYERS.values() for name in names}
    | {"query_key_value", "dense_h_to_4h", "dense_4h_to_h", "qkv_proj", "gate_up_proj", "Wqkv", "W_pack", "in_proj"}
)
"""Names that belong to certain families: other families certainly have no such layers."""

PATTERN = lazy_pattern(r"[*+?|()\[\]\\^$]")
"""Characters of a regular expression that are in no name of a layer."""

TEXTS = ("not found in the base model", "No modules were targeted for adaptation")


@dataclass(frozen=True, slots=True)
class Claim:
    """The value of `target_modules` for this model family; None if it is not certain."""

    code: str | None


class MissingLoraTargets(Rule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Config"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        adapted = [(event.subject, event.details["config"], event) for event in pipeline.acts(Act.ADAPT)]
        arguments = [(_trained_by(run), tuning.adapter_argument(run)) for run in pipeline.runs]
        given = [(model, argument.value, None) for model, argument in arguments if argument is not None]
        for model, config, event in [*adapted, *given]:
            if isinstance(model, Model) and isinstance(config, LibraryObject) and not _is_guarded(event):
                yield from self._check_names(pipeline, model, config)

    def _check_names(self, pipeline: Pipeline, model: Model, config: LibraryObject) -> Iterator[Finding[Claim]]:
        facts = tuning.facts_of(pipeline, model) if isinstance(literal(model.checkpoint), str) else None
        has = LAYERS.get(facts.model_type or "") if facts is not None else None
        names = _names(config.arguments.get("target_modules", Constant(None)))
        pattern = next((name for name in names if PATTERN.search(name)), None)
        if pattern is not None and config.origin is not None:
            yield self.finding(
                config.origin,
                f"`{pattern}` is a pattern, but each entry of a list is one name"
                if len(pattern) <= 30
                else "a pattern is an entry of a list, but each of these is one name",
                help="pass the pattern itself, without a list",
                subject="target_modules",
                claim=Claim(None),
            )
            return
        is_changed = bool(model.attributes.keys() - {"config"})
        if facts is None or has is None or not names or config.origin is None or is_changed:
            return
        if set(names) <= KNOWN - set(has):
            others = f" and {len(names) - 1} more" if len(names) > 2 else f" and `{names[1]}`" if names[1:] else ""
            yield self.finding(
                config.origin,
                f"a {facts.model_type} model has no layers `{names[0]}`{others}",
                related=[Related(model.origin, f"a {facts.model_type} model", "origin")] if model.origin else [],
                help=f"use layers that it has, such as `{has[0]}`",
                subject="target_modules",
                claim=Claim(_in_this_family(names, has) if "target_modules=" in pipeline.code(config.origin) else None),
            )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if evidence.failed_with(*TEXTS) is not None:
            yield self.finding(
                evidence.locations.get("adapter", evidence.location_of_failure()),
                "the model has no layers of the names that the adapter targets",
                help='use layers that it has, or `target_modules="all-linear"`',
                subject="target_modules",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*TEXTS)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed: `{failed.failure.message[:60]}…`")
        if evidence.model is None:
            return Verdict.inconclusive(evidence.not_reached("batch"))
        count = evidence.model.trainable_parameters
        return Verdict.refuted(f"the model was wrapped, and {count:,} of its weights are trainable", trainable=count)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        code = finding.claim.code if finding.claim else None
        if code is None:
            return None
        edit = fixes.RenameArgument(finding.location, "target_modules", "target_modules", code)
        return fixes.Fix.of(f"adapt `{code}`", edit, safe=False)


def _trained_by(run: TrainerRun) -> Model | None:
    """The model that a trainer trains; trainers of TRL may load it themselves by the name of a checkpoint."""
    argument = run.arguments.get("model")
    if argument is None or not isinstance(literal(argument.value), str) or not run.path.startswith("trl."):
        return run.model
    return Model(run.path, checkpoint=argument.value, origin=argument.location)


def _is_guarded(event: Event | None) -> bool:
    """Whether the model is wrapped only under a condition, which may select matching models."""
    return event is not None and bool(event.conditions)


def _names(targets: Value) -> list[str]:
    """The names of the layers, if all are certain; a single string is a pattern, and not judged."""
    items = targets.items if isinstance(targets, Sequence) and targets.is_complete else []
    names = [text_of(item) for item in items if not (isinstance(item, Constant) and item.may_differ)]
    known = [name for name in names if name is not None]
    return known if len(known) == len(items) else []


ROLES = (
    frozenset({"q_proj", "q_lin", "query", "q"}),
    frozenset({"k_proj", "k_lin", "key", "k"}),
    frozenset({"v_proj", "v_lin", "value", "v"}),
)
"""The names of the query, key and value layers; GPT-2 has one layer for all three."""


ALL_THREE = frozenset({"query_key_value", "qkv_proj", "Wqkv", "W_pack", "c_attn"})
"""The names of layers that compute queries, keys and values at once."""


def _in_this_family(names: list[str], has: tuple[str, ...]) -> str | None:
    """The corresponding layers of this family as a list; None if some have no counterpart."""
    found: dict[str, None] = {}
    for part in [part for name in names for part in (("q", "k", "v") if name in ALL_THREE else (name,))]:
        role = next((role for role in ROLES if part in role), None)
        fitting = next((each for each in has if role is not None and (each in role or each == "c_attn")), None)
        if fitting is None:
            return None
        found[fitting] = None
    listed = ", ".join(f'"{name}"' for name in found)
    return f"[{listed}]"
