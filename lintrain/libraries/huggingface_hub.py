"""Folders that hold a downloaded checkpoint: what is loaded from one is the checkpoint."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.values.python import Unknown, Value, is_missing, literal, text_of


@function(
    "huggingface_hub.snapshot_download",
    "modelscope.snapshot_download",
    "modelscope.hub.snapshot_download.snapshot_download",
)
def _download(call: Call) -> Value:
    """`snapshot_download("gpt2", local_dir=folder)`: the folder, which is not known unless it is given."""
    name = call.value("model_id" if call.path.startswith("modelscope") else "repo_id", 0)
    given = call.value("local_dir")
    folder = Unknown(name="snapshot_download") if is_missing(given) else given
    if text_of(name) is not None and literal(call.value("repo_type")) in {None, "model"} and not call.is_open:
        call.reader.record.downloads.append((folder, name))
    return folder


def downloaded(reader: Reader, checkpoint: Value) -> Value:
    """The checkpoint in a folder that the script downloaded; anything else as it is."""
    path = text_of(checkpoint)
    for folder, name in reversed(reader.record.downloads):
        # Two folders that are not known are the same only as one object; paths are compared by their text.
        if folder is checkpoint or (path is not None and path == text_of(folder)):
            return name
    return checkpoint
