"""A method reads an attribute of its object that nothing sets.

The method raises AttributeError, and often only after hours: where the epoch is evaluated, the weights are saved or
training is resumed. The attribute has another name in `__init__`, or the line that set it is gone.

A data set with all its splits, as `load_dataset` without `split` gives it, has no methods such as `train_test_split`.
Parsed options lack those that the parser does not declare: `args.output_dir` of a parser with `--outpath`. A Trainer
gives its metric function arrays of NumPy, which do not have the methods of tensors. `fit` of Keras returns a history,
which has none of the methods of a network.

## Bad

    class TwoPart(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(8, 16)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            return self.head(torch.relu(self.encoder(x)))

        def save(self, path):
            state = {"encoder": self.encoder.state_dict(), "head": self.top_part.state_dict()}  # <- unknown-attribute
            torch.save(state, path)

    small = TwoPart()
    small.save("first.pt")
    # raises AttributeError: 'TwoPart' object has no attribute 'top_part'

## Good

    class TwoPart(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Linear(8, 16)
            self.head = nn.Linear(16, 3)

        def forward(self, x):
            return self.head(torch.relu(self.encoder(x)))

        def save(self, path):
            state = {"encoder": self.encoder.state_dict(), "head": self.head.state_dict()}
            torch.save(state, path)

    small = TwoPart()
    small.save("first.pt")

## When it is fine

A buffer is registered under its name, and other code may give an object what it lacks:

    class TwoPart(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(8))
            self.layer = nn.Linear(8, 3)

        def forward(self, x):
            return self.layer(x * self.scale) + self.final_offset

    small = TwoPart()
    small.final_offset = 0.5
    small(torch.rand(2, 8))

lintrain reports nothing about a class that derives from one of another file, that sets attributes by `setattr` or
`__dict__`, or that a class of another script derives from.

## Fix

None: whether another name was meant, or the attribute is missing, is not in the text.

## References

Python documentation, `AttributeError`; PyTorch documentation, `torch.nn.Module`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import lightning_steps, numpy_predictions, own_attributes, undeclared_options
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, lazy_pattern, one_per_location

OF_ONE = lazy_pattern(r"\.(?:add_column|shard|to_csv|to_json|to_list|to_pandas|train_test_split)\(")
"""Methods that one split of a data set has, and all of them together have not."""
ASKS = lazy_pattern(r"\bisinstance\(|\bhasattr\(")


class UnknownAttribute(Rule):
    level = Level.ERROR
    keywords = "class|load_dataset|DatasetDict|add_argument|compute_metrics|keras & self|dataset|parse_args|predict|fit"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        is_option = next(undeclared_options.undeclared(source), None) is not None
        return bool(own_attributes.unset_attributes(source)) or source.contains(OF_ONE) or is_option

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._of_splits(pipeline))
        yield from one_per_location(map(self._report_unsaved, lightning_steps.unsaved_settings(pipeline)))
        yield from one_per_location(self._of_histories(pipeline))
        yield from one_per_location(map(self._report_array, numpy_predictions.tensor_methods(pipeline)))
        source = pipeline.source
        yield from map(self._report_option, undeclared_options.undeclared(source))
        for found in own_attributes.unset_attributes(source):
            if own_attributes.without_givers(source.path, found):
                yield self.finding(
                    found.location,
                    f"`{found.cls.name}` never sets `{found.name}`",
                    related=[Related(source.location(found.cls), "no method of this class sets it", "class")],
                    help=f"did you mean `self.{found.near}`?" if found.near else "set it in `__init__`",
                    subject=found.name,
                )

    def _report_array(self, found: numpy_predictions.TensorMethod) -> Finding:
        owner = f"`{found.owner}`" if len(found.owner) <= 24 else "this"
        return self.finding(
            found.location,
            f"{owner} is an array of NumPy, which has no {found.lacks}",
            why="A Trainer passes arrays of NumPy to its metric function, and not tensors. The first evaluation ends"
            " with an AttributeError or a TypeError.",
            help="use the functions of NumPy, with `axis`, or `torch.from_numpy(…)` first",
            subject="compute_metrics",
        )

    def _report_unsaved(self, found: lightning_steps.Unsaved) -> Finding:
        return self.finding(
            found.location,
            f"`self.hparams` is empty, so it has no `{found.name}`",
            why="Lightning does not save the arguments of `__init__` by itself. This line raises AttributeError.",
            help="call `self.save_hyperparameters()` in `__init__`",
            subject="hparams",
        )

    def _report_option(self, found: undeclared_options.Undeclared) -> Finding:
        return self.finding(
            found.location,
            f"the parser has no option `--{found.name}`, so `{found.code}` fails",
            related=[Related(found.declared, "the options are declared here", "options")],
            why="Parsed options have only the names that the parser declares. The run ends with an AttributeError when"
            " it reaches this line.",
            help=f"add `--{found.name}` to the parser, or read an option that it has",
            subject=found.name,
        )

    def _of_histories(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Methods of a network of Keras that are called on what its `fit` returned."""
        for misuse in pipeline.misuses if not pipeline.source.contains(ASKS) else ():
            fitted = misuse.value.origin
            if misuse.use == "method of a network":
                yield self.finding(
                    misuse.location,
                    f"this is the history that `fit` returned, which has no `{misuse.text}`",
                    related=[Related(fitted, "returned here", "fit")] if fitted else [],
                    why="`fit` returns the numbers of its epochs and changes the network itself. This call raises"
                    " AttributeError, after the whole training.",
                    help="give the result of `fit` another name: `history = model.fit(…)`",
                    subject=misuse.text,
                )

    def _of_splits(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Methods of one split that are called on all of them; not in code that asks what it has."""
        for misuse in pipeline.misuses if not pipeline.source.contains(ASKS) else ():
            if misuse.use == "method of one split":
                yield self.finding(
                    misuse.location,
                    f"a data set with all its splits has no `{misuse.text}`",
                    why="Without `split`, `load_dataset` returns a dictionary of the splits, which lacks this method of"
                    " a single one. The call raises AttributeError.",
                    help=f'choose one: `["train"].{misuse.text}(…)`',
                    subject=misuse.text,
                )
