"""Stand-ins of files and data sets: objects of settings, tagged words, and the columns of rows."""

from __future__ import annotations

import glob
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.evidence.run import StandIn, StandInKind
from lintrain.runtime.stand_ins import downloads, files, word_tools
from lintrain.runtime.stand_ins.columns import read_of
from lintrain.runtime.stand_ins.datasets import HubData, _making_room  # pyright: ignore[reportPrivateUsage]
from lintrain.runtime.stand_ins.files import written
from lintrain.runtime.stand_ins.folders import (
    Folders,
    _name_by_pattern,  # pyright: ignore[reportPrivateUsage]
    write_pictures,
)
from lintrain.runtime.stand_ins.ledger import Ledger, _texts_of  # pyright: ignore[reportPrivateUsage]
from lintrain.runtime.stand_ins.mappings import settings_of_line
from lintrain.runtime.stand_ins.packages import Empty


def test_sound_stays_sound_where_its_array_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "genre = songs['train'].features['genre'].int2str\n"
        "sounds = [each['array'] for each in examples['audio']]\n"
        "print(sample['array'], sample['sampling_rate'])\n"
    )
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setattr(Ledger, "script", text)
    read_of.cache_clear()
    session = SimpleNamespace(stand_ins=[], folder=str, stand_in_data=None)
    assert HubData(Ledger(session), "somebody/songs", None, {}).kinds() == {  # type: ignore[arg-type]
        "genre": "class",
        "audio": "audio",
    }
    read_of.cache_clear()


@pytest.mark.parametrize(
    ("read", "settings"),
    [
        ("adapter = LoraConfig(**given)", {}),
        ("rate, name = given['learning_rate'], given.get('output_dir')", {"learning_rate": 1e-4, "output_dir": ...}),
        ("for row in given: print(row['text'])", None),
        ("first = given[0]; print(given['text'])", None),
        ("rows = Dataset.from_list(given)", None),
        ("print(len(given), given['text'])", None),
    ],
)
def test_a_file_of_settings_is_one_object(read: str, settings: dict[str, object] | None) -> None:
    text = f"with open('given.json') as opened:\n    given = json.load(opened)\n{read}\n"
    found = settings_of_line(text, 1, text)
    assert (found is None) if settings is None else (found is not None and found.keys() == settings.keys())
    assert found is None or found.get("learning_rate", 1e-4) == 1e-4


def test_an_object_is_read_at_once_by_a_key() -> None:
    text = "with open(path) as opened:\n    made = json.load(opened)['word2id']\n    size = json.load(opened)['size']\n"
    found = settings_of_line(text, 1, text)
    assert found is not None
    assert found.keys() == {"word2id", "size"}
    words, size = found["word2id"], found["size"]
    assert isinstance(words, dict)
    assert isinstance(size, int)
    assert max(map(int, words.values())) < size
    assert settings_of_line("rows = json.load(open(path))['data']\n", 1, "") is None


@pytest.mark.parametrize(
    ("reads", "first", "columns"),
    [
        ("word, tag = line.strip().split()\nif tag == 'B-DIS': pass", "O", 2),
        ("parts = line.split('\\t')\nprint(parts[3], 'conll')", "O", 4),
    ],
)
def test_a_file_of_tagged_words_has_one_in_each_line(
    reads: str, first: str, columns: int, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "script", reads)
    session = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path))
    path = written(Ledger(session), "data/train.txt")  # type: ignore[arg-type]
    assert path is not None
    sentence, *others = Path(path).read_text(encoding="utf-8").strip().split("\n\n")
    rows = [line.split("\t" if columns == 4 else " ") for line in sentence.splitlines()]
    assert {len(row) for row in rows} == {columns}
    assert [rows[0][-1], len(others)] == [first, 31]
    assert rows[1][-1] == ("B-DIS" if columns == 2 else "B-PER")


