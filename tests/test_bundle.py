"""What runs without being installed: the folder that the extension for VS Code brings, and the zipapp."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lintrain._version import __version__
from tests.conftest import ROOT
from tools import bundle
from tools.bill_of_materials import requirements

COMPILED = {"libcst", "pydantic", "ruff", "pyarrow", "watchfiles"}
"""What a bundle leaves out, as it is compiled for one system, or brings what is."""


def fill(packages: Path) -> None:
    """Put the packages of a bundle into a folder: from this environment, in place of the index."""
    for line in bundle.bundled():
        for file in distribution(line.split("  ")[1].partition("==")[0]).files or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), packages / file)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle")
    wheel = folder / f"lintrain-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in sorted((ROOT / "lintrain").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(ROOT))
        for path in sorted((ROOT / "rules").rglob("*.py")):
            archive.write(path, Path("lintrain", path.relative_to(ROOT)))
    server = bundle.write_folder(folder / "server", wheel, fill)
    bundle.write_zipapp(server, folder / "lintrain.pyz")
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(ROOT / "fixtures" / "course" / "loop.py", folder / "loop.py")
    (folder / "lintrain.toml").write_text('ignore = ["high-learning-rate"]\n')
    yield folder
    for path in tmp_path.rglob("*"):
        if path.is_dir():
            path.chmod(0o755)


def started(program: Path, project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a bundle with a Python that has no packages at all."""
    environment = {"HOME": str(project.parent / "home"), "PATH": os.defpath}
    command = [sys.executable, "-I", "-S", str(program), *words]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_the_zipapp_checks_with_a_python_that_has_no_packages(built: Path, project: Path) -> None:
    done = started(built / "lintrain.pyz", project, "check", "--output-format", "json")
    assert done.returncode == 1, done.stderr
    rules = [each["rule"] for each in json.loads(done.stdout)["findings"]]
    assert rules == ["eval-mode-in-training", "missing-no-grad", "missing-zero-grad"]
    assert started(built / "lintrain.pyz", project, "--version").stdout == f"lintrain {__version__}\n"
    assert "A text data set" in started(built / "lintrain.pyz", project, "explain", "raw-dataset").stdout


@pytest.mark.parametrize("words", [("check", "--fix"), ("schema",)])
def test_what_needs_another_package_names_it(built: Path, project: Path, words: tuple[str, ...]) -> None:
    done = started(built / "lintrain.pyz", project, *words)
    assert done.returncode == 2
    reason = r"lintrain: this needs (libcst|pydantic), which is not installed: `\S+ -m pip install '?\1\b"
    assert re.search(reason, done.stderr), done.stderr


def test_the_zipapp_unpacks_itself_once_for_its_user_alone(built: Path, project: Path) -> None:
    for _ in range(2):
        started(built / "lintrain.pyz", project, "--version")
    (folder,) = (project.parent / "home" / ".cache" / "lintrain").iterdir()
    assert folder.name == f"zipapp-{bundle.digest_of(built / 'server')[:32]}"
    assert folder.stat().st_mode & 0o077 == 0


def test_a_folder_that_others_may_write_to_is_not_run(built: Path, project: Path) -> None:
    started(built / "lintrain.pyz", project, "--version")
    (folder,) = (project.parent / "home" / ".cache" / "lintrain").iterdir()
    (folder / "packages" / "lintrain" / "cli" / "__init__.py").write_text("def main():\n    print('hostile')\n")
    assert started(built / "lintrain.pyz", project).stdout == "hostile\n"
    folder.chmod(0o777)
    assert started(built / "lintrain.pyz", project, "--version").stdout == f"lintrain {__version__}\n"
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    assert started(built / "lintrain.pyz", project, "--version").stdout == f"lintrain {__version__}\n"


def test_a_relative_cache_folder_is_not_used(built: Path, project: Path) -> None:
    environment = {"HOME": str(project.parent / "home"), "XDG_CACHE_HOME": "cache"}
    command = [sys.executable, "-I", "-S", str(built / "lintrain.pyz"), "--version"]
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
    assert not (project / "cache").exists()


@pytest.mark.turns(one_in=2)
@pytest.mark.slow
@pytest.mark.parametrize("program", ["lintrain.pyz", "server/run.py"])
def test_a_bundle_serves_an_editor(built: Path, project: Path, program: str) -> None:
    uri = (project / "loop.py").as_uri()
    opened = {"uri": uri, "languageId": "python", "version": 1, "text": (project / "loop.py").read_text()}
    messages: list[dict[str, object]] = [
        {
            "id": 1,
            "method": "initialize",
            "params": {"processId": None, "rootUri": project.as_uri(), "capabilities": {}},
        },
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": opened}},
    ]
    environment = {"HOME": str(project.parent / "home"), "PATH": os.defpath}
    command = [sys.executable, "-I", "-S", str(built / program), "server"]
    process = subprocess.Popen(command, cwd=project, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for message in messages:
            content = json.dumps({"jsonrpc": "2.0", **message}).encode()
            process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(content), content))
        process.stdin.flush()
        while True:
            length = int(process.stdout.readline().split()[1])
            while process.stdout.readline().strip():
                pass
            received = json.loads(process.stdout.read(length))
            if received.get("method") == "textDocument/publishDiagnostics":
                break
        codes = {each["code"] for each in received["params"]["diagnostics"]}
        assert codes == {"eval-mode-in-training", "missing-no-grad", "missing-zero-grad"}
    finally:
        process.kill()
        process.communicate()


def test_the_same_files_give_the_same_zipapp(built: Path, tmp_path: Path) -> None:
    again = shutil.copytree(built / "server", tmp_path / "server")
    for path in again.rglob("*.py"):
        os.utime(path, (1, 1))
    bundle.write_zipapp(again, tmp_path / "lintrain.pyz")
    assert (tmp_path / "lintrain.pyz").read_bytes() == (built / "lintrain.pyz").read_bytes()


def test_a_compiled_file_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "wheel.whl", "w") as archive:
        archive.writestr("quick.cpython-311-x86_64-linux-gnu.so", b"")
    with pytest.raises(ValueError, match="compiled files do not run everywhere: quick"):
        bundle.write_folder(tmp_path / "server", tmp_path / "wheel.whl", lambda _: None)


def test_an_older_python_is_told_so() -> None:
    text = bundle.ENTRY.read_text()
    told = text.replace("sys.version_info < (3, 11)", "sys.version_info < (9, 0)")
    assert told != text
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.partition(";")[0]) == (1, "lintrain needs Python 3.11 or newer")


def test_a_bundle_has_every_package_that_is_not_compiled_in_the_versions_that_are_asked() -> None:
    pinned = dict(line.split("  ")[1].split("==") for line in bundle.bundled())
    pinned = {canonicalize_name(name): version for name, version in pinned.items()}
    asked = [each for each in map(Requirement, requirements()) if each.name not in COMPILED]
    seen: dict[str, None] = {}
    while asked:
        requirement = asked.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        seen[name] = None
        assert requirement.specifier.contains(pinned[name]), requirement
        asked += map(Requirement, distribution(requirement.name).requires or ())
    assert seen.keys() == pinned.keys()


def test_the_container_file_installs_the_wheel_beside_it() -> None:
    lines = (ROOT / "tools" / "Containerfile").read_text().splitlines()
    assert "COPY WHEEL /tmp/" in lines
    assert any("pip install" in line and '"/tmp/WHEEL[' in line for line in lines)
    assert "USER lintrain" in lines
