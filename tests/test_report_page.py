"""The report of a probe as one page: complete, asking nobody, and showing what users write as text."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lintrain.check.result import Reported
from lintrain.evidence.run import (
    BackwardEvidence,
    BatchEvidence,
    BatchRow,
    BatchTable,
    ColumnEvidence,
    EncodedTexts,
    EvaluationEvidence,
    Evidence,
    Failure,
    ForwardEvidence,
    LayerGradient,
    ModelEvidence,
    OptimizerGroup,
    OverfitEvidence,
    PredictedClass,
    RowAnswer,
    RowText,
    RowValues,
    ScheduleEvidence,
    Span,
    SplitEvidence,
    Stage,
    StageName,
    StepEvidence,
    TensorEvidence,
)
from lintrain.evidence.stages import ALWAYS_MEASURED, Ending, EndingKind
from lintrain.evidence.sweep import Sweep, WrongRows
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.report.page.document import page
from lintrain.runtime.parent.record import SCHEMA, Record, write_record
from lintrain.source.reading import read_bytes
from lintrain.verdicts.conclusion import Conclusion
from tests.support.probing import command, path_for_lintrain

STAGES = ALWAYS_MEASURED
HOSTILE = '<script>alert("x")</script> & \x1b[31m \u202e \ud800 </style>'
SCRIPT = "model = load()\ntrain(model, rate=1)\n"
VOID = ("img", "meta")


class Elements(HTMLParser):
    """The elements of a page, in order; every one must be closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def model() -> ModelEvidence:
    names = ("input_ids", "labels")
    return ModelEvidence(
        "TinyModel", names, ("labels",), "SequenceClassification", 3, (), 16, False, True, 66_400_000, 66_400_000, True,
        True, "cpu",
    )  # fmt: skip


def rows() -> BatchTable:
    """Rows in which a user's text stands wherever one can stand."""
    answer = RowAnswer(HOSTILE, HOSTILE, HOSTILE, 0.25)
    text = RowText(HOSTILE, HOSTILE, 12, 8, "right", types=(Span(0, 0, 5), Span(1, 6, 7)))
    image = RowValues(HOSTILE, "image", (3, 4, 4), "float32", 0.0, 1.0, 0.5, picture="iVBORw0KGgo=")
    first = BatchRow(0, 0, HOSTILE, (text,), (image,), answer, answer, 8, 12, (Span(1, 0, 7),))
    second = BatchRow(0, 1, "", (RowText("input_ids", "a calm text", 3, 3),), (), RowAnswer("0", "no"))
    classes = (PredictedClass(0, "no", 5, 4), PredictedClass(1, HOSTILE, 3, 4))
    names = (HOSTILE,)
    return BatchTable(
        "train_dataset", (first, second), 8, HOSTILE, HOSTILE, names, ((HOSTILE, HOSTILE),), names, names, classes
    )


def measured() -> Evidence:
    """A run in which everything was measured and a user's text stands wherever one can stand."""
    label = ColumnEvidence("label", "class label", "int64", 0, 2, ((0, 30), (1, 60)), ("no", HOSTILE), rows_read=90)
    bins = ((4, 9, 50), (10, 15, 30), (16, 21, 10))
    ids = ColumnEvidence(
        "input_ids", "token ids", "list<int32>", lengths=(4, 8, 15, 21), rows_read=90, length_bins=bins
    )
    split = SplitEvidence("train_dataset", 90, (label, ids), HOSTILE, "label")
    layers = (
        LayerGradient("embeddings", (0.5, 0.7), 3.0, 2),
        LayerGradient("layer.0", (0.0,), 3.0, 2, ("a", "b")),
        LayerGradient(HOSTILE, (float("nan"),), 3.0, 2),
    )
    return Evidence(
        script="train.py",
        framework="transformers",
        trainer="Trainer",
        call=Location("train.py", 2, 1, 2, 21),
        construction=None,
        device="cpu",
        versions={"torch": "2.13.0"},
        stages=tuple(Stage.passed(name, 0.5) for name in STAGES),
        splits=(split,),
        model=model(),
        batches=(BatchEvidence("train_dataset", HOSTILE, (TensorEvidence(HOSTILE, (8, 12), "int64", 0, 5),), 8),),
        tables=(rows(),),
        forward=ForwardEvidence((1.1, 1.2), 1.0986, True),
        backward=BackwardEvidence(layers, (1.4, 1.5), True),
        step=StepEvidence("AdamW", (OptimizerGroup(2e-5, 0.0, 0.01, 100),), 100, 100),
        schedule=ScheduleEvidence("LambdaLR", 101, ((0, 0.0), (50, 2e-5), (100, 0.0)), 2e-5, 50),
        overfit=OverfitEvidence(3, (1.1, 0.7, 0.4, 0.1), (1.1, 2.0, float("nan"), 1.5), 2e-5, rows=8),
        shortcuts=(HOSTILE,),
        notes=(HOSTILE,),
    )


