"""Attacks by what a probed script sends, or does to the way on which lintrain's own code in its process sends."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import Ended, lintrain, quick_python

FIND = """
import json, os, sys

path = next(
    link for number in os.listdir("/proc/self/fd")
    if os.path.lexists(f"/proc/self/fd/{number}")
    and (link := os.readlink(f"/proc/self/fd/{number}")).endswith("events.jsonl")
)

def send(line):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, line)
    os.close(descriptor)

"""
CALL = """
import gc, os, sys

channel = next(one for one in gc.get_objects() if type(one).__name__ == "Channel")

def send(line):
    channel._write(b"".join(channel.signer.signed(each) + b"\\n" for each in line.split(b"\\n") if each))

"""
"""Signed as lintrain's own code signs, by way of its own objects."""
LINES = {
    "no-json": b"not json\n",
    "a-list": b"[]\n",
    "a-number": b"1\n",
    "a-text": b'"end"\n',
    "no-event": b"{}\n",
    "unknown-event": b'{"event": "confirmed"}\n',
    "event-is-a-list": b'{"event": ["end"]}\n',
    "no-utf-8": b'{"event": "end", "kind": "\xff"}\n',
    "deep-lists": b"[" * 200_000 + b"\n",
    "deep-values": b'{"event": "measured", "values": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}\n",
    "long-number": b'{"event": "started", "pid": ' + b"9" * 10_000 + b"}\n",
    "stage-without-name": b'{"event": "stage", "stage": {}}\n',
    "stage-is-a-text": b'{"event": "stage", "stage": "forward"}\n',
    "seconds-are-a-text": b'{"event": "stage", "stage": {"name": "script", "status": "passed", "seconds": "1"}}\n',
    "end-without-reason": b'{"event": "end", "kind": "measured"}\n',
    "files-are-a-text": b'{"event": "end", "kind": "measured", "reason": "", "notes": [], "files": "abc"}\n',
    "files-are-numbers": b'{"event": "end", "kind": "measured", "reason": "", "notes": [], "files": [1]}\n',
    "values-are-a-list": b'{"event": "run", "values": []}\n',
    "values-of-other-types": b'{"event": "run", "values": {"script": 1, "model": [], "splits": 7}}\n',
    "unknown-status": b'{"event": "run", "values": {"trainer": "T"}}\n'
    b'{"event": "stage", "stage": {"name": "script", "status": "splendid", "seconds": 1}}\n',
    "nul-bytes": b"\0" * 100 + b"\n",
}


def probed(folder: Path, script: str, *words: str, seconds: float = 60) -> Ended:
    (folder / "train.py").write_text(script)
    return lintrain(folder, "probe", "--no-cache", "--timeout", "8", *words, "train.py", seconds=seconds)


def assert_not_judged(ended: Ended, *, words: str = "") -> None:
    assert ended.code == 3, (ended.code, ended.text[-3000:])
    assert 'Traceback (most recent call last)\n  File "lintrain' not in ended.text
    assert "confirmed" not in ended.text.replace("nothing confirmed", ""), ended.text[-2000:]
    assert words in ended.text, ended.text[-2000:]
    assert ended.peak_bytes < 2**30, f"{ended.peak_bytes >> 20} MiB"


@attack("events-are-not-trusted", cases=LINES)
def line_sent(folder: Path, line: bytes) -> None:
    """One line that lintrain's own code does not send, signed as if it were."""
    ended = probed(folder, f"{CALL}send({line!r})\nimport time\ntime.sleep(1)\n")
    assert_not_judged(ended, words="the script's process sent")
    assert "signed" not in ended.text, ended.text[-2000:]


FORGED = (
    b'{"event": "run", "values": {"trainer": "Trainer"}}\n'
    b'{"event": "stage", "stage": {"name": "script", "status": "passed", "seconds": 1}}\n'
    b'{"event": "end", "kind": "measured", "reason": "", "notes": [], "files": []}\n'
)
FORGERIES = {
    "without-a-signature": ("send(FORGED)", "not signed"),
    "under-another-signature": (
        'first = open(path, "rb").read().partition(b" ")[0]\n'
        'send(b"".join(first + b" 0 1 9 " + one + b"\\n" for one in FORGED.split(b"\\n")))',
        "not signed",
    ),
    "under-a-key-of-nobody": ('send(b"00" * 32 + b" 7.7 1 1 " + FORGED)', "not signed"),
    "under-a-long-name": ('send(b"00" * 32 + b" " + b"0." * 10**6 + b"1 1 1 " + FORGED)', "not signed"),
    "said-twice": ('send(open(path, "rb").read())', "came twice"),
}


@attack("events-are-not-trusted", cases=FORGERIES)
def verdict_forged(folder: Path, how: tuple[str, str]) -> None:
    """Events that are as lintrain's own code sends them, written into its file by the script's code."""
    change, words = how
    ended = probed(folder, f"{FIND}FORGED = {FORGED!r}\n{change}\nimport time\ntime.sleep(1)\n")
    assert_not_judged(ended, words=words)


@attack("events-are-not-trusted", cases=["of-the-script", "of-another-program"])
def key_looked_for(folder: Path, whose: str) -> None:
    """The key that signs events, looked for where the script's code can read before it runs."""
    looks = "sys.stderr.write(repr(os.listdir(os.path.dirname(path))))"
    if whose != "of-the-script":
        looks = "import subprocess; subprocess.run(['ls', os.path.dirname(path)], stdout=2)"
    ended = probed(folder, f"{FIND}{looks}\n")
    assert "key-" not in ended.text, ended.text
    assert "taken-" not in ended.text, ended.text
    assert "events.jsonl" in ended.text, ended.text


