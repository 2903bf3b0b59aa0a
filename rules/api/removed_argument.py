"""A call names an argument that the installed version no longer takes.

Libraries rename and drop arguments from one version to the next. Where the class does not take arguments of any name,
the script ends at this call with an error, before it has loaded or trained anything.

## Bad

    args = TrainingArguments(
        output_dir="out",
        evaluation_strategy="epoch",  # <- removed-argument
        learning_rate=2e-5,
    )
    # raises TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'

## Good

    args = TrainingArguments(
        output_dir="out",
        eval_strategy="epoch",
        learning_rate=2e-5,
    )

## When it is fine

A script that asks for the version, or expects the error, runs with both:

    try:
        args = TrainingArguments(output_dir="out", evaluation_strategy="epoch")
    except TypeError:
        args = TrainingArguments(output_dir="out", eval_strategy="epoch")

The version that counts is the one that the project names: in a lock file, in its requirements, or in its environment.
With `transformers==4.40` pinned there, `evaluation_strategy` is right.

## References

Transformers, MIGRATION_GUIDE_V5; TRL release notes; transformers#32385, trl#2162, course#875.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lintrain import (
    AddImport,
    Argument,
    Evidence,
    Finding,
    Fix,
    Known,
    Level,
    LibraryCall,
    Pipeline,
    Place,
    Reason,
    RemoveArgument,
    RenameArgument,
    Rule,
    Verdict,
    confirmed,
    exactly,
    keyword_state,
    literal,
    refuted,
    unsettled,
)

RENAMED = {
    "evaluation_strategy": "eval_strategy",
    "no_cuda": "use_cpu",
    "per_gpu_eval_batch_size": "per_device_eval_batch_size",
    "per_gpu_train_batch_size": "per_device_train_batch_size",
    "push_to_hub_model_id": "hub_model_id",
    "push_to_hub_token": "hub_token",
    "tokenizer": "processing_class",
    "max_seq_length": "max_length",
}
"""Old names whose values mean the same under the new one."""

QUANTIZED = frozenset({"load_in_4bit", "load_in_8bit"})
"""`from_pretrained` handed these on until transformers 4.57; 5.0 passes them to the model, which does not take them."""

FIRST_WITHOUT_QUANTIZED = (5, 0)

DROPPED = frozenset(
    {
        "fp16_backend",
        "half_precision_backend",
        "jit_mode_eval",
        "mp_parameters",
        "overwrite_output_dir",
        "past_index",
        "ray_scope",
        "save_safetensors",
        "tpu_metrics_debug",
        "tpu_num_cores",
        "use_ipex",
        "use_legacy_prediction_loop",
        "use_mps_device",
    }
)
"""Arguments that nothing replaces."""


@dataclass(frozen=True, slots=True)
class Cure:
    """What to write instead: another name, with another value where `value` is given; nothing where both are empty."""

    advice: str
    name: str = ""
    value: str = ""
    removes: bool = False
    is_safe: bool = False


class RemovedArgument(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[Place]()
        for call in pipeline.calls:
            for name, argument in call.arguments.items():
                if call.is_guarded or argument.keyword is None or argument.keyword in seen:
                    continue
                known = _state(pipeline, call, name)
                if known.state == "gone":
                    seen.add(argument.keyword)
                    yield self._report(pipeline, call, name, argument, known)

    def _report(self, pipeline: Pipeline, call: LibraryCall, name: str, argument: Argument, known: Known) -> Finding:
        target = pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        cure = _cure(pipeline, call, name, argument)
        return self.finding(
            argument.keyword or argument.place,
            f"`{name}` is gone after {known.package} {known.last_with} (here: {version})",
            because=[Reason(call.place, f"{known.package} {version} by {source}", "call", call.text)],
            help=cure.advice,
            subject=name,
            facts={
                "callable": call.path,
                "argument": name,
                "is_certain": call.is_certain,
                "new_name": cure.name,
                "new_value": cure.value,
                "removes": cure.removes,
                "is_safe": cure.is_safe,
            },
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        name, path = str(finding.facts.get("argument")), str(finding.facts.get("callable"))
        package = path.partition(".")[0]
        version = evidence.versions.get(package, "")
        if evidence.failed_with(f"unexpected keyword argument '{name}'") is not None:
            return confirmed(f"{package} {version} raises TypeError on `{name}`", version=version)
        state = keyword_state(path, name, exactly(**{package: version})).state if version else "unknown"
        if state == "gone":
            return confirmed(f"`{path}` of {package} {version} has no `{name}`", version=version)
        if state == "present" or (finding.facts.get("is_certain") and evidence.passed("script")):
            return refuted(f"{package} {version} took the call", version=version)
        return unsettled(f"whether {package} {version} takes `{name}` was not seen")

    def fix(self, finding: Finding) -> Fix | None:
        calls = finding.related("call")
        facts = finding.facts
        name, new_name, value = (str(facts.get(key) or "") for key in ("argument", "new_name", "new_value"))
        if not calls or not (new_name or facts.get("removes")):
            return None
        if not new_name:
            return Fix.of(f"leave out `{name}`", RemoveArgument(calls[0].place, name), safe=False)
        edit = RenameArgument(calls[0].place, name, new_name, value or None)
        imports = [AddImport("transformers", "BitsAndBytesConfig")] if name in QUANTIZED else []
        return Fix.of(f"write `{new_name}`", edit, *imports, safe=bool(facts.get("is_safe")))


def _state(pipeline: Pipeline, call: LibraryCall, name: str) -> Known:
    """What the target versions say of a keyword of a call."""
    if name in QUANTIZED and call.path.startswith("transformers.") and call.path.endswith(".from_pretrained"):
        target = pipeline.targets.get("transformers")
        is_gone = target is not None and min(target.versions) >= FIRST_WITHOUT_QUANTIZED
        return Known("gone" if is_gone else "unknown", "transformers", "4.57")
    return keyword_state(call.path, name, pipeline.targets)


def _cure(pipeline: Pipeline, call: LibraryCall, name: str, argument: Argument) -> Cure:
    """What to write instead of an argument that is gone."""
    value = literal(argument.value)
    if name in RENAMED and _takes(pipeline, call, RENAMED[name]):
        return Cure(f"it is called `{RENAMED[name]}` now", RENAMED[name], is_safe=True)
    if name in QUANTIZED:
        config = f"BitsAndBytesConfig({name}=True)"
        return Cure(f"pass `quantization_config={config}`", *(("quantization_config", config) if value is True else ()))
    if name == "warmup_ratio" and _takes(pipeline, call, "warmup_steps"):
        return Cure("`warmup_steps` takes a ratio below 1 as well", "warmup_steps")
    if name == "group_by_length" and _takes(pipeline, call, "train_sampling_strategy"):
        return _switched(value, "train_sampling_strategy", '"group_by_length"')
    if name == "include_inputs_for_metrics" and _takes(pipeline, call, "include_for_metrics"):
        return _switched(value, "include_for_metrics", '["inputs"]')
    config = f"{call.path.removesuffix('Trainer')}Config"
    if call.path.endswith("Trainer") and keyword_state(config, name, pipeline.targets).state == "present":
        return Cure(f"give it to `{config.rpartition('.')[2]}`")
    if name == "logging_dir":
        return Cure("the environment variable `TENSORBOARD_LOGGING_DIR` replaces it", removes=True)
    if name in DROPPED:
        return Cure("nothing replaces it: leave it out", removes=True)
    return Cure("see the release notes for what replaces it")


def _switched(value: object, name: str, code: str) -> Cure:
    """A switch that became the value of another argument."""
    if value is True:
        return Cure(f"write `{name}={code}`", name, code)
    return Cure(f"`{name}` replaces it", removes=value is False)


def _takes(pipeline: Pipeline, call: LibraryCall, name: str) -> bool:
    """Whether the call could take an argument of this name, and does not yet."""
    return name not in call.arguments and keyword_state(call.path, name, pipeline.targets).state == "present"
