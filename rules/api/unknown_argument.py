"""A call names an argument that its library does not know: a slip of the pen, or one that another class takes.

Where the class does not take arguments of any name, the script ends at this call with an error, before it has loaded or
trained anything.

## Bad

What the class for the settings takes, given to the one that trains:

    args = TrainingArguments("out")
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=tokenized["train"],
        data_collator=collator,
        num_train_epochs=1,  # <- unknown-argument
    )
    # raises TypeError: Trainer.__init__() got an unexpected keyword argument 'num_train_epochs'

A letter too few:

    args = TrainingArguments("out", lerning_rate=2e-5)  # <- unknown-argument
    # raises TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'lerning_rate'

## Good

    args = TrainingArguments("out", num_train_epochs=1)
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=tokenized["train"],
        data_collator=collator,
    )

The name as the library has it:

    args = TrainingArguments("out", learning_rate=2e-5)

## When it is fine

A class of the script takes what it asks for, and hands the rest on:

    class Weighted(Trainer):
        def __init__(self, *given, weights=None, **named):
            super().__init__(*given, **named)
            self.weights = weights

    trainer = Weighted(model, args, data_collator=collator, train_dataset=tokenized["train"], weights=[1.0, 2.0, 1.0])

What a checkpoint's configuration is to be, `from_pretrained` takes by name:

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3, seq_classif_dropout=0.1)

The version that counts is the one that the project names: in a lock file, in its requirements, or in its environment.
For one that is newer than all that lintrain knows, nothing is said.

## Fix

Asks first: the nearest name that the call takes is a guess at what was meant.

## References

Python documentation, `TypeError` on calls; trl#6168, transformers#7974.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lintrain.analysis import library_arguments, prescreen
from lintrain.knowledge import api
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Source, Targets, Verdict, fixes

MOST_OF_ONE_CALL = 500
"""Keywords of one call that are looked at: no library's class has as many."""


class UnknownArgument(Rule):
    level = Level.ERROR
    needs_training = False
    matters_in_tests = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_give_what_is_refused(source, targets, "never", "not_yet")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        counts = Counter[Location]()
        for given in library_arguments.given_keywords(pipeline):
            counts[given.call.location] += 1
            if counts[given.call.location] > MOST_OF_ONE_CALL:
                continue
            known = api.keyword_state(given.call.path, given.name, pipeline.targets)
            target = pipeline.targets.get(known.package)
            if known.state in ("never", "not_yet") and target is not None and not target.is_beyond:
                yield self._report(pipeline, given, known)

    def _report(self, pipeline: Pipeline, given: library_arguments.GivenKeyword, known: api.Known) -> Finding:
        call, name = given.call, given.name
        target = pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        reasons = [Related(call.location, f"{known.package} {version} by {source}", "call", call.text)]
        help_text, edit = _cure(pipeline, given, known)
        if (
            edit == "moved"
            and (taker := library_arguments.taker_of(pipeline, given, library_arguments.config_of(call.path), name))
            is not None
        ):
            reasons.append(Related(taker.location, f"this one takes `{name}`", "taker", taker.text))
        return self.finding(
            given.location,
            _message(given, known, version),
            related=reasons,
            help=help_text,
            subject=name,
            facts={
                "callable": call.path,
                "argument": name,
                "value": given.argument.text,
                "new_name": edit if given.argument.keyword is not None else "",
                "is_certain": call.is_certain,
            },
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        return library_arguments.verdict_on_keyword(finding, evidence, "never", "not_yet")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        name, value, new_name = (str(finding.facts.get(key) or "") for key in ("argument", "value", "new_name"))
        if new_name == "moved":
            return library_arguments.moving(finding, name, name, value)
        calls = finding.with_role("call")
        if not new_name or not calls:
            return None
        return fixes.Fix.of(f"write `{new_name}`", fixes.RenameArgument(calls[0].location, name, new_name), safe=False)


def _message(given: library_arguments.GivenKeyword, known: api.Known, version: str) -> str:
    called = given.call.path.rpartition(".")[2]
    if known.state == "not_yet":
        return f"`{given.name}` of `{called}` comes with {known.package} {known.first_with} (here: {version})"
    return f"`{called}` of {known.package} {version} has no argument `{given.name}`"


def _cure(pipeline: Pipeline, given: library_arguments.GivenKeyword, known: api.Known) -> tuple[str, str]:
    """What to write instead: advice, and the new name of the argument (`moved` where its settings' class takes it)."""
    config = library_arguments.config_of(given.call.path)
    if config and library_arguments.takes_by_name(pipeline, config, given.name):
        return f"give it to `{config.rpartition('.')[2]}`", "moved"
    if known.state == "not_yet":
        return f"ask for {known.package}>={known.first_with}, or leave it out", ""
    taken = api.signature(given.call.path, pipeline.targets)
    names = [each.name for each in taken.parameters if each.name not in given.call.arguments] if taken else []
    from difflib import get_close_matches

    near = get_close_matches(given.name, names, n=1, cutoff=0.8)
    return (f"the nearest name is `{near[0]}`", near[0]) if near else ("take it out, or see what the class takes", "")
