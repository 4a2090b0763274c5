"""Code of users, in the ways that the guide shows. mypy and pyright check it under their strict rules; nothing runs it.

`assert_type` holds what a type checker, and so an editor, knows about a result.
"""

from __future__ import annotations

import io
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, ClassVar, Unpack, assert_type

import numpy as np
import numpy.typing as npt

import zrt
import zrt.onnxruntime as ort
from zrt import custom_ops, errors, graph, providers, ray, serving, typing
from zrt.onnxruntime.capi import _pybind_state
from zrt.onnxruntime.capi import onnxruntime_inference_collection as collection
from zrt.onnxruntime.capi import onnxruntime_pybind11_state as extension

Array = npt.NDArray[np.float32]


def sessions(image: Array) -> None:
    options = zrt.SessionOptions(
        intra_op_num_threads=1,
        graph_optimization_level=zrt.GraphOptimizationLevel.ENABLE_ALL,
        execution_mode="sequential",
        log_severity_level="FATAL",
        free_dimension_overrides={"batch": 4},
        config_entries={zrt.SessionConfigKey.DISABLE_PREPACKING: "1"},
    )
    for model in ("model.onnx", Path("model.onnx"), Path("model.onnx").read_bytes()):
        zrt.Session(model, options, ["cuda", providers.CPU()], strict=True, allow=["Shape"])
    with zrt.Session("model.onnx") as session:
        results = session.run({"image": image})
        results[0].argmax()
        session.run([image], ["probabilities"], zrt.RunOptions(tag="request 17"))
        assert_type(session.closed, bool)
    zrt.infer("model.onnx", {"image": image}, options=options)
    info = session.inputs[0]
    assert_type(info, zrt.ValueInfo)
    assert_type(info.kind, zrt.ValueKind)
    assert_type(info.element_type, zrt.ElementType)
    assert_type(info.static_shape, tuple[int, ...] | None)
    assert_type(session.metadata, zrt.ModelMetadata)
    assert_type(session.metadata.custom_metadata_map, dict[str, str])
    assert_type(session.metadata.opsets, dict[str, int])


def run_options(session: zrt.Session, image: Array, stream: zrt.SyncStream) -> None:
    options = zrt.RunOptions(
        log_severity_level=zrt.LogSeverity.ERROR,
        config_entries={zrt.RunConfigKey.MEMORY_ENABLE_MEMORY_ARENA_SHRINKAGE: "cpu:0"},
        shrink_arenas=[zrt.MemoryInfo.cpu()],
        sync_stream=stream,
    )
    threading.Timer(0.2, options.terminate).start()
    session.run([image], options=options)
    options.reset()
    assert_type(options.profile_files(), list[str])


def prepared_runs_and_bindings(session: zrt.Session, image: Array) -> None:
    prepared = session.prepare({"image": image})
    assert_type(prepared, zrt.PreparedRun)
    prepared.run()
    prepared.prime(3)
    assert_type(prepared.output_names, tuple[str, ...])
    prepared.run_named()["probabilities"].sum()
    assert_type(session.tap(["features"]), zrt.Session)
    binding = session.binding()
    assert_type(binding, zrt.IoBinding)
    binding.bind_input("image", image)
    binding.bind_output("probabilities", np.empty((1, 10), np.float32))
    binding.bind_output("probabilities")
    binding.bind_output("probabilities", zrt.MemoryInfo.cpu())
    binding.prime(3)
    binding.run()
    binding.numpy()["probabilities"].sum()


async def futures(session: zrt.Session, image: Array) -> None:
    results = await session.run_async({"image": image})
    results[0].sum()
    future = session.submit([image], options=zrt.RunOptions())
    waiting: Future[Any] = future
    waiting.cancel()
    future.result()[0].sum()
    values = {"image": zrt.Value.from_array(image)}
    assert_type(session.run_values(values, ["probabilities"]), list[zrt.Value | None])
    session.submit_values(values).result()


def recipes(options: zrt.SessionOptions) -> None:
    spec = zrt.SessionSpec("model.onnx", options, [providers.CPU()], strict=True, allow=["Cast"])
    assert_type(spec.load(), zrt.Session)
    assert_type(spec.shared(), zrt.Session)
    assert_type(spec.model, str | bytes)
    assert_type(spec.options, zrt.SessionOptions)
    assert {spec: 1}[zrt.SessionSpec(b"", None, zrt.DevicePolicy.DEFAULT)]


