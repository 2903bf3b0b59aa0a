"""Attacks on `hub-gets-no-writes` by the ways in which libraries push to the hub."""

from __future__ import annotations

import re
from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.hub import hub
from tests.attacks.sending import TRAINING, assert_nothing_sent, probed, send_nothing
from tests.attacks.tiny import MODEL

PROMISE = "hub-gets-no-writes"
CALLED = "was called but not executed"

EVERY_FUNCTION = """
    import functools, inspect, re, huggingface_hub
    from huggingface_hub import HfApi, hf_api
    from huggingface_hub import CommitOperationAdd

    VALUES = {
        "repo_id": "user/repo", "from_id": "user/repo", "to_id": "user/other", "bucket_id": "user/bucket",
        "key": "KEY",
        "path_or_fileobj": b"content", "path_in_repo": "a.txt", "folder_path": os.getcwd(),
        "operations": [CommitOperationAdd("a.txt", b"content")], "additions": [CommitOperationAdd("a.txt", b"content")],
        "commit_message": "message", "branch": "other", "tag": "v1", "title": "title", "value": "x",
        "discussion_num": 1,
        "paths": ["a.txt"], "delete_patterns": "a.txt", "space_sdk": "static", "repo_type": "model", "volumes": [],
        "lfs_files": [], "collection_slug": "user/title-0123456789abcdef01234567", "item_id": "user/repo",
        "item_type": "model", "user": "somebody", "new_status": "closed", "comment": "text", "comment_id": "1",
        "new_title": "title", "new_content": "text", "sleep_time": 60, "hardware": "cpu-basic", "url": HUB,
        "webhook_id": "1", "job_id": "1", "scheduled_job_id": "1", "image": "python", "command": ["true"], "name": "n",
        "namespace": "user", "repository": "user/repo", "framework": "pytorch", "accelerator": "cpu",
        "instance_size": "x1",
        "instance_type": "c", "region": "r", "vendor": "aws", "schedule": "@hourly", "labels": {}, "domains": [],
        "watched": ["user/repo"], "type": "public", "task": "text-generation", "item_object_id": "1",
    }

    def wanted(function):
        parameters = [one for one in inspect.signature(function).parameters.values() if one.name != "self"]
        needed = [one for one in parameters if one.default is one.empty and one.kind in (0, 1, 3)]
        return {one.name: VALUES.get(one.name, "text") for one in needed}

    api = HfApi()
    for name, function in list(inspect.getmembers(HfApi, inspect.isfunction)):
        if name.startswith(("_", "wait_for", "fetch_", "snapshot_", "run_as_future")) or "download" in name:
            continue
"""


@attack(PROMISE, cases={"called": "function", "around-the-stand-in": "inspect.unwrap(function)"}, slow=True)
def every_method_of_the_api(folder: Path, called: str) -> None:
    """Every method of `HfApi` that is there, as it is and as it was before lintrain's stand-in."""
    code = EVERY_FUNCTION + f"        attempt(functools.partial({called}, api, **wanted(function)))\n"
    sent = probed(folder, code)
    assert_nothing_sent(sent)
    if called != "function":
        others = re.search(r"not sent: (\d+) other requests", "\n".join(sent.notes))
        assert others is not None
        assert int(others[1]) > 30, sent.notes


IMPORTED = {
    "before": "from huggingface_hub import {names}\n",
    "from-its-module": "from huggingface_hub.hf_api import {names}\n",
    "star": "import huggingface_hub.hf_api as it; globals().update(vars(it))\n",
}
NAMES = (
    *("create_repo", "delete_repo", "delete_branch", "super_squash_history", "move_repo", "add_space_secret"),
    *("upload_file", "create_commit", "preupload_lfs_files"),
)


