"""What the names of data sets and checkpoints stand for."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest

from lintrain.knowledge import checkpoint_facts as checkpoints
from lintrain.knowledge import dataset_facts as data_sets
from lintrain.knowledge import trainers
from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.knowledge.data_files import hub_cache
from lintrain.knowledge.dataset_facts import dataset_facts
from lintrain.knowledge.versions import exactly

KINDS = {"text", "integer", "float", "class label", "list", "image", "audio", "unknown"}


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_DATASETS_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def test_the_shipped_table_knows_mnli() -> None:
    facts = dataset_facts("glue", "mnli")
    assert facts is not None
    assert facts.columns["label"].class_names == ("entailment", "neutral", "contradiction")
    assert [name for name, column in facts.columns.items() if column.kind == "text"] == ["premise", "hypothesis"]
    assert "validation_matched" in facts.splits
    assert "validation" not in facts.splits
    assert facts.source == "shipped table (card of nyu-mll/glue)"


def test_a_data_set_is_known_by_its_old_and_its_new_name() -> None:
    assert dataset_facts("imdb") == dataset_facts("stanfordnlp/imdb")
    assert dataset_facts("imdb") is not None


def test_a_data_set_with_several_configurations_needs_its_name() -> None:
    assert dataset_facts("glue") is None
    assert dataset_facts("glue", "nonsense") is None


def test_a_data_set_that_is_sorted_says_so() -> None:
    facts = dataset_facts("imdb")
    assert facts is not None
    assert (facts.sorted_by, facts.unlabelled) == ("label", ("unsupervised",))


def test_the_shipped_table_knows_what_public_scripts_load_most() -> None:
    facts = dataset_facts("sentence-transformers/all-nli", "pair-class")
    assert facts is not None
    assert facts.columns["label"].class_names == ("entailment", "neutral", "contradiction")
    assert dataset_facts("sentence-transformers/all-nli") is None  # one of its configurations has to be named


def test_what_nobody_knows_is_none() -> None:
    assert dataset_facts("nobody/has-this") is None
    assert checkpoint_facts("nobody/has-this") is None


def test_every_shipped_data_set_can_be_read() -> None:
    rows = [(row["names"][0], row["configs"]) for row in data_sets._table().values()]
    assert rows
    for name, config, known in [(name, *each) for name, configs in rows for each in configs.items()]:
        facts = dataset_facts(name, config)
        assert facts is not None, name
        assert len(facts.columns) == sum(1 for part in known["columns"].split(":")) - 1, name
        assert {column.kind for column in facts.columns.values()} <= KINDS, name
        assert facts.sorted_by is None or facts.sorted_by in facts.columns, name
        assert set(facts.unlabelled) <= set(facts.splits), name
        assert facts.source.startswith("shipped table ("), name


def test_a_saved_data_set_comes_before_the_table(tmp_path: Path) -> None:
    features = {
        "label": {"names": ["no", "yes"], "_type": "ClassLabel"},
        "text": {"dtype": "string", "_type": "Value"},
        "tags": {"feature": {"names": ["O", "B"], "_type": "ClassLabel"}, "_type": "Sequence"},
        "ids": [{"dtype": "int64", "_type": "Value"}],
        "score": {"dtype": "float32", "_type": "Value"},
    }
    write(tmp_path / "imdb" / "dataset_dict.json", {"splits": ["train"]})
    splits = {"train": {"num_examples": 12}}
    write(tmp_path / "imdb" / "train" / "dataset_info.json", {"features": features, "splits": splits})

    facts = dataset_facts("imdb", folder=tmp_path)

    assert facts is not None
    assert {name: column.kind for name, column in facts.columns.items()} == {
        "label": "class label",
        "text": "text",
        "tags": "list",
        "ids": "list",
        "score": "float",
    }
    assert facts.columns["label"].class_names == ("no", "yes")
    assert facts.columns["tags"].num_classes == 2
    assert facts.splits == {"train": 12}
    assert facts.source == "dataset_info.json in imdb"


def test_a_folder_of_that_name_without_such_files_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "imdb").mkdir()
    assert dataset_facts("imdb", folder=tmp_path) is None


def test_a_data_set_in_the_cache_comes_before_the_table(empty_cache: Path) -> None:
    info = {"features": {"words": {"dtype": "string", "_type": "Value"}}, "splits": {"train": {"num_examples": 3}}}
    write(empty_cache / "datasets" / "stanfordnlp___imdb" / "plain_text" / "0.0.0" / "abc" / "dataset_info.json", info)
    facts = dataset_facts("imdb")
    assert facts is not None
    assert list(facts.columns) == ["words"]
    assert facts.source == "cache of prepared data sets"


@pytest.mark.parametrize("content", ["{", "[]", "", '{"features": 3}', '{"features": {"a": null}, "splits": []}'])
def test_a_broken_file_is_no_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "dataset_info.json").write_text(content)
    (tmp_path / "data" / "config.json").write_text(content)
    dataset_facts("data", folder=tmp_path)
    facts = checkpoint_facts("data", tmp_path)
    assert facts is None or facts.model_type is None


@pytest.mark.parametrize("name", ["a\0b", "x" * 5_000, "..", "", "~"])
def test_an_odd_name_is_no_error(name: str, tmp_path: Path) -> None:
    assert dataset_facts(name, folder=tmp_path) is None
    assert checkpoint_facts(name, tmp_path) is None


def test_every_shipped_checkpoint_can_be_read() -> None:
    names = [*checkpoints._table()]
    assert names
    for name in names:
        facts = checkpoint_facts(name)
        assert facts is not None, name
        assert facts.size in ("small", "base", "large", "huge"), name
        assert facts.num_labels is None or not facts.label_names or facts.num_labels == len(facts.label_names), name


def test_no_name_stands_for_two_checkpoints() -> None:
    rows = json.loads(Path(checkpoints.__file__).with_name("checkpoints.json").read_text())
    names = [name for row in rows for name in row["names"]]
    assert len(names) == len(set(names))


def test_a_fine_tuned_checkpoint_has_its_head() -> None:
    facts = checkpoint_facts("distilbert-base-uncased-finetuned-sst-2-english")
    assert facts is not None
    assert (facts.head, facts.num_labels) == ("DistilBertForSequenceClassification", 2)


def test_a_base_checkpoint_has_no_head() -> None:
    facts = checkpoint_facts("distilbert-base-uncased")
    assert facts is not None
    assert (facts.head, facts.num_labels, facts.max_positions) == (None, None, 512)


def test_a_saved_model_is_read_from_its_json_files(tmp_path: Path) -> None:
    config = {"model_type": "roberta", "max_position_embeddings": 514, "pad_token_id": 1, "hidden_size": 768}
    named = {"architectures": ["RobertaForSequenceClassification"], "id2label": {"1": "b", "0": "a", "2": "c"}}
    write(tmp_path / "model" / "config.json", config | named | {"torch_dtype": "float16"})
    write(tmp_path / "model" / "tokenizer_config.json", {"pad_token": "<pad>", "eos_token": None})

    facts = checkpoint_facts("model", tmp_path)

    assert facts is not None
    assert (facts.max_positions, facts.size, facts.dtype) == (512, "base", "float16")
    assert (facts.num_labels, facts.label_names) == (3, ("a", "b", "c"))
    assert (facts.has_pad_token, facts.has_eos_token) == (True, False)
    assert facts.source == "config.json in model"


def test_a_saved_tokenizer_that_names_no_token_has_those_of_its_class(tmp_path: Path) -> None:
    write(tmp_path / "model" / "config.json", {"model_type": "bert"})
    write(tmp_path / "model" / "tokenizer_config.json", {"do_lower_case": False, "model_max_length": 512})
    facts = checkpoint_facts("model", tmp_path)
    assert facts is not None
    assert (facts.has_pad_token, facts.has_eos_token) == (None, None)


def test_a_saved_classifier_without_label_names_has_two_outputs(tmp_path: Path) -> None:
    write(tmp_path / "model" / "config.json", {"architectures": ["BertForSequenceClassification"]})
    facts = checkpoint_facts("model", tmp_path)
    assert facts is not None
    assert facts.num_labels == 2


def test_a_checkpoint_in_the_hub_cache_comes_before_the_table(empty_cache: Path) -> None:
    repository = empty_cache / "hub" / "models--openai-community--gpt2"
    write(repository / "snapshots" / "a" / "config.json", {"model_type": "old"})
    write(repository / "snapshots" / "b" / "config.json", {"model_type": "gpt2", "n_positions": 77})
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("b\n")
    facts = checkpoint_facts("gpt2")
    assert facts is not None
    assert (facts.max_positions, facts.source) == (77, "hub cache")


def test_a_relative_folder_of_caches_is_none_of_ours(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HOME")
    monkeypatch.setenv("HOME", str(empty_cache))
    monkeypatch.setenv("USERPROFILE", str(empty_cache))
    monkeypatch.setenv("XDG_CACHE_HOME", "../cache")
    assert hub_cache() == empty_cache / ".cache" / "huggingface" / "hub"
    monkeypatch.setenv("XDG_CACHE_HOME", str(empty_cache / "cache"))
    assert hub_cache() == empty_cache / "cache" / "huggingface" / "hub"


def test_relative_positions_have_no_limit(tmp_path: Path) -> None:
    write(tmp_path / "model" / "config.json", {"model_type": "t5", "n_positions": 512})
    facts = checkpoint_facts("model", tmp_path)
    assert facts is not None
    assert facts.max_positions is None


@pytest.mark.parametrize("name", list(trainers._TORCH_RATES))
def test_the_default_learning_rate_of_torch_is_the_real_one(name: str) -> None:
    optim = pytest.importorskip("torch.optim")
    parameters = inspect.signature(getattr(optim, name)).parameters
    path = f"torch.optim.{name}"
    assert trainers.default_learning_rate(path, exactly()) == parameters["lr"].default
    if "weight_decay" in parameters and name != "LBFGS":
        assert trainers.default_weight_decay(path, exactly()) == parameters["weight_decay"].default


def test_the_default_learning_rate_of_keras_comes_from_its_table() -> None:
    assert trainers.default_learning_rate("keras.optimizers.Adam", exactly(keras="3.15.1")) == 1e-3
    assert trainers.default_learning_rate("keras.optimizers.Adam", exactly()) is None
    assert trainers.default_learning_rate("keras.optimizers.Nonsense", exactly(keras="3.15.1")) is None


@pytest.mark.parametrize(
    ("model_type", "positions"), [("mpnet", 512), ("m2m_100", None), ("xlnet", None), ("bert", 514)]
)
def test_not_all_positions_of_a_config_are_for_tokens(tmp_path: Path, model_type: str, positions: int | None) -> None:
    config = {"model_type": model_type, "max_position_embeddings": 514, "pad_token_id": 1}
    write(tmp_path / "saved" / "config.json", config)
    facts = checkpoint_facts("saved", tmp_path)
    assert facts is not None
    assert facts.max_positions == positions
