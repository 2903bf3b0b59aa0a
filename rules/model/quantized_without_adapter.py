"""A model in 4 or 8 bits is trained without adapters.

Weights in 4 or 8 bits cannot take the small steps of training: only adapters beside them can learn. The Trainer ends
the run when it is built, after a model was loaded that is often many gigabytes large.

## Bad

    config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    trainer = Trainer(lm, args, train_dataset=text["train"])  # <- quantized-without-adapter
    trainer.train()
    # raises ValueError: You cannot perform fine-tuning on purely quantized models

## Good

    config = transformers.BitsAndBytesConfig(load_in_4bit=True)
    lm = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=config)
    lm = get_peft_model(lm, LoraConfig(task_type="CAUSAL_LM"))
    trainer = SFTTrainer(lm, SFTConfig("out"), train_dataset=text["train"])

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

None: which layers an adapter should have, and how large, only you know.

## References

transformers#26248; Transformers documentation, "bitsandbytes".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    Evidence,
    Finding,
    Level,
    Model,
    Pipeline,
    Place,
    Reason,
    Rule,
    Verdict,
    confirmed,
    is_true,
    is_tuned_whole,
    quantization_of,
    refuted,
    trainings,
    unsettled,
)

CONFIGS = frozenset({"transformers.BitsAndBytesConfig", "transformers.utils.quantization_config.BitsAndBytesConfig"})
RAISED = ("You cannot perform fine-tuning on purely quantized models",)
FLAGS = ("load_in_4bit", "load_in_8bit")


class QuantizedWithoutAdapter(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for training in trainings(pipeline):
            model, run = training.model, training.run
            if run is None or not isinstance(model, Model) or not is_tuned_whole(pipeline, training):
                continue
            place = _quantized_at(model)
            if place is not None:
                yield self.finding(
                    run.construction,
                    f"`{run.name}` trains a quantized model that has no adapter",
                    because=[Reason(place, "quantized here", "origin")],
                    help='put LoRA in first: `get_peft_model(model, LoraConfig(target_modules="all-linear"))`',
                    subject="model",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        stage = evidence.failed_at(finding.place, *RAISED)
        if stage is not None and stage.failure is not None:
            return confirmed(f"{stage.failure.type} when the trainer is built: 0 steps were taken")
        model = evidence.model
        if model is None or not evidence.passed("construction"):
            return unsettled(evidence.not_reached("construction"))
        share = f"{model.trainable_parameters} of {model.parameters} parameters train"
        if 0 < model.trainable_parameters < model.parameters:
            return refuted(f"the trainer took the model: {share}", trainable=model.trainable_parameters)
        return unsettled(f"whether the model that was trained is quantized is not known: {share}")


def _quantized_at(model: Model) -> Place | None:
    """The place that certainly loads a model in 4 or 8 bits."""
    config = quantization_of(model)
    given = config.arguments if config is not None and config.path in CONFIGS else model.arguments
    return model.origin if any(flag in given and is_true(given[flag]) for flag in FLAGS) else None
