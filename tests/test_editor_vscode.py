"""The extension for VS Code: its own logic, and that it offers what the server and the probe know."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import Any

from lintrain._version import __version__
from lintrain.runtime.parent.pass_request import ALL, EXTRAS
from lintrain.server.project import ClientSettings, ProbeSettings
from tests.support.node_programs import NODE, ROOT, needs_packages, passes

EXTENSION = ROOT / "editors" / "vscode"
ITS_OWN = {"path", "trace.server"}


def manifest() -> Any:
    return json.loads((EXTENSION / "package.json").read_text())


def settings() -> dict[str, Any]:
    declared: dict[str, Any] = manifest()["contributes"]["configuration"]["properties"]
    return {name.removeprefix("lintrain."): what for name, what in declared.items()}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def test_its_logic_passes_its_tests() -> None:
    passes(
        EXTENSION,
        "test/finding.test.ts",
        "test/settings.test.ts",
        "test/interpreters.test.ts",
    )


def test_its_types_are_sound() -> None:
    needs_packages(EXTENSION)
    done = subprocess.run(
        [NODE, "node_modules/typescript/bin/tsc"], cwd=EXTENSION, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_it_is_bundled_with_the_licences_of_what_is_bundled() -> None:
    needs_packages(EXTENSION)
    subprocess.run([NODE, "build.mjs"], cwd=EXTENSION, check=True)
    notices = (EXTENSION / "THIRD-PARTY-NOTICES.txt").read_text()
    bundled = {line.partition(" ")[0] for line in notices.splitlines() if line.endswith(("(MIT)", "(ISC)", "-1.0.0)"))}
    assert bundled >= {"vscode-languageclient", "vscode-jsonrpc", "vscode-languageserver-protocol", "semver"}
    assert (EXTENSION / "dist" / "extension.cjs").stat().st_size > 100_000


def test_it_is_built_outside_of_a_checkout(tmp_path: Path) -> None:
    needs_packages(EXTENSION)
    listed = subprocess.run(["git", "ls-files"], cwd=EXTENSION, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.splitlines()):
        if (EXTENSION / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(EXTENSION / name, tmp_path / name)
    (tmp_path / "node_modules").symlink_to((EXTENSION / "node_modules").resolve())
    subprocess.run([NODE, "build.mjs"], cwd=tmp_path, check=True)
    assert (tmp_path / "dist" / "extension.cjs").stat().st_size > 100_000
    done = subprocess.run([NODE, "build.mjs", "--package"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "the folder `server` is missing: `python -m tools.bundle WHEEL editors/vscode` writes it" in done.stderr


def test_it_has_the_licence_of_lintrain() -> None:
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_it_starts_no_pip_and_brings_its_server() -> None:
    code = "".join(path.read_text() for path in (EXTENSION / "src").glob("*.ts"))
    assert re.findall(r'"pip"|-m", "venv"|ensurepip', code) == []
    assert "server" in manifest()["files"]


def test_its_settings_are_those_that_the_server_reads() -> None:
    general = {camel(each.name) for each in fields(ClientSettings)} - {"probe"}
    probe = {f"probe.{camel(each.name)}" for each in fields(ProbeSettings)}
    assert settings().keys() - ITS_OWN == general | probe


def test_its_defaults_are_the_servers() -> None:
    server, probe = ClientSettings(), ProbeSettings()
    expected = {camel(each.name): getattr(server, each.name) for each in fields(server) if each.name != "probe"}
    expected |= {f"probe.{camel(each.name)}": getattr(probe, each.name) for each in fields(probe)}
    assert {name: what["default"] for name, what in settings().items() if name not in ITS_OWN} == expected


def test_it_knows_the_measurements_of_a_probe() -> None:
    assert settings()["probe.also"]["items"]["enum"] == [*EXTRAS, ALL]


def test_a_workspace_that_is_not_trusted_names_no_program() -> None:
    restricted = manifest()["capabilities"]["untrustedWorkspaces"]["restrictedConfigurations"]
    assert {name.removeprefix("lintrain.") for name in restricted} == {
        "path",
        "configuration",
        *(name for name in settings() if name.startswith("probe.")),
    }


def test_its_manual_names_every_setting_and_command() -> None:
    manual = (EXTENSION / "README.md").read_text()
    assert [name for name in settings() if f".{name.rpartition('.')[2]}`" not in manual] == []
    code = (EXTENSION / "src" / "extension.ts").read_text()
    commands = [each["command"] for each in manifest()["contributes"]["commands"]]
    assert [name for name in commands if f'"{name}"' not in code] == []


def test_it_has_the_version_of_lintrain() -> None:
    assert manifest()["version"] == __version__


def test_locked_packages_name_no_host() -> None:
    for folder in (EXTENSION, ROOT / "tests" / "node", ROOT / "tools" / "playground"):
        locked = json.loads((folder / "package-lock.json").read_text())["packages"]
        assert [name for name, package in locked.items() if "resolved" in package] == []
