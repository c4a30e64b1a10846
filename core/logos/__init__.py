"""LOGOS: a plugin-based build system for inference programs written as readable sentences.

Everything public is a name of this module; plugins import these names and nothing deeper. Each is loaded when it is
first asked for, so `import logos` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing costs more than all else that a build with nothing to do imports
if TYPE_CHECKING:
    from logos.cache import cached as cached
    from logos.check import read_program as read_program
    from logos.compiled import CompiledKernel as CompiledKernel
    from logos.compiled import CompilingTarget as CompilingTarget
    from logos.device_plan import Card as Card
    from logos.device_plan import DevicePlan as DevicePlan
    from logos.device_plan import DeviceStage as DeviceStage
    from logos.device_plan import Fit as Fit
    from logos.device_plan import Work as Work
    from logos.driver.generation import decode_refusals as decode_refusals
    from logos.driver.generation import prompt_tables as prompt_tables
    from logos.driver.generation import step_input as step_input
    from logos.driver.source import driver_part as driver_part
    from logos.driver.source import driver_text as driver_text
    from logos.driver.source import paste_headers as paste_headers
    from logos.driver.tables import DriverTables as DriverTables
    from logos.driver.tables import HeldValue as HeldValue
    from logos.driver.tables import c_block as c_block
    from logos.driver.tables import c_table as c_table
    from logos.driver.text import c_comment as c_comment
    from logos.driver.text import c_double as c_double
    from logos.driver.text import c_integer as c_integer
    from logos.driver.text import c_string as c_string
    from logos.driver.text import one_line as one_line
    from logos.emitted import EmittedProgram as EmittedProgram
    from logos.extraction import weight_file as weight_file
    from logos.graph import Graph as Graph
    from logos.graph import Leaf as Leaf
    from logos.graph import Node as Node
    from logos.graph import Operand as Operand
    from logos.graph import Shown as Shown
    from logos.graph import Value as Value
    from logos.hookspecs import API as API
    from logos.hookspecs import Artifact as Artifact
    from logos.hookspecs import AuthorOptions as AuthorOptions
    from logos.hookspecs import CheckpointFormat as CheckpointFormat
    from logos.hookspecs import Edge as Edge
    from logos.hookspecs import Family as Family
    from logos.hookspecs import FolderFormat as FolderFormat
    from logos.hookspecs import GeneratingTarget as GeneratingTarget
    from logos.hookspecs import Inputs as Inputs
    from logos.hookspecs import Job as Job
    from logos.hookspecs import PlanningTarget as PlanningTarget
    from logos.hookspecs import PresetFamily as PresetFamily
    from logos.hookspecs import ProbingTarget as ProbingTarget
    from logos.hookspecs import QuantizingTarget as QuantizingTarget
    from logos.hookspecs import Recording as Recording
    from logos.hookspecs import Rule as Rule
    from logos.hookspecs import StandingTarget as StandingTarget
    from logos.hookspecs import Steps as Steps
    from logos.hookspecs import Target as Target
    from logos.hookspecs import TuneReport as TuneReport
    from logos.hookspecs import TuningTarget as TuningTarget
    from logos.hookspecs import VersionTarget as VersionTarget
    from logos.hookspecs import WeightEntry as WeightEntry
    from logos.hookspecs import WeightFile as WeightFile
    from logos.hookspecs import hookimpl as hookimpl
    from logos.job import Request as Request
    from logos.job import bind_request as bind_request
    from logos.job import load_graph as load_graph
    from logos.job import make_job as make_job
    from logos.manager import Manager as Manager
    from logos.manager import make_manager as make_manager
    from logos.near import nearest as nearest
    from logos.near import suggestion as suggestion
    from logos.op import Hole as Hole
    from logos.op import LoopForm as LoopForm
    from logos.op import Op as Op
    from logos.op import Rows as Rows
    from logos.op import Shapes as Shapes
    from logos.op import TypeRule as TypeRule
    from logos.ops import OPS as OPS
    from logos.parse import read_tensor_sentences as read_tensor_sentences
    from logos.passes.fusion import FUSION_STEPS as FUSION_STEPS
    from logos.passes.fusion import FusionStep as FusionStep
    from logos.passes.fusion import Group as Group
    from logos.passes.fusion import job_groups as job_groups
    from logos.passes.fusion import plan_fusion as plan_fusion
    from logos.passes.unroll import Unrolled as Unrolled
    from logos.passes.unroll import unroll as unroll
    from logos.printer import print_program as print_program
    from logos.printer import sentence as sentence
    from logos.recognition import AttentionBlock as AttentionBlock
    from logos.recognition import recognize as recognize
    from logos.recognition import recognize_attention as recognize_attention
    from logos.recognition import recognize_moe as recognize_moe
    from logos.reference import Machine as Machine
    from logos.reference import row_outside as row_outside
    from logos.reference import run_steps as run_steps
    from logos.refusal import Refusal as Refusal
    from logos.refusal import Refused as Refused
    from logos.refusal import refuse as refuse
    from logos.sentences import Declaration as Declaration
    from logos.sentences import Fill as Fill
    from logos.sentences import Operation as Operation
    from logos.sentences import Show as Show
    from logos.sentences import Use as Use
    from logos.source import Place as Place
    from logos.source import Source as Source
    from logos.source import Span as Span
    from logos.source import Spot as Spot
    from logos.source import read_source as read_source
    from logos.toml_places import Toml as Toml
    from logos.toml_places import read_toml as read_toml
    from logos.weights.binding import Binding as Binding
    from logos.weights.binding import Bound as Bound
    from logos.weights.binding import Role as Role
    from logos.weights.blocks import FORMATS as FORMATS
    from logos.weights.blocks import BlockFormat as BlockFormat
    from logos.weights.blocks import InexactValueError as InexactValueError
    from logos.weights.checkpoint import Checkpoint as Checkpoint
    from logos.weights.checkpoint import Header as Header
    from logos.weights.checkpoint import Tensor as Tensor
    from logos.weights.checkpoint import Text as Text
    from logos.weights.checkpoint import TextStream as TextStream
    from logos.weights.extract import write_weight_file as write_weight_file
    from logos.weights.references import MoeSpec as MoeSpec
    from logos.weights.references import MoeWeights as MoeWeights
    from logos.weights.references import Q8Reference as Q8Reference
    from logos.weights.references import WeightedProgram as WeightedProgram
    from logos.weights.views import Table as Table
    from logos.weights.views import TensorView as TensorView
    from logos.weights.views import View as View

_HOMES = {
    "cache": ("cached",),
    "check": ("read_program",),
    "compiled": ("CompiledKernel", "CompilingTarget"),
    "device_plan": ("Card", "DevicePlan", "DeviceStage", "Fit", "Work"),
    "driver.generation": ("decode_refusals", "prompt_tables", "step_input"),
    "driver.source": ("driver_part", "driver_text", "paste_headers"),
    "driver.tables": ("DriverTables", "HeldValue", "c_block", "c_table"),
    "driver.text": ("c_comment", "c_double", "c_integer", "c_string", "one_line"),
    "emitted": ("EmittedProgram",),
    "extraction": ("weight_file",),
    "graph": ("Graph", "Leaf", "Node", "Operand", "Shown", "Value"),
    "hookspecs": (
        "API", "Artifact", "AuthorOptions", "CheckpointFormat", "Edge", "Family", "FolderFormat", "GeneratingTarget",
        "Inputs", "Job", "PlanningTarget", "PresetFamily", "ProbingTarget", "QuantizingTarget", "Recording", "Rule",
        "StandingTarget", "Steps", "Target", "TuneReport", "TuningTarget", "VersionTarget", "WeightEntry",
        "WeightFile", "hookimpl",
    ),
    "job": ("Request", "bind_request", "load_graph", "make_job"),
    "manager": ("Manager", "make_manager"),
    "near": ("nearest", "suggestion"),
    "op": ("Hole", "LoopForm", "Op", "Rows", "Shapes", "TypeRule"),
    "ops": ("OPS",),
    "parse": ("read_tensor_sentences",),
    "passes.fusion": ("FUSION_STEPS", "FusionStep", "Group", "job_groups", "plan_fusion"),
    "passes.unroll": ("Unrolled", "unroll"),
    "printer": ("print_program", "sentence"),
    "recognition": ("AttentionBlock", "recognize", "recognize_attention", "recognize_moe"),
    "reference": ("Machine", "row_outside", "run_steps"),
    "refusal": ("Refusal", "Refused", "refuse"),
    "sentences": ("Declaration", "Fill", "Operation", "Show", "Use"),
    "source": ("Place", "Source", "Span", "Spot", "read_source"),
    "toml_places": ("Toml", "read_toml"),
    "weights.binding": ("Binding", "Bound", "Role"),
    "weights.blocks": ("FORMATS", "BlockFormat", "InexactValueError"),
    "weights.checkpoint": ("Checkpoint", "Header", "Tensor", "Text", "TextStream"),
    "weights.extract": ("write_weight_file",),
    "weights.references": ("MoeSpec", "MoeWeights", "Q8Reference", "WeightedProgram"),
    "weights.views": ("Table", "TensorView", "View"),
}  # fmt: skip
_MODULES = {name: f"logos.{module}" for module, names in _HOMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module 'logos' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
