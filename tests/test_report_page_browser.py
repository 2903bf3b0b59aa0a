"""The page of a probe in a real browser: folded, copied from, followed, dark, narrow."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from lintrain.cli import run
from tools.browser import QUIET

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCRIPT = """from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
from datasets import load_dataset

rows = load_dataset("glue", "mnli")
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
args = TrainingArguments("out", evaluation_strategy="epoch", optim="adamw_hf")
trainer = Trainer(model, args, train_dataset=rows["train"])
trainer.train()
"""
OTHER = "import torch\n\nfor x, y in loader:\n    loss = model(x).sum()\n    loss.backward()\n    optimizer.step()\n"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page about two files."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "train.py").write_text(SCRIPT)
    (folder / "loop.py").write_text(OTHER)
    report = folder / "report.html"
    files = [str(folder / "train.py"), str(folder / "loop.py")]
    run(["check", "--no-cache", "--isolated", "--output-format", "html", "--output-file", str(report), *files])
    return report.as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed (`apt-get install chromium`)")
    with import_module("playwright.sync_api").sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], color_scheme="light")
    opened, said = context.new_page(), list[str]()
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(address)
    yield opened
    assert said == []
    context.close()


def test_findings_are_folded_and_unfolded(page: Any) -> None:
    count = page.locator("details.finding").count()
    assert count > 3
    page.click("#fold")
    assert page.locator("details.finding[open]").count() == 0
    page.click("#fold")
    assert page.locator("details.finding[open]").count() == count


def test_the_new_lines_of_a_fix_are_copied(page: Any) -> None:
    change = page.locator(".change", has_text="eval_strategy").first
    change.locator("button.copy").click()
    page.wait_for_function("document.querySelector('button.copy') !== null")
    assert page.evaluate("navigator.clipboard.readText()").startswith('args = TrainingArguments("out", eval_strategy=')
    assert change.locator("button.copy").text_content() == "copied"


def test_a_link_opens_the_line_of_a_file_and_its_number_leads_back(page: Any) -> None:
    first = page.locator("details.finding").first
    first.locator(".where a").click()
    line = page.locator(".line:target")
    assert line.is_visible()
    line.locator("a").click()
    assert page.locator(".finding:target").get_attribute("id") == first.get_attribute("id")


def test_files_are_listed_with_their_findings(page: Any) -> None:
    page.click("nav.files a >> nth=1")
    assert page.locator("h2:target").is_visible()


def test_the_theme_is_chosen_and_kept(page: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.select_option("#theme", "dark")
    dark = page.evaluate(ground)
    assert dark != light
    page.reload()
    assert page.evaluate(ground) == dark


def test_a_narrow_page_does_not_scroll_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("width", [390, 1280])
def test_no_button_covers_code_and_no_option_is_broken_at_its_dash(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    for change in page.locator(".change").all():
        button, code = change.locator("button").bounding_box(), change.locator("pre").bounding_box()
        is_above, is_beside = button["y"] + button["height"] <= code["y"], code["x"] + code["width"] <= button["x"]
        assert is_above or is_beside
    options = page.locator(".finding dd code").get_by_text("--fix", exact=False)
    assert options.count() > 1
    assert max(option.bounding_box()["height"] for option in options.all()) < 30
