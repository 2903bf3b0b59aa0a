"""A failing stage as a small script, verified before it is written."""

from __future__ import annotations

import re
from pathlib import Path

from lintrain.evidence.run import Evidence, Failure
from lintrain.report.markdown import formatted, in_docstring, literal
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.launcher import Bounds
from lintrain.runtime.parent.prober import Wanted, probe_script
from lintrain.runtime.parent.record import Record
from lintrain.runtime.parent.remains import copy_plain_files
from lintrain.source.reading import read_plain
from lintrain.startup.lazy_dataclass import dataclass

RECIPE, SCRIPT = "recipe.json", "repro.py"
SECONDS = 180.0
"""Time limit of the written script."""
LARGEST_RECIPE = 8 * 2**20
HEAD = '''"""Reproduces the error of the {stage} stage of {script} on the CPU: {raised_by} raises it.

    {error}
"""
'''
README = """# {type} in the {stage} stage of {script}

    pip install -r requirements.txt
    python repro.py

raises the error that `lintrain probe {script}` found:

    {error}

{raised_by} raises it. Written by lintrain {version} with Python {python}; model weights are newly initialized.
{modules}"""


class NoReproductionError(Exception):
    """No reproduction can be written; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What the probed process recorded: parts of the code, or the `reason` why there are none.

    `modules` are the user's modules that the code imports.
    """

    stage: str
    reason: str = ""
    raised_by: str = ""
    imports: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()


def write_reproduction(record: Record, kept: Path, folder: Path) -> Failure:
    """Write a script that fails as the run did, and return the error; raises NoReproductionError."""
    evidence, recipe = _failing(record, kept)
    failure = evidence.failure
    if failure is None or recipe.reason:
        raise NoReproductionError(f"the {recipe.stage} stage failed, but {recipe.reason or 'without an error'}")
    (kept / RECIPE).unlink()
    try:
        (kept / SCRIPT).write_text(_script(record, evidence, recipe, failure), encoding="utf-8")
        _verify_error(record.python, kept, failure)
        (kept / "requirements.txt").write_text(_requirements(evidence), encoding="utf-8")
        (kept / "README.md").write_text(_readme(record, evidence, recipe, failure), encoding="utf-8")
        copy_plain_files(kept, folder)
    except OSError as error:
        raise NoReproductionError((error.strerror or str(error)).lower()) from error
    return failure


def _failing(record: Record, kept: Path) -> tuple[Evidence, Recipe]:
    evidence = next((run for run in record.runs if run.failed_stage), None)
    if evidence is None or evidence.failed_stage is None:
        raise NoReproductionError("no stage failed")
    if not (kept / RECIPE).is_file():
        stage = evidence.failed_stage.name
        raise NoReproductionError(f"the {stage} stage failed, which running the script reproduces")
    return evidence, _read_recipe(kept / RECIPE)


def _read_recipe(file: Path) -> Recipe:
    """The recipe that the script's process wrote; raises NoReproductionError if it is not valid."""
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(Recipe).validate_json(read_plain(file, LARGEST_RECIPE))
    except (OSError, ValidationError) as error:
        raise NoReproductionError("the recipe of the reproduction is not valid") from error


def _first_line(failure: Failure) -> str:
    lines = failure.message.splitlines()
    return f"{failure.type}: {lines[0]}" if lines else failure.type


def _script(record: Record, evidence: Evidence, recipe: Recipe, failure: Failure) -> str:
    name, error = in_docstring(Path(record.script).name), in_docstring(_first_line(failure))
    stage, raised_by = in_docstring(recipe.stage), in_docstring(recipe.raised_by)
    head = HEAD.format(stage=stage, script=name, raised_by=raised_by, error=error)
    body = "\n".join(recipe.lines)
    imports = list(recipe.imports)
    before: list[str] = []
    if recipe.modules:
        imports = ["import sys", *imports]
        before.append(f"sys.path.insert(0, {literal(str(Path(record.script).absolute().parent))})")
    if "HERE" in body:
        imports.append("from pathlib import Path")
        before.append("HERE = Path(__file__).parent")
    if "import torch" in imports:
        before.append(f"torch.manual_seed({evidence.arguments.get('seed', 0)})")
    known = [line for line in imports if not _is_of_user(line, recipe)]
    users = [line for line in imports if _is_of_user(line, recipe)]
    parts = [head, "\n".join(dict.fromkeys(known)), "\n".join(before), "\n".join(users), *recipe.definitions, body]
    return formatted("\n\n".join(part for part in parts if part) + "\n")


def _is_of_user(line: str, recipe: Recipe) -> bool:
    """Whether a line imports a module of the user."""
    return any(re.match(rf"from {re.escape(module)} import ", line) for module in recipe.modules)


def _verify_error(python: str, kept: Path, failure: Failure) -> None:
    """Run the written script in the sandbox of a probe, since the probed script provided most of it.

    Raises NoReproductionError if it does not raise the same error.
    """
    entry = Entry(kept / SCRIPT)
    done = probe_script(Wanted(entry, python, Bounds(SECONDS), is_on_cpu=True), lambda _: None).ending
    if done.kind == "time":
        raise NoReproductionError(f"the reproduction did not end within {SECONDS:g} s")
    if not _ends_with(done.output, failure):
        last = done.output.strip().splitlines()[-1:] if done.kind == "crashed" else []
        last = last or ["no error"]
        raise NoReproductionError(
            f"the error does not occur outside of the script: the reproduction ends with {last[0]}"
        )


def _ends_with(output: str, failure: Failure) -> bool:
    """Whether a traceback ends with an error, apart from addresses in its message."""
    wanted = _without_addresses(f"{failure.type}: {failure.message}".removesuffix(" …").strip().removesuffix(":"))
    found = _without_addresses(output)
    return re.search(rf"^(?:[\w.]+\.)?{re.escape(wanted)}", found, flags=re.MULTILINE) is not None


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x0", text)


def _requirements(evidence: Evidence) -> str:
    """The versions of the run, without local build tags."""
    versions = ((name, version.partition("+")[0]) for name, version in evidence.versions.items() if name != "python")
    return "".join(f"{name}=={version}\n" for name, version in versions)


def _readme(record: Record, evidence: Evidence, recipe: Recipe, failure: Failure) -> str:
    modules = ", ".join(f"`{module}`" for module in recipe.modules)
    return README.format(
        type=failure.type,
        stage=recipe.stage,
        script=Path(record.script).name,
        error=_first_line(failure),
        raised_by=recipe.raised_by[:1].upper() + recipe.raised_by[1:],
        version=record.lintrain,
        python=evidence.versions.get("python", ""),
        modules=f"It imports {modules} from the folder of the script.\n" if modules else "",
    )
