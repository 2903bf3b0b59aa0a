"""The evaluation data contain rows of the training data.

A metric on training rows measures how well the model remembers them, not how well it generalizes. It keeps improving
while the model overfits, so early stopping and the best checkpoint select the most overfitted model, without an error.

## Bad

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["train"],  # <- train-data-in-eval
        processing_class=tokenizer,
    )

A subset of the training rows, and ranges that overlap:

    train = tokenized["train"].shuffle(seed=42)
    trainer = Trainer(
        model,
        args,
        train_dataset=train.select(range(200)),
        eval_dataset=train.select(range(100, 300)),  # <- train-data-in-eval
        processing_class=tokenizer,
    )

Loaders of a custom loop:

    rows = columns["train"]
    train_loader = DataLoader(rows, batch_size=16, shuffle=True, collate_fn=collator)
    val_loader = DataLoader(rows, batch_size=16, collate_fn=collator)  # <- train-data-in-eval
    for _ in range(2):
        model.train()
        for batch in train_loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            for batch in val_loader:
                model(**batch)

The `validation_data` of Keras:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, validation_data=(x_train, y_train), verbose=0)  # <- train-data-in-eval

## Good

    trainer = Trainer(
        model,
        args,
        train_dataset=tokenized["train"],
        eval_dataset=tokenized["validation_matched"],
        processing_class=tokenizer,
    )

Ranges that do not overlap have no row in common:

    train = tokenized["train"].shuffle(seed=42)
    trainer = Trainer(
        model,
        args,
        train_dataset=train.select(range(200)),
        eval_dataset=train.select(range(200, 300)),
        processing_class=tokenizer,
    )

Other rows for Keras:

    network = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    network.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    network.fit(x_train, y_train, validation_data=(x_val, y_val), verbose=0)

## When it is fine

Two splits of one data set have no row in common:

    splits = tokenized["train"].train_test_split(test_size=0.2, seed=42)
    trainer = Trainer(
        model, args, train_dataset=splits["train"], eval_dataset=splits["test"], processing_class=tokenizer
    )

The metric on the training rows may be measured in addition, or be the purpose of the run:

    both = {"train": tokenized["train"], "validation": tokenized["validation_matched"]}
    trainer = Trainer(model, args, train_dataset=tokenized["train"], eval_dataset=both, processing_class=tokenizer)

    # overfit a few rows: the loss must come down to nothing
    few = tokenized["train"].select(range(8))
    trainer = Trainer(model, args, train_dataset=few, eval_dataset=few, processing_class=tokenizer)

Both scores tell how far a model overfits:

    rows, others = columns["train"], columns["validation_matched"]
    train_loader = DataLoader(rows, batch_size=16, shuffle=True, collate_fn=collator)
    for _ in range(2):
        model.train()
        for batch in train_loader:
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            for checked in (rows, others):
                for batch in DataLoader(checked, batch_size=16, collate_fn=collator):
                    model(**batch)

## Fix

None: the choice of the held-out rows is yours.

## References

transformers#25313; scikit-learn documentation, "Common pitfalls": data leakage.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import (
    expressions,
    lightning_loaders,
    loaders,
    overlapping_slices,
    rows_in_code,
    script_text,
    shared_loader_rows,
    split_names,
    tf_datasets,
    trained_on_loops,
    training_loops,
)
from lintrain.pipeline import dataset_rows
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.data import Dataset
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.python import LibraryObject, Sequence, Value, is_missing, options_of
from lintrain.pipeline.values.training import KerasRun, TrainerRun
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
    lazy_pattern,
    one_per_location,
)

TRAINING = frozenset({"train", "training", "trn", "tr"})
EVALUATION = frozenset({"val", "valid", "validation", "eval", "evaluation", "test", "testing", "dev"})

SHARED, REPEATED = 0.3, 0.15
"""Shares of evaluation rows: at least the first confirms the finding, at most the second refutes it (duplicates)."""
MOST = 0.9
FEW = 32
"""Evaluation rows, below which they may be there to be overfitted."""

EVALUATES = EVALUATION | {"evaluate", "validate"}
LOADER = lazy_pattern(r"^[\w.]*(loader|_dl|_data|_set|dataset)$")

HELD_OUT = lazy_pattern(r"(?i)\btrain|train\b|_train")

SAME_CODE = lazy_pattern(r"[\w.]+(\[\w+\])?")
"""A name, or an entry of one: evaluated twice, it is the same data set."""

ONLY_EVALUATES = r"\.(?:evaluate|predict)\("

LONGEST = 40
"""Characters of code that a message shows."""

MESSAGES = {
    "same": "{} contains the rows that the model trains on",
    "part": "{} is a subset of the rows that the model trains on",
    "overlap": "{} contains rows that the model trains on",
}


def _whole_graphs(pipeline: Pipeline) -> Iterator[tuple[Location, str, str]]:
    """The losses over the labels of all nodes of a graph, `data.y`, where the script evaluates `data.test_mask`."""
    for loss in pipeline.losses:
        text = loss.target.text if loss.target is not None else ""
        owner, _, name = text.rpartition(".")
        mask = f"{owner}.test_mask"
        is_whole = (
            name == "y" and owner.isidentifier() and loss.prediction is not None and "[" not in loss.prediction.text
        )
        if is_whole and not loss.without_grad and f"[{mask}]" in pipeline.source.text and pipeline.acts(Act.BACKWARD):
            yield loss.location, text, mask


class TrainDataInEval(Rule):
    level = Level.WARNING
    judges_configurations = True
    keywords = "Trainer|DataLoader|fit|loader|train"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        found = [_under_other_names(source), overlapping_slices.overlapping_slices(source)]
        return source.contains(HELD_OUT) and any(next(each, None) is not None for each in found)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report_name, _under_other_names(pipeline.source)))
        yield from map(self._report_slices, overlapping_slices.overlapping_slices(pipeline.source))
        for location, shuffle in tf_datasets.mixed_parts(pipeline.source):
            yield self.finding(
                location,
                "these rows are others in each epoch, and some were training rows before",
                related=[Related(shuffle, "shuffled again in each epoch", "training")],
                help="pass `reshuffle_each_iteration=False`, or take the parts before the shuffle",
            )
        for call in rows_in_code.mixed_windows(pipeline.source):
            yield self.finding(
                pipeline.source.location(call),
                "overlapping windows are divided by chance, so both parts have the same values",
                help="pass `shuffle=False`, or cut the series before the windows are made",
            )
        for location, trained in split_names.other_seeds(pipeline.source):
            yield self.finding(
                location,
                "these files are divided with another seed, so some of them are in both parts",
                related=[Related(trained, "the training part", "training")],
                help="pass the same `seed` to both calls",
            )
        for run in pipeline.runs:
            yield from self._trainer(pipeline, run)
        for keras in pipeline.keras_runs:
            yield from self._keras(pipeline, keras)
        known = list(self._loaders(pipeline))
        yield from known
        yield from self._shared_rows(pipeline, {each.location for each in known})
        yield from self._lightning(pipeline)
        yield from one_per_location(self._report_nodes(*found) for found in _whole_graphs(pipeline))
        if training_loops.trains_by_hand(pipeline):
            yield from self._named_as_held_out(pipeline)
        for found in trained_on_loops.trained_on_loops(pipeline.source):
            yield self._report_measured(pipeline.source.location(found.loader), found.total, pipeline)

    def _report_nodes(self, location: Location, labels: str, mask: str) -> Finding:
        return self.finding(
            location,
            f"this loss uses all of `{labels}`, also the nodes of `{mask}`",
            help="index both with the mask of the training nodes",
        )

    def _report_slices(self, found: overlapping_slices.OverlappingSlice) -> Finding:
        rows, trained = (f"`{code}`" if len(code) <= 20 else "" for code in (found.rows, found.trained))
        return self.finding(
            found.location,
            f"{rows or 'this slice'} and the training rows {trained} have rows in common".replace("  ", " "),
            related=[Related(found.training, "the training part", "training")],
            help="let one part end where the other begins",
            subject="eval_dataset",
        )

    def _report_name(self, other: split_names.OtherSplit) -> Finding:
        name = f"`{other.name}`" if len(other.name) <= 24 else "this name of held-out rows"
        rows = f"`{other.rows}`" if len(other.rows) <= 24 and " " not in other.rows else "the training rows"
        return self.finding(
            other.location,
            f"{name} gets {rows}",
            help="give it the rows of its own split",
        )

    def _trainer(self, pipeline: Pipeline, run: TrainerRun) -> Iterator[Finding]:
        train, evaluation = run.arguments.get("train_dataset"), run.arguments.get("eval_dataset")
        if train is None or evaluation is None or {"train_dataset", "eval_dataset"} & set(run.attributes):
            return
        source = pipeline.source_of(evaluation.location)
        if not run.train_calls and source.contains(ONLY_EVALUATES) and not source.contains(r"\.train\("):
            return  # a Trainer that never trains may ask for training rows all the same
        if _is_named_as_training(pipeline, evaluation):
            return
        shared = _certainly_shared(train.value, evaluation.value)
        if shared is not None and shared.how == "overlap":
            shared = None if _may_be_one_split(pipeline, train.value, evaluation.value, []) else shared
        is_given = not any(is_missing(option) for option in options_of(train.value))
        if is_given and train.text == evaluation.text and SAME_CODE.fullmatch(train.text):
            shared = dataset_rows.Sharing("same")  # whatever it is, it is given twice
        if shared is not None:
            yield from self._report(pipeline, evaluation.location, evaluation.text, shared, train.value)

    def _keras(self, pipeline: Pipeline, run: KerasRun) -> Iterator[Finding]:
        for _, arguments in run.fits:
            inputs, held_out = arguments.get("x"), arguments.get("validation_data")
            if inputs is None or held_out is None:
                continue
            first = held_out.text.strip("([ ").partition(",")[0].strip(") ")
            is_tuple = isinstance(held_out.value, Sequence) or held_out.text.startswith("(")
            same = first if is_tuple else held_out.text
            if same == inputs.text and same.isidentifier():
                yield from self._report(
                    pipeline, held_out.location, held_out.text, dataset_rows.Sharing("same"), inputs.value
                )

    def _lightning(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Loaders of validation that read what the same call of `fit` trains on, or by its name the training rows."""
        known = set[Location]()
        for fit in pipeline.lightning_fits:
            pairs = [(one, other) for one in options_of(fit.loader) for other in options_of(fit.held_out)]
            for train, held_out in pairs if len(pairs) == 1 else ():
                if not isinstance(train, Loader) or not isinstance(held_out, Loader) or held_out.origin is None:
                    continue
                shared = _certainly_shared(train.dataset, held_out.dataset)
                if shared and _reads_all(train) and _reads_all(held_out):
                    location = held_out.dataset_location or held_out.origin
                    known.add(location)
                    yield from self._report(pipeline, location, pipeline.code(location), shared, train.dataset)
        for rows in lightning_loaders.repeated_rows(pipeline.source):
            if rows.location not in known and not loaders.is_deliberate(pipeline, rows.location):
                yield self.finding(
                    rows.location,
                    MESSAGES["same"].format(f"`{rows.code}`" if len(rows.code) <= LONGEST else "this loader"),
                    related=[Related(rows.training, "the training reads them here", "training")],
                    help="pass the held-out rows",
                    subject="eval_dataset",
                )

        for swapped in lightning_loaders.swapped_loaders(pipeline.source):
            shown = f"`{swapped.code}`" if len(swapped.code) <= LONGEST else "a loader of held-out rows"
            yield self.finding(
                swapped.location,
                f"`fit` trains on {shown} and validates with the training rows",
                related=[Related(swapped.validation, "validates with these rows", "validation")],
                help="pass the loader of the training rows first",
                subject="train_dataset",
            )

    def _loaders(self, pipeline: Pipeline) -> Iterator[Finding]:
        named = [(loader, _words_for(pipeline, loader)) for loader in pipeline.loaders]
        used = _used_by_loops(pipeline)
        training = [loader for loader, words in named if _is_for(loader, words, TRAINING, EVALUATION, used, "train")]
        evaluating = [
            loader for loader, words in named if _is_for(loader, words, EVALUATION, TRAINING, used, "evaluate")
        ]
        for loader in evaluating:
            for other in training:
                shared = _certainly_shared(other.dataset, loader.dataset)
                if shared and shared.how == "overlap":
                    shared = None if _may_be_one_split(pipeline, other.dataset, loader.dataset, evaluating) else shared
                if shared and shared.how == "same" and _are_few(loader.dataset):
                    shared = None
                if shared and loader.dataset_location and _reads_all(loader) and _reads_all(other):
                    text = pipeline.code(loader.dataset_location)
                    yield from self._report(pipeline, loader.dataset_location, text, shared, other.dataset)
                    break

    def _shared_rows(self, pipeline: Pipeline, known: set[Location]) -> Iterator[Finding]:
        """Loaders for held-out rows with the rows of the training loader, by the names of both."""
        for found in shared_loader_rows.shared_loader_rows(pipeline.source):
            if found.location not in known and not loaders.is_deliberate(pipeline, found.location):
                yield self._report_name(found)

    def _named_as_held_out(self, pipeline: Pipeline) -> Iterator[Finding]:
        """`val_acc = evaluate(model, train_loader)`, although the function has a loader of other rows."""
        for call, target in script_text.named_results(pipeline.source):
            words = training_loops.words_of(target)
            if not words & EVALUATION or words & TRAINING or not training_loops.words_of(call.called_name) & EVALUATES:
                continue
            given = [each for each in call.arguments if training_loops.words_of(each.code) & TRAINING]
            others = [each for each in call.arguments if training_loops.words_of(each.code) & EVALUATION]
            if len(given) == 1 and not others and LOADER.search(given[0].code):
                yield self._report_measured(given[0].location, target, pipeline)

    def _report_measured(self, loader: Location, total: str, pipeline: Pipeline) -> Finding:
        return self.finding(
            loader,
            f"`{total}` is measured on `{pipeline.code(loader)}`, the rows that the model trains on",
            help="pass the loader of the held-out rows",
            subject="eval_dataset",
        )

    def _report(
        self, pipeline: Pipeline, location: Location, text: str, shared: dataset_rows.Sharing, train: Value
    ) -> Iterator[Finding]:
        if loaders.is_deliberate(pipeline, location):
            return
        shown = f"`{text}`" if 0 < len(text) <= LONGEST and "\n" not in text else "the evaluation data"
        source = shared.source or train
        origin = source.steps[-1] if isinstance(source, Dataset) and source.steps else None
        reasons = [Related(origin.location, "both come from here", "origin", origin.text)] if origin else []
        yield self.finding(
            location,
            MESSAGES[shared.how].format(shown),
            related=reasons,
            help="evaluate on another split, or hold out rows with `train_test_split` before training",
            subject="eval_dataset",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        split, shared = evidence.split("eval_dataset"), evidence.shared_rows
        # A few rows are overfitted on purpose, one of several sets may be that of the training, and a data set may hold
        # many rows twice.
        is_whole = shared is not None and shared.shared >= MOST * shared.looked_at >= MOST * FEW
        if split is None or split.key is not None or not (is_whole or (shared is not None and shared.are_copies)):
            return
        location = evidence.construction or evidence.call
        if evidence.loop is not None:
            # The training may make its loader again for each epoch.
            may_be_several = shared is not None and shared.are_copies and not is_whole
            location = (
                _loader_of(evidence, split.rows, may_be_several=may_be_several) if evidence.loop.evaluated else None
            )
        if location is not None:
            yield self.finding(
                location,
                "the evaluation reads rows that the model is trained on",
                help="evaluate on rows that are in no training set",
                subject="eval_dataset",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        shared = evidence.shared_rows
        if shared is None:
            return Verdict.inconclusive(evidence.not_reached("dataset"))
        text = f"{shared.shared} of {shared.looked_at} examined evaluation rows are among the training rows"
        share = shared.shared / max(1, shared.looked_at)
        if share < MOST and shared.are_copies:
            text = f"{text}, and {shared.repeated or 0.0:.0%} of these come twice by themselves"
        if share >= SHARED or shared.are_copies:
            return Verdict.confirmed(text, shared=shared.shared, looked_at=shared.looked_at)
        if share <= REPEATED:
            return Verdict.refuted(text, shared=shared.shared, looked_at=shared.looked_at)
        return Verdict.inconclusive(f"{text}, which may be duplicates in the data set")

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == "resampled-before-split" or super().follows_from(finding, verdict, cause)


def _loader_of(evidence: Evidence, rows: int | None, *, may_be_several: bool) -> Location | None:
    """Where the last loader of so many rows is made: that of the training comes first.

    None if a loader has other rows: then the score on the training rows is measured beside that on others, unless
    there `may_be_several` since only some of the rows are training rows.
    """
    train = evidence.split("train_dataset")
    known = {rows, train.rows if train is not None else rows}
    if not may_be_several and any(loader.rows not in known for loader in evidence.objects.loaders):
        return None
    made = {loader.location: loader for loader in evidence.objects.loaders if loader.rows == rows}
    is_trained_on = train is not None and train.rows == rows
    return list(made)[-1] if len(made) > is_trained_on else None


def _certainly_shared(train: Value, evaluation: Value) -> dataset_rows.Sharing | None:
    """How two data sets overlap, if there is a single possibility for both."""
    found = [dataset_rows.sharing(one, other) for one in options_of(train) for other in options_of(evaluation)]
    return found[0] if len(found) == 1 else None


def _may_be_one_split(pipeline: Pipeline, one: Value, other: Value, evaluating: list[Loader]) -> bool:
    """Whether two random splits may be the same, since a seed is set between them, or belong to two experiments."""
    made = [divided for each in (one, other) if (divided := _divided_at(each)) is not None]
    if len(made) < 2 or any(each.dataset.origin == made[0] for each in evaluating):
        return any(isinstance(each, TorchDataset) and each.origin is not None for each in (one, other))
    lines = sorted(each.line for each in made)
    seeds = SEEDS if isinstance(one, TorchDataset) else SETS_SEED
    return made[0].path != made[1].path or any(map(seeds.search, pipeline.source.lines[lines[0] : lines[1]]))


def _divided_at(rows: Value) -> Location | None:
    """Where a random split made these rows: that of PyTorch, or of a data set of the hub."""
    if isinstance(rows, TorchDataset):
        return rows.origin
    steps = rows.steps if isinstance(rows, Dataset) else ()
    return next((each.location for each in reversed(steps) if each.operation == "train_test_split"), None)


def _are_few(rows: Value) -> bool:
    """Whether the first rows of others were picked out, and are so few that they are there to be overfitted."""
    if not isinstance(rows, TorchDataset) or rows.name != "Subset":
        return False
    given = rows.arguments.get("indices") or rows.arguments.get("1")
    counted = FIRST_ROWS.match(given.text) if given is not None else None
    return counted is not None and int(counted[1]) <= FEW


FIRST_ROWS = lazy_pattern(r"(?:list\()?range\((\d+)\)\)?$")
"""Indices that are written as the first so many numbers."""

SEEDS = lazy_pattern(r"seed|rng_state|def ")
"""Code that may set a seed; a function may be called after one is set."""

SETS_SEED = lazy_pattern(r"seed\w*\(|rng_state|def ")
"""The same between calls that take a seed themselves, which is compared elsewhere."""


def _is_named_as_training(pipeline: Pipeline, evaluation: Argument) -> bool:
    """Whether a name shows that training rows are evaluated on purpose: `train_eval`, `eval_on_train`."""
    names = [evaluation.text, *(binding.name for binding in pipeline.names_of(evaluation.value))]
    return any(
        training_loops.words_of(name) & TRAINING and training_loops.words_of(name) & EVALUATION
        for name in names
        if name.isidentifier()
    )


def _words_for(pipeline: Pipeline, loader: Loader) -> set[str]:
    """The words of a loader's names, the attribute that it was made for, or of the names of its data set."""
    made = expressions.assignment_at(pipeline, loader.origin) if loader.origin else None
    attributes = [target.code.rpartition(".")[2] for target in made.targets if "self." in target.code] if made else []
    names = [*(binding.name for binding in pipeline.names_of(loader)), *attributes]
    words = {word for name in names for word in training_loops.words_of(name)}
    rows = [binding.name for binding in pipeline.names_of(loader.dataset)]
    return words if words & (TRAINING | EVALUATION) else {each for row in rows for each in training_loops.words_of(row)}


def _used_by_loops(pipeline: Pipeline) -> dict[int, set[str]]:
    """What loops do with the batches of each loader: `train`, or `evaluate` without gradients."""
    found: dict[int, set[str]] = {}
    for event in pipeline.acts(Act.BACKWARD, Act.FORWARD):
        for loop in event.loops[-1:]:
            use = "train" if event.act is Act.BACKWARD else "evaluate" if event.without_grad else ""
            for loader in options_of(loop.over) if use else ():
                found.setdefault(id(loader), set()).add(use)
    return found


def _is_for(
    loader: Loader, words: set[str], own: frozenset[str], others: frozenset[str], used: dict[int, set[str]], use: str
) -> bool:
    """Whether a loader is for one purpose only, by its names or by the loops that train on it."""
    uses = used.get(id(loader), {use})
    is_named = bool(words & own) and not words & others
    # What runs without gradients need not be an evaluation: features and labels are computed like that as well.
    is_trained_on = use == "train" and not words & (own | others) and uses == {use} and id(loader) in used
    return (is_named and use in uses) or is_trained_on


def _reads_all(loader: Loader) -> bool:
    """Whether a loader certainly reads all rows of its data set, perhaps among several processes."""
    sampler = loader.value("sampler")
    is_whole = isinstance(sampler, LibraryObject) and OF_ALL_ROWS.search(sampler.path) is not None
    is_chosen = any(name in loader.arguments for name in ("batch_sampler", "**"))
    return loader.is_complete and not is_chosen and (is_whole or "sampler" not in loader.arguments)


OF_ALL_ROWS = lazy_pattern(r"^torch\.utils\.data\.[\w.]*(?:(?<!Subset)Random|Sequential|Distributed)Sampler$")
"""Samplers that give every row of a data set, in some order."""


def _under_other_names(source: Source) -> Iterator[split_names.OtherSplit]:
    return split_names.training_rows_under_other_names(source)
