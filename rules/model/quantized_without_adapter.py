"""A model in 4 or 8 bits is trained without adapters.

Weights in 4 or 8 bits cannot take the small steps of training: only adapters beside them can learn. The Trainer ends
the run when it is built, after a model was loaded that is often many gigabytes large.

## Bad

    config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda rows: lm_tokenizer(rows["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)  # <- quantized-without-adapter
    trainer.train()
    # raises ValueError: You cannot perform fine-tuning on purely quantized models

and

    config = transformers.BitsAndBytesConfig(load_in_8bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    trainer = SFTTrainer(lm, SFTConfig("out"), train_dataset=text["train"])  # <- quantized-without-adapter
    trainer.train()
    # raises ValueError: You cannot perform fine-tuning on purely quantized models

## Good

    from peft import prepare_model_for_kbit_training

    config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    lines = text.map(lambda rows: lm_tokenizer(rows["text"], truncation=True), batched=True, remove_columns=["text"])
    collator = DataCollatorForLanguageModeling(lm_tokenizer, mlm=False)
    lm = prepare_model_for_kbit_training(lm)
    lm = get_peft_model(lm, LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear"))
    trainer = Trainer(lm, args, train_dataset=lines["train"], data_collator=collator)
    trainer.train()

and

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

Trainers of TRL put an adapter into the model themselves:

    config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    adapter = LoraConfig(task_type="CAUSAL_LM")
    trainer = SFTTrainer(lm, SFTConfig("out"), train_dataset=text["train"], peft_config=adapter)

Evaluation trains nothing:

    config = transformers.BitsAndBytesConfig(load_in_8bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    trainer = Trainer(lm, args)
    trainer.evaluate(text["validation"])

Code that is not known may have put an adapter in:

    from my_adapters import add_adapters

    config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    add_adapters(lm)
    trainer = Trainer(lm, args, train_dataset=text["train"])

## Fix

Asks first: the adapters have PEFT's default size, and go to all linear layers, in classifiers to PEFT's default layers;
only you know which you want. Offered for causal models, encoder-decoders and classifiers; TRL gets a `peft_config`.

## References

transformers#26248; Transformers documentation, "bitsandbytes".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import special_tokens, tuning
from lintrain.pipeline import blocks
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import is_missing, is_true
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes

CONFIGS = frozenset({"transformers.BitsAndBytesConfig", "transformers.utils.quantization_config.BitsAndBytesConfig"})
RAISED = ("You cannot perform fine-tuning on purely quantized models",)
TASKS = {Task.CAUSAL_LM: "CAUSAL_LM", Task.SEQ2SEQ_LM: "SEQ_2_SEQ_LM"}
"""How PEFT calls the tasks of models whose linear layers but the head may all have adapters."""

LAYERS = {
    **dict.fromkeys(("bert", "deberta", "deberta-v2", "electra", "gpt2", "llama", "mistral", "roberta"), ""),
    "xlm-roberta": "",
    "distilbert": ', target_modules=["q_lin", "v_lin"]',
}
"""What to tell PEFT of a classifier's layers, whose head may have none: nothing for types it knows (peft 0.21)."""

ADAPTING = frozenset(f"trl.{name}Trainer" for name in ("SFT", "DPO", "Reward", "GRPO", "KTO", "RLOO"))
"""Trainers that put the adapter of `peft_config` into their model, which they prepare for it (trl 1.16)."""

FLAGS = ("load_in_4bit", "load_in_8bit")


class QuantizedWithoutAdapter(Rule):
    level = Level.ERROR
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
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
                    help='put LoRA in first: `get_peft_model(model, LoraConfig(target_modules="all-linear"))`',
                    subject="model",
                    facts=_cure(pipeline, model, run),
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_at(finding.location, *RAISED)
        if stage is not None and stage.failure is not None:
            return Verdict.confirmed(f"{stage.failure.type} when the trainer is built: 0 steps were taken")
        model = evidence.model
        if model is None or not evidence.passed("construction"):
            return Verdict.inconclusive(evidence.not_reached("construction"))
        share = f"{model.trainable_parameters} of {model.parameters} parameters train"
        if 0 < model.trainable_parameters < model.parameters:
            return Verdict.refuted(f"the trainer took the model: {share}", trainable=model.trainable_parameters)
        return Verdict.inconclusive(f"whether the model that was trained is quantized is not known: {share}")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        name, config = finding.facts.get("name"), finding.facts.get("config")
        if not isinstance(config, str):
            return None
        lora = fixes.AddImport("peft", "LoraConfig")
        if not isinstance(name, str):
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
    """The place that certainly loads a model in 4 or 8 bits."""
    config = tuning.quantization_of(model)
    given = config.arguments if config is not None and config.path in CONFIGS else model.arguments
    return model.origin if any(flag in given and is_true(given[flag]) for flag in FLAGS) else None


def _cure(pipeline: Pipeline, model: Model, run: TrainerRun) -> dict[str, str | None]:
    """The adapter's configuration, and the name of the model that is to get it; a trainer of TRL needs no name."""
    config = _adapter_for(pipeline, model)
    if config is None or not run.is_complete or not is_missing(run.value("optimizers")):
        return {}
    if run.path in ADAPTING:
        takes_it = "peft_config" not in run.arguments and is_missing(run.value("ref_model"))
        return {"config": config} if takes_it else {}
    name = _name_of(pipeline, model, run)
    return {"config": config, "name": name} if run.is_plain and name is not None else {}


def _adapter_for(pipeline: Pipeline, model: Model) -> str | None:
    """The code of a LoRA configuration that PEFT takes for a model's task; None where it may take none."""
    task, facts = TASKS.get(model.task), special_tokens.certain_facts(pipeline, model)
    if task is not None:
        return f'LoraConfig(task_type="{task}", target_modules="all-linear")'
    layers = LAYERS.get((facts.model_type or "") if facts is not None else "")
    is_classifier = model.task is Task.SEQUENCE_CLASSIFICATION
    return f'LoraConfig(task_type="SEQ_CLS"{layers})' if is_classifier and layers is not None else None


def _name_of(pipeline: Pipeline, model: Model, run: TrainerRun) -> str | None:
    """The name that the model is made under and given by, in the block of its Trainer; None where it has others."""
    made, trainer = model.origin, run.construction
    names = {binding.name for binding in pipeline.names_of(model)}
    if made is None or len(names) != 1 or not blocks.is_one_scope(pipeline, made, trainer):
        return None
    given = run.arguments.get("model")
    loading, building = blocks.statement_at(pipeline, made), blocks.statement_at(pipeline, trainer)
    if loading is None or building is None or loading not in blocks.block_of(pipeline, building, trainer):
        return None
    return given.text if given is not None and given.text in names and given.text.isidentifier() else None
