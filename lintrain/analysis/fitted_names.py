"""What the names of a block refer to while its rows are followed to a split: preprocessors, fitted rows, parts."""

from __future__ import annotations

import ast
from dataclasses import field

from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

LEARNERS = frozenset(
    {
        "StandardScaler",
        "MinMaxScaler",
        "MaxAbsScaler",
        "RobustScaler",
        "PowerTransformer",
        "QuantileTransformer",
        "KBinsDiscretizer",
        "TargetEncoder",
        "SimpleImputer",
        "KNNImputer",
        "IterativeImputer",
        "PCA",
        "TruncatedSVD",
        "NMF",
        "SelectKBest",
        "SelectPercentile",
        "SelectFromModel",
        "TfidfVectorizer",
        "RandomOverSampler",
        "SMOTE",
        "ADASYN",
        "BorderlineSMOTE",
        "SVMSMOTE",
    }
)
"""Classes of scikit-learn and imbalanced-learn whose `fit` learns statistics of the rows, or that copy rows."""


@dataclass(frozen=True, slots=True)
class Learned:
    """The class that was fitted, the call or the arithmetic, and the name of the rows."""

    learner: str
    call: ast.expr
    rows: str
    target: str = ""


@dataclass(slots=True)
class Names:
    """What the names of one block refer to: preprocessors, rows that one was fitted on, parts of a split.

    `fitted` are preprocessors that `fit` was called on, and statistics of rows; `counts` the rows that a name has the
    number or the numbers of; `heads` the first parts of rows that are cut with slices, by the name of the rows and the
    code of the bound.
    """

    learners: dict[str, str]
    learned: dict[str, Learned]
    parts: set[str]
    fitted: dict[str, Learned] = field(default_factory=dict[str, Learned])
    counts: dict[str, str] = field(default_factory=dict[str, str])
    heads: dict[tuple[str, str], ast.expr] = field(default_factory=dict[tuple[str, str], ast.expr])


@dataclass(slots=True)
class Known:
    """What calls in all blocks do: the classes that they create, the splits, and the fitted rows that they return.

    `fitting` are data sets that fit a preprocessor on the rows they keep, with the parameters of their constructor.
    """

    classes: dict[Location, str]
    splits: set[Location]
    given_back: dict[ast.Call, dict[str, Learned]]
    fitting: dict[str, tuple[Learned, ast.arguments]] = field(
        default_factory=dict[str, tuple["Learned", ast.arguments]]
    )
