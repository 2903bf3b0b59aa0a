"""What tells causes apart by the code around a failing call: its blocks, what made its values, and its modules."""

from __future__ import annotations

import re

from lintrain.verdicts.endings.kinds import Answer, Raised

NO_GRADIENTS = ("no_grad", "inference_mode", "set_grad_enabled(False)")
LIBRARIES = r"(?:accelerate|datasets|evaluate|keras|lightning|numpy|pandas|peft|sklearn|torch|transformers|trl)\."
LINE = re.compile(r"(?P<line>\d+): (?P<code>.*)")


def gradients_disabled(raised: Raised) -> Answer:
    """The failing line, or the line that made the loss, is in a block without gradients."""
    if not raised.was_measured and not raised.failure.around:
        return None
    head = next((head for head in raised.failure.around if any(text in head for text in NO_GRADIENTS)), "")
    return bool(head) and f"the line is in `{head}`"


def all_weights_frozen(raised: Raised) -> Answer:
    """None of the weights of the modules in the script requires a gradient."""
    modules = [value for value in raised.failure.given if value.weights]
    if gradients_disabled(raised):
        return False
    if not modules:
        return None
    trainable = sum(value.trainable or 0 for value in modules)
    weights = sum(value.weights or 0 for value in modules)
    return not trainable and f"none of {weights} weights of `{modules[0].name}` is trainable"


def loss_cut_off(raised: Raised) -> Answer:
    """There are trainable weights, and gradients are enabled: the loss lost its graph on the way."""
    modules = [value for value in raised.failure.given if value.weights]
    if gradients_disabled(raised):
        return False
    if not any(value.trainable for value in modules):
        return False if modules else None
    loss = next((value for value in raised.written_as("tensor") if value.requires_grad is False), None)
    made = LINE.fullmatch(loss.origin) if loss else None
    return f"`{made['code']}` in line {made['line']}" if made else True


def state_carried_over(raised: Raised) -> Answer:
    """A value that the loop passes from one iteration to the next has a graph."""
    if not raised.was_measured:
        return None
    kept = next((value for value in raised.failure.given if value.kind == "kept"), None)
    return kept is not None and f"`{kept.name}` comes from the iteration before"


def one_graph_twice(raised: Raised) -> Answer:
    """Nothing is passed from one iteration to the next."""
    return None if not raised.was_measured else not state_carried_over(raised)


def activation_changed(raised: Raised) -> Answer:
    """The changed tensor is a result, not a weight that an optimizer steps."""
    return not re.match(r"AsStrided|T$|TBackward|Transpose", raised.groups["op"])


def never_had_parameters(raised: Raised) -> Answer:
    """A module without weights, in the user's line or in the optimizer."""
    if not raised.was_measured:
        return None
    return not parameters_used_up(raised)


def parameters_used_up(raised: Raised) -> Answer:
    """The optimizer is given a name that was assigned before, not a new call."""
    if not raised.was_measured:
        return None
    made = next((value for value in raised.written if ".parameters()" in value.origin), None)
    is_iterator = made is not None and made.type == "generator"
    return is_iterator and f"`{made.name}` is the iterator of line {made.origin.partition(':')[0]}" if made else False


def length_in_loader(raised: Raised) -> Answer:
    """The length of a data set is asked for by a loader or a Trainer, not by a metric."""
    return bool(re.search(r"data|sampler|trainer", raised.failure.raised_in)) or None


def loss_is_an_attribute(raised: Raised) -> Answer:
    """The value is the attribute `loss` of a model's output."""
    if ".loss.backward" in raised.failure.code:
        return True
    made = [value.origin for value in raised.written if value.kind == "nothing"]
    return any(re.search(r"\.loss\b|\[['\"]loss['\"]\]", origin) for origin in made)


def gradient_never_computed(raised: Raised) -> Answer:
    """The value that is None is the gradient of a tensor."""
    read = re.search(r"\w[\w.]*\.grad\b", raised.failure.code)
    empty = [value.name for value in raised.written_as("nothing")]
    if read is None or (empty and not any(name.endswith(".grad") for name in empty)):
        return False
    return f"`{read[0]}` is None"


def none_from_a_call(raised: Raised) -> Answer:
    """None came from elsewhere: the statement that made it is named."""
    if loss_is_an_attribute(raised) or gradient_never_computed(raised):
        return False
    value = next((value for value in raised.written if value.kind == "nothing" and value.origin), None)
    made = LINE.fullmatch(value.origin) if value else None
    return f"`{made['code']}` in line {made['line']}" if made else True


def written_values(raised: Raised) -> Answer:
    """True in any case, with the values of the user's line."""
    shown = [value for value in raised.written if value.kind not in ("object", "number", "module")][:3]
    is_mixed = any(value.is_on_gpu for value in shown)
    return ", ".join(f"`{value.name}` is {value.summary_with(names_cpu=is_mixed)}" for value in shown) or True


def chat_as_ids(raised: Raised) -> Answer:
    """What `apply_chat_template` returned is used as token ids, and is a dictionary."""
    found = [each for each in raised.written if each.type == "BatchEncoding"]
    chats = [each for each in found if "apply_chat_template" in f"{each.origin} {raised.failure.code}"]
    is_about = "BatchEncoding" in raised.failure.message or raised.failure.raised_in.endswith("__getattr__")
    return bool(chats) and is_about and f"`{chats[0].name}` is {chats[0].summary}"


def pair_in_line(raised: Raised) -> Answer:
    """The first argument of a call for training or evaluation is a pair; a text alone may show it."""
    if any(value.type == "tuple" for value in raised.written) or re.search(r"\.\w+\(\s*\(", raised.failure.code):
        return written_values(raised)
    return False if raised.failure.code else None


