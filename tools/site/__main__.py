"""Build the documentation site: `python -m tools.site [FOLDER]` writes FOLDER/site (default: build/site)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.site.agents import write_for_agents
from tools.site.loads import loads_from_elsewhere
from tools.site.playground import build_playground
from tools.site.stage import ROOT, SiteError, stage

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def main(arguments: Sequence[str]) -> int:
    """Build it; 1 if a page or an anchor is missing, a page is in no menu, or one loads something from elsewhere."""
    folder = Path(arguments[0]) if arguments else ROOT / "build"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        first = build(folder)
        build_playground(folder, first.parent)
        print(f"{first} is built")
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def build(folder: Path) -> Path:
    """The first page of the site, built in a folder; raises SiteError."""
    configuration = stage(folder)
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean", "-f", str(configuration)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SiteError(_problem(done.stdout + done.stderr))
    if found := loads_from_elsewhere(folder / "site"):
        raise SiteError("\n".join(found))
    write_for_agents(folder / "pages", folder / "site", configuration)
    return folder / "site" / "index.html"


def _problem(output: str) -> str:
    """The messages of the builder, without colours and the final traceback."""
    plain = COLOUR.sub("", output)
    return plain.partition("Traceback (most recent call last)")[0].strip() or plain


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