def canceled_load() -> None:
    cancellation = zrt.LoadCancellation()
    try:
        zrt.Session("model.onnx", zrt.SessionOptions(load_cancellation=cancellation))
    except errors.ModelLoadCanceledError:
        cancellation.reset()
    except zrt.OrtError as error:
        assert_type(error.code, int)
    except (zrt.ZrtError, zrt.Error) as error:
        print(error)


def state(session: zrt.Session) -> None:
    lane = session.lane({"input": (1, 576)}, state={"stateN": "state"})
    assert_type(lane, zrt.StatefulLane)
    assert_type(lane.state, zrt.State)
    states = [lane.new_state() for _ in range(3)]
    lane.run(states[0], timeout=0.5)
    lane.run_with(zrt.RunOptions(), states[0].copy())
    lane.state["state"][...] = 0
    lane.state.write({"state": np.zeros((2, 1, 128), np.float32)})
    assert_type(lane.state.snapshot(), zrt.StateSnapshot)
    lane.state.save("state.npz")
    assert_type(lane.audit().state[0].nbytes, int)
    pairs = [zrt.StatePair("new", "old", axis=2)]
    ports = zrt.StatePorts(pairs, 64, window=8, follow={"mask": "mask"}, step="tokens")
    zrt.Runtime(session, 2, state=ports, shapes={"tokens": (1, 1)})
    zrt.DynamicRuntime(session, state=zrt.kv_cache(session, 64, follow=["attention_mask"]))


def lanes(session: zrt.Session, image: Array) -> None:
    lane = session.lane(
        {"image": (1, 1, 8, 8)},
        inputs=zrt.LaneMemory.buffers(zrt.BufferPolicy.LATENCY),
        outputs=zrt.LaneMemory.allocated(zrt.MemoryInfo.cuda_pinned()),
        synchronize=True,
    )
    assert_type(lane, zrt.Lane)
    session.lane([(8, 1, 8, 8)], output_shapes={"probabilities": (8, 10)})
    lane.inputs["image"][...] = image
    lane.run()
    lane.run_with(zrt.RunOptions(tag="first request"))
    lane.prime(3)
    lane.outputs["probabilities"].argmax()
    audit = lane.audit()
    assert_type(audit.trial_error, str)
    session.lane({"image": (8, 1, 8, 8)}, samples={"rate": 16_000, "x": np.zeros(4, np.float32)})
    assert_type(audit, zrt.LaneAudit)
    audit.require_zero_copy()
    assert_type(audit.copies, tuple[str, ...])
    port = audit.inputs[0]
    assert_type(port, zrt.PortAudit)
    assert_type(port.memory, zrt.MemoryInfo)
    assert_type(lane.run_with_allocator_stats().delta, zrt.AllocatorStats)


def runtimes(session: zrt.Session, options: zrt.SessionOptions) -> None:
    shapes = {"image": (1, 1, 8, 8)}
    with zrt.Runtime(session, lanes=2, shapes=shapes) as runtime:
        assert_type(runtime[0], zrt.Lane)
        for lane in runtime:
            lane.run()
        assert_type(runtime.audit(), tuple[zrt.LaneAudit, ...])
    apart = zrt.Runtime.replicate("model.onnx", 2, options, share_weights=True, shapes=shapes)
    assert_type(apart, zrt.Runtime)
    zrt.Runtime.from_factory(lambda index: zrt.Session("model.onnx", options), lanes=2, shapes=shapes)
    dynamic = zrt.DynamicRuntime(session, lanes=2, max_buckets=4, outputs=zrt.LaneMemory.left())
    dynamic.warm([{"image": (1, 1, 8, 8)}, {"image": (8, 1, 8, 8)}], runs=8)
    assert_type(dynamic.lane({"image": (8, 1, 8, 8)}, 0), zrt.Lane)
    dynamic.buckets[0].shapes["image"][0].bit_length()


