"""lintrain: a linter for machine-learning training scripts.

Everything that a rule file needs is importable from here, and loaded only when asked for.
"""

from importlib import import_module  # loaded with Python: `python -m` looks for any other in the working folder

TYPE_CHECKING = False  # that of `typing`, whose import takes longer than to answer an unchanged tree

if TYPE_CHECKING:
    from lintrain.analysis.accumulation import LOSS_METHODS as LOSS_METHODS
    from lintrain.analysis.accumulation import Accumulation as Accumulation
    from lintrain.analysis.accumulation import accumulation_of as accumulation_of
    from lintrain.analysis.accumulation import averages_each_batch as averages_each_batch
    from lintrain.analysis.accumulation import counts_labels as counts_labels
    from lintrain.analysis.accumulation import is_since as is_since
    from lintrain.analysis.accumulation import says_who_divides as says_who_divides
    from lintrain.analysis.accumulation import smooths_labels as smooths_labels
    from lintrain.analysis.accumulation import verdict_on_accumulation as verdict_on_accumulation
    from lintrain.analysis.checkpoints import entries_read as entries_read
    from lintrain.analysis.checkpoints import is_read as is_read
    from lintrain.analysis.checkpoints import loaded_from_file as loaded_from_file
    from lintrain.analysis.collation import Collation as Collation
    from lintrain.analysis.collation import OwnBatch as OwnBatch
    from lintrain.analysis.collation import collations as collations
    from lintrain.analysis.collation import masks_words as masks_words
    from lintrain.analysis.collation import own_batches as own_batches
    from lintrain.analysis.collation import tokenizer_of as tokenizer_of
    from lintrain.analysis.given import LABEL_COLUMNS as LABEL_COLUMNS
    from lintrain.analysis.given import MODEL_INPUTS as MODEL_INPUTS
    from lintrain.analysis.given import OWN_LOADING as OWN_LOADING
    from lintrain.analysis.given import PLAIN_TRAINERS as PLAIN_TRAINERS
    from lintrain.analysis.given import Given as Given
    from lintrain.analysis.given import collates_plainly as collates_plainly
    from lintrain.analysis.given import given_datasets as given_datasets
    from lintrain.analysis.given import has_own_model as has_own_model
    from lintrain.analysis.given import has_tokenized_copy as has_tokenized_copy
    from lintrain.analysis.given import is_default_collator as is_default_collator
    from lintrain.analysis.given import is_read_as_text as is_read_as_text
    from lintrain.analysis.given import is_text as is_text
    from lintrain.analysis.given import is_visible as is_visible
    from lintrain.analysis.given import last_map as last_map
    from lintrain.analysis.given import origin_of as origin_of
    from lintrain.analysis.given import text_columns as text_columns
    from lintrain.analysis.given import tokenized_copies as tokenized_copies
    from lintrain.analysis.given import tokenizer_name as tokenizer_name
    from lintrain.analysis.handing_over import do_overlap as do_overlap
    from lintrain.analysis.handing_over import parts_shared as parts_shared
    from lintrain.analysis.iterations import always_in_order as always_in_order
    from lintrain.analysis.iterations import clippings as clippings
    from lintrain.analysis.iterations import contradict as contradict
    from lintrain.analysis.iterations import divisor_of as divisor_of
    from lintrain.analysis.iterations import going_back as going_back
    from lintrain.analysis.iterations import hides_gradients as hides_gradients
    from lintrain.analysis.iterations import is_of as is_of
    from lintrain.analysis.iterations import is_switched_off as is_switched_off
    from lintrain.analysis.iterations import launchers_of as launchers_of
    from lintrain.analysis.iterations import swap_of as swap_of
    from lintrain.analysis.keras import KerasLoss as KerasLoss
    from lintrain.analysis.keras import activation_of as activation_of
    from lintrain.analysis.keras import backbones as backbones
    from lintrain.analysis.keras import keras_name as keras_name
    from lintrain.analysis.keras import loss_of as loss_of
    from lintrain.analysis.keras import units_of as units_of
    from lintrain.analysis.keywords import GivenKeyword as GivenKeyword
    from lintrain.analysis.keywords import config_of as config_of
    from lintrain.analysis.keywords import demands_version as demands_version
    from lintrain.analysis.keywords import given_keywords as given_keywords
    from lintrain.analysis.keywords import moving as moving
    from lintrain.analysis.keywords import taker_of as taker_of
    from lintrain.analysis.keywords import takes_by_name as takes_by_name
    from lintrain.analysis.keywords import verdict_on_keyword as verdict_on_keyword
    from lintrain.analysis.leaks import fitted_before_split as fitted_before_split
    from lintrain.analysis.lightning import Configured as Configured
    from lintrain.analysis.lightning import configured_schedules as configured_schedules
    from lintrain.analysis.lightning import is_lightning_module as is_lightning_module
    from lintrain.analysis.lightning_logs import Logged as Logged
    from lintrain.analysis.lightning_logs import logged_values as logged_values
    from lintrain.analysis.loading import STREAM as STREAM
    from lintrain.analysis.loading import Feeding as Feeding
    from lintrain.analysis.loading import expects_error as expects_error
    from lintrain.analysis.loading import feedings as feedings
    from lintrain.analysis.loading import is_deliberate as is_deliberate
    from lintrain.analysis.loading import is_map_style as is_map_style
    from lintrain.analysis.loading import is_stream as is_stream
    from lintrain.analysis.loop_verdicts import weights_outside as weights_outside
    from lintrain.analysis.losses import callee_of as callee_of
    from lintrain.analysis.losses import losses_called as losses_called
    from lintrain.analysis.losses import operations_before as operations_before
    from lintrain.analysis.losses import tensors_given as tensors_given
    from lintrain.analysis.mentions import every_node as every_node
    from lintrain.analysis.mentions import mentions as mentions
    from lintrain.analysis.mentions import nodes_of_kind as nodes_of_kind
    from lintrain.analysis.mentions import runs_by_launcher as runs_by_launcher
    from lintrain.analysis.mentions import speaks_of as speaks_of
    from lintrain.analysis.metric_verdicts import BINARY_RAISES as BINARY_RAISES
    from lintrain.analysis.metric_verdicts import SCORES_RAISE as SCORES_RAISE
    from lintrain.analysis.metric_verdicts import metric_at as metric_at
    from lintrain.analysis.metric_verdicts import metrics_confirmed as metrics_confirmed
    from lintrain.analysis.metric_verdicts import on_classes as on_classes
    from lintrain.analysis.metric_verdicts import on_scores as on_scores
    from lintrain.analysis.metric_verdicts import scored_ignored as scored_ignored
    from lintrain.analysis.phases import TrainingLoop as TrainingLoop
    from lintrain.analysis.phases import always_with as always_with
    from lintrain.analysis.phases import callee_text as callee_text
    from lintrain.analysis.phases import covers as covers
    from lintrain.analysis.phases import evaluates as evaluates
    from lintrain.analysis.phases import evaluation_loop as evaluation_loop
    from lintrain.analysis.phases import events_in as events_in
    from lintrain.analysis.phases import is_certain_step as is_certain_step
    from lintrain.analysis.phases import is_left_after as is_left_after
    from lintrain.analysis.phases import made_here as made_here
    from lintrain.analysis.phases import may_hide as may_hide
    from lintrain.analysis.phases import text_of_event as text_of_event
    from lintrain.analysis.phases import touches as touches
    from lintrain.analysis.phases import training_loops as training_loops
    from lintrain.analysis.phases import trains_by_hand as trains_by_hand
    from lintrain.analysis.phases import words_of as words_of
    from lintrain.analysis.prescreen import may_give_what_is_refused as may_give_what_is_refused
    from lintrain.analysis.prescreen import may_take_what_is_gone as may_take_what_is_gone
    from lintrain.analysis.raggedness import ragged_at as ragged_at
    from lintrain.analysis.raggedness import ragged_copy_at as ragged_copy_at
    from lintrain.analysis.schedule import Strategy as Strategy
    from lintrain.analysis.schedule import best_metric as best_metric
    from lintrain.analysis.schedule import evaluation_strategy as evaluation_strategy
    from lintrain.analysis.schedule import is_evaluated as is_evaluated
    from lintrain.analysis.schedule import is_given_in_call as is_given_in_call
    from lintrain.analysis.schedule import is_left_out as is_left_out
    from lintrain.analysis.schedule import keeps_the_best as keeps_the_best
    from lintrain.analysis.schedule import saving_strategy as saving_strategy
    from lintrain.analysis.schedules import Pace as Pace
    from lintrain.analysis.schedules import Unit as Unit
    from lintrain.analysis.schedules import counts_epochs as counts_epochs
    from lintrain.analysis.schedules import is_untold as is_untold
    from lintrain.analysis.schedules import length_of as length_of
    from lintrain.analysis.schedules import pace_of as pace_of
    from lintrain.analysis.schedules import pace_of_updates as pace_of_updates
    from lintrain.analysis.schedules import steps_of as steps_of
    from lintrain.analysis.schedules import unit_of as unit_of
    from lintrain.analysis.swaps import swapping_views as swapping_views
    from lintrain.analysis.token_feeds import TokenFeed as TokenFeed
    from lintrain.analysis.token_feeds import token_feeds as token_feeds
    from lintrain.analysis.token_positions import learned_positions as learned_positions
    from lintrain.analysis.token_positions import may_be_short as may_be_short
    from lintrain.analysis.token_positions import pads_take_positions as pads_take_positions
    from lintrain.analysis.tokens import certain_facts as certain_facts
    from lintrain.analysis.tokens import is_certain_setting as is_certain_setting
    from lintrain.analysis.tokens import is_handed_over as is_handed_over
    from lintrain.analysis.tokens import lacks_pad as lacks_pad
    from lintrain.analysis.tokens import opening_of as opening_of
    from lintrain.analysis.tokens import padding_by_eos as padding_by_eos
    from lintrain.analysis.tokens import parts_of as parts_of
    from lintrain.analysis.tokens import put_into_data as put_into_data
    from lintrain.analysis.tokens import written_texts as written_texts
    from lintrain.analysis.trainers import generates_nothing as generates_nothing
    from lintrain.analysis.trainers import head_of as head_of
    from lintrain.analysis.trainers import location_in as location_in
    from lintrain.analysis.trainers import nodes_of as nodes_of
    from lintrain.analysis.trainers import own_class as own_class
    from lintrain.analysis.trainers import own_function as own_function
    from lintrain.analysis.trainers import own_method as own_method
    from lintrain.analysis.trainers import passes_keywords_on as passes_keywords_on
    from lintrain.analysis.trainers import reads as reads
    from lintrain.analysis.trainers import returns_of as returns_of
    from lintrain.analysis.trainers import says as says
    from lintrain.analysis.trainers import stays_in_script as stays_in_script
    from lintrain.analysis.trainers import takes as takes
    from lintrain.analysis.tuning import Format as Format
    from lintrain.analysis.tuning import Training as Training
    from lintrain.analysis.tuning import adapter_argument as adapter_argument
    from lintrain.analysis.tuning import assignment_at as assignment_at
    from lintrain.analysis.tuning import changes_before as changes_before
    from lintrain.analysis.tuning import facts_of as facts_of
    from lintrain.analysis.tuning import is_left_alone as is_left_alone
    from lintrain.analysis.tuning import is_tuned_whole as is_tuned_whole
    from lintrain.analysis.tuning import may_adapt as may_adapt
    from lintrain.analysis.tuning import name_in_enum as name_in_enum
    from lintrain.analysis.tuning import quantization_of as quantization_of
    from lintrain.analysis.tuning import scales_gradients as scales_gradients
    from lintrain.analysis.tuning import trainings as trainings
    from lintrain.analysis.tuning import weights_format as weights_format
    from lintrain.api.probing import probe as probe
    from lintrain.api.report import MistakesError as MistakesError
    from lintrain.api.report import Report as Report
    from lintrain.evidence.run import BackwardEvidence as BackwardEvidence
    from lintrain.evidence.run import CheckpointEvidence as CheckpointEvidence
    from lintrain.evidence.run import Evidence as Evidence
    from lintrain.evidence.run import Failure as Failure
    from lintrain.evidence.run import ForwardEvidence as ForwardEvidence
    from lintrain.evidence.run import LoopEvidence as LoopEvidence
    from lintrain.evidence.run import LossEvidence as LossEvidence
    from lintrain.evidence.run import MadeLoader as MadeLoader
    from lintrain.evidence.run import MemoryEvidence as MemoryEvidence
    from lintrain.evidence.run import ModelEvidence as ModelEvidence
    from lintrain.evidence.run import MovedModel as MovedModel
    from lintrain.evidence.run import ObjectEvidence as ObjectEvidence
    from lintrain.evidence.run import OverfitEvidence as OverfitEvidence
    from lintrain.evidence.run import TargetAlignment as TargetAlignment
    from lintrain.interpreter.call import Argument as Argument
    from lintrain.interpreter.modules import ignores_mode as ignores_mode
    from lintrain.interpreter.modules import is_module as is_module
    from lintrain.interpreter.modules import modules_in as modules_in
    from lintrain.interpreter.modules import overlap as overlap
    from lintrain.interpreter.replacing import has_parameters as has_parameters
    from lintrain.knowledge.api import Known as Known
    from lintrain.knowledge.api import covered_names as covered_names
    from lintrain.knowledge.api import default_value as default_value
    from lintrain.knowledge.api import keyword_state as keyword_state
    from lintrain.knowledge.api import name_state as name_state
    from lintrain.knowledge.api import signature as signature
    from lintrain.knowledge.renames import ArgumentRename as ArgumentRename
    from lintrain.knowledge.renames import NameRename as NameRename
    from lintrain.knowledge.succession import takes_calls as takes_calls
    from lintrain.knowledge.successors import argument_rename as argument_rename
    from lintrain.knowledge.successors import name_rename as name_rename
    from lintrain.knowledge.target import Target as Target
    from lintrain.knowledge.target import Targets as Targets
    from lintrain.knowledge.versions import exactly as exactly
    from lintrain.model.finding import Finding as Finding
    from lintrain.model.finding import Related as Related
    from lintrain.model.finding import one_per_location as one_per_location
    from lintrain.model.fixes import AddArgument as AddArgument
    from lintrain.model.fixes import AddImport as AddImport
    from lintrain.model.fixes import AddParameter as AddParameter
    from lintrain.model.fixes import Fix as Fix
    from lintrain.model.fixes import InsertAfter as InsertAfter
    from lintrain.model.fixes import InsertAtTop as InsertAtTop
    from lintrain.model.fixes import InsertBefore as InsertBefore
    from lintrain.model.fixes import MoveAfter as MoveAfter
    from lintrain.model.fixes import MoveBefore as MoveBefore
    from lintrain.model.fixes import RemoveArgument as RemoveArgument
    from lintrain.model.fixes import RemoveImport as RemoveImport
    from lintrain.model.fixes import RenameArgument as RenameArgument
    from lintrain.model.fixes import Replace as Replace
    from lintrain.model.fixes import WrapBody as WrapBody
    from lintrain.model.fixes import WrapInWith as WrapInWith
    from lintrain.model.level import Level as Level
    from lintrain.model.location import Location as Location
    from lintrain.rule import Rule as Rule
    from lintrain.model.verdict import Outcome as Outcome
    from lintrain.model.verdict import Verdict as Verdict
    from lintrain.model.verdict import confirmed as confirmed
    from lintrain.model.verdict import inconclusive as inconclusive
    from lintrain.model.verdict import refuted as refuted
    from lintrain.pipeline.blocks import block_of as block_of
    from lintrain.pipeline.blocks import is_one_scope as is_one_scope
    from lintrain.pipeline.blocks import loop_around as loop_around
    from lintrain.pipeline.blocks import may_move as may_move
    from lintrain.pipeline.blocks import scope_of as scope_of
    from lintrain.pipeline.blocks import statement_at as statement_at
    from lintrain.pipeline.blocks import uses_of as uses_of
    from lintrain.pipeline.callers import handed_on as handed_on
    from lintrain.pipeline.callers import spread_names as spread_names
    from lintrain.pipeline.callers import way_out as way_out
    from lintrain.pipeline.events import Act as Act
    from lintrain.pipeline.events import Condition as Condition
    from lintrain.pipeline.events import Event as Event
    from lintrain.pipeline.events import Loop as Loop
    from lintrain.pipeline.record import Arithmetic as Arithmetic
    from lintrain.pipeline.record import Binding as Binding
    from lintrain.pipeline.record import Discard as Discard
    from lintrain.pipeline.record import KeptModules as KeptModules
    from lintrain.pipeline.record import LibraryCall as LibraryCall
    from lintrain.pipeline.record import LibraryName as LibraryName
    from lintrain.pipeline.record import Misuse as Misuse
    from lintrain.pipeline.record import Pipeline as Pipeline
    from lintrain.pipeline.record import TokenTest as TokenTest
    from lintrain.pipeline.rows import Sharing as Sharing
    from lintrain.pipeline.rows import is_in_order as is_in_order
    from lintrain.pipeline.rows import is_shuffled as is_shuffled
    from lintrain.pipeline.rows import keeps_source_order as keeps_source_order
    from lintrain.pipeline.rows import rows_of as rows_of
    from lintrain.pipeline.rows import sharing as sharing
    from lintrain.pipeline.shifts import are_next_tokens as are_next_tokens
    from lintrain.pipeline.shifts import are_same_tokens as are_same_tokens
    from lintrain.pipeline.shifts import keeps_labels as keeps_labels
    from lintrain.pipeline.shifts import shifts_labels as shifts_labels
    from lintrain.pipeline.shifts import tokens_of as tokens_of
    from lintrain.pipeline.values.counts import Count as Count
    from lintrain.pipeline.values.cuts import Cut as Cut
    from lintrain.pipeline.values.data import Collator as Collator
    from lintrain.pipeline.values.data import Column as Column
    from lintrain.pipeline.values.data import ColumnValues as ColumnValues
    from lintrain.pipeline.values.data import Dataset as Dataset
    from lintrain.pipeline.values.data import DatasetDict as DatasetDict
    from lintrain.pipeline.values.data import Encoding as Encoding
    from lintrain.pipeline.values.data import Kind as Kind
    from lintrain.pipeline.values.data import Padding as Padding
    from lintrain.pipeline.values.data import Rows as Rows
    from lintrain.pipeline.values.data import Slices as Slices
    from lintrain.pipeline.values.data import Step as Step
    from lintrain.pipeline.values.data import Tokenizer as Tokenizer
    from lintrain.pipeline.values.keras import KerasLabels as KerasLabels
    from lintrain.pipeline.values.keras import LabelledBatches as LabelledBatches
    from lintrain.pipeline.values.loading import Batch as Batch
    from lintrain.pipeline.values.loading import Loader as Loader
    from lintrain.pipeline.values.loading import TorchDataset as TorchDataset
    from lintrain.pipeline.values.model import Config as Config
    from lintrain.pipeline.values.model import Launcher as Launcher
    from lintrain.pipeline.values.model import Layer as Layer
    from lintrain.pipeline.values.model import Model as Model
    from lintrain.pipeline.values.model import ModelOutput as ModelOutput
    from lintrain.pipeline.values.model import ModelPart as ModelPart
    from lintrain.pipeline.values.model import Module as Module
    from lintrain.pipeline.values.model import Network as Network
    from lintrain.pipeline.values.model import Optimizer as Optimizer
    from lintrain.pipeline.values.model import Parameter as Parameter
    from lintrain.pipeline.values.model import Role as Role
    from lintrain.pipeline.values.model import Scaler as Scaler
    from lintrain.pipeline.values.model import Scheduler as Scheduler
    from lintrain.pipeline.values.model import Task as Task
    from lintrain.pipeline.values.model import Tensor as Tensor
    from lintrain.pipeline.values.python import ABSENT as ABSENT
    from lintrain.pipeline.values.python import Absent as Absent
    from lintrain.pipeline.values.python import Class as Class
    from lintrain.pipeline.values.python import Constant as Constant
    from lintrain.pipeline.values.python import Either as Either
    from lintrain.pipeline.values.python import Function as Function
    from lintrain.pipeline.values.python import Instance as Instance
    from lintrain.pipeline.values.python import Library as Library
    from lintrain.pipeline.values.python import LibraryObject as LibraryObject
    from lintrain.pipeline.values.python import Mapping as Mapping
    from lintrain.pipeline.values.python import Sequence as Sequence
    from lintrain.pipeline.values.python import Unknown as Unknown
    from lintrain.pipeline.values.python import Value as Value
    from lintrain.pipeline.values.python import is_missing as is_missing
    from lintrain.pipeline.values.python import is_true as is_true
    from lintrain.pipeline.values.python import literal as literal
    from lintrain.pipeline.values.python import number_of as number_of
    from lintrain.pipeline.values.python import options_of as options_of
    from lintrain.pipeline.values.python import text_of as text_of
    from lintrain.pipeline.values.tensors import CLASSES as CLASSES
    from lintrain.pipeline.values.tensors import Derived as Derived
    from lintrain.pipeline.values.tensors import Operation as Operation
    from lintrain.pipeline.values.tensors import Shape as Shape
    from lintrain.pipeline.values.tensors import root_of as root_of
    from lintrain.pipeline.values.tokens import SpecialToken as SpecialToken
    from lintrain.pipeline.values.tokens import Templated as Templated
    from lintrain.pipeline.values.tokens import Text as Text
    from lintrain.pipeline.values.tokens import TokenSetting as TokenSetting
    from lintrain.pipeline.values.training import KerasRun as KerasRun
    from lintrain.pipeline.values.training import LossCall as LossCall
    from lintrain.pipeline.values.training import Metric as Metric
    from lintrain.pipeline.values.training import MetricCall as MetricCall
    from lintrain.pipeline.values.training import ModelCall as ModelCall
    from lintrain.pipeline.values.training import Predictions as Predictions
    from lintrain.pipeline.values.training import TrainerRun as TrainerRun
    from lintrain.pipeline.values.training import TrainingArguments as TrainingArguments
    from lintrain.runtime.child.training_run import training_run as training_run
    from lintrain.source.calls import argument_in as argument_in
    from lintrain.source.calls import callee_in as callee_in
    from lintrain.source.parsing import expression_of as expression_of
    from lintrain.source.source import Source as Source
    from lintrain.startup.lazy_pattern import lazy_pattern as lazy_pattern
    from lintrain.text.sizes import show_size as show_size