@pytest.mark.parametrize("name", ["train.txt", "paper.tex", "notes.md"])
def test_a_file_of_texts_has_no_tags(name: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "script", "lines = open('train.txt').read().split()")
    session = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path), stand_in_data=None)
    path = written(Ledger(session), name)  # type: ignore[arg-type]
    assert path is not None
    assert " " in Path(path).read_text(encoding="utf-8").splitlines()[0]


def test_a_function_that_returns_settings_reads_one_object() -> None:
    text = "def read(path):\n    with open(path) as opened:\n        return json.load(opened)\n"
    assert settings_of_line(f"{text}given = read('a.json')\nprint(given['epochs'])\n", 2, text) == {"epochs": 1}
    assert settings_of_line(f"{text}rows = read('a.json')\nprint([each['text'] for each in rows])\n", 2, text) is None


def test_a_download_that_fails_leaves_its_file_to_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "script", "json.loads(line)['question']")
    monkeypatch.setattr(downloads, "is_called_by_user", lambda *_: True)
    read_of.cache_clear()
    session = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path), stand_in_data=None)
    ledger = Ledger(session)  # type: ignore[arg-type]

    def fails(*_: Any, **__: Any) -> None:
        raise OSError("offline")

    retrieve = downloads._retrieving(ledger, fails)
    assert retrieve("https://host/a/train.jsonl?x=1") == ("train.jsonl", {})
    assert retrieve("https://host/a/train.jsonl", "rows.jsonl") == ("rows.jsonl", {})
    answer = downloads._asking(ledger, fails)("https://host/rows.json")
    assert answer.json()[0].keys() == {"question"}
    assert downloads._asking(ledger, fails)("https://host/cat.png").raw.read(4) == b"\x89PNG"
    assert "sentence" not in downloads._asking(ledger, fails)("https://host/LICENSE").headers
    assert [each.name for each in session.stand_ins].count("https://host/cat.png") == 1
    read_of.cache_clear()


def test_the_data_of_an_example_of_lightning_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "script", "")
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path), stand_in_data=None)

    def fails(*_: Any) -> None:
        raise OSError("offline")

    given = {"get": downloads._asking(Ledger(session), fails)}
    for folder, is_made in (("demos", True), ("loggers", False)):
        path = f"/lib/site-packages/lightning/pytorch/{folder}/transformer.py"
        exec(compile("def download(url): return get(url).text", path, "exec"), given)
        if is_made:
            assert len(given["download"]("https://host/wikitext-2/train.txt").split()) > 35 * 5_000
        else:
            with pytest.raises(OSError, match="offline"):
                given["download"]("https://host/version.txt")


def test_shards_that_are_elsewhere_hold_images_and_captions(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    session: Any = SimpleNamespace(stand_ins=[], measuring=False)
    webdataset = SimpleNamespace(gopen=lambda *_: "opened")
    downloads._answer_shards(Ledger(session), webdataset)
    for number in range(2):
        shard = webdataset.gopen(f"pipe:curl -s https://host/a/0000{number}.tar?download=true")
    assert [each.name for each in session.stand_ins] == ["*.tar"]
    with tarfile.open(fileobj=shard, mode="r|*") as archive:
        parts = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    assert [*parts][:4] == ["000000.cls", "000000.jpg", "000000.json", "000000.txt"]
    assert image.open(io.BytesIO(parts["000001.jpg"])).size == (96, 96)
    (tmp_path / "here.tar").touch()
    assert webdataset.gopen(str(tmp_path / "here.tar")) == "opened"
    assert webdataset.gopen("pipe:cat > a.tar", "wb") == "opened"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        (
            "MarginMSELoss(model)\nrows = load_dataset('x')\nrows['positive'], rows['query']",
            "query positive negative label",
        ),
        ("losses.CachedMultipleNegativesRankingLoss(model)", "anchor positive"),
        ("CoSENTLoss(model)\nrows = load_dataset('x')\nrows['sentence_A']", "sentence_A"),
        ("CoSENTLoss(model), TripletLoss(model)", "text label"),
    ],
)
def test_a_loss_names_its_columns(text: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "script", f"from sentence_transformers import losses\n{text}")
    read_of.cache_clear()
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: "")
    assert [*HubData(Ledger(session), "somebody/pairs", None, {}).kinds()] == columns.split()
    read_of.cache_clear()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("random.sample(corpus['_id'], k=10_000)", {"corpus": 10_000, "test": 2_000}),
        ("random.sample(corpus['_id'], k=100)", {"corpus": 2_000, "test": 400}),
        ("rows['test'].select(range(1_000))", {"train": 4_000, "validation": 1_000}),
        ("train_test_split(rows['train'], test_size=12_000)", {"train": 12_000, "validation": 400}),
        ("rows.select(range(100_000))\nrandom.sample(ids, k=5_000)", {"corpus": 5_000, "test": 2_000}),
        ("random.choices(corpus['_id'], k=10_000)", {"corpus": 2_000, "test": 400}),
    ],
)
def test_a_split_has_the_rows_that_are_taken_of_it_and_few_for_an_evaluation(
    text: str, rows: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "script", text)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: "")
    assert {
        split: HubData(Ledger(session), "somebody/passages", None, {"split": split}).splits()[split] for split in rows
    } == rows


