"""One operation of each kind that zrt has, for the tests that let something fail in each."""

import asyncio
import io
import json
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import ClassVar

import numpy as np
import onnx

import zrt
from tests.custom_ops.support import Add, Op, build, one_node, options
from tests.robustness.prologue import ADD, FEEDS, QUIET, binding, lane, session
from tests.support import models
from zrt.custom_ops import Attribute, CustomOp
from zrt.custom_ops import Op as Standard
from zrt.scoring.parts import Parts
from zrt.scoring.score import score
from zrt.scoring.scorer import Scorer
from zrt.scoring.sources import open_source
from zrt.serving import application

F = "float32"
X = np.arange(4, dtype=np.float32)
STATE = "(float[4] x, float[4] s) => (float[4] y, float[4] t) { y = Add(x, s)  t = Identity(y) }"
SEQUENCE = "(seq(float[n]) s) => (seq(float[n]) t) { t = Identity(s) }"
TEXTS = "(string[n] s) => (string[n] t) { t = Identity(s) }"
ROWS = "(float[n, 4] x) => (float[n, 4] y) { y = Neg(x) }"
WEIGHTED = "(float[4] x) => (float[4] y) { y = Add(x, w) }"


class Invoking(Op):
    """y = x + 10, by ONNX Runtime's own operator."""

    attributes: ClassVar = {"n": Attribute(int, 1), "t": Attribute(list[str], ["a"])}

    def create(self, info):
        assert info.constant_input(0) is None
        assert not info.config_entries
        assert info.allocator().memory.is_host
        return Standard(info, "Add", [F, F], [F], version=14, types={"T": F})

    def work(self, context):
        context.state.invoke(context, [context.inputs[0], np.float32([10])], [context.output(0, (4,))])


class Sum(CustomOp):
    """The sum of 20 inputs."""

    inputs = (np.float32,) * 20
    outputs = (np.float32,)

    def compute(self, context):
        np.sum(context.inputs, axis=0, out=context.output(0, context.inputs[0].shape))


# Operations in which zrt gives the status of a failed call to ONNX Runtime, which then releases it.
STATUS_IS_PASSED_ON = {
    "run of a custom operator",
    "run of a custom operator with many inputs",
    "load of a custom operator",
}


async def answer(served, tensors):
    """The answer of an ASGI application to a request for a run; raises the error of zrt that it tells."""
    asked, told = asyncio.Queue(), asyncio.Queue()
    server = asyncio.create_task(served({"type": "lifespan"}, asked.get, told.put))
    asked.put_nowait({"type": "lifespan.startup"})
    started = await told.get()
    if started["type"] != "lifespan.startup.complete":
        await asyncio.gather(server, return_exceptions=True)
        raise zrt.Error(started["message"])
    try:
        body = json.dumps({"inputs": tensors}).encode()
        asked.put_nowait({"type": "http.request", "body": body, "more_body": False})
        address = {"path": "/v2/models/add/infer", "raw_path": b"/v2/models/add/infer", "query_string": b""}
        await served({"type": "http", "method": "POST", "headers": [], **address}, asked.get, told.put)
        status, document = (await told.get())["status"], json.loads((await told.get())["body"])
        if status != 200:
            raise zrt.Error(document["error"])
        return document
    finally:
        asked.put_nowait({"type": "lifespan.shutdown"})
        await server


def quiet(**settings):
    return zrt.SessionOptions(intra_op_num_threads=1, log_severity_level="FATAL", **settings)


