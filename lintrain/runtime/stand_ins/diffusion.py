"""Models of diffusers that are not here: small random ones of the same class, whose sizes fit each other.

A repository of diffusers holds a checkpoint in each of its folders; what a folder holds follows from the repository's
name and the folder's.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from typing import Any

from lintrain.evidence.run import StandInKind
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row, library
from lintrain.runtime.stand_ins.ledger import Ledger, is_there
from lintrain.startup.lazy_dataclass import dataclass

WIDTH = 32
"""The width of every small text encoder (`small_configs`)."""
HEADS = 2
PARTS = re.compile(r"(text_encoder|tokenizer|image_encoder|image_processor|feature_extractor|processor)(_\d)?")
"""Folders of a repository that transformers reads."""


@dataclass(frozen=True, slots=True)
class Encoder:
    """An encoder: its family, its class, and layers and positions where a pipeline needs more than small ones."""

    family: str
    architecture: str
    layers: int | None = None
    positions: int | None = None


CLIP = Encoder("clip_text_model", "CLIPTextModel")
CLIP_PROJECTED = Encoder("clip_text_model", "CLIPTextModelWithProjection")
CLIP_LONG = Encoder("clip_text_model", "CLIPTextModelWithProjection", positions=248)
T5 = Encoder("t5", "T5EncoderModel")
CLIP_OF_IMAGES = Encoder("clip_vision_model", "CLIPVisionModelWithProjection")
OF_IMAGES = ("image_encoder", "image_processor", "feature_extractor")
"""Folders with what reads images."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of repository: its text encoders in order, its pipeline, and what its models are built with."""

    pattern: str
    pipeline: str
    encoders: tuple[Encoder, ...]
    values: Mapping[str, Any]


LATENTS = {"latent_channels": 16, "shift_factor": 0.1}
KINDS = (
    Kind(
        r"amused",
        "AmusedPipeline",
        (CLIP_PROJECTED,),
        {
            "hidden_size": 2 * WIDTH,
            "in_channels": 2 * WIDTH,
            "block_out_channels": 2 * WIDTH,
            "intermediate_size": 4 * WIDTH,
            "encoder_hidden_size": WIDTH,
            "cond_embed_dim": WIDTH,
            "num_hidden_layers": 2,
            "num_res_blocks": 1,
            "block_num_heads": HEADS,
        },
    ),
    Kind(r"kandinsky.*prior", "KandinskyV22PriorPipeline", (CLIP_PROJECTED,), {"embedding_dim": WIDTH}),
    Kind(
        r"xl",
        "StableDiffusionXLPipeline",
        (CLIP, CLIP_PROJECTED),
        {
            "addition_embed_type": "text_time",
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 6 * 8 + WIDTH,
            "cross_attention_dim": 2 * WIDTH,
        },
    ),
    Kind(
        r"stable-diffusion-3|sd3",
        "StableDiffusion3Pipeline",
        (CLIP_PROJECTED, CLIP_PROJECTED, T5),
        {
            **LATENTS,
            "pooled_projection_dim": 2 * WIDTH,
            "caption_projection_dim": HEADS * 64,
            "joint_attention_dim": WIDTH,
        },
    ),
    Kind(
        r"flux\.?2.*klein",
        "Flux2KleinPipeline",
        (Encoder("qwen3", "Qwen3ForCausalLM", layers=36),),
        {"joint_attention_dim": 3 * WIDTH, "attention_head_dim": 16, "axes_dims_rope": (4, 4, 4, 4)},
    ),
    Kind(
        r"flux",
        "FluxPipeline",
        (CLIP, T5),
        {**LATENTS, "pooled_projection_dim": WIDTH, "joint_attention_dim": WIDTH, "guidance_embeds": True},
    ),
    Kind(
        r"hidream",
        "HiDreamImagePipeline",
        (CLIP_LONG, CLIP_LONG, T5),
        {
            **LATENTS,
            "patch_size": 2,
            "in_channels": 16,
            "caption_channels": [WIDTH, WIDTH],
            "text_emb_dim": 2 * WIDTH,
            "llama_layers": [0, 1],
            "axes_dims_rope": (64, 32, 32),
        },
    ),
    Kind(r"pixart|sana", "PixArtAlphaPipeline", (T5,), {"caption_channels": WIDTH, "cross_attention_dim": HEADS * 16}),
    Kind(r"", "StableDiffusionPipeline", (CLIP,), {"cross_attention_dim": WIDTH}),
)
"""By a part of the repository's name, the first that fits."""
SMALL = {
    "layers_per_block": 1,
    "num_layers": 1,
    "num_single_layers": 1,
    "num_attention_heads": HEADS,
    "transformer_layers_per_block": 1,
}
STEPS = 2
"""Steps to an image of a pipeline."""
PUBLISHED = {"skip_prk_steps": True}
"""What published schedulers have, in contrast to their classes: without it PNDM takes no fewer than four steps."""
NARROW = 4
"""Channels of a VAE."""
SIDE = 8
"""Latents of an image's side."""
STAGES = 4
"""Blocks of a VAE: those of the published ones, which make an image eight times smaller."""


