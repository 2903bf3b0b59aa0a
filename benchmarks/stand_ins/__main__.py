"""Public scripts that need the hub or a GPU, with `--stand-ins`: `python -m benchmarks.stand_ins CLONES`.

CLONES holds the clones of public repositories, `owner/name`, at the commits of `scripts.csv`; PYTHON is one with the
libraries that the scripts import. A script counts when a step of training and, where it has one, an evaluation ran. Of
the half `measure` only sums are printed, and why a script does not count. The exit code is 1 below 75 %.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TABLES = ("scripts.csv", *(f"scripts-{number}.csv" for number in range(2, 11)))
ROOT = Path(__file__).parents[2]
LEAST = 0.75
SECONDS = 240
ON_PATH = (
    "karpathy",
    "lm-sys",
    "huggingface/open-r1",
    "huggingface/alignment-handbook",
    "hppRC",
    "Tekraj15",
    "Glinte",
    "rasbt",
    "lightly-ai",
    "adapter-hub",
    "SPAICOM",
    "Samwise-B",
    "22f3002188",
    "atikul-islam-sajib",
    "SeanLee97",
    "mosaicml",
    "keras-team/autokeras",
    "ibm-granite",
    "haotian-liu",
    "kohya-ss",
    "skorch-dev",
)
"""Owners and repositories whose documentation installs the repository: its root, or `src`, is on the path."""
FROM_THEIR_FOLDER = (
    "pytorch/examples",
    "eriklindernoren/PyTorch-GAN",
    "bernardoleite/question-generation-t5-pytorch-lightning",
    "yunjey/pytorch-tutorial",
    "WZMIAOMIAO/deep-learning-for-image-processing",
    "davda54/sam",
    "NielsRogge/Transformers-Tutorials",
    "rasbt/deeplearning-models",
    "huggingface/smol-course",
    "ClaudiuCreanga/semeval-2024-task-8",
    "visheshgupta29/llm-lora-finetuning",
    "JasonW41k3r/Chinese-NER-BERT-Variants",
    "gardan4/AgenticRAG",
    "sarelWeinberger/qwen-hebrew-finetuning",
    "woosterheert/rsvqa",
    "TerenceLeung0v0/stock-news-sentiment-bert-finbert",
    "budwing/generative-ai",
    "Bihan/tpu-examples",
    "ProfessorDong/Deep-Learning-Course-Examples",
    "Glinte/cifar10-experiments-2",
    "tianjingsteve123/huggingface-course",
    "Alzter/silverpond-llm-finetuning",
    "Gabriel-Hong/qlora-function-calling",
    "huggingface/setfit",
    "rasbt/LLMs-from-scratch",
    "zach-karlovich/modernbert-ner-ablation",
    "Candy-CY/Hyperspectral-Image-Classification-Models",
    "jjzhu0579/fine-tuning-and-fewshot",
    "wandb/examples",
    "oza75/bambara-tts-training",
    "JerMa88/faster-sft",
    "talg2324/deep-learning-course",
    "mosaicml/composer",
    "ibm-granite/granite-tsfm",
    "skorch-dev/skorch",
    "phlippe/uvadlc_notebooks",
    "SeanLee97/AnglE",
    "jindongwang/transferlearning",
    "bitsofchris/deep-learning",
    "Shijia1997/adni-d-contrastive",
    "Jean-Christ1/Deep-Learning-with-Keras-and-Tensorflow",
)
"""Repositories whose documentation starts each script in its own folder, or with notebooks in folders."""
STARTS_IN = {"pseshadri9/whisper-finetune": "ML-Quickstart", "philschmid/deep-learning-pytorch-huggingface": "training"}
"""Repositories whose documentation starts scripts in another folder."""
LAUNCHED = "SCRIPT"
"""In the arguments: between the command of a launcher and what the script is given."""
EVALUATES = re.compile(r"\.eval\(|no_grad|evaluat|inference_mode|(test|val|valid|dev)_?(loader|dl|set|data)")
"""What a script with a loop of its own has somewhere if it evaluates."""
LACKS = re.compile(r"^script: (ModuleNotFoundError|ImportError|AttributeError: module )")
"""How the reason begins where a package is not installed, or has another version than the script was written for."""
NO_EVALUATION = ("no evaluation", "has no", "evaluates nothing", "no eval", "eval_dataset", "is not passed")


@dataclass(frozen=True, slots=True)
class Script:
    """One row of the table."""

    repository: str
    commit: str
    path: str
    arguments: str
    half: str

    @property
    def name(self) -> str:
        """The script in one word."""
        return f"{self.repository}/{self.path}"


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe of a script reached, what stopped it, and the seconds of CPU time that it took."""

    script: Script
    stages: dict[str, str]
    reasons: dict[str, str]
    reason: str
    stand_ins: tuple[str, ...]
    seconds: float
    evaluates: bool = True

    @property
    def has_stepped(self) -> bool:
        """Whether a step of training ran."""
        return self.stages.get("step") == "passed"

    @property
    def is_whole(self) -> bool:
        """Whether a step ran, and an evaluation where the script has one."""
        return self.has_stepped and (self.stages.get("evaluation") == "passed" or self.has_no_evaluation)

    @property
    def lacks_package(self) -> bool:
        """Whether the script ends because a package, or a version of one, is not here."""
        return not self.has_stepped and LACKS.match(self.reason) is not None

    @property
    def has_no_evaluation(self) -> bool:
        """Whether the probe says that the script evaluates nothing, or its loop ended and its text has none."""
        reason = self.reasons.get("evaluation", "")
        return any(text in reason for text in NO_EVALUATION) or ("no other loader" in reason and not self.evaluates)


