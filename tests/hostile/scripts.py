"""What hostile scripts are made of: something before the training, something in its loop, and a way to end."""

from __future__ import annotations

import random
from dataclasses import dataclass

NOTHING_CONFIRMED, CONFIRMED, NOT_JUDGED = 0, 1, 3
HEAD = """
import atexit, gc, json, multiprocessing, os, pathlib, random, shutil, signal, sqlite3, subprocess, sys, threading, time
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(400, 6), torch.randint(3, (400,)))
loader = DataLoader(rows, batch_size=8, shuffle=True)
held_out = DataLoader(TensorDataset(torch.randn(80, 6), torch.randint(3, (80,))), batch_size=8)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
step = 0
"""
LOOP = """
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        step += 1
"""
EVALUATION = """
    with torch.no_grad():
        right = sum((net(x).argmax(dim=1) == y).sum().item() for x, y in held_out)
    torch.save(net.state_dict(), "weights.pt")
"""


@dataclass(frozen=True, slots=True)
class Part:
    """Some lines of a script; `code` is the exit code of a probe that comes to them, None where they change nothing.

    `hangs` marks those that end by the bound on time alone.
    """

    lines: str
    code: int | None = None
    hangs: bool = False


BEFORE = (
    Part("open('results.csv', 'w').write('mine')"),
    Part("open('results.csv', 'a').write('more')"),
    Part("os.remove('results.csv')"),
    Part("shutil.rmtree('output')"),
    Part("shutil.rmtree('output'); os.makedirs('output/last'); open('output/last/new.txt', 'w').write('x')"),
    Part("os.rename('output', 'elsewhere')"),
    Part("os.replace('results.csv', 'weights.pt')"),
    Part("shutil.move('output', 'results'); shutil.copytree('results', 'output')"),
    Part("open('link.txt', 'w').write('through a link')"),
    Part("os.unlink('link.txt'); os.symlink('weights.pt', 'link.txt'); open('link.txt', 'wb').write(b'x')"),
    Part("os.link('results.csv', 'hard.csv'); open('hard.csv', 'a').write('x')"),
    Part("os.makedirs('run', exist_ok=True); os.chdir('run'); open('../results.csv', 'w').write('x')"),
    Part("os.chdir(os.path.expanduser('~')); open(os.path.join(os.environ['FOLDER'], 'results.csv'), 'w').write('x')"),
    Part("torch.save({'a': 1}, 'weights.pt'); assert torch.load('weights.pt') == {'a': 1}"),
    Part(
        "np.save('array.npy', np.ones(3)); np.savez('output/all.npz', a=np.ones(3)); np.ones(3).tofile('results.csv')"
    ),
    Part("np.memmap('array.npy', 'f4', 'r+', shape=(4,))[:] = 7"),
    Part("base = sqlite3.connect('runs.sqlite'); base.execute('insert into runs values (2)'); base.commit()"),
    Part("pathlib.Path('output').joinpath('a', 'b').mkdir(parents=True); pathlib.Path('results.csv').unlink()"),
    Part("os.chmod('results.csv', 0o600); os.utime('results.csv'); os.truncate('results.csv', 1)"),
    Part("os.umask(0o777); open('secret.txt', 'w').close(); os.mkdir('locked')"),
    Part("os.remove(sys.argv[0])"),
    Part("open(sys.argv[0], 'a').write('raise SystemExit(1)')"),
    Part("open(os.path.expanduser('~/.settings'), 'w').write('x'); os.makedirs(os.path.expanduser('~/.tool/cache'))"),
    Part("open('big.bin', 'wb').write(bytes(50_000_000))"),
    Part("os.mkfifo('pipe')"),
    Part('subprocess.run([sys.executable, \'-c\', \'open("results.csv", "w").write("x")\'], check=True)'),
    Part("subprocess.run([sys.executable, '-I', '-c', 'open(\"results.csv\", \"w\").write(\"x\")'])"),
    Part("subprocess.run('echo x > results.csv; rm -rf output; touch made', shell=True)"),
    Part("os.system('rm -f weights.pt')"),
    Part("subprocess.Popen(['sleep', '600'], start_new_session=True)"),
    Part("subprocess.Popen(['sleep', '600'], start_new_session=True, env={})"),
    Part("os.fork() or (os.setsid(), os.fork() and os._exit(0), time.sleep(600), os._exit(0))"),
    Part("multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,)).start()"),
    Part("multiprocessing.get_context('fork').Process(target=os.remove, args=('results.csv',)).start()"),
    Part("threading.Thread(target=time.sleep, args=(600,)).start()"),
    Part("threading.Thread(target=lambda: [print('x' * 1000) for _ in iter(int, 1)], daemon=True).start()"),
    Part("threading.Thread(target=lambda: [open('t.txt', 'a').write('x') for _ in iter(int, 1)], daemon=True).start()"),
    Part("atexit.register(lambda: open('at_exit.txt', 'w').close()); atexit.register(time.sleep, 600)"),
    Part("[signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]"),
    Part("signal.signal(signal.SIGTERM, lambda *_: open('results.csv', 'w').close())"),
    Part("from multiprocessing import shared_memory; kept = shared_memory.SharedMemory(create=True, size=64)"),
    Part("torch.ones(1000).share_memory_(); shared = torch.ones(9).share_memory_()"),
    Part("random.seed(1); np.random.seed(1); torch.manual_seed(1); drawn = torch.rand(1)"),
    Part("sys.stdout = sys.stderr = open(os.devnull, 'w')"),
    Part("os.close(1); os.close(2)"),
    Part("print('x' * 5_000_000); sys.stdout.buffer.write(bytes(range(256)) * 1000)"),
    Part("sys.excepthook = lambda *_: None; threading.excepthook = lambda *_: None"),
    Part("gc.disable(); sys.setrecursionlimit(200); os.nice(1)"),
    Part("import builtins; builtins.print = lambda *a, **k: None; json.dumps = None"),
    Part("os.setpgid(0, 0) if os.getpgrp() != os.getpid() else None; os.environ.clear()"),
    Part("open('module.py', 'w').write('VALUE = 3'); import module; assert module.VALUE == 3"),
    Part("try: os.kill(os.getppid(), signal.SIGTERM)\nexcept PermissionError: pass"),
    Part("raise RuntimeError('before the training')", CONFIRMED),
    Part("open('no_such_folder/rows.csv')", NOT_JUDGED),
    Part("os._exit(9)", NOT_JUDGED),
    Part("sys.exit(4)", NOT_JUDGED),
    Part("os.kill(os.getpid(), signal.SIGKILL)", NOT_JUDGED),
    Part("os.abort()", NOT_JUDGED),
    Part("while True: time.sleep(0.01)", NOT_JUDGED, hangs=True),
    Part("while True: print('endless')", NOT_JUDGED, hangs=True),
    Part("import _io; _io.FileIO('results.csv', 'w')", NOT_JUDGED),
    Part("subprocess.run(['rm', 'results.csv'], check=True)", NOT_JUDGED),
)
INSIDE = (
    Part("pass"),
    Part("os.makedirs('output', exist_ok=True); torch.save(net.state_dict(), 'output/checkpoint.pt')"),
    Part("open('results.csv', 'a').write(f'{step},{loss.item()}')"),
    Part("os.path.exists('weights.pt') and os.remove('weights.pt')"),
    Part("print('loss', loss.item(), flush=True)"),
    Part("random.random(); np.random.rand(); torch.rand(1)"),
    Part("threading.Thread(target=time.sleep, args=(600,)).start()"),
    Part("if step == 2: sys.exit(0)"),
    Part("if step == 2: sys.exit('enough')"),
    Part("if step == 2: os._exit(0)"),
    Part("if step == 2: raise KeyboardInterrupt", CONFIRMED),
    Part("if step == 2: raise RuntimeError('inside the training')", CONFIRMED),
    Part("if step == 2: os.kill(os.getpid(), signal.SIGKILL)", NOT_JUDGED),
    Part("if step == 2: time.sleep(600)", NOT_JUDGED, hangs=True),
)
CALLS = (
    "train()",
    "try:\n    train()\nexcept:\n    print('swallowed')",
    "try:\n    train()\nfinally:\n    torch.save(net.state_dict(), 'final.pt')",
    "try:\n    train()\nexcept BaseException:\n    pathlib.Path('results.csv').unlink(missing_ok=True)",
    "while True:\n    train()",
)
AFTER = (
    Part("pass"),
    Part("open('results.csv', 'w').write('done')"),
    Part("os.makedirs('output', exist_ok=True); torch.save(optimizer.state_dict(), 'output/optimizer.pt')"),
    Part("sys.exit(0)"),
    Part("sys.exit(5)"),
    Part("os._exit(0)"),
    Part("os.execv(sys.executable, [sys.executable, '-c', 'print(1)'])"),
    Part("shutil.rmtree('output', ignore_errors=True); os.remove('weights.pt')"),
    Part("threading.Thread(target=time.sleep, args=(600,)).start()"),
    Part("os.makedirs('output', exist_ok=True); shutil.make_archive('archive', 'zip', 'output')"),
)


