"""An optimizer or training arguments get a text where they need a number, such as `learning_rate="2e-5"`.

Options without a type, environment variables and JSON in quotes give texts. `TrainingArguments` takes them without a
check, and the optimizer, which is made later, compares the text with a number and raises TypeError.

## Bad

    args = TrainingArguments("out", learning_rate="2e-5")  # <- text-for-number
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    # raises TypeError: '<=' not supported between instances of 'float' and 'str'

An option of the command line that has no type:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", default="1e-4")
    options = parser.parse_args([])
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.lr)  # <- text-for-number
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()
    # raises TypeError: '<=' not supported between instances of 'float' and 'str'

## Good

    args = TrainingArguments("out", learning_rate=2e-5)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

The option has a type:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default="1e-4")
    options = parser.parse_args([])
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.lr)
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs), labels).backward()
        optimizer.step()

## When it is fine

A number from a text:

    import os

    args = TrainingArguments("out", learning_rate=float(os.environ.get("RATE", "2e-5")))

## Fix

Safe: the same number without quotes. Offered where the text is written in the call.

## References

`TrainingArguments` of transformers 5.23; `torch.optim.AdamW` of torch 2.13; `keras.optimizers.Optimizer` of Keras 3.15.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.knowledge.trainers import is_training_arguments
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.python import literal
from lintrain.rule import Finding, Level, Pipeline, Rule, dataclass, fixes

OF_ARGUMENTS = frozenset({"learning_rate", "weight_decay", "adam_epsilon", "max_steps", "num_train_epochs"})
OF_OPTIMIZERS = frozenset({"lr", "learning_rate", "weight_decay", "eps", "momentum"})


@dataclass(frozen=True, slots=True)
class Claim:
    """The number as code; empty if the text does not stand in the call."""

    number: str


class TextForNumber(Rule[Claim]):
    level = Level.ERROR
    keywords = "Arguments|Config|optim"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for call in pipeline.calls:
            for name in sorted(_numbers_of(call) & set(call.arguments)) if not call.is_guarded else ():
                argument = call.arguments[name]
                text = literal(argument.value)
                if not isinstance(text, str) or not _is_number(text):
                    continue
                is_written = argument.text.strip("\"'") == text != argument.text
                yield self.finding(
                    argument.location,
                    f'`{name}` is the text "{text}", not a number',
                    help="write it without quotes"
                    if is_written
                    else "convert it with `float`, or give its option a type",
                    subject=name,
                    claim=Claim(text if is_written else ""),
                )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.number:
            return None
        number = finding.claim.number
        return fixes.Fix.of(f"write `{number}`", fixes.Replace(finding.location, number), safe=True)


def _numbers_of(call: LibraryCall) -> frozenset[str]:
    """The arguments of a call that are numbers, if it makes training arguments or an optimizer."""
    if is_training_arguments(call.path):
        return OF_ARGUMENTS
    module, _, name = call.path.rpartition(".")
    is_optimizer = module in {"torch.optim", "keras.optimizers"} and name[:1].isupper()
    return OF_OPTIMIZERS if is_optimizer else frozenset()


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip() and text[:1] in "0123456789.-"