def made_of_list(raised: Raised) -> Answer:
    """The user's line makes a tensor or an array of something."""
    makes = re.search(r"\b(?:tensor|as_tensor|\w*Tensor|array|asarray)\(", raised.failure.code)
    return (written_values(raised) if makes else False) if raised.failure.code else None


def shape_in_line(raised: Raised) -> Answer:
    """The user's line calls a shape."""
    return bool(re.search(r"\bshape\s*\(", raised.failure.code)) if raised.failure.code else None


def own_line(raised: Raised) -> Answer:
    """The error is raised by the user's line itself, not by a library that it calls."""
    return _is_own(raised) and written_values(raised)


def measured_in_own_line(raised: Raised) -> Answer:
    """The user's line itself raises the error; a text alone does not show whether it does."""
    return _is_own(raised) if raised.was_measured or raised.failure.raised_in else None


def reads_command_line(raised: Raised) -> Answer:
    """The user's line reads `sys.argv`."""
    return _is_own(raised) and re.search(r"\bargv\b", raised.failure.code) is not None


def _is_own(raised: Raised) -> bool:
    return not re.match(LIBRARIES, raised.failure.raised_in)


def dictionary_unpacked(raised: Raised) -> Answer:
    """The value of an assignment to several names is a dictionary."""
    if not raised.was_measured:
        return None
    found = next(raised.written_as("dictionary"), None)
    return found is not None and _is_own(raised) and f"`{found.name}` is {found.summary}"


def own_unpacking(raised: Raised) -> Answer:
    """Values are unpacked in the user's line, and they are no dictionary."""
    return _is_own(raised) and not dictionary_unpacked(raised) and written_values(raised)


def key_of_a_dictionary(raised: Raised) -> Answer:
    """A dictionary of the user's line lacks the key."""
    if not raised.was_measured:
        return None if _is_own(raised) else False
    found = next(raised.written_as("dictionary"), None)
    if not _is_own(raised) or found is None:
        return None if _is_own(raised) else False
    return raised.groups["key"] not in found.names and f"`{found.name}` has {', '.join(found.names)}"


def own_call(raised: Raised) -> Answer:
    """The class is one of a library of training, and is called by its name."""
    return not raised.is_inside("class ") or None


def near_file(raised: Raised) -> Answer:
    """A file of nearly this name is in the same folder."""
    found = next((value for value in raised.failure.given if value.kind == "file"), None)
    if found is None:
        return None if not raised.failure.given and not raised.failure.raised_in else False
    return f"`{found.text}` exists"


def no_near_file(raised: Raised) -> Answer:
    """No file of nearly this name is there."""
    return not near_file(raised)


ROOM = re.compile(r"(?:total )?capacity of (?P<all>[\d.]+ \w+) of which (?P<free>[\d.]+ \w+) is free")
OLDER_ROOM = re.compile(r"(?P<all>[\d.]+ \w+) total capacity;.*?(?P<free>[\d.]+ \w+) free")
HELD = re.compile(r"(?P<held>[\d.]+ \w+) is allocated by PyTorch|; (?P<older>[\d.]+ \w+) already allocated")


def memory_left(raised: Raised) -> Answer:
    """The sizes in the message of torch, which differs between its versions."""
    message = raised.failure.message
    room, held = ROOM.search(message) or OLDER_ROOM.search(message), HELD.search(message)
    free = f", {room['free']} of {room['all']} free" if room else ""
    own = f", {held['held'] or held['older']} held by the script's tensors" if held else ""
    return f"{raised.groups['size']} asked for{free}{own}"


def _is_in(raised: Raised, *packages: str) -> bool:
    frames = " ".join(raised.failure.frames)
    return any(raised.failure.raised_in.startswith(f"{name}.") or f"{name}/" in frames for name in packages)


def in_keras(raised: Raised) -> Answer:
    """Keras computes the loss."""
    return _is_in(raised, "keras", "tensorflow", "tf_keras")


def in_trl(raised: Raised) -> Answer:
    """A trainer of TRL reads the rows."""
    return _is_in(raised, "trl") or "DPO" in raised.failure.code or "Reward" in raised.failure.code


def in_sklearn(raised: Raised) -> Answer:
    """An estimator of scikit-learn converts its input."""
    return _is_in(raised, "sklearn") and written_values(raised)


def not_in_sklearn(raised: Raised) -> Answer:
    """The user's own code converts a value, or a library other than scikit-learn."""
    return not _is_in(raised, "sklearn") and written_values(raised)


def in_a_collator(raised: Raised) -> Answer:
    """A collator of transformers makes the batch."""
    return "data_collator" in raised.failure.raised_in


def in_a_library_model(raised: Raised) -> Answer:
    """A model of transformers expands a buffer."""
    return "transformers.models" in raised.failure.raised_in


def splits_given(raised: Raised) -> Answer:
    """The splits that there are."""
    if raised.groups["splits"]:
        return f"there are {raised.groups['splits']}"
    named = next((value for value in raised.failure.given if value.names and value.kind == "dictionary"), None)
    return f"there are {', '.join(named.names)}" if named else True


def metric_in_line(raised: Raised) -> Answer:
    """The value is a metric of evaluate."""
    return next((f"`{value.name}` is a metric" for value in raised.written_as("metric")), False)


def array_in_a_metric(raised: Raised) -> Answer:
    """The array is made of the predictions that a Trainer gives a metric."""
    names = " ".join(value.name for value in raised.failure.given)
    return "predictions" in names or "predictions" in raised.failure.code


def own_array(raised: Raised) -> Answer:
    """The array is not made of a Trainer's predictions."""
    return not array_in_a_metric(raised) and written_values(raised)
