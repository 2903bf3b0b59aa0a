"""Modules that code imports by a text, and what a module has: `importlib.import_module(f"models.{name}")`."""

from __future__ import annotations

from lintrain.interpreter import imports, project_modules
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.pipeline.values.python import UNKNOWN, Value, text_of


@function("importlib.import_module")
def _import_module(call: Call) -> Value:
    name, package = text_of(call.value("name", 0)), call.argument("package", 1)
    if name is None or package is not None or name.startswith("."):
        return UNKNOWN
    # The name may come from an option. Then the module is the one by default, as a file of settings by default is read.
    call.reader.record.note_choice(call.value("name", 0))
    own = imports.own_module(call.reader, name)
    return project_modules.made_module(call.reader, own) if own is not None else imports.library(name)
