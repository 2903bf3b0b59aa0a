"""An evaluation keeps one logit per vocabulary entry for every token of its data.

A metric function receives the predictions of the whole evaluation set at once. For a language model, that is rows times
length times vocabulary size: a few thousand rows of 512 tokens with a vocabulary of 50,000 take hundreds of gigabytes,
and the first evaluation runs out of memory.

## Bad

    small = transformers.GPT2Config(vocab_size=20000, n_embd=32, n_layer=1, n_head=2)
    writer = AutoModelForCausalLM.from_config(small)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)
    many = words["validation"]
    for _ in range(11):
        many = concatenate_datasets([many, many])

    def judge(prediction):
        guesses = prediction.predictions.argmax(-1)[:, :-1]
        return {"accuracy": float((guesses == prediction.label_ids[:, 1:]).mean())}

    trainer = Trainer(  # <- eval-logits-memory
        writer,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=words["train"],
        eval_dataset=many,
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
    )

## Good

    small = transformers.GPT2Config(vocab_size=20000, n_embd=32, n_layer=1, n_head=2)
    writer = AutoModelForCausalLM.from_config(small)
    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)
    many = words["validation"]
    for _ in range(11):
        many = concatenate_datasets([many, many])

    def judge(prediction):
        guesses = prediction.predictions[:, :-1]
        return {"accuracy": float((guesses == prediction.label_ids[:, 1:]).mean())}

    trainer = Trainer(
        writer,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=words["train"],
        eval_dataset=many,
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
        preprocess_logits_for_metrics=lambda logits, labels: logits.argmax(dim=-1),
    )

## When it is fine

A small subset fits in memory:

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)

    def judge(prediction):
        guesses = prediction.predictions.argmax(-1)[:, :-1]
        return {"accuracy": float((guesses == prediction.label_ids[:, 1:]).mean())}

    trainer = Trainer(
        lm,
        TrainingArguments("out", eval_strategy="epoch"),
        train_dataset=words["train"],
        eval_dataset=words["validation"].select(range(16)),
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
    )

The metric may be computed batch by batch, so that nothing is kept:

    def judge(prediction, compute_result=False):
        return {"rows": float(len(prediction.label_ids))}

    lm_tokenizer.pad_token = lm_tokenizer.eos_token
    words = text.map(
        lambda rows: lm_tokenizer(rows["text"], truncation=True, max_length=16), batched=True, remove_columns=["text"]
    )
    words = words.filter(lambda row: len(row["input_ids"]) > 8)
    trainer = Trainer(
        lm,
        TrainingArguments("out", eval_strategy="epoch", batch_eval_metrics=True),
        train_dataset=words["train"],
        eval_dataset=words["validation"],
        data_collator=DataCollatorForLanguageModeling(lm_tokenizer, mlm=False),
        compute_metrics=judge,
    )

## Fix

Asks first: the output of the model has to be its logits alone. Offered if the metric function only takes the argmax of
the logits; otherwise only its author knows what it can use instead of them.

## References

transformers#15466, transformers#25313; transformers documentation, `Trainer.preprocess_logits_for_metrics`.
"""

from __future__ import annotations

import ast  # matches the few shapes in which a metric function only takes an argmax of its argument
from collections.abc import Iterator

from lintrain.analysis import evaluation_schedule, trainer_methods
from lintrain.pipeline.events import Act
from lintrain.pipeline.values import data, training
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import Function, is_missing, options_of
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes
from lintrain.source.nodes import unparse

