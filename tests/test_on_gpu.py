"""Mistakes that only a GPU shows: a probe there confirms them, and leaves the sound twins alone.

The pages of `tests/on_gpu` have the form of those in `tests/diagnoses`. A machine without a GPU reads
their texts.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.diagnoses.reading import Diagnosis, read_diagnosis
from tests.support.probing import path_for_lintrain
from tests.test_diagnoses import FINDING_MISTAKES, found_in, lacking, report_on

PAGES = [read_diagnosis(path) for path in sorted((Path(__file__).parent / "on_gpu").glob("*.md"))]
HAS_NO_GPU = "not __import__('torch').cuda.is_available()"

pytestmark = [pytest.mark.slow, pytest.mark.libraries, pytest.mark.usefixtures("warm", "assets")]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    monkeypatch.setenv("COLUMNS", "400")


@pytest.mark.skipif(HAS_NO_GPU, reason="this machine has no GPU")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_gpu_shows_the_mistake_and_leaves_the_sound_twin(page: Diagnosis, tmp_path: Path) -> None:
    planted = report_on(page, page.planted, tmp_path / "planted")
    sound = report_on(page, page.sound, tmp_path / "sound")
    assert lacking(planted, page.planted) == [], planted.out + planted.err
    if page.planted.rule:
        assert page.planted.rule in found_in(planted, page), planted.out
    if page.planted.rule or page.planted.texts:
        assert planted.code == FINDING_MISTAKES, planted.out
    assert (found_in(sound, page), sound.code) == ([], 0), sound.out


def test_every_page_has_a_twin_that_parses() -> None:
    for page in PAGES:
        for part in (page.planted, page.sound):
            compile(part.script, page.name, "exec")
    assert len({page.number for page in PAGES}) == len(PAGES) >= 20