def shown(*runs: Evidence, ending: Ending | None = None, code: int = 1) -> str:
    record = Record(
        SCHEMA, "0.1", "train.py", "", "python3", ending or Ending(EndingKind.MEASURED), runs, (), (HOSTILE,)
    )
    finding = Finding("some-rule", Level.ERROR, Location("train.py", 2, 14, 2, 20), HOSTILE, HOSTILE, HOSTILE)
    judged = [Reported(finding, None, Verdict.confirmed(HOSTILE, value=HOSTILE, share=0.25))] if runs else []
    source = read_bytes("train.py", SCRIPT.encode())
    return page(record, judged, Conclusion(code, "1 mistake confirmed"), {"train.py": source}.get)


def failed_at(name: StageName) -> Evidence:
    """The same run, ending in one stage."""
    reached = STAGES.index(name)
    error = Failure(
        "ValueError", HOSTILE, Location("train.py", 2, 1, 2, 5), "train(model)", ("train.py:2 in <module>",)
    )
    stages = (
        *(Stage.passed(each) for each in STAGES[:reached]),
        Stage.failed(name, error, 0.1),
        *(Stage.not_reached(each, f"the {name} stage failed") for each in STAGES[reached + 1 :]),
    )
    return replace(measured(), stages=stages)


@pytest.mark.parametrize("name", STAGES)
def test_the_stage_that_fails_is_marked_in_the_picture(name: StageName) -> None:
    text = shown(failed_at(name))
    Elements(text)
    assert text.count('class="part failed"') == 2  # once in the wide picture, once in the tall one
    assert f"✗ {name}: failed" in text
    assert f"✗ the {name} stage failed" in text


def test_what_users_write_is_text_wherever_it_stands() -> None:
    elements = Elements(shown(measured()))
    assert elements.open == []
    assert elements.names.count("script") == 1
    assert elements.names.count("style") == 1
    text = shown(measured())
    assert text.count("&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;") > 15
    assert "\x1b" not in text
    assert "\u202e" not in text
    text.encode()


