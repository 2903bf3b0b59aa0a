"""The folders where libraries store their downloads: a probe may add to them, as any run of the script would."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where no kernel is asked to allow folders
    fcntl = None  # type: ignore[assignment]

TRIES = 5
"""Another probe may remove an empty folder between its creation here and its lock."""


def paths_of_downloads() -> tuple[str, ...]:
    """Folders of the Hugging Face hub and of `datasets`, of torch's hub, and those of other libraries that exist."""
    return tuple(str(path) for path in (*_made(), *(path for path in _others() if path.is_dir())))


def _made() -> tuple[Path, ...]:
    """Those that are made where they are missing, because a first download is large."""
    cache = _path("XDG_CACHE_HOME", "~/.cache")
    home = _path("HF_HOME", str(cache / "huggingface"))
    return (
        _path("HF_HUB_CACHE", os.environ.get("HUGGINGFACE_HUB_CACHE", str(home / "hub"))),
        _path("HF_XET_CACHE", str(home / "xet")),
        _path("HF_DATASETS_CACHE", str(home / "datasets")),
        _path("TORCH_HOME", str(cache / "torch")) / "hub",
    )


def _others() -> tuple[Path, ...]:
    keras = _path("KERAS_HOME", "~/.keras")
    return (
        keras / "datasets",
        keras / "models",
        _path("KAGGLEHUB_CACHE", "~/.cache/kagglehub"),
        _path("NLTK_DATA", "~/nltk_data"),
        _path("SCIKIT_LEARN_DATA", "~/scikit_learn_data"),
        _path("SENTENCE_TRANSFORMERS_HOME", "~/.cache/torch/sentence_transformers"),
        _path("TFDS_DATA_DIR", "~/tensorflow_datasets"),
        _path("TRITON_CACHE_DIR", "~/.triton/cache"),
        _path("CUDA_CACHE_PATH", "~/.nv/ComputeCache"),
    )


def _path(variable: str, default: str) -> Path:
    return Path(os.environ.get(variable) or default).expanduser().absolute()


@contextmanager
def download_folders() -> Generator[None]:
    """Have the folders there, because the kernel can only allow what exists; what stays empty goes again."""
    missing = {folder for path in _made() for folder in (path, *path.parents) if not folder.exists()}
    above = {folder.parent: folder.parent.stat() for folder in missing if folder.parent.exists()}
    with ExitStack() as locks:
        is_alone = {path: locks.enter_context(_held(path)) for path in _made()}
        try:
            yield
        finally:
            for folder in sorted(missing, key=lambda path: len(path.parts), reverse=True):
                # A folder that another probe has found here is one that its script may write to.
                if folder not in is_alone or is_alone[folder]():
                    with suppress(OSError):
                        folder.rmdir()
            for folder, before in above.items():
                if not any(one.parent == folder and one.exists() for one in missing):
                    with suppress(OSError):
                        os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


@contextmanager
def _held(path: Path) -> Generator[Callable[[], bool]]:
    """Make a folder and hold it, so that no other probe removes it; gives what says whether none holds it as well."""
    descriptor = _locked(path)
    try:
        yield lambda: descriptor is None or _lock(descriptor, is_shared=False)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked(path: Path) -> int | None:
    """The descriptor of a folder with a shared lock; None where folders cannot be made or locked."""
    for _ in range(TRIES):
        descriptor: int | None = None
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDONLY)
        if descriptor is None:
            continue
        with suppress(OSError):
            if _lock(descriptor, is_shared=True) and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)
    return None


def _lock(descriptor: int, *, is_shared: bool) -> bool:
    if fcntl is None:  # pyright: ignore[reportUnnecessaryComparison]
        return True
    with suppress(OSError):
        # A probe that is about to remove the folder holds it only for that moment: this is waited for.
        fcntl.flock(descriptor, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
