"""Ways to start a run that is probed: modules, and the commands that usually launch several processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lintrain.runtime.parent.launchers import LaunchError, one_process, read_launch
from tests.support.probing import command, path_for_lintrain, probe, warm_option

STEPS = """
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
for _ in range(6):
    for x, y in torch.utils.data.DataLoader(rows, batch_size=8):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
OVER_PROCESSES = """
import os, sys, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank = int(os.environ["LOCAL_RANK"])
dist.init_process_group(backend="nccl")
assert (rank, dist.get_rank(), dist.get_world_size()) == (0, 0, 1)
""" + STEPS.replace("model(x)", "wrapped(x)").replace(
    "optimizer =", "wrapped = DistributedDataParallel(model)\noptimizer ="
)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)


@pytest.mark.parametrize(
    ("words", "script", "module", "arguments"),
    [
        ("torchrun --nproc-per-node 4 train.py --lr 1", "train.py", None, ("--lr", "1")),
        ("torchrun --standalone --nnodes=1:4 --nproc_per_node=gpu -m a.train x", None, "a.train", ("x",)),
        ("/usr/bin/torchrun --no_python --rdzv-backend c10d -- train.py", "train.py", None, ()),
        ("accelerate launch --multi_gpu --num_processes 2 train.py --fp16", "train.py", None, ("--fp16",)),
        ("accelerate launch --config_file a.yaml -m a.train", None, "a.train", ()),
        ("python -u -X dev train.py 1", "train.py", None, ("1",)),
        ("python3.11 -m a.train --lr 1", None, "a.train", ("--lr", "1")),
        ("python -m torch.distributed.run --nproc_per_node 2 train.py", "train.py", None, ()),
        ("python -m accelerate.commands.launch --cpu train.py", "train.py", None, ()),
        ("python -m torch.distributed.launch --nproc_per_node 2 train.py", "train.py", None, ("--local-rank=0",)),
        ("python -m torch.distributed.launch --use_env --nproc_per_node 2 train.py", "train.py", None, ()),
        (
            "deepspeed --include localhost:0,1 -H hosts train.py --lr 1",
            "train.py",
            None,
            ("--local_rank=0", "--lr", "1"),
        ),
        ("deepspeed --no_local_rank --module a.train --deepspeed ds.json", None, "a.train", ("--deepspeed", "ds.json")),
        (
            "trl dpo --num_processes 2 --config x.yaml --use_fsdp --gpu_ids=0 --lr 1",
            None,
            "trl.scripts.dpo",
            ("--config", "x.yaml", "--lr", "1"),
        ),
        ("trl sft --config x.yaml --lr 1", None, "trl.scripts.sft", ("--config", "x.yaml", "--lr", "1")),
        ("llamafactory-cli train x.yaml lr=1", None, "llamafactory.cli", ("train", "x.yaml", "lr=1")),
        ("axolotl train x.yaml --lr 1", None, "axolotl.cli.train", ("x.yaml", "--lr", "1")),
        ("uv run --with peft -p 3.12 train.py --lr 1", "train.py", None, ("--lr", "1")),
        ("uv run -m a.train --lr 1", None, "a.train", ("--lr", "1")),
        ("poetry run accelerate launch --num_processes 2 train.py x", "train.py", None, ("x",)),
        ("pdm run -p . python -u train.py", "train.py", None, ()),
        ("pipenv run python -m a.train", None, "a.train", ()),
        ("conda run -n torch --no-capture-output python train.py", "train.py", None, ()),
        ("srun -N 2 --ntasks-per-node=8 -c4 --unbuffered python train.py --lr 1", "train.py", None, ("--lr", "1")),
        ("srun --label torchrun --nproc-per-node 8 train.py", "train.py", None, ()),
        ("mpirun -np 4 --allow-run-as-root --mca btl tcp -x PATH python train.py", "train.py", None, ()),
        ("env -u HOME A=b CUDA_VISIBLE_DEVICES=0 python train.py", "train.py", None, ()),
        ("CUDA_VISIBLE_DEVICES=0,1 torchrun --nproc-per-node 2 train.py", "train.py", None, ()),
        (
            "nohup time -f %e nice -n 5 timeout -k 3 60 python train.py model=x +seed=1",
            "train.py",
            None,
            ("model=x", "+seed=1"),
        ),
    ],
)
def test_a_launch_is_read_to_what_it_starts(
    words: str, script: str | None, module: str | None, arguments: tuple[str, ...]
) -> None:
    launched = read_launch(words.split())
    assert launched is not None
    assert (launched.script, launched.module, launched.arguments) == (script, module, arguments)