@attack(PROMISE, cases=list(IMPORTED))
def functions_of_the_hub(folder: Path, case: str) -> None:
    """The functions that were sent with the user's token, imported by name."""
    code = f"""
import huggingface_hub
{IMPORTED[case].format(names=", ".join(NAMES))}
from huggingface_hub import CommitOperationAdd
change = [CommitOperationAdd("a.txt", b"content")]
attempt(lambda: create_repo("user/repo").repo_id)
attempt(lambda: delete_repo("user/repo"))
attempt(lambda: delete_branch("user/repo", branch="other"))
attempt(lambda: super_squash_history("user/repo"))
attempt(lambda: move_repo("user/repo", "user/other"))
attempt(lambda: add_space_secret("user/space", "KEY", "value"))
attempt(lambda: upload_file(path_or_fileobj=b"x", path_in_repo="a.txt", repo_id="user/repo").oid)
attempt(lambda: create_commit("user/repo", change, commit_message="message", run_as_future=True).result().commit_url)
attempt(lambda: preupload_lfs_files("user/repo", change))
"""
    send_nothing(folder, code, [f"`{name}` {CALLED}" for name in NAMES])


BY_HAND = {
    "session": """
        from huggingface_hub.utils import get_session, build_hf_headers
        for method in ("post", "put", "delete", "patch"):
            attempt(lambda: getattr(get_session(), method)(HUB + "/api/repos/create", headers=build_hf_headers()))
        """,
    "backoff": """
        from huggingface_hub.utils import http_backoff
        attempt(lambda: http_backoff("POST", HUB + "/api/models/user/repo/commit/main", content=b"x"))
        attempt(lambda: http_backoff("PUT", HUB + "/lfs/put", content=b"x"))
        """,
    "lfs": """
        from huggingface_hub import CommitOperationAdd, _commit_api
        from huggingface_hub.lfs import UploadInfo, post_lfs_batch_info
        attempt(lambda: post_lfs_batch_info([UploadInfo.from_bytes(b"x")], None, "model", "user/repo"))
        change = CommitOperationAdd("a.txt", b"x")
        attempt(lambda: _commit_api._upload_files(
            additions=[change], repo_type="model", repo_id="user/repo", headers={}, endpoint=HUB))
        """,
    "login": """
        import huggingface_hub
        attempt(lambda: huggingface_hub.login("hf_other"))
        attempt(lambda: huggingface_hub.HfApi().run_as_future(huggingface_hub.create_repo, "user/repo").result())
        attempt(lambda: urllib.request.urlopen(urllib.request.Request(HUB + "/api/login", b"x")))
        """,
    "file-system": """
        from huggingface_hub import HfFileSystem
        files = HfFileSystem()
        def write():
            with files.open("user/repo/a.txt", "w") as opened:
                opened.write("x")
        attempt(write)
        attempt(lambda: files.rm("user/repo/README.md"))
        attempt(lambda: files.mv("user/repo/README.md", "user/repo/b.md"))
        import fsspec
        attempt(lambda: fsspec.open("hf://user/repo/b.txt", "wb").open().close())
        """,
    "pandas": """
        import pandas
        attempt(lambda: pandas.DataFrame({"a": [1]}).to_parquet("hf://datasets/user/repo/a.parquet"))
        attempt(lambda: pandas.DataFrame({"a": [1]}).to_csv("hf://datasets/user/repo/a.csv"))
        """,
    "scheduler": """
        import time
        from huggingface_hub import CommitScheduler
        os.makedirs("logs"); open("logs/a.txt", "w").write("x")
        def schedule():
            found = CommitScheduler(repo_id="user/repo", folder_path="logs", every=0.005)
            time.sleep(1); found.trigger().result()
        attempt(schedule)
        """,
    "large-folder": """
        import huggingface_hub
        from huggingface_hub import upload_folder
        os.makedirs("out"); open("out/a.txt", "w").write("x")
        large = getattr(huggingface_hub, "upload_large_folder", None)  # huggingface_hub 1 and older
        attempt(lambda: large and large(repo_id="user/repo", folder_path="out", repo_type="model"))
        attempt(lambda: upload_folder(repo_id="user/repo", folder_path="out"))
        attempt(lambda: upload_folder(repo_id="user/repo", folder_path="out", run_as_future=True).result())
        """,
    "xet": """
        import hf_xet
        granted = ("xet", 4_000_000_000)
        attempt(lambda: hf_xet.upload_bytes([b"content"], HUB, granted, lambda: granted, None, "model"))
        attempt(lambda: hf_xet.XetSession().new_upload_commit())
        os.environ["HF_HUB_DISABLE_XET"] = "0"
        import huggingface_hub.constants
        huggingface_hub.constants.HF_HUB_DISABLE_XET = False
        from huggingface_hub import HfApi, CommitOperationAdd
        import inspect
        create = inspect.unwrap(HfApi.create_commit)
        attempt(lambda: create(HfApi(), "user/repo", [CommitOperationAdd("a.bin", b"x" * 100)], commit_message="m"))
        """,
}
NAMED = {
    "session": ["POST", "PUT", "DELETE", "PATCH", "/api/repos/create"],
    "backoff": ["/api/models/user/repo/commit/main", "/lfs/put"],
    "lfs": "/user/repo.git/info/lfs/objects/batch",
    "login": [f"`login` {CALLED}", f"`create_repo` {CALLED}", "/api/login"],
    "file-system": CALLED,
    "pandas": CALLED,
    "scheduler": [f"`create_repo` {CALLED}", f"`create_commit` {CALLED}"],
    "large-folder": f"`upload_folder` {CALLED}",
    "xet": "hf_xet",
}


