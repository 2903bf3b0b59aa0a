"""Which versions of the libraries a project is written for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from lintrain.knowledge import statements, versions
from lintrain.knowledge.tables import covered_versions
from lintrain.knowledge.target import Target
from lintrain.knowledge.versions import allowed_versions, find_versions

NEWEST = covered_versions("transformers")[-1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project, seen from an interpreter that has none of the libraries."""
    monkeypatch.setattr(versions, "interpreter_folders", list)
    return tmp_path


def environment(folder: Path, *distributions: str) -> None:
    for distribution in distributions:
        (folder / ".venv" / "lib" / "python3.11" / "site-packages" / f"{distribution}.dist-info").mkdir(parents=True)


def found(folder: Path, settings: dict[str, str] | None = None) -> tuple[list[tuple[int, int]], str, str]:
    target = find_versions(folder, settings).get("transformers")
    assert target is not None
    return list(target.versions), target.text, target.source


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("uv.lock", 'version = 1\n\n[[package]]\nname = "transformers"\nversion = "4.46.3"\nsource = {}\n', 5),
        ("poetry.lock", '[[package]]\nname = "transformers"\nversion = "4.46.3"\ndescription = ""\n', 3),
        ("pdm.lock", '[[package]]\nname = "transformers"\nversion = "4.46.3"\nrequires_python = ""\n', 3),
        ("pylock.toml", '[[packages]]\nname = "transformers"\nversion = "4.46.3"\n', 3),
        ("Pipfile.lock", '{"default": {\n"transformers": {\n"hashes": ["sha256:0"],\n"version": "==4.46.3"\n}}}', 4),
        ("requirements.txt", "torch\nTransformers[torch]==4.46.3  # pinned\n", 2),
        ("setup_environment.sh", "#!/bin/sh\npip install transformers==4.46.3\n", 2),
        ("requierments.txt", "transformers==4.46.3\n", 1),
        ("requirement.txt", "transformers==4.46.3\n", 1),
        ("requirements-train.txt", "transformers == 4.46.3 ; python_version > '3.8'\n", 1),
        ("environment.yml", "dependencies:\n  - pip:\n    - transformers==4.46.3\n", 3),
        ("pyproject.toml", '[project]\ndependencies = [\n  "transformers[torch]==4.46.3",\n]\n', 3),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntransformers = {version = "4.46.3", extras = ["torch"]}\n', 2),
    ],
)
def test_a_file_that_pins_a_version_decides(project: Path, name: str, content: str, line: int) -> None:
    (project / name).write_text(content)
    listed, text, source = found(project)
    assert listed == [(4, 46)]
    assert text.replace(" ", "") == "4.46.3"
    assert source == f"{name}:{line}"


