"""A quantized model (4 or 8 bits) is trained without adapters.

Weights in 4 or 8 bits cannot represent the small updates of training: only adapters can be trained. The Trainer raises
an error when it is created, after the model was loaded, which often takes many gigabytes.

## Bad

    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda rows: lm_tokenizer(rows["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)  # <- quantized-without-adapter
    trainer.train()
    # raises ValueError: You cannot perform fine-tuning on purely quantized models

With `SFTTrainer`:

    config = transformers.BitsAndBytesConfig(load_in_8bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    trainer = SFTTrainer(lm, SFTConfig("out"), train_dataset=text["train"])  # <- quantized-without-adapter
    trainer.train()
    # raises ValueError: You cannot perform fine-tuning on purely quantized models

## Good

    from peft import prepare_model_for_kbit_training

    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda rows: lm_tokenizer(rows["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    lm = prepare_model_for_kbit_training(lm)
    lm = get_peft_model(lm, LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear"))
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)
    trainer.train()

With `SFTTrainer`:

    config = transformers.BitsAndBytesConfig(load_in_8bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    trainer = SFTTrainer(
        lm,
        SFTConfig("out"),
        train_dataset=text["train"],
        peft_config=LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear"),
    )
    trainer.train()

## When it is fine

Trainers of TRL add the adapter themselves:

    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    adapter = LoraConfig(task_type="CAUSAL_LM")
    trainer = SFTTrainer(lm, SFTConfig("out"), train_dataset=text["train"], peft_config=adapter)

Evaluation trains nothing:

    config = transformers.BitsAndBytesConfig(load_in_8bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    trainer = Trainer(lm, args)
    trainer.evaluate(text["validation"])

Unknown code may have added an adapter:

    from my_adapters import add_adapters

    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_compute_dtype=torch.bfloat16)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    add_adapters(lm)
    trainer = Trainer(lm, args, train_dataset=text["train"])

## Fix

Asks first: the adapters have PEFT's default size and are added to all linear layers (in classifiers, to PEFT's default
layers); you may want others. Offered for causal models, encoder-decoders and classifiers; TRL gets a `peft_config`.

## References

transformers#26248; Transformers documentation, "bitsandbytes".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import token_feeds, tuning
from lintrain.pipeline import blocks
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import is_missing, is_true
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

CONFIGS = frozenset({"transformers.BitsAndBytesConfig", "transformers.utils.quantization_config.BitsAndBytesConfig"})
RAISED = ("You cannot perform fine-tuning on purely quantized models",)
TASKS = {Task.CAUSAL_LM: "CAUSAL_LM", Task.SEQ2SEQ_LM: "SEQ_2_SEQ_LM"}
"""PEFT's names for the tasks of models in which all linear layers except the head may have adapters."""

LAYERS = {
    **dict.fromkeys(("bert", "deberta", "deberta-v2", "electra", "gpt2", "llama", "mistral", "roberta"), ""),
    "xlm-roberta": "",
    "distilbert": ', target_modules=["q_lin", "v_lin"]',
}
"""Arguments for the layers of a classifier, whose head must have no adapter: none for types that PEFT 0.21 knows."""

ADAPTING = frozenset(f"trl.{name}Trainer" for name in ("SFT", "DPO", "Reward", "GRPO", "KTO", "RLOO"))
"""Trainers that prepare the model and add the adapter of `peft_config` themselves (trl 1.16)."""

FLAGS = ("load_in_4bit", "load_in_8bit")


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the adapter's configuration, and the name of the model to adapt; None if they are not certain."""

    config: str | None = None
    name: str | None = None


