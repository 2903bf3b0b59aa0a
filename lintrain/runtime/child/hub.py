"""Pushes, uploads and logins of the libraries: answered as if they had succeeded, and not executed.

A script that pushes before it trains can continue. That nothing is sent does not depend on this: `network` stops the
requests. Files that libraries write are the task of `files`, but for logs that TensorFlow writes past it.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute
from lintrain.runtime.child.probe_session import ProbeSession

CHANGES = re.compile(
    r"(?:accept|add|batch|cancel|change|comment|copy|create|delete|disable|duplicate|edit|enable|grant|hide|like|merge|move"
    r"|pause|permanently|preupload|reject|rename|request|rerun|restart|resume|run_job|run_uv|scale|set|super|suspend"
    r"|sync_bucket|trigger|unlike|update|upload)(?:_|$)"
)
"""Methods of `HfApi` that change something, by their first word."""

LOGINS = ("login", "notebook_login", "interpreter_login")

PUSHES = (
    ("transformers.utils.hub", "PushToHubMixin"),
    ("transformers.modeling_utils", "PreTrainedModel"),
    ("datasets.arrow_dataset", "Dataset"),
    ("datasets.dataset_dict", "DatasetDict"),
    ("datasets.dataset_dict", "IterableDatasetDict"),
    ("datasets.iterable_dataset", "IterableDataset"),
    ("huggingface_hub.hub_mixin", "ModelHubMixin"),
    ("huggingface_hub.repocard", "RepoCard"),
    ("sentence_transformers.base.model", "BaseModel"),
    ("sentence_transformers.SentenceTransformer", "SentenceTransformer"),
    ("sentence_transformers.cross_encoder.CrossEncoder", "CrossEncoder"),
    ("setfit.span.modeling", "AbsaModel"),
    ("evaluate.hub", ""),
    ("huggingface_hub.fastai_utils", ""),
    ("timm.models._hub", ""),
)
"""Modules, and the classes in them (empty: the module itself) whose functions push."""
NAMES_OF_PUSHES = ("push_to_hub", "save_to_hub", "push_to_hub_fastai", "push_to_hf_hub")

SAVED = (
    ("transformers.modeling_utils", "PreTrainedModel"),
    ("transformers.tokenization_utils_base", "PreTrainedTokenizerBase"),
    ("transformers.configuration_utils", "PreTrainedConfig"),
    ("transformers.configuration_utils", "PretrainedConfig"),
)


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Replace what pushes, and redirect TensorBoard's logs, as the libraries are imported."""
    hooks.add("huggingface_hub.hf_api", functools.partial(_stop_changes, session))
    hooks.add("huggingface_hub._login", lambda module: _stop_logins(session, module))
    for module, owner in PUSHES:
        hooks.add(module, functools.partial(_stop_pushes, session, owner))
    for module, name in SAVED:
        hooks.add(module, functools.partial(_save_without_upload, session, name))
    hooks.add("torch.utils.tensorboard.writer", lambda module: _redirect_logs(session, module.SummaryWriter))


def _stop_changes(session: ProbeSession, module: Any) -> None:
    """The methods of `HfApi`, and the functions of the module that were made of them."""
    stopped = dict[str, Any]()
    methods: dict[str, Any] = dict(module.HfApi.__dict__)
    functions: dict[str, Any] = dict(module.__dict__)
    for name, function in methods.items():
        # By the first word of a method: a version of the library with a new `update_...` is covered without
        # a list of its methods.
        if isinstance(function, types.FunctionType) and CHANGES.match(name):
            stopped[name] = stand_in(session, name, function, functools.partial(_answer, module, function))
            setattr(module.HfApi, name, stopped[name])
    # `huggingface_hub.create_repo` is `HfApi().create_repo`, bound when the module was imported: changing the
    # class does not reach it.
    for name, function in functions.items():
        if isinstance(function, types.MethodType) and function.__name__ in stopped:
            setattr(module, name, types.MethodType(stopped[function.__name__], function.__self__))


