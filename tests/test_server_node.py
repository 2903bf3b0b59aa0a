"""The server speaks to a client in node that is made of the packages which VS Code's is made of."""

from __future__ import annotations

from tests.support.node_programs import ROOT, needs_packages, passes

CLIENT = ROOT / "tests" / "node"


def test_a_client_in_node_is_served() -> None:
    needs_packages(CLIENT)
    passes(CLIENT, "server.test.mjs")
