"""`StrEnum` of the standard library, also for Python 3.10: a probed script may run there, lintrain itself does not."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):  # noqa: UP036 - lintrain's minimum is not that of a probed script
    from enum import StrEnum as StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):  # noqa: UP042 - the class that it would be replaced by
        """A text that is one of several known ones; it is written as its value."""

        __str__ = str.__str__
        __format__ = str.__format__