SHARED = """
import os
import shutil

import torch
from torch.utils.data import DataLoader, TensorDataset

folder = os.path.dirname(os.environ["TMPDIR"])
done = []

def leaves(name, make):
    path = os.path.join(folder, name)
    if not done:
        done.append(name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        make(path)

net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
if os.path.exists("last.pt"):
    net.load_state_dict(torch.load("last.pt"))
for epoch in range(9):
    for x, y in DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(2, (32,))), batch_size=8):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        torch.save(net.state_dict(), "last.pt")
        CHANGE
"""
LEFT = {
    "link-for-the-request": "leaves('request.json', lambda path: os.symlink(VICTIM, path))",
    "pipe-for-the-request": "leaves('request.json', os.mkfifo)",
    "folder-for-the-wall": "leaves('wall', os.mkdir)",
    "link-for-the-process": "leaves('started.txt', lambda path: os.symlink(VICTIM, path))",
    "file-for-temporary-files": "leaves('files', lambda path: open(path, 'x').close())",
    "link-for-temporary-files": "leaves('files', lambda path: os.symlink(os.path.dirname(VICTIM), path))",
    "link-for-metrics": "leaves('metrics', lambda path: os.symlink(os.path.dirname(VICTIM), path))",
}


@attack("later-passes-trust-nothing", cases=LEFT)
def trap_left_for_the_next_pass(folder: Path, change: str) -> None:
    """A pass that shares the folder of its files with one before (`--also checkpoint`) finds what that one left."""
    (folder / "safe").mkdir()
    victim = folder / "safe" / "victim"
    victim.write_text("mine")
    script = SHARED.replace("CHANGE", change.replace("VICTIM", repr(str(victim))))
    ended = probed(folder, script, "--also", "checkpoint", "--timeout", "60", *quick_python(), seconds=100)
    assert victim.read_text() == "mine"
    assert sorted(path.name for path in (folder / "safe").iterdir()) == ["victim"]
    assert "Traceback" not in ended.text, ended.text[-3000:]
    assert ended.code in {0, 1, 3}, ended.code


@attack("events-are-not-trusted", cases={"a-gigabyte": 2**30, "many-lines": 0})
def flood_sent(folder: Path, size: int) -> None:
    """More than the parent's memory should hold."""
    line = "b'x' * 2**20" if size else 'b\'{"event": "stage-started", "stage": "x"}\\n\' * 2000'
    assert_not_judged(probed(folder, f"{FIND}while True:\n    send({line})\n"))


CHANGES = {
    "fifo": "os.unlink(path); os.mkfifo(path)",
    "endless-device": "os.unlink(path); os.symlink('/dev/zero', path)",
    "folder": "os.unlink(path); os.mkdir(path)",
    "cut-off": "os.truncate(path, 0)",
    "removed": "os.unlink(path)",
    "renamed-over": "open(path + 'x', 'w').write('not json'); os.rename(path + 'x', path)",
    "sparse": "os.truncate(path, 2**40)",
    "mode-0": "os.chmod(path, 0)",
}


@attack("events-are-not-trusted", cases=CHANGES)
def file_changed(folder: Path, change: str) -> None:
    """The file of events replaced, cut off or closed to the process that writes to it."""
    script = f"{FIND}{change}\nimport time\ntime.sleep(0.5)\nraise SystemExit(4)\n"
    ended = probed(folder, script)
    assert_not_judged(ended)
    assert ended.wall_seconds < 40, ended.wall_seconds


@attack("events-are-not-trusted", cases=["closerange", "one-by-one"])
def descriptors_closed(folder: Path, how: str) -> None:
    """A script that closes every descriptor gets the numbers of ours for its own files."""
    close = "os.closerange(3, 4096)" if how == "closerange" else "[os.close(n) for n in list_open()]"
    script = f"""
import os

def list_open():
    return [int(n) for n in os.listdir("/proc/self/fd") if int(n) > 2 and os.path.lexists(f"/proc/self/fd/{{n}}")]

{close}
files = [open(os.path.join({str(folder)!r}, "mine"), "a+") for _ in range(1000)]
print("the end of the script")
"""
    ended = probed(folder, script)
    assert_not_judged(ended, words="without training")
    assert not (folder / "mine").exists()


@attack("evidence-is-bounded", cases=["judge", "merge"])
def device_as_evidence(folder: Path, how: str) -> None:
    """A pipe, a device or a huge file given as evidence."""
    os.mkfifo(folder / "pipe.json")
    (folder / "link.json").symlink_to("/dev/zero")
    with (folder / "huge.json").open("wb") as opened:
        opened.truncate(2**40)
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "wrong.json").write_text(json.dumps({"schema": 3, "runs": [{"a": 1}]}))
    words = ("judge",) if how == "judge" else ("report", "merge")
    for name in ("pipe.json", "link.json", "huge.json", "deep.json", "wrong.json", "/dev/zero", "."):
        ended = lintrain(folder, *words, name, seconds=20)
        assert ended.code == 2, (name, ended.code, ended.text[-500:])
        assert "Traceback" not in ended.text
        assert ended.peak_bytes < 2**29, (name, ended.peak_bytes)


@attack("shared-memory-of-others-stays", cases=["dead-pid", "a-pid-of-ours"])
def memory_of_others(folder: Path, whose: str) -> None:
    """Shared memory under torch's name whose maker is not among the processes that can be seen."""
    pid = 4_194_000 if whose == "dead-pid" else os.getpid()
    theirs = Path(f"/dev/shm/torch_{pid}_{os.getpid()}_0")
    theirs.write_text("theirs")
    try:
        probed(folder, "print('no training')\n")
        assert theirs.exists()
    finally:
        theirs.unlink(missing_ok=True)