@dataclass(frozen=True, slots=True)
class Hostile:
    """One script and what is expected of its probe."""

    number: int
    text: str
    code: int
    hangs: bool
    parts: tuple[str, ...]


def make_scripts(count: int) -> list[Hostile]:
    """So many scripts, always the same: every part at least once in the first hundred, in changing company."""
    draw = random.Random(4)
    before, inside, after = (draw.sample(group, len(group)) for group in (BEFORE, INSIDE, AFTER))
    return [
        _script(
            number,
            before[number % len(before)],
            inside[number % len(inside)],
            after[number % len(after)],
            CALLS[(number // 7) % len(CALLS)],
        )
        for number in range(count)
    ]


def _script(number: int, before: Part, inside: Part, after: Part, call: str) -> Hostile:
    train = f"def train():\n    global step{LOOP}        {inside.lines}{EVALUATION}"
    ending = next((part for part in (before, inside) if part.code is not None), Part("", NOTHING_CONFIRMED))
    is_caught = ending is inside and ending.code == CONFIRMED and "except" in call
    return Hostile(
        number=number,
        text="\n\n".join((HEAD, before.lines, train, call, after.lines)),
        code=NOTHING_CONFIRMED if is_caught else ending.code or NOTHING_CONFIRMED,
        hangs=ending.hangs,
        parts=(before.lines, inside.lines, call, after.lines),
    )
