"""Which requests only read, and how a request is shown in a report."""

from __future__ import annotations

import re

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
