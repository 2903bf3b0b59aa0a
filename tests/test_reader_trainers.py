"""What the reader makes of Trainers: their metric functions' results, their losses, when they evaluate and save."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.analysis.evaluation_schedule import best_metric, evaluation_strategy, saving_strategy
from lintrain.knowledge.versions import TargetVersions, exactly
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import Mapping, Value, literal, options_of
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

NEWEST = exactly(transformers="5.23.0")
SCRIPT = """
import evaluate
import numpy as np
import torch
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer
from transformers import DataCollatorForTokenClassification, IntervalStrategy, Trainer, TrainingArguments

model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
tagger = AutoModelForTokenClassification.from_pretrained("bert-base-uncased", num_labels=3)
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")
"""


def read(code: str, targets: TargetVersions = NEWEST) -> Pipeline:
    return read_pipeline(Source("script.py", SCRIPT + dedent(code)), targets)


def found(rule: str, code: str, targets: TargetVersions = NEWEST) -> list[str]:
    (known,) = (each for each in load_rules() if each.name == rule)
    return [finding.message for finding in known.rule.check(read(code, targets))]


def keys(value: Value) -> list[list[str]]:
    """The keys of each mapping that a value may be."""
    return [list(map(str, option.entries)) for option in options_of(value) if isinstance(option, Mapping)]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        ("def judge(p):\n    return {'accuracy': 1.0, 'f1': 0.5}", [["accuracy", "f1"]]),
        ("f1 = evaluate.load('f1')\ndef judge(p):\n    return f1.compute(predictions=p[0], references=p[1])", [["f1"]]),
        (
            "both = evaluate.combine(['accuracy', 'f1'])\n"
            "judge = lambda p: both.compute(predictions=p[0], references=p[1])",
            [["accuracy", "f1"]],
        ),
        (
            "glue = evaluate.load('glue', 'mrpc')\njudge = lambda p: glue.compute(predictions=p[0], references=p[1])",
            [["accuracy", "f1"]],
        ),
        (
            "rouge = evaluate.load('rouge')\n"
            "def judge(p):\n    result = rouge.compute(predictions=p[0], references=p[1])\n"
            "    result = {name: value * 100 for name, value in result.items()}\n"
            "    result['gen_len'] = 1\n    return result",
            [["rouge1", "rouge2", "rougeL", "rougeLsum", "gen_len"]],
        ),
        (
            "def build(metric):\n    def judge(p):\n        return {metric: 1.0}\n    return judge\n"
            "judge = build('f1')",
            [["f1"]],
        ),
        (
            "class Judge:\n    def __init__(self, name):\n        self.name = name\n"
            "    def __call__(self, p):\n        return {self.name: 1.0}\njudge = Judge('f1')",
            [["f1"]],
        ),
        (
            "import functools\ndef score(name, p):\n    return {name: 1.0}\njudge = functools.partial(score, 'f1')",
            [["f1"]],
        ),
        ("def judge(p):\n    return dict(accuracy=1.0)", [["accuracy"]]),
        ("from somewhere import judge", []),
    ],
)
def test_the_results_of_a_metric_function_are_known_by_name(function: str, names: list[list[str]]) -> None:
    (run,) = read(f"{function}\nTrainer(model, compute_metrics=judge)").runs
    assert keys(run.metrics) == names


@pytest.mark.parametrize(
    ("code", "is_cleaned"),
    [
        ("labels = p.label_ids", False),
        ("labels = p.label_ids.flatten()", False),
        ("labels = p.label_ids[:, 1:]", False),
        ("labels = p.label_ids[p.label_ids != -100]", True),
        ("labels = np.where(p.label_ids != -100, p.label_ids, 0)", True),
        ("labels = p.label_ids\n    labels[labels == -100] = 0", True),
        ("labels = np.clip(p.label_ids, 0, None)", True),
        ("labels = [[l for l in row if l != -100] for row in p.label_ids]", True),
    ],
)
def test_labels_are_known_to_be_cleaned_of_ignored_entries(code: str, is_cleaned: bool) -> None:
    body = f"def judge(p):\n    {code}\n    return {{'a': accuracy_score(labels, labels)}}\n"
    (call,) = read(body + "Trainer(tagger, compute_metrics=judge)").metric_calls
    value = call.references.value if call.references else None
    assert not isinstance(value, Tensor) or value.is_cleaned is is_cleaned


@pytest.mark.parametrize(
    ("arguments", "strategies"),
    [
        ("'out'", ("no", "steps")),
        ("'out', eval_strategy='epoch', save_strategy=IntervalStrategy.NO", ("epoch", "no")),
        ("'out', evaluation_strategy='steps'", ("steps", "steps")),
        ("'out', eval_strategy=asked", (None, "steps")),
        ("'out', **asked", (None, None)),
    ],
)
def test_when_a_run_evaluates_and_saves_is_read_with_the_defaults(
    arguments: str, strategies: tuple[str | None, str | None]
) -> None:
    (settings,) = read(f"TrainingArguments({arguments})").arguments
    found_strategies = (evaluation_strategy(settings), saving_strategy(settings))
    assert tuple(each and each.value for each in found_strategies) == strategies


def test_the_best_metric_has_no_prefix_and_is_never_a_default() -> None:
    (settings,) = read("TrainingArguments('out', metric_for_best_model='eval_f1')").arguments
    assert best_metric(settings) == "f1"
    (settings,) = read("TrainingArguments('out', metric_for_best_model=name)").arguments
    assert best_metric(settings) is None


FOUR = "Trainer({model}, TrainingArguments('out', gradient_accumulation_steps=4){more})"


@pytest.mark.parametrize(
    ("model", "more", "version", "count"),
    [
        ("model", "", "5.23.0", 1),
        ("model", "", "5.0.0", 1),
        ("model", "", "4.57.6", 0),
        ("model", ", compute_loss_func=f", "5.23.0", 0),
        ("AutoModelForSequenceClassification.from_pretrained(name)", "", "5.23.0", 0),
        ("AutoModelForSequenceClassification.from_pretrained('facebook/esm2_t6_8M_UR50D')", "", "5.23.0", 0),
        (
            "AutoModelForSequenceClassification.from_pretrained('bert-base-uncased', trust_remote_code=True)",
            "",
            "5.23.0",
            0,
        ),
        ("transformers.AutoModelForMaskedLM.from_pretrained('bert-base-uncased')", "", "5.23.0", 1),
        ("transformers.AutoModelForMaskedLM.from_pretrained('answerdotai/ModernBERT-base')", "", "5.23.0", 0),
        ("transformers.AutoModelForCausalLM.from_pretrained('gpt2')", "", "5.23.0", 0),
        ("transformers.AutoModelForQuestionAnswering.from_pretrained('bert-base-uncased')", "", "5.23.0", 0),
        ("transformers.T5ForConditionalGeneration.from_pretrained('t5-small')", "", "5.23.0", 1),
        ("transformers.AutoModelForSeq2SeqLM.from_pretrained('google/t5gemma-2b-2b-ul2')", "", "5.23.0", 0),
    ],
)
def test_heads_that_average_each_batch_are_known_by_family_and_version(
    model: str, more: str, version: str, count: int
) -> None:
    code = "import transformers\n" + FOUR.format(model=model, more=more)
    assert len(found("stock-loss-not-scaled", code, exactly(transformers=version))) == count


LOSS = """
class Own(Trainer):
{extra}    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None{kwargs}):
        labels = inputs.pop("{labels}")
        outputs = model(**inputs)
        loss = {loss}
        return (loss, outputs) if return_outputs else loss

