"""Serves `onnxruntime` from zrt in a child process whose parent has put this folder into PYTHONPATH.

Python imports the first `sitecustomize` on its path when it starts. This one makes room for the next, and costs a child
that never imports onnxruntime almost nothing: it imports nothing of zrt, and no module that Python has not loaded yet.
Any Python 3 may be the child, also one of another environment and of another version.
"""

import os
import sys


class Finder:
    """Installs zrt's finder at the first look for onnxruntime, if this environment has the zrt of this folder."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        """The module `onnxruntime`; None leaves the name to Python's other finders."""
        if name != "onnxruntime":
            return None
        from importlib.util import find_spec

        spec = find_spec("zrt")
        if spec is None or spec.origin is None or not os.path.samefile(os.path.dirname(spec.origin), ZRT):
            return None
        try:
            import zrt._native
        except ImportError:
            # zrt's source is in the current folder, and this Python is one that zrt was not built for.
            return None
        import zrt.onnxruntime

        zrt.onnxruntime.install()
        # The installed finder comes first now.
        return find_spec(name)


def pass_on(folder: str) -> None:
    """Run the next `sitecustomize` on the path, which this one hides."""
    sys.path[:] = [place for place in sys.path if place != folder]
    own = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, own)


if __name__ == "sitecustomize":
    FOLDER = os.path.dirname(__file__)
    ZRT = os.path.dirname(os.path.dirname(FOLDER))
    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    pass_on(FOLDER)
