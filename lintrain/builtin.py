"""The findings that no rule file makes: about files, about suppressions, and about names that do not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.model.level import Level
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.model.manual import Manual

STAGE = "file"


@dataclass(frozen=True, slots=True)
class Builtin:
    """One such finding, with its page; `is_unconditional` when neither `--select` nor a comment leaves it out."""

    name: str
    level: Level
    page: str
    is_unconditional: bool = False
    has_fix: bool = False

    @property
    def stage(self) -> str:
        """The stage that selects it, together with the other findings of this kind."""
        return STAGE

    @property
    def manual(self) -> Manual:
        """The manual page, taken apart."""
        from lintrain.model.manual import read_manual

        return read_manual(self.page)


SYNTAX_ERROR = Builtin(
    "syntax-error",
    Level.ERROR,
    """A file that Python cannot parse.

Nothing in such a file runs, and lintrain can say nothing else about it. Files are read with the grammar of the Python
that runs lintrain, so syntax of a newer Python needs lintrain installed in that one.

## Bad

    model = AutoModel.from_pretrained("bert-base-cased"  # <- syntax-error

## Good

    model = AutoModel.from_pretrained("bert-base-cased")

## When it is fine

A file that is a template and no program belongs under `exclude`, unless `{{…}}` in its name leaves it out already;
`--select` never leaves this finding out and no comment silences it, for what cannot be parsed cannot be checked;
`--ignore` does.
""",
    is_unconditional=True,
)

UNREADABLE_FILE = Builtin(
    "unreadable-file",
    Level.ERROR,
    """A file whose text cannot be read.

It may not be opened, is not in UTF-8 and declares no other encoding, holds null bytes, is called .ipynb and is no
notebook, or is nested more deeply than a parser can follow. The other files of the run are read all the same.

## Good

Save the file as UTF-8, or declare its encoding in the first line:

    # -*- coding: latin-1 -*-

## When it is fine

A file that is made broken on purpose (a test's input) belongs under `exclude`; `--select` never leaves this finding
out and no comment silences it, `--ignore` does.
""",
    is_unconditional=True,
)

UNUSED_SUPPRESSION = Builtin(
    "unused-suppression",
    Level.WARNING,
    """A comment `# lintrain: ignore[…]` that silences nothing.

The mistake that it silences is fixed, or its rule is misspelt; left in place it would hide the next mistake of that
kind on this line. It is only reported if the rule that it names ran.

## Bad

    batch_size = 32  # lintrain: ignore[raw-dataset]  <- unused-suppression

## Good

    batch_size = 32

## When it is fine

A comment for a rule that only `lintrain probe` can decide is never called unused by `lintrain check`. Suppressions
are written in these ways:

    x = f()  # lintrain: ignore[raw-dataset] -- the collator tokenizes
    # lintrain: ignore[raw-dataset, missing-labels] -- on a line of its own: for the next line of code
    # lintrain: ignore-file[raw-dataset] -- above the first line of code: for the whole file
    # lintrain: ignore-file
""",
)

UNDEFINED_NAME = Builtin(
    "undefined-name",
    Level.ERROR,
    """A name that nothing defines or imports.

The run ends with NameError when it gets there, which may be after hours of training: names in the metric function or
in the evaluation are looked up only then. These findings come from ruff (F821 and F823), which is run beside lintrain
on files that use a machine-learning library; names in annotations that Python never evaluates are left out.

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

Names that the surroundings bring (a notebook's `display`, a file run by `exec` with names of its own): suppress them
here, or with ruff's own `# noqa: F821`, which is honoured.

## References

Ruff's documentation: undefined-name (F821), undefined-local (F823).
""",
    has_fix=True,
)

BUILTINS = {builtin.name: builtin for builtin in (SYNTAX_ERROR, UNREADABLE_FILE, UNDEFINED_NAME, UNUSED_SUPPRESSION)}

UNCONDITIONAL = frozenset(name for name, builtin in BUILTINS.items() if builtin.is_unconditional)
"""Names of findings without which nothing can be said of a file: only `--ignore` leaves them out."""


@dataclass(frozen=True, slots=True)
class UndefinedName:
    """The claim of `undefined-name`: whether the line is sure to run, so that a script which ran past it refutes it."""

    is_certain: bool = False
