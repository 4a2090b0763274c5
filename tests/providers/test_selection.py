import dataclasses
import gc
import weakref

import numpy as np
import pytest

import zrt
from tests.support import plugin as source
from tests.support.lanes import run_on
from zrt.errors import ArgumentError, BusyError, CallbackError, DTypeError, EpFailError, ProviderError

CPU = "CPUExecutionProvider"
TEST = "ZrtTestProvider"
X = np.array([-1, 2, 3], np.float32)


def result(session):
    return session.run({"x": X})[0].tolist()


class TestDevices:
    def test_session_runs_on_a_device(self, plugin, negate):
        session = negate([plugin.own], record_placement=True)
        assert session.providers == (TEST, CPU)
        assert result(session) == [1, -2, -3]
        assert session.placement().providers == {TEST: 1}

    def test_session_runs_on_the_cpu_s_device(self, negate):
        session = negate([zrt.ep_devices()[0]], record_placement=True)
        assert session.providers == (CPU,)
        assert session.placement().providers == {CPU: 1}
        assert result(session) == [1, -2, -3]

    @pytest.mark.parametrize("last", ["cpu", zrt.providers.CPU(), ("CPU", {})])
    def test_devices_and_other_providers_can_be_mixed(self, plugin, negate, last):
        assert negate([plugin.npu, last]).providers == (TEST, CPU)

    def test_devices_of_a_provider_are_grouped(self, plugin, negate):
        session = negate([plugin.own, plugin.npu, "cpu"])
        assert session.providers == (TEST, CPU)
        assert session.placement().outputs[0].memory == plugin.own.memory
        assert result(session) == [1, -2, -3]

    def test_options_are_the_device_s_unless_given(self, plugin, negate):
        def on_device(**options):
            return negate([(plugin.own, options)], record_placement=True).placement().providers

        assert plugin.own.options == {"claim": "1"}
        assert on_device() == {TEST: 1}
        assert on_device(claim="0") == {CPU: 1}

    def test_devices_of_a_provider_share_their_options(self, plugin, negate):
        providers = [(plugin.own, {"claim": "0"}), (plugin.npu, {"claim": "0", "other": "1"})]
        assert negate(providers).providers == (TEST, CPU)
        with pytest.raises(ArgumentError, match="'ZrtTestProvider': its devices share their options, and 'claim'"):
            negate([(plugin.own, {"claim": "0"}), (plugin.npu, {"claim": "1"})])

    def test_error_of_a_provider_names_it(self, plugin, negate):
        with pytest.raises(zrt.Error, match="was told to refuse the session"):
            negate([(plugin.own, {"refuse": "1"})])

    def test_replicas_and_shared_weights_accept_devices(self, plugin, build):
        model = build("(float[n] x) => (float[n] y) { y = Neg(x) }")
        for more in ({}, {"share_weights": True}):
            runtime = zrt.Runtime.replicate(model, 2, providers=[plugin.own], shapes={"x": (3,)}, **more)
            for lane in runtime:
                assert run_on(lane, x=X)["y"].tolist() == [1, -2, -3]
                assert lane.session.providers == (TEST, CPU)

    def test_wrong_devices_raise(self, plugin, negate):
        own = plugin.own
        for providers, error, words in (
            ([zrt.ep_devices()[0], own], ArgumentError, "put it last"),
            ([zrt.ep_devices()[0], "cpu"], ArgumentError, f"'{CPU}' is given twice"),
            ([(own, {"claim": 1})], DTypeError, "'claim'"),
            ([(own, {"claim": "\0"})], ArgumentError, "NUL"),
            ([(own, {"k" * 9999: "1"})], ProviderError, TEST),
            ([own.hardware], DTypeError, "neither a provider"),
        ):
            with pytest.raises(error, match=words):
                negate(providers)

    def test_providers_may_be_a_generator(self, plugin, negate):
        assert negate(device for device in [plugin.own]).providers == (TEST, CPU)


class TestPolicies:
    @pytest.mark.parametrize("policy", zrt.DevicePolicy)
    def test_each_policy_makes_a_session(self, negate, policy):
        session = negate(policy)
        assert result(session) == [1, -2, -3]
        assert session.providers[-1] == CPU

    def test_policy_chooses_the_npu(self, plugin, negate):
        for policy in (zrt.DevicePolicy.PREFER_NPU, zrt.DevicePolicy.MAX_EFFICIENCY):
            session = negate(policy)
            assert session.providers == (TEST, CPU)
            assert session.placement().outputs[0].memory.is_host

    def test_plugin_on_the_cpu_comes_before_the_cpu_provider(self, plugin, negate):
        session = negate(zrt.DevicePolicy.PREFER_CPU)
        assert session.providers == (TEST, CPU)
        assert session.placement().outputs[0].memory == plugin.own.memory

    def test_providers_without_nodes_are_not_named(self, plugin, build):
        model = build("(float[n] x) => (float[n] y) { y = Abs(x) }")
        assert zrt.Session(model, providers=zrt.DevicePolicy.PREFER_NPU).providers == (CPU,)

    def test_runtimes_accept_a_policy(self, plugin, build):
        model = build("(float[n] x) => (float[n] y) { y = Neg(x) }")
        for more in ({}, {"share_weights": True}):
            runtime = zrt.Runtime.replicate(model, 2, providers=zrt.DevicePolicy.PREFER_NPU, shapes={"x": (3,)}, **more)
            assert {session.providers for session in runtime.sessions} == {(TEST, CPU)}


