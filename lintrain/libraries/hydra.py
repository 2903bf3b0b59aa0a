"""Hydra: settings composed from groups of files, and the objects that `instantiate` makes from their sections."""

from __future__ import annotations

import os.path
from functools import partial
from pathlib import Path

from lintrain.interpreter import imports
from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.reader import DEEPEST, Reader
from lintrain.interpreter.core.registry import decorating, function
from lintrain.knowledge.settings_files import LARGEST, read_yaml_settings
from lintrain.libraries.omegaconf import place_of, settings_of
from lintrain.libraries.stdlib.paths import as_value, locate_keys, path_of
from lintrain.model.location import Location
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.certainty import Default
from lintrain.pipeline.values.loading import Settings
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Function,
    LibraryObject,
    Literal,
    Mapping,
    Partial,
    Sequence,
    Unknown,
    Value,
    is_missing,
    mapping_of,
    text_of,
)
from lintrain.source.reading import read_plain_text
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

READ = partial(read_yaml_settings, numbers_without_point=True)
SELF = "_self_"
OWN = frozenset({"_target_", "_partial_", "_recursive_", "_convert_", "_args_"})
"""Keys that speak to `instantiate`, and are no arguments."""

PACKAGE = lazy_pattern(r"^#\s*@package:?\s+(\S+)")
REFERENCE = lazy_pattern(r"\$\{([A-Za-z_]\w*(?:\.\w+)*)\}$")
"""`${data.classes}`; what has a resolver (`${oc.env:HOME}`) or is relative (`${.size}`) is not followed."""

MOST_FILES, MOST_REFERENCES = 60, 5


@decorating("hydra.main")
def _fill_main(reader: Reader, made: Function, mark: LibraryObject) -> None:
    """The settings that `@hydra.main` hands over: those of its file, any of which the command line may change."""
    parameters = made.node.args.args
    folder, name = text_of(mark.arguments.get("config_path", UNKNOWN)), mark.arguments.get("config_name", UNKNOWN)
    file = text_of(name)
    if not parameters or folder is None or file is None:
        return
    root = Path(os.path.dirname(reader.source.path)) / folder  # noqa: PTH120
    location = made.origin or reader.source.location(made.node)
    made.defaults[parameters[0].arg] = Composition(reader, root, location).settings(file)


STARTS = ("hydra.initialize", "hydra.experimental.initialize", "hydra.initialize_config_dir")
"""What says in which folder `compose` looks."""


@function("hydra.compose", "hydra.experimental.compose")
def _compose(call: Call) -> Value:
    """`compose(config_name="train", overrides=["model.size=8"])`: the settings that the script asks for."""
    file, overrides = text_of(call.value("config_name", 0)), call.value("overrides", 1)
    # `initialize` is called before, often as the manager of the `with` around `compose`; the last one counts.
    started = next((made for made in reversed(call.reader.record.calls) if made.path in STARTS), None)
    given = started.arguments if started is not None else {}
    folder = next((given[name] for name in ("config_path", "config_dir") if name in given), None)
    path = path_of(folder.value) if folder is not None else None
    if file is None or path is None:
        return Unknown(name="cfg")
    root = Path(os.path.dirname(call.reader.source.path)) / path.text  # noqa: PTH120
    made = Composition(call.reader, root, call.location).settings(file)
    if isinstance(made, Settings) and not is_missing(overrides):
        _override(made, overrides)
    return made


def _override(made: Settings, overrides: Value) -> None:
    """What is given for a name is not read as YAML here: it is not known, and all of it if the names are not."""
    items = overrides.items if isinstance(overrides, Sequence) and overrides.is_complete else [UNKNOWN]
    for item in items:
        name, sign, _ = (text_of(item) or "").partition("=")
        found = place_of(made, name.lstrip("+~")) if sign else None
        if found is None:
            made.entries.clear()
            return
        found[0].entries[found[1]] = UNKNOWN


class NotComposedError(Exception):
    """What a file of settings is made of is not known."""


@dataclass(slots=True)
class Composition:
    """The files of one folder of settings, merged as their `defaults:` say."""

    reader: Reader
    root: Path
    location: Location
    files: int = 0

    def settings(self, name: str) -> Value:
        """A file of settings with the groups that its `defaults:` name."""
        made = mapping_of({}, is_complete=False)
        try:
            is_read = self._merge_file(made, "", name.removesuffix(".yaml"), ())
        except NotComposedError:
            is_read = False
        if not is_read:
            return Unknown(name="cfg")
        return settings_of(self.reader, _resolved(made, made, DEEPEST))

    def _merge_file(self, made: Mapping, group: str, name: str, package: tuple[str, ...]) -> bool:
        """Merge the file of a group into a package; False if there is no such file."""
        path = self.root / group / f"{name}.yaml"
        self.files += 1
        default = Default(path.name + ":", location=self.location)
        own = as_value(Call(self.reader, None, self.location), READ(path), default=default)
        if not isinstance(own, Mapping) or self.files > MOST_FILES:
            return isinstance(own, Constant) and own.value is None  # an empty file sets nothing
        locate_keys(self.reader, own, path)
        package = _package_of(path, package)
        defaults = own.entries.pop("defaults", None)
        items = defaults.items if isinstance(defaults, Sequence) else []
        has_self = any(text_of(item) == SELF for item in items)
        for item in items:
            if text_of(item) == SELF:
                _merge_into(_at(made, package), own)
            else:
                self._merge_item(made, group, item, package, is_overridden=not has_self)
        if not has_self:
            # Hydra 1.0 merges the file before its groups, later versions merge it after them.
            _merge_into(_at(made, package), own, is_certain=not items)
        return True

    def _merge_item(
        self, made: Mapping, group: str, item: Value, package: tuple[str, ...], *, is_overridden: bool
    ) -> None:
        """One entry of `defaults:`: a file of the same group, or the option of a group inside it."""
        if (name := text_of(item)) is not None:
            inner, _, file = name.rpartition("/")
            where, target_package = _group(group, inner, package)
            if not self._merge_file(made, where, file, target_package) and not is_overridden:
                raise NotComposedError  # made by code, and whatever it sets wins over what came before
            return
        for key, option in item.entries.items() if isinstance(item, Mapping) else ():
            words = str(key).split()
            inner, _, given = words[-1].partition("@")
            where, target_package = _group(group, inner, package)
            if given:
                target_package = () if given == "_global_" else (*package, *given.split("."))
            chosen = [text_of(each) for each in (option.items if isinstance(option, Sequence) else [option])]
            if isinstance(option, Constant) and option.value is None:
                continue
            for each in chosen:
                is_read = (
                    each is not None and "override" not in words and self._merge_file(made, where, each, target_package)
                )
                if not is_read and "optional" not in words and target_package:
                    _at(made, target_package[:-1]).entries[target_package[-1]] = UNKNOWN


