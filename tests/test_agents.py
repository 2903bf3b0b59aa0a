"""`lintrain mcp` through the SDK's own client: its tools, and conversations of an agent from check to green."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.agents.workspace import OutsideError, Workspace
from lintrain.report.machine.agent import CHARACTERS
from tests.support.agent_client import Agent, talk

ROOT = Path(__file__).parent.parent
CODE = 'from transformers import TrainingArguments\nTrainingArguments("out", evaluation_strategy="epoch")\n'
TOOLS = {"check", "fix", "probe", "explain", "rules", "explain_error"}
MOST_TOKENS = 4_000
MOST_CALLS = 4

CALL = re.compile(r"call (\w+)\((.*?)\)(?: |$)", re.MULTILINE)
"""The next step that an answer names."""

SCRIPTS = (
    "course/as_functions.py",
    "course/as_published.py",
    "course/loop.py",
    "course/notebook.ipynb",
)
"""Scripts of `fixtures/` with mistakes: those of the stages are the published one with its first mistakes mended."""


@pytest.mark.turns(one_in=2)
@pytest.mark.libraries
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_tools_answer_in_both_versions_of_the_protocol(mode: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CODE)

    async def conversation(agent: Agent) -> None:
        listed = (await agent.client.list_tools()).tools
        assert {tool.name for tool in listed} == TOOLS
        assert all(
            tool.description and not {"found", "context", "answer"} & tool.input_schema["properties"].keys()
            for tool in listed
        )
        found = await agent.call("check", path="train.py")
        assert "1. error removed-argument at train.py:2:26" in found
        assert 'next: call fix(path="train.py") fixes 1 of 1' in found
        fixed = await agent.call("fix", path="train.py")
        assert '-| TrainingArguments("out", evaluation_strategy="epoch")' in fixed
        assert 'no findings are left; next: call probe(path="train.py")' in fixed
        assert (await agent.call("check")).startswith("lintrain: no findings in 1 file.")

    talk(tmp_path, conversation, mode=mode)
    assert "eval_strategy" in (tmp_path / "train.py").read_text()


def test_rules_and_errors_are_explained(tmp_path: Path) -> None:
    async def conversation(agent: Agent) -> None:
        assert (await agent.call("explain", topic="raw_dataset")).startswith("raw-dataset: A text data set")
        assert "warmup-exceeds-training" in await agent.call("explain", topic="learning rate warmup")
        assert (await agent.call("explain", topic="xyzzy")).startswith("error: ")
        assert "missing-zero-grad" in await agent.call("rules")
        assert "raw-dataset" not in await agent.call("rules", stage="loop")
        assert "unknown stage" in await agent.call("rules", stage="nowhere")
        assert "num_labels" in await agent.call("explain_error", text="IndexError: Target 2 is out of bounds.")
        assert agent.tokens < MOST_TOKENS

    talk(tmp_path, conversation)


def test_unsafe_fixes_are_written_on_request_only(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\nprint(evaluate.load('accuracy'))\nloss = torch.zeros(1)\nloss.backward()\n"
    )

    async def conversation(agent: Agent) -> None:
        left = await agent.call("fix", path="train.py", select="undefined-name")
        assert "0 findings fixed" in left
        assert "unsafe=true" in left
        assert "1 finding fixed" in await agent.call("fix", path="train.py", unsafe=True, select="undefined-name")

    talk(tmp_path, conversation)
    assert "import evaluate" in (tmp_path / "train.py").read_text()


@pytest.mark.turns(one_in=4)
@pytest.mark.libraries
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_conversation_ends_in_a_script_that_probes_clean(name: str, assets: Path, tmp_path: Path) -> None:
    fixtures = tmp_path / "fixtures"
    shutil.copytree(ROOT / "fixtures" / "course", fixtures / "course", ignore=shutil.ignore_patterns("tensorflow"))
    (fixtures / "assets").symlink_to(assets.parent)

    async def conversation(agent: Agent) -> None:
        answer = await agent.call("check", path=f"fixtures/{name}")
        while (step := CALL.search(answer)) and agent.calls < MOST_CALLS:
            arguments = dict(re.findall(r'(\w+)=("[^"]*"|\w+)', step[2]))
            given = {key: value == "true" if key == "unsafe" else value.strip('"') for key, value in arguments.items()}
            answer = await agent.call(step[1], **given)
        assert "exit code 0" in answer, answer
        assert "ready to train" in answer, answer
        assert len(agent.asked) == 1
        assert agent.calls <= MOST_CALLS
        assert agent.tokens <= MOST_TOKENS
        print(f"{name}: {agent.calls} calls, {agent.tokens:.0f} tokens of {CHARACTERS} characters")  # noqa: T201

    talk(tmp_path, conversation, module="tests.support.warm.agents")


@pytest.mark.turns(one_in=3, of="file")
def test_a_conversation_about_the_tensorflow_script_ends_without_findings(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "fixtures" / "course" / "tensorflow", tmp_path, dirs_exist_ok=True)
    script = tmp_path / "as_published.py"

    async def conversation(agent: Agent) -> None:
        assert "call fix(" in await agent.call("check", path=script.name)
        left = await agent.call("fix", path=script.name, unsafe=True)
        assert "fix: pass the labels as `y`, or name them in `label_cols`" in left
        assert "see: line 18: `label` is one of the inputs" in left
        text = script.read_text()  # the agent follows the answer
        columns = 'columns=["input_ids", "attention_mask"'
        script.write_text(text.replace(f'{columns}, "label"]', f'{columns}], label_cols="label"'))
        assert (await agent.call("check", path=script.name)).startswith("lintrain: no findings in 1 file.")
        assert agent.calls < MOST_CALLS
        assert agent.tokens <= MOST_TOKENS

    talk(tmp_path, conversation)


def test_everything_is_no_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in (tmp_path, Path("/")):
        monkeypatch.chdir(folder)
        with pytest.raises(OutsideError, match="no workspace"):
            Workspace.of(()).find("train.py")


def test_without_the_sdk_the_command_says_what_to_install(tmp_path: Path) -> None:
    code = "import sys; sys.modules['mcp'] = None; from lintrain.cli import run; sys.exit(run(['mcp']))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr == "lintrain: the server for agents needs version 2 of the MCP SDK: `pip install 'mcp>=2'`\n"


def test_a_check_does_not_load_the_sdk(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(CODE)
    code = (
        "import sys; from lintrain.cli import run; run(['check', '--no-cache', 'train.py']);"
        "print(sorted({'mcp', 'anyio', 'libcst', 'lintrain.agents'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