__version__ = "0.1.0"

_WORDS_OF = {
    "lintrain.evidence.run": (
        "BackwardEvidence CheckpointEvidence Evidence Failure ForwardEvidence LoopEvidence LossEvidence MadeLoader "
        "MemoryEvidence ModelEvidence MovedModel ObjectEvidence OverfitEvidence TargetAlignment"
    ),
    "lintrain.analysis.loop_verdicts": "weights_outside",
    "lintrain.model.finding": "Finding Reason one_at_each_place",
    "lintrain.model.fixes": (
        "AddArgument AddImport AddParameter Fix InsertAfter InsertAtTop InsertBefore MoveAfter MoveBefore "
        "RemoveArgument RemoveImport RenameArgument Replace WrapBody WrapInWith"
    ),
    "lintrain.startup.lazy_pattern": "lazy_pattern",
    "lintrain.model.level": "Level",
    "lintrain.analysis.metric_verdicts": (
        "BINARY_RAISES SCORES_RAISE metric_at metrics_confirmed on_classes on_scores scored_ignored"
    ),
    "lintrain.model.location": "Place",
    "lintrain.rule": "Rule",
    "lintrain.text.sizes": "show_size",
    "lintrain.model.verdict": "Ruling Verdict confirmed refuted inconclusive",
    "lintrain.api.probing": "probe",
    "lintrain.api.report": "MistakesError Report",
    "lintrain.knowledge.api": "Known covered_names default_value keyword_state name_state signature",
    "lintrain.knowledge.renames": "ArgumentRename NameRename",
    "lintrain.knowledge.succession": "takes_calls",
    "lintrain.knowledge.successors": "argument_rename name_rename",
    "lintrain.knowledge.target": "Target Targets",
    "lintrain.knowledge.versions": "exactly",
    "lintrain.analysis.accumulation": (
        "Accumulation LOSS_METHODS accumulation_of averages_each_batch counts_labels is_since says_who_divides "
        "smooths_labels verdict_on_accumulation"
    ),
    "lintrain.pipeline.blocks": "block_of is_one_scope loop_around may_move scope_of statement_at uses_of",
    "lintrain.interpreter.call": "Argument",
    "lintrain.pipeline.callers": "handed_on spread_names way_out",
    "lintrain.analysis.checkpoints": "entries_read is_read loaded_from_file",
    "lintrain.analysis.collation": "Collation OwnBatch collations masks_words own_batches tokenizer_of",
    "lintrain.pipeline.events": "Act Condition Event Loop",
    "lintrain.analysis.given": (
        "Given LABEL_COLUMNS MODEL_INPUTS OWN_LOADING PLAIN_TRAINERS collates_plainly given_datasets has_own_model "
        "has_tokenized_copy is_default_collator is_read_as_text is_text is_visible last_map origin_of text_columns "
        "tokenized_copies tokenizer_name"
    ),
    "lintrain.analysis.handing_over": "do_overlap parts_shared",
    "lintrain.analysis.iterations": (
        "always_in_order clippings contradict divisor_of going_back hides_gradients is_of is_switched_off "
        "launchers_of swap_of"
    ),
    "lintrain.analysis.keras": "KerasLoss activation_of backbones keras_name loss_of units_of",
    "lintrain.analysis.keywords": (
        "GivenKeyword config_of demands_version given_keywords moving taker_of takes_by_name verdict_on_keyword"
    ),
    "lintrain.analysis.leaks": "fitted_before_split",
    "lintrain.analysis.lightning": "Configured configured_schedules is_lightning_module",
    "lintrain.analysis.lightning_logs": "Logged logged_values",
    "lintrain.analysis.loading": "Feeding STREAM expects_error feedings is_deliberate is_map_style is_stream",
    "lintrain.analysis.losses": "callee_of losses_called operations_before tensors_given",
    "lintrain.analysis.mentions": "every_node mentions nodes_of_kind runs_by_launcher speaks_of",
    "lintrain.interpreter.modules": "ignores_mode is_module modules_in overlap",
    "lintrain.analysis.phases": (
        "TrainingLoop always_with callee_text covers evaluates evaluation_loop events_in is_certain_step "
        "is_left_after made_here may_hide text_of_event touches training_loops trains_by_hand words_of"
    ),
    "lintrain.pipeline.record": (
        "Arithmetic Binding Discard KeptModules LibraryCall LibraryName Misuse Pipeline TokenTest"
    ),
    "lintrain.analysis.prescreen": "may_give_what_is_refused may_take_what_is_gone",
    "lintrain.analysis.raggedness": "ragged_at ragged_copy_at",
    "lintrain.interpreter.replacing": "has_parameters",
    "lintrain.pipeline.rows": "Sharing is_in_order is_shuffled keeps_source_order rows_of sharing",
    "lintrain.analysis.schedule": (
        "Strategy best_metric evaluation_strategy is_evaluated is_given_in_call is_left_out keeps_the_best "
        "saving_strategy"
    ),
    "lintrain.analysis.schedules": (
        "Pace Unit counts_epochs is_untold length_of pace_of pace_of_updates steps_of unit_of"
    ),
    "lintrain.pipeline.shifts": "are_next_tokens are_same_tokens keeps_labels shifts_labels tokens_of",
    "lintrain.analysis.swaps": "swapping_views",
    "lintrain.analysis.token_feeds": "TokenFeed token_feeds",
    "lintrain.analysis.token_positions": "learned_positions may_be_short pads_take_positions",
    "lintrain.analysis.tokens": (
        "certain_facts is_certain_setting is_handed_over lacks_pad opening_of padding_by_eos parts_of put_into_data "
        "written_texts"
    ),
    "lintrain.analysis.trainers": (
        "generates_nothing head_of nodes_of own_class own_function own_method passes_keywords_on place_in reads "
        "returns_of says stays_in_script takes"
    ),
    "lintrain.analysis.tuning": (
        "Format Training adapter_argument assignment_at changes_before facts_of is_left_alone is_tuned_whole "
        "may_adapt name_in_enum quantization_of scales_gradients trainings weights_format"
    ),
    "lintrain.pipeline.values.counts": "Count",
    "lintrain.pipeline.values.cuts": "Cut",
    "lintrain.pipeline.values.data": (
        "Collator Column ColumnValues Dataset DatasetDict Encoding Kind Padding Rows Slices Step Tokenizer"
    ),
    "lintrain.pipeline.values.keras": "KerasLabels LabelledBatches",
    "lintrain.pipeline.values.loading": "Batch Loader TorchDataset",
    "lintrain.pipeline.values.model": (
        "Config Launcher Layer Model ModelOutput ModelPart Module Network Optimizer Parameter Role Scaler Scheduler "
        "Task Tensor"
    ),
    "lintrain.pipeline.values.python": (
        "ABSENT Absent Class Constant Either Function Instance Library LibraryObject Mapping Sequence Unknown Value "
        "is_missing is_true literal number_of options_of text_of"
    ),
    "lintrain.pipeline.values.tensors": "CLASSES Derived Operation Shape root_of",
    "lintrain.pipeline.values.tokens": "SpecialToken Templated Text TokenSetting",
    "lintrain.pipeline.values.training": (
        "KerasRun LossCall Metric MetricCall ModelCall Predictions TrainerRun TrainingArguments"
    ),
    "lintrain.runtime.child.training_run": "training_run",
    "lintrain.source.calls": "argument_in callee_in",
    "lintrain.source.parsing": "expression_of",
    "lintrain.source.source": "Source",
}
_HOME_OF = {word: module for module, words in _WORDS_OF.items() for word in words.split()}


def __getattr__(name: str) -> object:
    if name in _HOME_OF:
        # Kept, for the rule files ask thousands of times.
        word = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
        return word
    raise AttributeError(f"module 'lintrain' has no attribute {name!r}")
