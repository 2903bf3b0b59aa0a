"""Stand-ins of checkpoints: small models whose sizes fit, and the tokenizers and processors that belong to them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.evidence.run import StandInKind
from lintrain.runtime.stand_ins import hub, older_names, settings
from lintrain.runtime.stand_ins.checkpoints import Checkpoints
from lintrain.runtime.stand_ins.diffusion import encoder_of
from lintrain.runtime.stand_ins.ledger import Ledger
from lintrain.runtime.stand_ins.processors import take_defaults
from lintrain.runtime.stand_ins.small_configs import small_config
from lintrain.runtime.stand_ins.tokenizers import LONG, small_tokenizer

pytestmark = pytest.mark.slow


def made(tmp_path: Path, text: str = "") -> Checkpoints:
    """The checkpoints of a script with this text."""
    session: Any = SimpleNamespace(stand_ins=[], measuring=False, script=str(tmp_path / "train.py"), note=print)
    session.folder = partial(os.path.join, str(tmp_path))
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "train.py").write_text(text)
    return Checkpoints(Ledger(session))


def test_a_tokenizer_of_letters_needs_no_file_of_the_hub() -> None:
    pytest.importorskip("transformers")
    tokenizer = small_tokenizer("esm", "somebody/esm2", None, {}, chats=False)
    assert tokenizer.tokenize("MKV") == ["M", "K", "V"]
    assert tokenizer.unk_token_id not in tokenizer("MKV")["input_ids"]


def test_the_turns_of_the_assistant_are_marked_in_a_chat() -> None:
    pytest.importorskip("transformers")
    tokenizer = small_tokenizer("qwen3", "Qwen/Qwen3-0.6B", None, {}, chats=True)
    turns = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes."}]
    made = tokenizer.apply_chat_template(turns, return_dict=True, return_assistant_tokens_mask=True)
    scored = [token for token, is_own in zip(made["input_ids"], made["assistant_masks"], strict=True) if is_own]
    assert tokenizer.decode(scored) == "Yes.<|im_end|>"
    whole = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nYes.<|im_end|>\n"
    assert tokenizer.decode(made["input_ids"]) == whole
    assert tokenizer.apply_chat_template(turns[:1], tokenize=False, add_generation_prompt=True) == whole[:-15]


@pytest.mark.parametrize("family", ["qwen3", "mistral"])
def test_a_template_shows_tools_and_the_calls_of_them(family: str) -> None:
    pytest.importorskip("transformers")
    templates = pytest.importorskip("trl.chat_template_utils")
    tokenizer = small_tokenizer(family, "somebody/model", None, {}, chats=True, tools=True)
    assert templates.supports_tool_calling(tokenizer)
    tool = {"type": "function", "function": {"name": "add", "parameters": {}}}
    assert '"add"' in tokenizer.apply_chat_template(
        [{"role": "user", "content": "Hello"}], tools=[tool], tokenize=False
    )


def test_calls_of_tools_are_read_from_a_published_template() -> None:
    pytest.importorskip("transformers")
    templates = pytest.importorskip("trl.chat_template_utils")
    tokenizer = small_tokenizer("qwen3", "Qwen/Qwen3-0.6B", None, {}, chats=True, tools=True)
    parsed = templates.add_response_schema(tokenizer).parse_response(
        '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call><|im_end|>', prefix=""
    )
    assert parsed["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 1}}


@pytest.mark.parametrize("family", ["qwen2_5_vl", "glm4v"])
def test_rotary_positions_of_images_fit_small_heads(family: str) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = small_config(transformers.CONFIG_MAPPING[family]).text_config
    model = transformers.AutoModel.from_config(config).eval()
    assert model(torch.arange(6)[None] + 10).last_hidden_state.shape == (1, 6, config.hidden_size)


@pytest.mark.parametrize(
    "name",
    [
        "llava-hf/llava-v1.6-vicuna-7b-hf",
        "llava-hf/vip-llava-7b-hf",
        "google/gemma-3-4b-it",
        "HuggingFaceM4/Idefics3-8B-x",
        "HuggingFaceM4/idefics2-8b",
        "meta-llama/Llama-3.2-11B-Vision-Instruct",
        "CohereForAI/aya-vision-8b",
        "microsoft/Florence-2-base",
    ],
)
def test_a_chat_with_an_image_fits_its_model(name: str, tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    image = pytest.importorskip("PIL.Image").new("RGB", (96, 64))
    checkpoints = made(tmp_path, "processor.apply_chat_template(rows)")
    checkpoints.fill(name)
    folder = checkpoints.folder(name)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    turn = {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]}
    chats = processor.chat_template is not None
    text = processor.apply_chat_template([turn], tokenize=False) if chats else "What is it?"
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    batch = processor(text=[text], images=[[image]], return_tensors="pt")
    assert torch.isfinite(model(**batch, labels=batch["input_ids"]).loss)


@pytest.mark.parametrize("name", ["Salesforce/blip2-opt-2.7b", "Salesforce/instructblip-vicuna-7b"])
def test_queries_of_an_image_are_numbers_that_the_model_knows(name: str, tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    image = pytest.importorskip("PIL.Image").new("RGB", (96, 64))
    checkpoints = made(tmp_path)
    checkpoints.fill(name)
    folder = checkpoints.folder(name)
    batch = transformers.AutoProcessor.from_pretrained(folder)(text=["What?"], images=[image], return_tensors="pt")
    model = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    assert (batch["input_ids"] == model.config.image_token_id).sum() == model.config.num_query_tokens
    assert torch.isfinite(model(**batch, labels=batch["input_ids"]).loss)


def test_a_large_network_of_timm_is_a_small_one() -> None:
    transformers = pytest.importorskip("transformers")
    whole = small_config(transformers.CONFIG_MAPPING["gemma3n"])
    assert (whole.vision_config.architecture, whole.vision_config.hidden_size) == ("test_convnext", 64)
    assert whole.vision_soft_tokens_per_image == 49


def test_a_part_for_images_that_a_class_leaves_open_is_made() -> None:
    transformers = pytest.importorskip("transformers")
    if "gemma4" not in transformers.CONFIG_MAPPING:
        pytest.skip("transformers has no Gemma 4")
    assert small_config(transformers.CONFIG_MAPPING["gemma4"]).vision_config.num_hidden_layers == 2


def test_code_of_its_own_makes_an_automatic_class_load_any_family(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    checkpoints = made(tmp_path)
    checkpoints.fill("somebody/t5-mine")
    folder = checkpoints.folder("somebody/t5-mine")

    class Automatic:
        @classmethod
        def from_pretrained(cls, *args: Any, **kwargs: Any) -> Any:
            return transformers.AutoModelForCausalLM.from_pretrained(*args, **kwargs)

    settings._replace_loader(checkpoints._ledger, Automatic)
    loaded = Automatic.from_pretrained(folder, trust_remote_code=True)
    assert type(loaded).__name__ == "T5ForConditionalGeneration"
    with pytest.raises(ValueError, match="Unrecognized configuration class"):
        Automatic.from_pretrained(folder)


def test_a_class_without_the_attention_of_stand_ins_gets_the_plain_one(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    ledger = made(tmp_path)._ledger

    class Model:
        @classmethod
        def from_pretrained(cls, name: str, **given: str) -> dict[str, str]:
            if "sdpa" in given.values():
                raise ValueError("Model does not support torch.nn.functional.scaled_dot_product_attention yet")
            return given

    settings._replace_loader(ledger, Model)
    for name in ("attn_implementation", "_attn_implementation"):
        assert Model.from_pretrained("x", **{name: "flash_attention_2"}) == {name: "eager"}
    with pytest.raises(ValueError, match="does not support"):
        Model.from_pretrained("x", other="sdpa")
    assert [each.by for each in ledger.session.stand_ins][:2] == ["sdpa", "eager: the class has no other for the CPU"]


def test_an_argument_that_loading_no_longer_has_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    ledger = made(tmp_path)._ledger
    monkeypatch.setattr(transformers, "__version__", "4.57.6")
    assert settings._plain(ledger, {"use_auth_token": True}) == {"use_auth_token": True}
    monkeypatch.setattr(transformers, "__version__", "5.1.0")
    assert settings._plain(ledger, {"use_auth_token": True}) == {}
    assert [each.name for each in ledger.session.stand_ins] == ["from_pretrained(use_auth_token=)"]
    assert settings._plain(ledger, {"load_in_8bit": False, "revision": "main"}) == {"revision": "main"}
    assert [(each.kind, each.name) for each in ledger.session.stand_ins[1:]] == [
        (StandInKind.PACKAGE, "from_pretrained(load_in_8bit=)")
    ]


def test_a_model_that_is_not_quantized_has_one_type(tmp_path: Path) -> None:
    """A quantized layer takes inputs of any type: scripts make norms and adapters float32 next to it."""
    ledger = made(tmp_path)._ledger
    for name in ("quantization_config", "load_in_4bit"):
        assert settings._plain(ledger, {name: True, "torch_dtype": "bfloat16"}) == {"dtype": "float32"}
    assert settings._plain(ledger, {"load_in_4bit": False, "dtype": "bfloat16"}) == {"dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("freeze(model.bert.encoder.layer[8])", 9),
        ("config = AutoConfig.from_pretrained(name, num_hidden_layers=11)", 11),
        ("freeze(model.bert.encoder.layer[:8], model.bert.encoder.layer[1])", 2),
    ],
)
def test_a_model_has_the_layers_that_its_script_names(text: str, layers: int, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    for name in ("somebody/bert-mine", "somebody/gpt2-mine", "somebody/Qwen2.5-1B"):
        config = transformers.AutoConfig.from_pretrained(made(tmp_path / str(layers), text).folder(name))
        assert config.num_hidden_layers == layers


def test_a_class_that_reads_a_file_of_words_finds_one(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = made(tmp_path).folder("somebody/bert-base-japanese")
    reader = transformers.BertJapaneseTokenizer.from_pretrained(folder, word_tokenizer_type="basic")
    assert reader.unk_token_id not in reader("The film was long.")["input_ids"]
    assert len(reader) == len(transformers.AutoTokenizer.from_pretrained(folder))


def test_a_token_is_found_by_its_earlier_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Tokenizer:
        pad_token = "<pad>"

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(name)

    ledger = made(tmp_path)._ledger
    older_names._find_tokens(ledger, SimpleNamespace(PreTrainedTokenizerBase=Tokenizer))
    monkeypatch.setattr(older_names, "is_called_by_user", lambda *_: True)
    assert Tokenizer()._pad_token == "<pad>"
    assert not hasattr(Tokenizer(), "_padding")
    assert [each.name for each in ledger.session.stand_ins] == ["tokenizer._pad_token"]


def test_what_reads_images_is_found_by_its_earlier_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Processor:
        feature_extractor: str

        def __init__(self, **readers: str) -> None:
            self.__dict__.update(readers)

    ledger = made(tmp_path)._ledger
    older_names._find_reader_of_images(ledger, SimpleNamespace(ProcessorMixin=Processor))
    monkeypatch.setattr(older_names, "is_called_by_user", lambda *_: False)
    assert not hasattr(Processor(image_processor="images"), "feature_extractor")
    monkeypatch.setattr(older_names, "is_called_by_user", lambda *_: True)
    assert Processor(image_processor="images").feature_extractor == "images"
    assert Processor(image_processor="images", feature_extractor="sound").feature_extractor == "sound"
    assert not hasattr(Processor(image_processor="images"), "tokenizer")
    assert not hasattr(Processor(), "feature_extractor")
    assert [each.name for each in ledger.session.stand_ins] == ["Processor.feature_extractor"]


def test_further_special_tokens_are_found_by_their_earlier_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    base = transformers.PreTrainedTokenizerBase
    if hasattr(base, "additional_special_tokens"):
        pytest.skip("this version has the name")
    ledger = made(tmp_path)._ledger
    monkeypatch.setattr(base, "__getattr__", base.__getattr__)
    older_names._find_tokens(ledger, SimpleNamespace(PreTrainedTokenizerBase=base))
    monkeypatch.setattr(older_names, "is_called_by_user", lambda *_: True)
    tokenizer = small_tokenizer("idefics3", "somebody/idefics3", None, {"image_token": "<image>"}, chats=True)
    further, numbers = tokenizer.additional_special_tokens, tokenizer.additional_special_tokens_ids
    assert numbers[further.index("<image>")] == tokenizer.convert_tokens_to_ids("<image>")
    assert tokenizer.pad_token not in further


def test_padding_without_a_length_is_short_for_a_stand_in(tmp_path: Path) -> None:
    checkpoints = made(tmp_path)

    class Tokenizer:
        name_or_path = "somebody/qwen2.5-1b"

        @classmethod
        def from_pretrained(cls, name: str) -> None: ...

        def _get_padding_truncation_strategies(
            self, padding: str, longest: int
        ) -> tuple[str, bool, int, dict[str, Any]]:
            return padding, True, longest, {}

    hub._note_tokenizers(checkpoints._ledger, checkpoints, SimpleNamespace(PreTrainedTokenizerBase=Tokenizer))
    asked: list[Any] = [("max_length", LONG), ("max_length", 4096), ("longest", LONG)]
    assert [Tokenizer()._get_padding_truncation_strategies(*each)[2] for each in asked] == [LONG, 4096, LONG]
    checkpoints._ledger.describe("somebody/qwen2.5-1b", "a tokenizer", "")
    assert [Tokenizer()._get_padding_truncation_strategies(*each)[2] for each in asked] == [1024, 4096, LONG]
    assert checkpoints._ledger.session.stand_ins[-1].name == "padding='max_length'"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("somebody/gpt-neo-125m", "AutoModelForCausalLM"),
        ("somebody/codegen-350M", "AutoModelForCausalLM"),
        ("somebody/Qwen3.5-0.8B", "AutoModelForCausalLM"),
        ("somebody/gemma-4-E2B-it", "AutoModelForCausalLM"),
        ("somebody/opus-mt-en-fr", "AutoModelForSeq2SeqLM"),
        ("somebody/t5gemma-2b-2b", "AutoModelForSeq2SeqLM"),
        ("somebody/esm2_t6", "AutoModelForMaskedLM"),
    ],
)
def test_a_family_with_sizes_of_its_own_gives_a_loss(name: str, kind: str, tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    checkpoints = made(tmp_path)
    checkpoints.fill(name)
    model = getattr(transformers, kind).from_pretrained(checkpoints.folder(name), dtype=torch.float32)
    ids = torch.arange(12).reshape(2, 6) + 5
    assert torch.isfinite(model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=ids).loss)


def test_a_model_of_two_has_the_image_processor_of_its_encoder(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    image = pytest.importorskip("PIL.Image").new("RGB", (96, 64))
    folder = made(tmp_path).folder("somebody/trocr-base")
    pixels = transformers.TrOCRProcessor.from_pretrained(folder)(image, return_tensors="pt")["pixel_values"]
    assert pixels.shape == (1, 3, 224, 224)


def test_an_encoder_of_images_and_one_of_texts_read_what_their_families_do(tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    image = pytest.importorskip("PIL.Image").new("RGB", (96, 64))
    checkpoints = made(tmp_path)
    checkpoints.fill("./clip-roberta")
    folder = checkpoints.folder("./clip-roberta")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = tokenizer(["What is it?"], max_length=128, padding="max_length", return_tensors="pt")
    pixels = transformers.AutoImageProcessor.from_pretrained(folder)(image, return_tensors="pt")
    model = transformers.AutoModel.from_pretrained(folder)
    assert torch.isfinite(model(**texts, **pixels, return_loss=True).loss)


def test_pixels_of_no_class_have_a_number(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    folder = made(tmp_path).folder("facebook/mask2former-swin-tiny-coco-instance")
    assert transformers.AutoImageProcessor.from_pretrained(folder).ignore_index == 255


def test_whisper_pads_with_the_end_of_a_text(tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    checkpoints = made(tmp_path)
    checkpoints.fill("somebody/whisper-mine")
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(checkpoints.folder("somebody/whisper-mine"))
    sound = torch.zeros(1, model.config.num_mel_bins, 3000)
    assert torch.isfinite(model(input_features=sound, labels=torch.arange(6)[None]).loss)


def test_a_decoder_has_a_first_token(tmp_path: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    checkpoints = made(tmp_path)
    checkpoints.fill("somebody/t5-large-mine")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(checkpoints.folder("somebody/t5-large-mine"))
    ids = torch.arange(6)[None] + 5
    assert torch.isfinite(model(input_ids=ids, labels=ids).loss)


def test_texts_are_no_longer_than_the_positions_of_the_model(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    checkpoints = made(tmp_path)
    longest = {
        name: transformers.AutoTokenizer.from_pretrained(checkpoints.folder(name)).model_max_length
        for name in ("somebody/blip-captioning", "somebody/qwen2.5-1b")
    }
    assert longest == {"somebody/blip-captioning": 512, "somebody/qwen2.5-1b": 131072}


@pytest.mark.parametrize("family", ["bert", "gpt2", "llama", "t5", "vit", "swin", "wav2vec2", "whisper", "qwen2_5_vl"])
def test_a_small_configuration_builds_its_model(family: str) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    config = small_config(transformers.CONFIG_MAPPING[family])
    with torch.device("meta"):
        model = transformers.AutoModel.from_config(config)
    assert sum(each.numel() for each in model.parameters()) < 12_000_000


def test_what_reads_each_sample_of_a_sound_is_narrow() -> None:
    transformers = pytest.importorskip("transformers")
    config = small_config(transformers.CONFIG_MAPPING["wav2vec2"])
    assert {*config.conv_dim} == {config.codevector_dim} == {config.proj_codevector_dim} == {32}


def test_experts_that_a_class_leaves_open_are_few() -> None:
    transformers = pytest.importorskip("transformers")
    if "diffusion_gemma" not in transformers.CONFIG_MAPPING:
        pytest.skip("an older version")
    part = small_config(transformers.CONFIG_MAPPING["diffusion_gemma"]).text_config
    assert (part.num_experts, part.top_k_experts, part.moe_intermediate_size) == (4, 2, 64)


@pytest.mark.parametrize(
    ("text", "family"),
    [
        ("model = Qwen2VLForConditionalGeneration.from_pretrained(path)", "qwen2_vl"),
        ("reads = WhisperProcessor.from_pretrained(path)", "whisper"),
        ("model = GPT2LMHeadModel.from_pretrained(path)", "gpt2"),
        ("model = AutoModelForCausalLM.from_pretrained(path)", "llama"),
        ("one, other = BertModel.from_pretrained(path), ViTModel.from_pretrained(path)", "bert"),
    ],
)
def test_the_class_that_loads_a_checkpoint_tells_its_family(text: str, family: str, tmp_path: Path) -> None:
    families = {"qwen2_vl": 1, "whisper": 1, "gpt2": 1, "llama": 1, "bert": 1, "vit": 1}
    assert made(tmp_path, text)._family("checkpoints/last", families) == family


def test_a_random_model_writes_no_tokens_of_images() -> None:
    import torch

    seen: list[Any] = []

    class Mixin:
        config = SimpleNamespace(image_token_id=3, video_token_id=5, pad_token_id=0, image_size=4)
        device = "cpu"

        def generate(self, **given: Any) -> None:
            seen.extend(given.get("logits_processor", ()))

    ledger: Any = SimpleNamespace(replace=lambda *_: None)
    settings._generate_briefly(ledger, SimpleNamespace(GenerationMixin=Mixin))
    Mixin().generate(max_new_tokens=2)
    scores = seen[0](torch.zeros(1, 1, dtype=torch.long), torch.zeros(1, 8))
    assert scores.isinf().nonzero()[:, 1].tolist() == [3, 5]
    Mixin.config = SimpleNamespace(pad_token_id=0)
    seen.clear()
    Mixin().generate(max_new_tokens=2)
    assert seen == []


def test_an_encoder_of_images_of_any_size_belongs_to_a_decoder_of_texts(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    checkpoints = made(tmp_path)
    checkpoints.fill("somebody/donut-base")
    folder = checkpoints.folder("somebody/donut-base")
    config = transformers.VisionEncoderDecoderConfig.from_pretrained(folder)
    assert (config.encoder.model_type, config.decoder.model_type) == ("donut-swin", "mbart")
    config.encoder.image_size = [128, 96]  # which a script sets, and no weight depends on
    assert transformers.VisionEncoderDecoderModel.from_pretrained(folder, config=config).encoder is not None


def test_what_reads_images_has_the_values_of_its_class_where_a_checkpoint_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    base = pytest.importorskip("transformers.image_processing_base")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    owner = base.ImageProcessingMixin
    before = owner.__dict__["get_image_processor_dict"]
    ledger = made(tmp_path)._ledger
    try:
        take_defaults(ledger, "get_image_processor_dict", owner)
        found = transformers.CLIPImageProcessor.from_pretrained("somebody/prior", subfolder="image_processor")
        with pytest.raises(OSError, match="preprocessor_config"):  # the script's own folder
            transformers.CLIPImageProcessor.from_pretrained(str(tmp_path))
    finally:
        owner.get_image_processor_dict = before
    assert found.to_dict() == transformers.CLIPImageProcessor().to_dict()
    assert [each.name for each in ledger.session.stand_ins] == [f"somebody/prior, {type(found).__name__}"]


@pytest.mark.parametrize(
    ("name", "encoder"),
    [
        ("somebody/prior/image_encoder", "CLIPVisionModelWithProjection"),
        ("somebody/kandinsky-2-2-prior/text_encoder", "CLIPTextModelWithProjection"),
        ("somebody/diffusion/text_encoder", "CLIPTextModel"),
    ],
)
def test_a_part_of_a_pipeline_has_the_encoder_of_its_folder(name: str, encoder: str) -> None:
    found = encoder_of(name)
    assert found is not None
    assert found.architecture == encoder