def test_a_script_is_no_launcher() -> None:
    assert read_launch(["train.py", "torchrun"]) is None
    assert read_launch(["torch/train.py"]) is None


def test_variables_in_front_of_a_command_are_read_from_the_outside_in() -> None:
    launched = read_launch(["A=1", "B=x=y", "env", "A=2", "FORCE_TORCHRUN=1", "torchrun", "train.py"])
    assert launched is not None
    assert launched.variables == {"A": "2", "B": "x=y"}
    assert launched.environment["RANK"] == "0"


def test_a_process_of_another_launcher_is_asked_for_its_own_rank() -> None:
    slurm, mpi = read_launch(["srun", "python", "train.py"]), read_launch(["mpiexec", "-n", "2", "python", "train.py"])
    assert slurm is not None
    assert mpi is not None
    assert (slurm.environment["SLURM_PROCID"], slurm.environment["RANK"]) == ("0", "0")
    assert (mpi.environment["OMPI_COMM_WORLD_SIZE"], "SLURM_PROCID" in mpi.environment) == ("1", False)


def test_the_configuration_of_accelerate_gives_the_precision(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("distributed_type: MULTI_GPU\nmixed_precision: 'bf16'\n")
    launched = read_launch(["accelerate", "launch", "--config_file", str(tmp_path / "a.yaml"), "train.py"])
    assert launched is not None
    assert launched.environment == {"ACCELERATE_MIXED_PRECISION": "bf16"}


def test_a_tool_is_checked_by_its_configuration() -> None:
    for words in ("trl dpo --config a/x.yml", "axolotl train a/x.yml", "llamafactory-cli train a/x.yml"):
        launched = read_launch(words.split())
        assert launched is not None
        assert launched.configuration == "a/x.yml"


def test_the_environment_of_a_tool_is_used_where_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there = read_launch(["conda", "run", "-n", "x", "python", "train.py"])
    assert there is not None
    assert there.shortcuts == ("the environment of `conda run` is not asked for; `--python` names its Python",)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").touch()
    for words in ("uv run train.py", f"{tmp_path}/.venv/bin/python train.py"):
        launched = read_launch(words.split())
        assert launched is not None
        assert launched.python is not None
        assert Path(launched.python).name == "python"
        assert launched.shortcuts == ()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("frob run train.py", r"frob: neither a file nor a launcher .*torchrun, .*srun.*; name the script: `lintrain"),
        ("uv run frob", "frob: neither a file nor a launcher"),
        ("bash train.sh", "bash: lintrain reads no shell scripts; give the command in it"),
        ("uv run", "`uv run`: no command follows"),
        ("A=1", "`A=…`: no command follows"),
        ("trl vllm-serve", "`trl vllm-serve` trains nothing; its commands that do are"),
        ("axolotl fetch examples", "`axolotl fetch` trains nothing; `axolotl train x.yaml` does"),
    ],
)
def test_a_command_that_cannot_be_read_says_what_can(words: str, said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        read_launch(words.split())


def test_a_launch_of_nothing_is_refused() -> None:
    with pytest.raises(LaunchError, match="`torchrun` names no script to run"):
        read_launch(["torchrun", "--nproc-per-node", "4"])


def test_only_a_precision_of_the_cpu_is_taken_over() -> None:
    sixteen = read_launch(["accelerate", "launch", "--mixed_precision", "fp16", "train.py"])
    brain = read_launch(["accelerate", "launch", "--mixed-precision=bf16", "train.py"])
    assert sixteen is not None
    assert brain is not None
    assert (sixteen.environment, brain.environment) == ({}, {"ACCELERATE_MIXED_PRECISION": "bf16"})


def test_options_without_a_value_are_those_of_the_installed_launchers() -> None:
    from accelerate.commands.launch import launch_command_parser  # type: ignore[import-untyped]
    from torch.distributed.run import get_args_parser

    from lintrain.runtime.parent.launchers import ACCELERATE_FLAGS, TORCHRUN_FLAGS

    parsers: list[tuple[Any, frozenset[str]]] = [  # Any: what argparse keeps of its options is not public
        (get_args_parser(), TORCHRUN_FLAGS),
        (launch_command_parser(), ACCELERATE_FLAGS),
    ]
    for parser, known in parsers:
        flags = {option.replace("_", "-") for one in parser._actions if one.nargs == 0 for option in one.option_strings}
        assert flags == known


def test_one_process_is_told_what_torchrun_would_tell_it() -> None:
    from torch.distributed.elastic.agent.server import local_elastic_agent

    text = Path(local_elastic_agent.__file__).read_text()
    assert [name for name in one_process() if f'"{name}"' not in text] == []


@pytest.mark.usefixtures("warm")
def test_a_launch_by_torchrun_is_probed_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OVER_PROCESSES + "assert sys.argv[1:] == ['--lr', '1']\n")
    words = ("torchrun", "--nproc-per-node", "4", "train.py", "--lr", "1")
    probed = command(tmp_path, "probe", "--json", *warm_option(), "--", *words)
    assert (probed.code, probed.stages["step"], probed.stages["batch"]) == (0, "passed", "passed")
    assert probed.run["shortcuts"] == [
        "one process is probed, without `torchrun --nproc-per-node 4`",
        "processes communicate over gloo instead of nccl: the probe runs on the CPU",
    ]
    assert probed.document["probe"]["arguments"] == ["--lr", "1"]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
