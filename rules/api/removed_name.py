"""A name is taken from a library whose installed version no longer has it.

The import ends the script at its first lines; a name that is looked up later (`transformers.AdamW`) ends it there.

## Bad

    from transformers import AdamW  # <- removed-name

    slow = AdamW(model.parameters(), lr=5e-5)
    # raises ImportError: cannot import name 'AdamW' from 'transformers'

## Good

    from torch.optim import AdamW

    slow = AdamW(model.parameters(), lr=5e-5)

## When it is fine

A script that expects the name to be missing, or asks for the version, runs with both:

    try:
        from transformers import AdamW
    except ImportError:
        from torch.optim import AdamW

    slow = AdamW(model.parameters(), lr=5e-5)

The version that counts is the one that the project names: in a lock file, in its requirements, or in its environment.

## References

Transformers, MIGRATION_GUIDE_V5; datasets 3.0 release notes (`load_metric`); TRL release notes; ColBERT#397.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    AddImport,
    Evidence,
    Finding,
    Fix,
    Known,
    Level,
    LibraryName,
    Pipeline,
    Place,
    Reason,
    RemoveImport,
    Replace,
    Rule,
    Verdict,
    confirmed,
    exactly,
    name_state,
    refuted,
    unsettled,
)

MOVED = {
    ("transformers", "AdamW"): ("torch.optim", "AdamW"),
}
"""Names that another module offers; defaults may differ (torch's AdamW decays weights by 0.01, the old one by 0)."""

ADVICE = {
    ("transformers", "AdamW"): "`torch.optim.AdamW` replaces it; its weight decay is 0.01 where none is given",
    ("datasets", "load_metric"): "`evaluate.load` replaces it",
    ("trl", "DataCollatorForCompletionOnlyLM"): (
        "`SFTConfig(completion_only_loss=True)` replaces it, on a data set with `prompt` and `completion`"
    ),
}

OTHER_FRAMEWORKS = {"TF": "TensorFlow", "Flax": "Flax"}
LAST_OTHER_FRAMEWORKS = "4.57"


class RemovedName(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[Place]()
        for used in pipeline.names:
            if used.is_guarded or used.place in seen:
                continue
            known = name_state(used.module, used.name, pipeline.targets)
            if known.state == "gone":
                seen.add(used.place)
                yield self._report(pipeline, used, known)

    def _report(self, pipeline: Pipeline, used: LibraryName, known: Known) -> Finding:
        target = pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        uses = _uses(pipeline, used)
        return self.finding(
            used.place,
            f"`{used.name}` is gone after {known.package} {known.last_with} (here: {version} by {source})",
            because=[Reason(place, "used here", "use", used.bound_as or used.name) for place in uses[:3]],
            help=_advice(known.package, used.name),
            subject=used.name,
            facts={
                "module": used.module,
                "name": used.name,
                "is_import": used.is_import,
                "is_renamed": used.bound_as not in ("", used.name),
            },
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        module, name = str(finding.facts.get("module")), str(finding.facts.get("name"))
        package = module.partition(".")[0]
        version = evidence.versions.get(package, "")
        if evidence.failed_with(f"cannot import name '{name}'", f"has no attribute '{name}'") is not None:
            return confirmed(f"{package} {version} has no `{name}`: the script ends here", version=version)
        state = name_state(module, name, exactly(**{package: version})).state if version else "unknown"
        if state == "gone":
            return confirmed(f"`{module}` of {package} {version} has no `{name}`", version=version)
        if state == "present" or (finding.facts.get("is_import") and evidence.passed("script")):
            return refuted(f"`{module}` of {package} {version} has `{name}`", version=version)
        return unsettled(f"whether {package} {version} has `{name}` was not seen")

    def fix(self, finding: Finding) -> Fix | None:
        module, name = str(finding.facts.get("module")), str(finding.facts.get("name"))
        target = MOVED.get((module.partition(".")[0], name))
        if target is None or finding.facts.get("is_renamed"):
            return None
        title = f"take `{name}` from `{target[0]}`"
        if finding.facts.get("is_import"):
            return Fix.of(title, RemoveImport(module, name), AddImport(*target), safe=False)
        edits = (Replace(finding.place, ".".join(target)), AddImport(target[0].partition(".")[0]))
        return Fix.of(title, *edits, safe=False)


def _uses(pipeline: Pipeline, used: LibraryName) -> list[Place]:
    """The calls of an imported name."""
    bound = used.bound_as or used.name
    return [call.place for call in pipeline.calls if used.is_import and call.text.partition(".")[0] == bound]


def _advice(package: str, name: str) -> str:
    """What to write instead of a name that is gone."""
    if (package, name) in ADVICE:
        return ADVICE[package, name]
    for prefix, framework in OTHER_FRAMEWORKS.items():
        if package == "transformers" and name.startswith(prefix) and name[len(prefix) :][:1].isupper():
            plain = name.removeprefix(prefix)
            return f"{framework} went with transformers 5: use `{plain}`, or stay on {LAST_OTHER_FRAMEWORKS}"
    return "see the release notes for what replaces it"
