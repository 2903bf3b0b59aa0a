"""Stands for Python in front of a warm server: hands over what it was asked to run, and leaves with its exit status.

client.py SOCKET [-c CODE | -m MODULE | SCRIPT] ARGUMENTS…
"""

# Three of these run for each probe, and its imports are what one costs: a third without `socket`, `json` and `pathlib`.
import _socket
import marshal
import os
import sys


def main() -> int:
    """Send the command with this process's folder, environment and streams; wait for its end."""
    path, *words = sys.argv[1:]
    asked = {"words": words, "folder": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109 - no `pathlib`
    text = marshal.dumps(asked)
    streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
    server = _socket.socket(_socket.AF_UNIX)
    server.connect(path)
    server.sendmsg([len(text).to_bytes(8, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    server.sendall(text)
    return int(server.recv(16) or b"1")


os._exit(main())
