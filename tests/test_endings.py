"""Kinds of errors: each is raised by the real library, named by its cause, and not where another cause raises the text.

A page is run in one process, which a warm Python forks, so that a hundred errors cost no imports of the libraries.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import Failure, Stage, StageName
from lintrain.evidence.tracebacks import read_traceback, read_warning
from lintrain.model.location import Location
from lintrain.report.text.causes import NotExplainedError, error_document
from lintrain.rulebook import load_rules
from lintrain.verdicts.endings.explaining import explain, kinds
from lintrain.verdicts.judging import judge
from tests.endings.running import FOLDER, Example, read_page

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
NOT_HERE = {
    "no-gpu-memory": "needs a GPU",
    "device-assert": "needs a GPU",
    "argument-on-other-device": "needs a GPU: other devices than CUDA's do not name the argument",
    "pinned-gpu-rows": "needs a GPU",
    "recurrent-layer-in-eval-mode": "needs a GPU",
    "bce-under-autocast": "needs a GPU: autocast on the CPU runs it in single precision",
    "gpu-in-a-forked-process": "needs a GPU",
    "optimizer-without-modes": "needs an accelerate before 0.34",
    "spawned-without-guard": "needs processes that are spawned from the tests' own main module",
    "processes-do-not-meet": "needs several GPUs",
    "columns-for-setfit": "needs setfit",
    "gpu-library-fails": "needs a GPU",
    "input-without-batch": "needs a torch before 1.11, which had this text",
    "keras-logits-and-labels": "needs TensorFlow, whose text it is",
    "keras-shapes-of-classes": "needs a Keras before 3, which had this text",
}
"""Kinds that nothing raises on a CPU without a network, with the installed versions."""


@cache
def outcomes(page: str, python: str) -> dict[str, dict[str, Any]]:
    command = [python, "-m", "tests.endings.running", page]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    return {outcome["title"]: outcome for outcome in map(json.loads, run.stdout.splitlines())}


def examples() -> list[Example]:
    return [example for page in PAGES for example in read_page(FOLDER / page)[1]]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.libraries
@pytest.mark.parametrize("page", PAGES)
def test_every_error_of_a_page_is_explained_by_its_cause(page: str, warm_python: str) -> None:
    found = outcomes(page, warm_python)
    expected = {example.title: (example.kind, example.cause) for example in read_page(FOLDER / page)[1]}
    shown = {title: (outcome["kind"], outcome["cause"].replace("\n", " ")) for title, outcome in found.items()}
    assert shown == expected


@pytest.mark.libraries
@pytest.mark.parametrize("page", PAGES)
def test_a_cause_is_certain_where_the_values_were_measured(page: str, warm_python: str) -> None:
    found = outcomes(page, warm_python)
    expected = {example.title: example.is_certain for example in read_page(FOLDER / page)[1]}
    assert {title: outcome["is_certain"] for title, outcome in found.items()} == expected


@pytest.mark.libraries
@pytest.mark.parametrize("page", PAGES)
def test_the_same_text_with_another_cause_is_another_kind(page: str, warm_python: str) -> None:
    found = outcomes(page, warm_python)
    twins = [(example, other) for example in read_page(FOLDER / page)[1] for other in example.others]
    assert [(one.title, other) for one, other in twins if other not in found[one.title]["matching"]] == []
    assert [(one.title, other) for one, other in twins if found[one.title]["kind"] == other] == []


@pytest.mark.libraries
@pytest.mark.parametrize("page", PAGES)
def test_an_error_that_the_script_raises_itself_is_no_librarys(page: str, warm_python: str) -> None:
    assert {
        title: outcome["raised_by_script"] for title, outcome in outcomes(page, warm_python).items()
    } == dict.fromkeys(outcomes(page, warm_python), "")


def test_there_are_enough_kinds_and_twins() -> None:
    shown = {example.kind for example in examples()}
    assert len(shown) >= 250
    assert sum(len(example.others) for example in examples()) >= 30
    assert len({kind.library for kind in kinds()}) == 15


def test_every_kind_has_an_example() -> None:
    assert {kind.name for kind in kinds()} - {example.kind for example in examples()} == set(NOT_HERE)


def test_names_of_kinds_are_unique() -> None:
    names = [kind.name for kind in kinds()]
    assert len(names) == len(set(names))


def test_texts_of_a_kind_use_only_groups_of_its_pattern() -> None:
    for kind in kinds():
        groups = dict.fromkeys(re.compile(kind.pattern).groupindex, "x")
        assert kind.cause.format_map(groups)
        assert kind.fix.format_map(groups)


def test_the_page_of_a_kind_is_a_rule() -> None:
    known = {rule.name for rule in load_rules()} | {"undefined-name"}
    assert {kind.page for kind in kinds() if kind.page} - known == set()


def test_messages_of_kinds_are_one_line_without_a_full_stop() -> None:
    texts = [text for kind in kinds() for text in (kind.cause, kind.fix)]
    assert [text for text in texts if "\n" in text or text.endswith(".") or len(text) > 160] == []


@pytest.mark.parametrize(
    ("owner", "name", "kind"),
    [
        ("Net", "encoder", "misspelt-layer"),
        ("DataFrame", "append", "removed-from-pandas"),
        ("DataFrame", "labels", ""),
        ("AdamW", "train", "optimizer-without-modes"),
        ("AdamW", "parameters", "optimizer-as-model"),
        ("AdamW", "labels", ""),
    ],
)
def test_a_missing_attribute_of_a_table_or_an_optimizer_is_no_layer(owner: str, name: str, kind: str) -> None:
    found = explain(Failure("AttributeError", f"'{owner}' object has no attribute '{name}'", None))
    assert found.kind == kind


def test_values_that_were_not_measured_leave_causes_likely_in_order() -> None:
    found = explain(Failure("IndexError", "index out of range in self", None, raised_in="torch.nn.functional.x"))
    assert not found.is_certain
    assert [cause[:24] for cause in found.causes] == [
        "a token id is as large a",
        "an embedding is given a ",
        "the input has more token",
        "a token type is not one ",
    ]


@pytest.mark.parametrize(
    ("one", "other", "first"), [(600, 512, "the input has more token"), (6, 5, "two tensors of size 6 an")]
)
def test_sizes_of_a_traceback_alone_are_explained_by_what_is_likely(one: int, other: int, first: str) -> None:
    text = f"The size of tensor a ({one}) must match the size of tensor b ({other}) at non-singleton dimension 1"
    found = explain(Failure("RuntimeError", text, None))
    assert (found.is_certain, found.cause[:24]) == (False, first)


NEWER = (
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB of which 12.00 MiB is "
    "free. Including non-PyTorch memory, this process has 79.09 GiB memory in use. Of the allocated memory 78.00 GiB "
    "is allocated by PyTorch, and 500.00 MiB is reserved by PyTorch but unallocated. See documentation for more"
)
OLDER = (
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 14.21 GiB already allocated; "
    "1.01 GiB free; 14.60 GiB reserved in total by PyTorch)"
)


@pytest.mark.parametrize(
    ("message", "sizes"),
    [
        (NEWER, "20.00 MiB asked for, 12.00 MiB of 79.11 GiB free, 78.00 GiB held by the script's tensors"),
        (OLDER, "2.00 GiB asked for, 1.01 GiB of 15.78 GiB free, 14.21 GiB held by the script's tensors"),
        ("HIP out of memory. Tried to allocate 1.00 GiB", "1.00 GiB asked for"),
    ],
)
def test_a_gpu_without_room_is_explained_by_sizes_and_not_by_the_whole_message(message: str, sizes: str) -> None:
    failed = Stage.failed(StageName.FORWARD, Failure("OutOfMemoryError", message, Location("train.py", 9, 1, 9, 5)))
    evidence = Evidence("train.py", "torch", "", None, None, "cuda", {}, (failed,))
    [(finding, verdict)] = judge([evidence], [], load_rules())
    assert finding.rule == "projected-out-of-memory"
    assert verdict.reason == f"the forward stage failed: OutOfMemoryError: {sizes}"


def test_an_unknown_error_has_its_facts_and_no_cause() -> None:
    found = explain(Failure("RuntimeError", "something else", None))
    assert (found.kind, found.cause, found.bug) == ("", "", "")


@pytest.mark.parametrize(
    ("failure", "bug"),
    [
        (Failure("RuntimeError", "0 INTERNAL ASSERT FAILED at x.cpp:1", None), "the library says so itself"),
        (
            Failure("UnboundLocalError", "cannot access local variable", None, raised_in="trl.trainer.sft.step"),
            "`trl` fails in its own code with UnboundLocalError",
        ),
        (Failure("ValueError", "wrong", None, raised_in="torch.nn.x"), ""),
    ],
)
def test_signs_of_a_bug_in_a_library(failure: Failure, bug: str) -> None:
    assert explain(failure).bug in (bug, "") if failure.type == "UnboundLocalError" else explain(failure).bug == bug


TRACEBACK = """Epoch 1
Traceback (most recent call last):
  File "/srv/train.py", line 31, in <module>
    trainer.train()
  File "/srv/env/lib/python3.12/site-packages/transformers/trainer.py", line 2325, in train
    return inner(
  File "/srv/env/lib/python3.12/site-packages/torch/nn/functional.py", line 2546, in embedding
    return torch.embedding(weight, input)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
IndexError: index out of range in self
"""


def test_a_traceback_in_text_is_read() -> None:
    found = read_traceback(TRACEBACK)
    assert found is not None
    assert (found.type, found.message) == ("IndexError", "index out of range in self")
    assert found.raised_in == "torch.nn.functional.embedding"
    assert found.location is not None
    assert (found.location.line, found.code) == (31, "trainer.train()")


def test_the_error_of_a_worker_is_read_from_its_message() -> None:
    inner = TRACEBACK.partition("\n")[2].replace("Traceback", "Original Traceback")
    found = read_traceback(f"IndexError: Caught IndexError in DataLoader worker process 3.\n{inner}")
    assert found is not None
    assert (found.worker, found.message) == ("DataLoader worker process 3", "index out of range in self")


def test_text_without_an_error_is_no_traceback() -> None:
    assert read_traceback("nothing happened here") is None


WARNING = """epoch 1
/data/me/train.py:12: UserWarning: Using a target size ([3]) that is different to the input size ([3, 1])
  loss = F.mse_loss(output, target)
"""


def test_a_warning_is_explained_at_its_line_and_ends_nothing() -> None:
    found = read_warning(WARNING)
    assert found is not None
    assert (str(found.location), found.code) == ("/data/me/train.py:12:1", "loss = F.mse_loss(output, target)")
    assert explain(found).kind == "broadcast-target"
    assert read_traceback(WARNING) is None
    assert read_warning("UserWarning is a class") is None


def test_a_message_of_no_kind_is_about_the_page_that_quotes_it_at_length() -> None:
    quoted = error_document("ValueError: You cannot perform fine-tuning on purely quantized models. Please attach")
    assert [(each["page"], bool(each["cause"])) for each in quoted["causes"]] == [("quantized-without-adapter", True)]
    with pytest.raises(NotExplainedError):
        error_document("ValueError: the number of rows has to be between 0 and the number of the last one")


def test_a_function_inside_of_a_librarys_gets_no_argument_from_the_script() -> None:
    message = "Net.forward.<locals>.layer_() got an unexpected keyword argument 'states'"
    within = Failure("TypeError", message, None, raised_in="diffusers.models.net.forward")
    assert explain(within).kind != "unknown-keyword"
    assert explain(replace(within, raised_in="")).kind == "unknown-keyword"
    wrapped = Failure("TypeError", "make() got an unexpected keyword argument 'lr'", None, raised_in="torch.wrapper")
    assert explain(wrapped).kind == "unknown-keyword"


def test_a_mode_that_accelerate_asks_of_an_optimizer_is_no_mistake_of_the_script() -> None:
    message = "'AdamW' object has no attribute 'train'"
    found = explain(Failure("AttributeError", message, None, raised_in="accelerate.optimizer.train"))
    assert (found.kind, found.is_certain, len(found.causes)) == ("optimizer-without-modes", True, 1)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Tokenizer class Qwen2Tokenizer does not exist or is not currently imported.", "missing-tokenizer-class"),
        ("numpy.dtype size changed, may indicate binary incompatibility. Expected 96", "compiled-for-other-numpy"),
        ("numpy.core.multiarray failed to import", "compiled-for-other-numpy"),
        (
            "SetFit expected the dataset to have the columns ['label', 'text'], but only the columns ['label', "
            "'sentence'] were found. Either make sure these columns are present",
            "columns-for-setfit",
        ),
        ("[Errno 98] Address already in use", "port-in-use"),
        ('Layer "model" expects 1 input(s), but it received 2 input tensors. Inputs received: [', "keras-input-count"),
    ],
)
def test_a_text_of_another_version_is_of_the_same_kind(text: str, kind: str) -> None:
    assert explain(Failure("", text, None)).kind == kind