VOCABULARY_WIDE = frozenset({Task.CAUSAL_LM, Task.MASKED_LM})
OWN_EVALUATION = frozenset({"prediction_step", "evaluation_loop", "prediction_loop", "evaluate", "get_eval_dataloader"})
TRAINERS = frozenset({"transformers.Trainer", "trl.SFTTrainer"})
REDUCE_LOGITS = ("batch_eval_metrics", "prediction_loss_only")
FEWER = frozenset({"select", "take", "train_test_split", "shard"})
ARGMAX = "lambda logits, labels: logits.argmax(dim=-1)"
ARGUMENT = f"preprocess_logits_for_metrics={ARGMAX}"
MOST_SHARE, SMALL_SHARE = 0.5, 0.1
GIBIBYTE = 2**30


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the logits that the metric function takes the argmax of; empty if it uses them otherwise."""

    logits: str


class EvalLogitsMemory(Rule[Claim]):
    level = Level.WARNING
    keywords = "Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for run in pipeline.runs:
            model, settings = run.model, run.settings
            if model is None or settings is None or model.task not in VOCABULARY_WIDE or run.path not in TRAINERS:
                continue
            function = trainer_methods.own_function(run.value("compute_metrics"))
            if function is None or run.overrides & OWN_EVALUATION or not _keeps_logits(run, settings):
                continue
            if _evaluates(pipeline, run, settings) and not _has_few_rows(run):
                yield self._report(pipeline, run, model, function)

    def _report(self, pipeline: Pipeline, run: training.TrainerRun, model: Model, judge: Function) -> Finding[Claim]:
        function = run.arguments.get("compute_metrics")
        reasons = [Related(model.origin, "one logit per vocabulary entry", "model")] if model.origin else []
        if function is not None:
            reasons.append(Related(function.location, "receives the logits of the whole set at once", "metrics"))
        choice = _only_choice(judge) if _is_used_once(pipeline, judge, run) else None
        if choice is not None:
            reasons.append(
                Related(trainer_methods.location_in(pipeline, judge, choice[0]), "takes only their argmax", "choice")
            )
        return self.finding(
            run.construction,
            "the logits of the whole evaluation set are kept for `compute_metrics`",
            related=reasons,
            help=f"keep only the predicted tokens: `{ARGUMENT}`",
            subject="compute_metrics",
            claim=Claim(unparse(choice[1]) if choice else ""),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        evaluation = evidence.evaluation
        if evaluation is not None and len(evaluation.predictions_shape) == 3:
            yield self.finding(
                evidence.location,
                "the evaluation keeps one logit per vocabulary entry for every token",
                help="pass `preprocess_logits_for_metrics` that keeps the predicted tokens only",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        evaluation = evidence.evaluation
        if evaluation is None or evaluation.bytes_per_row is None or not evaluation.number_of_rows:
            return Verdict.inconclusive(evidence.not_reached("evaluation"))
        rows, each, free = evaluation.number_of_rows, evaluation.bytes_per_row, evaluation.free_memory
        text = f"the logits of {rows} rows take {rows * each / GIBIBYTE:.1f} GiB"
        if free is None:
            return Verdict.inconclusive(f"{text}; the free memory is unknown")
        share = rows * each / free
        text = f"{text}, {share:.0%} of the free memory"
        if share > MOST_SHARE:
            return Verdict.confirmed(text, share=share)
        return Verdict.refuted(text, share=share) if share < SMALL_SHARE else Verdict.inconclusive(text, share=share)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        chosen, claim = finding.with_role("choice"), finding.claim
        if not chosen or claim is None or not claim.logits:
            return None
        edits = (
            fixes.Replace(chosen[0].location, claim.logits),
            fixes.AddArgument(finding.location, "preprocess_logits_for_metrics", ARGMAX),
        )
        return fixes.Fix.of("keep only the predicted tokens", *edits, safe=False)


def _is_used_once(pipeline: Pipeline, judge: Function, run: training.TrainerRun) -> bool:
    """Whether a function of the file is passed to one Trainer and used nowhere else."""
    source = pipeline.source_of(run.construction)
    if isinstance(judge.node, ast.Lambda) or (judge.source or pipeline.source) is not source:
        return False
    name = judge.node.name
    uses = [
        each
        for each in source.nodes_of(ast.Name, ast.Attribute)
        if name in (vars(each).get("id"), vars(each).get("attr"))
    ]
    return len(uses) == 1


def _only_choice(judge: Function) -> tuple[ast.Call, ast.expr] | None:
    """The argmax that a metric function takes and its operand, if it does nothing else with the logits."""
    parameters = judge.node.args.args
    if len(parameters) != 1:
        return None
    nodes = list(trainer_methods.nodes_of(judge))
    given = parameters[0].arg
    names = {given} | {name for node in nodes for name in _first_unpacked(node, given)}
    logits = [node for node in nodes if isinstance(node, ast.expr) and _is_logits(node, given, names - {given})]
    choices = [(node, of) for node in nodes if isinstance(node, ast.Call) and (of := _argmax_operand(node)) is not None]
    mine = [(node, of) for node, of in choices if any(of is each for each in logits)]
    whole = [node for node in nodes if isinstance(node, ast.Name) and node.id == given]
    parts = [node for node in nodes if isinstance(node, ast.Attribute | ast.Subscript) and node.value in whole]
    unpacks = [node for node in nodes if any(_first_unpacked(node, given))]
    is_plain = len(whole) == len(parts) + len(unpacks) and len(logits) == 1
    return mine[0] if len(mine) == 1 and is_plain else None


def _first_unpacked(node: ast.AST, given: str) -> Iterator[str]:
    """`logits` of `logits, labels = given`."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=first), _])], value=ast.Name(id=name)) if name == given:
            yield first
        case _:
            pass


def _is_logits(node: ast.expr, given: str, unpacked: set[str]) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr="predictions"):
            return name == given
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=0)):
            return name == given
        case ast.Name(id=name, ctx=ast.Load()):
            return name in unpacked
        case _:
            return False


def _argmax_operand(call: ast.Call) -> ast.expr | None:
    """The operand of an argmax over the last axis: `x.argmax(-1)`, `np.argmax(x, axis=-1)`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "argmax":
        return None
    is_of_numpy = isinstance(call.func.value, ast.Name) and call.func.value.id in ("np", "numpy")
    given = [*call.args, *(each.value for each in call.keywords if each.arg in ("axis", "dim"))]
    of = given.pop(0) if is_of_numpy and given else call.func.value
    is_last = len(given) == 1 and unparse(given[0]) == "-1"
    return of if is_last and len(call.keywords) <= 1 else None


def _keeps_logits(run: training.TrainerRun, settings: training.TrainingArguments) -> bool:
    """Whether nothing reduces the logits batch by batch."""
    is_whole = is_missing(run.value("preprocess_logits_for_metrics"))
    return is_whole and all(evaluation_schedule.is_left_out(settings, name) for name in REDUCE_LOGITS)


def _evaluates(pipeline: Pipeline, run: training.TrainerRun, settings: training.TrainingArguments) -> bool:
    strategy = evaluation_schedule.evaluation_strategy(settings)
    called = any(event.subject is run for event in pipeline.acts(Act.EVALUATE))
    return called or (strategy is not None and strategy.value != "no" and bool(run.train_calls))


def _has_few_rows(run: training.TrainerRun) -> bool:
    """Whether the evaluation set may be a small part of its data, or is unknown."""
    datasets = [each for each in options_of(run.value("eval_dataset")) if isinstance(each, data.Dataset)]
    if len(datasets) != len(options_of(run.value("eval_dataset"))):
        return True
    family = [each for dataset in datasets for each in (dataset, *dataset.lineage)]
    return any(_is_cut(each) for each in family)


def _is_cut(dataset: data.Dataset) -> bool:
    return "[" in (dataset.split or "") or any(step.operation in FEWER for step in dataset.steps)
