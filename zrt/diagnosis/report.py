"""`Check`: the result of `zrt.check`, and `Problem`: one thing that it found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from zrt._common.public import public
from zrt.errors import Error, OrtError

RUNS = "runs"
RUNS_IN_PART = "runs in part on the CPU"
DOES_NOT_LOAD = "does not load"

ERROR = "error"
WARNING = "warning"
NOTE = "note"

# A text names at most so many nodes of one problem.
SHOWN = 3


@public
@dataclass(frozen=True, slots=True)
class Problem:
    """Something about a model that its user should know (see `zrt.check`)."""

    severity: str
    """``error``: the model does not load for this reason; ``warning``: it runs otherwise than it says; ``note``."""
    subject: str
    """The culprit: an operator, a weight's file, an input."""
    reason: str
    remedy: str = ""
    """A way to mend it; "" where none is known."""
    nodes: tuple[str, ...] = ()
    """The nodes that have the problem: their names, or their outputs' where they have none."""

    def __str__(self) -> str:
        more = f" and {len(self.nodes) - SHOWN} more" if len(self.nodes) > SHOWN else ""
        where = f" (node {', '.join(map(repr, self.nodes[:SHOWN]))}{more})" if self.nodes else ""
        return f"{self.severity}: {self.subject}{where}: {self.reason}" + (f"; {self.remedy}" if self.remedy else "")


@public
@dataclass(frozen=True, slots=True)
class Check:
    """The result of `zrt.check`; `str` gives a line for the verdict and one for each problem."""

    model: str
    """The model's path, or ``model in memory``."""
    library: str
    """The version of ONNX Runtime that was asked."""
    verdict: str
    """``runs``, ``runs in part on the CPU`` (of nodes that another provider was asked for), or ``does not load``."""
    problems: tuple[Problem, ...] = ()
    """The errors first."""
    nodes: dict[str, int] | None = None
    """How many nodes each provider runs, after the optimizer; None for a model that does not load."""
    operators: int | None = None
    """How many distinct operators with their types were tried; None where the model's graph cannot be read."""
    others: dict[str, dict[str, int]] = field(default_factory=dict)
    """For each other provider at hand that loads the model: how many nodes each one runs where it is asked for."""

    @property
    def loads(self) -> bool:
        """Whether the model loads, wherever its nodes run."""
        return self.verdict != DOES_NOT_LOAD

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join([f"{self.model}: {self.verdict} with ONNX Runtime {self.library}", *map(str, self.problems)])


class Findings:
    """The problems of one model as they are found."""

    def __init__(self, model: str, subject: str, version: str) -> None:
        self._model = model
        self._version = version
        self.subject: str = subject
        """The model's name in messages of errors."""
        self._problems: dict[Problem, list[str]] = {}
        self.refused: Error | None = None
        """The library's reason not to load the model."""
        self.operators: int | None = None
        self.others: dict[str, dict[str, int]] = {}

    def plain(self, error: Error) -> str:
        """An error's message without the model's name."""
        message = error.ort_message if isinstance(error, OrtError) else str(error)
        return message.removeprefix(self.subject).lstrip(": ").removeprefix("This is an invalid model. ")

    def add(self, severity: str, subject: str, reason: str, remedy: str = "", nodes: tuple[str, ...] = ()) -> None:
        """Adds a problem; those that differ in their nodes alone become one."""
        self._problems.setdefault(Problem(severity, subject, reason, remedy), []).extend(nodes)

    def result(self, nodes: dict[str, int] | None = None, in_part: bool = False) -> Check:
        """The check; `nodes` are those of each provider, if the model loads; `in_part` is for nodes on the CPU."""
        if self.refused is not None and not any(problem.severity == ERROR for problem in self._problems):
            self.add(ERROR, "the model", self.plain(self.refused))
        verdict = RUNS_IN_PART if in_part else RUNS
        order = (ERROR, WARNING, NOTE)
        problems = [replace(problem, nodes=tuple(names)) for problem, names in self._problems.items()]
        if any(problem.severity == ERROR for problem in problems):
            verdict, nodes = DOES_NOT_LOAD, None
        problems.sort(key=lambda problem: order.index(problem.severity))
        return Check(self._model, self._version, verdict, tuple(problems), nodes, self.operators, self.others)
