"""Keys and tokens in the environment: the script's own Python has them, other programs do not get them.

They stay in `os.environ` and are taken out of the process's own environment, which a program inherits that is started
without another one: by `os.system`, by `exec`, by compiled code.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from typing import Any

SECRET = re.compile(
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
    return SECRET.search(name.upper()) is not None


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
