"""A call passes an argument that the installed version no longer accepts.

Libraries rename and remove arguments between versions. The call raises TypeError, before the script has loaded or
trained anything, unless the class accepts arguments of any name.

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

A script that checks the version or catches the error runs with both versions:

    try:
        args = TrainingArguments(output_dir="out", evaluation_strategy="epoch")
    except TypeError:
        args = TrainingArguments(output_dir="out", eval_strategy="epoch")

lintrain uses the version that the project requires: in its lock file, its requirements or its environment. If these pin
`transformers==4.40`, `evaluation_strategy` is correct. Where nothing states a version, the newest one is assumed: the
finding is a warning that says so.

## Fix

Safe for plain renames and for arguments without effect: the current call raises an error. Asks first where the new
argument has another unit or another meaning, and where the version is assumed.

## References

Transformers, MIGRATION_GUIDE_V5; TRL release notes; transformers#32385, trl#2162, course#875.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from lintrain.analysis import library_arguments, prescreen
from lintrain.knowledge import api, renames, successors
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Source, Targets, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim(library_arguments.KeywordClaim):
    """The removed argument and the edit of its call: a move to another call, a removal, or a new name and value."""

    moved_to_argument: str = ""
    is_removed: bool = False
    new_name: str = ""
    new_value: str = ""
    imports: str = ""
    is_safe: bool = False


class RemovedArgument(Rule[Claim]):
    level = Level.ERROR
    needs_training = False
    judges_networks = True
    matters_in_tests = True
    judges_configurations = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return prescreen.may_pass_keyword(source, targets, "gone")

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for keyword in library_arguments.keyword_arguments(pipeline):
            known = api.keyword_state(keyword.call.path, keyword.name, pipeline.targets)
            if known.state == "gone":
                yield self._report(pipeline, keyword, known)

    def _report(
        self, pipeline: Pipeline, keyword: library_arguments.KeywordArgument, known: api.Known
    ) -> Finding[Claim]:
        call, name = keyword.call, keyword.name
        target = known.installed or pipeline.targets.get(known.package)
        version, source = (target.text, target.source) if target else ("", "")
        reasons = [Related(call.location, f"{known.package} {version}, from {source}", "call", call.text)]
        rename = successors.argument_rename(call.path, name, pipeline.targets)
        if rename is not None and rename.moved_to is not None and rename.new is not None:
            taker = library_arguments.accepting_call(pipeline, keyword, rename.moved_to, rename.new)
            reasons += [Related(taker.location, f"accepts `{rename.new}`", "taker", taker.text)] if taker else []
        return self.finding(
            keyword.location,
            f"`{name}` was removed after {known.package} {known.last_with} ({target.shown if target else ''})",
            related=reasons,
            why=library_arguments.why_about_keys(pipeline),
            help=rename.advice if rename is not None else "see the release notes for the replacement",
            subject=name,
            level=library_arguments.level_for(target),
            claim=_claim(keyword, rename, is_assumed=target is not None and target.is_assumed),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        refused = library_arguments.refused_keyword(evidence, "gone")
        if refused is not None:
            location, keyword = refused
            yield self.finding(
                location,
                f"`{keyword.argument}` is gone from `{keyword.callable}`",
                help="`lintrain check` shows its present name",
                claim=Claim(keyword.callable, keyword.argument, is_certain=True),
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        return library_arguments.verdict_on_keyword(finding, evidence, "gone")

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim, calls = finding.claim, finding.with_role("call")
        if claim is None:
            return None
        if claim.moved_to_argument:
            return library_arguments.moved_argument(finding, claim.argument, claim.moved_to_argument, claim.new_value)
        if not calls or not (claim.is_removed or claim.new_name):
            return None
        if claim.is_removed:
            removal = fixes.RemoveArgument(calls[0].location, claim.argument)
            return fixes.Fix.of(f"remove `{claim.argument}`", removal, safe=claim.is_safe)
        edit = fixes.RenameArgument(calls[0].location, claim.argument, claim.new_name, claim.new_value or None)
        module, _, name = claim.imports.rpartition(".")
        imports = [fixes.AddImport(module, name)] if module else []
        return fixes.Fix.of(f"write `{claim.new_name}`", edit, *imports, safe=claim.is_safe)


def _claim(
    keyword: library_arguments.KeywordArgument, rename: renames.ArgumentRename | None, *, is_assumed: bool
) -> Claim:
    """The claim about an argument, with an edit where one replacement is right for every script."""
    call, name = keyword.call, keyword.name
    plain = Claim(call.path, name, call.is_certain)
    if rename is None or keyword.argument.keyword is None:
        return plain
    if rename.moved_to is not None:
        return replace(plain, moved_to_argument=rename.new or "", new_value=keyword.argument.text)
    edit = rename.replacement(keyword.argument.text)
    if edit is None or (edit.name is not None and edit.name in call.arguments):
        return plain
    return replace(
        plain,
        is_removed=edit.name is None,
        new_name=edit.name or "",
        new_value=edit.value or "",
        imports=rename.brings or "",
        is_safe=edit.is_safe and not is_assumed,
    )
