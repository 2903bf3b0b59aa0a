"""Imports come where a sorter would put them, and go with what nobody else needs."""

from __future__ import annotations

import pytest

from lintrain.model.fixes import AddImport, InsertBefore, RemoveImport, Replace
from tests.support.mending import fixed, location_of


class TestAddImport:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", "import evaluate\n"),
            ("x = 1\n", "import evaluate\n\nx = 1\n"),
            ('"""doc"""\nx = 1\n', '"""doc"""\n\nimport evaluate\n\nx = 1\n'),
            (
                "#!/usr/bin/env python\n# by me\n\n# x\nx = 1\n",
                "#!/usr/bin/env python\n# by me\n\nimport evaluate\n\n# x\nx = 1\n",
            ),
            (
                "from __future__ import annotations\nx = 1\n",
                "from __future__ import annotations\n\nimport evaluate\n\nx = 1\n",
            ),
            ("import torch\n", "import evaluate\nimport torch\n"),
            ("import datasets\nimport torch\n", "import datasets\nimport evaluate\nimport torch\n"),
            ("import os\n\nimport torch\n", "import os\n\nimport evaluate\nimport torch\n"),
            ("import os\n\nx = 1\n", "import os\n\nimport evaluate\n\nx = 1\n"),
            (
                "import os\n\n# models\nfrom transformers import X\n",
                "import os\n\nimport evaluate\n# models\nfrom transformers import X\n",
            ),
            ("import evaluate as e\n", "import evaluate as e\nimport evaluate\n"),
            ("def f():\n    import evaluate\n", "import evaluate\n\ndef f():\n    import evaluate\n"),
        ],
    )
    def test_a_module_is_imported_where_a_sorter_would_put_it(self, text: str, expected: str) -> None:
        once = fixed(text, AddImport("evaluate"))
        assert once == expected
        assert fixed(once, AddImport("evaluate")) == once

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("np.f()\n", "import numpy as np\n\nnp.f()\n"),
            ("import numpy\n", "import numpy\nimport numpy as np\n"),
            ("import numpy as np\n", "import numpy as np\n"),
            ("import os\nimport torch\nnp.f()\n", "import os\nimport numpy as np\nimport torch\nnp.f()\n"),
        ],
    )
    def test_a_module_is_imported_under_another_name(self, text: str, expected: str) -> None:
        once = fixed(text, AddImport("numpy", alias="np"))
        assert once == expected
        assert fixed(once, AddImport("numpy", alias="np")) == once

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("from torch.optim import SGD\n", "from torch.optim import SGD, AdamW\n"),
            ("from torch.optim import (\n    SGD,\n)\n", "from torch.optim import (\n    SGD,\n    AdamW,\n)\n"),
            ("from torch.optim import (SGD)\n", "from torch.optim import (SGD, AdamW)\n"),
            ("from torch.optim import *\n", "from torch.optim import *\nfrom torch.optim import AdamW\n"),
            ("from torch.optim import AdamW\n", "from torch.optim import AdamW\n"),
            ("from torch.optim import AdamW as A\n", "from torch.optim import AdamW as A, AdamW\n"),
            ("import torch\n", "import torch\nfrom torch.optim import AdamW\n"),
        ],
    )
    def test_a_name_joins_the_others_of_its_module(self, text: str, expected: str) -> None:
        once = fixed(text, AddImport("torch.optim", "AdamW"))
        assert once == expected
        assert fixed(once, AddImport("torch.optim", "AdamW")) == once

    def test_an_import_of_a_part_brings_the_whole_module(self) -> None:
        assert fixed("import torch.nn\n", AddImport("torch")) == "import torch.nn\n"

    def test_an_import_below_the_statement_that_needs_it_is_none(self) -> None:
        text = "import os\n\nprint(os.name)\nimport torch\n\ntorch.rand(3)\n"
        edits = InsertBefore(location_of(text, "print(os.name)"), "torch.manual_seed(0)"), AddImport("torch")
        assert fixed(text, *edits) == (
            "import os\n\nimport torch\n\ntorch.manual_seed(0)\nprint(os.name)\nimport torch\n\ntorch.rand(3)\n"
        )

    def test_a_function_that_needs_a_name_runs_later(self) -> None:
        text = "def seed():\n    start()\n\n\nimport torch\n\nseed()\n"
        edits = Replace(location_of(text, "start()"), "torch.manual_seed(0)"), AddImport("torch")
        assert fixed(text, *edits) == text.replace("start()", "torch.manual_seed(0)")