def test_a_file_of_a_downloaded_archive_may_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "is_called_by_user", lambda *_: True)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path))
    ledger = Ledger(session)
    rename = downloads._moving(ledger, os.rename)
    with pytest.raises(FileNotFoundError):  # nothing was downloaded: the script's own error
        rename(tmp_path / "inner", tmp_path / "rows.csv")
    (tmp_path / "rows.zip").write_bytes(downloads.Answer(ledger, "https://example.org/rows.zip").content)
    with zipfile.ZipFile(tmp_path / "rows.zip") as opened:
        assert opened.namelist() == []
    rename(tmp_path / "inner", tmp_path / "rows.csv")
    assert not (tmp_path / "rows.csv").exists()
    rename(tmp_path / "rows.zip", tmp_path / "other.zip")
    assert (tmp_path / "other.zip").exists()


def test_an_archive_that_is_not_here_is_empty_for_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile.ZipFile, "__init__", downloads._opening_zip(zipfile.ZipFile.__init__))
    monkeypatch.setattr(downloads, "is_called_by_user", lambda *_: True)
    with zipfile.ZipFile(tmp_path / "rows.zip") as opened:
        opened.extractall(tmp_path / "rows")
    assert not opened.namelist()
    with downloads._opening_tar(tarfile.open)(tmp_path / "rows.tar.gz", "r:gz") as archive:
        assert not archive.getnames()
    monkeypatch.setattr(downloads, "is_called_by_user", lambda *_: False)
    with pytest.raises(FileNotFoundError):
        zipfile.ZipFile(tmp_path / "rows.zip")


def test_packages_that_download_name_the_file() -> None:
    assert Empty("gdown").download("https://host/a.csv", "b.csv", quiet=True) == "b.csv"
    assert Empty("wget").download("https://host/a.csv") == "a.csv"
    assert Empty("kagglehub").dataset_download("somebody/houses") == "houses"


def test_words_and_sentences_need_no_data_of_nltk() -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise LookupError("Resource punkt not found")

    session = SimpleNamespace(stand_ins=[])
    ledger = Ledger(session)  # type: ignore[arg-type]
    module = SimpleNamespace(sent_tokenize=fails, word_tokenize=str.split, stopwords=SimpleNamespace(words=fails))
    word_tools._answer_tokenizers(ledger, module)
    word_tools._answer_corpora(ledger, module)
    assert module.sent_tokenize("It rains. We stay!") == ["It rains.", "We stay!"]
    assert module.word_tokenize("It rains.") == ["It", "rains."]  # its data is here
    assert "the" in module.stopwords.words("english")
    assert [each.name for each in session.stand_ins] == ["nltk sent_tokenize", "nltk stopwords"]


