"""Attacks by what a repository, or an environment, tells git to start."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.commands import lintrain
from tests.support.repositories import assert_nothing_ran, changed, configure, git, repository, trap

FILTERS = {
    "invalid-byte": b"\xff",
    "plain": b"clean",
    "equals-sign": b"a=b",
    "continued": b"a\\tb",
    "dotted": b"a.clean.b",
    "quoted": b'a\\"b',
    "half-a-character": b"\xc3",
}


@attack("git-starts-nothing", cases=FILTERS)
def filter_called(folder: Path, name: bytes) -> None:
    """A filter whose `clean` is a program, under a name that a list of filters may miss."""
    top, program = repository(folder), os.fsencode(trap(folder))
    configure(top, b'[filter "%b"]\n\tclean = %b\n\trequired = true\n' % (name, program))
    (top / ".gitattributes").write_bytes(b"*.py filter=%b\n" % name.replace(b"\\", b""))
    ended = changed(top, variables={"LC_ALL": "C.UTF-8"})
    assert not (folder / "mark").exists(), ended.text
    assert b"train.py" in ended.out, ended.text


SETTINGS = {
    "process-filter": '[filter "x\xff"]\n\tprocess = {trap}\n\trequired = true',
    "fsmonitor": "[core]\n\tfsmonitor = {trap}\n\tfsmonitorHookVersion = 2",
    "external-diff": "[diff]\n\texternal = {trap}",
    "textconv": '[diff "x"]\n\ttextconv = {trap}\n\tcommand = {trap}\n\tcachetextconv = true',
    "hooks": "[core]\n\thooksPath = ../hooks",
    "included": "[include]\n\tpath = ../../more",
    "included-by-place": '[includeIf "gitdir:**"]\n\tpath = ../../more',
    "work-tree-configuration": "[extensions]\n\tworktreeConfig = true\n[core]\n\trepositoryformatversion = 1",
    "others": "[core]\n\tpager = {trap}\n\teditor = {trap}\n\taskPass = {trap}\n\tsshCommand = {trap}\n"
    "\tgitProxy = {trap}\n\talternateRefsCommand = {trap}\n[credential]\n\thelper = {trap}\n[gpg]\n\tprogram = {trap}\n"
    "[log]\n\tshowSignature = true\n[alias]\n\trev-parse = !{trap}\n\tls-files = !{trap}\n"
    "[pager]\n\tdiff-index = {trap}\n\tls-files = {trap}\n[interactive]\n\tdiffFilter = {trap}\n"
    '[trailer "x"]\n\tcommand = {trap}\n[sequence]\n\teditor = {trap}',
}


@attack("git-starts-nothing", cases=SETTINGS)
def setting_of(folder: Path, text: str) -> None:
    """A setting that names a program which git would start beside a question."""
    top, program = repository(folder), trap(folder)
    (folder / "more").write_text(f'[filter "x"]\n\tclean = {program}\n')
    (folder / "hooks").mkdir()
    for name in ("post-index-change", "reference-transaction", "pre-auto-gc"):
        shutil.copy(program, folder / "hooks" / name)
    configure(top, text.format(trap=program).encode("latin-1"))
    shutil.copy(folder / "more", top / ".git" / "config.worktree")
    named = b"x\xff" if "\xff" in text else b"x"
    (top / ".git" / "info" / "attributes").write_bytes(b"*.py filter=%b diff=%b\n" % (named, named))
    git_dir = {"XDG_CONFIG_HOME": str(folder / "nothing")}
    assert_nothing_ran(folder, changed(top, variables=git_dir))


VARIABLES = {
    "GIT_EXTERNAL_DIFF": "{trap}",
    "GIT_SSH_COMMAND": "{trap}",
    "GIT_CONFIG_GLOBAL": "{folder}/more",
    "GIT_CONFIG_SYSTEM": "{folder}/more",
    "XDG_CONFIG_HOME": "{folder}/home",
    "GIT_CONFIG_PARAMETERS": "'filter.x.clean'='{trap}' 'diff.external'='{trap}'",
    "GIT_EXEC_PATH": "{folder}/hooks",
    "GIT_TRACE": "{folder}/mark",
    "GIT_TRACE2_EVENT": "{folder}/mark",
    "GIT_TRACE_SETUP": "{folder}/mark",
}


@attack("git-starts-nothing", cases=[*VARIABLES])
def variable_called(folder: Path, name: str) -> None:
    """A variable of the environment that makes git start a program or write to a file."""
    top, program = repository(folder), trap(folder)
    (folder / "home" / "git").mkdir(parents=True)
    (folder / "hooks").mkdir()
    shutil.copy(program, folder / "hooks" / "git-rev-parse")
    (folder / "more").write_text(f'[filter "x"]\n\tclean = {program}\n[core]\n\tfsmonitor = {program}\n')
    shutil.copy(folder / "more", folder / "home" / "git" / "config")
    (top / ".git" / "info" / "attributes").write_text("*.py filter=x\n")
    value = VARIABLES[name].format(trap=program, folder=folder)
    assert_nothing_ran(folder, changed(top, variables={name: value}))


@attack(
    "git-starts-nothing", cases={"clone": "ext::{trap}", "ssh": "ssh://host.invalid/x", "uploadpack": "file://{folder}"}
)
def missing_object(folder: Path, url: str) -> None:
    """A promised object that is not there, which git would have fetched by a program of the configuration."""
    top, program = repository(folder), trap(folder)
    told = f"\turl = {url.format(trap=program, folder=folder)}\n\tpromisor = true\n\tuploadpack = {program}\n"
    configure(top, f'[remote "origin"]\n{told}\tpartialclonefilter = tree:0\n'.encode())
    configure(top, f"[core]\n\tsshCommand = {program}\n\trepositoryformatversion = 1\n".encode())
    configure(top, b"[extensions]\n\tpartialClone = origin\n[protocol]\n\tallow = always\n")
    tree = git(top, "rev-parse", "HEAD^{tree}")
    (top / "other.py").write_text("import torch\n")
    git(top, "add", "other.py")
    git(top, "commit", "-qm", "more")
    (top / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    ended = changed(top, "HEAD~1")
    assert not (folder / "mark").exists(), ended.text
    assert ended.code == 2, ended.text
    assert b"--changed-since HEAD~1: git " in ended.errors, ended.text


@attack("git-starts-nothing")
def submodule_with_a_monitor(folder: Path) -> None:
    """A submodule whose own configuration names programs."""
    top, program = repository(folder), trap(folder)
    (folder / "second").mkdir()
    inner = repository(folder / "second")
    git(top, "submodule", "add", "-q", str(inner), "inner")
    git(top, "commit", "-qm", "with it", "--", ".gitmodules", "inner")
    modules = top / ".git" / "modules" / "inner" / "config"
    modules.write_text(f'{modules.read_text()}\n[core]\n\tfsmonitor = {program}\n[filter "x"]\n\tclean = {program}\n')
    (top / ".git" / "modules" / "inner" / "info" / "attributes").write_text("*.py filter=x\n")
    os.utime(top / "inner" / "train.py", (1, 1))
    git(top, "config", "submodule.inner.update", f"!{program}")
    assert_nothing_ran(folder, changed(top))
    ended = changed(top / "inner")
    assert (ended.code, (folder / "mark").exists()) == (0, False), ended.text


@attack("git-starts-nothing")
def configuration_named_by_the_git_file(folder: Path) -> None:
    """A `.git` file that names a folder elsewhere, whose `commondir` names yet another one, with programs in both."""
    top, program = repository(folder), trap(folder)
    (top / ".git").rename(folder / "common")
    linked = folder / "linked"
    linked.mkdir()
    for name in ("HEAD", "index"):
        shutil.copy(folder / "common" / name, linked / name)
    (linked / "commondir").write_text("../common\n")
    (top / ".git").write_text(f"gitdir: {linked}\n")
    for config in (linked / "config", linked / "config.worktree", folder / "common" / "config"):
        config.write_text(f'[core]\n\tfsmonitor = {program}\n[filter "x"]\n\tclean = {program}\n')
    (top / ".gitattributes").write_text("*.py filter=x\n")
    (top / ".git-ignored").touch()
    ended = changed(top)
    assert (ended.out, (folder / "mark").exists()) == (b"train.py\n", False), ended.text


REVISIONS = {
    "option": "--output={folder}/mark",
    "other-option": "-O{folder}/mark",
    "range": "HEAD..HEAD",
    "newline": "HEAD\nHEAD",
    "file": ":train.py",
    "all": "--all",
    "upload": "--upload-pack={trap}",
    "upstream-of-a-program": "@{{upstream}}",
}


@attack("revisions-are-names", cases=REVISIONS)
def revision_called(folder: Path, revision: str) -> None:
    """A revision that git could take for an option, a range or a question to a remote."""
    top, program = repository(folder), trap(folder)
    configure(top, f'[branch "main"]\n\tremote = ext::{program}\n\tmerge = refs/heads/main\n'.encode())
    said = revision.format(folder=folder, trap=program)
    ended = changed(top, said)
    assert ended.code == 2, ended.text
    assert b"git knows no revision" in ended.errors, ended.text
    assert not (folder / "mark").exists()


@attack("git-starts-nothing")
def bare_repository_in_the_project(folder: Path) -> None:
    """A folder that is itself a bare repository with programs, in which somebody starts a check."""
    top, program = repository(folder), trap(folder)
    bare = top / "data"
    git(top, "clone", "-q", "--bare", str(top), str(bare))
    (bare / "config").write_text(f"[core]\n\tbare = false\n\tworktree = {bare}\n\tfsmonitor = {program}\n")
    (bare / "new.py").write_text("import torch\n")
    ended = lintrain(bare, "check", "--changed-since", "HEAD", "--show-files")
    assert (ended.out, (folder / "mark").exists()) == (b"new.py\n", False), ended.text