class TestFunctions:
    """A caller's policy, which ORT calls during the load."""

    def test_function_gets_devices_and_the_model_s_metadata(self, plugin, build):
        asked = []
        model = build("(float[n] x) => (float[n] y) { y = Neg(x) }")
        model.producer_name = "the tests"
        prop = model.metadata_props.add()
        prop.key, prop.value = "quantized", "no"

        def policy(devices, metadata):
            asked.append((devices, metadata))
            return [plugin.npu]

        session = zrt.Session(model, providers=policy)
        assert session.providers == (TEST, CPU)
        ((devices, metadata),) = asked
        assert set(devices) == set(zrt.ep_devices())
        assert (metadata["producer_name"], metadata["quantized"]) == ("the tests", "no")
        assert result(session) == [1, -2, -3]

    def test_exception_of_the_function_is_the_cause(self, plugin, negate):
        reason = ZeroDivisionError("none left")

        def policy(devices, metadata):
            raise reason

        with pytest.raises(CallbackError, match=r"ModelProto: .*ZeroDivisionError: none left") as caught:
            negate(policy)
        assert caught.value.__cause__ is reason
        assert result(negate(lambda devices, metadata: [plugin.own])) == [1, -2, -3]

    def test_interrupt_is_raised_unwrapped(self, negate):
        def policy(devices, metadata):
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            negate(policy)

    def test_wrong_results_raise(self, negate, plugin):
        for answer, words in (
            (plugin.own, "returns a list of devices"),
            (None, "returns a list of devices"),
            (["cpu"], "returns devices, not 'cpu'"),
            ([dataclasses.replace(plugin.own, _pointer=0)], "some of the devices that it is given"),
            ([plugin.own] * 9, "between 1 and 8 devices, not 9"),
        ):
            with pytest.raises(CallbackError, match=words) as caught:
                negate(lambda devices, metadata, answer=answer: answer)
            assert isinstance(caught.value.__cause__, zrt.Error)

    def test_broken_model_raises_the_model_s_error(self, plugin):
        asked = []
        with pytest.raises(zrt.errors.InvalidProtobufError):
            zrt.Session(b"no model", providers=lambda devices, metadata: asked.append(1))
        assert not asked

    def test_error_of_a_chosen_provider_is_raised(self, plugin, negate):
        with pytest.raises(EpFailError, match="was told to refuse the session"):
            negate(lambda devices, metadata: [plugin.own], config_entries={"ep.zrttestprovider.refuse": "1"})

    def test_function_may_load_a_session(self, plugin, negate):
        def policy(devices, metadata):
            assert result(negate(lambda devices, metadata: [plugin.npu])) == [1, -2, -3]
            return [plugin.own]

        assert result(negate(policy)) == [1, -2, -3]

    def test_function_may_not_change_the_libraries(self, plugin, negate):
        """ONNX Runtime iterates over its list of devices at this time."""

        def register(devices, metadata):
            zrt.Environment().register_provider_library("another", source.path())

        def unregister(devices, metadata):
            zrt.Environment().unregister_provider_library("tests")

        for policy in (register, unregister):
            with pytest.raises(CallbackError, match="BusyError") as caught:
                negate(policy)
            assert isinstance(caught.value.__cause__, BusyError)
        assert list(zrt.Environment().provider_libraries) == ["tests"]

    def test_function_is_released_after_the_load(self, plugin, negate):
        class Server:
            """Refers to its session, which therefore must not own it."""

            def __init__(self):
                self.session = negate(self.choose)

            def choose(self, devices, metadata):
                return [plugin.npu]

        server = Server()
        gone = weakref.ref(server)
        assert result(server.session) == [1, -2, -3]
        del server
        gc.collect()
        assert gone() is None

    def test_several_threads_load_by_policy(self, plugin, negate, background):
        jobs = [background(lambda: result(negate(lambda devices, metadata: [plugin.npu]))) for _ in range(4)]
        assert [job.result() for job in jobs] == [[1, -2, -3]] * 4