@attack(PROMISE, cases=list(BY_HAND), slow=True)
def sent_below_the_api(folder: Path, case: str) -> None:
    """What the hub's library is made of, and what is made of it."""
    send_nothing(folder, BY_HAND[case], NAMED[case])


LIBRARIES = {
    "dataset": """
        from datasets import Dataset, DatasetDict
        rows = Dataset.from_dict({"a": [1, 2]})
        rows.push_to_hub("user/rows")
        DatasetDict(train=rows).push_to_hub("user/rows", private=True)
        import inspect
        attempt(lambda: inspect.unwrap(Dataset.push_to_hub)(rows, "user/rows"))
        """,
    "iterable-dataset": """
        from datasets import Dataset, IterableDatasetDict
        rows = Dataset.from_dict({"a": [1, 2]}).to_iterable_dataset()
        rows.push_to_hub("user/rows")
        IterableDatasetDict(train=rows).push_to_hub("user/rows")
        """,
    "model": MODEL
    + """
        model.push_to_hub("user/model"); tokenizer.push_to_hub("user/model"); model.config.push_to_hub("user/model")
        model.generation_config.push_to_hub("user/model") if getattr(model, "generation_config", None) else None
        model.save_pretrained("saved", push_to_hub=True)
        tokenizer.save_pretrained("saved", push_to_hub=True)
        import inspect
        attempt(lambda: inspect.unwrap(type(model).push_to_hub)(model, "user/model"))
        """,
    "pipeline": MODEL
    + """
        from transformers import pipeline
        made = pipeline("text-classification", model=model, tokenizer=tokenizer)
        attempt(lambda: made.push_to_hub("user/pipeline"))
        attempt(lambda: made.save_pretrained("saved", push_to_hub=True))
        """,
    "peft": MODEL
    + """
        from peft import LoraConfig, get_peft_model
        adapted = get_peft_model(model, LoraConfig(target_modules=["q_lin"]))
        adapted.push_to_hub("user/adapter")
        """,
    "evaluate": """
        import evaluate
        attempt(lambda: evaluate.push_to_hub("user/model", "text-classification", "glue", "x", "accuracy", "a", 0.5))
        import huggingface_hub
        card = huggingface_hub.ModelCard(chr(10).join(["---", "license: mit", "---", "text"]))
        attempt(lambda: card.push_to_hub("user/model"))
        attempt(lambda: huggingface_hub.metadata_update("user/model", {"license": "mit"}, overwrite=True))
        """,
    "sentence-transformers": MODEL
    + """
        from sentence_transformers import SentenceTransformer, models
        tokenizer.save_pretrained("saved"); model.save_pretrained("saved")
        made = SentenceTransformer(modules=[models.Transformer("saved"), models.Pooling(8)])
        made.push_to_hub("user/embedding")
        attempt(lambda: made.save_to_hub("user/embedding"))
        """,
    "mixin": """
        import torch
        from huggingface_hub import PyTorchModelHubMixin
        class Model(torch.nn.Module, PyTorchModelHubMixin):
            def __init__(self): super().__init__(); self.head = torch.nn.Linear(2, 2)
        Model().push_to_hub("user/mixin")
        attempt(lambda: Model().save_pretrained("saved", push_to_hub=True, repo_id="user/mixin"))
        """,
    "keras": """
        os.environ["KERAS_BACKEND"] = "torch"
        import keras
        made = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
        attempt(lambda: keras.saving.save_model(made, "hf://user/keras"))
        attempt(lambda: made.save("hf://user/keras"))
        """,
}


