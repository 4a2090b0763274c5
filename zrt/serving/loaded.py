"""`Loaded`: the models of an application that runs, and its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from zrt.serving.metrics import Metrics
from zrt.serving.model import ServedModel
from zrt.serving.request_error import NOT_FOUND, RequestError
from zrt.serving.settings import Settings
from zrt.session.session import Session
from zrt.session.spec import SessionSpec

if TYPE_CHECKING:
    from zrt.diagnosis.recorder import Recorder


class Loaded:
    """Every version of every model, loaded and with its threads."""

    def __init__(self, sources: Mapping[str, Mapping[str, SessionSpec | Session]], settings: Settings) -> None:
        self.metrics: Metrics = Metrics()
        self.closed: bool = False
        sessions = {
            name: {
                version: source.shared() if isinstance(source, SessionSpec) else source
                for version, source in versions.items()
            }
            for name, versions in sources.items()
        }
        self._models: dict[str, dict[str, ServedModel]] = {}
        self._recorders: list[Recorder] = []
        try:
            if settings.record is not None:
                # Before there are lanes. Models of the same recipe have one session.
                for session in {session for versions in sessions.values() for session in versions.values()}:
                    recorder = session.record(capsules=settings.record, slower_than=settings.slower_than)
                    self._recorders.append(recorder)
            for name, versions in sessions.items():
                self._models[name] = {
                    version: ServedModel(name, version, session, settings, self.metrics)
                    for version, session in versions.items()
                }
            for model in self._each():
                model.start()
        except BaseException:
            # The threads that began would wait for ever.
            self.close()
            raise

    def find(self, name: str, version: str | None) -> ServedModel:
        """A model; without a version the last one. Raises `RequestError` if there is none."""
        versions = self._models.get(name)
        if versions is None:
            raise RequestError(NOT_FOUND, f"there is no model {name[:80]!r}")
        if version is None:
            return versions[next(reversed(versions))]
        if version not in versions:
            raise RequestError(
                NOT_FOUND, f"model {name!r} has no version {version[:80]!r}; it has {', '.join(map(repr, versions))}"
            )
        return versions[version]

    def select(self, name: str | None, version: str | None) -> list[ServedModel]:
        """One version of a model, all of them, or without a name all models. Raises `RequestError` if there is none."""
        if name is None:
            return self._each()
        first = self.find(name, version)
        return [first] if version is not None else list(self._models[name].values())

    def close(self) -> None:
        """Refuses further requests, and returns when those that were taken have run."""
        self.closed = True
        for model in self._each():
            model.batches.close()
        for model in self._each():
            model.close()
        for recorder in self._recorders:
            recorder.close()

    def _each(self) -> list[ServedModel]:
        return [model for versions in self._models.values() for model in versions.values()]
