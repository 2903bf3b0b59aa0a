"""The JSON schema of the report for programs; pydantic derives it from the report's own types."""

from __future__ import annotations

from typing import Any


def check_report_schema() -> dict[str, Any]:  # Any: a JSON schema is a tree of whatever JSON holds
    """The schema of `lintrain check --output-format json`."""
    from pydantic import TypeAdapter

    from lintrain.report.machine.document import CheckReport

    schema = TypeAdapter(CheckReport).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