def test_a_page_asks_nobody_for_anything() -> None:
    text = shown(measured())
    elements = Elements(text)
    script = text.partition("<script>")[2].partition("</script>")[0]
    digest = b64encode(sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    assert ("content", policy) in elements.attributes
    assert not {"link", "iframe", "object", "video", "base", "form", "use", "image"} & set(elements.names)
    places = {value for name, value in elements.attributes if name == "id"}
    links = [value for name, value in elements.attributes if name in ("src", "href")]
    assert len(links) > 12
    assert {str(link) for link in links if link is None or link[1:] not in places} == {
        "data:image/png;base64,iVBORw0KGgo="
    }
    assert not [name for name, _ in elements.attributes if name.startswith("on") or name == "style"]
    assert not re.search(r"url\(|@import|https?:", text)


def test_everything_that_was_measured_is_shown() -> None:
    text = shown(measured())
    for title in (
        "Labels",
        "Lengths",
        "Batch",
        "Gradient flow",
        "Schedule",
        "Overfitting one batch",
    ):
        assert f"<h3>{title}</h3>" in text
    assert "<h3>Rows of train_dataset[" in text
    assert "66.4 M weights" in text
    assert "30 (33%)" in text
    assert "16 to 21: 10" in text
    assert "10 times the rate: 1.100 to 1.500" in text
    assert "share</code> 0.25" in text
    assert '<mark class="finding-mark">rate=1</mark>' in text


def test_the_findings_are_directly_under_the_picture() -> None:
    run = measured()
    record = Record(
        SCHEMA,
        "0.1",
        "train.py",
        "",
        "python3",
        Ending(EndingKind.MEASURED, notes=("a request was blocked",)),
        (run,),
        (),
        (),
    )
    text = page(record, [], Conclusion(0, "ok"), lambda _: None)
    assert text.index("</svg>") < text.index("<h2>Findings</h2>") < text.index("Blocked requests")
    between = text[: text.index("<h2>Findings</h2>")].rpartition("</svg>")[2]
    assert "<h3>" not in between


def test_a_stage_has_what_the_sweep_found_and_what_is_left_of_its_texts() -> None:
    wrong = WrongRows("constant image", "pixels", 1, (7,), "every value is 0")
    split = SplitEvidence("train_dataset", 90, (), sweep=Sweep(60, 90, 0.5, (wrong,)))
    cut = EncodedTexts(Location("train.py", 1, 1, 1, 2), 8, 40, 3, 12, "left")
    text = shown(replace(measured(), splits=(split,), encodings=(cut,)))
    assert "train: 60 of 90 rows read" in text
    assert "row 7: <code>pixels</code> is an image of one value" in text
    assert "texts: 3 of 8 cut at the start (12 of 40 tokens)" in text


def test_a_metric_has_what_answers_that_know_nothing_score_next_to_it() -> None:
    scored = EvaluationEvidence(
        True, has_metric_function=True, metric_function_called=True, rows=16, metrics={"f1": 0.5, "exact": 0.25},
        of_constant={"f1": 0.8125}, of_random={"f1": 0.375},
    )  # fmt: skip
    text = shown(replace(measured(), evaluation=scored))
    assert "<td><code>f1</code></td><td>0.5</td><td>0.8125</td><td>0.375</td>" in text
    assert "<td><code>exact</code></td><td>0.25</td><td></td><td></td>" in text


def test_a_column_with_a_number_for_a_name_is_no_count() -> None:
    column = ColumnEvidence("1", "class label", "int64", 0, 1, ((0, 30), (1, 60)), rows_read=90)
    one = replace(rows(), classes=(PredictedClass(0, "no", 5, 1),))
    text = shown(
        replace(measured(), splits=(SplitEvidence("train_dataset", 90, (column,), label_column="1"),), tables=(one,))
    )
    assert "<figcaption><code>1</code> of train_dataset: 90 rows</figcaption>" in text
    assert "5 (1 label)" in text


def test_lengths_beyond_the_positions_of_the_model_are_set_off() -> None:
    assert shown(measured()).count('class="bar marked"') == 3  # the last bin, and two of the gradients


def test_pictures_say_in_words_what_they_show() -> None:
    drawn = re.findall(r"<svg[^>]*>", shown(measured()))
    assert len(drawn) == 8
    assert all(re.search('role="(?:img|group)"', one) and 'aria-label="' in one for one in drawn)


def test_a_probe_that_judged_nothing_has_a_page_with_the_last_words_of_the_script() -> None:
    text = shown(ending=Ending(EndingKind.NO_TRAINING, output="fetching rows\n" + HOSTILE), code=3)
    Elements(text)
    assert "fetching rows" in text
    assert "conclusion not-reached" in text
    assert "<svg" not in text


def test_code_of_a_notebook_stands_under_its_cell() -> None:
    parts = ("model = load()", "train(model, rate=1)")
    cells = [{"cell_type": "code", "outputs": list[str](), "source": source} for source in parts]
    raw = json.dumps({"cells": cells, "nbformat": 4, "nbformat_minor": 5}).encode()
    source = read_bytes("nb.ipynb", raw)
    line = next(number for number, text in enumerate(source.lines, start=1) if text.startswith("train"))
    finding = Finding("some-rule", Level.ERROR, Location("nb.ipynb", line, 14, line, 20), "`rate` is large")
    found = Record(SCHEMA, "0.1", "nb.ipynb", "", "python3", Ending(EndingKind.MEASURED), (measured(),))
    text = page(found, [Reported(finding)], Conclusion(1, "why"), {"nb.ipynb": source}.get)
    assert "nb.ipynb:cell 2:1:14" in text
    assert '<mark class="finding-mark">rate=1</mark>' in text
    assert "✗ error" in text


def test_the_heading_names_the_script_and_the_folder_stands_above_it() -> None:
    found = Record(SCHEMA, "0.1", "/data/ada/train.py", "", "python3", Ending(EndingKind.MEASURED), (measured(),))
    text = page(found, [], Conclusion(0, "why"), lambda _: None)
    assert "<h1><code>train.py</code></h1>" in text
    assert "lintrain probe in /data/ada<" in text


def test_a_run_of_which_little_was_measured_has_a_page() -> None:
    bare = Evidence("train.py", "keras", "Model.fit", None, None, "cpu", {})
    text = shown(bare)
    Elements(text)
    assert text.count('class="part not-reached"') == 12


def test_a_page_is_made_of_stored_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    write_record(
        Record(SCHEMA, "0.1", "train.py", "", "python3", Ending(EndingKind.MEASURED), (measured(),)),
        tmp_path / "e.json",
    )
    done = command(tmp_path, "judge", "e.json", "--html", "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert done.code == 1  # a gradient is not finite
    assert Elements(text).open == []
    assert "Gradient flow" in text


def test_a_folder_that_does_not_exist_is_refused_before_the_script_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path_for_lintrain(monkeypatch)
    (tmp_path / "train.py").write_text("open('ran', 'w')\n")
    done = command(tmp_path, "probe", "train.py", "--html", "none/report.html")
    assert (done.code, done.out) == (2, "")
    assert done.err == "lintrain: none/report.html: the folder does not exist\n"
