"""A name is taken from a library whose installed version no longer has it.

The import ends the script at its first lines; a name that is looked up later (`transformers.AdamW`) ends it there.

## Bad

    from transformers import AdamW  # <- removed-name

    optimizer = AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    # raises ImportError: cannot import name 'AdamW' from 'transformers'

## Good

    from torch.optim import AdamW

    optimizer = AdamW(model.parameters(), lr=5e-5)
    model.train()
    for batch in train_loader:
        model(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

## When it is fine

A script that expects the name to be missing, or asks for the version, runs with both:

    try:
        from transformers import AdamW
    except ImportError:
        from torch.optim import AdamW

    slow = AdamW(model.parameters(), lr=5e-5)

The version that counts is the one that the project names: in a lock file, in its requirements, or in its environment.

## Fix

Safe where the name only moved: without the fix the import fails. Asks first where another class or function takes its
part, with defaults of its own. Where a call gives what the other one does not take, there is none.

## References

Transformers, MIGRATION_GUIDE_V5; datasets 3.0 release notes (`load_metric`); TRL release notes; ColBERT#397.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import library_arguments, prescreen
from lintrain.knowledge import api, renames, succession, successors, versions
from lintrain.pipeline.record import LibraryName
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Source, Targets, Verdict, fixes

MOST_USES = 8
"""A name used in more places than this is left to its author."""

TORCH_MODELS_ONLY = ("TF", "Flax")
"""Classes of other frameworks have namesakes in torch, but a script does not become one of torch by their names."""


class RemovedName(Rule):
    level = Level.ERROR
    needs_training = False
    matters_in_tests = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_take_what_is_gone(source, targets)

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[Location]()
        for used in pipeline.names:
            if (
                used.is_guarded
                or used.location in seen
                or library_arguments.demands_version(pipeline, used.location, used.module)
            ):
                continue
            known = api.name_state(used.module, used.name, pipeline.targets)
            if known.state == "gone":
                seen.add(used.location)
                yield self._report(pipeline, used, known)

    def _report(self, pipeline: Pipeline, used: LibraryName, known: api.Known) -> Finding:
        target = pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        uses = _uses(pipeline, used)
        rename = successors.name_rename(used.module, used.name, pipeline.targets)
        return self.finding(
            used.location,
            f"`{used.name}` is gone after {known.package} {known.last_with} (here: {version})",
            related=[Related(location, "used here", "use", used.bound_as) for location in uses],
            why=f"{source} asks for {known.package} {version}" if target else "",
            help=rename.advice if rename else "see the release notes for what replaces it",
            subject=used.name,
            facts={
                "module": used.module,
                "name": used.name,
                "is_import": used.is_import,
                "is_certain": _is_certain(pipeline, used),
                "new_module": (rename.new_module if rename else None) or "",
                "new_name": (rename.new_name if rename else None) or "",
                "is_safe": rename.is_safe if rename else False,
                "is_mendable": used.bound_as in ("", used.name)
                and len(uses) < MOST_USES
                and _takes_its_calls(pipeline, used, uses, rename),
            },
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        module, name = str(finding.facts.get("module")), str(finding.facts.get("name"))
        package = module.partition(".")[0]
        version = evidence.versions.get(package, "")
        if evidence.failed_with(f"cannot import name '{name}'", f"has no attribute '{name}'") is not None:
            return Verdict.confirmed(f"{package} {version} has no `{name}`: the script ends here", version=version)
        if evidence.ran(finding.location) or evidence.call is not None:
            if finding.facts.get("is_certain"):
                return Verdict.refuted(f"the script ran past this line with {package} {version}", version=version)
            return Verdict.inconclusive(f"nothing shows that `{name}` was asked of {package} {version}")
        if version and api.name_state(module, name, versions.exactly(**{package: version})).state == "gone":
            return Verdict.confirmed(f"`{module}` of {package} {version} has no `{name}`", version=version)
        return Verdict.inconclusive(f"whether {package} {version} has `{name}` was not seen")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        facts = finding.facts
        module, name, new_module, new_name = (
            str(facts.get(key) or "") for key in ("module", "name", "new_module", "new_name")
        )
        is_other_framework = name.startswith(TORCH_MODELS_ONLY)
        if not new_module or not new_name or not facts.get("is_mendable") or is_other_framework:
            return None
        title = f"take `{new_name}` from `{new_module}`"
        is_safe = bool(facts.get("is_safe"))
        if not facts.get("is_import"):
            edits = (
                fixes.Replace(finding.location, f"{new_module}.{new_name}"),
                fixes.AddImport(new_module.partition(".")[0]),
            )
            return fixes.Fix.of(title, *edits, safe=is_safe)
        by_module = new_name != name and new_name.islower() and "." not in new_module
        code = f"{new_module}.{new_name}" if by_module else new_name
        uses = [] if code == name else [fixes.Replace(use.location, code) for use in finding.with_role("use")]
        brought = fixes.AddImport(new_module) if by_module else fixes.AddImport(new_module, new_name)
        return fixes.Fix.of(title, fixes.RemoveImport(module, name), brought, *uses, safe=is_safe)


def _uses(pipeline: Pipeline, used: LibraryName) -> list[Location]:
    """Every use of an imported name in the script."""
    if not used.is_import:
        return []
    source = pipeline.source_of(used.location)
    return [source.location(node) for node in source.nodes_of(ast.Name) if node.id == used.bound_as][:MOST_USES]


def _takes_its_calls(
    pipeline: Pipeline, used: LibraryName, uses: list[Location], rename: renames.NameRename | None
) -> bool:
    """Whether the successor of a name can be called with what the script gives to the name."""
    if rename is None or rename.new_name is None:
        return False
    source = pipeline.source_of(used.location)
    calls = [node for node in source.nodes_of(ast.Call) if source.location(node.func) in (used.location, *uses)]
    old, new = f"{used.module}.{used.name}", f"{rename.new_module}.{rename.new_name}"
    return succession.takes_calls(old, new, calls, pipeline.targets)


def _is_certain(pipeline: Pipeline, used: LibraryName) -> bool:
    """Whether every run of the script comes past this use: it stands in a plain statement of the module."""
    plain = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr)
    source = pipeline.source_of(used.location)
    statements = (node for node in source.tree.body if isinstance(node, plain))
    return any(source.location(node).holds(used.location) for node in statements)
