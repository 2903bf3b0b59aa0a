"""A call passes an argument that its function or class does not have, or leaves out one that it needs.

The call raises TypeError, unless the class accepts arguments of any name. Functions of libraries are judged by their
version, the script's own by their definition: it often gets a parameter that one of its calls, in another file or cell,
does not pass.

## Bad

An argument of `TrainingArguments` that is passed to the trainer:

    args = TrainingArguments("out")
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=tokenized["train"],
        data_collator=collator,
        num_train_epochs=1,  # <- unknown-argument
    )
    # raises TypeError: Trainer.__init__() got an unexpected keyword argument 'num_train_epochs'

A misspelt name:

    args = TrainingArguments("out", lerning_rate=2e-5)  # <- unknown-argument
    # raises TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'lerning_rate'

A function of the script that needs another argument:

    def trainer_for(rows, collate):
        return Trainer(model=model, args=TrainingArguments("out"), train_dataset=rows, data_collator=collate)

    trainer = trainer_for(tokenized["train"])  # <- unknown-argument
    # raises TypeError: trainer_for() missing 1 required positional argument: 'collate'

A method of an object that is called on the class:

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x)

    small = Small()
    optimizer = torch.optim.Adam(Small.parameters())  # <- unknown-argument
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()
    # raises TypeError: Module.parameters() missing 1 required positional argument: 'self'

## Good

    args = TrainingArguments("out", num_train_epochs=1)
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=tokenized["train"],
        data_collator=collator,
    )

The correct spelling:

    args = TrainingArguments("out", learning_rate=2e-5)

An object of the class:

    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x)

    small = Small()
    optimizer = torch.optim.Adam(small.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(small(x), y).backward()
        optimizer.step()

## When it is fine

A class of the script has an argument of its own and passes the others on:

    class Weighted(Trainer):
        def __init__(self, *given, weights=None, **named):
            super().__init__(*given, **named)
            self.weights = weights

    trainer = Weighted(model, args, data_collator=collator, train_dataset=tokenized["train"], weights=[1.0, 2.0, 1.0])

`from_pretrained` accepts the values of the checkpoint's configuration by name:

    model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3, seq_classif_dropout=0.1)

lintrain uses the version that the project requires: in its lock file, its requirements or its environment. Of newer
versions than it knows, and of other libraries that build on these, it reads the source in the project's environment. If
they are not installed there, it reports nothing.

## Fix

Asks first: the new name is a guess, the most similar one that the call accepts.

## References

Python documentation, `TypeError` on calls; trl#6168, transformers#7974.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial

from lintrain.analysis import foreign_settings, library_arguments, prescreen
from lintrain.interpreter.own_arguments import OF_OWN_FUNCTION, ON_CLASS
from lintrain.knowledge import api, tables
from lintrain.knowledge.target import Target
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.python import Class
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
    one_per_location,
)

MOST_OF_ONE_CALL = 500
"""How many keywords of one call are checked: no class of a library has as many."""

LEFT_OUT = {"torchmetrics task": 'pass `task="multiclass"` with `num_classes`, `task="binary"` or `task="multilabel"`'}
"""What to pass for an argument that a newer version needs."""

MOST_SHOWN = 5
"""How many other calls with the same mistake are shown."""


@dataclass(frozen=True, slots=True)
class Claim(library_arguments.KeywordClaim):
    """The unknown argument with its value, and the edit: a new name, or a move to the trainer's configuration."""

    value: str = ""
    new_name: str = ""
    belongs_to_config: bool = False


