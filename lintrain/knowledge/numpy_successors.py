"""What replaces the names that NumPy no longer has, by its own advice (NumPy 1.24, 2.0 and 2.4)."""

from __future__ import annotations

from collections.abc import Mapping

from lintrain.knowledge.renames import NameRename

BUILTINS = "builtins"

_PAIRS = """
    Inf=inf Infinity=inf infty=inf PINF=inf NaN=nan NAN=nan
    float_=float64 complex_=complex128 cfloat=complex128 singlecomplex=complex64 longfloat=longdouble
    longcomplex=clongdouble clongfloat=clongdouble unicode_=str_ string_=bytes_
    bool8=bool_ int0=intp uint0=uintp str0=str_ bytes0=bytes_ object0=object_ void0=void
    product=prod cumproduct=cumprod alltrue=all sometrue=any round_=round mat=asmatrix trapz=trapezoid
"""
_SAME: Mapping[str, str] = {old: new for old, _, new in (pair.partition("=") for pair in _PAIRS.split())}
"""Names whose object still exists under another one."""

_ALIASES = frozenset({"bool", "complex", "float", "int", "object", "str"})
"""Names that stood for Python's own types."""

_ADVICE: Mapping[str, str] = {
    "NINF": "write `-np.inf`",
    "asfarray": "write `np.asarray(values, dtype=float)`",
    "asscalar": "write `values.item()`",
    "cast": "write `np.asarray(values, dtype=dtype)`",
    "find_common_type": "write `np.promote_types` or `np.result_type`",
    "in1d": "write `np.isin`, which keeps the shape of its first argument",
    "issubsctype": "write `np.issubdtype`",
    "loads": "write `pickle.loads`",
    "msort": "write `np.sort(values, axis=0)`",
    "recfromcsv": 'write `np.genfromtxt` with `names=True`, `dtype=None` and `delimiter=","`',
    "recfromtxt": "write `np.genfromtxt` with `dtype=None`",
    "safe_eval": "write `ast.literal_eval`",
    "sctypes": "name the types themselves, such as `np.float32`",
}


def name_rename(name: str) -> NameRename | None:
    """The successor of a name of NumPy; None if there is none."""
    if name in _ALIASES:
        return NameRename(BUILTINS, name, f"write `{name}`, which it stood for", is_safe=True)
    if (same := _SAME.get(name)) is not None:
        return NameRename("numpy", same, f"write `np.{same}`, which is the same", is_safe=True)
    advice = _ADVICE.get(name)
    return NameRename(None, None, advice) if advice is not None else None