class QuantizedWithoutAdapter(Rule[Claim]):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for training in tuning.trainings(pipeline):
            model, run = training.model, training.run
            if run is None or not isinstance(model, Model) or not tuning.is_tuned_whole(pipeline, training):
                continue
            location = _quantized_at(model)
            if location is not None:
                yield self.finding(
                    run.construction,
                    f"`{run.name}` trains a quantized model that has no adapter",
                    related=[Related(location, "quantized here", "origin")],
                    help='add LoRA first: `get_peft_model(model, LoraConfig(target_modules="all-linear"))`',
                    subject="model",
                    claim=_adapter_claim(pipeline, model, run),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        failed = evidence.failed_with(*RAISED)
        if failed is not None and failed.failure is not None and failed.failure.location is not None:
            yield self.finding(
                failed.failure.location,
                "the trainer gets a quantized model that has no adapter",
                help='add LoRA first: `get_peft_model(model, LoraConfig(target_modules="all-linear"))`',
                subject="model",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        stage = evidence.failed_at(finding.location, *RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(
                f"creating the trainer in line {finding.location.line} raised `{stage.failure.type}`"
            )
        model = evidence.model
        if model is None or not evidence.passed("construction"):
            return Verdict.inconclusive(evidence.not_reached("construction"))
        share = f"{model.trainable_parameters} of {model.parameters} parameters are trainable"
        if 0 < model.trainable_parameters < model.parameters:
            return Verdict.refuted(f"the trainer accepted the model: {share}", trainable=model.trainable_parameters)
        return Verdict.inconclusive(f"it is unknown whether the trained model is quantized: {share}")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or finding.claim.config is None:
            return None
        name, config = finding.claim.name, finding.claim.config
        lora = fixes.AddImport("peft", "LoraConfig")
        if name is None:
            given = fixes.AddArgument(finding.location, "peft_config", config)
            return fixes.Fix.of("train a LoRA adapter", given, lora, safe=False)
        return fixes.Fix.of(
            "train a LoRA adapter",
            fixes.InsertBefore(finding.location, f"{name} = prepare_model_for_kbit_training({name})"),
            fixes.InsertBefore(finding.location, f"{name} = get_peft_model({name}, {config})"),
            lora,
            fixes.AddImport("peft", "get_peft_model"),
            fixes.AddImport("peft", "prepare_model_for_kbit_training"),
            safe=False,
        )


def _quantized_at(model: Model) -> Location | None:
    """The location that certainly loads a model in 4 or 8 bits."""
    config = tuning.quantization_of(model)
    given = config.arguments if config is not None and config.path in CONFIGS else model.arguments
    return model.origin if any(flag in given and is_true(given[flag]) for flag in FLAGS) else None


def _adapter_claim(pipeline: Pipeline, model: Model, run: TrainerRun) -> Claim:
    """The adapter's configuration, and the name of the model to adapt; a trainer of TRL needs no name."""
    config = _adapter_for(pipeline, model)
    if config is None or not run.is_complete or not is_missing(run.value("optimizers")):
        return Claim()
    if run.path in ADAPTING:
        takes_it = "peft_config" not in run.arguments and is_missing(run.value("ref_model"))
        return Claim(config) if takes_it else Claim()
    name = _name_of(pipeline, model, run)
    return Claim(config, name) if run.is_plain and name is not None else Claim()


def _adapter_for(pipeline: Pipeline, model: Model) -> str | None:
    """The code of a LoRA configuration that PEFT accepts for a model's task; None if that is not certain."""
    task, facts = TASKS.get(model.task), token_feeds.certain_facts(pipeline, model)
    if task is not None:
        return f'LoraConfig(task_type="{task}", target_modules="all-linear")'
    layers = LAYERS.get((facts.model_type or "") if facts is not None else "")
    is_classifier = model.task is Task.SEQUENCE_CLASSIFICATION
    return f'LoraConfig(task_type="SEQ_CLS"{layers})' if is_classifier and layers is not None else None


def _name_of(pipeline: Pipeline, model: Model, run: TrainerRun) -> str | None:
    """The only name of the model, in the block of its Trainer; None if there are others."""
    made, trainer = model.origin, run.construction
    names = {binding.name for binding in pipeline.names_of(model)}
    if made is None or len(names) != 1 or not blocks.is_one_scope(pipeline, made, trainer):
        return None
    given = run.arguments.get("model")
    loading, building = blocks.statement_at(pipeline, made), blocks.statement_at(pipeline, trainer)
    if loading is None or building is None or loading not in blocks.block_of(pipeline, building, trainer):
        return None
    return given.text if given is not None and given.text in names and given.text.isidentifier() else None
