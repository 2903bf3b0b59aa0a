"""What runs without being installed: lintrain with the packages that it needs to check, none of them compiled.

    python -m tools.bundle WHEEL FOLDER    write `FOLDER/lintrain.pyz` and `FOLDER/server` from a wheel of lintrain

`server` is a folder, which the extension for VS Code contains; the zipapp holds the same files and unpacks them into
the user's cache folder at its first run. Both check scripts and serve editors. Fixes, undefined names and probes need
compiled packages: they are used if the Python that runs a bundle has them.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
REQUIREMENTS = HERE / "bundled.txt"
ENTRY = HERE / "bundled_entry.py"
STAMP = (1980, 1, 1, 0, 0, 0)
"""The time of every file in the zipapp, so that the same files give the same bytes."""
NEEDLESS = ("bin", "__pycache__")
SHEBANG = b"#!/usr/bin/env python3\n"

Fill = Callable[[Path], None]


def main(arguments: Sequence[str]) -> int:
    """Write both forms from a wheel."""
    if len(arguments) != 2:
        print(__doc__)
        return 2
    wheel, folder = Path(arguments[0]).resolve(), Path(arguments[1]).resolve()
    server = write_folder(folder / "server", wheel, download)
    write_zipapp(server, folder / "lintrain.pyz")
    for line in bundled():
        print(line)
    return 0


def bundled() -> Iterator[str]:
    """A line for each package of a bundle: its digest, name and version."""
    for name, digest in re.findall(r"^(\S+) --hash=sha256:(\w+)$", REQUIREMENTS.read_text("utf-8"), re.MULTILINE):
        yield f"{digest}  {name}"


def download(packages: Path) -> None:
    """Install the required packages into a folder: the very wheels whose digests are known, and no compiled one."""
    only_pure = ("--only-binary=:all:", "--platform", "any", "--implementation", "py", "--abi", "none")
    exactly = ("--no-deps", "--no-compile", "--require-hashes", "--python-version", "3.11", *only_pure)
    words = ("install", "--quiet", "--disable-pip-version-check", "--target", str(packages), *exactly)
    subprocess.run([sys.executable, "-m", "pip", *words, "--requirement", str(REQUIREMENTS)], check=True)


def write_folder(folder: Path, wheel: Path, fill: Fill) -> Path:
    """The bundle as a folder: `run.py` next to the packages; `fill` puts the required ones there."""
    shutil.rmtree(folder, ignore_errors=True)
    packages = folder / "packages"
    packages.mkdir(parents=True)
    fill(packages)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    for path in [path for name in NEEDLESS for path in packages.rglob(name) if path.is_dir()]:
        shutil.rmtree(path)
    compiled = [path.name for path in packages.rglob("*") if path.suffix in (".so", ".pyd", ".dll", ".dylib")]
    if compiled:
        raise ValueError(f"compiled files do not run everywhere: {', '.join(compiled)}")
    shutil.copyfile(ENTRY, folder / "run.py")
    (folder / "digest").write_text(digest_of(folder), encoding="ascii")
    return folder


def digest_of(folder: Path) -> str:
    """A digest of the names and contents of all files of a bundle."""
    digest = hashlib.sha256()
    for name, path in _files(folder):
        if name != "digest":
            digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def write_zipapp(folder: Path, file: Path) -> None:
    """The bundle as one file that Python runs; equal folders give equal bytes."""
    with tempfile.TemporaryFile() as content:
        with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, path in [("__main__.py", ENTRY), *_files(folder)]:
                entry = zipfile.ZipInfo(name, STAMP)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        content.seek(0)
        with file.open("wb") as written:
            written.write(SHEBANG)
            shutil.copyfileobj(content, written)
    file.chmod(0o755)


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files of a folder by name, in order; none that a run has compiled."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    yield from sorted((path.relative_to(folder).as_posix(), path) for path in files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
