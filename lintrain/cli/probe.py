"""`lintrain probe`: run a script up to its training call and look at one real batch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from lintrain.runtime.parent.extras import EXTRAS
from lintrain.settings.formats import FORMATS

MEASUREMENTS = "\b\nMeasurements for --also:\n" + "\n".join(f"  {name:<12} {what}" for name, what in EXTRAS.items())
EXIT_CODES = """\b
Exit codes:
  0    nothing is confirmed
  1    mistakes are confirmed, or a stage of training fails
  2    the command cannot be carried out
  3    could not judge: no training call was reached, or a limit was reached
  130  interrupted; the script and all that it started are ended"""

ABOVE_ZERO = click.FloatRange(min=0, min_open=True)


@click.command(epilog=f"{MEASUREMENTS}\n\n{EXIT_CODES}")
@click.argument("script", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "module", metavar="MODULE", help="Run a module, as `python -m` does.")
@click.option("--python", metavar="PATH", help="The Python that runs the script (default: this one, else .venv).")
@click.option("--overfit", type=click.IntRange(min=1), metavar="N", help="Also: N steps on one batch of every label.")
@click.option("--also", multiple=True, metavar="NAMES", help="Also measure what takes longer; names below, or all.")
@click.option("--device-memory", metavar="SIZE", help="Also project a step for such a device: 24GiB, 80GB.")
@click.option("--full-data", is_flag=True, help="Let `Dataset.map` work on all rows of a large dataset.")
@click.option("--offline", is_flag=True, help="Let the script reach no other machine, not even to download.")
@click.option("--timeout", type=ABOVE_ZERO, default=300.0, metavar="SECONDS", help="End it after that (300).")
@click.option("--memory", type=ABOVE_ZERO, metavar="GIB", help="End it when it holds more.")
@click.option("--json", "as_json", is_flag=True, help="The whole result as JSON.")
@click.option("--output-format", type=click.Choice(FORMATS), help="The report in another form (default: full).")
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report there.")
@click.option("--evidence", type=click.Path(path_type=Path, dir_okay=False), help="Write what was measured there.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the report there as one page.")
@click.option("--export-repro", type=click.Path(path_type=Path), metavar="DIR", help="Write the failing stage there.")
@click.option("--write-tests", type=click.Path(path_type=Path, dir_okay=False), help="Write pytest tests of it there.")
@click.option("--select", multiple=True, metavar="NAMES", help="Only these rules or stages.")
@click.option("--ignore", multiple=True, metavar="NAMES", help="Not these rules or stages.")
@click.option("--config", type=click.Path(path_type=Path), help="Read this configuration file.")
@click.option("--no-cache", is_flag=True, help="Do not keep the verdicts for `lintrain check`.")
@click.option("-q", "--quiet", is_flag=True, help="No checklist.")
@click.option("-v", "--verbose", is_flag=True, help="Show what the script prints.")
@click.option("--until-stdin-ends", is_flag=True, hidden=True)  # for the server, which may be killed
def command(**given: Any) -> int:  # Any: click hands over what the options above declare, ProbeOptions types it
    """Run SCRIPT, a file or a notebook, up to its training call and judge its findings on real batches.

    Its own arguments come last: `lintrain probe train.py -- --lr 1e-4`. So does a whole command of `torchrun` or
    `accelerate launch`: `lintrain probe -- torchrun --nproc-per-node 4 train.py`. The script runs in a process of its
    own, on the CPU first, and ends there. Nothing is trained, saved or uploaded.
    """
    from lintrain.cli._probe import ProbeOptions, probe

    return probe(ProbeOptions(**given))


if __name__ == "__main__":
    sys.exit(command(standalone_mode=False))
