"""The folders where libraries store their downloads: a probe may add to them, as any run of the script would."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path


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
    for path in _made():
        with suppress(OSError):
            path.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for folder in sorted(missing, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):
                folder.rmdir()
        for folder, before in above.items():
            if not any(one.parent == folder and one.exists() for one in missing):
                with suppress(OSError):
                    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