@pytest.mark.slow
def test_a_new_column_takes_the_place_of_one_that_was_made() -> None:
    rows = pytest.importorskip("datasets").Dataset.from_dict({"genre": [1], "label": [2]})
    made = [StandIn(StandInKind.DATA, "somebody/songs", "rows")]

    def change(method: str, *given: Any) -> dict[str, list[int]]:
        ledger: Any = SimpleNamespace(session=SimpleNamespace(stand_ins=made))
        found: dict[str, list[int]] = _making_room(ledger, method, getattr(type(rows), method))(rows, *given).to_dict()
        return found

    assert change("rename_column", "genre", "label") == {"label": [1]}
    assert change("rename_columns", {"genre": "label"}) == {"label": [1]}
    assert change("add_column", "label", [3]) == {"genre": [1], "label": [3]}
    made.clear()
    with pytest.raises(ValueError, match="already in the dataset"):
        change("rename_column", "genre", "label")


@pytest.mark.slow
@pytest.mark.parametrize(("said", "between"), [("delimiter = '\\t'", "\t"), ("sep=';'", ";"), ("", ",")])
def test_columns_of_a_table_are_apart_as_the_script_says(
    said: str, between: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setattr(Ledger, "script", f"row['sentence'], row['sentiment']\nreader(opened, {said})")
    read_of.cache_clear()
    session = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path), stand_in_data=None)
    path = written(Ledger(session), "train.csv")  # type: ignore[arg-type]
    read_of.cache_clear()
    assert path is not None
    assert Path(path).read_text(encoding="utf-8").splitlines()[0] == f"sentence{between}sentiment"


@pytest.mark.parametrize(
    ("text", "folder", "files"),
    [
        ("Image.open(p)\nImageFolder('data/pets' + '/train')\nImageFolder(root / 'test')", "pets", "t*/*/*.jpg"),
        ("Image.open(p)\nroot = 'data/pets/'\nlist(root.glob('*/*.png'))", "", "pets/*/*.png"),
        ("Image.open(p)\nos.listdir('data/pets')", "pets", "*.jpg"),
    ],
)
def test_an_archive_that_is_not_here_has_the_pictures_that_are_read(
    text: str, folder: str, files: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("PIL.Image")
    monkeypatch.setattr(downloads, "is_called_by_user", lambda *_: True)
    monkeypatch.setattr(Ledger, "script", text)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", zipfile.ZipFile.extractall)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path / "hub"))
    ledger = Ledger(session)
    monkeypatch.setattr(zipfile.ZipFile, "extractall", downloads._extracting(ledger, zipfile.ZipFile.extractall))
    (tmp_path / "pets.zip").write_bytes(downloads.Answer(ledger, "https://example.org/pets.zip").content)
    with zipfile.ZipFile(tmp_path / "pets.zip") as opened:
        opened.extractall(tmp_path / "data" / folder)
    found = [*(tmp_path / "data" / folder).glob(files)]
    assert len(found) == (128 if "t*/" in files else 64)
    assert [each.name for each in session.stand_ins if "extracted" in each.name] == ["pets, extracted"]


def test_files_of_a_folder_have_the_names_that_a_pattern_finds(tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "a_1.png").touch()
    (tmp_path / "first" / "a_1.jpg").touch()
    for pattern in ("*_image.png", "*.png", "[ab]*_mask.png"):
        _name_by_pattern(str(tmp_path), pattern)
    assert sorted(each.name for each in (tmp_path / "first").iterdir()) == ["a_1.jpg", "a_1.png", "a_1_image.png"]


def test_a_missing_folder_without_files_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "script", "glob.glob('rows/*.npz')")
    monkeypatch.setattr("lintrain.runtime.stand_ins.folders._is_asked_by_script", lambda: True)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path))
    find = Folders(Ledger(session))._globbing(glob.glob)
    (tmp_path / "empty").mkdir()
    assert find(str(tmp_path / "empty" / "*.npz")) == find(str(tmp_path / "rows" / "*.npz")) == []
    assert [(each.name, each.by.partition(":")[0]) for each in session.stand_ins] == [("rows", "no files")]


