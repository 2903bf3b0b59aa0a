"""What stands for parts of the hub: families by name, columns that a script reads, and verdicts that rest on it."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.evidence.run import StandIn
from lintrain.knowledge.stand_in_facts import (
    family_of,
    scores_with_one_output,
    values_by_name,
)
from lintrain.runtime.stand_ins import devices, diffusion, older_names
from lintrain.runtime.stand_ins.batches import _cut_slow_batches, _numbers_in  # pyright: ignore[reportPrivateUsage]
from lintrain.runtime.stand_ins.columns import columns_of_data_set
from lintrain.runtime.stand_ins.devices import ends_if_false, ends_without_gpu
from lintrain.runtime.stand_ins.diffusion import encoder_of, kind_of, small_arguments
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.packages import Empty, Nothing
from lintrain.runtime.stand_ins.rows import Rows
from lintrain.runtime.stand_ins.weights import NoWeights, _name_plainly  # pyright: ignore[reportPrivateUsage]

FAMILIES = frozenset(
    {
        "bert",
        "roberta",
        "llama",
        "qwen2",
        "qwen3",
        "gemma",
        "gemma2",
        "t5",
        "gpt2",
        "gpt_neox",
        "opt",
        "vit",
        "segformer",
        "swin",
        "mask2former",
        "llava_next",
        "mistral3",
        "paligemma",
    }
)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("bert-base-uncased", "bert"),
        ("somebody/Qwen2.5-7B-Instruct", "qwen2"),
        ("somebody/my-qwen3-4b", "qwen3"),
        ("google/gemma-2-27b-it", "gemma2"),
        ("google/gemma-1.1-2b-it", "gemma"),
        ("lmsys/vicuna-7b-v1.5", "llama"),
        ("somebody/pythia-1b-tldr", "gpt_neox"),
        ("facebook/opt-6.7b", "opt"),
        ("nvidia/mit-b0", "segformer"),
        ("llava-hf/llava-v1.6-vicuna-7b-hf", "llava_next"),
        ("mistralai/Ministral-3-3B-Instruct-2512", "mistral3"),
        ("google/paligemma-3b-pt-224", "paligemma"),
        ("facebook/mask2former-swin-tiny-coco", "mask2former"),
        ("somebody/nothing-known", None),
    ],
)
def test_a_family_is_found_by_the_name(name: str, family: str | None) -> None:
    assert family_of(name, FAMILIES) == family


def test_an_unknown_name_has_the_family_of_the_class_that_the_script_loads() -> None:
    assert family_of("mine", FAMILIES, "model = AutoModelForSeq2SeqLM.from_pretrained(name)") == "t5"


def test_reward_models_have_one_output() -> None:
    assert scores_with_one_output("somebody/pythia-1b-rm")
    assert not scores_with_one_output("somebody/warmup-model")


def frame(tmp_path: object, text: str, line: int) -> SimpleNamespace:
    path = Path(str(tmp_path)) / "asks.py"
    path.write_text(text)
    return SimpleNamespace(f_code=SimpleNamespace(co_filename=str(path)), f_lineno=line, f_locals={"known": 0})


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("assert torch.cuda.is_available()\n", True),
        ("if not torch.cuda.is_available():\n    raise RuntimeError\n", True),
        ("if not torch.cuda.is_available():\n    sys.exit(1)\n", True),
        ("device = 'cuda' if torch.cuda.is_available() else 'cpu'\n", False),
        ("if torch.cuda.is_available():\n    x = 1\n", False),
        ("if torch.cuda.is_available():\n    dist.init_process_group('nccl')\n", True),
        ("if torch.cuda.is_available():\n    gpus = 1\nif other:\n    gpus = 2\nprint(gpus)\n", True),
        ("if torch.cuda.is_available():\n    gpus = 1\ngpus = 2\nprint(gpus)\n", False),
        ("if torch.cuda.is_available():\n    gpus = 1\nelse:\n    gpus = 0\nprint(gpus)\n", False),
        ("if torch.cuda.is_available():\n    known = 1\nprint(known)\n", False),
        ("if torch.cuda.is_available():\n    x = 1\nif torch.cuda.is_available():\n    print(x)\n", False),
        ("if not torch.cuda.is_available():\n    x = 1\nelse:\n    y = 1\nprint(x)\n", False),
        ("if args.device == 'cuda' and not torch.cuda.is_available():\n    raise ValueError\n", True),
        ("if torch.cuda.is_available() and not args.cpu:\n    raise ValueError\n", False),
        ("if torch.cuda.is_available():\n    gpus = 1\nelif xpu():\n    gpus = 2\nprint(gpus)\n", True),
    ],
)
def test_a_gpu_is_claimed_only_where_the_script_would_end(tmp_path: object, text: str, *, ends: bool) -> None:
    assert ends_without_gpu(frame(tmp_path, text, 1)) is ends  # type: ignore[arg-type]


PEAK = """class Peak:
    def __enter__(self):
        if torch.cuda.is_available():
            self.begin = 1
        elif xpu():
            self.begin = 2

    def __exit__(self):
        print(self.begin)