def buffers_and_values(array: Array) -> None:
    buffer = zrt.Buffer((2, 3), "float32", zrt.BufferPolicy(alignment=4096, prefault=True))
    buffer.array[...] = array
    assert_type(buffer.address, int)
    value = zrt.Value.allocate((2, 3), np.float32)
    zrt.copy(array, value)
    zrt.copy_all([(value, buffer), (buffer, array)])
    for made in (
        zrt.Value.from_array(array),
        zrt.Value.from_buffer(buffer),
        zrt.Value.from_strings(["a", "b"], (2,)),
        zrt.Value.from_sequence([array, value]),
        zrt.Value.from_map({"a": 1.5}),
        zrt.from_dlpack(array, device=zrt.MemoryInfo.cpu()),
    ):
        assert_type(made, zrt.Value)
        assert_type(made.shape, tuple[int, ...])
    tensor = zrt.SparseTensor("coo", (2, 3), np.array([5, 7], np.float32), np.array([[0, 1], [1, 2]]))
    assert_type(tensor.format, zrt.SparseFormat | str)
    assert_type(zrt.Value.from_sparse(tensor).sparse(), zrt.SparseTensor)


def allocators(environment: zrt.Environment, session: zrt.Session) -> None:
    allocator = session.allocator()
    assert_type(allocator, zrt.Allocator)
    with allocator.allocate(1 << 20) as scratch:
        assert_type(scratch, zrt.Allocation)
        scratch.numpy()[:] = 1
    assert_type(allocator.stats() - zrt.AllocatorStats(), zrt.AllocatorStats)
    environment.register_allocator(arena=zrt.ArenaConfig(max_mem=1 << 28, arena_extend_strategy="same_as_requested"))
    environment.create_shared_allocator(zrt.MemoryInfo.of("acme", "NPU"), {"arena.max_mem": "1000000000"})
    assert_type(environment.shared_allocator(zrt.MemoryInfo.cpu()), zrt.Allocator | None)


def environments() -> None:
    def factory(work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=work, name="ort worker")

    environment = zrt.Environment(
        "mine",
        "error",
        logging.getLogger("mine"),
        threading=zrt.ThreadingOptions(intra_op_num_threads=2, allow_spinning=False, thread_factory=factory),
        cpus="auto",
    )
    assert_type(environment.cpus, int | None)
    assert_type(zrt.Environment.cpu_budget(), zrt.CpuBudget | None)
    assert_type(environment.log_severity, zrt.LogSeverity)
    environment.register_provider_library("acme", "libacme_provider.so")
    assert_type(environment.provider_libraries, dict[str, str])
    zrt.Session("model.onnx", zrt.SessionOptions(execution_mode=zrt.ExecutionMode.PARALLEL, thread_factory=factory))


def devices(image: Array) -> None:
    def choose(offered: Sequence[zrt.EpDevice], metadata: Mapping[str, str]) -> list[zrt.EpDevice]:
        return [device for device in offered if device.hardware.type is zrt.HardwareType.CPU][-1:]

    for device in zrt.ep_devices():
        assert_type(device, zrt.EpDevice)
        zrt.Session("model.onnx", providers=[(device, {"precision": "fp16"}), "cpu"])
        stream = zrt.SyncStream(device)
        zrt.copy(image, zrt.Value.allocate(image.shape, "float32"), stream)
        stream.release_copies()
    hardware = zrt.hardware_devices()[0]
    assert_type(hardware, zrt.HardwareDevice)
    found = hardware.incompatibility("CPUExecutionProvider")
    assert_type(found, zrt.Incompatibility)
    if found.reasons & zrt.IncompatibilityReason.DRIVER_INCOMPATIBLE:
        print(found.notes)
    zrt.Session("model.onnx", providers=zrt.DevicePolicy.PREFER_GPU)
    zrt.Session("model.onnx", providers=choose)


def placement(session: zrt.Session) -> None:
    found = session.placement()
    assert_type(found, zrt.Placement)
    assert_type(found.nodes, tuple[zrt.NodePlacement, ...])
    assert_type(found.inputs, tuple[zrt.PortPlacement, ...])
    assert_type(found.providers, dict[str, int])


