"""Real editors drive the server, configured as docs/editors.md says; one that is not installed is skipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_server import LOOP

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "editors.md").read_text()
SCRIPT = LOOP.replace("    loss.backward()", "    '🙂'; loss.backward()")

DRIVE_NEOVIM = """
local function diagnostics() return vim.diagnostic.get(0) end
local function say(...) io.stdout:write(table.concat({...}, ' '), '\\n') end
vim.cmd('edit train.py')
assert(vim.wait(60000, function() return #diagnostics() > 0 end), 'no diagnostics came')
local found = diagnostics()[1]
say('found', found.code, found.lnum, found.col, found.source)
vim.api.nvim_win_set_cursor(0, { found.lnum + 1, found.col })
local params = vim.lsp.util.make_range_params()
params.context = { diagnostics = {}, only = { 'quickfix' } }
local answers = vim.lsp.buf_request_sync(0, 'textDocument/codeAction', params, 60000)
for id, answer in pairs(answers) do
  local action = answer.result[1]
  say('action', action.title)
  if not action.edit then
    action = vim.lsp.buf_request_sync(0, 'codeAction/resolve', action, 60000)[id].result
  end
  vim.lsp.util.apply_workspace_edit(action.edit, vim.lsp.get_client_by_id(id).offset_encoding)
end
assert(vim.wait(60000, function() return #diagnostics() == 0 end), 'the finding stayed')
say('line', vim.api.nvim_buf_get_lines(0, 6, 7, false)[1])
vim.cmd('qall!')
"""


def blocks(heading: str, language: str) -> list[str]:
    """The code that the guide gives under a heading, in a language."""
    section = GUIDE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return found


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed (`apt-get install neovim`)")
def test_neovim_shows_a_finding_and_mends_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / ".git").mkdir()
    version = subprocess.run(["nvim", "--version"], capture_output=True, text=True, check=True).stdout
    is_new = tuple(map(int, re.findall(r"v(\d+)\.(\d+)", version)[0])) >= (0, 11)
    (newest, older) = blocks("Neovim", "lua")
    (tmp_path / "init.lua").write_text(newest if is_new else older)
    (tmp_path / "drive.lua").write_text(DRIVE_NEOVIM)
    done = subprocess.run(
        ["nvim", "--headless", "--clean", "-u", "init.lua", "-c", "luafile drive.lua", "-c", "cquit"],
        cwd=tmp_path,
        env=with_lintrain(tmp_path),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    said = done.stdout.splitlines()
    assert said == [
        "found missing-zero-grad 6 12 lintrain",
        "action lintrain: insert `optimizer.zero_grad()` before `backward`",
        "line     '🙂'; optimizer.zero_grad(); loss.backward()",
    ], done.stderr


def with_lintrain(folder: Path) -> dict[str, str]:
    """The variables of a user who has `lintrain` on the search path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    return {**os.environ, **home, "PATH": path, "PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(folder)}


def test_the_guide_names_every_setting() -> None:
    from dataclasses import fields

    from lintrain.server.client_settings import ClientSettings, ProbeSettings, camel

    named = set(re.findall(r"^\| `([\w.]+)`", GUIDE, re.MULTILINE))
    probe = {f"probe.{camel(each.name)}" for each in fields(ProbeSettings)}
    assert named == {camel(each.name) for each in fields(ClientSettings)} - {"probe"} | probe
