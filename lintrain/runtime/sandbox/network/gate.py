"""Decides on each request of this process, and writes down for the report what it stopped.

Which requests only read, and how a request is shown in a report.

Keys and tokens in the environment: the script's own Python has them, other programs do not get them.

They stay in `os.environ` and are taken out of the process's own environment, which a program inherits that is started
without another one: by `os.system`, by `exec`, by compiled code.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

FILE = "stopped.jsonl"
"""In the temporary folder of a pass: one JSON string for each request that was stopped, of all processes."""
MOST = 1_000
MARK = "a probe sends nothing that could change something elsewhere"
STOPPED = re.compile(MARK + ": `[^`\n]*` was stopped")
OPEN, WRITE, CLOSE = os.open, os.write, os.close
"""As they are before the script, which may put something else in their place."""


class StoppedError(ConnectionRefusedError):
    """A request that a probe does not send; to the libraries it is a connection that was refused."""


class Gate:
    """The one judge of a process: every layer that sends asks it; `is_offline` where no other machine may be reached.

    `secret` marks to the kernel the connections that this process watches; 0 if the kernel does not ask. Where it
    `is_walled` somebody answers who knows the servers of the script itself.
    """

    def __init__(self, temporary: str, *, is_offline: bool) -> None:
        self.is_offline = is_offline
        self.secret = 0
        self.is_walled = False
        self.reads_frames = False
        self._file = os.path.join(temporary, FILE)
        self._written = 0

    def demand_read(self, method: str, authority: str, target: str, headers: Iterable[str] = ()) -> None:
        """Raise StoppedError for a request that could change something; `headers` are names, in lower case."""
        names = frozenset(headers)
        # A GET with `X-HTTP-Method-Override: DELETE` is a DELETE to many servers.
        if not only_reads(method, authority, target) or names & OVERRIDES:
            self.stop(shown(method, authority, target))
        if "upgrade" in names:
            self.stop(shown("UPGRADE", authority, target))

    def stop(self, what: str) -> None:
        """Write down what is stopped, and raise StoppedError."""
        raise self.stopped(what)

    def write_down(self, what: str) -> None:
        """Name something in the report that was not sent."""
        if self._written < MOST:
            self._written += 1
            self._append(json.dumps(what).encode() + b"\n")

    def stopped(self, what: str) -> StoppedError:
        """The error for something that is stopped, which is written down."""
        self.write_down(what)
        return StoppedError(f"{MARK}: `{what}` was stopped")

    def _append(self, line: bytes) -> None:
        try:
            opened = OPEN(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return  # without room the request is stopped all the same
        try:
            WRITE(opened, line)
        finally:
            CLOSE(opened)


def refusal(error: BaseException | None) -> str | None:
    """Why an error is of lintrain's making: it comes from a request that was stopped; None for any other error."""
    seen: Any = error
    # Errors of urllib3, requests and huggingface_hub wrap each other.
    for _ in range(12):
        if seen is None:
            return None
        if found := STOPPED.search(str(seen)):
            return found[0]
        seen = seen.__cause__ or seen.__context__
    return None


READING = frozenset({"GET", "HEAD", "OPTIONS"})
TUNNEL = "CONNECT"
"""Asks a proxy for a connection; what is sent through it is a request of its own."""

OVERRIDES = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
"""Headers by which a GET asks a server to treat it as another method."""

READING_POSTS = (
    (re.compile(r""), re.compile(r"(/[^/]+)*/api/(models|datasets|spaces|buckets)(/[^/]+){1,2}/paths-info(/[^/]+)?")),
    (re.compile(r""), re.compile(r"/.+/git-upload-pack")),
    (re.compile(r"oauth2\.googleapis\.com|www\.googleapis\.com"), re.compile(r"/token|/oauth2/v4/token")),
    (re.compile(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com"), re.compile(r"/?")),
    (re.compile(r"login\.microsoftonline\.com"), re.compile(r"/[^/]+/oauth2(/v2\.0)?/token")),
)
"""Host (empty: any) and path of each POST that changes nothing and that a download may need: the list of a repository's
files on the hub, `git fetch`, and the exchange of a key for a short-lived one at the three large clouds."""

SECRET = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w.:~+=-]{20,}")
"""A part of a path that is long and mixed enough to be a key, as in the address of a webhook."""
LONGEST = 120


def host_of(authority: str) -> str:
    """The host without user, password and port, in lower case."""
    host = authority.rpartition("@")[2].lower()
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]


def path_of(target: str) -> str:
    """The path of a request's target, which may be a whole address, without its query."""
    path = re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*", "", target)
    return re.split(r"[?#]", path, maxsplit=1)[0] or "/"


