"""The memory of a process that loads and runs a model, with one setting after the other, each in a process of its own.

A process can tell its own memory, but not that of one model inside it: so each measurement starts a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, NamedTuple, cast

from zrt._common.config_keys import SessionConfigKey
from zrt.bench import child, machine
from zrt.bench.inputs import Inputs, UserInputs, make_inputs
from zrt.environment.environment import Environment
from zrt.errors import Error, ShapeError
from zrt.lanes.lane_shapes import input_shapes
from zrt.loading.caller_weights import PrepackedWeights
from zrt.loading.read_weights import read_weights, trim_heap
from zrt.loading.session_options import SessionOptions
from zrt.session.memory_report import MemoryReport, contents_of_model, memory_report, save_apart
from zrt.session.session import Session
from zrt.session.spec import SessionSpec
from zrt.types import GraphOptimizationLevel

# A first run plans the memory of the next ones.
RUNS = 3
# How often a setting is measured again that seems to fit: what the C library keeps of freed memory differs by chance.
CONFIRMED = 2


class Setting(NamedTuple):
    """A way to load a model that may take less memory."""

    name: str
    how: str
    """The option, or the step, that makes a program use it."""
    options: Mapping[str, Any] = {}
    """The fields of `SessionOptions` that it changes."""
    entries: Mapping[str, str] = {}
    """The config entries that it adds."""
    form: str = ""
    """"mapped" or "optimized" where it loads a copy of the model whose weights are in a file beside it."""
    shared: bool = False
    """Whether sessions share weights that the caller has read."""

    def applied(self, options: SessionOptions) -> SessionOptions:
        """The options with this setting."""
        return replace(options, **self.options, config_entries={**options.config_entries, **self.entries})


_NO_PACKING = {SessionConfigKey.DISABLE_PREPACKING: "1"}
_NOT_PACKED = f"{SessionConfigKey.DISABLE_PREPACKING}=1"
_OPTIMIZED = "zrt compile MODEL OUTPUT --level enable_all --weights NAME, graph_optimization_level=DISABLE_ALL"

# The least intrusive first: options alone, then other files, then what may make runs slower.
SETTINGS = (
    Setting("as it is", "nothing to change"),
    Setting("no plan of blocks", "enable_mem_pattern=False", {"enable_mem_pattern": False}),
    Setting("bounded", 'memory="bounded"', {"memory": "bounded"}),
    Setting("no arena", "enable_cpu_mem_arena=False", {"enable_cpu_mem_arena": False}),
    Setting("shared weights", "initializers=zrt.read_weights(...), prepacked_weights=...", shared=True),
    Setting("weights mapped", "zrt compile MODEL OUTPUT --level disable_all --weights NAME", form="mapped"),
    Setting("optimized, mapped", _OPTIMIZED, form="optimized"),
    Setting("not packed", _NOT_PACKED, entries=_NO_PACKING),
    Setting("mapped, not packed", f"{_OPTIMIZED}, {_NOT_PACKED}", entries=_NO_PACKING, form="optimized"),
    Setting("one thread", "intra_op_num_threads=1", {"intra_op_num_threads": 1}),
    Setting(
        "all together",
        f"{_OPTIMIZED}, {_NOT_PACKED}, enable_cpu_mem_arena=False, intra_op_num_threads=1",
        {"enable_cpu_mem_arena": False, "intra_op_num_threads": 1},
        _NO_PACKING,
        "optimized",
    ),
)


@dataclass(frozen=True, slots=True)
class Footprint:
    """The memory of one process, in bytes; None where the system does not tell it."""

    before: int | None
    """Before the load: Python, numpy, zrt and ONNX Runtime."""
    resident: int | None
    """After some runs."""
    own: int | None
    """The memory that is no pages of files, when the C library has given back what it keeps of freed memory."""
    peak: int
    """The most at any time, the load included."""
    another: int | None
    """The memory of its own that a further session of the model takes, without runs."""
    report: MemoryReport
    inputs: dict[str, str] = field(default_factory=dict)
    """The types and shapes that it ran on."""


class Measured(NamedTuple):
    """A setting, and its footprint or the error that it ended with."""

    setting: Setting
    footprint: Footprint | None
    error: str | None = None


class Footprints:
    """The measurements of one model; copies of it are in `folder`, each made when a setting first needs it."""

    def __init__(self, spec: SessionSpec, inputs: UserInputs, folder: str) -> None:
        self._spec = spec
        self._inputs = inputs
        self._folder = folder
        self._forms: dict[str, str] = {}

    def measure(self, setting: Setting) -> Footprint:
        """The memory of a process with this setting. Raises the errors of the load and of the runs."""
        spec, options = self._spec, setting.applied(self._spec.options)
        if setting.form:
            # The copy has its weights beside it.
            options.trusted_folders = []
            folder = SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH
            options.config_entries = {key: entry for key, entry in options.config_entries.items() if key != folder}
        if setting.form == "optimized":
            options.graph_optimization_level = GraphOptimizationLevel.DISABLE_ALL
        model = self.form(setting.form) if setting.form else spec.model
        changed = SessionSpec(model, options, spec.providers)
        return cast("Footprint", child.call(_measure, changed, self._inputs, setting.shared))

    def measure_all(self, budget: int | None = None) -> Iterator[Measured]:
        """The memory with each setting that changes something; with a `budget` up to the first that stays within it.

        Raises the errors of the load and of the runs if the model does not run as it is.
        """
        for setting in SETTINGS:
            changes = any(getattr(self._spec.options, name) != value for name, value in setting.options.items())
            if setting.options and not changes:
                continue
            try:
                footprint = self.measure(setting)
                fits = budget is not None and footprint.peak <= budget
                for _ in range(CONFIRMED if fits else 0):
                    footprint = max(footprint, self.measure(setting), key=attrgetter("peak"))
            except Error as error:
                if setting is SETTINGS[0] and not isinstance(error, child.EndedError):
                    raise
                yield Measured(setting, None, str(error))
                continue
            yield Measured(setting, footprint)
            if budget is not None and footprint.peak <= budget:
                break

    def form(self, name: str) -> str:
        """The path of the copy of this form. Raises `Error` where it cannot be written."""
        if name not in self._forms:
            self._forms[name] = child.call(save_apart, self._spec, self._folder, name == "optimized")
        return self._forms[name]

    def loaded_bytes(self) -> int | None:
        """The weights after the optimizer; None where the optimized model cannot be written."""
        with suppress(Error):
            contents = contents_of_model(self.form("optimized"))
            return None if contents is None else contents.nbytes
        return None


def resident_bytes(spec: SessionSpec, feeds: Sequence[Mapping[str, Any]]) -> int:
    """The memory of this process after it has run a model on all feeds several times; its peak if that alone is known.

    For `child.call`: the process should have done nothing else.
    """
    with spec.load() as session:
        for _ in range(RUNS):
            for each in feeds:
                session.run(each)
        return machine.resident_bytes()


def _measure(spec: SessionSpec, user: UserInputs, shared: bool) -> Footprint:
    """Loads and runs a model in this process."""
    Environment()
    before = machine.resident()
    options = spec.options
    if shared:
        folder = options.config_entries.get(SessionConfigKey.MODEL_EXTERNAL_INITIALIZERS_FILE_FOLDER_PATH)
        options.initializers = read_weights(spec.model, folder, trusted_folders=options.trusted_folders)
        options.prepacked_weights = PrepackedWeights()
    with Session(spec.model, options, spec.providers) as session:
        fed = make_inputs(session.inputs, user, session.initializers)
        _require_sizes(session, user, fed)
        feeds = fed.feeds()
        with fed.first_run():
            session.run(feeds)
        for _ in range(RUNS - 1):
            session.run(feeds)
        after = machine.resident()
        one = _live_bytes()
        with Session(spec.model, options, spec.providers):
            two = _live_bytes()
        report = memory_report(session, feeds)
    another = None if one is None or two is None else two - one
    described = {name: str(each) for name, each in fed.described.items()}
    return Footprint(before.now, after.now, one, after.peak, another, report, described)


def _live_bytes() -> int | None:
    """The memory of this process's own that is in use."""
    trim_heap()
    return machine.resident().own


def _require_sizes(session: Session, user: UserInputs, fed: Inputs) -> None:
    """Raises `ShapeError` for an input whose shape the user leaves open: the memory depends on it."""
    several = [name for name, texts in user.values.items() if len(texts) > 1]
    settled = {name: fed.shapes[name] for name in (*user.arrays, *user.shapes, *several)}
    try:
        input_shapes(session.inputs, {name: shape for name, shape in settled.items() if name in session.input_names})
    except ShapeError as error:
        error.add_note("The memory depends on these sizes: --shape or --input gives them")
        raise