def _package_of(path: Path, package: tuple[str, ...]) -> tuple[str, ...]:
    """Where a file's keys go: `# @package _global_` at its head says otherwise."""
    try:
        head = read_plain_text(path, LARGEST).lstrip().partition("\n")[0]
    except (OSError, ValueError):
        return package
    named = PACKAGE.search(head)
    if named is None or named[1] == "_group_":
        return package
    return () if named[1] == "_global_" else tuple(named[1].split("."))


def _group(group: str, inner: str, package: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The folder of a group that is named in a file of another group, and the package that it fills."""
    if inner.startswith("/"):
        return inner[1:], tuple(inner[1:].split("/"))
    return (f"{group}/{inner}".strip("/"), (*package, *inner.split("/"))) if inner else (group, package)


def _at(made: Mapping, package: tuple[str, ...]) -> Mapping:
    for name in package:
        held = made.entries.get(name)
        if not isinstance(held, Mapping):
            held = mapping_of({}, is_complete=True)
            made.entries[name] = held
        made = held
    return made


def _merge_into(made: Mapping, part: Mapping, *, is_certain: bool = True) -> None:
    """Merge a file over what came before; if the order is not certain, what both set is not known."""
    for key, value in part.entries.items():
        before = made.entries.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            _merge_into(before, value, is_certain=is_certain)
        else:
            made.entries[key] = value if is_certain or before is None else UNKNOWN
            made.written |= {name: each for name, each in part.written.items() if name == key}


def _resolved(value: Value, root: Mapping, levels: int) -> Value:
    """The same with what `${data.classes}` refers to."""
    match value:
        case Mapping() if levels:
            entries = {key: _resolved(held, root, levels - 1) for key, held in value.entries.items()}
            return Mapping(entries, value.is_complete, dict(value.written), origin=value.origin)
        case Sequence() if levels:
            return Sequence([_resolved(item, root, levels - 1) for item in value.items], value.kind, value.is_complete)
        case Constant(value=str()):
            return _referred(value, root)
        case _:
            return value


def _referred(value: Value, root: Mapping) -> Value:
    for _ in range(MOST_REFERENCES):
        named = REFERENCE.match(text) if (text := text_of(value)) is not None else None
        if named is None:
            return value
        value = root
        for part in named[1].split("."):
            value = value.entries.get(part, UNKNOWN) if isinstance(value, Mapping) else UNKNOWN
    return value if isinstance(value, Constant) else UNKNOWN


@function("hydra.utils.instantiate", "hydra.utils.call")
def _instantiate(call: Call) -> Value:
    """What a section of the settings names: a class or function, called with the rest of the section."""
    config = call.argument("config", 0)
    if config is None or call.is_open or not isinstance(config.value, Mapping | Sequence | Constant):
        escape(call)
        return UNKNOWN
    given = {name: each for name, each in call.keywords.items() if name != "config"}
    return _made(call, config.value, call.positional[1:], given, DEEPEST)


def _made(call: Call, config: Value, positional: list[Argument], keywords: dict[str, Argument], levels: int) -> Value:
    if isinstance(config, Sequence) and levels:
        return Sequence([_made(call, item, [], {}, levels - 1) for item in config.items], config.kind)
    if not isinstance(config, Mapping) or not levels:
        return config
    call.reader.spend()
    section: dict[Literal, Value] = {**config.entries, **{name: each.value for name, each in keywords.items()}}
    is_deep = not _is_set(section.get("_recursive_"), to=False)
    held = {
        key: _made(call, value, [], {}, levels - 1) if is_deep and key not in keywords else value
        for key, value in section.items()
        if key not in OWN
    }
    target = section.get("_target_")
    if target is None:
        return Settings(held, config.is_complete, dict(config.written), origin=config.origin)
    made = Call(call.reader, None, call.location)
    ordered = section.get("_args_")
    for value in ordered.items if isinstance(ordered, Sequence) else ():
        made.positional.append(Argument(value, call.location))
    made.positional.extend(positional)
    for key, value in held.items():
        at = config.written.get(key)
        written = Argument(value, at or call.location, named_at=at)
        made.keywords[str(key)] = keywords.get(str(key), written)
    callee = target
    if (path := text_of(target)) is not None:
        call.reader.record.named_in_settings.append(path)
        callee = imports.named_object(call.reader, path, call.location)
    if _is_set(section.get("_partial_"), to=True):
        values = {name: each.value for name, each in made.keywords.items()}
        return Partial(callee, [each.value for each in made.positional], values)
    return dispatch.invoke(made, callee)


def _is_set(value: Value | None, *, to: bool) -> bool:
    return isinstance(value, Constant) and value.value is to
