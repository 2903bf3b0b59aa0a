"""What the reader makes of freezing, adapters and number formats: events on the model, in order."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.analysis.tuning import is_left_alone, is_tuned_whole, trainings, weights_format
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import LibraryObject, Unknown, is_true, literal, text_of
from lintrain.read import read_pipeline
from lintrain.source.source import Source
from tests.support.loops import lines_of

IMPORTS = """
import torch
from torch import nn
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForSequenceClassification, Trainer
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
"""


def read(code: str) -> Pipeline:
    return read_pipeline(Source("script.py", IMPORTS + dedent(code)), TargetVersions())


def event_of(code: str, act: Act) -> Event:
    (event,) = read(code).acts(act)
    return event


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("model.requires_grad_(False)", ""),
        ("model.bert.encoder.requires_grad_(False)", "bert.encoder"),
        ("for p in model.parameters():\n    p.requires_grad = False", ""),
        ("for n, p in model.named_parameters():\n    p.requires_grad_(False)", ""),
        ("for p in model.bert.parameters():\n    p.requires_grad = False", "bert"),
    ],
)
def test_freezing_names_the_part_and_reaches_all_of_it(code: str, part: str) -> None:
    details = event_of(code, Act.FREEZE).details
    assert (text_of(details["part"]), literal(details["wanted"]), is_true(details["is_all"])) == (part, False, True)


@pytest.mark.parametrize(
    "body",
    [
        "if 'classifier' not in n:\n        p.requires_grad = False",
        "if 'classifier' in n:\n        continue\n    p.requires_grad = False",
        "if n == 'x':\n        break\n    p.requires_grad = False",
    ],
)
def test_a_loop_that_chooses_freezes_not_all(body: str) -> None:
    event = event_of(f"for n, p in model.named_parameters():\n    {body}", Act.FREEZE)
    assert not is_true(event.details["is_all"])


TWO = "a, b = nn.Linear(3, 3), nn.Linear(3, 4)\n"


@pytest.mark.parametrize(
    "code",
    [
        "a.requires_grad_(False)\nb.requires_grad_(requires_grad=False)",
        "for net in (a, b):\n    net.requires_grad_(False)",
        "for net in [a, b]:\n    for p in net.parameters():\n        p.requires_grad = False",
        "from itertools import chain\nfor p in chain(a.parameters(), b.parameters()):\n    p.requires_grad_(False)",
    ],
)
def test_all_of_several_networks_is_frozen(code: str) -> None:
    found = read(TWO + code).acts(Act.FREEZE)
    details = [(literal(event.details["wanted"]), is_true(event.details["is_all"])) for event in found]
    assert details == [(False, True)] * 2
    assert found[0].subject is not found[1].subject


@pytest.mark.parametrize(
    "code",
    [
        "net = a if small else b\nnet.requires_grad_(False)",
        "net = a if small else b\nfor p in net.parameters():\n    p.requires_grad = False",
        "for net in [a, b]:\n    if net is chosen:\n        continue\n    net.requires_grad_(False)",
        "for net in [a, b, *others]:\n    net.requires_grad_(False)",
        "from itertools import chain\nfor p in chain(a.parameters(), rest()):\n    p.requires_grad = False",
    ],
)
def test_which_of_several_networks_is_frozen_may_be_open(code: str) -> None:
    assert not any(is_true(event.details["is_all"]) for event in read(TWO + code).acts(Act.FREEZE))


def test_what_a_parameter_is_set_to_by_its_name_is_not_known() -> None:
    code = "for n, p in model.named_parameters():\n    p.requires_grad = 'classifier' in n"
    assert isinstance(event_of(code, Act.FREEZE).details["wanted"], Unknown)


def test_an_adapter_is_kept_with_its_configuration() -> None:
    details = event_of("model = get_peft_model(model, LoraConfig(r=4))", Act.ADAPT).details
    config = details["config"]
    assert isinstance(config, LibraryObject)
    assert literal(config.arguments["r"]) == 4
    assert text_of(details["how"]) == "peft.get_peft_model"


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("model.half()", "float16"),
        ("model.to(torch.bfloat16)", "bfloat16"),
        ("model.to('cuda', dtype=torch.float16)", "float16"),
        ("model.to('cuda').bfloat16()", "bfloat16"),
        ("model.half().float()", "float32"),
    ],
)
def test_the_last_cast_tells_the_format_of_the_weights(code: str, name: str) -> None:
    pipeline = read(f"model = {code}\nTrainer(model, train_dataset=rows).train()")
    (training,) = trainings(pipeline)
    made = weights_format(pipeline, training)
    assert made is not None
    assert made.name == name


def test_moving_to_a_device_casts_nothing() -> None:
    assert read("model.to('cuda')\nmodel.cuda(0)").acts(Act.CAST) == []


def test_a_cast_under_a_condition_is_none_that_is_known() -> None:
    pipeline = read("if wanted:\n    model.half()\nTrainer(model, train_dataset=rows).train()")
    (training,) = trainings(pipeline)
    assert weights_format(pipeline, training) is None


def test_a_model_that_code_not_understood_was_given_is_not_left_alone() -> None:
    pipeline = read("from mine import prepare\nprepare(model)\nTrainer(model, train_dataset=rows).train()")
    (training,) = trainings(pipeline)
    assert not is_left_alone(pipeline, training)
    assert not is_tuned_whole(pipeline, training)


def test_a_method_of_the_model_that_is_not_understood_touches_it() -> None:
    assert event_of("model.enable_my_adapter()", Act.TOUCH).details.keys() == {"name"}


def test_a_part_that_is_set_is_a_replacement() -> None:
    event = event_of("model.classifier = nn.Linear(8, 3)", Act.REPLACE)
    assert text_of(event.details["name"]) == "classifier"


@pytest.mark.parametrize("target", ["model", "model.bert", "nn.Linear(8, 3)"])
def test_requires_grad_on_a_module_is_a_misuse(target: str) -> None:
    (misuse,) = read(f"part = {target}\npart.requires_grad = False").misuses
    assert misuse.use == "requires_grad"


def test_a_trainer_that_is_not_trained_trains_nothing() -> None:
    assert list(trainings(read("Trainer(model).evaluate(rows)"))) == []


@pytest.mark.parametrize(("given", "lines"), [("", [5]), ("fsdp_plugin=plugin", [])])
def test_weights_that_an_accelerator_shards_are_not_known_to_stay_coarse(given: str, lines: list[int]) -> None:
    code = f"""
        import torch
        from accelerate import Accelerator
        from transformers import AutoModelForCausalLM
        accelerator = Accelerator({given})
        model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype="bfloat16")
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for batch in loader:
            accelerator.backward(model(**batch).loss)
            optimizer.step()
            optimizer.zero_grad()
    """
    assert lines_of("half-precision-weights", code) == lines


@pytest.mark.parametrize("target", ["nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))", "model.classifier"])
def test_an_item_that_is_set_is_a_replacement(target: str) -> None:
    event = event_of(f"part = {target}\npart[1] = nn.Linear(8, 3)", Act.REPLACE)
    assert literal(event.details["name"]) == 1
