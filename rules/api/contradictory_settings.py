"""Two settings of a run exclude each other, or one of them makes the other have no effect.

The tool raises an error when it starts, or one of the two values is ignored without a word. In a configuration file,
the two lines may be far apart, and one often comes from an example. A schedule of Keras that computes the rate from the
number of the epoch undoes what `ReduceLROnPlateau` has reduced.

## Bad

Parameters are offloaded by stage 3 of DeepSpeed only:

    args = TrainingArguments(
        "out",
        deepspeed={"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}},  # <- contradictory-settings
    )

Greedy decoding has no temperature:

    from transformers import GenerationConfig

    args = TrainingArguments("out")
    generation = GenerationConfig(
        do_sample=False,
        temperature=0.7,  # <- contradictory-settings
    )

One generation per prompt has no others to be compared with:

    args = trl.GRPOConfig(
        "out",
        use_cpu=True,
        num_generations=1,  # <- contradictory-settings
    )
    # raises ValueError

A Trainer that is given an optimizer makes none of its own:

    args = TrainingArguments(
        "out",
        learning_rate=5e-5,  # <- contradictory-settings
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    trainer = Trainer(
        model, args, train_dataset=tokenized["train"], data_collator=collator, optimizers=(optimizer, None)
    )
    trainer.train()

Label smoothing is applied by the library's `compute_loss`:

    class PlainLoss(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            return (outputs.loss, outputs) if return_outputs else outputs.loss

    args = TrainingArguments("out", label_smoothing_factor=0.1)  # <- contradictory-settings
    trainer = PlainLoss(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

The Trainer resumes where `train` says:

    args = TrainingArguments("out", resume_from_checkpoint="out/checkpoint-500")  # <- contradictory-settings
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

## Good

    args = TrainingArguments(
        "out",
        deepspeed={"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}},
    )

Sampling:

    from transformers import GenerationConfig

    args = TrainingArguments("out")
    generation = GenerationConfig(
        do_sample=True,
        temperature=0.7,
    )

A group of generations:

    args = trl.GRPOConfig("out", use_cpu=True, num_generations=8)

The rate of the optimizer, written once:

    args = TrainingArguments("out")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    trainer = Trainer(
        model, args, train_dataset=tokenized["train"], data_collator=collator, optimizers=(optimizer, None)
    )
    trainer.train()

The same loss with its own label smoothing:

    class PlainLoss(Trainer):
        def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
            outputs = model(**inputs)
            loss = nn.functional.cross_entropy(outputs.logits, inputs["labels"], label_smoothing=0.1)
            return (loss, outputs) if return_outputs else loss

    args = TrainingArguments("out")
    trainer = PlainLoss(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

A new run:

    args = TrainingArguments("out")
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)
    trainer.train()

## When it is fine

The optimizer may be offloaded in stage 2:

    args = TrainingArguments(
        "out",
        deepspeed={"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}},
    )

Values that change nothing may be written down, such as the defaults of a command line:

    from transformers import GenerationConfig

    args = TrainingArguments("out")
    generation = GenerationConfig(do_sample=False, temperature=1.0, top_p=1.0, typical_p=1.0)

## Fix

None: either of the two settings may be the intended one.

## References

`axolotl.utils.schemas.validation`; `llamafactory.hparams.parser`; torchtune recipes; DeepSpeed documentation, "ZeRO
Optimizations"; Transformers documentation, `GenerationConfig`; the constructors of TRL's trainers and configurations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from lintrain.analysis import deepspeed, keras_runs, library_arguments, run_conflicts
from lintrain.knowledge import contradictions
from lintrain.knowledge.contradictions import (
    GIVEN,
    MISSING,
    NOT_NONE,
    NOT_ONE,
    OFF,
    ON,
    POSITIVE,
    SEVERAL,
    WRITTEN,
    ZERO,
    Contradiction,
)
from lintrain.pipeline.record import LibraryCall
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import Constant, Mapping, Sequence, Unknown, Value, literal, number_of
from lintrain.pipeline.values.training import TrainerRun
from lintrain.rule import Finding, Level, Location, Pipeline, Related, Rule, one_per_location


class ContradictorySettings(Rule):
    level = Level.ERROR
    judges_configurations = True
    keywords = "Trainer|deepspeed|onConfig|FTConfig|OConfig|elConfig|interleave|RateScheduler|label2id|KFold|task_type"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for call in pipeline.calls:
            if not call.is_guarded:
                yield from self._of_call(call, pipeline)
        yield from self._uneven_lists(pipeline)
        for settings in deepspeed.settings_of(pipeline):
            yield from self._of_deepspeed(settings)
        yield from self._written_twice(pipeline)
        yield from self._of_given_optimizers(pipeline)
        undone = (found for run in pipeline.keras_runs for found in keras_runs.undone_reductions(run))
        yield from one_per_location(map(self._undone, undone))
        yield from self._of_runs(pipeline)

    def _undone(self, found: keras_runs.UndoneReduction) -> Finding:
        return self.finding(
            found.location,
            "`LearningRateScheduler` undoes in each epoch what `ReduceLROnPlateau` has reduced",
            related=[
                Related(found.reduction, "reduced here", "setting"),
                Related(found.schedule, "set here", "setting"),
            ],
            help="use one of them, or let the schedule start from the rate that it gets: `def schedule(epoch, lr)`",
            level=Level.WARNING,
        )

    def _of_call(self, call: LibraryCall, pipeline: Pipeline) -> Iterator[Finding]:
        found = list(self._found_in(call, pipeline))
        if found and not library_arguments.is_guessed(call.path, call.arguments, pipeline):
            yield from found

    def _found_in(self, call: LibraryCall, pipeline: Pipeline) -> Iterator[Finding]:
        for each in contradictions.CONTRADICTIONS:
            is_wanted = each.path == call.path and _is_since(each, pipeline)
            if is_wanted and all(_is(call, *wanted) for wanted in each.settings.items()):
                given = [arg for name in each.settings if (arg := _argument(call, name)) is not None]
                yield self._report(each, [argument.keyword or argument.location for argument in given])
        for switch in contradictions.SWITCHES if not call.is_open else ():
            names = [name for name in call.arguments if name.startswith(switch.prefix) and _is(call, name, GIVEN)]
            if switch.path == call.path and names and _is(call, switch.name, OFF) and not _is_option(call, switch.name):
                yield self._report_switch(switch, [call.arguments[name] for name in names], names[0])

    def _of_runs(self, pipeline: Pipeline) -> Iterator[Finding]:
        for run in pipeline.runs:
            call = run_conflicts.as_call(run)
            for each in contradictions.OF_RUNS:
                is_wanted = each.path == run.path and _is_since(each, pipeline)
                if is_wanted and all(_is(call, *wanted) for wanted in each.settings.items()):
                    given = [arg for name in each.settings if (arg := _argument(call, name)) is not None]
                    yield self._report(each, [argument.keyword or argument.location for argument in given])
        for misuse in pipeline.misuses:
            if misuse.use == "shares of data sets":
                yield self.finding(misuse.location, misuse.text, help="give one share for each, of 1 in all")
        for found in run_conflicts.conflicts(pipeline):
            yield self.finding(
                found.location,
                found.message,
                related=[Related(*found.other)],
                help=found.advice,
                level=found.level,
            )

    def _report_switch(self, switch: contradictions.Switch, given: list[Argument], first: str) -> Finding:
        locations = [argument.keyword or argument.location for argument in given]
        return self.finding(
            locations[0],
            f"`{first}` has no effect: `{switch.name}` is off",
            related=[Related(location, "has no effect either", "setting") for location in locations[1:]],
            help=f"set `{switch.name}` to true, or remove `{first}`",
            level=Level.WARNING,
        )

    def _uneven_lists(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Lists with one item for each item of another one, which a trainer gets itself or in its configuration."""
        seen = set[int]()
        settings = {run.construction: run.settings for run in pipeline.runs if run.settings is not None}
        for call in pipeline.calls:
            given = {name: (each.value, each.location) for name, each in call.arguments.items()}
            if not call.is_guarded and (own := settings.get(call.location)) is not None:
                given |= {name: (own.values[name], at) for name, at in own.locations.items()}
            for one, other in contradictions.SAME_LENGTH:
                if one not in given or other not in given or given[other][1].line in seen:
                    continue
                if sizes := _sizes(given[one][0], given[other][0]):
                    seen.add(given[other][1].line)
                    yield self._report_sizes((one, other), sizes, (given[one][1], given[other][1]))

    def _report_sizes(
        self, names: tuple[str, str], sizes: tuple[int, int], locations: tuple[Location, Location]
    ) -> Finding:
        return self.finding(
            locations[1],
            f"`{names[1]}` has {sizes[1]} items, and `{names[0]}` has {sizes[0]}",
            related=[Related(locations[0], "set here", "setting")],
            help="write one item for each",
        )

    def _report(self, each: Contradiction, locations: list[Location]) -> Finding:
        first, *others = locations
        return self.finding(
            first,
            each.message,
            related=[Related(location, "set here", "setting") for location in others],
            help=each.advice,
            level=each.level,
        )

    def _of_deepspeed(self, settings: deepspeed.Settings) -> Iterator[Finding]:
        stage = settings.at("zero_optimization.stage")
        if settings.at("fp16.enabled") is True and settings.at("bf16.enabled") is True:
            yield self.finding(
                settings.location("bf16"),
                "`fp16` and `bf16` are both enabled, but only one is allowed",
                related=[Related(settings.location("fp16"), "set here", "setting")],
                help="enable one of them",
            )
        for name, least in (("offload_param", 3), ("offload_optimizer", 1)):
            if isinstance(stage, int) and stage < least and _offloads(settings, name):
                yield self.finding(
                    settings.location("zero_optimization"),
                    f"`{name}` has no effect in stage {stage} of ZeRO",
                    help=f"set `stage` to {least}{' or more' if least < 3 else ''}, or remove `{name}`",
                    level=Level.WARNING,
                )
        yield from self._uneven_batch(settings)

    def _uneven_batch(self, settings: deepspeed.Settings) -> Iterator[Finding]:
        whole, part = settings.at("train_batch_size"), settings.at("train_micro_batch_size_per_gpu")
        steps = settings.at("gradient_accumulation_steps") or 1
        if not (isinstance(whole, int) and isinstance(part, int) and isinstance(steps, int)):
            return
        if part * steps > 0 and whole % (part * steps):
            yield self.finding(
                settings.location("train_batch_size"),
                f"`train_batch_size` is {whole}, no multiple of {part} rows times {steps} accumulated steps",
                help="set it to the product of rows, accumulated steps and GPUs, or remove it",
            )

    def _written_twice(self, pipeline: Pipeline) -> Iterator[Finding]:
        for key, first, last in library_arguments.written_twice(pipeline):
            yield self.finding(
                first,
                f"`{key}` is set twice, and only the last value counts",
                related=[Related(last, "the value that counts", "setting")],
                help="remove one of them",
                level=Level.WARNING,
            )

    def _of_given_optimizers(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Arguments of a Trainer for an optimizer that it does not make."""
        for run in pipeline.runs:
            optimizer, settings = _given_optimizer(run), run.settings
            if optimizer is None or settings is None:
                continue
            for name, of_optimizer in OF_OPTIMIZERS.items():
                wanted, used = settings.value(name), optimizer.arguments.get(of_optimizer)
                if used is None or name not in settings.locations or not _differ(wanted, used):
                    continue
                made = [Related(optimizer.origin, "the optimizer is made here", "setting")] if optimizer.origin else []
                yield self.finding(
                    settings.locations[name],
                    f"`{name}` has no effect: the optimizer is given, with `{of_optimizer}={number_of(used):g}`",
                    related=made,
                    help=f"remove `{name}`, or give the optimizer this value",
                    level=Level.WARNING,
                )


OF_OPTIMIZERS = {"learning_rate": "lr", "weight_decay": "weight_decay"}
"""Training arguments that a Trainer passes to the optimizer that it makes, by their names in torch."""


def _given_optimizer(run: TrainerRun) -> Optimizer | None:
    given = run.value("optimizers")
    first = given.items[0] if isinstance(given, Sequence) and given.is_complete and given.items else None
    return first if isinstance(first, Optimizer) and not first.has_groups else None


def _differ(one: Value, other: Value) -> bool:
    """Whether two numbers are certain, and not the same."""
    is_option = any(isinstance(each, Constant) and each.default is not None for each in (one, other))
    numbers = number_of(one), number_of(other)
    return not is_option and None not in numbers and numbers[0] != numbers[1]


def _argument(call: LibraryCall, name: str) -> Argument | None:
    """An argument of a call, or the dictionary that holds a setting as an entry: `generation_kwargs.top_k`."""
    owner, _, key = name.partition(".")
    argument = call.arguments.get(owner)
    if name in call.arguments or argument is None or not key:
        return call.arguments.get(name)
    held = argument.value
    return replace(argument, value=held.entries[key]) if isinstance(held, Mapping) and key in held.entries else None


def _is(call: LibraryCall, name: str, wanted: str) -> bool:
    argument = _argument(call, name)
    is_missing = argument is None or (isinstance(argument.value, Constant) and argument.value.value is None)
    value = literal(argument.value) if argument is not None else None
    if argument is None and call.is_open and wanted in (MISSING, OFF):
        return False  # what is passed by `**` may hold it
    if wanted in (GIVEN, MISSING):
        return is_missing == (wanted == MISSING) and not (argument and isinstance(argument.value, Unknown))
    if wanted in (ON, OFF):
        return value is True if wanted == ON else value is False or is_missing
    if wanted == WRITTEN:  # an option of the script is turned on where it is meant
        return argument is not None and argument.text == "True"
    if wanted == NOT_NONE:
        return argument is None or not (is_missing or isinstance(argument.value, Unknown))
    if wanted == ZERO:
        return argument is None or value == 0
    if wanted == NOT_ONE:  # 1 is the default of the settings of sampling, and changes nothing
        return isinstance(value, int | float) and value != 1
    if wanted in (POSITIVE, SEVERAL):
        return isinstance(value, int | float) and value > (wanted == SEVERAL)
    items = argument.value.items if argument and isinstance(argument.value, Sequence) else []
    return not is_missing and wanted in _written([value, *map(literal, items)])


def _is_option(call: LibraryCall, name: str) -> bool:
    """Whether a setting is an option of the script: it is turned on when it matters."""
    value = call.arguments[name].value if name in call.arguments else None
    return value is not None and not (isinstance(value, Constant) and value.default is None)


def _written(values: Iterable[object]) -> set[str]:
    """Values as texts, whole numbers without a point."""
    return {str(value).removesuffix(".0") for value in values}


def _is_since(each: Contradiction, pipeline: Pipeline) -> bool:
    """Whether all versions that the project may run on have what a contradiction is about."""
    target = pipeline.targets.get(each.path.partition(".")[0])
    return each.since == (0, 0) or (target is not None and min(target.versions)[:2] >= each.since)


def _sizes(one: Value, other: Value) -> tuple[int, int] | None:
    """How many items two lists have, if the numbers are known and differ."""
    if not (isinstance(one, Sequence) and isinstance(other, Sequence) and one.is_complete and other.is_complete):
        return None
    sizes = len(one.items), len(other.items)
    return sizes if sizes[0] != sizes[1] else None


def _offloads(settings: deepspeed.Settings, name: str) -> bool:
    device = settings.at(f"zero_optimization.{name}.device")
    return device in ("cpu", "nvme")
