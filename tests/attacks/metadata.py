"""Attacks on `real-files-keep-their-metadata`: a probed script changes mode, owner, times and attributes of files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.commands import lintrain, quick_python

TRAINS = """
import ctypes, os, subprocess, sys, threading
import torch
from torch import nn

NAME = {name!r}
FOLDER = os.path.dirname(NAME)
system = ctypes.CDLL(None, use_errno=True)
call = system.syscall

{body}

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
rows = torch.utils.data.TensorDataset(torch.rand(8, 4), torch.zeros(8).long())
for x, y in torch.utils.data.DataLoader(rows, batch_size=4):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""
OPEN = "opened = os.open(NAME, os.O_RDONLY)\n"
WAYS = {
    "chmod": "os.chmod(NAME, 0o777)",
    "fchmod": OPEN + "os.fchmod(opened, 0o777)",
    "chmod-of-a-descriptor": OPEN + "os.chmod(opened, 0o777)",
    "fchown": OPEN + "os.fchown(opened, 12345, 12345)",
    "utime-of-a-descriptor": OPEN + "os.utime(opened, (1, 1))",
    "setxattr-of-a-descriptor": OPEN + "os.setxattr(opened, 'user.a', b'b')",
    "by-the-link-of-a-descriptor": OPEN + "os.chmod(f'/proc/self/fd/{opened}', 0o777)",
    "by-dev-fd": OPEN + "call(90, f'/dev/fd/{opened}'.encode(), 0o777)",
    "below-a-folder": "os.chmod(os.path.basename(NAME), 0o777, dir_fd=os.open(FOLDER, os.O_RDONLY))",
    "in-the-working-folder": "os.chdir(FOLDER); system.chmod(os.path.basename(NAME).encode(), 0o777)",
    "program-chmod": "subprocess.run(['chmod', '777', NAME])",
    "program-chown": "subprocess.run(['chown', '12345:12345', NAME])",
    "program-touch": "subprocess.run(['touch', '-d', '2001-01-01', NAME])",
    "program-touch-of-a-folder": "subprocess.run(['touch', '-d', '2001-01-01', FOLDER])",
    "program-chmod-of-all": "subprocess.run(['chmod', '-R', '777', FOLDER])",
    "program-python": "subprocess.run([sys.executable, '-I', '-c', f'import os; os.chmod({NAME!r}, 0o777)'])",
    "shell": "os.system(f'chmod 777 {NAME}')",
    "compiled-chmod": "system.chmod(NAME.encode(), 0o777)",
    "compiled-fchmod": OPEN + "system.fchmod(opened, 0o777)",
    "compiled-lchown": "system.lchown(NAME.encode(), 12345, 12345)",
    "compiled-utimensat": "system.utimensat(-100, NAME.encode(), (ctypes.c_long * 4)(1, 0, 1, 0), 0)",
    "compiled-futimens": OPEN + "system.futimens(opened, (ctypes.c_long * 4)(1, 0, 1, 0))",
    "compiled-setxattr": "system.setxattr(NAME.encode(), b'user.a', b'b', 1, 0)",
    "number-of-fchmodat2": "call(452, -100, NAME.encode(), 0o777, 0)",
    "number-of-fchownat-of-a-descriptor": OPEN + "call(260, opened, b'', 12345, 12345, 0x1000)",
    "number-with-high-bits": OPEN + "call(91, ctypes.c_ulong(opened | 1 << 40), 0o777)",
    "second-numbers": "call(0x40000000 | 90, NAME.encode(), 0o777)",
    "over-a-link": "link = os.environ['TMPDIR'] + '/l'; os.symlink(NAME, link); system.chmod(link.encode(), 0o777)",
    "over-links-to-self": "link = os.environ['TMPDIR'] + '/l'; os.symlink('/proc/self', link)\n"
    + OPEN
    + "system.chmod(f'{link}/fd/{opened}'.encode(), 0o777)",
    "over-its-root": "system.chmod(f'/proc/self/root{NAME}'.encode(), 0o777)",
    "over-its-cwd": "os.chdir(FOLDER); system.chmod(b'/proc/self/cwd/' + os.path.basename(NAME).encode(), 0o777)",
    "over-a-thread": OPEN + "system.chmod(f'/proc/thread-self/fd/{opened}'.encode(), 0o777)",
    "with-dots": "system.chmod((os.environ['TMPDIR'] + '/../../../../../../..' + NAME).encode(), 0o777)",
    "from-a-thread": "t = threading.Thread(target=lambda: system.chmod(NAME.encode(), 0o777)); t.start(); t.join()",
    "from-a-fork": "os.fork() or (system.chmod(NAME.encode(), 0o777), os._exit(0)); os.wait()",
}


def state_of(*paths: Path) -> list[tuple[int, ...]]:
    """What must stay."""
    states = [path.stat() for path in paths]
    return [
        (state.st_mode, state.st_uid, state.st_gid, state.st_mtime_ns, len(os.listxattr(path)))
        for path, state in zip(paths, states, strict=True)
    ]


@attack("real-files-keep-their-metadata", cases=WAYS)
def change_of(folder: Path, body: str) -> None:
    """Every way to change them, by Python, by compiled code and by programs."""
    if "subprocess.run(['" in body and not shutil.which(body.partition("run(['")[2].partition("'")[0]):
        raise NotPossibleError("the program")
    file = folder / "home" / "data.csv"
    file.parent.mkdir()
    file.write_text("1\n")
    file.chmod(0o640)
    (folder / "train.py").write_text(
        TRAINS.format(
            name=str(file),
            body=f"try:\n    {body.replace(chr(10), chr(10) + '    ')}\nexcept OSError as error:\n    print(error)",
        )
    )
    before = state_of(file, file.parent)
    ended = lintrain(folder, "probe", "--no-cache", *quick_python(), "train.py")
    assert state_of(file, file.parent) == before, ended.text[-1500:]
    assert ended.code in (0, 1), ended.text[-2000:]


@attack("real-files-keep-their-metadata")
def change_that_is_named(folder: Path) -> None:
    """The report says which file stayed as it was."""
    file = folder / "data.csv"
    file.write_text("1\n")
    (folder / "train.py").write_text(TRAINS.format(name=str(file), body="subprocess.run(['chmod', '777', NAME])"))
    ended = lintrain(folder, "probe", "--no-cache", "train.py")
    assert "not changed: the mode of" in ended.text, ended.text[-1500:]


@attack("real-files-keep-their-metadata")
def files_of_the_script_itself(folder: Path) -> None:
    """What the script wrote itself, and temporary files, may be changed: it finds them as it left them."""
    body = """
import tempfile
for path in ("made.txt", tempfile.mkstemp()[1]):
    open(path, "w").write("x")
    os.chmod(path, 0o755)
    os.utime(path, (5, 5))
    assert os.stat(path).st_mode & 0o777 == 0o755, oct(os.stat(path).st_mode)
    assert os.stat(path).st_mtime == 5
    descriptor = os.open(path, os.O_RDWR)
    os.fchmod(descriptor, 0o700)
    assert os.fstat(descriptor).st_mode & 0o777 == 0o700
temporary = tempfile.mkdtemp()
subprocess.run(["touch", "-d", "2001-01-01", temporary + "/t"], check=True)
assert os.stat(temporary + "/t").st_mtime < 10**9
"""
    (folder / "train.py").write_text(TRAINS.format(name="", body=body))
    ended = lintrain(folder, "probe", "--no-cache", "train.py")
    assert ended.code == 0, ended.text[-2000:]
    assert "not changed" not in ended.text, ended.text[-2000:]