def test_a_script_that_asks_for_its_rank_is_answered_without_a_launcher(tmp_path: Path) -> None:
    probed = probe(tmp_path, OVER_PROCESSES)
    assert probed.code == 0
    assert "one process is probed, with the variables that `torchrun` sets for it" in probed.run["shortcuts"]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
def test_a_script_that_can_do_without_a_launcher_is_left_alone(tmp_path: Path) -> None:
    asks = "import os, torch\nassert int(os.environ.get('RANK', -1)) == -1\nassert 'LOCAL_RANK' not in os.environ\n"
    probed = probe(tmp_path, asks + "assert os.getenv('WORLD_SIZE') is None\n" + STEPS)
    assert (probed.code, probed.run["shortcuts"]) == (0, [])


@pytest.mark.turns(one_in=3, of="file")
def test_a_module_is_probed_under_its_name(tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("imported = 1\n")
    (package / "rates.py").write_text("rate = 0.1\n")
    (package / "train.py").write_text(f"import sys, torch\nfrom .rates import rate\n{STEPS}")
    probed = command(tmp_path, "probe", "--json", "-m", "pack.train", "--", "--lr", "1")
    assert (probed.code, probed.document["probe"]["script"]) == (0, "pack/train.py")
    assert probed.run["call"] == {"path": "pack/train.py", "line": 10, "column": 9, "end_line": 10, "end_column": 66}


@pytest.mark.turns(one_in=3, of="file")
def test_a_package_is_probed_by_its_main_module(tmp_path: Path) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "__main__.py").write_text("import torch\n" + STEPS)
    probed = command(tmp_path, "probe", "--json", "--", "python", "-m", "pack")
    assert (probed.code, probed.document["probe"]["script"]) == (0, "pack/__main__.py")


def test_a_module_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    probed = command(tmp_path, "probe", "-m", "absent.train")
    assert (probed.code, probed.err.splitlines()[0][:41]) == (2, "lintrain: no module `absent.train` in thi")


def test_a_probe_of_nothing_is_a_usage_error(tmp_path: Path) -> None:
    assert command(tmp_path, "probe").code == 2


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
@pytest.mark.slow
def test_a_launch_by_accelerate_takes_its_precision_over(tmp_path: Path) -> None:
    script = "import torch\nfrom accelerate import Accelerator\nassert Accelerator().mixed_precision == 'bf16'\n"
    (tmp_path / "train.py").write_text(script + STEPS)
    words = ("accelerate", "launch", "--num_processes", "4", "--mixed_precision", "bf16", "train.py")
    assert command(tmp_path, "probe", "--json", *warm_option(), "--", *words).code == 0


