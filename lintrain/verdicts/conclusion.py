"""The conclusion of a probe: an exit code and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lintrain.evidence.run import Evidence, Stage, StageName
from lintrain.evidence.stages import AFTER_TRAINING, BEFORE_TRAINING, TRAINING_STAGES, EndingKind, Failure
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.runtime.parent.record import Record
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern
from lintrain.verdicts.endings.explaining import Explanation, explain
from lintrain.verdicts.judging import RULE_FAILED, Judged
from lintrain.verdicts.resting import may_come_from_stand_in, missing_argument

NOTHING_CONFIRMED, CONFIRMED, USAGE, NOT_JUDGED = 0, 1, 2, 3
REFUSAL = lazy_pattern(
    r"\b[Ee]rror: (?P<message>(?:the following arguments are required: |[Mm]issing (?:option|argument|parameter) )"
    r"(?P<missing>.+)|(?:unrecognized arguments|argument |[Nn]o such option|[Ii]nvalid value for).*)"
)
OF_HYDRA = lazy_pattern(r"(?:In '.*?': )?(?P<message>(?:Could not|Error|Key|You must|Missing|Multiple) .+)")
PLUGINS = (
    ("colorlog", "hydra-colorlog"),
    ("optuna", "hydra-optuna-sweeper"),
    ("joblib", "hydra-joblib-launcher"),
    ("submitit", "hydra-submitit-launcher"),
)
"""Groups of settings that a plugin of Hydra brings, by a part of their names."""
ARGUMENT = lazy_pattern(r"(?:--?)?\w[\w-]*(?=[\s,'\"/)]|\.?\Z)")
Format = Callable[[Location], str]

UNEXPLAINED = "no rule explains why"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """0 nothing confirmed, 1 mistakes confirmed or the script fails, 3 could not judge; with one line that says why."""

    exit_code: int
    reason: str

    @property
    def is_unexplained(self) -> bool:
        """Whether training fails and no rule says why."""
        return self.reason.endswith(UNEXPLAINED)


def plain_line(location: Location) -> str:
    """A location as path and line."""
    return f"{location.path}:{location.line}"


def conclude(
    record: Record, judged: Sequence[Judged], shown_as: Format = plain_line, failed: Sequence[str] = ()
) -> Conclusion:
    """The exit code of a probe: a confirmed mistake or an error of the script precedes what could not be judged.

    An error because something is not on this machine (a package, a file, a GPU, the hub) is none of the script's.
    `shown_as` formats a location for the user; `failed` are rules that failed on the script's text.
    """
    mistakes = [finding for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED]
    counted = [finding for finding in mistakes if finding.level is not Level.NOTE]
    as_written = [run for run in record.runs if not run.repairs]
    failing = [stage for run in as_written if (stage := run.failed_stage) and stage.name not in BEFORE_TRAINING]
    error = failing[0].failure if failing else error_before_training(record)
    cause = explain(error) if error else Explanation()
    if counted:
        number = f"{len(counted)} mistake{'' if len(counted) == 1 else 's'} confirmed"
        return Conclusion(CONFIRMED, f"{number}{_but_stopped(record, shown_as)}")
    if (run := _resting(record)) is not None:
        return Conclusion(NOT_JUDGED, f"could not judge: {_on_stand_ins(run, record, shown_as)}")
    if failing and not cause.is_of_surroundings:
        return Conclusion(CONFIRMED, f"{_what_fails(failing[0])}{_because(cause)}")
    if failing:
        return Conclusion(NOT_JUDGED, f"could not judge the {failing[0].name} stage: {cause.cause}{_offer(cause)}")
    if error and not cause.is_of_surroundings:
        return Conclusion(CONFIRMED, f"{why_stopped(record, shown_as)}{_likely(cause)}")
    if record.ending.kind is not EndingKind.MEASURED:
        return Conclusion(NOT_JUDGED, f"could not judge: {why_stopped(record, shown_as)}{_offer(cause)}")
    unmeasured = [stage for run in record.runs for stage in run.stages if _is_our_failure(stage)]
    if unmeasured:
        return Conclusion(NOT_JUDGED, f"could not judge the {unmeasured[0].name} stage: {unmeasured[0].reason}")
    failed_rules = [*failed, *(finding.rule for finding, verdict in judged if verdict.reason.startswith(RULE_FAILED))]
    if failed_rules:
        return Conclusion(NOT_JUDGED, f"could not judge: lintrain's own `{failed_rules[0]}` failed")
    return Conclusion(NOTHING_CONFIRMED, f"{_what_ran(record)}nothing confirmed")


def _what_ran(record: Record) -> str:
    """The steps and evaluations of the runs, or the last stage that passed; "" if none did."""
    kinds = ((StageName.STEP, "step"), (StageName.EVALUATION, "evaluation"))
    numbers = [(sum(run.passed(stage) for run in record.runs), noun) for stage, noun in kinds]
    ran = [f"{number} {noun}{'' if number == 1 else 's'}" for number, noun in numbers if number]
    passed = [stage for stage in TRAINING_STAGES if any(run.passed(stage) for run in record.runs)]
    if not ran and passed:
        ran = [f"the {passed[-1]} stage"]
    return f"{' and '.join(ran)} ran, " if ran else ""


def error_before_training(record: Record) -> Failure | None:
    """The error of the script that ended a probe outside of any stage of training; None if another thing ended it."""
    ending = record.ending
    if ending.kind is EndingKind.CRASHED or any(run.repairs for run in record.runs):
        return next((run.failure for run in record.runs if run.failure), None)
    if ending.kind is EndingKind.STOPPED and ending.reason:
        kind, _, message = ending.reason.partition(": ")
        return Failure(kind, message, None)
    return None


def _what_fails(stage: Stage) -> str:
    if stage.reason == AFTER_TRAINING:
        return "the script fails after its training"
    return f"training fails in its {stage.name} stage"


REPLACED = (
    "half-precision-not-here",
    "gated-repository",
    "hub-not-reached",
    "dataset-not-reached",
    "metric-not-reached",
    "no-token-for-hub",
    "no-cuda",
    "no-gpu-memory",
    "no-gpu-for-lightning",
)
"""Kinds of errors that do not come with `--stand-ins`."""


def _offer(cause: Explanation) -> str:
    return "; `--stand-ins` replaces what is not here" if cause.kind in REPLACED else ""


def _resting(record: Record) -> Evidence | None:
    """The run whose error may come from a stand-in."""
    failing = [run for run in record.runs if run.failure is not None and not run.repairs]
    return next((run for run in failing if run.failure and may_come_from_stand_in(run.failure, run)), None)


def _on_stand_ins(run: Evidence, record: Record, shown_as: Format) -> str:
    failed = run.failed_stage
    where = f"the {failed.name} stage fails" if failed is not None else why_stopped(record, shown_as)
    argument = missing_argument(run.failure, run) if run.failure else None
    if argument is not None:
        return f"{where} by the value that was made for `{argument}`; pass your own after the script's name"
    return f"{where}, and the error may come from a stand-in"


def _because(cause: Explanation) -> str:
    return f": {_likelihood(cause)}{cause.cause}" if cause.kind else f", and {UNEXPLAINED}"


def _likely(cause: Explanation) -> str:
    return f": {_likelihood(cause)}{cause.cause}" if cause.kind else ""


def _likelihood(cause: Explanation) -> str:
    return "" if cause.is_certain else "likely, "


def _is_our_failure(stage: Stage) -> bool:
    return stage.reason.startswith("lintrain's own")


def _but_stopped(record: Record, shown_as: Format) -> str:
    return (
        ""
        if record.ending.kind in (EndingKind.MEASURED, EndingKind.CRASHED)
        else f"; then {why_stopped(record, shown_as)}"
    )


def why_stopped(record: Record, shown_as: Format = plain_line) -> str:
    """Why the script was not measured to its end, as text after a colon."""
    ending = record.ending
    match ending.kind:
        case EndingKind.CRASHED:
            return (
                f"the script fails before any training call: {_first_line(ending.reason)}{_at(record.runs, shown_as)}"
            )
        case EndingKind.STOPPED:
            return f"the script fails after an optimizer step that is in no loop: {_first_line(ending.reason)}"
        case EndingKind.NO_TRAINING | EndingKind.EXITED if refused := _refused(record):
            return refused
        case EndingKind.NO_TRAINING:
            how = f" with {ending.reason}" if ending.reason else ""
            return f"the script ended{how} without training: no `Trainer`, no `fit`, no optimizer step"
        case EndingKind.BY_HAND:
            return f"the script updates its weights by hand: {ending.reason}, without an optimizer"
        case EndingKind.ELSEWHERE:
            return "the script trains in processes that it starts itself, and only the main process is measured"
        case EndingKind.EXITED:
            return f"no training call was reached: {ending.reason}"
        case EndingKind.TIME | EndingKind.MEMORY | EndingKind.DISK:
            return f"a limit was reached{_during(record.runs)}: {ending.reason}"
        case EndingKind.PROBE_FAILED:
            return f"lintrain itself failed: {ending.reason}"
        case _:
            return f"{ending.reason}{_during(record.runs)}"


def _refused(record: Record) -> str:
    return _refused_arguments(record) or _refused_by_hydra(record)


def _refused_arguments(record: Record) -> str:
    """What a script says that parses its arguments and misses one, with the command that gives it; else empty.

    argparse, click and typer write one line and exit with status 2.
    """
    if not record.ending.reason.endswith(f"status {USAGE}"):
        return ""
    shown = next((found for line in record.ending.output.splitlines() if (found := REFUSAL.search(line))), None)
    if shown is None:
        return ""
    text = f"the script refuses its arguments: {shown['message'].strip().rstrip('.')}"
    if not shown["missing"]:
        return text
    missing = ARGUMENT.findall(shown["missing"])
    given = [*record.arguments, *(f"{name} …" if name.startswith("-") else name.upper() for name in missing)]
    return f"{text}; give them after `--`: `{' '.join(['lintrain probe', record.script, '--', *given])}`"


def _refused_by_hydra(record: Record) -> str:
    """What Hydra writes about a configuration before it ends the script, with the plugin that it lacks; else empty."""
    output = record.ending.output
    if "HYDRA_FULL_ERROR" not in output:
        return ""
    found = next((each["message"] for line in output.splitlines() if (each := OF_HYDRA.match(line))), "")
    plugin = next((name for part, name in PLUGINS if part in found), "")
    offer = f"; `pip install {plugin}`" if plugin else ""
    return f"Hydra does not accept the configuration: {found.rstrip('.')}{offer}" if found else ""


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")


def _at(runs: Sequence[Evidence], shown_as: Format) -> str:
    location = runs[0].failure.location if runs and runs[0].failure else None
    return f" ({shown_as(location)})" if location else ""


def _during(runs: Sequence[Evidence]) -> str:
    return " while measuring" if runs else " before any training call"