def memory_of_other_libraries(device: zrt.EpDevice, descriptor: int) -> None:
    zrt.init_graphics_interop(device, zrt.GraphicsApi.VULKAN)
    importer = zrt.ExternalResourceImporter(device)
    if importer.can_import(zrt.ExternalMemoryType.VK_MEMORY_OPAQUE_FD):
        memory = importer.import_memory("vk_memory_opaque_fd", descriptor, size=4096)
        assert_type(memory, zrt.ExternalMemory)
        assert_type(memory.tensor((1, 3), "float32"), zrt.Value)
    if importer.can_import(zrt.ExternalSemaphoreType.VK_TIMELINE_SEMAPHORE_OPAQUE_FD):
        semaphore = importer.import_semaphore("vk_timeline_semaphore_opaque_fd", descriptor)
        assert_type(semaphore, zrt.ExternalSemaphore)
        semaphore.wait(zrt.SyncStream(device), 1)
        semaphore.signal(zrt.SyncStream(device), 2)
    zrt.deinit_graphics_interop(device)


def weights(array: Array) -> None:
    for info in zrt.list_initializers("model.onnx"):
        assert_type(info, zrt.Initializer)
    made = zrt.fingerprint("model.onnx", external_data_dir="store", trusted_folders=["more"])
    assert_type(made, zrt.Fingerprint)
    assert_type(made.graph + made.weights, str)
    file = zrt.MappedFile("big.weights", prefetch=True)
    mapped = {
        info.name: file.tensor(info.element_type, info.shape, info.offset or 0)
        for info in zrt.list_initializers("big.onnx")
    }
    zrt.Session("big.onnx", zrt.SessionOptions(initializers=mapped))
    zrt.Session("model.onnx", zrt.SessionOptions(initializers={"w": array}))
    shared = zrt.SessionOptions(
        initializers=zrt.read_weights("model.onnx", trusted_folders=["store"]),
        optional_initializers=["w"],
        prepacked_weights=zrt.PrepackedWeights(),
        external_initializer_files={"big.weights": b""},
        trusted_folders=["store"],
    )
    zrt.Session("model.onnx", shared)
    zrt.save_lora_adapter("a.onnx_adapter", {"a": array})
    zrt.RunOptions(adapters=[zrt.LoraAdapter("a.onnx_adapter")])


def models_written_out() -> None:
    def place(info: zrt.Initializer, read: Callable[[], npt.NDArray[Any]]) -> tuple[str, int] | None:
        return None if info.nbytes < 1024 else ("mine.weights", read().nbytes)

    zrt.save_optimized("model.onnx", "split.onnx", weights_file="split.weights", weights_from=1024)
    zrt.compile("model.onnx", "compiled.onnx", providers=zrt.prefer_gpu())
    zrt.compile("model.onnx", io.BytesIO().write)
    zrt.compile("model.onnx", "mine.onnx", get_initializer_location_func=place)
    info = zrt.compatibility_info("model.onnx", "CPUExecutionProvider")
    assert_type(info, str | None)
    assert_type(zrt.model_compatibility(info or "", "CPUExecutionProvider"), zrt.ModelCompatibility)


def profiles(session: zrt.Session, image: Array) -> None:
    profile = session.profile([image], runs=20, warmup=5)
    assert_type(profile, zrt.Profile)
    assert_type(profile.by_operator(), list[zrt.ProfileRow])
    assert_type(profile.nodes, tuple[zrt.ProfileEvent, ...])
    profile.write("trace.json")
    assert_type(zrt.Profile.read("trace.json"), zrt.Profile)
    report = zrt.memory_report(session, [image])
    assert_type(report, zrt.MemoryReport)
    assert_type(zrt.memory_report(zrt.SessionSpec("model.onnx")).peak_bytes, int | None)


def checks() -> None:
    check = zrt.check("model.onnx", zrt.SessionOptions(), ["CPUExecutionProvider"])
    assert_type(check, zrt.Check)
    assert_type(check.problems, tuple[zrt.Problem, ...])
    assert_type(check.nodes, dict[str, int] | None)


