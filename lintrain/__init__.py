"""lintrain: a linter for machine-learning training scripts.

Everything that a rule file needs is importable from here, and loaded only when asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lintrain.core.evidence import Evidence as Evidence
    from lintrain.core.finding import Finding as Finding
    from lintrain.core.finding import Reason as Reason
    from lintrain.core.fix import AddArgument as AddArgument
    from lintrain.core.fix import AddImport as AddImport
    from lintrain.core.fix import Fix as Fix
    from lintrain.core.fix import InsertAtTop as InsertAtTop
    from lintrain.core.fix import InsertBefore as InsertBefore
    from lintrain.core.fix import RemoveArgument as RemoveArgument
    from lintrain.core.fix import RemoveImport as RemoveImport
    from lintrain.core.fix import RenameArgument as RenameArgument
    from lintrain.core.fix import Replace as Replace
    from lintrain.core.fix import WrapInWith as WrapInWith
    from lintrain.core.level import Level as Level
    from lintrain.core.place import Place as Place
    from lintrain.core.rule import Rule as Rule
    from lintrain.core.verdict import Ruling as Ruling
    from lintrain.core.verdict import Verdict as Verdict
    from lintrain.core.verdict import confirmed as confirmed
    from lintrain.core.verdict import refuted as refuted
    from lintrain.core.verdict import unsettled as unsettled
    from lintrain.knowledge.api import Known as Known
    from lintrain.knowledge.api import covered_names as covered_names
    from lintrain.knowledge.api import default_value as default_value
    from lintrain.knowledge.api import keyword_state as keyword_state
    from lintrain.knowledge.api import name_state as name_state
    from lintrain.knowledge.api import signature as signature
    from lintrain.knowledge.successors import argument_rename as argument_rename
    from lintrain.knowledge.successors import name_rename as name_rename
    from lintrain.knowledge.target import Target as Target
    from lintrain.knowledge.target import Targets as Targets
    from lintrain.knowledge.versions import exactly as exactly
    from lintrain.pipeline.call import Argument as Argument
    from lintrain.pipeline.events import Act as Act
    from lintrain.pipeline.events import Event as Event
    from lintrain.pipeline.events import Loop as Loop
    from lintrain.pipeline.pipeline import Binding as Binding
    from lintrain.pipeline.pipeline import Discard as Discard
    from lintrain.pipeline.pipeline import LibraryCall as LibraryCall
    from lintrain.pipeline.pipeline import LibraryName as LibraryName
    from lintrain.pipeline.pipeline import Misuse as Misuse
    from lintrain.pipeline.pipeline import Pipeline as Pipeline
    from lintrain.pipeline.values.data import Column as Column
    from lintrain.pipeline.values.data import Dataset as Dataset
    from lintrain.pipeline.values.data import DatasetDict as DatasetDict
    from lintrain.pipeline.values.data import Kind as Kind
    from lintrain.pipeline.values.data import Loader as Loader
    from lintrain.pipeline.values.data import Padding as Padding
    from lintrain.pipeline.values.data import Step as Step
    from lintrain.pipeline.values.data import Tokenizer as Tokenizer
    from lintrain.pipeline.values.model import Config as Config
    from lintrain.pipeline.values.model import Model as Model
    from lintrain.pipeline.values.model import ModelOutput as ModelOutput
    from lintrain.pipeline.values.model import Module as Module
    from lintrain.pipeline.values.model import Optimizer as Optimizer
    from lintrain.pipeline.values.model import Role as Role
    from lintrain.pipeline.values.model import Scheduler as Scheduler
    from lintrain.pipeline.values.model import Task as Task
    from lintrain.pipeline.values.model import Tensor as Tensor
    from lintrain.pipeline.values.python import Absent as Absent
    from lintrain.pipeline.values.python import Constant as Constant
    from lintrain.pipeline.values.python import Either as Either
    from lintrain.pipeline.values.python import Function as Function
    from lintrain.pipeline.values.python import Instance as Instance
    from lintrain.pipeline.values.python import Library as Library
    from lintrain.pipeline.values.python import LibraryObject as LibraryObject
    from lintrain.pipeline.values.python import Mapping as Mapping
    from lintrain.pipeline.values.python import Sequence as Sequence
    from lintrain.pipeline.values.python import Unknown as Unknown
    from lintrain.pipeline.values.python import Value as Value
    from lintrain.pipeline.values.python import is_missing as is_missing
    from lintrain.pipeline.values.python import is_true as is_true
    from lintrain.pipeline.values.python import literal as literal
    from lintrain.pipeline.values.python import number_of as number_of
    from lintrain.pipeline.values.python import options_of as options_of
    from lintrain.pipeline.values.python import text_of as text_of
    from lintrain.pipeline.values.training import KerasRun as KerasRun
    from lintrain.pipeline.values.training import Metric as Metric
    from lintrain.pipeline.values.training import MetricCall as MetricCall
    from lintrain.pipeline.values.training import Predictions as Predictions
    from lintrain.pipeline.values.training import TrainerRun as TrainerRun
    from lintrain.pipeline.values.training import TrainingArguments as TrainingArguments

__version__ = "0.1.0"

_HOMES = {
    "lintrain.core.evidence": ("Evidence",),
    "lintrain.core.finding": ("Finding", "Reason"),
    "lintrain.core.fix": (
        "AddArgument",
        "AddImport",
        "Fix",
        "InsertAtTop",
        "InsertBefore",
        "RemoveArgument",
        "RemoveImport",
        "RenameArgument",
        "Replace",
        "WrapInWith",
    ),
    "lintrain.core.level": ("Level",),
    "lintrain.core.place": ("Place",),
    "lintrain.core.rule": ("Rule",),
    "lintrain.core.verdict": ("Ruling", "Verdict", "confirmed", "refuted", "unsettled"),
    "lintrain.knowledge.api": (
        "Known",
        "covered_names",
        "default_value",
        "keyword_state",
        "name_state",
        "signature",
    ),
    "lintrain.knowledge.successors": ("argument_rename", "name_rename"),
    "lintrain.knowledge.target": (
        "Target",
        "Targets",
    ),
    "lintrain.knowledge.versions": ("exactly",),
    "lintrain.pipeline.call": ("Argument",),
    "lintrain.pipeline.events": (
        "Act",
        "Event",
        "Loop",
    ),
    "lintrain.pipeline.pipeline": (
        "Binding",
        "Discard",
        "LibraryCall",
        "LibraryName",
        "Misuse",
        "Pipeline",
    ),
    "lintrain.pipeline.values.data": (
        "Column",
        "Dataset",
        "DatasetDict",
        "Kind",
        "Loader",
        "Padding",
        "Step",
        "Tokenizer",
    ),
    "lintrain.pipeline.values.model": (
        "Config",
        "Model",
        "ModelOutput",
        "Module",
        "Optimizer",
        "Role",
        "Scheduler",
        "Task",
        "Tensor",
    ),
    "lintrain.pipeline.values.python": (
        "Absent",
        "Constant",
        "Either",
        "Function",
        "Instance",
        "Library",
        "LibraryObject",
        "Mapping",
        "Sequence",
        "Unknown",
        "Value",
        "is_missing",
        "is_true",
        "literal",
        "number_of",
        "options_of",
        "text_of",
    ),
    "lintrain.pipeline.values.training": (
        "KerasRun",
        "Metric",
        "MetricCall",
        "Predictions",
        "TrainerRun",
        "TrainingArguments",
    ),
}


def __getattr__(name: str) -> object:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module 'lintrain' has no attribute {name!r}")
