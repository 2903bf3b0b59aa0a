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

## Fix

Safe for plain renames, and where the argument had no effect: the call as it stands ends with an error. Asks first where
the new name counts in other units, or where something else takes its part.

## References

Transformers, MIGRATION_GUIDE_V5; TRL release notes; transformers#32385, trl#2162, course#875.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import library_arguments, prescreen
from lintrain.knowledge import api, renames, successors
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict, fixes


class RemovedArgument(Rule):
    level = Level.ERROR
    needs_training = False
    matters_in_tests = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_give_what_is_refused(source, targets, "gone")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for given in library_arguments.given_keywords(pipeline):
            known = api.keyword_state(given.call.path, given.name, pipeline.targets)
            if known.state == "gone":
                yield self._report(pipeline, given, known)

    def _report(self, pipeline: Pipeline, given: library_arguments.GivenKeyword, known: api.Known) -> Finding:
        call, name = given.call, given.name
        target = pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        reasons = [Related(call.location, f"{known.package} {version} by {source}", "call", call.text)]
        rename = successors.argument_rename(call.path, name, pipeline.targets)
        if rename is not None and rename.moved_to is not None and rename.new is not None:
            taker = library_arguments.taker_of(pipeline, given, rename.moved_to, rename.new)
            reasons += [Related(taker.location, f"this one takes `{rename.new}`", "taker", taker.text)] if taker else []
        return self.finding(
            given.location,
            f"`{name}` is gone after {known.package} {known.last_with} (here: {version})",
            related=reasons,
            help=rename.advice if rename is not None else "see the release notes for what replaces it",
            subject=name,
            facts={"callable": call.path, "argument": name, "is_certain": call.is_certain, **_edit(given, rename)},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        return library_arguments.verdict_on_keyword(finding, evidence, "gone")

    def fix(self, finding: Finding) -> fixes.Fix | None:
        calls = finding.with_role("call")
        keys = ("argument", "new_name", "new_value", "brings", "moves")
        texts = {key: str(finding.facts.get(key) or "") for key in keys}
        is_safe = bool(finding.facts.get("is_safe"))
        if texts["moves"]:
            return library_arguments.moving(finding, texts["argument"], texts["moves"], texts["new_value"])
        if not calls or "removes" not in finding.facts:
            return None
        if finding.facts["removes"]:
            removal = fixes.RemoveArgument(calls[0].location, texts["argument"])
            return fixes.Fix.of(f"leave out `{texts['argument']}`", removal, safe=is_safe)
        edit = fixes.RenameArgument(calls[0].location, texts["argument"], texts["new_name"], texts["new_value"] or None)
        module, _, name = texts["brings"].rpartition(".")
        imports = [fixes.AddImport(module, name)] if module else []
        return fixes.Fix.of(f"write `{texts['new_name']}`", edit, *imports, safe=is_safe)


def _edit(given: library_arguments.GivenKeyword, rename: renames.ArgumentRename | None) -> dict[str, str | bool]:
    """The facts that an edit is made of; none where a person has to decide."""
    if rename is None or given.argument.keyword is None:
        return {}
    if rename.moved_to is not None:
        return {"moves": rename.new or "", "new_value": given.argument.text}
    mended = rename.mended(given.argument.text)
    if mended is None or (mended.name is not None and mended.name in given.call.arguments):
        return {}
    facts: dict[str, str | bool] = {"is_safe": mended.is_safe, "removes": mended.name is None}
    return facts | {"new_name": mended.name or "", "new_value": mended.value or "", "brings": rename.brings or ""}
