"""lintrain: a linter for machine-learning training scripts.

What users import is here, and loaded only when it is asked for; what a rule file imports is in `lintrain.rule`.
"""

from importlib import import_module  # loaded with Python: `python -m` looks for any other in the working folder

from lintrain._version import __version__ as __version__

TYPE_CHECKING = False  # that of `typing`, whose import takes longer than to answer an unchanged tree

if TYPE_CHECKING:
    from lintrain.api.probing import probe as probe
    from lintrain.api.report import MistakesError as MistakesError
    from lintrain.api.report import Report as Report
    from lintrain.callbacks.own_loop import watch as watch
    from lintrain.runtime.in_process.training_run import training_run as training_run

_MODULES = {
    "probe": "lintrain.api.probing",
    "MistakesError": "lintrain.api.report",
    "Report": "lintrain.api.report",
    "training_run": "lintrain.runtime.in_process.training_run",
    "watch": "lintrain.callbacks.own_loop",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value
    raise AttributeError(f"module 'lintrain' has no attribute {name!r}")
