import os

import pytest

from tests.support import plugin


@pytest.mark.headers
def test_plugin_h_matches_the_official_header(tmp_path):
    headers = os.environ["ZRT_ORT_INCLUDE_DIR"]
    assert plugin.compile_to(tmp_path / "plugin.so", "-DZRT_EXACT", f"-I{headers}").exists()