def only_reads(method: str, authority: str, target: str) -> bool:
    """Whether a request cannot change anything at its receiver."""
    if method in READING or method == TUNNEL:
        return True
    if method != "POST":
        return False
    host, path = host_of(authority), path_of(target)
    # `/a/b/../push` is matched by the patterns as one path and resolved by the server to another.
    dotted = any(part in (".", "..") for part in path.lower().replace("%2e", ".").split("/"))
    return not dotted and any(
        (not hosts.pattern or hosts.fullmatch(host)) and paths.fullmatch(path) for hosts, paths in READING_POSTS
    )


def shown(method: str, authority: str, target: str) -> str:
    """Method, host and path of a request as the report names them: no query, no key, no character that acts."""
    authority = authority.rpartition("@")[2] or "an unnamed host"
    path = SECRET.sub("…", path_of(target)) if method != TUNNEL else ""
    text = "".join(one if one.isprintable() and one != "`" else "?" for one in f"{method} {authority}{path}")
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


SECRET_NAME = re.compile(
    r"TOKEN(?![A-Z])|SECRET|PASSWORD|PASSWD|PASSPHRASE|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|ACCOUNT_?KEY|CREDENTIAL|_PAT$|_KEY$"
    r"|_AUTH$|AUTHORIZATION|WEBHOOK|_DSN$|COOKIE|CONNECTION_STRING|DATABASE_URL|TRACKING_USERNAME|SSH_AUTH_SOCK"
    r"|^(?:AWS|AZURE|ARM|GOOGLE|GCLOUD|CLOUDSDK|WANDB|COMET|NEPTUNE|CLEARML|TRAINS|SWANLAB|KAGGLE|GITHUB|GITLAB|ACTIONS|CI_JOB)_"
)
"""Names of variables that hold keys, or say where to find them."""

PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
REFUSING = "http://127.0.0.1:9"
"""Nothing listens there; with an empty `no_proxy` every request goes there."""

NOWHERE = os.devnull


def is_secret(name: str) -> bool:
    """Whether a variable is kept from other programs."""
    return SECRET_NAME.search(name.upper()) is not None


def without_secrets(environment: Mapping[str, str], store: str) -> dict[str, str]:
    """An environment for a program that is not watched; `store` is an empty folder for what keeps keys in files."""
    found = {name: value for name, value in environment.items() if not is_secret(name)}
    for name in PROXIES:
        found[name] = found[name.upper()] = REFUSING
    found["no_proxy"] = found["NO_PROXY"] = ""
    return {**found, **_empty_stores(store), **_without_keys_of_git()}


def _empty_stores(store: str) -> dict[str, str]:
    files = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "BOTO_CONFIG", "NETRC", "RCLONE_CONFIG", "S3CFG")
    folders = ("CLOUDSDK_CONFIG", "KAGGLE_CONFIG_DIR", "DOCKER_CONFIG", "WANDB_CONFIG_DIR", "AZURE_CONFIG_DIR")
    return {
        **dict.fromkeys(files, NOWHERE),
        **dict.fromkeys(folders, store),
        "HF_TOKEN_PATH": os.path.join(store, "token"),
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def _without_keys_of_git() -> dict[str, str]:
    """git, and what it starts, ask neither the user nor a credential helper for a password."""
    settings = {"credential.helper": "", "core.askPass": "", "http.extraHeader": "", "http.proxy": REFUSING}
    numbered = dict[str, str]()
    for number, (name, value) in enumerate(settings.items()):
        numbered |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    asking = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "", "GIT_SSH_COMMAND": "false"}
    return {**numbered, **asking, "GIT_CONFIG_COUNT": str(len(settings))}


def hide_secrets(store: str, *, refuses: bool) -> None:
    """Make this process's own environment one for programs that are not watched; `os.environ` stays as it is.

    What the script sets later goes to both, but for keys. Without `refuses` the proxies are left out: compiled code in
    this process would look for the script's own servers there, and the kernel stops everything else.
    """
    # `os.environ` writes through `putenv` to the process's own environment. Both are kept apart here: the script's
    # Python reads its keys from the dictionary, other programs inherit what the process has.
    put: Any = os.putenv

    @functools.wraps(put)
    def putenv(name: Any, value: Any, /) -> None:
        if not is_secret(os.fsdecode(name)):
            put(name, value)

    os.putenv = putenv
    wanted = without_secrets(os.environ, store)
    for name in [name for name in os.environ if name not in wanted]:
        os.unsetenv(name)
    kept = () if refuses else (*PROXIES, *map(str.upper, PROXIES), "no_proxy", "NO_PROXY")
    for name, value in wanted.items():
        if os.environ.get(name) != value and name not in kept:
            put(os.fsencode(name), os.fsencode(value))


def take_back_proxies() -> None:
    """A Python below a program that is not watched is watched itself, and needs no proxy that refuses."""
    for name in PROXIES:
        for spelt in (name, name.upper()):
            if os.environ.get(spelt) == REFUSING:
                del os.environ[spelt]