def test_the_settings_come_before_everything(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers==4.46.3\n")
    assert found(project, {"transformers": "4.50"}) == ([(4, 50)], "4.50", "settings")


def test_a_lock_file_comes_before_requirements(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers==4.40.0\n")
    (project / "uv.lock").write_text('[[package]]\nname = "transformers"\nversion = "4.46.3"\n')
    assert found(project)[0] == [(4, 46)]


def test_requirements_come_before_the_environment(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers==4.46.3\n")
    environment(project, "transformers-5.1.0")
    assert found(project) == ([(4, 46)], "4.46.3", "requirements.txt:1")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_requirements_may_be_in_the_encodings_that_pip_reads(project: Path, encoding: str) -> None:
    """PowerShell writes UTF-16: `pip freeze > requirements.txt`."""
    (project / "requirements.txt").write_text("torch\ntransformers==4.46.3\n", encoding=encoding)
    assert found(project) == ([(4, 46)], "4.46.3", "requirements.txt:2")


def test_the_environment_comes_before_the_interpreter(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "interpreter" / "transformers-5.2.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(versions, "interpreter_folders", lambda: [project / "interpreter"])
    assert found(project) == ([(5, 2)], "5.2.0", "the interpreter that runs lintrain")
    environment(project, "transformers-5.1.0")
    assert found(project) == ([(5, 1)], "5.1.0", ".venv")


def test_a_range_leaves_several_versions(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers>=4.45,<4.48\n")
    assert found(project) == ([(4, 45), (4, 46), (4, 47)], ">=4.45,<4.48", "requirements.txt:1")


def test_a_range_is_narrowed_by_what_is_installed(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers>=4.45\n")
    environment(project, "transformers-5.1.0")
    assert found(project) == ([(5, 1)], ">=4.45, 5.1.0", "requirements.txt:1, .venv")


def test_an_installed_version_outside_the_range_does_not_count(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers<4.42\n")
    environment(project, "transformers-5.1.0")
    assert found(project)[0] == [(4, 40), (4, 41)]


def test_a_lock_file_may_pin_one_version_for_each_platform(project: Path) -> None:
    package = '[[package]]\nname = "transformers"\nversion = "{}"\n\n'
    (project / "uv.lock").write_text(package.format("4.46.3") + package.format("4.57.6"))
    assert found(project)[0] == [(4, 46), (4, 57)]


@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        ("torch==1.9.1\npytorch-lightning>=1.6\n", [(1, 6), (1, 7), (1, 8)]),
        ("torch==1.9.1\npytorch-lightning==2.0.1\n", [(2, 0)]),
        ("torch>=1.9.1\npytorch-lightning>=2.4\n", None),
        ("torch~=1.9\npytorch-lightning>=2.4\n", None),
        ("torch==2.5.1\npytorch-lightning>=2.4\n", None),
    ],
)
def test_a_pinned_torch_excludes_newer_releases_of_lightning(
    project: Path, requirements: str, expected: list[tuple[int, int]] | None
) -> None:
    (project / "requirements.txt").write_text(requirements)
    target = find_versions(project).get("lightning")
    assert target is not None
    assert list(target.versions) == (expected or [each for each in covered_versions("lightning") if each >= (2, 4)])


@pytest.mark.parametrize(
    ("requirements", "is_older", "source"),
    [
        ("torch==1.13.1\n", True, "the torch in requirements.txt:1"),
        ("torch<=2.2.2\n", True, "the torch in requirements.txt:1"),
        ("tensorflow-gpu==2.4.0\n", True, "the tensorflow-gpu in requirements.txt:1"),
        ("torch==1.13.1\nnumpy==2.1.0\n", False, "requirements.txt:2"),
        ("torch==2.5.1\n", False, ""),
        ("torch>=1.9\n", False, ""),
    ],
)
def test_a_pinned_release_from_before_numpy_2_means_numpy_1(
    project: Path, requirements: str, is_older: bool, source: str
) -> None:
    (project / "requirements.txt").write_text(requirements)
    target = find_versions(project).get("numpy")
    assert target is not None
    assert (target.versions[-1] < (2, 0)) is is_older
    assert target.is_assumed if not source else target.source == source


def test_without_any_word_the_newest_version_is_taken_and_says_so(project: Path) -> None:
    assert found(project) == ([NEWEST], f"{NEWEST[0]}.{NEWEST[1]}", "the newest version that lintrain knows")


def test_a_name_without_a_version_says_nothing(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers\ntransformers-interpret==0.10.0\n")
    assert found(project)[0] == [NEWEST]


def test_a_version_older_than_the_tables_is_unknown(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers==4.12.0\n")
    assert find_versions(project).get("transformers") is None


def test_a_version_newer_than_the_tables_is_taken_for_their_newest(project: Path) -> None:
    (project / "requirements.txt").write_text(f"transformers=={NEWEST[0]}.{NEWEST[1] + 7}.0\n")
    assert found(project)[0] == [NEWEST]


def test_the_next_major_version_is_unknown(project: Path) -> None:
    (project / "requirements.txt").write_text(f"transformers=={NEWEST[0] + 1}.0.0\n")
    assert find_versions(project).get("transformers") is None


def test_folders_up_to_the_repository_count(project: Path) -> None:
    (project / ".git").mkdir()
    (project / "requirements.txt").write_text("transformers==4.46.3\n")
    (project / "src" / "train").mkdir(parents=True)
    assert found(project / "src" / "train")[0] == [(4, 46)]


def test_folders_above_do_not_count_without_a_repository(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers==4.46.3\n")
    (project / "src").mkdir()
    assert found(project / "src")[0] == [NEWEST]


def test_keywords_and_other_tables_of_pyproject_are_no_dependencies(project: Path) -> None:
    content = (
        '[project]\nkeywords = ["transformers"]\n[tool.other]\ntransformers = "4.40"\nx = ["transformers==4.41"]\n'
    )
    (project / "pyproject.toml").write_text(content)
    assert found(project)[0] == [NEWEST]


def test_a_file_that_cannot_be_read_is_noted_and_the_others_count(project: Path) -> None:
    (project / "uv.lock").write_bytes(b"[[package]]\xff\xfe\x00")
    (project / "requirements.txt").write_text("transformers==4.46.3\n")
    target_versions = find_versions(project)
    assert found(project)[0] == [(4, 46)]
    assert [note.startswith(f"{project / 'uv.lock'}: not read") for note in target_versions.notes] == [True]


def test_a_folder_in_the_place_of_a_file_is_noted(project: Path) -> None:
    (project / "poetry.lock").mkdir()
    assert len(find_versions(project).notes) == 1


def test_no_installed_file_is_opened(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment(project, "transformers-4.46.3", "trl-0.12.2")
    opened: list[Path] = []
    real = Path.read_text

    def noted(path: Path, encoding: str | None = None) -> str:
        opened.append(path)
        return real(path, encoding)

    monkeypatch.setattr(Path, "read_text", noted)
    assert found(project)[0] == [(4, 46)]
    assert [path for path in opened if ".venv" in path.parts] == []


def test_the_search_takes_milliseconds(project: Path) -> None:
    package = '[[package]]\nname = "package-{}"\nversion = "1.0"\nsource = {{ registry = "" }}\n\n'
    (project / "uv.lock").write_text("".join(package.format(number) for number in range(2_000)))
    environment(project, *(f"package_{number}-1.0" for number in range(300)))
    find_versions(project)
    seconds = min(_timed(project) for _ in range(5))
    assert seconds < 0.05


def _timed(project: Path) -> float:
    started = time.perf_counter()
    find_versions(project)
    return time.perf_counter() - started


def test_the_interpreter_is_asked_by_the_names_of_its_folders() -> None:
    packages = statements.Reader(Path(), ["pytest"]).installed(statements.interpreter_folders(), "here")
    assert [each.specifier for each in packages] == [f"=={pytest.__version__}"]


@pytest.mark.parametrize(
    ("specifier", "expected"),
    [
        (">=4.46", [(4, 46), (4, 47), (5, 0), (5, 1)]),
        (">4.46", [(4, 46), (4, 47), (5, 0), (5, 1)]),
        ("<5", [(4, 45), (4, 46), (4, 47)]),
        ("<4.46.2", [(4, 45), (4, 46)]),
        ("<4.46.0", [(4, 45)]),
        ("<=4.46", [(4, 45), (4, 46)]),
        ("==4.46.*", [(4, 46)]),
        ("==5.*", [(5, 0), (5, 1)]),
        ("!=4.46.*", [(4, 45), (4, 47), (5, 0), (5, 1)]),
        ("!=4.46.1", [(4, 45), (4, 46), (4, 47), (5, 0), (5, 1)]),
        ("~=4.46", [(4, 46), (4, 47)]),
        ("~=4.46.1", [(4, 46)]),
        ("^4.46", [(4, 46), (4, 47)]),
        ("~4.46", [(4, 46)]),
        ("4.46.1", [(4, 46)]),
        (">=4.46, <5", [(4, 46), (4, 47)]),
        ("*", [(4, 45), (4, 46), (4, 47), (5, 0), (5, 1)]),
    ],
)
def test_a_specifier_allows_minor_versions(specifier: str, expected: list[tuple[int, int]]) -> None:
    assert list(allowed_versions(specifier, [(4, 45), (4, 46), (4, 47), (5, 0), (5, 1)])) == expected


@pytest.mark.parametrize("location", ["transformers", "src/transformers"])
def test_in_its_own_repository_a_library_has_no_version(project: Path, location: str) -> None:
    (project / location).mkdir(parents=True)
    (project / location / "__init__.py").touch()
    (project / "examples").mkdir()
    (project / ".git").mkdir()
    assert find_versions(project / "examples").get("transformers") is not None
    (project / "setup.py").touch()
    assert find_versions(project / "examples").get("transformers") is None
    assert find_versions(project / "examples").get("datasets") is not None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("setup.py", 'setup(\n    install_requires=["torch", "transformers[torch]==4.46.3"],\n)\n'),
        ("setup.cfg", "[options]\ninstall_requires =\n    torch\n    transformers==4.46.3\n"),
        ("Pipfile", '[packages]\ntransformers = "==4.46.3"\n'),
        ("environment.yaml", "dependencies:\n  - conda-forge::transformers=4.46.3\n"),
        ("conda_env.yml", "dependencies:\n  - pip:\n      - transformers==4.46.3\n"),
        ("constraints.txt", "transformers==4.46.3\n"),
        ("requirements.in", "transformers==4.46.3\n"),
        ("Dockerfile", "FROM python:3.11\nRUN pip install torch \\\n    transformers==4.46.3\n"),
        ("README.md", "# Train\n\n    pip install torch transformers==4.46.3\n"),
        ("requirements.txt", "git+https://github.com/huggingface/transformers.git@v4.46.3\n"),
    ],
)
def test_every_file_that_requires_a_version_counts(project: Path, name: str, content: str) -> None:
    (project / name).write_text(content)
    assert found(project)[0] == [(4, 46)]


def test_an_install_from_a_repository_without_a_tag_is_unknown(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers @ git+https://github.com/huggingface/transformers\n")
    assert find_versions(project).get("transformers") is None


def test_a_dependency_of_poetry_from_a_repository_is_unknown(project: Path) -> None:
    (project / "pyproject.toml").write_text(
        '[tool.poetry.dependencies]\ntransformers = {git = "https://github.com/me/transformers", rev = "faster"}\n'
    )
    assert find_versions(project).get("transformers") is None


def test_the_pin_of_a_folder_is_not_widened_by_the_file_of_that_name_above(project: Path) -> None:
    (project / ".git").mkdir()
    (project / "requirements.txt").write_text("transformers>=4.40\n")
    (project / "part").mkdir()
    (project / "part" / "requirements.txt").write_text("torch\ntransformers==4.46.3\n")
    assert found(project / "part") == ([(4, 46)], "4.46.3", "requirements.txt:2")


def test_the_folder_nearest_to_the_script_decides(project: Path) -> None:
    (project / ".git").mkdir()
    (project / "uv.lock").write_text('[[package]]\nname = "transformers"\nversion = "4.57.6"\n')
    (project / "old").mkdir()
    (project / "old" / "requirements.txt").write_text("transformers==4.46.3\n")
    assert found(project / "old")[0] == [(4, 46)]
    (project / "old" / "requirements.txt").write_text("transformers==4.12.0\n")
    assert find_versions(project / "old").get("transformers") is None


def test_an_older_version_within_a_range_is_unknown(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers>=4.10\n")
    (project / "environment.yml").write_text("dependencies:\n  - transformers=4.12\n")
    assert find_versions(project).get("transformers") is None
    (project / "requirements.txt").write_text("transformers>=4.45,<4.47\n")
    assert found(project)[0] == [(4, 45), (4, 46)]


def test_without_a_repository_the_folder_under_check_is_the_root(project: Path) -> None:
    (project / "requirements.txt").write_text("transformers==4.46.3\n")
    (project / "src" / "train").mkdir(parents=True)
    target = versions.VersionFinder(root=project).find(project / "src" / "train").get("transformers")
    assert target is not None
    assert target.versions == ((4, 46),)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("requirements.txt:3", "here: 5.2.0"),
        ("the interpreter that runs lintrain", "installed: 5.2.0"),
        ("the newest version that lintrain knows", "newest assumed: 5.2.0"),
    ],
)
def test_a_message_says_whether_the_project_states_a_version(source: str, shown: str) -> None:
    assert Target(((5, 2),), "5.2.0", source).shown == shown


def origin(project: Path) -> str:
    target = versions.find_versions(project).get("transformers")
    return target.origin("transformers") if target else "none"


def test_the_origin_of_a_version_is_what_requires_it_or_where_it_is_installed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert origin(project) == ""
    (project / "interpreter" / "transformers-5.2.0.dist-info").mkdir(parents=True)
    monkeypatch.setattr(versions, "interpreter_folders", lambda: [project / "interpreter"])
    assert origin(project) == "transformers 5.2.0 is installed in the environment that lintrain runs in"
    environment(project, "transformers-5.1.0")
    assert origin(project) == "transformers 5.1.0 is installed in `.venv`"
    (project / "requirements.txt").write_text("transformers>=4.45\n")
    assert origin(project) == "requirements.txt:1 requires transformers >=4.45, and 5.1.0 is installed in `.venv`"
    (project / "requirements.txt").write_text("transformers==4.46.3\n")
    assert origin(project) == "requirements.txt:1 requires transformers 4.46.3"
