"""Tests of a pipeline, written from the evidence of a probe: its batches and its forward pass."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from lintrain.evidence.run import BatchEvidence, Evidence, TensorEvidence
from lintrain.report.markdown import formatted, in_docstring, literal
from lintrain.runtime.parent.record import Record
from lintrain.text import shown

HEAD = '''"""Tests of the batches and the forward pass of {script}.

Written by lintrain {version} from a run of the script; change the tests when you change the pipeline.
"""

import math

import lintrain
import pytest
import torch

SCRIPT = {location}
ARGUMENTS = {arguments}


@pytest.fixture(scope="module")
def run():
    """The script, run up to its training call: its model, its first batch and the loss."""
    return lintrain.training_run(SCRIPT, *ARGUMENTS)

'''
LEAST_ROOM = 0.5
"""Least tolerance for the initial loss around chance level, since it varies from seed to seed."""
WHOLE = ("uint8", "int8", "int16", "int32", "int64")


class NoTestsError(Exception):
    """No tests can be written for this run; the text gives the reason."""


def pipeline_tests(record: Record, file: Path) -> str:
    """The content of a test file for the first run of a record, to be written to `file`; raises NoTestsError."""
    evidence = record.runs[0] if record.runs else None
    if evidence is None:
        raise NoTestsError("no training call was reached")
    if evidence.framework == "keras":
        raise NoTestsError("tests are supported for torch, not for Keras")
    if record.script.endswith(".ipynb"):
        raise NoTestsError("tests of notebooks are not supported")
    batch = evidence.batch()
    if batch is None or not batch.tensors or not evidence.passed("forward"):
        failed = evidence.failed_stage
        raise NoTestsError(f"the {failed.name} stage failed" if failed else "no forward pass of a batch was measured")
    head = HEAD.format(
        script=in_docstring(Path(record.script).name),
        version=in_docstring(record.lintrain),
        location=_location(record, file),
        arguments=repr(record.arguments),
    )
    head = head.replace("\nimport math\n", "\nimport math\nfrom pathlib import Path\n", 1)
    return formatted("\n\n".join([head, *_of_batch(evidence, batch), *_of_forward(evidence)]))


def _location(record: Record, file: Path) -> str:
    """A Python expression for the script's path, relative to the tests."""
    script = os.path.relpath(Path(record.script).absolute(), file.absolute().parent)
    return f"Path(__file__).parent / {literal(script)}"


def _test(name: str, *lines: str) -> str:
    return f"def test_{name}(run):\n" + "\n".join(f"    {line}" for line in lines) + "\n"


def _of_batch(evidence: Evidence, batch: BatchEvidence) -> Iterator[str]:
    types = ", ".join(f"{literal(tensor.name)}: {_dtype(tensor)}" for tensor in batch.tensors)
    yield _test("batch_has_these_tensors", "found = {name: tensor.dtype for name, tensor in run.tensors.items()}",
                f"assert found == {{{types}}}")  # fmt: skip
    yield from _of_shapes(batch)
    yield from _of_mask(batch)
    yield from _of_ids(evidence, batch)
    yield from _of_labels(evidence, batch)


def _dtype(tensor: TensorEvidence) -> str:
    if not tensor.dtype.isidentifier():
        raise NoTestsError(f"{shown(tensor.dtype)} is not a torch dtype")
    return f"torch.{tensor.dtype}"


def _of_shapes(batch: BatchEvidence) -> Iterator[str]:
    axes = ", ".join(f"{literal(tensor.name)}: {len(tensor.shape)}" for tensor in batch.tensors)
    lines = [f"axes = {{{axes}}}", "assert {name: tensor.ndim for name, tensor in run.tensors.items()} == axes"]
    of_rows = [tensor.name for tensor in batch.tensors if tensor.shape and tensor.shape[0] == batch.rows]
    if batch.rows and len(of_rows) == len(batch.tensors):
        lines.append(f"assert {{len(tensor) for tensor in run.tensors.values()}} == {{{batch.rows}}}")
    yield _test("tensors_have_their_dimensions_and_rows", *lines)
    fixed = [tensor for tensor in batch.tensors if _is_of_fixed_size(batch, tensor)]
    if fixed:
        sizes = [f"assert run.tensors[{literal(tensor.name)}].shape[1:] == {tensor.shape[1:]}" for tensor in fixed]
        yield _test("rows_have_their_size", *sizes)


def _is_of_fixed_size(batch: BatchEvidence, tensor: TensorEvidence) -> bool:
    """Whether every row has the same shape, unlike rows of tokens or audio."""
    is_ragged = batch.tensor("attention_mask") is not None or batch.attended_tokens is not None
    return tensor.dtype not in WHOLE and len(tensor.shape) > 1 and not is_ragged


