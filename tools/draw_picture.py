"""Draws the pictures of the README from what lintrain really prints: `python -m tools.draw_picture`.

They show check and probe of one stage of the course script, in `docs/check.svg` and `docs/probe.svg`.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from tools.build_fixtures import offline_environment

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = 100
SCRIPT = ROOT / "fixtures" / "course" / "stage_4_missing_num_labels.py"

THEME = TerminalTheme(
    (22, 27, 34),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)

FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-family: system-ui, sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g></g></svg>
"""
"""rich's own frame without its web font: a picture in a README loads nothing."""


def main() -> None:
    """Run both commands and draw what they print."""
    subprocess.run([sys.executable, "-m", "tools.build_fixtures"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory() as folder:
        marks = re.compile(r"  # <- .*")
        (Path(folder) / "train.py").write_text(marks.sub("", SCRIPT.read_text()))
        for command in ("check", "probe"):
            printed = output_of(command, Path(folder))
            (ROOT / "docs" / f"{command}.svg").write_text(picture_of(f"lintrain {command} train.py", printed))


def output_of(command: str, folder: Path) -> str:
    """What the command prints of `train.py` in a terminal with colours."""
    terminal = {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT)}
    form = ["--output-format", "full"] if command == "check" else []
    arguments = [sys.executable, "-m", "lintrain", command, *form, "train.py"]
    variables = {**os.environ, **offline_environment(), **terminal}
    done = subprocess.run(arguments, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        raise SystemExit(f"`lintrain {command}` ended with {done.returncode}: {done.stderr}")
    return re.sub(r"/\S*/site-packages/", "", done.stdout.rstrip())


def picture_of(title: str, printed: str) -> str:
    """A terminal window with this text, as SVG."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(printed), soft_wrap=False)
    drawn = console.export_svg(title=title, theme=THEME, code_format=FRAME, unique_id="terminal")
    return re.sub(r"[ \t]+$", "", drawn, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
