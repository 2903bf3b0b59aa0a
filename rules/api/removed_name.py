"""A name is imported from a library that no longer has it in the installed version.

The import raises ImportError in the first lines of the script. An attribute such as `transformers.AdamW` raises
AttributeError where it is used, and so does a method such as `encode_plus` of a tokenizer. The same import fails if a
module of the project has no such name, as after a function was renamed.

## Bad

    from transformers import AdamW  # <- removed-name

    optimizer = AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    # raises ImportError: cannot import name 'AdamW' from 'transformers'

A method that tokenizers no longer have:

    encoded = tokenizer.encode_plus("a good film", truncation=True)  # <- removed-name
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    # raises AttributeError: DistilBertTokenizer has no attribute encode_plus

A name of NumPy, which is often used late in a script:

    import numpy as np

    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    losses = np.zeros(len(train_loader), dtype=np.float)  # <- removed-name
    model.train()
    for number, batch in enumerate(train_loader):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[number] = loss.item()
    # raises AttributeError: module 'numpy' has no attribute 'float'

A hook that Lightning no longer calls, or refuses:

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)

        def training_step(self, batch):
            return F.cross_entropy(self.layer(batch[0]), batch[1])

        def training_epoch_end(self, outputs):  # <- removed-name
            print(len(outputs), "batches")

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False)
    trainer.fit(Classifier(), loader)
    # raises NotImplementedError: Support for `training_epoch_end` has been removed

## Good

    from torch.optim import AdamW

    optimizer = AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

The tokenizer itself is called:

    encoded = tokenizer("a good film", truncation=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

NumPy takes Python's own types:

    import numpy as np

    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    losses = np.zeros(len(train_loader), dtype=float)
    model.train()
    for number, batch in enumerate(train_loader):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses[number] = loss.item()

Lightning's hook of today gets no outputs, so the module keeps what it needs:

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 3)
            self.count = 0

        def training_step(self, batch):
            self.count += 1
            return F.cross_entropy(self.layer(batch[0]), batch[1])

        def on_train_epoch_end(self):
            print(self.count, "batches")
            self.count = 0

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-3)

    trainer = L.Trainer(max_epochs=1, accelerator="cpu", logger=False)
    trainer.fit(Classifier(), loader)

## When it is fine

A script that catches the error or checks the version runs with both versions:

    try:
        from transformers import AdamW
    except ImportError:
        from torch.optim import AdamW

    slow = AdamW(model.parameters(), lr=5e-5)

lintrain uses the version that the project requires: in its lock file, its requirements or its environment. Where
nothing states one, the newest is assumed: the finding is a warning that says so. Of versions and libraries that it does
not know it reads the source in the project's environment. A module that makes names when they are used may have any.
A torch or TensorFlow that is pinned to a release from before NumPy 2 means NumPy 1. A script that gives NumPy a name
back (`np.object = object`) may use it, and torchmetrics, which Lightning imports, gives `np.Inf` back.

## Fix

Safe where the name only moved to another module: without the fix the import fails. Asks first where another class or
function replaces it, which may have other defaults, and where the version is assumed. There is no fix if a call passes
arguments that the replacement does not accept.

## References

Transformers, MIGRATION_GUIDE_V5; release notes of datasets 3.0 (`load_metric`), of TRL, and of NumPy 1.24, 2.0 and 2.4;
ColBERT#397;
pytorch-lightning#16520.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from lintrain.analysis import library_arguments, prescreen, removed_hooks, removed_methods, script_text, statements
from lintrain.knowledge import api, lightning_successors, numpy_successors, renames, successors, versions
from lintrain.pipeline.record import LibraryName, MissingName
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Target,
    Targets,
    Verdict,
    dataclass,
    fixes,
)
from lintrain.source.project_search import scripts_have

MOST_USES = 8
"""A name with more uses than this gets no fix."""

GIVES_INF_BACK = r"\b(?:import|from) (?:torchmetrics|lightning|pytorch_lightning)\b"
"""An import with which `np.Inf` exists again: torchmetrics sets it, and Lightning imports torchmetrics."""

OTHER_FRAMEWORKS = ("TF", "Flax")
"""Prefixes of TensorFlow and Flax classes: the PyTorch class of the same name does not replace them in a script."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A removed name, `is_certain` if every run comes to its use, and its replacement; `is_fixable` with a fix.

    `written` is the code that replaces an attribute of a module where the module has the successor too.
    """

    module: str
    name: str
    is_import: bool = True
    is_certain: bool = False
    new_module: str = ""
    new_name: str = ""
    is_safe: bool = False
    is_fixable: bool = False
    written: str = ""


class RemovedName(Rule[Claim]):
    level = Level.ERROR
    needs_training = False
    matters_in_tests = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_use_removed_name(source, targets)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        seen = set[Location]()
        for used in pipeline.names:
            if used.is_guarded or used.location in seen:
                continue
            known = api.name_state(used.module, used.name, pipeline.targets)
            if known.state != "gone" or library_arguments.requires_version(pipeline, used.location, used.module):
                continue
            uses = _uses(pipeline, used)
            if _is_of_numpy(used):
                # Its names are used often: the first use in a file speaks for the others.
                seen.update(uses)
                used = replace(used, location=uses[0])
                uses = uses[1 : MOST_USES + 1]
            seen.add(used.location)
            if not (_is_of_numpy(used) and _is_given_back(pipeline, used)):
                yield self._report(pipeline, used, uses, known)
        yield from self._methods(pipeline)
        yield from self._hooks(pipeline)
        yield from map(self._report_missing, pipeline.missing_names)

    def _report_missing(self, missing: MissingName) -> Finding[Claim]:
        """A name that a module of the project lost, or never had."""
        return self.finding(
            missing.location,
            f"`{missing.module}` has no `{missing.name}`",
            help=f"did you mean `{missing.near}`?" if missing.near else "define it there, or remove the import",
            subject=missing.name,
            claim=Claim(missing.module, missing.name, is_certain=True),
        )

    def _methods(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The removed methods and attributes of tokenizers and iterators."""
        for used in removed_methods.removed_methods(pipeline.source, pipeline.targets):
            name, location = used.node.attr, pipeline.source.location(used.node)
            target = pipeline.targets.get(used.package)
            if target is None or library_arguments.requires_version(pipeline, location, used.package):
                continue
            is_certain = statements.is_plain_at_module_level(pipeline, location)
            yield self.finding(
                location,
                f"{used.owners} lost `{name}` after {used.package} {used.last_with} ({target.shown})",
                related=_call_of(pipeline, used),
                why=target.origin(used.package),
                help=removed_methods.ADVICE.get(name, "see the release notes for the replacement"),
                subject=name,
                level=library_arguments.level_for(target),
                claim=Claim(used.package, name, is_import=False, is_certain=is_certain),
            )

    def _hooks(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The hooks that Lightning no longer calls."""
        for hook in removed_hooks.removed_hooks(pipeline.source, pipeline.targets):
            name, location = hook.node.name, pipeline.source.location(hook.node)
            target = pipeline.targets.get("lightning")
            if target is None or library_arguments.requires_version(pipeline, location, "pytorch_lightning"):
                continue
            fate = "refuses a module with this hook" if hook.is_refused else "never calls this hook"
            yield self.finding(
                replace(location, end_line=location.line, end_column=location.column + len(f"def {name}")),
                f"`{name}` was removed after lightning {hook.last_with} ({target.shown})",
                why="; ".join(filter(None, (target.origin("lightning"), f"the Trainer {fate}"))),
                help=lightning_successors.HOOKS[name],
                subject=name,
                level=library_arguments.level_for(target),
                claim=Claim(hook.path, name, is_import=False, is_certain=hook.is_certain),
            )

    def _report(self, pipeline: Pipeline, used: LibraryName, uses: list[Location], known: api.Known) -> Finding[Claim]:
        target = known.installed or pipeline.targets.get(known.package)
        rename = successors.name_rename(used.module, used.name, pipeline.targets)
        return self.finding(
            used.location,
            _message(used, known, target),
            related=[
                Related(location, "used here", "use", _code_of(pipeline, used, rename, location)) for location in uses
            ],
            why=target.origin(known.package) if target else "",
            help=_help(known, rename),
            subject=used.name,
            level=library_arguments.level_for(target),
            claim=_claim(pipeline, used, uses, rename, is_assumed=target is not None and target.is_assumed),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        claim = finding.claim
        if claim is None:
            return Verdict.inconclusive("the finding names no import")
        module, name = claim.module, claim.name
        package = module.partition(".")[0]
        version = evidence.versions.get(package, "")
        failures = (
            *(f"cannot import name '{name}'", f"has no attribute '{name}'", f"has no attribute {name}"),
            f"`np.{name}` was removed",
            f"Support for `{name}` has been removed",
        )
        replaced = any(each.name == f"{module}.{name}" for each in evidence.stand_ins)
        if evidence.failed_with(*failures) is not None or replaced:
            owner = f"{package} {version}" if version else f"`{module}`"
            return Verdict.confirmed(f"{owner} has no `{name}`: the script fails here", version=version)
        if evidence.ran(finding.location) or evidence.call is not None:
            if claim.is_certain:
                return Verdict.refuted(f"this line ran without an error with {package} {version}", version=version)
            return Verdict.inconclusive(f"this line may not have run, so `{name}` was not looked up in {package}")
        if version and api.name_state(module, name, versions.exactly(**{package: version})).state == "gone":
            return Verdict.confirmed(f"`{module}` of {package} {version} has no `{name}`", version=version)
        return Verdict.inconclusive(f"the run did not show whether {package} {version} has `{name}`")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if calls := finding.with_role("next"):
            edit = fixes.Replace(calls[0].location, calls[0].text)
            return fixes.Fix.of("call the function `next`", edit, safe=True)
        if claim is None or not claim.is_fixable:
            return None
        new_module, new_name = claim.new_module, claim.new_name
        if claim.written:
            others = [fixes.Replace(use.location, use.text) for use in finding.with_role("use")]
            title = f"write `{claim.written}`"
            return fixes.Fix.of(title, fixes.Replace(finding.location, claim.written), *others, safe=claim.is_safe)
        title = f"import `{new_name}` from `{new_module}`"
        if not claim.is_import:
            edits = (
                fixes.Replace(finding.location, f"{new_module}.{new_name}"),
                fixes.AddImport(new_module.partition(".")[0]),
            )
            return fixes.Fix.of(title, *edits, safe=claim.is_safe)
        by_module = new_name != claim.name and new_name.islower() and "." not in new_module
        code = f"{new_module}.{new_name}" if by_module else new_name
        uses = [] if code == claim.name else [fixes.Replace(use.location, code) for use in finding.with_role("use")]
        added = fixes.AddImport(new_module) if by_module else fixes.AddImport(new_module, new_name)
        return fixes.Fix.of(title, fixes.RemoveImport(claim.module, claim.name), added, *uses, safe=claim.is_safe)


def _is_of_numpy(used: LibraryName) -> bool:
    return used.module == "numpy" and not used.is_import


def _is_given_back(pipeline: Pipeline, used: LibraryName) -> bool:
    """Whether the project sets the name on NumPy again (`np.object = object`), or asks whether NumPy has it."""
    owner = pipeline.source_of(used.location).code(used.location).rpartition(".")[0]
    name, module = re.escape(used.name), rf"(?:{re.escape(owner)}|np|numpy)"
    given = rf"\b{module}\.{name}\s*=(?!=)|\b(?:set|has|get)attr\(\s*{module},\s*[\"']{name}[\"']"
    if used.name == "Inf":
        given += f"|{GIVES_INF_BACK}"
    return script_text.mentions(pipeline, given) or scripts_have(used.location.path, given)


def _code_of(pipeline: Pipeline, used: LibraryName, rename: renames.NameRename | None, location: Location) -> str:
    """The code of an imported name where it is used; of an attribute of NumPy, the code that replaces it there."""
    if used.is_import:
        return used.bound_as
    if rename is None or rename.new_name is None:
        return ""
    owner = pipeline.source_of(location).code(location).rpartition(".")[0]
    return rename.new_name if rename.new_module == numpy_successors.BUILTINS else f"{owner}.{rename.new_name}"


def _message(used: LibraryName, known: api.Known, target: Target | None) -> str:
    shown = target.shown if target else ""
    if known.last_with is None:
        return f"`{used.module}` has no `{used.name}` ({shown})"
    return f"`{used.name}` was removed after {known.package} {known.last_with} ({shown})"


def _help(known: api.Known, rename: renames.NameRename | None) -> str:
    if rename is not None:
        return rename.advice
    return "see the release notes for the replacement" if known.last_with else "check the name and its module"


def _call_of(pipeline: Pipeline, used: removed_methods.RemovedMethod) -> list[Related]:
    """The call of an iterator's method, with the call of the function that replaces it."""
    if used.call is None:
        return []
    owner = pipeline.source.code(pipeline.source.location(used.node.value))
    return [Related(pipeline.source.location(used.call), "advances the iterator", "next", f"next({owner})")]


def _claim(
    pipeline: Pipeline,
    used: LibraryName,
    uses: list[Location],
    rename: renames.NameRename | None,
    *,
    is_assumed: bool,
) -> Claim:
    """The claim about a removed name, with its replacement where there is one."""
    new_module, new_name = (rename.new_module or "", rename.new_name or "") if rename else ("", "")
    is_same_name = used.bound_as in ("", used.name)
    accepts = is_same_name and len(uses) < MOST_USES and _accepts_its_calls(pipeline, used, uses, rename)
    written = _code_of(pipeline, used, rename, used.location) if _is_of_numpy(used) else ""
    if new_module == numpy_successors.BUILTINS and not written:
        accepts = False  # an imported alias may have hidden another meaning of the name
    return Claim(
        used.module,
        used.name,
        used.is_import,
        statements.is_plain_at_module_level(pipeline, used.location),
        new_module,
        new_name,
        rename is not None and rename.is_safe and not is_assumed,
        bool(new_module and new_name) and accepts and not used.name.startswith(OTHER_FRAMEWORKS),
        written,
    )


def _uses(pipeline: Pipeline, used: LibraryName) -> list[Location]:
    """Every use of an imported name in the script; all uses of an attribute of NumPy in its file."""
    if _is_of_numpy(used):
        return removed_methods.uses_alike(pipeline.source_of(used.location), used.location)
    if not used.is_import:
        return []
    uses = script_text.uses_of(pipeline.source_of(used.location), used.bound_as)
    return [use.location for use in uses[:MOST_USES]]


def _accepts_its_calls(
    pipeline: Pipeline, used: LibraryName, uses: list[Location], rename: renames.NameRename | None
) -> bool:
    """Whether the replacement accepts the arguments with which the script calls the removed name."""
    if rename is None or rename.new_name is None:
        return False
    old, new = f"{used.module}.{used.name}", f"{rename.new_module}.{rename.new_name}"
    return library_arguments.accepts_calls_of(pipeline, (used.location, *uses), old, new)
