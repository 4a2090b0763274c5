from tests.cli.conftest import saved

__all__ = ["saved"]