def _of_mask(batch: BatchEvidence) -> Iterator[str]:
    mask, ids = batch.tensor("attention_mask"), batch.tensor("input_ids")
    if mask is None or ids is None or mask.shape != ids.shape or len(mask.shape) != 2:
        return
    lines = [
        'mask = run.tensors["attention_mask"]',
        'assert mask.shape == run.tensors["input_ids"].shape',
        "assert set(mask.unique().tolist()) <= {0, 1}",
    ]
    if not batch.mask_empty_rows:
        lines.append("assert mask.any(dim=1).all()")
    yield _test("the_mask_covers_every_row", *lines)


def _of_ids(evidence: Evidence, batch: BatchEvidence) -> Iterator[str]:
    ids, model = batch.tensor("input_ids"), evidence.model
    if ids is None or ids.dtype not in WHOLE or model is None:
        return
    if model.embedding_rows is not None and (ids.maximum or 0) < model.embedding_rows:
        yield _test(
            "every_id_has_an_embedding",
            "rows = run.model.get_input_embeddings().num_embeddings",
            'assert 0 <= run.tensors["input_ids"].min()',
            'assert run.tensors["input_ids"].max() < rows',
        )
    if model.positions is not None and len(ids.shape) == 2 and ids.shape[1] <= model.positions:
        yield _test("rows_fit_the_positions", f'assert run.tensors["input_ids"].shape[1] <= {model.positions}')


def _of_labels(evidence: Evidence, batch: BatchEvidence) -> Iterator[str]:
    labels, classes = _labels(evidence, batch), _classes(evidence)
    if labels is None or classes is None:
        return
    lines = [f"labels = run.tensors[{literal(labels.name)}]"]
    lines += ["labels = labels[labels != -100]"] if len(labels.shape) > 1 else []
    lines += ["assert labels.numel() > 0", f"assert 0 <= labels.min() and labels.max() < {classes}"]
    yield _test("labels_are_classes", *lines)


def _labels(evidence: Evidence, batch: BatchEvidence) -> TensorEvidence | None:
    """The tensor of class labels, found by its name or by the shape of the loss targets."""
    whole = [tensor for tensor in batch.tensors if tensor.dtype in WHOLE]
    named = next((tensor for tensor in whole if tensor.name == "labels"), None)
    losses = evidence.loop.losses_of("cross_entropy", "nll_loss") if evidence.loop else ()
    alike = [tensor for tensor in whole if losses and tensor.shape == losses[0].target_shape]
    return named or (alike[0] if len(alike) == 1 else None)


def _classes(evidence: Evidence) -> int | None:
    """The number of classes of the logits; None if there are none."""
    shape = evidence.forward.logits_shape if evidence.forward else ()
    return shape[-1] if shape and shape[-1] > 1 else None


def _of_forward(evidence: Evidence) -> Iterator[str]:
    forward = evidence.forward
    if forward is None or not forward.finite:
        return
    yield _test("the_loss_is_a_finite_number", "assert run.loss.ndim == 0", "assert torch.isfinite(run.loss)")
    if forward.chance is not None and forward.fresh_head and _is_whole(evidence):
        room = max(LEAST_ROOM, 2 * max(abs(loss - forward.chance) for loss in forward.losses))
        if room < forward.chance:
            classes = round(math.exp(forward.chance))
            yield _test(
                "initial_loss_is_at_chance_level",
                f"assert run.loss.item() == pytest.approx(math.log({classes}), abs={room:.2g})",
            )
    yield from _of_logits(evidence)
    yield from _of_gradients(evidence)


def _is_whole(evidence: Evidence) -> bool:
    """Whether the loss is the mean over its batch, not a part of it or a sum with other losses."""
    loop, forward = evidence.loop, evidence.forward
    if loop is None:
        return forward is not None and forward.standard_loss
    return len(loop.losses) == 1 and all(each == 1 for each in loop.backwards_per_step)


def _of_logits(evidence: Evidence) -> Iterator[str]:
    forward = evidence.forward
    if forward is None or "logits" not in forward.returned_keys or len(forward.logits_shape) < 2:
        return
    yield _test("logits_have_one_entry_per_class", f"assert run.output.logits.shape[-1] == {forward.logits_shape[-1]}")


def _of_gradients(evidence: Evidence) -> Iterator[str]:
    backward = evidence.backward
    if backward is None or not backward.finite or any(layer.without_gradient for layer in backward.layers):
        return
    yield _test(
        "gradients_reach_every_weight",
        "run.loss.backward(retain_graph=True)",
        "weights = dict(run.model.named_parameters())",
        "missed = [name for name, one in weights.items() if one.requires_grad and one.grad is None]",
        "run.model.zero_grad()",
        "assert missed == []",
    )
