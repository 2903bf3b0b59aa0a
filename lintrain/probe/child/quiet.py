"""Trackers and uploads off; what the libraries write to the user's folders is the business of `files`."""

from __future__ import annotations

import functools
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

LOGINS = ("login", "notebook_login", "interpreter_login")

SAVED = (
    ("transformers.modeling_utils", "PreTrainedModel"),
    ("transformers.tokenization_utils_base", "PreTrainedTokenizerBase"),
    ("transformers.configuration_utils", "PreTrainedConfig"),
    ("transformers.configuration_utils", "PretrainedConfig"),
)


def install(session: Session, hooks: AfterImport) -> None:
    """Patch the sending ends of the libraries as they are imported."""
    hooks.add("huggingface_hub.hf_api", lambda module: _stop_uploads(session, module.HfApi))
    hooks.add("huggingface_hub._login", lambda module: _stop_logins(session, module))
    hooks.add("transformers.utils.hub", lambda module: _stop(session, module.PushToHubMixin, "push_to_hub"))
    hooks.add("torch.utils.tensorboard.writer", lambda module: _redirect_logs(session, module.SummaryWriter))
    for module, name in SAVED:
        hooks.add(module, functools.partial(_save_without_upload, session, name))


def _stop_uploads(session: Session, api: Any) -> None:
    for name in UPLOADS:
        if hasattr(api, name):
            _stop(session, api, name)


def _stop_logins(session: Session, module: Any) -> None:
    """Nobody is asked for a token; one that was saved before is found by the downloads as it is."""
    for name in LOGINS:
        _stop(session, module, name)


def _stop(session: Session, owner: Any, name: str) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def nothing(*args: Any, **kwargs: Any) -> None:
        session.note(f"`{name}` was called and not carried out")

    setattr(owner, name, nothing)


def _save_without_upload(session: Session, name: str, module: Any) -> None:
    owner = getattr(module, name, None)
    if owner is None or "lintrain_saves" in vars(owner):
        return
    save = owner.save_pretrained

    @functools.wraps(save)
    def save_pretrained(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("push_to_hub", False):
            session.note("`push_to_hub` was asked for and not carried out")
        return save(self, *args, **kwargs)

    owner.save_pretrained, owner.lintrain_saves = save_pretrained, True


def _redirect_logs(session: Session, writer: Any) -> None:
    """Where TensorFlow is installed, its own code writes the logs, past the guard."""
    build = writer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["log_dir"] = session.folder("tensorboard")
        build(self, *args[1:], **kwargs)

    writer.__init__ = init
