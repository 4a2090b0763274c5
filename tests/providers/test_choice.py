"""The forms of `providers=`, their options, and the providers of the library and this machine."""

import numpy as np
import pytest

import zrt
from tests.providers.kinds import KINDS
from zrt._common.installation import install_line
from zrt.environment import cuda_parts
from zrt.errors import ArgumentError, DTypeError, ProviderError
from zrt.providers import CPU, CUDA, Provider, base, full_name, parse, parse_all, selection, usable
from zrt.providers.vendors import cuda

RELU = "(float[n] x) => (float[n] y) { y = Relu(x) }"
X = np.array([-1, 2], np.float32)


class TestAvailable:
    def test_cpu_is_always_there_and_last(self):
        assert zrt.available_providers()[-1] == "CPUExecutionProvider"

    @pytest.mark.official
    def test_list_equals_onnxruntime_s(self):
        import onnxruntime

        ours, theirs = zrt._native.library.library().version, onnxruntime.__version__
        if ours != theirs:
            pytest.skip(f"zrt runs on ONNX Runtime {ours} and the onnxruntime package is {theirs}: they may differ")
        assert zrt.available_providers() == onnxruntime.get_available_providers()


@pytest.mark.parametrize("policy", zrt.DevicePolicy)
def test_policy_without_provider_libraries_chooses_the_cpu(environment, build, policy):
    assert zrt.Session(build(RELU), providers=policy).providers == ("CPUExecutionProvider",)


class TestForms:
    @pytest.mark.parametrize(
        "form",
        [
            None,
            [],
            ["cpu"],
            ["CPU"],
            ("CPUExecutionProvider",),
            ["cpuexecutionprovider"],
            [CPU()],
            [("cpu", {})],
            iter(["cpu"]),
        ],
        ids=["none", "empty", "short", "upper", "full", "lower", "typed", "pair", "iterator"],
    )
    def test_forms_of_the_cpu(self, build, form):
        session = zrt.Session(build(RELU), providers=form)
        assert session.providers == ("CPUExecutionProvider",)
        assert session.run([X])[0].tolist() == [0, 2]

    def test_pairs_have_options_of_any_plain_type(self):
        name = zrt.available_providers()[0]
        assert parse((name, {"a": "b", "number": 5, "flag": True})) == (name, {"a": "b", "number": "5", "flag": "True"})

    def test_every_available_provider_is_found_by_name(self, build):
        """Each one makes a session or raises an error: the library knows every provider that it lists."""

        def outcome(name: str) -> str:
            try:
                return repr(zrt.Session(build(RELU), providers=[name]).run([X])[0].tolist())
            except ProviderError as error:
                return str(error)

        for name in zrt.available_providers():
            result = outcome(name)
            assert result == "[0.0, 2.0]" or result.startswith(f"{name}: ")
            assert "Unknown provider" not in result

    @pytest.mark.parametrize(
        ("form", "error", "message"),
        [
            ([""], ProviderError, "provider '' is not in this library"),
            ([("nonesuch", {})], ProviderError, "provider 'nonesuch'"),
            (CPU(), DTypeError, "providers: expected a list, got CPU"),
            ({"cpu": {"use_arena": "0"}}, DTypeError, "providers: expected a list, got {'cpu': "),
            ([CPU], DTypeError, "is neither a provider, a name nor a"),
            ([(CPU(), {})], DTypeError, "is neither a provider"),
        ],
        ids=repr,
    )
    def test_wrong_forms_raise(self, build, form, error, message):
        with pytest.raises(error, match=message):
            zrt.Session(build(RELU), providers=form)

    def test_cpu_must_be_last(self):
        others = [name for name in zrt.available_providers() if name != "CPUExecutionProvider"]
        if not others:
            pytest.skip("this library has the CPU execution provider only")
        assert [name for name, _ in parse_all([others[0], "cpu"])] == [others[0], "CPUExecutionProvider"]
        with pytest.raises(ArgumentError, match="put it last"):
            parse_all(["cpu", others[0]])


LACKING = [kind for kind in KINDS if kind.name not in zrt.available_providers()]


class TestLacking:
    """Every provider that the library does not have raises the same error."""

    @pytest.mark.parametrize("kind", LACKING, ids=lambda kind: kind.__name__)
    def test_error_names_available_providers_and_advice(self, build, kind):
        full, short = kind.name, kind.name.removesuffix("ExecutionProvider").lower()
        end = f" is not in this library, which has {', '.join(zrt.available_providers())}. {kind.comes_with}"
        if kind.installed_by:
            end += f". To install it: {install_line(kind.installed_by)}"
        for form in (kind(), kind(extra={"a": "b"}), full, short, (full, {"device_id": 0})):
            # ONNX Runtime knows those that it does not list by their full names.
            name = short if form == short and kind.listed else full
            with pytest.raises(ProviderError) as caught:
                zrt.Session(build(RELU), providers=[form, "cpu"])
            assert (type(caught.value), str(caught.value)) == (ProviderError, f"provider {name!r}{end}")

    @pytest.mark.parametrize("name", ["tvm", "TvmExecutionProvider", "ArmNN"])
    def test_error_names_removed_providers(self, build, name):
        with pytest.raises(
            ProviderError, match=rf"provider '{name}' is not in .*\. ONNX Runtime has removed it"
        ) as caught:
            zrt.Session(build(RELU), providers=[name])
        assert type(caught.value) is ProviderError

    def test_missing_provider_raises_before_its_options_are_checked(self, build):
        """The error is about the missing provider, not about its wrong option."""
        lacking = LACKING[0]
        with pytest.raises(ProviderError, match="is not in this library"):
            zrt.Session(build(RELU), providers=[lacking(extra=5)])