def differences(spec: zrt.SessionSpec, image: Array) -> None:
    found = zrt.diff("reference", spec, {"image": image}, rtol=1e-3, library="libonnxruntime.so")
    assert_type(found, zrt.Diff)
    assert_type(found.optimizers, tuple[str, ...])
    assert_type(found.first, zrt.Difference | None)
    assert_type(found.worst(3), list[zrt.Difference])


def records(session: zrt.Session, image: Array) -> None:
    with session.record(100, capsules="capsules", slower_than=0.5, times_median=10, feeds=True) as recorder:
        assert_type(recorder, zrt.Recorder)
        session.run([image])
        assert_type(recorder.runs, tuple[zrt.RecordedRun, ...])
        assert_type(recorder.runs[0].shapes, dict[str, tuple[int, ...]])
        for capsule in recorder.capsules:
            assert_type(zrt.replay(capsule, "model.onnx"), zrt.Replay)


def tuning(spec: zrt.SessionSpec, image: Array) -> None:
    found = zrt.tune(spec, {"image": image}, goal="throughput", seconds=10)
    assert_type(found, zrt.Tuning)
    assert_type(found.options, zrt.Options)
    assert_type(found.trials, tuple[zrt.Trial, ...])
    assert_type(found.trials[0].ratio, float | None)
    zrt.tune(spec, [{"image": image}, {"image": image}])


def options_in_files() -> None:
    options = zrt.load_options("options.toml")
    assert_type(options, zrt.Options)
    zrt.Session("model.onnx", options.session, options.providers)
    made = zrt.Options(session=zrt.SessionOptions(), providers=[providers.CUDA(device_id=1), "cpu"])
    Path("made.json").write_text(made.to_json())
    assert_type(zrt.SessionOptions.from_json(made.session.to_json()), zrt.SessionOptions)


def choice_of_providers(options: Any) -> None:
    assert_type(providers.usable("cuda"), str | None)
    assert_type(providers.available_providers(), list[str])
    assert_type(providers.prefer_gpu(), list[providers.Provider])
    assert_type(zrt.available_providers(), list[str])
    assert_type(providers.full_name("cuda"), str)
    wanted: list[providers.ProviderLike] = [providers.CUDA(), "cpu", ("cuda", {"device_id": "1"})]
    for name, settings in providers.parse_all(wanted):
        assert_type(settings, dict[str, str])
        assert providers.parse(name)[0] == name
        providers.append(options, name, settings)
    zrt.Session("model.onnx", providers=wanted)
    assert_type(providers.CUDA.low_memory(2**30, device_id=1), providers.CUDA)


def every_provider() -> list[providers.Provider]:
    return [
        providers.ACL(enable_fast_math=True),
        providers.Azure(),
        providers.CANN(device_id=0),
        providers.CoreML(model_format="MLProgram"),
        providers.CPU(),
        providers.CUDA(device_id=0, use_tf32=False, enable_cuda_graph=True),
        providers.CUDAPlugin(prefer_nhwc=True),
        providers.DML(device_id=0),
        providers.DNNL(use_arena=False),
        providers.JS(preferred_layout="NHWC"),
        providers.MIGraphX(device_id=0),
        providers.NNAPI(use_fp16=True),
        providers.NvTensorRTRTX(device_id=0),
        providers.OpenVINO(device_type="GPU", load_config={"GPU": {"PERF_COUNT": "YES"}}),
        providers.QNN(backend_path=Path("libQnnHtp.so")),
        providers.RKNPU(),
        providers.ROCM(device_id=0),
        providers.SNPE(runtime="DSP"),
        providers.TensorRT(device_id=0),
        providers.VitisAI(extra={"config_file": "vaip_config.json"}),
        providers.VSINPU(),
        providers.WebGPU(preferred_layout="NHWC"),
        providers.WebNN(device_type="gpu"),
        providers.XNNPACK(intra_op_num_threads=2),
    ]


