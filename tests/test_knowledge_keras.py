"""The version of Keras that a project runs on, and names and arguments of earlier versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lintrain.knowledge import api, keras_successors
from lintrain.knowledge.statements import requirements_in
from lintrain.knowledge.versions import exactly, find_versions, with_written

keras: Any = pytest.importorskip("keras")
INSTALLED = exactly(keras=keras.__version__)


@pytest.mark.parametrize(
    ("requirement", "versions"),
    [
        ("tensorflow==2.8.0", ((2, 8),)),
        ("tensorflow-gpu==2.0.0-alpha0", ((2, 3),)),
        ("tensorflow==2.3.1", ((2, 4),)),
        ("tensorflow>=2.1,<2.9", ((2, 3), (2, 4), (2, 6), (2, 7), (2, 8))),
        ("tensorflow-gpu==2.10", ((2, 10),)),
        ("tensorflow==1.15", None),
        ("tensorflow>=2.12,<2.16", ((2, 12), (2, 13), (2, 14), (2, 15))),
    ],
)
def test_tensorflow_determines_the_version_of_keras(
    tmp_path: Path, requirement: str, versions: tuple[tuple[int, int], ...] | None
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement + "\n", encoding="utf-8")
    target = find_versions(tmp_path).get("keras")
    assert (target.versions if target else None) == versions


def test_keras_3_comes_with_tensorflow_from_2_16_on(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("tensorflow==2.17.0\n", encoding="utf-8")
    target = find_versions(tmp_path).get("keras")
    assert target is not None
    assert target.versions[0] >= (3, 0)


def test_an_install_of_tensorflow_in_a_notebook_counts() -> None:
    target = with_written(INSTALLED, requirements_in("!pip install -q tensorflow==2.9.1", "a cell")).get("keras")
    assert target is not None
    assert target.versions == ((2, 9),)


REFUSED = [
    *(("Dense", 3, name) for name in ("output_dim", "init", "W_regularizer", "bias", "batch_input_shape", "weights")),
    *(("Dropout", 0.5, name) for name in ("p", "foo")),
    ("LSTM", 3, "inner_activation"),
    ("LSTM", 3, "batch_input_shape"),
    ("BatchNormalization", -1, "mode"),
]


@pytest.mark.parametrize(("layer", "first", "keyword"), REFUSED)
def test_keras_refuses_what_the_tables_call_removed(layer: str, first: object, keyword: str) -> None:
    assert api.keyword_state(f"keras.layers.{layer}", keyword, INSTALLED).state in ("gone", "never")
    with pytest.raises((TypeError, ValueError)):
        getattr(keras.layers, layer)(first, **{keyword: 0.5})


@pytest.mark.parametrize("keyword", ["name", "trainable", "dtype", "input_shape", "input_dim"])
def test_keras_accepts_what_layers_take_behind_their_keywords(keyword: str) -> None:
    assert api.keyword_state("keras.layers.Dense", keyword, INSTALLED).state == "present"


def test_every_successor_of_an_optimizer_is_accepted() -> None:
    for keyword, rename in keras_successors.OPTIMIZERS.items():
        assert api.keyword_state("keras.optimizers.Adam", keyword, INSTALLED).state in ("gone", "never")
        if rename.new:
            assert api.keyword_state("keras.optimizers.Adam", rename.new, INSTALLED).state == "present"


@pytest.mark.parametrize("path", [path for path, rename in keras_successors.NAMES.items() if rename.is_safe])
def test_a_name_that_only_moved_can_be_imported_from_its_new_module(path: str) -> None:
    rename = keras_successors.NAMES[path]
    assert rename.new_module
    assert rename.new_name
    assert api.name_state(rename.new_module, rename.new_name, INSTALLED).state == "present"


def test_a_function_below_a_package_is_no_method() -> None:
    assert api.name_state("lightning", "seed_everything", exactly(lightning="2.6.6")).state == "unknown"
    assert api.name_state("keras.Model", "fit_generator", INSTALLED).state == "gone"
    assert api.name_state("keras.Model", "fit", INSTALLED).state == "present"
