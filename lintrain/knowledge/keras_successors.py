"""Replacements of names and arguments of Keras 1 and 2 that Keras 3 no longer has."""

from __future__ import annotations

from collections.abc import Mapping

from lintrain.knowledge.renames import ArgumentRename, NameRename

_NEVER = r"(?!)"
"""Matches no value: the user has to decide."""


def _renamed(new: str, **by_literal: str) -> ArgumentRename:
    return ArgumentRename(new, f"`{new}=` replaces it", by_literal=by_literal)


def _advice(text: str, is_safe: bool = True, fitting: str = _NEVER) -> ArgumentRename:
    return ArgumentRename(None, text, is_safe=is_safe, fitting=fitting)


_ON_INPUT = _advice("begin with `keras.Input(batch_shape=…)`")
_INITIALIZER = {
    f"{quote}{old}{quote}": f'"{new}"'
    for quote in "\"'"
    for old, new in {
        "zero": "zeros",
        "zeros": "zeros",
        "one": "ones",
        "ones": "ones",
        "uniform": "random_uniform",
        "normal": "random_normal",
        "orthogonal": "orthogonal",
        "identity": "identity",
        "lecun_uniform": "lecun_uniform",
        "glorot_uniform": "glorot_uniform",
        "glorot_normal": "glorot_normal",
        "he_uniform": "he_uniform",
        "he_normal": "he_normal",
    }.items()
}
_FORMATS = {
    f"{quote}{old}{quote}": f'"{new}"'
    for quote in "\"'"
    for old, new in {"th": "channels_first", "tf": "channels_last"}.items()
}

LAYERS: Mapping[str, ArgumentRename] = {
    "output_dim": _renamed("units"),
    "nb_filter": _renamed("filters"),
    "filter_length": _renamed("kernel_size"),
    "subsample_length": _renamed("strides"),
    "pool_length": _renamed("pool_size"),
    "stride": _renamed("strides"),
    "length": _renamed("size"),
    "init": ArgumentRename("kernel_initializer", "`kernel_initializer=` replaces it", by_literal=_INITIALIZER),
    "inner_init": ArgumentRename(
        "recurrent_initializer", "`recurrent_initializer=` replaces it", by_literal=_INITIALIZER
    ),
    "inner_activation": _renamed("recurrent_activation"),
    "forget_bias_init": _advice("`unit_forget_bias=True` is the default"),
    "bias": _renamed("use_bias"),
    "W_regularizer": _renamed("kernel_regularizer"),
    "b_regularizer": _renamed("bias_regularizer"),
    "U_regularizer": _renamed("recurrent_regularizer"),
    "W_constraint": _renamed("kernel_constraint"),
    "b_constraint": _renamed("bias_constraint"),
    "U_constraint": _renamed("recurrent_constraint"),
    "dropout_W": _renamed("dropout"),
    "dropout_U": _renamed("recurrent_dropout"),
    "border_mode": _renamed("padding"),
    "subsample": _renamed("strides"),
    "dim_ordering": ArgumentRename("data_format", "`data_format=` replaces it", by_literal=_FORMATS),
    "atrous_rate": _renamed("dilation_rate"),
    "nb_row": _advice("`kernel_size=(rows, columns)` replaces it"),
    "nb_col": _advice("`kernel_size=(rows, columns)` replaces it"),
    "p": _renamed("rate"),
    "sigma": _renamed("stddev"),
    "consume_less": _advice("the implementation is chosen automatically"),
    "batch_input_shape": _ON_INPUT,
    "batch_size": _ON_INPUT,
    "weights": _advice("call `set_weights` once the layer is built"),
    "input_length": _advice("the length is read from the input"),
    "mode": _advice("it was removed without a replacement"),
    "time_major": _advice("transpose the input"),
    "interpolation": _advice("use `keras.layers.Resizing`"),
    "dynamic": _advice("it was removed; compile with `run_eagerly=True`"),
}