def install(ledger: Ledger, hooks: AfterImport) -> None:
    """Build models, schedulers and pipelines that are not here."""
    hooks.add("diffusers.models.modeling_utils", functools.partial(_answer_models, ledger))
    hooks.add("diffusers.schedulers.scheduling_utils", _answer_schedulers)
    hooks.add("diffusers.pipelines.pipeline_utils", functools.partial(_answer_pipelines, ledger))
    hooks.add("diffusers.pipelines.auto_pipeline", _choose_pipelines)


def kind_of(name: str) -> Kind:
    """The kind of a repository."""
    return next(each for each in KINDS if re.search(each.pattern, name.lower()))


def encoder_of(name: str) -> Encoder | None:
    """The encoder whose weights, tokenizer or processor `repository/folder` holds; None for other names."""
    repository, _, folder = name.rpartition("/")
    if not PARTS.fullmatch(folder) or "/" not in repository:
        return None
    if folder.startswith(OF_IMAGES):
        return CLIP_OF_IMAGES
    number = int(folder.rpartition("_")[2]) if folder[-1].isdigit() else 1
    encoders = kind_of(repository).encoders
    return encoders[number - 1] if number <= len(encoders) else None


def _answer_models(ledger: Ledger, module: Any) -> None:
    _replace(module.ModelMixin, functools.partial(_model, ledger))


def _replace(owner: Any, make: Any) -> None:
    load = owner.__dict__["from_pretrained"].__func__

    @functools.wraps(load)
    def from_pretrained(cls: Any, name: Any = None, *args: Any, **kwargs: Any) -> Any:
        return load(cls, name, *args, **kwargs) if is_there(name) else make(cls, str(name), kwargs)

    owner.from_pretrained = classmethod(from_pretrained)


def _model(ledger: Ledger, cls: Any, name: str, given: Mapping[str, Any]) -> Any:
    folder = given.get("subfolder")
    shown = f"{name}, {folder}" if folder else name
    with ledger.making(shown):
        made = cls(**small_arguments(cls, name, given)).eval()
    ledger.replace(StandInKind.MODEL, shown, f"{cls.__name__}, small, random weights")
    dtype = given.get("dtype", given.get("torch_dtype"))
    # float16 has no kernels for some layers on a CPU; the probe would end with an error that no GPU gives.
    return made.to(dtype) if "bfloat16" in str(dtype) else made