def test_an_archive_of_rows_stays_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "script", "pd.read_csv('rows.csv')")
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, folder=lambda _: str(tmp_path / "hub"))
    write_pictures(Ledger(session), "rows", str(tmp_path / "rows"))
    assert not (tmp_path / "rows").exists()


def test_a_table_with_a_word_in_each_row_has_its_class_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    monkeypatch.setattr(Ledger, "script", "data = pd.read_csv('ner.csv')\nrows = data[['Sentence #', 'Word', 'Tag']]")
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, stand_in_data=None, folder=lambda _: str(tmp_path))
    path = written(Ledger(session), "ner.csv")
    assert path is not None
    rows = pandas.read_csv(path)
    assert [*rows.columns] == ["Sentence #", "Word", "Tag"]
    assert {*rows["Tag"]} == {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}


def test_a_picture_that_the_script_names_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(image, "open", image.open)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False)
    downloads._answer_pictures(Ledger(session), image)
    for is_asked in (False, True):
        monkeypatch.setattr(downloads, "is_called_by_user", lambda *_, is_asked=is_asked: is_asked)
        if not is_asked:  # a library looks for one of its own files
            with pytest.raises(FileNotFoundError):
                image.open(tmp_path / "dog.jpg")
    assert image.open(tmp_path / "dog.jpg").convert("RGB").size == (96, 96)
    with pytest.raises(FileNotFoundError):
        image.open(tmp_path / "rows.csv")
    assert [each.name for each in session.stand_ins] == ["dog.jpg"]


def test_programs_that_fetch_files_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run", "call"):
        monkeypatch.setattr(subprocess, name, getattr(subprocess, name))
    monkeypatch.setattr(os, "system", os.system)
    session: Any = SimpleNamespace(stand_ins=[], measuring=False)
    downloads._start_no_downloads(Ledger(session), subprocess)
    fetched = ["git", "clone", "https://example.org/rows.git"]
    assert subprocess.run(fetched, check=True, capture_output=True, text=True).stdout == ""
    assert subprocess.check_call("wget https://example.org/rows.csv", shell=True) == 0
    assert subprocess.check_output(["unzip", "rows.zip"]) == b""
    assert os.system("unzip rows.zip") == 0
    assert os.system("exit 1") != 0
    assert subprocess.run([sys.executable, "-c", "print(1)"], check=True, capture_output=True).stdout == b"1\n"
    assert subprocess.run(["git", "--version"], check=True, capture_output=True).stdout.startswith(b"git")
    assert [each.name for each in session.stand_ins] == [
        "git clone https://example.org/rows.git",
        "wget https://example.org/rows.csv",
        "unzip rows.zip",
    ]


def test_a_module_is_read_once_by_whichever_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "__init__.py").write_text("from .small import Net\n")
    (tmp_path / "nets" / "small.py").write_text("NAME = 'net'\n")
    (tmp_path / "train.py").write_text("import nets\n")
    texts = _texts_of(tmp_path / "train.py")
    assert texts == ["import nets\n", "from .small import Net\n", "NAME = 'net'\n"]


class Settings:
    """As `OmegaConf`, whose file `open` of the builtins does not answer for."""

    @staticmethod
    def load(file_: str) -> str:
        return Path(file_).read_text()


def test_settings_of_omegaconf_are_made_only_where_their_file_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, kept = tmp_path / "made.json", tmp_path / "kept.yaml"
    own.write_text("made")
    kept.write_text("kept")
    monkeypatch.setattr(files, "_for_missing", lambda _, name, __: str(own) if name.endswith(".yaml") else None)
    monkeypatch.setattr(files, "is_called_by_user", lambda *_: True)
    owner: Any = type("Owner", (Settings,), {})
    ledger: Any = None
    files._load_settings(ledger, owner)  # pyright: ignore[reportPrivateUsage]
    assert owner.load(str(kept)) == "kept"
    assert owner.load(str(tmp_path / "missing.yaml")) == "made"
    with pytest.raises(FileNotFoundError):
        owner.load(str(tmp_path / "missing.ini"))