"""


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        (PEAK, True),
        (PEAK.replace("elif xpu()", "else"), False),
        (PEAK.replace("        print", "        if torch.cuda.is_available():\n            print"), False),
        (PEAK.replace("self.begin)", "self.end)"), False),
        (PEAK + "\n    def __init__(self):\n        self.begin = 0\n", False),
    ],
)
def test_a_gpu_is_claimed_where_an_attribute_is_missing_without_one(tmp_path: object, text: str, *, ends: bool) -> None:
    assert ends_without_gpu(frame(tmp_path, text, 3)) is ends  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("if not os.path.exists(folder):\n    raise ValueError\n", True),
        ("if os.path.exists(folder):\n    x = 1\n", False),
        ("if torch.cuda.is_available():\n    dist.init_process_group('nccl')\n", False),
        ("missing = [each for each in files if not each.exists()]\nif missing:\n    raise OSError\n", True),
        ("token = os.getenv('HF_TOKEN')\nif not token:\n    raise OSError\n", True),
        ("given = {'a': os.getenv('A')}\nmissing = [a for a in given if not a]\nif missing:\n    exit(1)\n", True),
        ("is_there = os.path.exists(folder)\nif is_there:\n    raise FileExistsError\n", False),
        ("token = os.getenv('HF_TOKEN')\nif token:\n    login(token)\n", False),
        ("token = os.getenv('HF_TOKEN')\nif not other:\n    raise OSError\n", False),
    ],
)
def test_an_answer_is_needed_where_false_ends_the_script(tmp_path: object, text: str, *, ends: bool) -> None:
    assert ends_if_false(frame(tmp_path, text, 1)) is ends  # type: ignore[arg-type]


def test_a_table_in_the_script_names_columns() -> None:
    text = "names = {'somebody/birds': ('picture', 'caption'), 'other': ('a', 'b')}\n"
    assert columns_of_data_set(text, "somebody/birds") == ("picture", "caption")
    assert columns_of_data_set(text, "unknown") == ()


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("somebody/stable-diffusion-v1-4/text_encoder", "CLIPTextModel"),
        ("somebody/stable-diffusion-xl-base-1.0/text_encoder_2", "CLIPTextModelWithProjection"),
        ("somebody/FLUX.1-dev/text_encoder_2", "T5EncoderModel"),
        ("somebody/stable-diffusion-v1-4/tokenizer", "CLIPTextModel"),
        ("somebody/stable-diffusion-v1-4/text_encoder_2", None),
        ("somebody/text_encoder", None),
    ],
)
def test_the_folder_of_a_repository_tells_the_text_encoder(name: str, architecture: str | None) -> None:
    found = encoder_of(name)
    assert (found.architecture if found else None) == architecture


def test_the_name_of_a_repository_tells_its_pipeline() -> None:
    assert kind_of("somebody/sdxl-turbo").pipeline == "StableDiffusionXLPipeline"
    assert kind_of("runwayml/stable-diffusion-v1-5").pipeline == "StableDiffusionPipeline"


def test_a_small_network_of_a_pipeline_says_how_large_its_images_are() -> None:
    class Network:
        def __init__(self, sample_size: int | None = None, in_channels: int = 4) -> None: ...

    class Sized:
        def __init__(self, sample_size: int = 128) -> None: ...

    assert small_arguments(Network, "runwayml/stable-diffusion-v1-5", {"in_channels": 9}) == {
        "sample_size": 8,
        "in_channels": 9,
    }
    assert small_arguments(Sized, "runwayml/stable-diffusion-v1-5", {}) == {}


def test_a_small_vae_is_narrower_than_what_reads_its_latents() -> None:
    class Coder:
        def __init__(
            self,
            block_out_channels: tuple[int, ...] = (64,),
            down_block_types: tuple[str, ...] = ("DownEncoderBlock2D",),
            up_block_types: tuple[str, ...] = ("UpDecoderBlock2D",),
            latent_channels: int = 4,
            norm_num_groups: int = 32,
        ) -> None: ...

    class Network:
        def __init__(self, block_out_channels: tuple[int, ...] = (320, 640), norm_num_groups: int = 32) -> None: ...

    coder, network = (small_arguments(each, "runwayml/stable-diffusion-v1-5", {}) for each in (Coder, Network))
    assert (coder["block_out_channels"], coder["norm_num_groups"]) == ((4,) * 4, 2)
    assert network == {"block_out_channels": (32, 32)}


def test_the_parts_of_a_pipeline_stay_on_the_cpu() -> None:
    class Pipeline:
        @classmethod
        def from_pretrained(cls, name: str) -> Any: ...

        def enable_model_cpu_offload(self) -> None:
            raise RuntimeError("requires accelerator")

    session: Any = SimpleNamespace(stand_ins=[], measuring=False)
    diffusion._answer_pipelines(Ledger(session), SimpleNamespace(DiffusionPipeline=Pipeline))
    Pipeline().enable_model_cpu_offload()
    assert [each.name for each in session.stand_ins] == ["enable_model_cpu_offload"]
    assert not hasattr(Pipeline, "enable_sequential_cpu_offload")


def test_layers_that_multiply_in_8_bits_stay_as_they_are() -> None:
    session: Any = SimpleNamespace(stand_ins=[], measuring=False)
    torchao = SimpleNamespace(convert_to_float8_training=None)
    devices._keep_linear_layers(Ledger(session), torchao)
    model = object()
    assert torchao.convert_to_float8_training(model, config=None) is model
    assert [each.name for each in session.stand_ins] == ["convert_to_float8_training"]


def test_a_scheduler_has_the_values_of_published_ones() -> None:
    class Mixin:
        @classmethod
        def from_pretrained(cls, name: str) -> Any: ...

    class Scheduler(Mixin):
        def __init__(self, skip_prk_steps: bool = False, steps_offset: int = 0) -> None:
            self.given = (skip_prk_steps, steps_offset)

    class Other(Mixin):
        given = ()

    diffusion._answer_schedulers(SimpleNamespace(SchedulerMixin=Mixin))
    found: list[Any] = [each.from_pretrained("CompVis/stable-diffusion-v1-4") for each in (Scheduler, Other)]
    assert [each.given for each in found] == [(True, 0), ()]


@pytest.mark.parametrize("name", ["HfFolder", "Repository"])
def test_classes_of_the_hub_without_a_successor_do_nothing(name: str) -> None:
    ledger = Ledger(SimpleNamespace(stand_ins=[]))  # type: ignore[arg-type]
    module = SimpleNamespace()
    older_names._add(ledger, module, "huggingface_hub", name)  # pyright: ignore[reportPrivateUsage]
    assert [each.name for each in ledger.session.stand_ins] == [f"huggingface_hub.{name}"]
    assert not getattr(module, name)().get_token()


def test_a_name_tells_values_of_a_configuration() -> None:
    assert values_by_name("facebook/wav2vec2-large-lv60", "wav2vec2")["feat_extract_norm"] == "layer"
    assert values_by_name("facebook/wav2vec2-base", "wav2vec2") == {}
    assert values_by_name("somebody/bert-robust", "bert") == {}


def test_rows_of_several_tables_have_the_same_ids() -> None:
    made = [
        Rows({name: "text", "text": "text"}, {}, "", seed).columns(3) for seed, name in enumerate(("_id", "query-id"))
    ]
    assert made[0]["_id"] == made[1]["query-id"] == ["id-0", "id-1", "id-2"]
    assert made[0]["text"] != made[1]["text"]


def test_numbers_of_passages_and_of_classes_are_those_of_other_columns() -> None:
    pytest.importorskip("datasets")
    kinds = {"corpus-ids": "ids", "classes": "class-ids", "seen": "mask"}
    rows = Rows(kinds, {}, "", 0)
    made = rows.columns(2)
    assert made["corpus-ids"][1][:2] == ["id-1", "id-2"]
    assert max(int(number) for mask in made["seen"] for _, number in mask.getcolors()) in made["classes"][0].values()
    assert [*rows.features()["classes"]] == [*made["classes"][0]]


def test_answers_are_longer_than_questions() -> None:
    rows = Rows({"query": "text", "response": "text"}, {}, "", 0).columns(20)
    assert 2 * sum(map(len, rows["query"])) < sum(map(len, rows["response"]))


def test_an_empty_package_is_taken_apart() -> None:
    figure, axes = Nothing()
    assert isinstance(figure, Nothing)
    assert [*axes] == []


@pytest.mark.slow
def test_what_an_empty_package_gives_is_part_of_a_text_or_a_number() -> None:
    colors, tool = Empty("colorama"), Empty("codecarbon")
    assert colors.Fore.RED + "loss" + colors.Style.RESET_ALL == "loss"
    assert f"{tool.EmissionsTracker().stop():.2f} kg" == " kg"
    assert (int(tool.count()), float(tool.count())) == (0, 0.0)


def test_quantized_layers_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    package: Any = Empty("bitsandbytes").nn
    assert isinstance(torch.nn.Linear(2, 2), package.Linear4bit)
    assert not isinstance(torch.nn.Embedding(2, 2), package.Linear8bitLt)
    made = package.Linear8bitLt(2, 3, bias=False, has_fp16_weights=False)
    assert made(torch.ones(1, 2)).shape == (1, 3)


def test_optimizers_for_a_gpu_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    package: Any = Empty("bitsandbytes").optim
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = package.AdamW8bit([weight], lr=0.1, weight_decay=0.0, min_8bit_size=4096)
    weight.sum().backward()
    optimizer.step()
    assert isinstance(optimizer, torch.optim.AdamW)
    assert weight.tolist() == pytest.approx([0.9, 0.9])
    assert package.GlobalOptimManager is Nothing
    assert Empty("wandb").SGD is Nothing


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_unsloth_is_a_model_with_an_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    pytest.importorskip("peft")
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2}
    small = transformers.LlamaConfig(vocab_size=64, num_hidden_layers=1, **sizes)
    reader = SimpleNamespace(pad_token=None, eos_token="</s>", chat_template=None)
    monkeypatch.setattr(
        transformers.AutoModelForCausalLM, "from_pretrained", lambda *_, **__: transformers.LlamaForCausalLM(small)
    )
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", lambda *_, **__: reader)
    package = Empty("unsloth")
    model, tokenizer = package.FastLanguageModel.from_pretrained(
        model_name="mine", max_seq_length=64, load_in_4bit=True
    )
    adapted = package.FastLanguageModel.get_peft_model(model, r=4, lora_alpha=8, random_state=1)
    assert {name.rpartition(".")[2] for name, each in adapted.named_parameters() if each.requires_grad} == {"weight"}
    assert torch.isfinite(adapted(torch.arange(4)[None], labels=torch.arange(4)[None]).loss)
    assert (tokenizer.pad_token, package.is_bfloat16_supported()) == ("</s>", False)
    assert "<|im_start|>" in Empty("unsloth.chat_templates").get_chat_template(tokenizer).chat_template
    assert package.train_on_responses_only("trainer", instruction_part="user") == "trainer"


def test_a_checkpoint_is_named_by_the_class_that_loads_it() -> None:
    ledger = Ledger(SimpleNamespace(stand_ins=[]))  # type: ignore[arg-type]
    ledger.describe("bert-base-cased", "the tokenizer and configuration of a bert model", ", 2 layers")
    ledger.name_model("bert-base-cased", "BertForMaskedLM")
    ledger.name_model("bert-base-cased", "BertForSequenceClassification", is_loaded=True)
    ledger.name_model("bert-base-cased", "BertForMaskedLM")
    ledger.name_model("elsewhere", "BertModel", is_loaded=True)
    assert [each.by for each in ledger.session.stand_ins] == ["BertForSequenceClassification, 2 layers, random weights"]


def test_batches_after_a_slow_one_have_fewer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fetcher:
        auto_collation = True

        def fetch(self, index: list[int]) -> int:
            return len(index)

    clock = iter([0.0, 1.0, 1.5, 1.6, 9.0, 9.1, 9.2, 9.3])
    monkeypatch.setattr("lintrain.runtime.stand_ins.batches.time.process_time", lambda: next(clock))
    made: list[StandIn] = []
    ledger: Any = SimpleNamespace(replace=lambda *entry: made.append(StandIn(*entry)))
    _cut_slow_batches(ledger, SimpleNamespace(_MapDatasetFetcher=Fetcher))
    batches = [Fetcher().fetch([*range(rows)]) for rows in (64, 64, 64, 4)]
    assert batches == [64, 64, 8, 4]
    assert [each.name for each in made] == ["batches of 64 rows"]


def test_texts_count_more_than_the_numbers_of_images() -> None:
    import torch

    ids, pictures = torch.zeros(64, 512, dtype=torch.int64), torch.zeros(64, 512)
    assert _numbers_in({"input_ids": ids, "pixels": pictures, "labels": ids[:, 0]}) == 64 * 512 * 129 + 64


@pytest.mark.parametrize(("numbers", "rows"), [(3 * 224 * 224, [8, 8]), (3 * 32 * 32, [128, 128])])
def test_a_first_batch_of_large_images_has_few_rows(numbers: int, rows: list[int]) -> None:
    class Images(SimpleNamespace):
        def numel(self) -> int:
            return numbers * int(self.rows)

    class Fetcher:
        auto_collation = True

        def fetch(self, index: list[int]) -> tuple[Images, dict[str, Images]]:
            return Images(rows=len(index)), {}

    made: list[StandIn] = []
    ledger: Any = SimpleNamespace(replace=lambda *entry: made.append(StandIn(*entry)))
    _cut_slow_batches(ledger, SimpleNamespace(_MapDatasetFetcher=Fetcher))
    assert [Fetcher().fetch([*range(128)])[0].rows for _ in range(2)] == rows
    assert len(made) == (rows[0] == 8)


@pytest.mark.parametrize(("seconds", "rows"), [(0.1, 8), (0.001, 64)])
def test_a_first_batch_of_slow_rows_has_few(seconds: float, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]

    class Slow:
        def __getitem__(self, index: int) -> int:
            clock[0] += seconds
            return index

    class Fetcher:
        auto_collation, dataset = True, Slow()

        def fetch(self, index: list[int]) -> list[int]:
            return [self.dataset[each] for each in index]

    monkeypatch.setattr("lintrain.runtime.stand_ins.batches.time.thread_time", lambda: clock[0])
    made: list[StandIn] = []
    ledger: Any = SimpleNamespace(replace=lambda *entry: made.append(StandIn(*entry)), making=lambda _: nullcontext())
    _cut_slow_batches(ledger, SimpleNamespace(_MapDatasetFetcher=Fetcher))
    assert len(Fetcher().fetch([*range(64)])) == rows
    assert len(made) == (rows == 8)


def test_weights_that_are_not_here_are_taken_apart_as_others() -> None:
    weights = NoWeights()
    del weights["head.weight"]
    assert isinstance(weights["model"]["encoder"], NoWeights)
    assert isinstance(weights.pop("state_dict"), NoWeights)
    assert not [*weights.items()]


def test_a_network_of_timm_is_found_by_its_name_on_the_hub() -> None:
    def parse(name: str) -> tuple[None, str]:
        if "/" in name:
            raise ValueError(name)
        return None, name

    ledger = Ledger(SimpleNamespace(stand_ins=[]))  # type: ignore[arg-type]
    module = SimpleNamespace(parse_model_name=parse, is_model=lambda name: name == "resnet18")
    _name_plainly(ledger, module)
    for name in ("timm/resnet18.a1_in1k", "hf-hub:timm/resnet18.a1_in1k", "resnet18.a1_in1k"):
        assert module.parse_model_name(name) == (None, "resnet18.a1_in1k")
    for name in ("timm/mine", "somebody/resnet18"):
        with pytest.raises(ValueError, match=name):
            module.parse_model_name(name)
    assert [each.name for each in ledger.session.stand_ins] == ["timm/resnet18.a1_in1k", "hf-hub:timm/resnet18.a1_in1k"]


def test_a_part_that_a_model_had_itself_is_found_in_its_inner_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[misc, name-defined]
        base_model_prefix = "model"

    owner: Any = type("PreTrainedModel", (Model,), {})
    ledger = Ledger(SimpleNamespace(stand_ins=[]))  # type: ignore[arg-type]
    older_names._find_parts(ledger, SimpleNamespace(PreTrainedModel=owner))
    whole, inner = owner(), torch.nn.Module()
    whole.model, inner.vision_tower, inner.layers = inner, torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    monkeypatch.setattr(older_names, "is_called_by_user", lambda *_: False)
    assert not hasattr(whole, "vision_tower")
    monkeypatch.setattr(older_names, "is_called_by_user", lambda *_: True)
    assert whole.vision_tower is inner.vision_tower
    assert not hasattr(whole, "layers")
    assert [each.by for each in ledger.session.stand_ins] == ["PreTrainedModel.model.vision_tower"]


def test_an_option_that_two_classes_have_is_that_of_the_script() -> None:
    parser: Any = type("HfArgumentParser", (argparse.ArgumentParser,), {"dataclass_types": ()})
    ledger = Ledger(SimpleNamespace(stand_ins=[]))  # type: ignore[arg-type]
    older_names._share_options(ledger, SimpleNamespace(HfArgumentParser=parser))
    made = parser()
    made.add_argument("--use_cache", "--use-cache", default=1)
    made.add_argument("--use_cache", "--use-cache", default=2)
    values = made.parse_args([])
    assert values.use_cache == 2
    del values.use_cache  # by the first class
    assert vars(values) == {"use_cache": 2}
    del values.use_cache
    assert vars(values) == {}
    assert [each.name for each in ledger.session.stand_ins] == ["--use_cache", "--use-cache"]


def test_a_notebook_with_long_outputs_is_read(tmp_path: Path) -> None:
    code = {"cell_type": "code", "source": ["read(example['question'])"], "outputs": ["x" * 2_000_000]}
    (tmp_path / "train.ipynb").write_text(json.dumps({"cells": [code]}))
    ledger = Ledger(SimpleNamespace(script=str(tmp_path / "train.ipynb")))  # type: ignore[arg-type]
    assert ledger.script == "read(example['question'])"


def test_the_source_of_an_installed_package_is_not_the_scripts_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("examples", "numpy", "helpers_of_mine"):
        (tmp_path / folder).mkdir()
    (tmp_path / "examples" / "train.py").write_text("import numpy.rows\nimport helpers_of_mine.data\n")
    (tmp_path / "numpy" / "rows.py").write_text("row['of_the_library']")
    (tmp_path / "helpers_of_mine" / "data.py").write_text("row['of_the_script']")
    monkeypatch.chdir(tmp_path)
    ledger = Ledger(SimpleNamespace(script=str(tmp_path / "examples" / "train.py")))  # type: ignore[arg-type]
    assert "of_the_script" in ledger.script
    assert "of_the_library" not in ledger.script


def test_packages_of_the_script_are_read_as_well(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "train.py").write_text("from rows import Streets\n")
    (tmp_path / "rows" / "__init__.py").write_text("from .streets import Streets\n")
    (tmp_path / "rows" / "streets.py").write_text("class Streets: ...\n# of the package\n")
    (tmp_path / "rows" / "others.py").write_text("# not imported\n")
    ledger = Ledger(SimpleNamespace(script=str(tmp_path / "train.py")))  # type: ignore[arg-type]
    assert "of the package" in ledger.script
    assert "not imported" not in ledger.script


def test_options_that_only_an_earlier_version_had_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    made: Any = type("SFTConfig", (), {"__module__": "trl.trainer.sft_config"})
    for name, version in (("trl", "0.29.0"), ("transformers", "5.1.0")):
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))
    ledger = Ledger(SimpleNamespace(stand_ins=[]))  # type: ignore[arg-type]
    parser: Any = argparse.ArgumentParser()
    parser.add_argument("--max_length", type=int)
    parser.dataclass_types = [made]
    values, rest = parser.parse_known_args(["--max_seq_length", "64", "--mistyped", "3"])
    assert older_names._without_removed(ledger, parser, values, rest) == ["--mistyped", "3"]
    assert values.max_length == 64
    assert [each.by for each in ledger.session.stand_ins] == [
        "max_length=: the installed version has no max_seq_length"
    ]
