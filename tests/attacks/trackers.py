"""Attacks on `trackers-send-nothing` by the real packages, which a Python of their own holds.

python -m venv trackers
trackers/bin/pip install torch wandb mlflow comet_ml neptune clearml swanlab dvclive trackio aim \
    boto3 grpcio paramiko websockets
LINTRAIN_TRACKERS_PYTHON=trackers/bin/python python -m tests.attacks trackers
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.sending import assert_nothing_sent, probed

PYTHON = "LINTRAIN_TRACKERS_PYTHON"

TRACKERS = {
    "wandb": """
        import wandb
        for mode in (None, "online", "shared"):
            def run():
                started = wandb.init(project="p", mode=mode, settings=wandb.Settings(base_url=HUB, init_timeout=3))
                started.log({"a": 1})
                started.finish()
            attempt(run)
        os.environ["WANDB_MODE"] = "online"
        attempt(lambda: wandb.init(project="p", settings=wandb.Settings(base_url=HUB, init_timeout=3)))
        """,
    "mlflow": """
        import mlflow
        mlflow.set_tracking_uri(HUB)
        attempt(lambda: mlflow.set_experiment("x"))
        attempt(lambda: mlflow.start_run())
        attempt(lambda: mlflow.MlflowClient().log_metric("1", "a", 1))
        attempt(lambda: mlflow.MlflowClient().create_registered_model("m"))
        """,
    "comet_ml": """
        import comet_ml
        attempt(lambda: comet_ml.Experiment(api_key="k" * 25, project_name="p").log_metric("a", 1))
        attempt(lambda: comet_ml.API(api_key="k" * 25).create_project("w", "p"))
        """,
    "neptune": """
        import base64, json, neptune
        token = base64.b64encode(json.dumps({"api_address": HUB, "api_url": HUB}).encode()).decode()
        for mode in ("async", "sync", None):
            attempt(lambda: neptune.init_run(project="a/b", api_token=token, **({"mode": mode} if mode else {})))
        """,
    "clearml": """
        for name in ("API_HOST", "WEB_HOST", "FILES_HOST"):
            os.environ["CLEARML_" + name] = HUB
        os.environ.pop("CLEARML_OFFLINE_MODE")
        os.environ.update(CLEARML_API_ACCESS_KEY="k", CLEARML_API_SECRET_KEY="s")
        import threading
        from clearml import Task
        from clearml.backend_api import Session
        calls = (lambda: Task.init("p", "t", reuse_last_task_id=False),
                 lambda: Session().send_request("tasks", "create", method="post"))
        threads = [threading.Thread(target=attempt, args=(call,), daemon=True) for call in calls]
        for thread in threads: thread.start()
        for thread in threads: thread.join(8)
        os._exit(0)
        """,
    "swanlab": """
        import swanlab
        attempt(lambda: swanlab.login(api_key="k" * 20, host=HUB))
        attempt(lambda: swanlab.init(project="p", mode="cloud"))
        attempt(lambda: swanlab.log({"a": 1}))
        """,
    "dvclive": """
        os.environ.update(DVC_STUDIO_TOKEN="x", DVC_STUDIO_URL=HUB, DVC_STUDIO_REPO_URL=HUB + "/r")
        os.environ.pop("DVCLIVE_TEST")
        from dvclive import Live
        def log():
            with Live(save_dvc_exp=False) as live:
                live.log_metric("a", 1)
                live.next_step()
        attempt(log)
        """,
    "trackio": """
        import trackio
        def log():
            trackio.init(project="p", space_id="user/space")
            trackio.log({"a": 1})
            trackio.finish()
        attempt(log)
        """,
    "aim": """
        import aim
        attempt(lambda: aim.Run(repo=f"aim://127.0.0.1:{PORT}"))
        """,
    "boto3": """
        import boto3
        client = boto3.client("s3", endpoint_url=HUB, region_name="us-east-1")
        attempt(lambda: client.put_object(Bucket="b", Key="k", Body=b"x"))
        attempt(lambda: client.create_multipart_upload(Bucket="b", Key="k"))
        attempt(lambda: client.delete_object(Bucket="b", Key="k"))
        """,
    "websockets": """
        import asyncio, websockets
        from websockets.sync.client import connect
        async def send():
            async with websockets.connect(HUB.replace("http", "ws")) as opened:
                await opened.send("x")
        attempt(lambda: asyncio.run(send()))
        attempt(lambda: connect(HUB.replace("http", "ws")))
        """,
    "paramiko": """
        import paramiko
        client = paramiko.SSHClient()
        client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
        attempt(lambda: client.connect("127.0.0.1", PORT, "u", "p", timeout=3, banner_timeout=3))
        """,
    "grpc": """
        import grpc
        attempt(lambda: grpc.insecure_channel(f"127.0.0.1:{PORT}").unary_unary("/a/b")(b"x", timeout=3))
        """,
}
SILENT = ("swanlab", "comet_ml", "neptune", "trackio", "clearml")
"""They send nothing in the first place: switched off, or ended by the answers of a hub that is not theirs."""


@attack("trackers-send-nothing", cases=list(TRACKERS), slow=True)
def tracker(folder: Path, name: str) -> None:
    """A tracker that is told to be online, with a key and an address, against its switch in the environment."""
    python = os.environ.get(PYTHON)
    if python is None:
        raise NotPossibleError(f"`{PYTHON}` names no Python that has {name}")
    keys = {
        "WANDB_API_KEY": "a" * 40,
        "COMET_API_KEY": "k" * 25,
        "SWANLAB_API_KEY": "k" * 20,
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    }
    sent = probed(folder, TRACKERS[name], "--python", python, "--timeout", "60", variables=keys)
    assert "No module named" not in sent.document["probe"]["ending"]["output"], sent.document["probe"]["ending"]
    assert_nothing_sent(sent, *(["not sent"] if name not in SILENT else []))
