"""The recipes for clusters do what their page says: with stand-ins for the schedulers, which run the jobs here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
pytestmark = [pytest.mark.slow, pytest.mark.libraries]

SBATCH = """#!/bin/sh
# Runs the job at once, unless the one that it depends on has failed; prints its number.
for word in "$@"; do
  case "$word" in
    --dependency=afterok:*) [ "$(cat "$JOBS/${word##*:}")" = 0 ] || { echo "cancelled" >&2; exit 0; } ;;
    *.sbatch) job=$word ;;
  esac
done
bash -e "$job" >&2
echo $? > "$JOBS/7"
echo 7
"""
SRUN = '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n'
TORCHRUN = '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; shift; done\nexec python "$@" # "$1"\n'
RAY = '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n'
KUBECTL = """#!/bin/sh
case "$1 $3" in
  "apply probe.yaml") python run_manifest.py; echo $? > "$JOBS/probe" ;;
  "wait --timeout=15m") [ "$(cat "$JOBS/probe")" = 0 ] ;;
  "apply train.yaml") python train.py --for-real ;;
esac
"""
SCRIPT = """\
import sys
from pathlib import Path

import torch

if "--for-real" in sys.argv or "TRAINS" in __import__("os").environ:
    Path("trained").touch()
    sys.exit()
net = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(10):
    loss = torch.nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(0, 3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
WRONG = SCRIPT.replace("    optimizer.zero_grad()\n", "")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture
def cluster(tmp_path: Path, warm_python: str, warm_commands: str) -> Path:
    programs = tmp_path / "programs"
    programs.mkdir()
    python = f'exec "{sys.executable}"'
    texts = {
        "sbatch": SBATCH,
        "srun": SRUN,
        "torchrun": TORCHRUN,
        "ray": RAY,
        "kubectl": KUBECTL,
        "python": f'#!/bin/sh\n{python} "$@"\n',
        "lintrain": f'#!/bin/sh\ncommand=$1; shift\n[ "$command" = probe ] && set -- --python "{warm_python}" "$@"\n'
        f'exec "{warm_commands}" -m lintrain "$command" "$@"\n',
    }
    for name, text in texts.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (tmp_path / "jobs").mkdir()
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def carried_out(cluster: Path, commands: str, **variables: str) -> int:
    programs, jobs = cluster.parent / "programs", cluster.parent / "jobs"
    more = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "JOBS": str(jobs), "RANK": "3"}
    environment = {**os.environ, **more, **variables}
    return subprocess.run(["bash", "-e", "-c", commands], cwd=cluster, env=environment, check=False).returncode


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize(("script", "is_trained"), [(SCRIPT, True), (WRONG, False)])
def test_a_job_of_slurm_starts_if_its_probe_succeeds(cluster: Path, script: str, is_trained: bool) -> None:
    (cluster / "train.py").write_text(script)
    (cluster / "probe.sbatch").write_text(blocks("bash")[0])
    (cluster / "train.sbatch").write_text("python train.py --for-real\n")
    (submit,) = [block for block in blocks("sh") if "sbatch" in block]
    assert carried_out(cluster, submit) == 0
    assert (cluster / "trained").exists() is is_trained
    assert (cluster / "probe.json").exists()
    assert carried_out(cluster, "lintrain judge probe.json") == (0 if is_trained else 1)


@pytest.mark.parametrize(("script", "is_trained"), [(WRONG, False)])
def test_a_job_of_slurm_probes_itself_first(cluster: Path, script: str, is_trained: bool) -> None:
    (cluster / "train.py").write_text(script)
    job = blocks("bash")[1].replace("srun torchrun", "TRAINS=1 srun torchrun")
    assert carried_out(cluster, job) == (0 if is_trained else 1)
    assert (cluster / "trained").exists() is is_trained


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize(("script", "is_trained"), [(SCRIPT, True), (WRONG, False)])
def test_a_job_of_kubernetes_starts_if_its_probe_is_complete(cluster: Path, script: str, is_trained: bool) -> None:
    (manifest,) = blocks("yaml")
    (container,) = yaml.safe_load(manifest)["spec"]["template"]["spec"]["containers"]
    (cluster / "train.py").write_text(script)
    program = f"import subprocess, sys\nsys.exit(subprocess.run({container['command']!r}).returncode)\n"
    (cluster / "run_manifest.py").write_text(program)
    (apply,) = [block for block in blocks("sh") if "kubectl" in block]
    assert carried_out(cluster, apply) == (0 if is_trained else 1)
    assert (cluster / "trained").exists() is is_trained


@pytest.mark.skipif(not shutil.which("kubectl"), reason="kubectl is not installed")
def test_the_manifest_has_only_fields_that_kubernetes_knows(tmp_path: Path) -> None:
    (manifest,) = blocks("yaml")
    (tmp_path / "probe.yaml").write_text(manifest)
    command = ["kubectl", "label", "--local", "-f", "probe.yaml", "tried=yes", "-o", "yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    known, ours = yaml.safe_load(done.stdout), yaml.safe_load(manifest)
    assert known["spec"]["backoffLimit"] == 0
    assert known["spec"]["template"]["spec"] == ours["spec"]["template"]["spec"]


@pytest.mark.parametrize(("script", "is_trained"), [(WRONG, False)])
def test_the_jobs_of_ray_follow_one_another(cluster: Path, script: str, is_trained: bool) -> None:
    (cluster / "train.py").write_text(script)
    (submit,) = [block for block in blocks("sh") if "ray job" in block]
    joined = " && ".join(submit.replace("python train.py", "python train.py --for-real").splitlines())
    assert carried_out(cluster, joined) == (0 if is_trained else 1)
    assert (cluster / "trained").exists() is is_trained


def test_a_function_for_ray_is_probed_without_it(cluster: Path) -> None:
    (script,) = blocks("python")
    (cluster / "train.py").write_text(script)
    (probe,) = [block for block in blocks("sh") if "--alone" in block]
    assert carried_out(cluster, probe) == 0
    (cluster / "train.py").write_text(script.replace("        optimizer.zero_grad()\n", ""))
    assert carried_out(cluster, probe) == 1
