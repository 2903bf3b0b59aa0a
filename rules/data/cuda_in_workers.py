"""A data set moves its rows to a GPU, and worker processes read it.

Workers are forked from the process that trains, and CUDA does not work in a forked process: the first batch raises
`Cannot re-initialize CUDA in forked subprocess`, or `initialization error`.

## Bad

    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.features = features.to("cuda")

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.features[index], targets[index]

    loader = DataLoader(Rows(), batch_size=2, num_workers=2)  # <- cuda-in-workers
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, index):
            return features[index], targets[index]

    net.to("cuda")
    loader = DataLoader(Rows(), batch_size=2, num_workers=2, pin_memory=True)
    net.to("cuda")
    for x, y in loader:
        x, y = x.to("cuda"), y.to("cuda")
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Without workers, rows may lie on the GPU:

    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.features = features.to("cuda")

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.features[index], targets[index]

    loader = DataLoader(Rows(), batch_size=2)

Processes that are started afresh have their own CUDA:

    class Rows(torch.utils.data.Dataset):
        def __init__(self):
            self.features = features.to("cuda")

        def __len__(self):
            return 8

        def __getitem__(self, index):
            return self.features[index], targets[index]

    loader = DataLoader(Rows(), batch_size=2, num_workers=2, multiprocessing_context="spawn")

## Fix

None: the rows may stay on the CPU, or the workers may go.

## References

PyTorch documentation, "Multi-process data loading" and "CUDA in multiprocessing".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, script_text
from lintrain.pipeline.values.python import Function, Instance, literal
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Verdict, lazy_pattern

NO_FORKS = lazy_pattern(r"spawn|forkserver|multiprocessing_context")
ON_GPU = lazy_pattern(r"cuda|gpu|device", re.IGNORECASE)


class CudaInWorkers(Rule):
    level = Level.ERROR
    keywords = "num_workers"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if script_text.mentions(pipeline, NO_FORKS):
            return
        for loader in pipeline.loaders:
            workers, rows = literal(loader.value("num_workers")), loader.dataset
            if not isinstance(workers, int) or workers < 1 or not isinstance(rows, Instance) or loader.origin is None:
                continue
            moved = next(_moved_rows(pipeline, rows), None)
            if moved is not None:
                yield self.finding(
                    loader.origin,
                    f"`{rows.cls.node.name}` has rows on the GPU, which workers cannot use",
                    help=f"leave out `{moved}` and move batches in the training loop, or set `num_workers=0`",
                )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        batch = evidence.batch("train_dataset")
        if evidence.device == "cpu" or batch is None or evidence.framework != "torch":
            return Verdict.inconclusive("a run on the CPU cannot show it")
        moved = [tensor for tensor in batch.tensors if tensor.device]
        # The probe reads loaders in the script's own process, where the rows do come.
        if moved:
            of_batch = f"{len(moved)} of {len(batch.tensors)} tensors of a batch"
            return Verdict.confirmed(f"{of_batch} are on {moved[0].device}")
        return Verdict.refuted("the batches of the loader are on the CPU")


def _moved_rows(pipeline: Pipeline, rows: Instance) -> Iterator[str]:
    """The code that moves what a data set returns: in `__getitem__`, or before, in an attribute that it reads."""
    found, made = rows.cls.lookup("__getitem__"), rows.cls.lookup("__init__")
    read = found[1] if found else None
    if not isinstance(read, Function):
        return
    for returned in expressions.returned_by(pipeline, read):
        yield from (each.code for each in returned.parts_outside_indexes() if _is_moved_to_gpu(pipeline, each))
    used = set(script_text.attributes_used(read))
    of_init = made[1] if made and isinstance(made[1], Function) else None
    for kept in expressions.assignments_in(pipeline, of_init) if of_init else ():
        (target, *others) = kept.targets
        is_read = target.kind is expressions.Kind.ATTRIBUTE and target.name in used and not others
        if is_read and _is_moved_to_gpu(pipeline, kept.value):
            yield kept.value.code


def _is_moved_to_gpu(pipeline: Pipeline, moved: expressions.Expression) -> bool:
    """`x.cuda()` or `x.to(device)`, where a device may be a GPU."""
    if moved.called_on is None or moved.called_name not in {"cuda", "to"}:
        return False
    if moved.called_name == "cuda":
        return True
    device = moved.arguments[0] if moved.arguments else None
    if device is None or not ON_GPU.search(device.code):
        return False
    is_given = device.kind is expressions.Kind.NAME and script_text.is_free(pipeline, device.name)
    return is_given or script_text.mentions(pipeline, r"\bcuda\b")
