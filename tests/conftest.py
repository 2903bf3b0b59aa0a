"""What every test stands on: the tiny assets, and an environment in which the hub's names mean them."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from lintrain.runtime.parent.events import Assembly  # noqa: E402 - found through the line above
from tests.pages.running import PageRunner  # noqa: E402
from tests.support import quick_run, turns  # noqa: E402
from tests.support.commands import WARM_COMMANDS  # noqa: E402 - found through the line above
from tests.support.probing import WARM_PYTHON  # noqa: E402 - found through the line above
from tests.support.warm.starting import WarmPython  # noqa: E402
from tools.build_fixtures import BUILT, offline_environment  # noqa: E402

# A shell that starts the tests in the background, or `nohup`, lets them and every process they start ignore these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ.update(offline_environment())
os.environ["OMP_NUM_THREADS"] = "1"
CACHE = tempfile.mkdtemp(prefix="lintrain-tests-")
os.environ["LINTRAIN_CACHE_DIR"] = CACHE  # not the user's own
os.environ["KERAS_BACKEND"] = "torch"
turns.set_turn()
Assembly.is_strict = True  # a misspelt field of the evidence is an error here, a note for users


def pytest_report_header() -> str:
    """Which of the cases that take turns are run: the line that a failure elsewhere is repeated with."""
    return f"cases that take turns: {turns.TURN}={turns.set_turn()}"


def pytest_unconfigure() -> None:
    """Remove the cache: by this hook and not at the exit of a process, which forked children of tests may reach too."""
    shutil.rmtree(CACHE, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick` leaves out what needs the libraries of training, `--turns` most cases of the tests that take turns."""
    parser.addoption("--quick", action="store_true", help="only tests that need no library of training")
    parser.addoption("--turns", action="store_true", help="of tests marked `turns` the cases of this commit only")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files that cannot be imported without the libraries of training."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if config.getoption("quick") and is_test and quick_run.needs_libraries(collection_path) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the bytecode of tests, whose assertions pytest rewrites, also where Python is told to write none."""
    # A quarter of the time that the collection takes. Only here: what tests import later may not write into its folder.
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, False
    gc.disable()  # next to nothing of what is made here is garbage
    try:
        return (yield)
    finally:
        gc.enable()
        sys.dont_write_bytecode = before


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests that run scripts, and the cases whose turn it is not, as the options ask."""
    left_out = {item for item in items if config.getoption("quick") and quick_run.is_left_out(item)}
    if config.getoption("turns"):
        left_out |= turns.waiting(items, turns.set_turn())
    if left_out:
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Let no collection of garbage go through what is imported and collected by now: it takes half a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Python that has the libraries imported, for tests that are not about how a script is started or ended."""
    with tempfile.TemporaryDirectory(prefix="lintrain-warm-", ignore_cleanup_errors=True) as folder:
        started = WarmPython(Path(folder))
        yield str(started.program)
        started.stop()


@pytest.fixture(scope="session")
def warm_commands(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Python that has lintrain imported, for tests that are not about how a command is started or ended."""
    with tempfile.TemporaryDirectory(prefix="lintrain-warm-", ignore_cleanup_errors=True) as folder:
        started = WarmPython(Path(folder), "commands")
        yield str(started.program)
        started.stop()


@pytest.fixture
def warm(warm_python: str, warm_commands: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes of this test run in warm Pythons, and their scripts as well."""
    monkeypatch.setenv(WARM_PYTHON, warm_python)
    monkeypatch.setenv(WARM_COMMANDS, warm_commands)


@pytest.fixture
def warm_command(warm_commands: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the commands of this test run in a warm Python: their scripts start as they do for users."""
    monkeypatch.setenv(WARM_COMMANDS, warm_commands)


@pytest.fixture(scope="session")
def assets() -> Path:
    """The folder of tiny models, tokenizers, data sets and metrics, built when it is not there."""
    subprocess.run([sys.executable, "-m", "tools.build_fixtures"], cwd=ROOT, check=True, capture_output=True)
    return BUILT


@pytest.fixture(scope="session")
def runner(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageRunner]:
    """Runs pages in children of one process that has the libraries imported."""
    started = PageRunner(tmp_path_factory.mktemp("pages"))
    yield started
    started.stop()
