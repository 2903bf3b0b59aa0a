"""Which files are not read at all, because they train nothing."""

from __future__ import annotations

import pytest

from lintrain.source.source import Source
from lintrain.source.training_syntax import may_train, runs_itself


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import Trainer",
        "from trl import SFTTrainer",
        "import transformers\nargs = transformers.Seq2SeqTrainingArguments('out')",
        "def f():\n    import datasets\n    model.fit(datasets.load_dataset('a'))",
        "try:\n    import trl\nexcept ImportError:\n    pass\nloss.backward()",
        "import torch\nloss.backward()",
        "from torch.optim import Adam",
        "import torch\ntorch.optim.SGD",
        "from tensorflow import keras\nmodel.fit(x)",
        "import os\nmatch os.name:\n    case 'posix':\n        import peft\nloss.backward()",
        "from peft import get_peft_model",
        "from accelerate import Accelerator\nfrom torch.utils.data import DataLoader",
    ],
)
def test_a_file_that_may_train_is_read(code: str) -> None:
    assert may_train(Source("train.py", code))


@pytest.mark.parametrize(
    "code",
    [
        "import torch\nx = torch.zeros(3)",
        "import tensorflow as tf\ntf.constant(1)",
        "import re\nre.compile('a')",
        "from .transformers import Trainer",
        "from transformers import pipeline\npipeline('summarization')",
        "import datasets\nprint('Trainer: loss.backward()')",
        "import torch\nfrom mine.optim import Adam",
        "import torch\nclass TrainerState: ...",
        "import torch\nmodel.compile()",
        "model.fit(x)",
        "from sklearn.svm import SVC\nSVC().fit(x, y)",
    ],
)
def test_a_file_that_cannot_train_is_not_read(code: str) -> None:
    assert not may_train(Source("train.py", code))


@pytest.mark.parametrize(
    ("code", "runs"),
    [
        ("main()", True),
        ("import torch\ntrain.run(3)", True),
        ("if __name__ == '__main__':\n    main()", True),
        ("def f():\n    main()", False),
        ("x = main()", False),
        ("import torch\n", False),
    ],
)
def test_a_script_calls_something_at_its_margin_or_asks_whether_it_is_the_main_one(code: str, *, runs: bool) -> None:
    assert runs_itself(Source("train.py", code)) is runs