class TestPairs:
    """(name, options) as in ONNX Runtime's own package; the library is made to list every provider."""

    @pytest.fixture(autouse=True)
    def has_all(self, monkeypatch):
        monkeypatch.setattr(base, "available_providers", lambda: [kind.name for kind in KINDS])

    @pytest.mark.parametrize(
        ("pair", "settings"),
        [
            (("cuda", {"use_tf32": False, "device_id": 1}), {"use_tf32": "0", "device_id": "1"}),
            (("qnn", {"dump_qnn_ir_dlc": True}), {"dump_qnn_ir_dlc": "1"}),
            (
                ("openvino", {"enable_causallm": True, "num_streams": 2}),
                {"enable_causallm": "true", "num_streams": "2"},
            ),
            (("coreml", {"EnableOnSubgraphs": True}), {"EnableOnSubgraphs": "1"}),
            (("cuda", {"gpu_mem_limit": None}), {}),
            (("cuda", {"use_tf32": "False", "nonesuch": True}), {"use_tf32": "False", "nonesuch": "True"}),
        ],
        ids=repr,
    )
    def test_true_and_false_are_written_as_the_provider_reads_them(self, pair, settings):
        assert parse(pair)[1] == settings

    @pytest.mark.parametrize(
        ("pair", "error", "words"),
        [
            (("cuda", {"device_id": True}), DTypeError, "provider 'cuda' option 'device_id': expected an int"),
            (("cuda", {"a": "b\0"}), ArgumentError, "provider 'cuda' option 'a': .* NUL"),
            (("cuda", {"a\0": "b"}), ArgumentError, "provider 'cuda': .* NUL"),
        ],
        ids=repr,
    )
    def test_wrong_forms_raise(self, pair, error, words):
        with pytest.raises(error, match=words):
            parse(pair)


def test_base_of_the_providers_is_none():
    with pytest.raises(ProviderError, match="provider 'Provider' is not in this library"):
        parse(Provider(extra={"a": "b"}))


class TestUsable:
    def test_cpu_is_usable(self):
        assert usable("cpu") is None

    def test_missing_provider_is_not_usable(self):
        assert "is not in this library" in usable("nonesuch")

    @pytest.mark.parametrize("call", [usable, full_name], ids=["usable", "full_name"])
    @pytest.mark.parametrize("name", [5, None, b"cpu", []], ids=repr)
    def test_name_of_a_wrong_type_raises(self, call, name):
        with pytest.raises(DTypeError, match="provider: expected a str, got"):
            call(name)

    def test_prefer_gpu(self, monkeypatch):
        monkeypatch.setattr(selection, "usable", lambda name: None)
        assert zrt.prefer_gpu() == [CUDA(), CPU()]
        monkeypatch.setattr(selection, "usable", lambda name: "no driver")
        assert zrt.prefer_gpu() == [CPU()]

    def test_missing_parts_of_cuda_are_the_reason(self, build, monkeypatch):
        """Before ONNX Runtime is asked: it would write to the log, and name the first missing file alone."""

        def require(library: str) -> None:
            raise ProviderError(f"{library} lacks a driver")

        monkeypatch.setattr(base, "available_providers", lambda: [CUDA.name, CPU.name])
        monkeypatch.setattr(cuda_parts, "require", require)
        base._obstacle.cache_clear()
        wanted = "CUDAExecutionProvider: libonnxruntime_providers_cuda.so lacks a driver"
        try:
            assert usable("cuda") == wanted
            assert zrt.prefer_gpu() == [CPU()]
        finally:
            base._obstacle.cache_clear()
        for call in (lambda: zrt.Session(build(RELU), providers=["cuda", "cpu"]), CUDA().effective):
            with pytest.raises(ProviderError, match=f"^{wanted}$"):
                call()
        with pytest.raises(ProviderError, match=r"tunable_op_enable.*has no effect"):
            CUDA(tunable_op_enable=True).effective()

    def test_current_device_needs_cuda(self, monkeypatch):
        monkeypatch.setattr(cuda, "usable", lambda name: "no driver")
        for call in (CUDA.current_device, lambda: CUDA.set_current_device(0)):
            with pytest.raises(ProviderError, match=r"device.*no driver"):
                call()
        for number, error in ((-1, ArgumentError), (2**31, ArgumentError), ("0", DTypeError), (None, DTypeError)):
            with pytest.raises(error, match="device_id"):
                CUDA.set_current_device(number)

    def test_prefer_gpu_always_makes_a_session(self, build):
        session = zrt.Session(build(RELU), providers=zrt.prefer_gpu())
        assert session.run([X])[0].tolist() == [0, 2]


def test_error_of_the_environment_is_no_lasting_obstacle(monkeypatch):
    def fails() -> None:
        raise ArgumentError("ZRT_CPUS: 'abc' is no number")

    base._obstacle.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(base, "current", fails)
        assert usable("cpu") == "ZRT_CPUS: 'abc' is no number"
    assert usable("cpu") is None