def _answer(module: Any, function: Any, values: dict[str, Any]) -> Any:
    """What the method returns after a success, as far as callers use it."""
    gives = str(attribute(function, "__annotations__", {}).get("return", ""))
    repository = str(values.get("repo_id") or values.get("to_id") or "user/repository")
    kind = values.get("repo_type") or "model"
    address = "/".join(
        filter(
            None,
            (
                str(attribute(values.get("self"), "endpoint", "") or module.constants.ENDPOINT),
                "" if kind == "model" else f"{kind}s",
                repository if "/" in repository else f"user/{repository}",
            ),
        )
    )
    # Annotations decide, since scripts read `.commit_url` or print the address; `Future[CommitInfo]` is only one of two
    # forms of the same method, and the other one is what a plain call gets.
    if "CommitInfo" in gives and "Future" not in gives.replace("Future[CommitInfo]", ""):
        commit = {"commit_url": f"{address}/commit/{'0' * 40}", "commit_message": "", "commit_description": ""}
        found: Any = module.CommitInfo(**commit, oid="0" * 40)
    elif "RepoUrl" in gives:
        found = module.RepoUrl(address)
    else:
        found = None
    return _in_future(found) if values.get("run_as_future") else found


def _in_future(value: Any) -> Any:
    from concurrent.futures import Future

    found: Future[Any] = Future()
    found.set_result(value)
    return found


def _stop_logins(session: ProbeSession, module: Any) -> None:
    """No login asks for a token; downloads still find one that was saved before."""
    # A saved token stays in use: gated models have to load as they do without a probe.
    for name in LOGINS:
        if (original := attribute(module, name, None)) is not None:
            setattr(module, name, stand_in(session, name, original, lambda _values: None))


def _stop_pushes(session: ProbeSession, owner: str, module: Any) -> None:
    found = attribute(module, owner, None) if owner else module
    for name in NAMES_OF_PUSHES:
        # A class that only inherits `push_to_hub` has it replaced at its base already; a second wrapper
        # would note each call twice.
        if name in vars(found if found is not None else object):
            setattr(found, name, stand_in(session, name, vars(found)[name], lambda _values: None))


def stand_in(session: ProbeSession, name: str, original: Any, answer: Callable[[dict[str, Any]], Any]) -> Any:
    """A function that notes its call and returns an answer without doing anything."""

    @functools.wraps(original)
    def nothing(*args: Any, **kwargs: Any) -> Any:
        if session.is_root:
            session.note(f"`{name}` was called but not executed")
        else:
            # Notes of a child process do not reach the report; the gate's file does, because the parent reads it.
            session.network.gate.write_down(f"`{name}` in a process that the script started")
        try:
            return answer(_bound(original, args, kwargs))
        # The answer is a courtesy. A script that ignores the result of a push continues with None just as well.
        except Exception:  # noqa: BLE001 - whatever a version of the library needs for its answer
            return None

    return nothing


def _bound(original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    import inspect

    return dict(inspect.signature(original).bind_partial(*args, **kwargs).arguments)


def _save_without_upload(session: ProbeSession, name: str, module: Any) -> None:
    owner = attribute(module, name, None)
    # `PretrainedConfig` and `PreTrainedConfig` are one class in versions that renamed it: it is wrapped once.
    if owner is None or "lintrain_saves" in vars(owner):
        return
    save = owner.save_pretrained

    @functools.wraps(save)
    def save_pretrained(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.pop("push_to_hub", False):
            session.note("`push_to_hub` was requested but not executed")
        return save(self, *args, **kwargs)

    owner.save_pretrained, owner.lintrain_saves = save_pretrained, True


def _redirect_logs(session: ProbeSession, writer: Any) -> None:
    """Where TensorFlow is installed, its own code writes the logs, past the guard."""
    build = writer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        # The path is given to native code, which opens it past the replaced functions of `os`.
        kwargs["log_dir"] = session.folder("tensorboard")
        build(self, *args[1:], **kwargs)

    writer.__init__ = init