class UnknownArgument(Rule[Claim]):
    level = Level.ERROR
    needs_training = False
    judges_networks = True
    matters_in_tests = True
    judges_configurations = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_pass_keyword(source, targets, "never", "not_yet")

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        counts = Counter[Location]()
        for keyword in library_arguments.keyword_arguments(pipeline):
            counts[keyword.call.location] += 1
            if counts[keyword.call.location] > MOST_OF_ONE_CALL:
                continue
            known = api.keyword_state(keyword.call.path, keyword.name, pipeline.targets)
            if known.state in ("never", "not_yet") and _is_covered(pipeline, known):
                yield self._report(pipeline, keyword, known)
        for surplus in library_arguments.surplus_arguments(pipeline):
            yield self._report_surplus(pipeline, surplus)
        yield from map(partial(self._report_left_out, pipeline), library_arguments.left_out_arguments(pipeline))
        yield from one_per_location(map(self._report_foreign, foreign_settings.passed(pipeline)))
        yield from self._report_own(pipeline)
        yield from self._report_on_classes(pipeline)
        yield from one_per_location(
            self.finding(
                misuse.location,
                f"`{misuse.text}` of a metric takes its arguments by name only",
                help="write `predictions=…` and `references=…`",
                subject=misuse.text,
                claim=Claim("evaluate.compute", "", is_certain=True),
            )
            for misuse in pipeline.misuses
            if misuse.use == "metric by position"
        )

    def _report_own(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """One finding for each mistake of a file: a function that got a parameter is often called in many places."""
        alike = dict[tuple[str, str], list[Misuse]]()
        for misuse in pipeline.misuses:
            if misuse.use == OF_OWN_FUNCTION:
                alike.setdefault((misuse.location.path, misuse.text), []).append(misuse)
        for (_, fault), (first, *others) in alike.items():
            repeated = dict.fromkeys(each.location for each in others if each.location != first.location)
            defined = first.value.origin
            yield self.finding(
                first.location,
                fault,
                related=[
                    *([Related(defined, "defined here", "definition")] if defined is not None else []),
                    *(Related(location, "also called like this here") for location in [*repeated][:MOST_SHOWN]),
                ],
                help="pass the arguments that its definition takes",
            )

    def _report_on_classes(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """One finding for each method of a class: `model = Net` is often followed by several calls."""
        on_classes = (misuse for misuse in pipeline.misuses if misuse.use == ON_CLASS)
        first = {(each.location.path, each.text): each for each in reversed([*on_classes])}
        for misuse in reversed(first.values()):
            defined = misuse.value.origin if isinstance(misuse.value, Class) else None
            yield self.finding(
                misuse.location,
                f"`{misuse.text}` is called on the class, without an object",
                related=[Related(defined, "the class", "definition")] if defined is not None else [],
                help=f"make an object of the class first, and call its `{misuse.text.rpartition('.')[2]}`",
            )

    def _report_surplus(self, pipeline: Pipeline, surplus: library_arguments.Surplus) -> Finding[Claim]:
        call, target = surplus.call, pipeline.targets.get(surplus.call.path.partition(".")[0])
        is_in_table = call.path not in library_arguments.WITHOUT_ARGUMENTS
        name = call.path.rpartition(".")[2]
        return self.finding(
            call.location,
            f"`{name}` accepts {_counted(surplus.accepted)}, and gets {call.positional}",
            help=surplus.advice,
            subject=name,
            level=library_arguments.level_for(target) if is_in_table else Level.ERROR,
            claim=Claim(call.path, "", call.is_certain),
        )

    def _report_foreign(self, found: foreign_settings.ForeignSetting) -> Finding[Claim]:
        """A rate of another kind of model, which `from_pretrained` hands to the class of this one."""
        return self.finding(
            found.location,
            f"`{found.kind}` has no setting `{found.name}`, so its class gets it and raises",
            help=f"its rates are {', '.join(f'`{each}`' for each in found.own)}",
            subject=found.name,
        )

    def _report_left_out(self, pipeline: Pipeline, left_out: library_arguments.LeftOut) -> Finding[Claim]:
        call, package = left_out.call, left_out.call.path.partition(".")[0]
        target, name = pipeline.targets.get(package), call.path.rpartition(".")[2]
        shown = ", ".join(f"`{each}`" for each in left_out.names[:3])
        assumed = " (newest assumed)" if target and target.is_assumed else ""
        release = f"{package} {target.text}" if target and target.text else package
        return self.finding(
            call.location,
            f"`{name}` of {release} needs {shown}{assumed}",
            help=LEFT_OUT.get(f"{package} {left_out.names[0]}", f"pass {shown}"),
            subject=name,
            level=library_arguments.level_for(target),
            claim=Claim(call.path, "", call.is_certain),
        )

    def _report(
        self, pipeline: Pipeline, keyword: library_arguments.KeywordArgument, known: api.Known
    ) -> Finding[Claim]:
        call, name = keyword.call, keyword.name
        target = known.installed or pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        reasons = [Related(call.location, f"{known.package} {version}, from {source}", "call", call.text)]
        config = library_arguments.config_of(call.path)
        belongs_to_config = bool(config) and library_arguments.accepts_keyword(pipeline, config, name)
        if belongs_to_config and (taker := library_arguments.accepting_call(pipeline, keyword, config, name)):
            reasons.append(Related(taker.location, f"accepts `{name}`", "taker", taker.text))
        near = "" if belongs_to_config else _most_similar(pipeline, keyword, known)
        is_written = keyword.argument.keyword is not None
        return self.finding(
            keyword.location,
            _message(keyword, known, target),
            related=reasons,
            why=library_arguments.why_about_keys(pipeline),
            help=f"pass it to `{config.rpartition('.')[2]}`" if belongs_to_config else _help(known, near),
            subject=name,
            level=library_arguments.level_for(target),
            claim=Claim(
                call.path,
                name,
                call.is_certain,
                keyword.argument.text,
                near if is_written else "",
                belongs_to_config and is_written,
            ),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        refused = library_arguments.refused_keyword(evidence, "never", "not_yet")
        if refused is not None:
            location, keyword = refused
            yield self.finding(
                location,
                f"`{keyword.argument}` is no argument of `{keyword.callable}`",
                help="`lintrain check` shows its present name",
                claim=Claim(keyword.callable, keyword.argument, is_certain=True),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        if finding.claim is None:
            return _verdict_on_own(finding, evidence)
        if not finding.claim.argument:
            return _verdict_on_surplus(finding.claim, finding.location, evidence)
        return library_arguments.verdict_on_keyword(finding, evidence, "never", "not_yet")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, calls = finding.claim, finding.with_role("call")
        if claim is None or not calls:
            return None
        if claim.belongs_to_config:
            return library_arguments.moved_argument(finding, claim.argument, claim.argument, claim.value)
        if not claim.new_name:
            return None
        edit = fixes.RenameArgument(calls[0].location, claim.argument, claim.new_name)
        return fixes.Fix.of(f"write `{claim.new_name}`", edit, safe=False)


def _is_covered(pipeline: Pipeline, known: api.Known) -> bool:
    """Whether the version is in the tables, or its source was read."""
    target = pipeline.targets.get(known.package)
    return known.installed is not None or (target is not None and not target.is_beyond)


def _counted(accepted: int) -> str:
    return f"{accepted or 'no'} positional argument{'' if accepted == 1 else 's'}"


def _verdict_on_own(finding: Finding[Claim], evidence: Evidence) -> Verdict:
    failure = evidence.failure
    is_here = failure is not None and failure.location is not None and failure.location.meets(finding.location)
    if failure is not None and is_here and failure.type == "TypeError":
        return Verdict.confirmed("the run ended with 1 TypeError at this call")
    if evidence.ran(finding.location):
        return Verdict.refuted("the call ran with 0 errors")
    return Verdict.inconclusive("the run made 0 such calls")


def _verdict_on_surplus(claim: Claim, location: Location, evidence: Evidence) -> Verdict:
    package = claim.callable.partition(".")[0]
    version = evidence.versions.get(package, "")
    if evidence.failed_with("positional argument") is not None:
        return Verdict.confirmed(f"{package} {version} raises TypeError on the positional arguments", version=version)
    if evidence.ran(location) and claim.is_certain:
        return Verdict.refuted(f"{package} {version} accepted the call", version=version)
    return Verdict.inconclusive(f"the run did not show how many arguments {package} {version} accepts")


def _message(keyword: library_arguments.KeywordArgument, known: api.Known, target: Target | None) -> str:
    version, shown = (target.text, target.shown) if target else ("", "")
    assumed = " (newest assumed)" if target and target.is_assumed else ""
    is_key = tables.holds_keys(keyword.call.path)
    called = keyword.call.path.rpartition(".")[2]
    if known.state == "not_yet":
        named = f"the key `{keyword.name}`" if is_key else f"`{keyword.name}` of `{called}`"
        return f"{named} needs {known.package} {known.first_with} ({shown})"
    if not is_key:
        return f"`{called}` of {known.package} {version} has no argument `{keyword.name}`{assumed}"
    section = keyword.call.path.partition(".config.")[2]  # a key of a configuration file; its section is named
    owner = f"`{section}` of " if section else ""
    return f"{owner}{known.package} {version} has no key `{keyword.name}`{assumed}"


def _help(known: api.Known, near: str) -> str:
    if known.state == "not_yet":
        return f"require {known.package}>={known.first_with}, or remove the argument"
    return f"did you mean `{near}`?" if near else "remove it, or look up the arguments of the class"


def _most_similar(pipeline: Pipeline, keyword: library_arguments.KeywordArgument, known: api.Known) -> str:
    """The name of an unused parameter of the call that is spelt almost the same; empty if there is none."""
    if known.state == "not_yet":
        return ""
    taken = api.signature(keyword.call.path, pipeline.targets)
    names = [each.name for each in taken.parameters if each.name not in keyword.call.arguments] if taken else []
    from difflib import get_close_matches

    near = next(iter(get_close_matches(keyword.name, names, n=1, cutoff=0.8)), "")
    return near or library_arguments.other_name(keyword, pipeline)
