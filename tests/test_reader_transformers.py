"""What the reader makes of transformers: models, their configuration and use, training arguments, Trainer runs."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Model, Task
from lintrain.pipeline.values.python import Absent, Constant, Either, Unknown, number_of, text_of
from lintrain.pipeline.values.training import TrainerRun, TrainingArguments
from lintrain.read import read_pipeline
from lintrain.source.source import Source

IMPORTS = """
import transformers
from transformers import AutoConfig, AutoModelForSequenceClassification, HfArgumentParser
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments
"""


def read(code: str) -> Pipeline:
    return read_pipeline(Source("script.py", IMPORTS + dedent(code)), TargetVersions())


def model_of(code: str) -> Model:
    (model,) = read(code).models
    return model


def run_of(code: str) -> TrainerRun:
    (run,) = read(code).runs
    return run


def arguments_of(code: str) -> TrainingArguments:
    (arguments,) = read(code).arguments
    return arguments


@pytest.mark.parametrize(
    ("call", "labels"),
    [
        ('from_pretrained("bert-base-uncased", num_labels=3)', 3),
        ('from_pretrained("bert-base-uncased", id2label={0: "a", 1: "b", 2: "c", 3: "d"})', 4),
        ('from_pretrained("bert-base-uncased", num_labels=len(["a", "b", "c"]))', 3),
        ('from_pretrained("x", config=AutoConfig.from_pretrained("bert-base-uncased", num_labels=5))', 5),
        ("from_config(AutoConfig.from_pretrained('bert-base-uncased', num_labels=5))", 5),
    ],
)
def test_the_size_of_a_head_is_read_from_the_call_or_its_configuration(call: str, labels: int) -> None:
    model = model_of(f"AutoModelForSequenceClassification.{call}")
    assert number_of(model.num_labels) == labels


def test_a_head_without_a_size_is_known_to_have_none() -> None:
    model = model_of('AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")')
    assert isinstance(model.num_labels, Absent)


@pytest.mark.parametrize(
    "code",
    [
        'AutoModelForSequenceClassification.from_pretrained("x", **options)',
        'AutoModelForSequenceClassification.from_pretrained("x", config=config)',
        'AutoModelForSequenceClassification.from_pretrained("x", label2id=names)',
        'AutoModelForSequenceClassification.from_pretrained("x").classifier = head',
        'AutoModelForSequenceClassification.from_pretrained("x").classifier.out_proj = head',
    ],
)
def test_a_head_of_unknown_size_is_unknown(code: str) -> None:
    assert isinstance(model_of(code).num_labels, Unknown)


def test_a_configuration_changed_before_the_model_is_made_counts() -> None:
    code = """
        config = AutoConfig.from_pretrained("bert-base-uncased")
        config.num_labels = 7
        AutoModelForSequenceClassification.from_config(config)
    """
    assert number_of(model_of(code).num_labels) == 7


def test_a_configuration_changed_on_a_made_model_is_kept_with_it() -> None:
    model = model_of("""
        model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
        model.config.num_labels = 3
    """)
    assert model.config is not None
    assert number_of(model.config.attributes["num_labels"]) == 3


@pytest.mark.parametrize(
    ("name", "task", "framework"),
    [
        ("BertForSequenceClassification", Task.SEQUENCE_CLASSIFICATION, "torch"),
        ("TFAutoModelForTokenClassification", Task.TOKEN_CLASSIFICATION, "tf"),
        ("GPT2LMHeadModel", Task.CAUSAL_LM, "torch"),
        ("T5ForConditionalGeneration", Task.SEQ2SEQ_LM, "torch"),
        ("AutoModelForImageClassification", Task.IMAGE_CLASSIFICATION, "torch"),
        ("AutoModel", Task.NO_HEAD, "torch"),
    ],
)
def test_any_model_class_tells_its_task_and_framework(name: str, task: Task, framework: str) -> None:
    model = model_of(f'transformers.{name}.from_pretrained("some/checkpoint")')
    assert (model.task, model.framework, text_of(model.checkpoint)) == (task, framework, "some/checkpoint")


@pytest.mark.parametrize(
    "call",
    [
        "transformers.DataCollatorForTokenClassification(tokenizer)",
        'transformers.AutoTokenizer.from_pretrained("x")',
        'transformers.AutoConfig.from_pretrained("x")',
        'transformers.SchedulerType("linear")',
    ],
)
def test_what_only_sounds_like_a_model_is_none(call: str) -> None:
    assert read(call).models == []


def test_calling_a_model_is_a_forward_and_its_output_has_a_loss() -> None:
    pipeline = read("""
        model = AutoModelForSequenceClassification.from_pretrained("x").to("cuda").train()
        output = model(input_ids=ids, labels=labels)
        loss, logits = output.loss, output[1]
    """)
    assert [event.act for event in pipeline.events] == [Act.TO_DEVICE, Act.TRAIN_MODE, Act.FORWARD]
    roles = {binding.name: getattr(binding.value, "role", None) for binding in pipeline.bindings}
    assert (roles["loss"], roles["logits"]) == ("loss", "logits")


@pytest.mark.parametrize(
    ("call", "act"),
    [
        ("train()", Act.TRAIN_MODE),
        ("train(False)", Act.EVAL_MODE),
        ("eval()", Act.EVAL_MODE),
        ("train(on)", Act.ESCAPE),
    ],
)
def test_the_mode_of_a_model_is_read_from_its_argument(call: str, act: Act) -> None:
    pipeline = read(f'AutoModelForSequenceClassification.from_pretrained("x").{call}')
    assert [event.act for event in pipeline.events] == [act]


def test_freezing_the_parameters_of_a_part_is_noted_on_the_model() -> None:
    model = model_of("""
        model = AutoModelForSequenceClassification.from_pretrained("x")
        for name, parameter in model.base_model.named_parameters():
            parameter.requires_grad = False
    """)
    assert [location.line - IMPORTS.count("\n") for location in model.frozen] == [4]


def test_an_adapter_marks_the_model_that_it_is_put_into() -> None:
    pipeline = read("""
        from peft import LoraConfig, get_peft_model
        model = get_peft_model(AutoModelForSequenceClassification.from_pretrained("x"), LoraConfig())
        trainer = Trainer(model, args)
    """)
    assert pipeline.runs[0].model is pipeline.models[0]
    assert pipeline.models[0].is_adapted


def test_training_arguments_hold_what_the_call_and_the_script_set() -> None:
    arguments = arguments_of("""
        args = TrainingArguments("out", learning_rate=2e-5)
        args.num_train_epochs = 4
    """)
    assert text_of(arguments.value("output_dir")) == "out"
    assert number_of(arguments.value("learning_rate")) == 2e-5
    assert number_of(arguments.value("num_train_epochs")) == 4
    assert isinstance(arguments.value("eval_strategy"), Absent)


@pytest.mark.parametrize(
    "code",
    [
        "TrainingArguments('out', **options)",
        "HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()",
        "TrainingArguments('out').set_evaluate(strategy='epoch')",
    ],
)
def test_arguments_that_may_have_been_given_elsewhere_are_unknown(code: str) -> None:
    assert isinstance(arguments_of(code).value("eval_strategy"), Unknown)


def test_an_argument_set_on_one_branch_only_is_no_certainty() -> None:
    arguments = arguments_of("""
        args = TrainingArguments("out", eval_strategy="no")
        if found:
            args.eval_strategy = "epoch"
    """)
    assert isinstance(arguments.value("eval_strategy"), Either)


def test_a_parsed_subclass_of_the_arguments_gives_its_own_defaults_as_defaults() -> None:
    arguments = arguments_of("""
        from dataclasses import dataclass, field
        @dataclass
        class Settings(TrainingArguments):
            learning_rate: float = field(default=3e-4)
        (args,) = HfArgumentParser((Settings,)).parse_args_into_dataclasses()
    """)
    rate = arguments.value("learning_rate")
    assert isinstance(rate, Constant)
    assert (rate.value, bool(rate.default)) == (3e-4, True)


def test_a_trainer_names_its_positional_arguments() -> None:
    run = run_of("""
        model = AutoModelForSequenceClassification.from_pretrained("x")
        trainer = Trainer(model, TrainingArguments("out"), None, 1, eval_dataset=2)
    """)
    assert run.model is not None
    assert run.settings is not None
    assert [number_of(run.value(name)) for name in ("train_dataset", "eval_dataset")] == [1, 2]
    assert isinstance(run.value("compute_metrics"), Absent)


def test_what_is_set_on_a_trainer_later_counts() -> None:
    run = run_of("""
        trainer = Trainer(model, args)
        trainer.eval_dataset = 3
    """)
    assert number_of(run.value("eval_dataset")) == 3


def test_training_and_evaluating_are_events_of_the_run() -> None:
    pipeline = read("""
        trainer = Trainer(model, args)
        trainer.train()
        trainer.evaluate()
    """)
    events = pipeline.acts(Act.TRAIN, Act.EVALUATE)
    assert [event.subject for event in events] == [pipeline.runs[0], pipeline.runs[0]]
    assert isinstance(events[1].details["eval_dataset"], Absent)
    assert len(pipeline.runs[0].train_calls) == 1


def test_the_scripts_own_trainer_is_a_run_with_its_overrides() -> None:
    run = run_of("""
        class Weighted(Trainer):
            def __init__(self, weights, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.weights = weights
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                return 0
        trainer = Weighted([1, 2], model=1, train_dataset=5)
        trainer.train()
    """)
    assert (run.path, run.name, run.is_complete) == ("transformers.Trainer", "Weighted", True)
    assert "compute_loss" in run.overrides
    assert number_of(run.value("train_dataset")) == 5
    assert run.arguments["train_dataset"].text == "5"
    assert len(run.train_calls) == 1


def test_a_trainer_of_trl_is_told_from_a_plain_one() -> None:
    runs = read("""
        from trl import DPOTrainer
        class Mine(Trainer):
            pass
        Mine(model)
        DPOTrainer(model, reference, args, train_dataset=1)
    """).runs
    assert [(run.path, run.is_plain) for run in runs] == [("transformers.Trainer", True), ("trl.DPOTrainer", False)]


def test_a_model_made_for_each_run_is_the_runs_model() -> None:
    run = run_of("""
        def build(trial):
            return AutoModelForSequenceClassification.from_pretrained("x", num_labels=3)
        Trainer(model_init=build, args=args)
    """)
    assert run.model is not None
    assert number_of(run.model.num_labels) == 3
