"""Chats that a script encodes with its tokenizer's template: what it is given back."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.evidence.run import EncodedChat
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.probe_session import ProbeSession


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Look at every call of a tokenizer's method; a data set makes thousands of one kind."""
    found: dict[EncodedChat, None] = {}
    session.objects.add("chats", lambda _: list(found))
    module = "transformers.tokenization_utils_base"
    hooks.add(module, lambda loaded: _watch(found, loaded.PreTrainedTokenizerBase))


def _watch(found: dict[EncodedChat, None], tokenizer: Any) -> None:
    encode = tokenizer.apply_chat_template

    @functools.wraps(encode)
    def apply_chat_template(self: Any, *args: Any, **kwargs: Any) -> Any:
        encoded = encode(self, *args, **kwargs)
        location = frame_location(users_frame())
        if location is not None:
            found[EncodedChat(location, type(encoded).__name__, _columns(encoded))] = None
        return encoded

    tokenizer.apply_chat_template = apply_chat_template


def _columns(encoded: Any) -> tuple[str, ...]:
    is_columns = is_mapping(encoded) or type(encoded).__name__ == "BatchEncoding"
    return tuple(map(str, encoded.keys())) if is_columns else ()
