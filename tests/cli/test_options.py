"""``--options FILE`` of the commands that load a model."""

import json
from typing import Any

import pytest

from tests.support import models
from zrt import providers

CPU = "CPUExecutionProvider"
COMMANDS = ("bench", "profile", "run")

DOCUMENT = """
[session]
intra_op_num_threads = 2
graph_optimization_level = "ENABLE_BASIC"
intra_op_allow_spinning = false
free_dimension_overrides = { batch = 3 }
free_dimension_overrides_by_denotation = { DATA_BATCH = 1 }
log_severity_level = "ERROR"
config_entries = { "session.disable_prepacking" = "1" }

[run]
tag = "from a file"

[[providers]]
name = "cpu"
options = {}
"""


def test_bench_measures_both_libraries_with_them(zrt_json, saved, options):
    document = zrt_json(
        "bench", saved(models.double()), "--runs", 3, "--options", options(DOCUMENT), "--shape", "x=3,4"
    )
    settings = document["settings"]
    assert (settings["threads"], settings["provider"], settings["providers"]) == (2, CPU, {CPU: {}})
    assert settings["options"]["graph_optimization_level"] == "ENABLE_BASIC"
    assert settings["options"]["config_entries"] == {"session.disable_prepacking": "1"}
    reasons = list(document["unmeasured"].values())
    assert not reasons or "cannot be imported" in reasons[0]


def test_bench_says_which_options_were_set(zrt, saved, options):
    document = '[session]\ngraph_optimization_level = "ENABLE_BASIC"'
    out = zrt("bench", saved(models.add()), "--runs", 1, "--options", options(document))
    assert "options" in out
    assert "graph_optimization_level ENABLE_BASIC" in out
    assert "a thread for each core" in out


def test_run_takes_the_providers_and_the_options(zrt_json, saved, options):
    document = zrt_json("run", saved(models.double()), "--options", options(DOCUMENT))
    assert list(document["providers"]) == [CPU]
    # The dimension that the file fixes.
    assert document["providers"][CPU]["inputs"]["x"]["shape"][0] == 3


def test_run_applies_the_run_options(zrt_json, saved, options, tmp_path):
    document = json.dumps({"run": {"profile_file_prefix": str(tmp_path / "run")}})
    zrt_json("run", saved(models.add()), "--options", options(document, "options.json"))
    assert list(tmp_path.glob("run_*.json"))


def test_profile_applies_the_file(zrt_json, options):
    document = '[session]\ngraph_optimization_level = "DISABLE_ALL"'
    found = zrt_json("profile", "--options", options(document), "--runs", 1)
    assert "Relu" in {row["name"] for row in found["rows"]}


def test_flags_override_the_file(zrt_json, saved, options):
    model, file = saved(models.double()), options(DOCUMENT)
    document = zrt_json("bench", model, "--runs", 1, "--options", file, "--threads", 1, "--provider", "cpu")
    assert document["settings"]["threads"] == 1
    other = options(DOCUMENT.replace('name = "cpu"', 'name = "warp"'), "other.toml")
    document = zrt_json("run", model, "--options", other, "--provider", "cpu")
    assert list(document["providers"]) == [CPU]


def test_unusable_provider_of_the_file_fails(complaint, saved, options, monkeypatch):
    monkeypatch.setattr(providers, "usable", lambda name: "no processor")
    err = complaint("run", saved(models.add()), "--options", options(DOCUMENT), status=1)
    assert f"{CPU} is not usable here: no processor" in err


@pytest.mark.parametrize("command", COMMANDS)
class TestMistakes:
    @pytest.mark.parametrize(
        ("document", "name", "said"),
        [
            ("[session]\nintra_op_threads = 1", "options.toml", "did you mean 'intra_op_num_threads'"),
            ("[session]\nlogid = 1", "options.toml", "SessionOptions.logid"),
            ("{", "options.json", "this is not JSON"),
            ("", "options.txt", "should end in .json or .toml"),
            ('[[providers]]\nname = "warp"', "options.toml", "--options: provider 'warp' is not in this library"),
            ('[session]\ncustom_op_libraries = ["no/ops.so"]', "options.toml", "custom_op_libraries: 'no/ops.so'"),
        ],
    )
    def test_mistakes_in_the_file_are_wrong_usage(self, complaint, options, command, document, name, said):
        err = complaint(command, "--options", options(document, name), status=2)
        assert said in err

    def test_missing_file_fails(self, complaint, command):
        assert "nope.toml" in complaint(command, "--options", "nope.toml", status=1)


def no_field(monkeypatch: pytest.MonkeyPatch, onnxruntime: Any) -> None:
    """An onnxruntime whose options are those of long ago."""
    monkeypatch.setattr(onnxruntime, "SessionOptions", type("SessionOptions", (), {"__slots__": ()}))


@pytest.mark.official
def test_option_that_onnxruntime_lacks_is_reported(zrt_json, saved, options, monkeypatch):
    no_field(monkeypatch, pytest.importorskip("onnxruntime"))
    document = "[session]\nintra_op_num_threads = 1"
    found = zrt_json("bench", saved(models.add()), "--runs", 1, "--options", options(document))
    assert set(found["unmeasured"].values()) == {"onnxruntime's SessionOptions have no intra_op_num_threads"}