def small_arguments(cls: Any, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a class is built with so that it is small, and fits the other models of its repository."""
    default = {each: parameter.default for each, parameter in inspect.signature(cls.__init__).parameters.items()}
    found = {each: value for each, value in SMALL.items() if isinstance(default.get(each), int | tuple)}
    # After the small sizes, since these have to agree with other models: a width of attention is
    # that of the text encoder.
    found |= {each: value for each, value in kind_of(name).values.items() if each in default}
    if "latent_channels" in default:  # a VAE reads images, whatever the model of latents reads
        found.pop("in_channels", None)
    if is_row(default.get("block_out_channels")):
        # A VAE works on pixels: with the width of the other models an image of 1024 x 1024 takes a minute on a CPU.
        is_vae = "latent_channels" in default and "norm_num_groups" in default
        found |= _blocks(default, NARROW if is_vae else WIDTH)
        found |= {"norm_num_groups": NARROW // 2} if is_vae else {}
    if "sample_size" in default and default["sample_size"] is None:
        found["sample_size"] = SIDE  # a pipeline draws an image of the size that its model names
    return found | {each: value for each, value in given.items() if each in default and value is not None}


def _blocks(default: Mapping[str, Any], width: int) -> dict[str, Any]:
    """Narrow blocks; a VAE whose class has one block by default gets the blocks of the published ones."""
    if len(default["block_out_channels"]) > 1:
        return {"block_out_channels": tuple(width for _ in default["block_out_channels"])}
    named = {each: default[each] * STAGES for each in ("down_block_types", "up_block_types")}
    return {**named, "block_out_channels": (width,) * STAGES}


def _answer_schedulers(module: Any) -> None:
    def build(cls: Any, name: str, given: Mapping[str, Any]) -> Any:
        parameters = inspect.signature(cls.__init__).parameters
        return cls(**{each: value for each, value in {**PUBLISHED, **given}.items() if each in parameters})

    _replace(module.SchedulerMixin, build)


def _answer_pipelines(ledger: Ledger, module: Any) -> None:
    _replace(module.DiffusionPipeline, functools.partial(_pipeline, ledger))
    for name in ("enable_model_cpu_offload", "enable_sequential_cpu_offload"):
        if hasattr(module.DiffusionPipeline, name):
            setattr(module.DiffusionPipeline, name, _staying(ledger, name))


AUTOMATIC = {
    "AutoPipelineForText2Image": "AUTO_TEXT2IMAGE_PIPELINES_MAPPING",
    "AutoPipelineForImage2Image": "AUTO_IMAGE2IMAGE_PIPELINES_MAPPING",
    "AutoPipelineForInpainting": "AUTO_INPAINT_PIPELINES_MAPPING",
}
"""Classes that choose a pipeline for a task, and their tables of pipelines."""


def _choose_pipelines(module: Any) -> None:
    """The pipeline of a task that fits the kind of repository."""

    def build(cls: Any, name: str, given: Mapping[str, Any]) -> Any:
        chosen = module._get_task_class(getattr(module, AUTOMATIC[cls.__name__]), kind_of(name).pipeline)
        return chosen.from_pretrained(name, **given)

    for name, mapping in AUTOMATIC.items():
        if hasattr(module, name) and hasattr(module, mapping):
            _replace(getattr(module, name), build)


def _staying(ledger: Ledger, name: str) -> Any:
    """What moves the parts of a pipeline to a GPU one after the other: they are on the CPU and stay there."""

    def stays(*_: Any, **__: Any) -> None:
        ledger.replace(StandInKind.DEVICE, name, "left out: every part is on the CPU")

    return stays


def _pipeline(ledger: Ledger, cls: Any, name: str, given: Mapping[str, Any]) -> Any:
    """A pipeline of the parts that it is given, and of stand-ins for the others."""
    diffusers = library("diffusers")
    kind = getattr(diffusers, kind_of(name).pipeline) if cls.__name__ == "DiffusionPipeline" else cls
    parts: dict[str, Any] = {}
    for each, parameter in inspect.signature(kind.__init__).parameters.items():
        if each == "self":
            continue
        if each in given:
            parts[each] = given[each]
        # Optional parts, which published pipelines are often loaded without.
        elif each in ("safety_checker", "feature_extractor", "image_encoder") or each.startswith("requires"):
            parts[each] = False if each.startswith("requires") else None
        elif parameter.default is inspect.Parameter.empty:
            parts[each] = _part(diffusers, name, each, str(parameter.annotation))
    _draw_briefly(ledger, kind)
    return kind(**parts)


def _draw_briefly(ledger: Ledger, kind: Any) -> None:
    """Few steps to an image: that of a random model shows noise, however many there are."""
    draw = kind.__call__
    # The class may be asked for several times, and is wrapped once.
    if getattr(draw, "is_brief", False):
        return

    @functools.wraps(draw)
    def draw_briefly(self: Any, *args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get("num_inference_steps")
        if asked is None or asked > STEPS:
            kwargs["num_inference_steps"] = STEPS
            ledger.replace(StandInKind.MODEL, f"num_inference_steps={asked}", f"{STEPS}: a random model draws noise")
        return draw(self, *args, **kwargs)

    draw_briefly.is_brief = True  # type: ignore[attr-defined]
    kind.__call__ = draw_briefly


def _part(diffusers: Any, name: str, part: str, annotation: str) -> Any:
    """One part of a pipeline, of the class that its constructor is annotated with."""
    transformers = library("transformers")
    if part.startswith("tokenizer"):
        return transformers.AutoTokenizer.from_pretrained(name, subfolder=part)
    if (encoder := encoder_of(f"{name}/{part}")) is not None:
        return getattr(transformers, encoder.architecture).from_pretrained(name, subfolder=part)
    named = (getattr(diffusers, each, None) for each in re.findall(r"\w+", annotation))
    chosen: Any = next((each for each in named if hasattr(each, "from_pretrained")), diffusers.PNDMScheduler)
    return chosen.from_pretrained(name, subfolder=part)
