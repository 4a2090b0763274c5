"""`infer`: a model loaded, run once and released."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zrt._common.public import public
from zrt.loading import model_source
from zrt.loading.session_options import SessionOptions
from zrt.session.call import Result
from zrt.session.feeds import Feeds
from zrt.session.session import Session

if TYPE_CHECKING:
    from zrt.providers.selection import ProvidersLike


@public
def infer(
    model: model_source.Model,
    feeds: Feeds,
    outputs: Sequence[str] | None = None,
    options: SessionOptions | None = None,
    providers: ProvidersLike = None,
    *,
    external_data_dir: str | os.PathLike[str] | None = None,
    strict: bool = False,
    allow: Iterable[str] = (),
) -> list[Result]:
    """Loads a model, runs it once and releases it: `Session` and `Session.run` in one."""
    with Session(model, options, providers, external_data_dir=external_data_dir, strict=strict, allow=allow) as session:
        return session.run(feeds, outputs)