def main(arguments: Sequence[str] | None = None) -> int:
    """Probe what is asked for and print the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--python", required=True, help="the Python that runs the scripts")
    parser.add_argument("--half", choices=("work", "measure"), help="only these")
    parser.add_argument("--table", choices=TABLES, default=TABLES[0])
    parser.add_argument("--only", default="", help="only scripts whose name contains this text")
    parser.add_argument("--without", action="store_true", help="probe without stand-ins, to see what needs them")
    parser.add_argument("--details", action="store_true", help="list every script of the half work")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="the time limit of a script")
    given = parser.parse_args(arguments)
    scripts = [
        each for each in read_scripts(given.table) if given.half in (None, each.half) and given.only in each.name
    ]
    probe = partial(
        probe_one,
        clones=given.clones,
        python=given.python,
        with_stand_ins=not given.without,
        seconds=given.seconds,
    )
    probed: list[Probed] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(probe, script) for script in scripts]):
            probed.append(each := done.result())
            _print_one(each, is_detailed=given.details and each.script.half == "work")
    for half in ("work", "measure", ""):
        _print_sum(half, [each for each in probed if each.script.half.startswith(half)])
    whole = sum(each.is_whole for each in probed)
    return 0 if whole >= LEAST * len(probed) else 1


def read_scripts(table: str) -> list[Script]:
    """The rows of a table."""
    with (Path(__file__).parent / table).open(encoding="utf-8", newline="") as opened:
        return [Script(**row) for row in csv.DictReader(opened)]


def probe_one(script: Script, *, clones: Path, python: str, with_stand_ins: bool, seconds: int) -> Probed:
    """Probe a script from the root of its repository."""
    root = clones / script.repository
    starts_in = root / _folder_of(script)
    with TemporaryDirectory() as folder:
        evidence, errors = Path(folder) / "probe.json", Path(folder) / "errors.txt"
        command = list(_command(script, python, evidence, seconds, with_stand_ins=with_stand_ins))
        with errors.open("wb") as opened:
            environment = _environment(script, root)
            started = subprocess.Popen(
                command, cwd=starts_in, env=environment, stdout=subprocess.DEVNULL, stderr=opened
            )
            _, _, used = os.wait4(started.pid, 0)
        text = evidence.read_text(encoding="utf-8") if evidence.exists() else ""
        probed = _probed(script, text, errors.read_text(encoding="utf-8"), used.ru_utime + used.ru_stime)
        return replace(probed, evaluates=EVALUATES.search((root / script.path).read_text(encoding="utf-8")) is not None)


def _command(script: Script, python: str, evidence: Path, seconds: int, *, with_stand_ins: bool) -> Iterator[str]:
    yield from (sys.executable, "-m", "lintrain", "probe", "--python", python, "--quiet", "--no-cache")
    yield from ("--timeout", str(seconds), "--output-format", "json", "--output-file", str(evidence))
    yield "--stand-ins" if with_stand_ins else "--offline"
    launcher, mark, rest = script.arguments.partition(LAUNCHED)
    path = Path(script.path).relative_to(_folder_of(script)).as_posix()
    yield from ("--", *shlex.split(launcher if mark else ""), path, *shlex.split(rest if mark else launcher))


def _folder_of(script: Script) -> str:
    """The folder of the repository that the script is started in."""
    own = Path(script.path).parent.as_posix() if script.repository in FROM_THEIR_FOLDER else "."
    return STARTS_IN.get(script.repository, own)


def _environment(script: Script, root: Path) -> dict[str, str]:
    on_path = [str(ROOT)]
    if script.repository in ON_PATH or script.repository.partition("/")[0] in ON_PATH:
        on_path += [str(root.resolve()), str(root.resolve() / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(on_path)}


def _probed(script: Script, text: str, errors: str, seconds: float) -> Probed:
    if not text:
        return Probed(script, {}, {}, errors.strip()[-300:], (), seconds)
    document: dict[str, Any] = json.loads(text)
    runs = document["probe"]["runs"] or [{}]
    best = max(runs, key=lambda run: sum(stage["status"] == "passed" for stage in run.get("stages", ())))
    stages = {stage["name"]: stage["status"] for stage in best.get("stages", ())}
    reasons = {stage["name"]: stage.get("reason", "") for stage in best.get("stages", ())}
    replaced = tuple(f"{each['name']} → {each['by']}" for each in best.get("stand_ins", ()))
    failed = next((stage for stage in best.get("stages", ()) if stage.get("failure")), None)
    reason = document["reason"]
    if failed is not None:
        failure = failed["failure"]
        first = next(iter(failure.get("message", "").splitlines()), "")
        reason = f"{failed['name']}: {failure['type']}: {first[:160]}; {reason}"
    return Probed(script, stages, reasons, reason, replaced, seconds)


def _print_one(probed: Probed, *, is_detailed: bool) -> None:
    result = "whole" if probed.is_whole else "step" if probed.has_stepped else "not reached"
    missed = "" if probed.is_whole else f": {probed.reason} {probed.reasons.get('evaluation', '')}"
    counts = f"{probed.seconds:5.0f} s  {len(probed.stand_ins):2} replaced"
    print(f"{result:12} {counts}  {probed.script.name}{missed}", flush=True)
    if is_detailed:
        for each in probed.stand_ins:
            print(f"      {each}", flush=True)


def _print_sum(half: str, probed: Sequence[Probed]) -> None:
    if probed:
        steps, whole = sum(each.has_stepped for each in probed), sum(each.is_whole for each in probed)
        seconds = sorted(each.seconds for each in probed)[len(probed) // 2]
        reached = f"a step in {steps}, and the evaluation that they have in {whole} ({whole / len(probed):.0%})"
        lacking = sum(each.lacks_package for each in probed)
        able = f"{lacking} lack a package or its version, {whole / max(1, len(probed) - lacking):.0%} of the others"
        print(f"{half or 'both':8} {len(probed)} scripts: {reached}; {able}; {seconds:.0f} s of CPU time in the median")


if __name__ == "__main__":
    sys.exit(main())
