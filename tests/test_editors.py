"""Real editors drive the server, configured as docs/editors.md says; one that is not installed is skipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
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


DRIVE_EMACS = """
(remove-hook 'python-mode-hook #'eglot-ensure)
(require 'flymake)
(defun say (&rest parts) (princ (concat (mapconcat (lambda (part) (format "%s" part)) parts " ") "\n")))
(defun wait-until (is-so)
  (let ((tries 600))
    (while (and (> tries 0) (not (funcall is-so)))
      (setq tries (1- tries))
      (accept-process-output nil 0.1))
    (unless (> tries 0) (error "waited in vain"))))
(setq eglot-sync-connect 60 eglot-connect-timeout 60)
(find-file "train.py")
(python-mode)
(call-interactively #'eglot)
(wait-until (lambda () (flymake-start) (flymake-diagnostics)))
(let ((found (car (flymake-diagnostics))))
  (say "found" (line-number-at-pos (flymake-diagnostic-beg found))
       (buffer-substring-no-properties (flymake-diagnostic-beg found) (flymake-diagnostic-end found)))
  (goto-char (flymake-diagnostic-beg found)))
(eglot-code-actions (point) (point) "source.fixAll" t)
(goto-char (point-min))
(search-forward "zero_grad")
(say "line" (buffer-substring-no-properties (line-beginning-position) (line-end-position)))
(eglot-shutdown (eglot-current-server))
"""

DRIVE_VIM = """
set nocompatible
let s:tries = 0
function! Found()
  return ale#engine#GetLoclist(bufnr(''))
endfunction
edit train.py
call ale#Queue(0)
while empty(Found()) && s:tries < 600
  sleep 100m
  let s:tries += 1
endwhile
let s:found = Found()[0]
call writefile([s:found.lnum . ' ' . s:found.col . ' ' . s:found.code . ' ' . s:found.linter_name], 'said')
qall!
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


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("emacs") is None, reason="Emacs is not installed (`apt-get install emacs-nox elpa-eglot`)"
)
def test_emacs_shows_a_finding_and_fixes_all(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "init.el").write_text(f"(package-initialize)\n{blocks('Emacs', 'elisp')[0]}")
    (tmp_path / "drive.el").write_text(DRIVE_EMACS)
    done = subprocess.run(
        ["emacs", "--batch", "-l", "init.el", "-l", "drive.el"],
        cwd=tmp_path,
        env=with_lintrain(tmp_path),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.stdout.splitlines() == [
        "found 7 loss.backward()",
        "line     '🙂'; optimizer.zero_grad(); loss.backward()",
    ], done.stderr


ALE = Path("/usr/share/vim-ale")


@pytest.mark.slow
@pytest.mark.skipif(not ALE.is_dir(), reason="Vim's ALE is not installed (`apt-get install vim-ale`)")
def test_vim_with_ale_shows_a_finding(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    above = f"set nocompatible runtimepath^={ALE}\nfiletype plugin on\nruntime plugin/ale.vim\n"
    (tmp_path / "vimrc").write_text(above + blocks("Vim with ALE", "vim")[0])
    (tmp_path / "drive.vim").write_text(DRIVE_VIM)
    done = subprocess.run(
        ["vim", "-Nu", "vimrc", "-i", "NONE", "-es", "-S", "drive.vim"],
        cwd=tmp_path,
        env=with_lintrain(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert (tmp_path / "said").read_text() == "7 11 missing-zero-grad lintrain\n", done


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("hx") is None, reason="Helix is not installed (from Debian 13 on: `apt-get install hx`)"
)
def test_helix_shows_a_finding_and_mends_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helix").mkdir()
    (tmp_path / "helix" / "languages.toml").write_text(blocks("Helix", "toml")[0])
    terminal = pexpect.spawn(
        "hx",
        ["train.py:7:15"],
        cwd=tmp_path,
        env={**with_lintrain(tmp_path), "TERM": "xterm-256color"},
        dimensions=(30, 110),
        timeout=100,
        encoding="utf-8",
    )
    terminal.expect_exact("missing-zero-grad")
    terminal.send(" a")
    terminal.expect_exact("lintrain: insert")
    terminal.send("\r:write-quit\r")
    terminal.expect(pexpect.EOF)
    assert (tmp_path / "train.py").read_text() == SCRIPT.replace("loss.b", "optimizer.zero_grad(); loss.b")


def with_lintrain(folder: Path) -> dict[str, str]:
    """The variables of a user who has `lintrain` on the search path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    home = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    return {**os.environ, **home, "PATH": path, "PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(folder)}


def test_the_guide_names_every_setting() -> None:
    from dataclasses import fields

    from lintrain.server.project import ClientSettings, ProbeSettings, camel

    named = set(re.findall(r"^\| `([\w.]+)`", GUIDE, re.MULTILINE))
    probe = {f"probe.{camel(each.name)}" for each in fields(ProbeSettings)}
    assert named == {camel(each.name) for each in fields(ClientSettings)} - {"probe"} | probe