OPTIMIZERS: Mapping[str, ArgumentRename] = {
    "lr": _renamed("learning_rate"),
    "schedule_decay": _advice("pass a schedule of `keras.optimizers.schedules` as the rate"),
}

FIT: Mapping[str, ArgumentRename] = {
    "nb_epoch": _renamed("epochs"),
    "nb_worker": _advice("pass `workers` to a `keras.utils.PyDataset`"),
    "workers": _advice("pass `workers` to a `keras.utils.PyDataset`"),
    "use_multiprocessing": _advice("pass `use_multiprocessing` to a `keras.utils.PyDataset`"),
    "max_queue_size": _advice("pass `max_queue_size` to a `keras.utils.PyDataset`"),
    "max_q_size": _advice("pass `max_queue_size` to a `keras.utils.PyDataset`"),
    "samples_per_epoch": _advice("`steps_per_epoch=` counts batches"),
    "nb_val_samples": _advice("`validation_steps=` counts batches"),
    "show_accuracy": _advice('pass `metrics=["accuracy"]` to `compile`'),
}

ARGUMENTS: Mapping[str, Mapping[str, ArgumentRename]] = {
    "keras.layers": LAYERS,
    "keras.optimizers": OPTIMIZERS,
    "keras.Model": FIT,
    "keras.callbacks.ModelCheckpoint": {"period": _advice("`save_freq=` counts batches")},
    "keras.callbacks.ReduceLROnPlateau": {"epsilon": _renamed("min_delta")},
}
"""By the call, the module, or the class whose method is called."""

_LAYER_MODULES = (
    *("core", "convolutional", "pooling", "recurrent", "embeddings", "normalization", "merge", "noise", "local"),
    *("advanced_activations", "wrappers", "convolutional_recurrent", "cudnn_recurrent"),
)
_GENERATORS = "use `fit`, which accepts generators: `epochs=`, and steps that count batches"
_TORCH_IMAGES = "use `keras.utils.image_dataset_from_directory` and augmentation layers"


def _at(module: str, name: str) -> NameRename:
    return NameRename(module, name, f"`from {module} import {name}`", is_safe=True)


