"""Probes a script that tries to send something; asserts that only reads arrive, and that the report says so."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attacks.commands import lintrain
from tests.attacks.hub import TOKEN, Hub, hub

HEAD = f"""
import os, subprocess, sys, urllib.request

HUB = os.environ["HF_ENDPOINT"]
PORT = int(HUB.rpartition(":")[2])


def attempt(action):
    try:
        print("came back:", repr(action())[:200])
    except BaseException as error:
        print("ended with:", type(error).__name__, str(error)[:200])


def unguarded(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=30, **more)


assert os.environ["HF_TOKEN"] == "{TOKEN}"
asked = urllib.request.Request(HUB + "/user/repo/resolve/main/config.json")
assert b"model_type" in urllib.request.urlopen(asked, timeout=10).read()
"""
READ = "/user/repo/resolve/main/config.json"

TRAINING = """
import torch

weight = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(20):
    optimizer.zero_grad()
    ((weight - 1) ** 2).sum().backward()
    optimizer.step()
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """How a probe ended: its exit code, its whole report as JSON, and what the hub saw."""

    code: int
    document: Any  # Any: whatever JSON holds
    hub: Hub

    @property
    def notes(self) -> list[str]:
        """All notes of the report."""
        runs = [note for run in self.document["probe"]["runs"] for note in run["notes"]]
        return [*runs, *self.document["probe"]["ending"]["notes"]]


def probed(
    folder: Path, code: str, *options: str, variables: Mapping[str, str] | None = None, head: str = HEAD
) -> Sent:
    """Probe a script with the hub's address and a token in its environment."""
    (folder / "train.py").write_text(head + textwrap.dedent(code))
    with hub() as found:
        given = {
            "HF_ENDPOINT": found.address,
            "HF_TOKEN": TOKEN,
            "HF_HOME": str(folder / "hf"),
            "HF_HUB_OFFLINE": "0",
            "TRANSFORMERS_OFFLINE": "0",
            "HF_DATASETS_OFFLINE": "0",
            "CUDA_VISIBLE_DEVICES": "",
            **(variables or {}),
        }
        ended = lintrain(folder, "probe", "--json", *options, "train.py", variables=given, seconds=300)
        assert ended.out, ended.text[-3000:]
        return Sent(ended.code, json.loads(ended.out), found)


def assert_nothing_sent(sent: Sent, *named: str) -> None:
    """Zero writes at the hub, the read arrived, and the report names each of the texts."""
    output = sent.document["probe"]["ending"]["output"]
    assert sent.hub.writes == [], (sent.hub.writes, output)
    assert READ in sent.hub.reads, (sent.document["probe"]["ending"], sent.document["reason"])
    said = "\n".join(sent.notes)
    for text in named:
        assert text in said, (text, said, output)
    assert TOKEN not in json.dumps(sent.document)


def send_nothing(folder: Path, code: str, named: Sequence[str] | str, *options: str, **variables: str) -> Sent:
    """Probe a script, and assert that nothing of it arrived."""
    sent = probed(folder, code, *options, variables=variables)
    assert_nothing_sent(sent, *([named] if isinstance(named, str) else named))
    return sent