@attack(PROMISE, cases=list(LIBRARIES), slow=True)
def pushed_before_training(folder: Path, case: str) -> None:
    """A push of each library, in a script that trains afterwards: the push is noted, and the training is measured."""
    variables = {"HF_HUB_DOWNLOAD_TIMEOUT": "5"}
    sent = probed(folder, LIBRARIES[case] + "\n" + TRAINING.replace("\n", "\n        "), variables=variables)
    assert_nothing_sent(sent, CALLED)
    assert sent.document["probe"]["ending"]["kind"] == "measured", (sent.document["reason"], sent.notes)


@attack(PROMISE, cases=["every_save", "end", "checkpoint", "all_checkpoints"], slow=True)
def trainer_that_pushes(folder: Path, strategy: str) -> None:
    """`Trainer(push_to_hub=True)` in every strategy, with what its model needs made in place."""
    code = (
        MODEL
        + f"""
        from datasets import Dataset
        from transformers import Trainer, TrainingArguments
        rows = Dataset.from_dict({{"text": ["one", "two"] * 8, "labels": [0, 1] * 8}})
        rows = rows.map(lambda row: tokenizer(row["text"], padding="max_length", max_length=8), batched=True)
        arguments = TrainingArguments("out", push_to_hub=True, hub_strategy="{strategy}", hub_model_id="user/model",
            save_strategy="steps", save_steps=1, report_to="none", use_cpu=True, max_steps=2)
        trainer = Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer)
        trainer.train()
        trainer.push_to_hub()
        """
    )
    sent = probed(folder, code)
    assert_nothing_sent(sent, "`push_to_hub`")
    assert sent.document["probe"]["ending"]["kind"] == "measured", (sent.document["reason"], sent.notes)


@attack(PROMISE)
def push_that_ends_the_script(folder: Path) -> None:
    """An upload that the script needs to go on: nothing is said of the script, and the reason is the upload."""
    code = 'urllib.request.urlopen(urllib.request.Request(HUB + "/api/written?key=1", b"x"))\n' + TRAINING
    sent = send_nothing(folder, code, "`POST 127.0.0.1")
    assert (sent.code, sent.document["probe"]["ending"]["kind"]) == (3, "refused")
    assert "/api/written` was stopped" in sent.document["reason"]
    assert "key=1" not in str([sent.notes, sent.document["reason"]])


@attack(PROMISE, slow=True)
def every_form_names_it(folder: Path) -> None:
    """The report names what was stopped as text and as a page, too."""
    from tests.attacks.commands import lintrain
    from tests.attacks.hub import TOKEN
    from tests.attacks.sending import HEAD

    code = (
        'attempt(lambda: urllib.request.urlopen(urllib.request.Request(HUB + "/api/x/SECRETSECRETSECRET123456", b"")))'
    )
    (folder / "train.py").write_text(HEAD + code + TRAINING)
    with hub() as found:
        variables = {"HF_ENDPOINT": found.address, "HF_TOKEN": TOKEN, "CUDA_VISIBLE_DEVICES": ""}
        ended = lintrain(folder, "probe", "--html", "page.html", "train.py", variables=variables)
        assert found.writes == []
    for text in (ended.out.decode(), (folder / "page.html").read_text()):
        assert "/api/x/…" in text, text[-3000:]
        assert "not sent" in text
        assert "SECRETSECRET" not in text