NAMES: Mapping[str, NameRename] = {
    "keras.utils.np_utils": NameRename("keras", "utils", "`keras.utils.to_categorical` is in `keras.utils`"),
    "keras.utils.np_utils.to_categorical": _at("keras.utils", "to_categorical"),
    "keras.utils.np_utils.normalize": _at("keras.utils", "normalize"),
    "keras.utils.vis_utils.plot_model": _at("keras.utils", "plot_model"),
    "keras.utils.vis_utils.model_to_dot": _at("keras.utils", "model_to_dot"),
    "keras.utils.data_utils.get_file": _at("keras.utils", "get_file"),
    "keras.utils.data_utils.Sequence": _at("keras.utils", "Sequence"),
    "keras.utils.generic_utils.get_custom_objects": _at("keras.utils", "get_custom_objects"),
    "keras.utils.generic_utils.CustomObjectScope": _at("keras.utils", "CustomObjectScope"),
    "keras.utils.generic_utils.Progbar": _at("keras.utils", "Progbar"),
    "keras.utils.visualize_util.plot": NameRename("keras.utils", "plot_model", "`keras.utils.plot_model`"),
    "keras.utils.multi_gpu_model": NameRename(None, None, "use `keras.distribution`, or a strategy of TensorFlow"),
    "keras.engine.Layer": _at("keras.layers", "Layer"),
    "keras.engine.InputSpec": _at("keras.layers", "InputSpec"),
    "keras.engine.topology.Layer": _at("keras.layers", "Layer"),
    "keras.engine.topology.InputSpec": _at("keras.layers", "InputSpec"),
    "keras.engine.topology.Input": _at("keras.layers", "Input"),
    "keras.engine.training.Model": _at("keras.models", "Model"),
    "keras.engine.base_layer.Layer": _at("keras.layers", "Layer"),
    "keras.engine.base_layer.InputSpec": _at("keras.layers", "InputSpec"),
    "keras.layers.merge.merge": NameRename(None, None, "use `concatenate`, `add`, `multiply` … of `keras.layers`"),
    "keras.layers.merge": NameRename(None, None, "use `concatenate`, `add`, `multiply` … of `keras.layers`"),
    "keras.layers.Merge": NameRename(None, None, "use `Concatenate`, `Add`, `Multiply` … of `keras.layers`"),
    "keras.layers.CuDNNLSTM": NameRename("keras.layers", "LSTM", "`LSTM` uses cuDNN by itself"),
    "keras.layers.CuDNNGRU": NameRename("keras.layers", "GRU", "`GRU` uses cuDNN by itself"),
    "keras.layers.ThresholdedReLU": NameRename(None, None, "use `keras.layers.ReLU(threshold=…)`"),
    "keras.layers.experimental.preprocessing": NameRename(None, None, "these layers are in `keras.layers`"),
    "keras.objectives": NameRename("keras", "losses", "`keras.losses` replaces it"),
    "keras.preprocessing.image.ImageDataGenerator": NameRename(None, None, _TORCH_IMAGES),
    **{
        f"keras.preprocessing.image.{name}": _at("keras.utils", name)
        for name in ("array_to_img", "img_to_array", "load_img", "save_img")
    },
    "keras.preprocessing.text.Tokenizer": NameRename(None, None, "use `keras.layers.TextVectorization`"),
    "keras.preprocessing.text": NameRename(None, None, "use `keras.layers.TextVectorization`"),
    "keras.wrappers.scikit_learn.KerasClassifier": NameRename(
        "scikeras.wrappers", "KerasClassifier", "`KerasClassifier` of the package scikeras"
    ),
    "keras.wrappers.scikit_learn.KerasRegressor": NameRename(
        "scikeras.wrappers", "KerasRegressor", "`KerasRegressor` of the package scikeras"
    ),
    **{
        f"keras.optimizers.{name}": NameRename("keras.optimizers", new, f"`from keras.optimizers import {new}`")
        for name, new in {
            "adam": "Adam",
            "sgd": "SGD",
            "rmsprop": "RMSprop",
            "adagrad": "Adagrad",
            "adadelta": "Adadelta",
            "adamax": "Adamax",
            "nadam": "Nadam",
        }.items()
    },
    **{
        f"keras.{owner}.{name}": NameRename(None, None, advice)
        for owner in ("Model", "Sequential")
        for name, advice in {
            "fit_generator": _GENERATORS,
            "evaluate_generator": "use `evaluate`, which accepts generators",
            "predict_generator": "use `predict`, which accepts generators",
            "predict_classes": "use `predict(…).argmax(axis=-1)`, or `predict(…) > 0.5` for one output",
            "predict_proba": "use `predict`",
        }.items()
    },
}


def name_rename(module: str, name: str) -> NameRename | None:
    """The successor of a name of Keras; layers are all in `keras.layers` now."""
    package, _, rest = module.partition(".layers.")
    if package == "keras" and rest.partition(".")[0] in _LAYER_MODULES and f"{module}.{name}" not in NAMES:
        return _at("keras.layers", name)
    if module.startswith("keras.optimizer_v"):
        return _at("keras.optimizers", name)
    return NAMES.get(f"{module}.{name}")


def argument_rename(owner: str, keyword: str) -> ArgumentRename | None:
    """The successor of an argument of a layer, an optimizer, a callback or a method of a model."""
    if owner == "keras.layers.Embedding" and keyword == "output_dim":
        return None
    above = owner.rpartition(".")[0].replace("keras.Sequential", "keras.Model")
    return next((found for key in (owner, above) if (found := ARGUMENTS.get(key, {}).get(keyword))), None)