SPAWNS = """
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(rank, size):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ["PORT_OF_THE_TEST"])
    dist.init_process_group("nccl", rank=rank, world_size=size)
    model = DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = torch.utils.data.TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    for _ in range(2):
        for x, y in torch.utils.data.DataLoader(rows, batch_size=8):
            BROKEN
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()


if __name__ == "__main__":
    subprocess.run([sys.executable, "-c", "print('a helper, no rank')"], check=True)
    torch.multiprocessing.spawn(train, args=(2,), nprocs=2)
"""


@pytest.mark.turns(one_in=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "stage", "status"),
    [("pass", "step", "passed"), ("assert rank == 0, 'no rows for rank 1'", "forward", "failed")],
)
def test_of_processes_that_the_script_spawns_rank_0_is_measured_and_the_error_of_any_is_told(
    broken: str, stage: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT_OF_THE_TEST", one_process()["MASTER_PORT"])
    probed = probe(tmp_path, SPAWNS.replace("BROKEN", broken))
    assert probed.stages[stage] == status
    assert "only rank 0 of the processes that the script starts is measured" in probed.run["shortcuts"]
    if status == "failed":
        failure = next(each["failure"] for each in probed.run["stages"] if each["name"] == stage)
        assert failure["message"] == "no rows for rank 1"


def test_an_option_in_front_of_the_two_dashes_is_explained(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    after = command(tmp_path, "probe", "--offline", "train.py", "--lr", "1e-4")
    assert (after.code, "`lintrain probe --offline train.py -- --lr 1e-4`" in after.err) == (2, True)
    before = command(tmp_path, "probe", "torchrun", "--nproc-per-node", "2", "train.py")
    assert (before.code, "`lintrain probe -- torchrun --nproc-per-node 2 train.py`" in before.err) == (2, True)
    ours = command(tmp_path, "probe", "--overfitt", "3", "train.py")
    assert (ours.code, "Did you mean '--overfit'?" in ours.err) == (2, True)


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
def test_a_multirun_of_hydra_is_refused_and_its_overrides_are_not(tmp_path: Path) -> None:
    script = (
        "import sys, torch\ntry:\n    import hydra\nexcept ImportError: pass\nassert sys.argv[1:] == ['+lr=1', 'x=2']\n"
    )
    (tmp_path / "train.py").write_text(script + STEPS)
    for words in (("--", "lr=1,2", "-m"), ("-m", "lr=1,2")):
        refused = command(tmp_path, "probe", "train.py", *words)
        assert (refused.code, "probe one of them: `lintrain probe train.py -- lr=1`" in refused.err) == (2, True)
    assert command(tmp_path, "probe", "--json", *warm_option(), "train.py", "--", "+lr=1", "x=2").code == 0


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.usefixtures("warm")
def test_variables_in_front_of_a_command_reach_the_script_and_no_gpu_does(tmp_path: Path) -> None:
    asks = "import os, torch\nassert (os.environ['A'], os.environ['CUDA_VISIBLE_DEVICES']) == ('1', '')\n"
    (tmp_path / "train.py").write_text(asks + "assert os.environ['SLURM_PROCID'] == '0'\n" + STEPS)
    words = ("A=1", "CUDA_VISIBLE_DEVICES=0", "srun", "-n", "2", "python", "train.py")
    assert command(tmp_path, "probe", "--json", *warm_option(), "--", *words).code == 0


SLOW_TO_END = """
class Slow:
    def __init__(self, wait):
        self.wait = wait

    def __del__(self):
        self.wait(2.5)

import time
slow = Slow(time.sleep)
"""


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize(
    ("parses", "given"),
    [
        ("p.add_argument('--data', required=True)", "-- --data …`"),
        ("p.add_argument('folder')", "-- FOLDER`"),
        # what the interpreter does after the last exit handler takes seconds on a busy machine
        (f"{SLOW_TO_END}p.add_argument('--data', required=True)", "-- --data …`"),
    ],
)
def test_arguments_that_a_script_misses_are_named(parses: str, given: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import argparse\np = argparse.ArgumentParser()\n{parses}\np.parse_args()\n")
    probed = command(tmp_path, "probe", "-q", "train.py")
    said = " ".join(probed.out.split())
    assert (probed.code, "refuses its arguments: the following arguments are required" in said) == (3, True)
    assert f"give them after `--`: `lintrain probe train.py {given}" in said
