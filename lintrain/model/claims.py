"""Claims: the values that a finding rests on, as a frozen dataclass of its rule, or as plain values of JSON.

A rule makes a claim in `check` and reads it in `verify` and `fix`. Between the two it may be plain values: in the
evidence of a probe, in a report, or from another process, which does not know the classes of rule files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, cast

from lintrain.model.location import Location
from lintrain.startup.validators import validator_of

if TYPE_CHECKING:
    from pydantic import TypeAdapter

Plain = Any
"""What JSON holds: text, numbers, truth values, None, lists, and objects by name."""


class ClaimError(ValueError):
    """Plain values that are not a claim of the rule; the text names the field."""


def plain_claim(claim: object) -> dict[str, Plain]:
    """A claim as plain values by field name; empty for None."""
    if claim is None:
        return {}
    if isinstance(claim, Mapping):
        return dict(cast("Mapping[str, Plain]", claim))
    return {each.name: _plain(getattr(claim, each.name)) for each in fields(cast("Any", claim))}


def _plain(value: object) -> Plain:
    if isinstance(value, Location) or (is_dataclass(value) and not isinstance(value, type)):
        return plain_claim(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return tuple(_plain(each) for each in cast("tuple[object, ...]", value))
    return value


def _required(claim_type: type) -> bool:
    """Whether a claim has a field without a default."""
    return any(each.default is MISSING and each.default_factory is MISSING for each in fields(claim_type))


def restored_claim(claim_type: type | None, plain: object) -> Any:
    """The claim of a rule from its plain values, or a typed claim as it is; raises ClaimError for other values."""
    if not isinstance(plain, Mapping):
        return plain
    values = cast("Mapping[str, Plain]", plain)
    if not values:  # a finding of a run may have no claim, which plain values do not tell from an empty one
        return claim_type() if claim_type is not None and not _required(claim_type) else None
    if claim_type is None:
        raise ClaimError(f"`{next(iter(values))}`: this rule makes no claims with values")
    # pydantic alone checks nested types; only judging a probe, which has loaded it for the evidence, comes here.
    from pydantic import ValidationError

    unknown = values.keys() - {each.name for each in fields(claim_type)}
    if unknown:
        raise ClaimError(f"`{min(unknown)}`: no field of this claim")
    try:
        validator: TypeAdapter[Any] = validator_of(claim_type)
        return validator.validate_python(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise ClaimError(f"`{'.'.join(map(str, first['loc']))}`: {first['msg'].lower()}") from error
