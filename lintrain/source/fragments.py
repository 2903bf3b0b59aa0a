"""Partial texts: the names that they use and bind nowhere, and what these usually stand for.

`nn` is `torch.nn`, as training scripts import it; where a name has two meanings, the rest of the text decides.
Whether code makes names by their text, or asks for them before it uses them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import TypeGuard

from lintrain.model.location import Location
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

BINDING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def meanings(source: Source) -> Mapping[str, str]:
    """The library paths of the free names of a partial text that usually stand for one; empty for a whole script."""
    return source.cached(_meanings) if source.is_partial else {}


def meaning_in(source: Source, name: str) -> str | None:
    """The library path that a free name of a text stands for, also in a script that lacks the import of it."""
    if source.is_partial:
        return meanings(source).get(name)
    path = meaning_of(name, source.text)
    return path if path is not None and name in source.cached(_lacking) else None


def _lacking(source: Source) -> frozenset[str]:
    """The names that a whole script lacks; empty where others may bind names in it."""
    is_open = any(alias.name == "*" for node in source.nodes_of(ast.ImportFrom) for alias in node.names)
    return frozenset() if is_open or may_make_names(source) else frozenset(free_names(source))


def packages_meant(source: Source) -> frozenset[str]:
    """The top-level packages that a partial text uses without importing them."""
    if not source.is_partial:
        return frozenset()
    found = {path.partition(".")[0] for path in meanings(source).values()}
    return frozenset(found | ({"torch"} if source.contains(TORCH) else set()))


def packages_lacking(source: Source) -> frozenset[str]:
    """The libraries of training that a whole script uses without the import of any: one cell was not copied."""
    if source.is_partial or not (source.contains(KERAS) or source.contains(TORCH)):
        return frozenset()
    return frozenset((meaning_of(name, source.text) or "").partition(".")[0] for name in source.cached(_lacking)) - {""}


def _meanings(source: Source) -> Mapping[str, str]:
    found = {name: meaning_of(name, source.text) for name in sorted(free_names(source))}
    return {name: path for name, path in found.items() if path is not None}


def free_names(source: Source) -> set[str]:
    """The names that a text uses and binds nowhere."""
    names = source.nodes_of(ast.Name)
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    bound.update(node.arg for node in source.nodes_of(ast.arg))
    bound.update(node.name for node in source.nodes if isinstance(node, BINDING))
    bound.update((node.asname or node.name).partition(".")[0] for node in source.nodes_of(ast.alias))
    return {node.id for node in names} - bound


MODULES: Mapping[str, str] = {
    "F": "torch.nn.functional",
    "K": "keras.backend",
    "L": "lightning",
    "hvd": "horovod.torch",
    "keras": "keras",
    "np_utils": "keras.utils.np_utils",
    "lr_scheduler": "torch.optim.lr_scheduler",
    "nn": "torch.nn",
    "np": "numpy",
    "optim": "torch.optim",
    "pd": "pandas",
    "pl": "pytorch_lightning",
    "plt": "matplotlib.pyplot",
    "sns": "seaborn",
    "tf": "tensorflow",
    "th": "torch",
    "tfds": "tensorflow_datasets",
    "dist": "torch.distributed",
    "transforms": "torchvision.transforms",
    **{
        name: name
        for name in (
            *("accelerate", "argparse", "collections", "copy", "cv2", "datasets", "evaluate", "functools", "gc"),
            *("glob", "itertools", "json", "logging", "lightning", "math", "numpy", "os", "pandas", "peft", "pickle"),
            *("random", "re", "scipy", "shutil", "sklearn", "sys", "tensorflow", "time", "torch", "torchaudio"),
            *("torchmetrics", "torchvision", "transformers", "trl", "tqdm", "wandb", "warnings", "yaml"),
        )
    },
}
"""Names of modules, which are followed by a dot: `nn.Linear`."""

CALLED_MODULES = {"tqdm": "tqdm.tqdm", "copy": "copy.copy", "glob": "glob.glob"}
"""Names that are a module before a dot, and elsewhere what is imported from it."""

NAMES = {
    "accelerate": "Accelerator notebook_launcher",
    "collections": "Counter OrderedDict defaultdict deque namedtuple",
    "copy": "deepcopy",
    "dataclasses": "dataclass field",
    "datasets": "Audio ClassLabel DatasetDict Features Value concatenate_datasets interleave_datasets load_dataset "
    "load_from_disk load_metric",
    "functools": "partial lru_cache",
    "lightning.fabric": "Fabric seed_everything",
    "pathlib": "Path",
    "peft": "AutoPeftModel AutoPeftModelForCausalLM AutoPeftModelForSeq2SeqLM AutoPeftModelForSequenceClassification "
    "AutoPeftModelForTokenClassification LoraConfig PeftConfig PeftModel PeftModelForCausalLM PeftModelForSeq2SeqLM "
    "PeftModelForSequenceClassification PeftModelForTokenClassification PrefixTuningConfig PromptTuningConfig TaskType "
    "get_peft_config get_peft_model prepare_model_for_int8_training prepare_model_for_kbit_training",
    "PIL": "Image",
    "setfit": "SetFitModel SetFitTrainer",
    "sklearn.decomposition": "PCA",
    "sklearn.ensemble": "RandomForestClassifier",
    "sklearn.feature_extraction.text": "CountVectorizer TfidfVectorizer",
    "sklearn.feature_selection": "SelectKBest",
    "sklearn.impute": "SimpleImputer",
    "sklearn.linear_model": "LinearRegression LogisticRegression",
    "sklearn.metrics": "accuracy_score classification_report confusion_matrix f1_score mean_squared_error "
    "precision_recall_fscore_support precision_score recall_score roc_auc_score",
    "sklearn.model_selection": "GridSearchCV KFold StratifiedKFold cross_val_score train_test_split",
    "sklearn.pipeline": "Pipeline make_pipeline",
    "sklearn.preprocessing": "LabelEncoder MinMaxScaler OneHotEncoder StandardScaler",
    "tensorflow.keras.preprocessing.image": "ImageDataGenerator",
    "tensorflow.keras.preprocessing.sequence": "pad_sequences",
    "tensorflow.keras.utils": "to_categorical",
    "pytorch_lightning": "LightningDataModule LightningModule",
    "torch": "Tensor no_grad",
    "torch.autograd": "Variable",
    "torch.cuda.amp": "GradScaler autocast",
    "torch.distributed": "init_process_group",
    "torch.nn": "BCELoss BCEWithLogitsLoss CrossEntropyLoss DataParallel MSELoss Module ModuleDict ModuleList NLLLoss "
    "Parameter",
    "torch.nn.parallel": "DistributedDataParallel",
    "torch.nn.utils": "clip_grad_norm_ clip_grad_value_",
    "torch.nn.utils.rnn": "pack_padded_sequence pack_sequence pad_packed_sequence pad_sequence",
    "torch.optim.lr_scheduler": "CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR LambdaLR MultiStepLR "
    "OneCycleLR StepLR",
    "torch.optim": "AdamW",
    "torch.utils.data": "BatchSampler ConcatDataset DataLoader RandomSampler SequentialSampler Subset "
    "Sampler SubsetRandomSampler TensorDataset WeightedRandomSampler random_split",
    "torch.utils.data.distributed": "DistributedSampler",
    "torch.utils.tensorboard": "SummaryWriter",
    "tqdm": "trange",
    "transformers": "AdapterConfig BitsAndBytesConfig EarlyStoppingCallback EvalPrediction GenerationConfig "
    "HfArgumentParser PreTrainedModel Seq2SeqTrainer Seq2SeqTrainingArguments TrainerCallback TrainingArguments "
    "default_data_collator get_scheduler pipeline set_seed",
    "typing": "Any Callable Dict Iterable Iterator List Mapping Optional Sequence Tuple Union",
}
"""Names that are imported from a module, each with one meaning."""

KERAS_NAMES = {
    "keras.applications": "EfficientNetB0 InceptionV3 MobileNet MobileNetV2 ResNet50 VGG16 VGG19 Xception",
    "keras.callbacks": "EarlyStopping LearningRateScheduler ModelCheckpoint ReduceLROnPlateau TensorBoard",
    "keras.datasets": "boston_housing cifar10 cifar100 fashion_mnist imdb mnist",
    "keras.initializers": "HeNormal RandomNormal",
    "keras.layers": "Activation AveragePooling1D AveragePooling2D BatchNormalization Bidirectional Concatenate Conv1D "
    "Conv2D Conv2DTranspose Conv3D ConvLSTM2D Convolution1D Convolution2D Convolution3D Cropping2D Dense "
    "DepthwiseConv2D Dropout Embedding Flatten GRU GaussianNoise GlobalAveragePooling1D GlobalAveragePooling2D "
    "GlobalMaxPool2D GlobalMaxPooling1D GlobalMaxPooling2D InputLayer LSTM Lambda LayerNormalization LeakyReLU Masking "
    "MaxPool1D MaxPool2D MaxPooling1D MaxPooling2D MaxPooling3D Multiply PReLU Permute ReLU RepeatVector Rescaling "
    "Reshape SeparableConv1D SeparableConv2D SimpleRNN Softmax SpatialDropout1D SpatialDropout2D TextVectorization "
    "TimeDistributed UpSampling1D UpSampling2D ZeroPadding1D ZeroPadding2D",
    "keras.losses": "BinaryCrossentropy CategoricalCrossentropy MeanSquaredError SparseCategoricalCrossentropy",
    "keras.optimizers": "Adadelta Adagrad Adam Adamax Nadam RMSprop SGD",
    "keras.regularizers": "l1 l2",
    "keras": "Input Model Sequential activations applications callbacks datasets initializers layers losses metrics "
    "models optimizers regularizers utils",
}
"""Names of Keras, some of which PyTorch has as well."""

TORCH_NAMES = {
    "pytorch_lightning.callbacks": "EarlyStopping ModelCheckpoint",
    "torch.nn": "AdaptiveAvgPool2d AvgPool2d BatchNorm1d BatchNorm2d Conv1d Conv2d Conv3d ConvTranspose2d Dropout "
    "Dropout2d Embedding Flatten GRU L1Loss LSTM LayerNorm LeakyReLU Linear LogSoftmax MaxPool2d PReLU ReLU Sequential "
    "Sigmoid SmoothL1Loss Softmax Tanh functional",
    "torch.optim": "Adadelta Adagrad Adam Adamax LBFGS RMSprop SGD",
    "torch.optim.lr_scheduler": "ReduceLROnPlateau",
    "torchvision": "models",
}
"""Names of PyTorch, some of which Keras has as well."""

LONGEST = 80
"""Characters of a name of theirs."""

HUB_NAMES: Mapping[str, re.Pattern[str]] = {
    "sentence_transformers": lazy_pattern(
        r"InputExample|(?:SentenceTransformer|CrossEncoder)(?:Trainer|TrainingArguments)?"
        r"|(?:CE|CrossEncoder)[A-Z]\w+Evaluator|EmbeddingSimilarityEvaluator|TripletEvaluator|InformationRetrievalEvaluator"
    ),
    "trl": lazy_pattern(r"(?:CPO|DPO|GRPO|KTO|ORPO|PPO|RLOO|Reward|SFT)(?:Config|Trainer)"),
    "transformers": lazy_pattern(
        r"Auto[A-Z]\w+|(?:[A-Z]\w*)?[a-z\d]\w*For[A-Z]\w+|[A-Z\d]{2,}For[A-Z]\w+|[A-Z]\w+(?:Tokenizer|TokenizerFast)|DataCollator\w*"
        r"|(?:Bert|Roberta|DistilBert|GPT2|T5|Bart|ViT|Albert|Electra|XLNet)(?:Model|Config|LMHeadModel)"
        r"|get_\w*schedule\w*"
    ),
}
"""Names of the libraries of the Hub, which are too many for a list."""

LOADERS = lazy_pattern(r"(?<![\w.])(\w+)\.(?:DataLoader|TensorDataset)\(")
"""What stands before the classes of `torch.utils.data`."""
KERAS = lazy_pattern(r"\btf\.|\bkeras\b|\bDense\(|\b(?:Conv2D|MaxPooling2D)\(|\.compile\((?!r?[\"'])|\bK\.\w")
TORCH = lazy_pattern(
    r"\btorch\b|(?<!tf\.)\bnn\.|\bF\.[a-z]|\boptim\.|\.backward\(|zero_grad|\.parameters\(|requires_grad|\.detach\(|no_grad"
    r"|\bcriterion\w*\(|\.eval\(\)|\.cuda\(|\bdef forward\(self\b|\bDataLoader\b"
    r"|\bVariable\(|load_state_dict|\b(?:opt|optim|optimi[sz]er|scheduler)\w*\.step\("
)
LIGHTNING = lazy_pattern(r"\bLightning|\bpl\.|\btrainer\.(?:fit|validate|test)\(|\bTrainer\([^)]{0,500}\bmax_epochs=")
HUB_ROWS = lazy_pattern(r"\b(?:Iterable)?Dataset\.(?:from_|load_)")
HUB_DATASETS = lazy_pattern(
    r"\bdatasets\.(?:load_|Dataset|Features|Value|ClassLabel|concatenate_|Audio|Image\(|logging)"
)
SENTENCES = lazy_pattern(r"\b(?:SentenceTransformer|CrossEncoder)\(")
HUB_METRICS = lazy_pattern(r"\bevaluate\.(?:load|combine|evaluator)\(")


def meaning_of(name: str, text: str) -> str | None:
    """The dotted path that a name without an import usually stands for in such a text; None if it has no usual one."""
    if name in _names_with_loaders(text):
        return "torch.utils.data"
    if name in MODULES:
        return _module_of(name, text)
    return _decided(name, text) or plain_names().get(name) or _of_framework(name, text) or _of_hub(name)


@lru_cache(maxsize=8)  # a text of many free names asks this for each
def _names_with_loaders(text: str) -> frozenset[str]:
    return frozenset(LOADERS.findall(text))


def _module_of(name: str, text: str) -> str | None:
    if re.search(rf"\b{name}\s*\.", text) is None:
        return CALLED_MODULES.get(name)
    if name == "datasets" and not HUB_DATASETS.search(text):
        return "keras.datasets" if KERAS.search(text) and not TORCH.search(text) else "torchvision.datasets"
    if name == "evaluate" and not HUB_METRICS.search(text):
        return None
    return MODULES[name]


def _decided(name: str, text: str) -> str | None:
    """The names that two libraries have, decided by what they are given."""
    if name == "Trainer":
        return "pytorch_lightning.Trainer" if LIGHTNING.search(text) else "transformers.Trainer"
    if name == "losses" and SENTENCES.search(text):
        return "sentence_transformers.losses"
    if name in {"Dataset", "IterableDataset"}:
        return f"{'datasets' if HUB_ROWS.search(text) else 'torch.utils.data'}.{name}"
    return None


def _of_framework(name: str, text: str) -> str | None:
    if name not in torch_names() and name not in keras_names():
        return None
    if TORCH.search(text):
        return torch_names().get(name)
    return keras_names().get(name) if KERAS.search(text) else None


def _of_hub(name: str) -> str | None:
    found = (package for package, names in HUB_NAMES.items() if len(name) <= LONGEST and names.fullmatch(name))
    return next((f"{package}.{name}" for package in found), None)


@cache
def plain_names() -> Mapping[str, str]:
    """The path of each name with one meaning."""
    return _by_name(NAMES)


@cache
def torch_names() -> Mapping[str, str]:
    """The path of each name that Keras may have as well, in PyTorch."""
    return _by_name(TORCH_NAMES)


@cache
def keras_names() -> Mapping[str, str]:
    """The path of each name of Keras."""
    return _by_name(KERAS_NAMES)


def _by_name(table: Mapping[str, str]) -> Mapping[str, str]:
    return {name: f"{module}.{name}" for module, names in table.items() for name in names.split()}


def unbuilt_network(source: Source) -> ast.ClassDef | None:
    """The only network class of a partial text that the text neither builds nor derives from; None if it is not one."""
    return source.cached(_unbuilt_network) if source.is_partial else None


def _unbuilt_network(source: Source) -> ast.ClassDef | None:
    used = {node.func.id for node in source.nodes_of(ast.Call) if isinstance(node.func, ast.Name)}
    used.update(base.id for node in source.nodes_of(ast.ClassDef) for base in node.bases if isinstance(base, ast.Name))
    found = [node for node in source.tree.body if isinstance(node, ast.ClassDef) and node.name not in used]
    networks = [node for node in found if any(ast.unparse(base).endswith("Module") for base in node.bases)]
    return networks[0] if len(networks) == 1 else None


MAKES_NAMES = lazy_pattern(r"\b(?:exec|globals|locals|vars|builtins|__builtins__)\b")

MAKERS = frozenset({"exec", "builtins", "__builtins__"})
BUILTINS = frozenset({"builtins", "__builtins__", "modules"})
NAMESPACES = frozenset({"globals", "locals"})
READS = frozenset({"copy", "get", "items", "keys", "values"})
"""Methods that look into the dictionary of all names and leave it as it is."""


def may_make_names(source: Source) -> bool:
    """Whether code runs a text, or may write to the dictionary of all names; reading it makes no name.

    Only `vars()` without an argument is that dictionary: `vars(args)` are the options. In a function it holds copies of
    the function's own variables, as `locals()` does.
    """
    if not source.contains(MAKES_NAMES):
        return False
    calls = source.nodes_of(ast.Call)
    of_objects = {call.func for call in calls if call.args and not BUILTINS & _names_in(call.args[0])}
    reading = {call.func for call in _only_read(source) if isinstance(call, ast.Call)} | _copies(source)
    made = (node for node in source.nodes_of(ast.Name) if isinstance(node.ctx, ast.Load))
    return any(
        node.id in MAKERS
        or (node.id == "vars" and node not in of_objects | reading)
        or (node.id in NAMESPACES and node not in reading)
        for node in made
    ) or any(node.attr in BUILTINS for node in source.nodes_of(ast.Attribute))


def _copies(source: Source) -> set[ast.expr]:
    """The callees of `locals()` and `vars()` in functions: what is written to their result makes no name."""
    functions = (*source.nodes_of(ast.FunctionDef), *source.nodes_of(ast.AsyncFunctionDef))
    return {
        node.func
        for function in (functions if "locals(" in source.text or "vars(" in source.text else ())
        for node in walk(function)
        if isinstance(node, ast.Call) and not node.args and ast.unparse(node.func) in {"locals", "vars"}
    }


def _names_in(node: ast.expr) -> set[str]:
    return {each.id if isinstance(each, ast.Name) else each.attr for each in walk(node) if _is_named(each)}


def _is_named(node: ast.AST) -> TypeGuard[ast.Name | ast.Attribute]:
    return isinstance(node, ast.Name | ast.Attribute)


def _only_read(source: Source) -> Iterator[ast.expr]:
    """The expressions that are looked up, searched or expanded where they are written, and stored nowhere."""
    yield from (node.value for node in source.nodes_of(ast.Subscript) if isinstance(node.ctx, ast.Load))
    yield from (node.value for node in source.nodes_of(ast.Attribute) if node.attr in READS)
    yield from (right for node in source.nodes_of(ast.Compare) for right in node.comparators)
    yield from (node.value for node in source.nodes_of(ast.keyword) if node.arg is None)


def is_deleted_later(source: Source, name: str, location: Location) -> bool:
    """Whether a function uses a variable of the code around it that this deletes only further down."""
    targets = (target for statement in source.nodes_of(ast.Delete) for target in statement.targets)
    lines = [each.lineno for each in targets if isinstance(each, ast.Name) and each.id == name]
    if not lines:  # a file of many undefined names asks this of each
        return False
    functions: list[ast.stmt | ast.expr] = [*source.nodes_of(ast.FunctionDef), *source.nodes_of(ast.Lambda)]
    functions += source.nodes_of(ast.AsyncFunctionDef)
    around = (each for each in functions if source.location(each).holds(location))
    return any(line > (each.end_lineno or each.lineno) for each in around for line in lines)


def names_asked_for(source: Source) -> frozenset[str]:
    """The names that code looks for before it uses them: `"model" in globals()`."""
    tests = (node for node in source.nodes_of(ast.Compare) if isinstance(node.ops[0], ast.In | ast.NotIn))
    return frozenset(
        node.left.value
        for node in tests
        if isinstance(node.left, ast.Constant)
        and isinstance(node.left.value, str)
        and _is_namespace(node.comparators[0])
    )


def _is_namespace(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name), args=[]):
            return name in {*NAMESPACES, "vars", "dir"}
        case _:
            return False