Own(model, TrainingArguments('out', gradient_accumulation_steps={steps}))
"""
MEAN = "torch.nn.functional.cross_entropy(outputs.logits, labels)"


@pytest.mark.parametrize(
    ("change", "count"),
    [
        ({}, 1),
        ({"steps": "1"}, 0),
        ({"steps": "steps"}, 0),
        ({"labels": "target_label"}, 0),
        ({"loss": MEAN + " / self.args.gradient_accumulation_steps"}, 0),
        ({"loss": MEAN[:-1] + ", reduction='sum')"}, 0),
        ({"loss": MEAN[:-1] + ", reduction='none').sum() / num_items_in_batch"}, 0),
        ({"kwargs": ", **kwargs", "loss": "super().compute_loss(model, inputs, **kwargs)"}, 0),
        ({"extra": "    loss_is_scaled_for_ga = False\n"}, 0),
        ({"extra": "    def training_step(self, *given):\n        return divided(self, *given)\n"}, 0),
        (
            {
                "extra": "    def __init__(self, *given):\n        super().__init__(*given)\n"
                "        self.model_accepts_loss_kwargs = False\n"
            },
            0,
        ),
    ],
)
def test_a_loss_of_ones_own_is_reported_where_nothing_else_may_divide(change: dict[str, str], count: int) -> None:
    whole = {"extra": "", "kwargs": "", "labels": "labels", "loss": MEAN, "steps": "4", **change}
    assert len(found("unscaled-compute-loss", LOSS.format(**whole))) == count


@pytest.mark.parametrize("name", ["PPO", "OnlineDPO", "NashMD", "XPO", "SFT", "GRPO", "ORPO"])
def test_every_trainer_of_the_tables_is_read_with_its_configuration(name: str) -> None:
    code = f"import trl\nargs = trl.{name}Config('out', learning_rate=0.1)\ntrainer = trl.{name}Trainer(args=args)\n"
    pipeline = read_pipeline(Source("train.py", code), TargetVersions())
    (run,) = pipeline.runs
    assert run.settings is not None
    assert (run.name, literal(run.settings.value("learning_rate"))) == (f"{name}Trainer", 0.1)


def test_a_class_that_is_only_named_like_a_trainer_is_none() -> None:
    code = "import trl\ntrl.DDPOTrainer(c)\ntrl.ModelConfig('a')\n"
    pipeline = read_pipeline(Source("train.py", code), TargetVersions())
    assert (pipeline.runs, pipeline.arguments) == ([], [])
