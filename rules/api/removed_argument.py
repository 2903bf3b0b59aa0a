"""A call names an argument that the installed version no longer takes.

Libraries rename and drop arguments from one version to the next. Where the class does not take arguments of any name,
the script ends at this call with an error, before it has loaded or trained anything.

## Bad

    args = TrainingArguments(
        output_dir="out",
        evaluation_strategy="epoch",  # <- removed-argument
        learning_rate=2e-5,
    )
    # raises TypeError: TrainingArguments.__init__() got an unexpected keyword argument 'evaluation_strategy'

## Good

    args = TrainingArguments(
        output_dir="out",
        eval_strategy="epoch",
        learning_rate=2e-5,
    )

## When it is fine

A script that asks for the version, or expects the error, runs with both:

    try:
        args = TrainingArguments(output_dir="out", evaluation_strategy="epoch")
    except TypeError:
        args = TrainingArguments(output_dir="out", eval_strategy="epoch")

The version that counts is the one that the project names: in a lock file, in its requirements, or in its environment.
With `transformers==4.40` pinned there, `evaluation_strategy` is right.

## References

Transformers, MIGRATION_GUIDE_V5; TRL release notes; transformers#32385, trl#2162, course#875.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain import (
    AddImport,
    Argument,
    Evidence,
    Finding,
    Fix,
    Known,
    Level,
    LibraryCall,
    Pipeline,
    Place,
    Reason,
    RemoveArgument,
    RenameArgument,
    Rule,
    Verdict,
    argument_rename,
    confirmed,
    exactly,
    keyword_state,
    refuted,
    unsettled,
)


class RemovedArgument(Rule):
    level = Level.ERROR

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        seen = set[Place]()
        for call in pipeline.calls:
            for name, argument in call.arguments.items():
                if call.is_guarded or argument.keyword is None or argument.keyword in seen:
                    continue
                known = keyword_state(call.path, name, pipeline.targets)
                if known.state == "gone":
                    seen.add(argument.keyword)
                    yield self._report(pipeline, call, name, argument, known)

    def _report(self, pipeline: Pipeline, call: LibraryCall, name: str, argument: Argument, known: Known) -> Finding:
        target = pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        advice, edit = _cure(pipeline, call, name, argument)
        return self.finding(
            argument.keyword or argument.place,
            f"`{name}` is gone after {known.package} {known.last_with} (here: {version})",
            because=[Reason(call.place, f"{known.package} {version} by {source}", "call", call.text)],
            help=advice,
            subject=name,
            facts={"callable": call.path, "argument": name, "is_certain": call.is_certain, **edit},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        name, path = str(finding.facts.get("argument")), str(finding.facts.get("callable"))
        package = path.partition(".")[0]
        version = evidence.versions.get(package, "")
        if evidence.failed_with(f"unexpected keyword argument '{name}'") is not None:
            return confirmed(f"{package} {version} raises TypeError on `{name}`", version=version)
        if evidence.ran(finding.place) or evidence.call is not None:
            if finding.facts.get("is_certain"):
                return refuted(f"{package} {version} took the call", version=version)
            return unsettled(f"nothing shows that {package} {version} was called with `{name}`")
        if version and keyword_state(path, name, exactly(**{package: version})).state == "gone":
            return confirmed(f"`{path}` of {package} {version} has no `{name}`", version=version)
        return unsettled(f"whether {package} {version} takes `{name}` was not seen")

    def fix(self, finding: Finding) -> Fix | None:
        calls = finding.related("call")
        texts = {key: str(finding.facts.get(key) or "") for key in ("argument", "new_name", "new_value", "brings")}
        is_safe = bool(finding.facts.get("is_safe"))
        if not calls or "removes" not in finding.facts:
            return None
        if finding.facts["removes"]:
            removal = RemoveArgument(calls[0].place, texts["argument"])
            return Fix.of(f"leave out `{texts['argument']}`", removal, safe=is_safe)
        edit = RenameArgument(calls[0].place, texts["argument"], texts["new_name"], texts["new_value"] or None)
        module, _, name = texts["brings"].rpartition(".")
        imports = [AddImport(module, name)] if module else []
        return Fix.of(f"write `{texts['new_name']}`", edit, *imports, safe=is_safe)


def _cure(pipeline: Pipeline, call: LibraryCall, name: str, argument: Argument) -> tuple[str, dict[str, str | bool]]:
    """What to write instead of an argument that is gone: advice, and the facts that an edit is made of."""
    rename = argument_rename(call.path, name, pipeline.targets)
    if rename is None:
        return "see the release notes for what replaces it", {}
    mended = rename.mended(argument.text)
    if mended is None or (mended.name is not None and mended.name in call.arguments):
        return rename.advice, {}
    facts: dict[str, str | bool] = {"is_safe": mended.is_safe, "removes": mended.name is None}
    facts |= {"new_name": mended.name or "", "new_value": mended.value or "", "brings": rename.brings or ""}
    return rename.advice, facts
