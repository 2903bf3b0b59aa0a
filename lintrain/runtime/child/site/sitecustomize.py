"""Started by Python itself in the probed process, before the script: loads the probe and steps out of the way."""

import importlib.util
import json
import os
import sys
from importlib.machinery import PathFinder

REQUEST = "LINTRAIN_PROBE_REQUEST"


def load_lintrain(package: str) -> None:
    """Load lintrain from its own folder, so that nothing next to it (packages of its environment) is importable."""
    if "lintrain" in sys.modules:
        return
    entry = os.path.join(package, "__init__.py")
    spec = importlib.util.spec_from_file_location("lintrain", entry, submodule_search_locations=[package])
    if spec is None or spec.loader is None:
        raise ImportError(f"{package}: lintrain cannot be loaded from here")
    module = importlib.util.module_from_spec(spec)
    sys.modules["lintrain"] = module
    spec.loader.exec_module(module)


def run_shadowed() -> None:
    """Run the environment's own `sitecustomize`, which this file shadows."""
    here = os.path.dirname(os.path.abspath(__file__))
    # Its own folder leaves the path, or `find_spec` would return this file once more, without end.
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


if REQUEST in os.environ:
    with open(os.environ[REQUEST], encoding="utf-8") as opened:
        request = json.load(opened)
    writes_no_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = not request["compiles"]  # lintrain's own modules are compiled once, not at every probe
    load_lintrain(request["package"])
    from lintrain.runtime.child.boot import start

    sys.dont_write_bytecode = writes_no_bytecode
    # Before the environment's own file: that one may import torch, for a tracer or a coverage tool, and hooks
    # must be there by then.
    start(request)
run_shadowed()
