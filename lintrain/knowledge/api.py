"""What the published versions of the libraries accept and contain, from the shipped tables.

Every result applies to all versions that the project may run on (`Targets`). If these differ, or if the tables do not
cover them, the result is `unknown` or None, and rules report nothing.

    keyword_state("transformers.TrainingArguments", "evaluation_strategy", targets).state      "gone"
    name_state("transformers", "AdamW", targets).last_with                                     "4.52"
    signature("transformers.Trainer", targets).positional[2]                                   "data_collator"
    default_value("transformers.TrainingArguments", "learning_rate", targets)                  5e-05

Keywords that calls still accept because of `**kwargs`, although no code reads them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from functools import cache
from typing import Literal, NamedTuple

from lintrain.installed.facts import Facts
from lintrain.knowledge import tables
from lintrain.knowledge.notation import Literals, Parameter, Signature, by_keyword, merged, parsed, taking
from lintrain.knowledge.target import Target, Targets, Version, written
from lintrain.startup.lazy_pattern import lazy_pattern

State = Literal["present", "gone", "not_yet", "never", "unknown"]
"""`gone`: an older version had it. `not_yet`: only a newer one has it. `never`: no covered version has it."""

_MOST_COMBINATIONS = 64

_ALIAS = lazy_pattern(r"^pytorch_lightning\b")
"""The older name of a package, whose tables are stored under the newer one."""


class Known(NamedTuple):
    """The state of a keyword or a name in the versions.

    `last_with` and `first_with` are the last and first versions of `package` in the tables that have it. `stands_for`
    is the new name if the library still accepts an old keyword. `installed` is the version that this was read of, in
    an environment of the project, where no table covers it.
    """

    state: State
    package: str
    last_with: str | None = None
    first_with: str | None = None
    stands_for: str | None = None
    installed: Target | None = None


def signature(name: str, targets: Targets) -> Signature | None:
    """The signature of a class, function or method (`keras.Model.fit`); None if it is unknown or if the versions
    differ.
    """
    found = set(_all_items(name, targets) or ())
    return parsed(name, found.pop()) if len(found) == 1 else None


def keyword_state(name: str, keyword: str, targets: Targets) -> Known:
    """Whether a class or function accepts a keyword; never `gone` if `**kwargs` would accept it."""
    package = name.split(".")[0]
    if (read := installed_facts(name, targets)) is not None:
        return _installed_keyword(name, read, keyword, targets)
    if (target := targets.get(package)) is None:
        return Known("unknown", package)
    if (dropped := dropped_keyword(name, keyword)) is not None and target.versions[0] >= dropped.since:
        return Known("gone", package, dropped.last_with)
    if name not in tables.callable_names(package):
        return Known("unknown", package)
    history = tables.history_of(package, name)
    answers = {_state_at(name, history, location, keyword, targets) for location in _locations(package, target)}
    return answers.pop() if len(answers) == 1 else Known("unknown", package)


def default_value(name: str, parameter: str, targets: Targets) -> Literals:
    """The default of a parameter in all target versions, if it is a literal; else None."""
    signatures = [parsed(name, items) for items in _all_items(name, targets) or ()]
    found = {each.default if (each := known.parameter(parameter)) else None for known in signatures}
    return Parameter(parameter, found.pop()).value if len(found) == 1 else None


_GONE: dict[str, Version] = {
    "torch._six": (1, 13),
    **dict.fromkeys(("torch.rfft", "torch.irfft", "torch.ifft"), (1, 7)),
    **dict.fromkeys(("torch.gels", "torch.gesv", "torch.potrf", "torch.trtrs", "torch.btrifact"), (1, 2)),
    **dict.fromkeys(("torch.eig", "torch.lstsq", "torch.matrix_rank", "torch.solve"), (1, 12)),
    "torch.symeig": (1, 13),
    **dict.fromkeys(("lightning.metrics", "lightning.pytorch.metrics"), (1, 4)),
}
"""Modules and functions outside the tables, with the last version that has them; some are left and only raise."""


def name_state(module: str, name: str, targets: Targets) -> Known:
    """Whether `from module import name` works."""
    module = _ALIAS.sub("lightning.pytorch", module)
    package = module.split(".")[0]
    target = targets.get(package)
    if (read := installed_facts(f"{module}.{name}", targets)) is not None:
        return _installed_name(module, name, read, targets)
    if target is None or (package in tables.REMOVED_FROM and name not in tables.lives_of(package, module)):
        return Known("unknown", package)
    last = _last_with(module, name)
    if last is not None:
        return Known("gone" if target.versions[0] > last else "unknown", package, written(last))
    wanted = _locations(package, target)
    if module not in tables.names_of(package)["exists"]:
        is_class = module.rpartition(".")[2][:1].isupper()
        return _method_state(package, f"{module}.{name}", wanted) if is_class else Known("unknown", package)
    if _is_open(package, module, name, wanted) or _lives_behind_hook(module, wanted, targets):
        return Known("unknown", package)
    return _judged(package, tables.locations(tables.lives_of(package, module).get(name, "")), wanted)


def _last_with(module: str, name: str) -> Version | None:
    """The last version with a module or function outside the tables, or with the module that it is below."""
    above = module
    while above:
        if above in _GONE:
            return _GONE[above]
        above = above.rpartition(".")[0]
    return _GONE.get(f"{module}.{name}")


def _method_state(package: str, path: str, wanted: Sequence[int]) -> Known:
    """Whether a class has a method; of the classes whose methods the tables contain."""
    # What is right below a package may also be a function, of a module whose names are not listed.
    is_method = path.split(".")[-2][:1].isupper()
    if not is_method or path not in tables.callable_names(package):
        return Known("unknown", package)
    owner = path.rpartition(".")[0]
    history = tables.history_of(package, path)
    if owner in tables.callable_names(package):
        # Keras 2.4 has no code of its own: its classes are those of TensorFlow.
        made = tables.history_of(package, owner)
        if any(made[at] is None and history[at] is None for at in wanted):
            return Known("unknown", package)
    return _judged(package, [at for at, items in enumerate(history) if items is not None], wanted)


def module_state(module: str, targets: Targets) -> Known:
    """Whether `import module` works."""
    parent, _, name = module.rpartition(".")
    return name_state(parent, name, targets) if parent else Known("unknown", module)


def has_gone(module: str, names: Set[str], targets: Targets) -> bool:
    """Whether `name_state` is `gone` for one of these names of a module."""
    installed = getattr(targets, "installed", None)
    read = {path for path, each in installed.names.items() if each.kind == "missing"} if installed else set[str]()
    if any(path.rpartition(".")[0] == module and path.rpartition(".")[2] in names for path in read):
        return True
    module = _ALIAS.sub("lightning.pytorch", module)
    package = module.partition(".")[0]
    has_names = package in tables.COVERED_PACKAGES or package in tables.REMOVED_FROM
    target = targets.get(package) if has_names else None
    if target is not None and any((last := _last_with(module, name)) and target.versions[0] > last for name in names):
        return True
    known = tables.lives_of(package, module).keys() & names if target is not None else ()
    return target is not None and any(_is_gone(module, name, target.versions) for name in known)


@cache
def _is_gone(module: str, name: str, versions: tuple[Version, ...]) -> bool:
    package = module.partition(".")[0]
    spans = tables.lives_of(package, module).get(name)
    # Most names live on: what one of the wanted versions has needs no closer look.
    if spans is None or tables.among(spans) & _bits(_locations_of(package, versions)):
        return False
    return name_state(module, name, {package: Target(versions, "", "")}).state == "gone"


def covered_names(module: str, targets: Targets) -> frozenset[str]:
    """The names that can be imported from a module in all target versions, for spelling suggestions."""
    module = _ALIAS.sub("lightning.pytorch", module)
    package = module.split(".")[0]
    if (target := targets.get(package)) is None:
        return frozenset()
    every = _bits(_locations(package, target))
    lives = tables.lives_of(package, module)
    return frozenset(name for name, spans in lives.items() if not every & ~tables.among(spans))


def installed_facts(name: str, targets: Targets) -> Facts | None:
    """What was read about a name in the source of an installed package; None if nothing was."""
    installed = getattr(targets, "installed", None)
    return installed.of(name) if installed else None


def _installed_target(path: str, targets: Targets) -> Target | None:
    """The installed version of the package that a name belongs to."""
    installed = getattr(targets, "installed", None)
    version = installed.version(path) if installed else None
    text = version.text if version is not None else ""
    named = tables.version_named(text)
    if version is None:
        return None
    return Target((named,), text or "without a version", version.source, is_installed=True)


def _installed_keyword(name: str, read: Facts, keyword: str, targets: Targets) -> Known:
    """Whether a class or function of an installed package accepts a keyword."""
    package = name.partition(".")[0]
    if read.items is None:
        return Known("unknown", package)
    if taking(read.items, keyword) is not None:
        return Known("present", package)
    if read.items[:1] and read.items[0].startswith("<"):
        base = read.items[0][1:]
        if installed_facts(base, targets) is None and not _is_stated(targets.get(base.partition(".")[0])):
            return Known("unknown", package)
        inherited = keyword_state(base, keyword, targets)
        if inherited.state not in ("never", "gone"):
            return Known(inherited.state if inherited.state == "present" else "unknown", package)
    version = _installed_target(name, targets)
    return _no_longer(package, tables.history_of(package, name) if _has_tables(name) else (), keyword, version)


def _is_stated(target: Target | None) -> bool:
    return target is not None and not target.is_assumed and not target.is_beyond


def _has_tables(name: str) -> bool:
    package = name.partition(".")[0]
    return package in tables.COVERED_PACKAGES and name in tables.callable_names(package)


def _no_longer(package: str, history: Sequence[tuple[str, ...] | None], keyword: str, version: Target | None) -> Known:
    """A keyword that the installed version refuses: an older version may have accepted it."""
    having = _having(history, keyword)
    if not having:
        return Known("never", package, installed=version)
    versions = _written_versions(package)
    return Known("gone", package, versions[having[-1]], versions[having[0]], installed=version)


def _installed_name(module: str, name: str, read: Facts, targets: Targets) -> Known:
    """Whether a module of an installed package has a name."""
    package = module.partition(".")[0]
    if read.kind != "missing":
        return Known("unknown" if read.kind == "unknown" else "present", package)
    version = _installed_target(module, targets)
    spans = tables.lives_of(package, module).get(name, "") if package in tables.COVERED_PACKAGES else ""
    having = tables.locations(spans)
    last = _written_versions(package)[having[-1]] if having else None
    return Known("gone", package, last, installed=version)


def _installed_items(read: Facts, targets: Targets) -> list[tuple[str, ...]] | None:
    """The signature of an installed class or function, with the parameters of its base."""
    if read.items is None or not read.items[:1] or not read.items[0].startswith("<"):
        return None if read.items is None else [read.items]
    bases = _all_items(read.items[0][1:], targets)
    return None if bases is None else [merged(base, read.items) for base in bases]


def _state_at(
    name: str, history: Sequence[tuple[str, ...] | None], location: int, keyword: str, targets: Targets
) -> Known:
    package = name.split(".")[0]
    items = history[location]
    if items is None:
        return Known("unknown", package)
    if (item := taking(items, keyword)) is not None:
        return Known("present", package, stands_for=item.partition("=")[2] if item.startswith("~") else None)
    inherited = _inherited(items, keyword, targets)
    if inherited is not None and inherited.state != "never":
        return inherited
    return _judged(package, _having(history, keyword), [location])


def _having(history: Sequence[tuple[str, ...] | None], keyword: str) -> list[int]:
    """The versions that accept a keyword. `**kwargs` counts only if some version has a parameter of that name."""
    is_known = any(each is not None and keyword in by_keyword(each) for each in history)
    return [at for at, each in enumerate(history) if is_known and each is not None and taking(each, keyword)]


def _inherited(items: Sequence[str], keyword: str, targets: Targets) -> Known | None:
    return keyword_state(items[0][1:], keyword, targets) if items and items[0].startswith("<") else None


@cache
def _written_versions(package: str) -> tuple[str, ...]:
    return tuple(written(version) for version in tables.covered_versions(package))


def _judged(package: str, having: Sequence[int], wanted: Sequence[int]) -> Known:
    """The state for the requested versions, from the versions that have the name."""
    versions = _written_versions(package)
    ends = (versions[having[-1]], versions[having[0]]) if having else (None, None)
    if not having:
        return Known("never", package)
    if all(location in having for location in wanted):
        return Known("present", package, *ends)
    if any(location in having for location in wanted):
        return Known("unknown", package)
    if any(location < wanted[0] for location in having):
        last = max(location for location in having if location < wanted[0])
        return Known("gone", package, versions[last], versions[having[0]])
    return Known("not_yet", package, *ends)


def _is_open(package: str, module: str, name: str, wanted: Sequence[int]) -> bool:
    """Whether one of the versions does not list the name in a module, but may create it on access."""
    missing = _bits(wanted) & ~tables.among(tables.lives_of(package, module).get(name, ""))
    table = tables.names_of(package)
    endings = (spans for ending, spans in table["open_endings"].items() if name.endswith(ending))
    return any(tables.among(spans) & missing for spans in (table["open"].get(module, ""), *endings))


def _lives_behind_hook(module: str, wanted: Sequence[int], targets: Targets) -> bool:
    """Whether a module has no file anymore, but its package still mentions it: an import hook may provide it."""
    exists = tables.names_of(module.split(".")[0])["exists"][module]
    missing = _bits(wanted) & ~tables.among(exists)
    return bool(missing) and "." in module and module_state(module, targets).state != "gone"


def _bits(locations: Sequence[int]) -> int:
    """The same versions as the bits of a number, which `tables.among` makes of spans."""
    return sum(1 << location for location in set(locations))


def _locations(package: str, target: Target) -> Sequence[int]:
    return _locations_of(package, target.versions)


@cache
def _locations_of(package: str, versions: tuple[Version, ...]) -> tuple[int, ...]:
    covered = tables.covered_versions(package)
    return tuple(covered.index(version) for version in versions if version in covered)


def _all_items(name: str, targets: Targets) -> list[tuple[str, ...]] | None:
    """The distinct signatures over all target versions, with inherited parameters of other packages."""
    package = name.split(".")[0]
    target = targets.get(package)
    if (read := installed_facts(name, targets)) is not None:
        return _installed_items(read, targets)
    if target is None or name not in tables.callable_names(package):
        return None
    history = tables.history_of(package, name)
    found: dict[tuple[str, ...], None] = {}
    for items in dict.fromkeys(history[location] for location in _locations(package, target)):
        bases = _all_items(items[0][1:], targets) if items and items[0].startswith("<") else [()]
        # A wide range over two packages has too many combinations to try, and no single result anyway.
        if items is None or bases is None or len(found) + len(bases) > _MOST_COMBINATIONS:
            return None
        found.update(dict.fromkeys(merged(base, items) for base in bases))
    return list(found)


class DroppedKeyword(NamedTuple):
    """A keyword that `**kwargs` still accepts, although no code reads it: the call fails later, or immediately."""

    owner: str
    keywords: frozenset[str]
    since: Version
    last_with: str


_NO_MODEL = "(?!Auto(?:Tokenizer|Config|Processor|ImageProcessor|FeatureExtractor|VideoProcessor)\\b)"
_DROPPED = (
    DroppedKeyword(
        rf"transformers\.{_NO_MODEL}(?:AutoModel\w*|\w+Model|\w+For[A-Z]\w+)\.from_pretrained",
        frozenset({"load_in_8bit", "load_in_4bit", "use_auth_token", "resume_download"}),
        (5, 0),
        "4.57",
    ),
    DroppedKeyword(
        r"datasets\.load_dataset(?:_builder)?",
        frozenset({"use_auth_token", "ignore_verifications", "task"}),
        (3, 0),
        "2.21",
    ),
)


def dropped_keyword(owner: str, keyword: str) -> DroppedKeyword | None:
    """The record of a keyword that a call accepts only because of `**kwargs`."""
    if not any(keyword in each.keywords for each in _DROPPED):
        return None
    matching = (each for each in _DROPPED if keyword in each.keywords and re.fullmatch(each.owner, owner))
    return next(matching, None)
