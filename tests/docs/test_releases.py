"""`docs/building.md` lists the releases of ONNX Runtime that were tested; the newest one is a constant of zrt."""

import re
from pathlib import Path

from zrt._native import lib
from zrt._native.library import NEWEST_TESTED

PAGE = Path(__file__).parents[2] / "docs" / "building.md"


def releases_of_the_page() -> list[str]:
    section = re.search(r"^## Releases of ONNX Runtime$(.*?)^## ", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert section
    return re.findall(r"^\| (\d+\.\d+\.\d+) \|", section[1], re.MULTILINE)


def test_table_goes_from_the_oldest_release_to_the_newest_tested() -> None:
    releases = [[int(number) for number in release.split(".")] for release in releases_of_the_page()]
    assert releases == sorted(releases)
    assert releases_of_the_page()[0] == f"1.{lib.ZRT_API_VERSION}.0"
    assert releases_of_the_page()[-1] == NEWEST_TESTED


def test_page_says_which_api_version_zrt_asks_the_newest_release_for() -> None:
    asked = re.search(
        rf"^\| {re.escape(NEWEST_TESTED)} \|.* asks for API version (\d+)", PAGE.read_text("utf-8"), re.MULTILINE
    )
    newest = int(asked[1]) if asked else int(NEWEST_TESTED.split(".")[1])
    assert newest == lib.ZRT_NEWEST_API_VERSION
