"""A network of `transformers` for torch is compiled or fitted as one of Keras.

`BertForSequenceClassification` and its like are modules of torch. They have no `fit` and no `summary`, and their
`compile` is that of torch, which takes no loss: the first of these calls raises an error.

## Bad

    classifier = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    classifier.fit(x_train, y_train)  # <- torch-model-in-keras
    # raises object has no attribute 'fit'

## Good

    trainer = Trainer(
        model,
        TrainingArguments("out", eval_strategy="no"),
        train_dataset=tokenized["train"],
        processing_class=tokenizer,
    )
    trainer.train()

## When it is fine

`compile` of torch takes no loss:

    classifier = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
    classifier.compile(mode="default")

## Fix

None: the classes with `TF` in front are gone in transformers 5, so the training has to be written for torch.

## References

Transformers documentation, `Trainer`; PyTorch documentation, `torch.nn.Module.compile`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import keras_misuse
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets


class TorchModelInKeras(Rule):
    level = Level.ERROR
    keywords = "transformers & from_pretrained & .compile(|.fit(|.summary("
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(keras_misuse.torch_networks(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in keras_misuse.torch_networks(pipeline.source):
            cls = found.cls if len(found.cls) <= 34 else "this class"
            yield self.finding(
                found.location,
                f"`{found.method}` is a method of Keras models, but this is a PyTorch module",
                related=[Related(found.loaded, f"loads `{cls}`", "model")],
                help="train it with `Trainer` or with a loop of torch",
            )