def graphs(array: Array) -> None:
    g = zrt.Graph(opset=21, name="embedding")
    x = g.input("x", "float32", ("n", 4))
    assert_type(x, zrt.GraphValue)
    w = g.initializer("w", array, borrow=True)
    g.output(g.op("Gemm", x, w, alpha=2.0, outputs="y"), "float32", ("n", None))
    then = g.subgraph("then")
    then.output(then.op("Relu", x))
    g.op("If", g.input("positive", "bool", ()), then_branch=then, else_branch=then)
    g.input("s", graph.SequenceType(graph.TensorType("float32", ("n", 4))))
    g.input("m", graph.MapType("int64", graph.TensorType("string")))
    g.input("o", graph.OptionalType(graph.SparseTensorType(zrt.ElementType.FLOAT)))
    kind: graph.GraphType | None = x.type
    assert_type(g.engine, graph.Engine)
    assert_type(g.session(zrt.SessionOptions(), ["cpu"]), zrt.Session)
    g.check()
    g.save("embedding.onnx", external_data=True)
    assert_type(graph.Graph.from_onnx(g.to_bytes()), zrt.Graph)
    print(kind)


def edited_graphs(array: Array) -> None:
    edit = zrt.edit("model.onnx")
    assert_type(edit, zrt.GraphEdit)
    edit.remove_input("image")
    best = edit.op("TopK", edit.value("probabilities"), edit.initializer("k", array), outputs=["p", "digit"])
    edit.output(best[0])
    assert_type(edit.finalize(), zrt.Session)
    graph.GraphEdit("model.onnx").opset()
    graph.edit(Path("model.onnx"))
    value: graph.GraphValue = edit.value("image")
    print(value)


class Scale(zrt.CustomOp):
    inputs = ("float32", custom_ops.Input(dtype="float32", optional=True))
    outputs = (custom_ops.Output(dtype="float32"),)
    attributes: ClassVar = {"by": float, "offset": custom_ops.Attribute(float, 0.0)}

    def create(self, info: custom_ops.KernelInfo) -> custom_ops.Op:
        assert_type(info.logger, custom_ops.OpLogger)
        info.logger.log("info", "made")
        return custom_ops.Op(info, "Relu", ["float32"], ["float32"], version=14, types={"T": "float32"})

    def infer_shapes(self, context: custom_ops.ShapeContext) -> None:
        kind, shape = context.input(0)
        assert_type(kind, zrt.ElementType)
        context.set_output(0, shape, kind)

    def compute(self, context: custom_ops.KernelContext) -> None:
        x = context.inputs[0]
        y = context.output(0, x.shape)
        if isinstance(x, custom_ops.DeviceTensor):
            assert_type(x.address, int)
        context.state.invoke(context, [x], [y])
        context.scratch((2, 3), np.float32)[...] = 0
        context.parallel_for(print, 8)


class Add(custom_ops.CustomOp):
    inputs = ("float32", "float32")
    outputs = ("float32",)
    function = custom_ops.CFunction(0x7F00DEADBEEF, shaped_like=(0,), user_data=os.getpid())


def operators() -> zrt.SessionOptions:
    domain = zrt.CustomOpDomain("my.ops", [Scale(), Add()])
    assert_type(custom_ops.CustomOpDomain("others", []), zrt.CustomOpDomain)
    return zrt.SessionOptions(custom_ops=[domain])


def served() -> serving.Application:
    spec = zrt.SessionSpec("model.onnx")
    app = serving.application({"a": spec, "b": {"1": "model.onnx", "2": zrt.Session("model.onnx")}}, max_wait=200)
    app.load()
    assert_type(app.ready, bool)
    app.close()
    return app


def on_a_cluster(image: Array) -> None:
    spec = zrt.SessionSpec("model.onnx")
    scorer = ray.Scorer(spec, inputs={"x": ["a", "b"], "y": "c"}, keep=["id"], batch=32, skip_bad=True, lanes=2)
    print(scorer({"a": image, "b": image, "c": image, "id": image}))
    # Ray may be missing where pyright runs, and its types are incomplete.
    print(ray.deployment(served(), replicas=4, per_node=2, cpus=2, gpus=0.5, grace=10.0))  # pyright: ignore
    print(served().capacity)


def own_annotations(
    session: zrt.Session,
    model: typing.Model,
    feeds: typing.Feeds,
    providers: typing.ProvidersLike,
    **options: Unpack[typing.LaneOptions],
) -> tuple[typing.Ports, typing.Slots]:
    proto: typing.ModelProto | None = model if isinstance(model, typing.ModelProto) else None
    results: list[typing.Result] = zrt.Session(proto or model, providers=providers).run(feeds)
    lane = session.lane([(8, 1, 8, 8)], **options)
    assert_type(lane.run_with_allocator_stats(), typing.RunStats)
    print(results)
    return lane.inputs, lane.slots


