"""The findings without a rule file: about files, suppressions, and undefined names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.model.level import Level
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.model.manual import Manual

STAGE = "file"


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in finding with its page; neither `--select` nor a comment leaves out one that `is_unconditional`."""

    name: str
    level: Level
    page: str
    is_unconditional: bool = False
    has_fix: bool = False

    @property
    def stage(self) -> str:
        """The stage of all built-in findings."""
        return STAGE

    @property
    def manual(self) -> Manual:
        """The manual page, parsed."""
        from lintrain.model.manual import read_manual

        return read_manual(self.page)


SYNTAX_ERROR = Builtin(
    "syntax-error",
    Level.ERROR,
    """A file that Python cannot parse.

Such a file cannot run, and lintrain cannot check it. Syntax of a newer Python than the one that runs lintrain is read
too, up to Python 3.15; a file in which that is not possible is reported as not judged.

In a notebook, each message is reported once, and the other cells are checked. A piece of a script, which trains and
imports nothing, is read in spite of a shifted margin; `print` without brackets and other syntax of Python 2 is a note.

## Bad

    model = AutoModel.from_pretrained("bert-base-cased"  # <- syntax-error

## Good

    model = AutoModel.from_pretrained("bert-base-cased")

## When it is fine

Exclude a file that is a template (`exclude`); files with `{{…}}` in their name are excluded by default. Neither
`--select` nor a comment suppresses this finding, since the file cannot be checked; `--ignore` does.
""",
    is_unconditional=True,
)

UNREADABLE_FILE = Builtin(
    "unreadable-file",
    Level.ERROR,
    """A file whose text cannot be read.

The file cannot be opened, is not UTF-8 and declares no other encoding, contains null bytes, has the extension .ipynb
but is not a notebook, or is nested too deeply for a parser. Other files are still checked.

## Good

Save the file as UTF-8, or declare its encoding in the first line:

    # -*- coding: latin-1 -*-

## When it is fine

Exclude a file that is broken on purpose, such as the input of a test (`exclude`). Neither `--select` nor a comment
suppresses this finding; `--ignore` does.
""",
    is_unconditional=True,
)

UNUSED_SUPPRESSION = Builtin(
    "unused-suppression",
    Level.WARNING,
    """A comment `# lintrain: ignore[…]` that suppresses nothing.

The mistake is fixed, or the name of the rule is misspelt. If the comment stays, it hides the next mistake of that kind
on this line. It is only reported if the rule that it names was run.

## Bad

    batch_size = 32  # lintrain: ignore[raw-dataset]  <- unused-suppression

## Good

    batch_size = 32

## When it is fine

`lintrain check` never reports a comment for a rule that needs `lintrain probe`. The forms of a suppression:

    x = f()  # lintrain: ignore[raw-dataset] -- the collator tokenizes
    # lintrain: ignore[raw-dataset, missing-labels] -- on its own line: for the next line of code
    # lintrain: ignore-file[raw-dataset] -- above the first line of code: for the whole file
    # lintrain: ignore-file
""",
)

UNDEFINED_NAME = Builtin(
    "undefined-name",
    Level.ERROR,
    """A name that is never defined or imported.

The run ends with NameError at this line, which may be after hours of training: names in the metric function or in the
evaluation are looked up only then. Each name is reported once in a file, where it is used first. These findings come
from ruff (F821 and F823), which lintrain runs on files that use a machine-learning library; names in annotations that
Python never evaluates are left out.

Code that trains and has no import at all is a piece of a script: one note lists the imports that it needs (`nn`, `F`,
`np`), the findings of rules say what these names are taken for, and all other names are taken as given.

## Bad

    def compute_metrics(prediction):
        metric = evaluate.load("accuracy")  # <- undefined-name
        return metric.compute(predictions=prediction[0].argmax(-1), references=prediction[1])

## Good

    import evaluate

    def compute_metrics(prediction):
        metric = evaluate.load("accuracy")
        return metric.compute(predictions=prediction[0].argmax(-1), references=prediction[1])

## When it is fine

Names that the environment provides (a notebook's `display`, a file that `exec` runs with its own names): suppress them
here or with ruff's `# noqa: F821`.

## References

Ruff's documentation: undefined-name (F821), undefined-local (F823).
""",
    has_fix=True,
)

BUILTINS = {builtin.name: builtin for builtin in (SYNTAX_ERROR, UNREADABLE_FILE, UNDEFINED_NAME, UNUSED_SUPPRESSION)}

UNCONDITIONAL = frozenset(name for name, builtin in BUILTINS.items() if builtin.is_unconditional)
"""Findings in files that cannot be checked: only `--ignore` leaves them out."""


@dataclass(frozen=True, slots=True)
class UndefinedName:
    """The claim of `undefined-name`: if the line is certain to run, a script that ran past it refutes the finding."""

    is_certain: bool = False
