"""Leave nothing behind: trackers and uploads off, and whatever the libraries would write sent to a temporary folder."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from lintrain.probe.child.hooks import AfterImport
from lintrain.probe.child.session import Session

UPLOADS = (
    "create_branch",
    "create_commit",
    "create_repo",
    "create_tag",
    "delete_file",
    "delete_folder",
    "delete_repo",
    "update_repo_settings",
    "upload_file",
    "upload_folder",
    "upload_large_folder",
)

SAVED = (
    ("transformers.modeling_utils", "PreTrainedModel"),
    ("transformers.tokenization_utils_base", "PreTrainedTokenizerBase"),
    ("transformers.configuration_utils", "PreTrainedConfig"),
    ("transformers.configuration_utils", "PretrainedConfig"),
)


def install(session: Session, hooks: AfterImport) -> None:
    """Patch the writing ends of the libraries as they are imported."""
    saved: dict[str, str] = {}
    hooks.add("huggingface_hub.hf_api", lambda module: _stop_uploads(session, module.HfApi))
    hooks.add("huggingface_hub._login", lambda module: _stop(session, module, "login"))
    hooks.add("transformers.utils.hub", lambda module: _stop(session, module.PushToHubMixin, "push_to_hub"))
    hooks.add("torch.utils.tensorboard.writer", lambda module: _redirect_logs(session, module.SummaryWriter))
    hooks.add("datasets.arrow_dataset", lambda module: _redirect_dataset(session, module.Dataset))
    hooks.add("datasets.builder", lambda module: _redirect_builder(session, module.DatasetBuilder))
    for module, name in SAVED:
        hooks.add(module, functools.partial(_redirect_saving, session, saved, name))
    hooks.add("transformers.models.auto.auto_factory", functools.partial(_follow_auto, saved))
    hooks.add("transformers.models.auto.tokenization_auto", functools.partial(_follow_tokenizer, saved))


def _stop_uploads(session: Session, api: Any) -> None:
    for name in UPLOADS:
        if hasattr(api, name):
            _stop(session, api, name)


def _stop(session: Session, owner: Any, name: str) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def nothing(*args: Any, **kwargs: Any) -> None:
        session.note(f"`{name}` was called and not carried out")

    setattr(owner, name, nothing)


def _redirect_logs(session: Session, writer: Any) -> None:
    build = writer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["log_dir"] = session.folder("tensorboard")
        build(self, *args[1:], **kwargs)

    writer.__init__ = init


def _redirect_saving(session: Session, saved: dict[str, str], name: str, module: Any) -> None:
    """Save to a temporary folder, and load from there what the script saved before."""
    owner = getattr(module, name, None)
    if owner is None or "lintrain_saves" in vars(owner):
        return
    save, load = owner.save_pretrained, owner.from_pretrained.__func__

    @functools.wraps(save)
    def save_pretrained(self: Any, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("push_to_hub", None)
        return save(self, _aside(session, saved, save_directory), *args, **kwargs)

    owner.save_pretrained = save_pretrained
    owner.from_pretrained = classmethod(_following(saved, load))
    owner.lintrain_saves = True


def _aside(session: Session, saved: dict[str, str], target: Any) -> str:
    asked = os.path.abspath(str(target))
    if asked.startswith(session.temporary):
        return asked
    return saved.setdefault(asked, session.folder(f"saved-{len(saved)}"))


def _following(saved: dict[str, str], load: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(load)
    def from_pretrained(cls: Any, name: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(cls, _followed(saved, name), *args, **kwargs)

    return from_pretrained


def _followed(saved: dict[str, str], name: Any) -> Any:
    return saved.get(os.path.abspath(str(name)), name) if saved else name


def _follow_auto(saved: dict[str, str], module: Any) -> None:
    owner = module._BaseAutoModelClass
    owner.from_pretrained = classmethod(_following(saved, owner.from_pretrained.__func__))


def _follow_tokenizer(saved: dict[str, str], module: Any) -> None:
    owner = module.AutoTokenizer
    owner.from_pretrained = classmethod(_following(saved, owner.from_pretrained.__func__))


def _redirect_dataset(session: Session, dataset: Any) -> None:
    """Caches that exist are read; new ones, and what `save_to_disk` writes, go to the temporary folder."""
    cache_path, save = dataset._get_cache_file_path, dataset.save_to_disk

    @functools.wraps(cache_path)
    def get_cache_file_path(self: Any, fingerprint: str) -> str:
        path: str = cache_path(self, fingerprint)
        return path if os.path.exists(path) else os.path.join(session.folder("cache"), os.path.basename(path))

    @functools.wraps(save)
    def save_to_disk(self: Any, dataset_path: Any, *args: Any, **kwargs: Any) -> Any:
        name = os.path.basename(os.path.normpath(str(dataset_path)))
        return save(self, os.path.join(session.folder("datasets"), name), *args, **kwargs)

    dataset._get_cache_file_path, dataset.save_to_disk = get_cache_file_path, save_to_disk


def _redirect_builder(session: Session, builder: Any) -> None:
    """Data made from local files goes to the temporary folder unless the cache has it; hub data is cached as always."""
    prepare = builder.download_and_prepare

    @functools.wraps(prepare)
    def download_and_prepare(self: Any, *args: Any, **kwargs: Any) -> Any:
        is_local = getattr(self, "repo_id", None) is None
        if is_local and not (args and args[0]) and not kwargs.get("output_dir") and not os.path.exists(self._cache_dir):
            root = session.folder("prepared")
            inside = os.path.relpath(str(self._cache_dir), str(self._cache_dir_root))
            self._cache_dir = os.path.join(root, inside)
            self._cache_dir_root = root
            self._output_dir = self._cache_dir
        return prepare(self, *args, **kwargs)

    builder.download_and_prepare = download_and_prepare
