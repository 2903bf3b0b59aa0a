"""What is learned from all rows before they are split."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.analysis.leaks import fitted_before_split
from lintrain.knowledge.versions import TargetVersions
from lintrain.read import read_pipeline
from lintrain.source.source import Source

START = """
import pandas as pd
from imblearn.over_sampling import SMOTE
from imblearn.under_sampling import RandomUnderSampler
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import OneHotEncoder, StandardScaler
"""


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = StandardScaler().fit_transform(x)\na, b = train_test_split(x)", ["StandardScaler"]),
        ("pca = PCA(2)\nz = pca.fit_transform(x)\na, b, c, d = train_test_split(z, y)", ["PCA"]),
        ("x, y = SMOTE().fit_resample(x, y)\na, b, c, d = train_test_split(x, y)", ["SMOTE"]),
        ("v = TfidfVectorizer()\nx = v.fit_transform(texts)\na, b = train_test_split(x)", ["TfidfVectorizer"]),
        ("x, y = RandomUnderSampler().fit_resample(x, y)\na, b, c, d = train_test_split(x, y)", []),
        ("x = OneHotEncoder().fit_transform(x)\na, b = train_test_split(x)", []),
        ("a, b = train_test_split(x)\na = StandardScaler().fit_transform(a)\nc, d = train_test_split(a)", []),
        ("z = StandardScaler().fit_transform(x)\nz = load()\na, b = train_test_split(z)", []),
        ("z = scaler.fit_transform(x)\na, b = train_test_split(z)", []),
        ("z = StandardScaler().fit_transform(x)\na, b = train_test_split(x)", []),
    ],
)
def test_learners_that_see_rows_which_are_split_off_later(code: str, expected: list[str]) -> None:
    pipeline = read_pipeline(Source("script.py", START + dedent(code)), TargetVersions())
    assert [leak.learner for leak in fitted_before_split(pipeline)] == expected