def make(folder):
    """Functions by names; they keep their files in `folder`."""
    one, many = session(), session()
    array = np.zeros(4, np.float32)
    own, chosen = lane(one), zrt.RunOptions()
    path = folder / "add.onnx"
    path.write_bytes(ADD)
    weighted = models.parse(WEIGHTED, w=np.ones(4, np.float32))
    models.save_apart(weighted, folder / "outside.onnx", "outside.weights")
    zrt.save_lora_adapter(folder / "adapter", {"w": np.ones(4, np.float32)})
    with_state = zrt.Session(models.parse(STATE), QUIET)
    sequence, texts = zrt.Session(models.parse(SEQUENCE), QUIET), zrt.Session(models.parse(TEXTS), QUIET)
    adding = options([Add()])
    custom = zrt.Session(build("(float[n] x, float[n] y) => (float[n] z) { z = test.ops.Add(x, y) }"), adding)
    summing = one_node(Sum(), ["x"] * 20, ["y"], onnx.TensorProto.FLOAT, 4)
    environment = zrt.Environment()
    rows = zrt.Session(models.parse(ROWS), QUIET)
    np.save(folder / "rows.npy", np.ones((10, 4), np.float32))
    tensors = [{"name": name, "datatype": "FP32", "shape": [4], "data": [1, 2, 3, 4]} for name in FEEDS]

    def load(model=ADD, settings=QUIET, **more):
        with zrt.Session(model, settings, **more) as loaded:
            return loaded.inputs, loaded.outputs, loaded.metadata

    def rebind():
        bound = binding(one)
        bound.bind_output("z", array)
        bound.run()
        bound.bind_output("z")
        bound.run()
        return bound.outputs()

    def stateful():
        with with_state.lane(state={"t": "s"}) as stepping:
            stepping.inputs["x"][...] = X
            stepping.run()
            kept, saved = stepping.state.snapshot(), io.BytesIO()
            with stepping.new_state(kept) as state:
                stepping.run(state)
                state.save(saved)
                saved.seek(0)
                state.load(saved)

    def invoking():
        settings = options([Invoking()])
        with zrt.Session(build("(float[n] x) => (float[n] y) { y = test.ops.Op(x) }"), settings) as loaded:
            return loaded.run([X])

    def graph():
        built = zrt.Graph(name="net")
        h = built.op("Neg", built.input("x", F, (4,)))
        built.output(built.op("Add", h, built.initializer("w", np.ones(4, np.float32)), outputs="z"), F, (4,))
        with built.session(QUIET, engine="editor") as loaded:
            return loaded.run([X])

    def edit():
        with zrt.edit(weighted, QUIET) as editing:
            editing.output(editing.op("Neg", editing.value("y"), outputs="v"), F, (4,))
            with editing.finalize(engine="editor") as loaded:
                return loaded.run([X])

    def adapter():
        with zrt.LoraAdapter(folder / "adapter") as lent:
            return zrt.RunOptions(adapters=[lent])

    def shared():
        environment.register_allocator(arena=zrt.ArenaConfig())
        environment.unregister_allocator()

    def given():
        weights = {"w": np.ones(4, np.float32)}
        with zrt.Session(weighted, quiet(initializers=weights, prepacked_weights=zrt.PrepackedWeights())) as loaded:
            return loaded.run([X])

    def allocated():
        memory = one.allocator()
        with memory.allocate(64):
            return memory.stats, memory.memory

    def recorded():
        with session() as watched:
            recorder = watched.record(4)
            watched.run(FEEDS)
            return recorder.runs

    def scored():
        parts = Parts(folder / "scored.npy", "npy", {}, resume=True, overwrite=True)
        try:
            if not parts.finished:
                score(open_source(folder / "rows.npy", "npy"), Scorer(rows, 4), {"x": [""]}, parts, threads=2)
            parts.finish()
        finally:
            parts.close()

    def serve():
        served, loop = application({"add": one}), asyncio.new_event_loop()
        with ThreadPoolExecutor(1) as executor:
            loop.set_default_executor(executor)
            try:
                return loop.run_until_complete(answer(served, tensors))
            finally:
                loop.close()
                served.close()

    return {
        "load": load,
        "load a file": lambda: load(path),
        "load with options": lambda: load(
            settings=quiet(
                graph_optimization_level="ENABLE_BASIC",
                enable_mem_pattern=False,
                free_dimension_overrides={"n": 4},
                set_denormal_as_zero=True,
            )
        ),
        "load with weights outside": lambda: load(folder / "outside.onnx"),
        "load with given weights": given,
        "load through a cache": lambda: load(path, quiet(cache=folder / "cache")),
        "load with bounded memory": lambda: load(settings=quiet(memory="bounded")),
        "run": lambda: one.run(FEEDS),
        "run with options": lambda: one.run(FEEDS, ["z"], chosen),
        "run with a timeout": lambda: one.run(FEEDS, timeout=60),
        "run of a new shape": lambda: session().run(FEEDS),
        "run of texts": lambda: texts.run([np.array(["a", "bc"], object)]),
        "run of a sequence": lambda: sequence.run([[X, X]]),
        "run of a custom operator": lambda: custom.run(FEEDS),
        "run of a custom operator with many inputs": lambda: summing.run([X]),
        "load of a custom operator": invoking,
        "prepare": lambda: one.prepare(FEEDS).run(),
        "lane": lambda: lane(one).run(),
        "run of a lane": lambda: (own.run(), own.run_with(chosen)),
        "dynamic lane": lambda: zrt.DynamicRuntime(many, max_buckets=2).lane({"x": 4, "y": 4}).run(),
        "state": stateful,
        "binding": lambda: binding(one).numpy(),
        "outputs": rebind,
        "submit": lambda: one.submit(FEEDS).result(60),
        "await": lambda: asyncio.run(one.run_async(FEEDS)),
        "array": lambda: zrt.Value.from_array(array).numpy(),
        "texts": lambda: zrt.Value.from_strings(["a", "bc"]).numpy(),
        "buffer": lambda: zrt.Buffer((4,), F, zrt.BufferPolicy(hugepage=True, prefault=True, lock=True)).array,
        "mapped file": lambda: zrt.MappedFile(path, prefetch=True, lock=True).array(),
        "allocated value": lambda: zrt.Value.allocate((4,), np.float32, one.allocator()).numpy(),
        "sequence": lambda: [value.numpy() for value in zrt.Value.from_sequence([X, X]).elements()],
        "map": lambda: zrt.Value.from_map({1: 2.0}).to_dict(),
        "DLPack": lambda: zrt.from_dlpack(zrt.Value.from_array(array)).numpy(),
        "copy": lambda: zrt.copy(FEEDS["x"], array),
        "allocator": allocated,
        "registered allocator": shared,
        "devices": zrt.ep_devices,
        "run options": lambda: zrt.RunOptions(tag="t", config_entries={"a": "b"}),
        "adapter": adapter,
        "graph": graph,
        "edit": edit,
        "save optimized": lambda: zrt.save_optimized(path, folder / "optimized.onnx", QUIET),
        "compile": lambda: zrt.compile(path, folder / "compiled.onnx", QUIET),
        "placement": lambda: zrt.Session(ADD, quiet(record_placement=True)).placement(),
        "profile": lambda: one.profile(FEEDS),
        "memory report": lambda: zrt.memory_report(one),
        "record": recorded,
        "tap": lambda: zrt.Session(path, QUIET).tap(["z"]).run(FEEDS),
        "score": scored,
        **({"serve": serve} if find_spec("starlette") else {}),
        "compatibility": lambda: zrt.compatibility_info(path, "CPUExecutionProvider"),
    }
