"""Stands for Python in front of a warm server: hands over what it was asked to run, and leaves with its exit status.

client.py SOCKET [-c CODE | -m MODULE | SCRIPT] ARGUMENTS…
"""

import json
import os
import socket
import sys
from pathlib import Path


def main() -> int:
    """Send the command with this process's folder, environment and streams; wait for its end."""
    path, *words = sys.argv[1:]
    asked = {"words": words, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        text = json.dumps(asked).encode()
        socket.send_fds(server, [len(text).to_bytes(8, "big")], [0, 1, 2])
        server.sendall(text)
        status = server.recv(16)
    return int(status or b"1")


sys.exit(main())
