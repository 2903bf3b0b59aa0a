"""Runs the lintrain of a bundle: as `run.py` in its folder, and as `__main__.py` of the zipapp.

lintrain reads rules and tables from files, so a zipapp unpacks itself at its first run: into a folder of the user that
is named after its content, and that nobody else may write to. Without such a folder, it uses one that it removes.
"""

# An old Python must be able to read this far, and a zipapp starts without `pathlib`.
import atexit
import os
import shutil
import stat
import sys
import tempfile


def main() -> None:
    if sys.version_info < (3, 11):
        sys.exit("lintrain needs Python 3.11 or newer; %s is %s" % (sys.executable, sys.version.split()[0]))
    here = os.path.dirname(os.path.abspath(__file__))
    folder = here if os.path.isdir(here) else unpacked(here)
    packages = os.path.join(folder, "packages")
    sys.path[:1] = [packages] if sys.path[:1] in ([here], [""]) else [packages, *sys.path[:1]]
    from lintrain.cli import main as run

    run()


def unpacked(archive: str) -> str:
    """The folder in which the files of this zipapp are."""
    import zipfile

    with zipfile.ZipFile(archive) as content:
        name = "zipapp-" + content.read("digest").decode("ascii")[:32]
        around = os.path.join(cache_folder(), "lintrain")
        kept = os.path.join(around, name)
        if is_private(kept):
            return kept
        try:
            os.makedirs(around, mode=0o700, exist_ok=True)
            new = tempfile.mkdtemp(prefix=name + ".", dir=around)
        except OSError:
            new = tempfile.mkdtemp(prefix="lintrain-")
            atexit.register(shutil.rmtree, new, ignore_errors=True)
            content.extractall(new)
            return new
        content.extractall(new)
    try:
        os.rename(new, kept)
    except OSError:  # another run was faster, or the folder is not ours
        if is_private(kept):
            shutil.rmtree(new, ignore_errors=True)
            return kept
        atexit.register(shutil.rmtree, new, ignore_errors=True)
        return new
    return kept


def cache_folder() -> str:
    """The cache folder of the user; a relative one would be in the project under check."""
    named = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "")
    return named if os.path.isabs(named) else os.path.join(os.path.expanduser("~"), ".cache")


def is_private(folder: str) -> bool:
    """Whether a folder is there, is no link, and only this user may write into it and rename it."""
    try:
        states = [os.lstat(folder), os.stat(os.path.dirname(folder))]
    except OSError:
        return False
    if not hasattr(os, "geteuid"):
        return all(stat.S_ISDIR(state.st_mode) for state in states)
    return all(
        stat.S_ISDIR(state.st_mode)
        and state.st_uid == os.geteuid()
        and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        for state in states
    )


if __name__ == "__main__":
    main()