def annotated_options(
    shaped: typing.ShapedLaneOptions, of_lanes: typing.RuntimeLaneOptions, of_runtime: typing.RuntimeOptions
) -> None:
    session = zrt.Session("model.onnx")
    zrt.Runtime(session, lanes=2, **shaped)
    dynamic = zrt.DynamicRuntime(session, lanes=2, **of_lanes)
    assert_type(dynamic.buckets, tuple[typing.Bucket, ...])
    assert_type(dynamic.counters, typing.Counters)
    zrt.Runtime.replicate("model.onnx", 2, **of_runtime)
    assert_type(session.placement().subgraphs, tuple[typing.Assignment, ...] | None)
    for subgraph in session.placement().subgraphs or ():
        assert_type(subgraph.nodes, tuple[typing.AssignedNode, ...])
    option: typing.Option = providers.CUDA.options()["device_id"]
    route: typing.Route = option.route
    handle: typing.Handle = zrt.MemoryInfo.cpu().handle()
    made: typing.PoolOptions = zrt.SessionOptions().handle()
    print(route, handle, made)


def drop_in(image: Array) -> None:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads = 1
    assert_type(options.execution_mode, ort.ExecutionMode)
    assert_type(options.logid, str)
    options.add_session_config_entry("session.disable_prepacking", "1")
    session = ort.InferenceSession(
        "model.onnx",
        sess_options=options,
        providers=[("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"],
    )
    [first, *_] = session.get_inputs()
    assert_type(first.name, str)
    assert_type(first.shape, list[int | str | None])
    assert_type(session.get_modelmeta().custom_metadata_map, dict[str, str])
    assert_type(session.get_session_options(), ort.SessionOptions)
    run_options = ort.RunOptions()
    run_options.terminate = False
    assert_type(session.run(None, {first.name: image}, run_options), list[Any])
    session.run_async(["probabilities"], {first.name: image}, lambda results, data, error: print(results, error), None)
    value = ort.OrtValue.ortvalue_from_numpy(image, "cpu", 0)
    assert_type(value.numpy(), np.ndarray[Any, Any])
    assert_type(session.run_with_ort_values(None, {first.name: value}), list[ort.OrtValue])
    ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float32).update_inplace(image)
    ort.set_default_logger_severity(3)
    assert_type(ort.get_available_providers(), list[str])
    assert_type(ort.get_device(), str)
    assert_type(ort.__version__, str)


def bound_drop_in(session: ort.InferenceSession, image: Array) -> None:
    binding = session.io_binding()
    assert_type(binding, ort.IOBinding)
    binding.bind_cpu_input("image", image)
    binding.bind_input("image", "cuda", 0, np.float32, image.shape, image.ctypes.data)
    binding.bind_output("probabilities", "cpu")
    session.run_with_iobinding(binding)
    assert_type(binding.get_outputs(), list[ort.OrtValue])
    assert_type(binding.copy_outputs_to_cpu(), list[Any])


def modules_of_the_drop_in(
    session: ort.InferenceSession, image: Array, locate_initializer: collection.GetInitializerLocationFunc
) -> None:
    try:
        session.run(None, {"image": image})
    except ort.capi.onnxruntime_pybind11_state.InvalidArgument as error:
        assert_type(error, extension.InvalidArgument)
    except (extension.Fail, _pybind_state.NoSuchFile):
        raise
    memory = _pybind_state.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    assert_type(memory.device_id, int)
    names, settings = collection.check_and_normalize_provider_args(["CPUExecutionProvider"], None, [])
    assert_type(settings, list[dict[str, str]])
    for device in ort.get_ep_devices():
        assert_type(device.device.type, ort.OrtHardwareDeviceType)
    ort.ModelCompiler(ort.SessionOptions(), "model.onnx", get_initializer_location_func=locate_initializer)
    print(names, ort.ExecutionMode.ORT_PARALLEL == 1, ort.OrtDevice.make("cpu", 0).device_type())