class TestWhereImportsGo:
    def test_a_library_goes_beside_its_own_imports_below_what_has_to_run_first(self) -> None:
        text = "import os\n\nos.environ['HF_HOME'] = 'here'\nimport datasets\nimport torch\n"
        expected = text + "from torch.optim import AdamW\n"
        assert fixed(text, AddImport("torch.optim", "AdamW")) == expected
        assert fixed(text, AddImport("evaluate")) == text.replace("datasets\n", "datasets\nimport evaluate\n")
        assert fixed(text, AddImport("itertools")) == f"import itertools\n{text}"

    def test_it_goes_to_the_top_where_the_name_is_used_above(self) -> None:
        text = "import os\n\nAdamW = load(AdamW)\nimport torch\n"
        assert fixed(text, AddImport("torch.optim", "AdamW")).startswith("import os\n\nfrom torch.optim import AdamW\n")

    @pytest.mark.parametrize(
        ("above", "module", "expected"),
        [
            ("display()", "evaluate", "# %% cell 2\nimport evaluate\nimport torch\n"),
            ("display()", "time", "# %% cell 2\nimport time\n\nimport torch\n"),
            ("import os", "time", "import time\n# %% cell 2\nimport torch\n"),
        ],
    )
    def test_an_import_goes_into_the_cell_of_its_neighbours(self, above: str, module: str, expected: str) -> None:
        text = f"# %% cell 1\n{above}\n# %% cell 2\nimport torch\n"
        assert fixed(text, AddImport(module)) == f"# %% cell 1\n{above}\n{expected}"


class TestRemoveImport:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("from m import a\nx = 1\n", "x = 1\n"),
            ("from m import a, b\n", "from m import b\n"),
            ("from m import b, a\n", "from m import b\n"),
            ("from m import (\n    b,\n    a,  # old\n)\n", "from m import (\n    b,\n)\n"),
            ("from m import b as a\n", "from m import b as a\n"),
            ("from m import *\n", "from m import *\n"),
            (
                "try:\n    from m import a\nexcept ImportError:\n    a = 1\n",
                "try:\n    pass\nexcept ImportError:\n    a = 1\n",
            ),
        ],
    )
    def test_one_name_goes_and_takes_an_empty_import_along(self, text: str, expected: str) -> None:
        assert fixed(text, RemoveImport("m", "a")) == expected

    def test_the_comments_above_an_import_stay_when_it_goes(self) -> None:
        text = "import a\n\n# %% cell 2\nfrom m import a\n\n# used below\nx = 1\n"
        assert fixed(text, RemoveImport("m", "a")) == "import a\n\n# %% cell 2\n# used below\nx = 1\n"
        assert fixed("import b\n# old\nfrom m import a\n", RemoveImport("m", "a")) == "import b\n# old\n"
        assert fixed("import b; from m import a; c()\n", RemoveImport("m", "a")) == "import b; c()\n"

    def test_a_name_can_move_from_one_module_to_another(self) -> None:
        text = "from transformers import AdamW, Trainer\n"
        moved = fixed(text, RemoveImport("transformers", "AdamW"), AddImport("torch.optim", "AdamW"))
        assert moved == "from torch.optim import AdamW\nfrom transformers import Trainer\n"
