"""Real builds with the stand-in for nixpkgs: the official library and headers, and the tools of the machine."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
CHECKS = "checks.x86_64-linux"


class TestZrt:
    def test_zrt_builds_and_passes_its_tests(self, builder: Any) -> None:
        [path] = builder.build(f"{CHECKS}.tests")
        assert path.startswith("/nix/store/")

    def test_second_build_gives_the_same_bytes(self, builder: Any) -> None:
        recipe = builder.evaluate(
            "apps.x86_64-linux.zrt.program", "text: builtins.head (builtins.attrNames (builtins.getContext text))"
        )
        builder.plain("build", "--no-link", f"{recipe}^out")
        builder.plain("build", "--no-link", "--rebuild", f"{recipe}^out")


@pytest.fixture(scope="module")
def core(compiler: Any) -> str:
    """ONNX Runtime from source."""
    [path] = compiler.build("packages.x86_64-linux.onnxruntime-cpu")
    return str(path)


class TestFromSource:
    """ONNX Runtime compiled for real, with the options, hooks and hardening that the flake gives it."""

    def test_core_is_one_archive_with_flat_headers(self, compiler: Any, core: str) -> None:
        listed = compiler.plain("store", "ls", "--recursive", core).split()
        assert {
            "./lib/libonnxruntime.a",
            "./lib/pkgconfig/libonnxruntime.pc",
            "./include/onnxruntime_c_api.h",
            "./share/doc/onnxruntime/LICENSE",
            "./share/doc/onnxruntime/ThirdPartyNotices.txt",
        } <= set(listed)
        assert [name for name in listed if name.endswith(".a")] == ["./lib/libonnxruntime.a"]
        assert not [name for name in listed if name.startswith("./include/") and not name.endswith(".h")]
        assert "./lib/cmake" not in listed

    def test_zrt_passes_on_the_core_and_does_not_refer_to_it(self, compiler: Any, core: str) -> None:
        [path] = compiler.build("packages.x86_64-linux.zrt-cpu")
        closure = compiler.plain("path-info", "--recursive", path).split()
        assert path in closure
        assert not [name for name in closure if re.search("onnxruntime|cuda|cudnn|nvidia", name)]


class TestRecipe:
    """The whole recipe of ONNX Runtime from source, on an invented source that compiles in seconds."""

    CMAKE = """
        cmake_minimum_required(VERSION 3.28)
        project(onnxruntime C ASM)
        if(onnxruntime_BUILD_SHARED_LIB OR NOT EXISTS ${onnxruntime_CMAKE_DEPS_MIRROR_DIR}/github.com)
          message(FATAL_ERROR "not the options of the flake")
        endif()
        function(archive name)
          string(MAKE_C_IDENTIFIER ${name} function)
          file(WRITE ${CMAKE_BINARY_DIR}/${name}.c
            "int function_of_${function}(int n) { return n > 1 ? n ^ function_of_${function}(n - 1) : 1; }\\n")
          add_library(${name} STATIC ${ARGN} ${CMAKE_BINARY_DIR}/${name}.c)
        endfunction()
        foreach(name session optimizer providers lora framework graph util common flatbuffers)
          archive(onnxruntime_${name})
          install(TARGETS onnxruntime_${name})
        endforeach()
        archive(onnxruntime_mlas kernel.S)
        if(onnxruntime_USE_CUDA)
          enable_language(CXX)
          enable_language(CUDA)
          find_package(CUDAToolkit REQUIRED)
          file(WRITE ${CMAKE_BINARY_DIR}/shared.c "int shared;\\n")
          add_library(onnxruntime_providers_shared MODULE ${CMAKE_BINARY_DIR}/shared.c)
          add_library(onnxruntime_providers_cuda MODULE provider.cu)
          target_compile_definitions(onnxruntime_providers_cuda PRIVATE COMPILER="${CMAKE_CUDA_COMPILER}")
          set_target_properties(onnxruntime_providers_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Shared)
          target_link_libraries(onnxruntime_providers_cuda CUDA::cudart CUDA::cuda_driver)
          install(TARGETS onnxruntime_providers_shared onnxruntime_providers_cuda
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
        endif()
        foreach(name onnx onnx_proto protobuf-lite cpuinfo flatbuffers absl_base)
          archive(${name})
        endforeach()
        if(onnxruntime_REDUCED_OPS_BUILD)
          if(NOT onnxruntime_MINIMAL_BUILD OR onnxruntime_DISABLE_EXCEPTIONS)
            message(FATAL_ERROR "not the options of a minimal build")
          endif()
          foreach(name platform convsym)
            file(READ ../onnxruntime/core/mlas/lib/${name}.cpp text)
            if(text MATCHES MINIMAL)
              message(FATAL_ERROR "no kernels for AVX-512: ${text}")
            endif()
          endforeach()
          file(READ ${CMAKE_BINARY_DIR}/chosen chosen)
          file(WRITE ${CMAKE_BINARY_DIR}/chosen.h "/* ${chosen} */\n")
          install(FILES ${CMAKE_BINARY_DIR}/chosen.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onnxruntime)
        endif()
        archive(re2)
        set_target_properties(re2 PROPERTIES EXCLUDE_FROM_ALL ON)
        install(FILES ../include/onnxruntime_c_api.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onnxruntime)
        install(FILES ../include/endian.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/onnxruntime/core/common)
        install(FILES ../LICENSE DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig RENAME libonnxruntime.pc)
        install(FILES ../LICENSE DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/onnxruntime)
    """

    KERNELS = ("onnxruntime/core/mlas/lib/platform.cpp", "onnxruntime/core/mlas/lib/convsym.cpp")

    # In the place of upstream's script: keeps the list of operators for the build.
    REDUCE = """
import pathlib, sys
option, folder, operators = sys.argv[1:]
assert option == "--cmake_build_dir"
pathlib.Path(folder).mkdir(parents=True)
pathlib.Path(folder, "chosen").write_text(pathlib.Path(operators).read_text())
"""

    # A kernel, and in the constant data the compiler's path, which no library may keep.
    PROVIDER = """
        #include <cuda.h>
        #include <cuda/std/type_traits>
        __global__ void twice(float *values) {
          static_assert(cuda::std::is_same_v<decltype(values[0] * 2), float>);
          values[threadIdx.x] *= 2;
        }
        extern "C" const char *compiled_by() { return COMPILER; }
        extern "C" int run(float *values, int count) {
          twice<<<1, count>>>(values);
          int version;
          return cudaGetLastError() + cuDriverGetVersion(&version);
        }
    """

    @pytest.fixture(scope="class")
    @classmethod
    def made_up(cls, nix: Any) -> Any:
        """Nix with a stand-in that has this source for each release, and every archive that the mirrors need."""
        other = nix.with_sources("nixpkgs-with-made-up-source")
        sources = other.stand_in / "sources"
        facts = nix.evaluate(
            "packages.x86_64-linux",
            """packages:
            let of = p: { inherit (p.release) version apiVersion; names = map (e: e.name) p.mirror.entries; };
            in map of [ packages.onnxruntime-cpu packages.onnxruntime-cuda-hybrid ]""",
        )
        for release in facts:
            rows = []
            for name in release["names"]:
                data = name.encode()
                (sources / name.rpartition("/")[2]).write_bytes(data)
                rows.append(f"some;https://{name};{hashlib.sha1(data).hexdigest()}\n")
            files = {
                "tools/ci_build/reduce_op_kernels.py": cls.REDUCE,
                "cmake/CMakeLists.txt": cls.CMAKE,
                **dict.fromkeys(cls.KERNELS, "#if !defined(ORT_MINIMAL_BUILD)\nfor AVX-512\n#endif\n"),
                "cmake/deps.txt": "".join(rows),
                "cmake/provider.cu": cls.PROVIDER,
                "cmake/kernel.S": ".globl kernel\nkernel:\n  ret\n",
                "include/onnxruntime_c_api.h": f"#define ORT_API_VERSION {release['apiVersion']}\n",
                "include/endian.h": "#error not public\n",
                "LICENSE": "",
                "ThirdPartyNotices.txt": "",
            }
            with tarfile.open(sources / f"onnxruntime-{release['version']}.tar.gz", "w:gz") as archive:
                for name, content in files.items():
                    member = tarfile.TarInfo(f"onnxruntime/{name}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content.encode()))
        return other

    def test_recipe_makes_one_archive_flat_headers_and_one_pc_file(self, made_up: Any) -> None:
        [path] = made_up.build("packages.x86_64-linux.onnxruntime-cpu")
        listed = set(made_up.plain("store", "ls", "--recursive", path).split())
        assert {name for name in listed if name.endswith((".a", ".h", ".pc", ".so", ".cmake"))} == {
            "./include/onnxruntime_c_api.h",
            "./lib/libonnxruntime.a",
            "./lib/pkgconfig/libonnxruntime.pc",
        }
        assert "Libs: -L${libdir} -lonnxruntime" in made_up.plain(
            "store", "cat", f"{path}/lib/pkgconfig/libonnxruntime.pc"
        )

    def test_recipe_leaves_kernels_out_that_no_model_needs(self, made_up: Any) -> None:
        done = made_up.build_expression("""
          import (nix + /onnxruntime) {
            inherit pkgs;
            requiredOperators = builtins.toFile "operators" "ai.onnx;17;Conv,Relu";
            minimal = true;
          }
        """)
        assert done.returncode == 0, done.stderr
        path = done.stdout.strip()
        assert made_up.plain("store", "cat", f"{path}/include/chosen.h") == "/* ai.onnx;17;Conv,Relu */\n"
        [full] = made_up.build("packages.x86_64-linux.onnxruntime-cpu")
        assert "chosen.h" not in made_up.plain("store", "ls", "--recursive", full)

    def test_archive_has_aligned_kernels_and_every_function(self, made_up: Any) -> None:
        [path] = made_up.build("packages.x86_64-linux.onnxruntime-cpu")
        done = made_up.build_expression(f"""
          pkgs.runCommand "symbols" {{ }} "nm --defined-only ${{builtins.storePath {path}}}/lib/libonnxruntime.a >$out"
        """)
        assert done.returncode == 0, done.stderr
        symbols = made_up.plain("store", "cat", done.stdout.strip())
        assert "0000000000000030 T kernel" in symbols
        assert len(re.findall(r"T function_of_", symbols)) == 17

    def symbols(self, made_up: Any, core: str) -> Any:
        """Builds the symbols of the engine `core`, an expression that knows the `counts` of a program's run."""
        return made_up.build_expression(f"""
          let
            core = arguments: import (nix + /onnxruntime/source.nix) ({{ inherit pkgs; }} // arguments);
            linked = toString (core {{ counting = true; }}).linkArgs;
            # In the place of the command zrt.
            zrt = pkgs.runCommand "program" {{ }} ''
              mkdir -p $out/bin
              echo 'int function_of_onnxruntime_session(int); int function_of_onnxruntime_mlas(int);' >main.c
              echo 'int main(void) {{ return function_of_onnxruntime_session(1000) == 0 ||' >>main.c
              echo 'function_of_onnxruntime_mlas(1000) == 0; }}' >>main.c
              $(command -v gcc-15 || command -v gcc) main.c ${{linked}} -o $out/bin/zrt
            '';
            models = [ (builtins.dirOf nix + "/zrt/models/digits.onnx") ];
            counts = import (nix + /onnxruntime/counts.nix) {{ inherit pkgs zrt models; }};
            # As those of another source would be.
            moved = pkgs.runCommand "moved" {{ }} ''
              mkdir $out
              cp $(find ${{counts}} -name '*.gcda' -print -quit) $out/other.gcda
            '';
          in
          pkgs.runCommand "symbols" {{ }} "objdump -t ${{{core}}}/lib/libonnxruntime.a >$out"
        """)

    def test_what_is_around_the_kernels_is_compiled_for_the_runs_that_were_counted(self, made_up: Any) -> None:
        done = self.symbols(made_up, "core { inherit counts; }")
        assert done.returncode == 0, done.stderr
        symbols = made_up.plain("store", "cat", done.stdout.strip())
        assert re.search(r"\.text\.hot\s.*\bfunction_of_onnxruntime_session$", symbols, re.MULTILINE)
        assert re.search(r"\.text\s.*\bfunction_of_onnxruntime_mlas$", symbols, re.MULTILINE)

    def test_counts_of_another_source_are_an_error(self, made_up: Any) -> None:
        done = self.symbols(made_up, "core { counts = moved; }")
        assert done.returncode != 0
        assert "zrt: ./other.gcda: no object beside it; it is from another source or folder" in done.stderr

    def test_recipe_with_cuda_makes_a_provider_that_finds_the_driver(self, cuda: Any, made_up: Any) -> None:
        done = made_up.build_expression("""
          let
            pkgs' = stand-in { system = "x86_64-linux"; config.allowUnfreePredicate = _: true; };
            set = pkgs'.cudaPackages_13;
            # In the place of the large libraries, which nothing here calls, is the runtime.
            large = pkgs.lib.genAttrs [ "cuda_nvrtc" "cudnn" "libcublas" "libcufft" "libcurand" ] (_: set.cuda_cudart);
            core = import (nix + /onnxruntime) {
              pkgs = pkgs';
              cuda = true;
              cudaPackages = set // large;
              cudaArchitectures = [ "90" "90-virtual" ];
              maxJobs = 1;
            };
          in pkgs.runCommand "facts" { } ''
            provider=${core}/lib/libonnxruntime_providers_cuda.so
            mkdir $out
            ls ${core}/lib >$out/files
            readelf -d $provider >$out/dynamic
            readelf -SW $provider >$out/sections
            strings $provider | grep bin/nvcc >$out/compiler
          ''
        """)
        assert done.returncode == 0, done.stderr
        files, dynamic, sections, named = (
            made_up.plain("store", "cat", f"{done.stdout.strip()}/{name}")
            for name in ("files", "dynamic", "sections", "compiler")
        )
        assert files.split() == [
            "libonnxruntime.a",
            "libonnxruntime_providers_cuda.so",
            "libonnxruntime_providers_shared.so",
            "pkgconfig",
        ]
        assert {"libcuda.so.1", "libcudart.so.13"} <= set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        [path] = re.findall(r"RUNPATH.*\[(.*)\]", dynamic)
        assert re.fullmatch(r"/run/opengl-driver/lib:/nix/store/\w+-cuda_cudart-13\.0-lib/lib", path)
        assert ".nv_fatbin" in sections
        assert named == f"/nix/store/{'e' * 32}-cuda_nvcc-13.0/bin/nvcc\n"


class TestStaticCore:
    """zrt linked against an invented archive: the checks of an extension with ONNX Runtime linked in."""

    @staticmethod
    def zrt(cuda: bool, code: str = "") -> str:
        return f"""
          let
            inherit (pkgs) lib;
            core = pkgs.runCommand "made-up-core" {{
              passthru = import (nix + /onnxruntime/passthru.nix) {{
                inherit lib;
                package = core;
                linkage = "static";
                cuda = {str(cuda).lower()};
                darwin = false;
              }};
            }} ''
              mkdir -p $out/lib
              cp -r ${{import (nix + /onnxruntime) {{ inherit pkgs; prebuilt = true; }}}}/include $out/
              cat >base.c <<'END'
              #include "onnxruntime_c_api.h"
              int other(void) {{ return 1; }}
              const OrtApiBase *OrtGetApiBase(void) {{ return 0; }}
              {code}
              END
              # Like mlas' files, it does not declare that it needs no executable stack.
              printf '.globl kernel\\nkernel:\\n  ret\\n' >kernel.s
              gcc -fPIC -O1 -I $out/include -c base.c kernel.s
              ar cr $out/lib/libonnxruntime.a base.o kernel.o
              touch $out/lib/libonnxruntime_providers_shared.so $out/lib/libonnxruntime_providers_cuda.so
            '';
          in import (nix + /zrt) {{
            inherit pkgs;
            cuda = {str(cuda).lower()};
            onnxruntime = core;
            doCheck = false;
          }}
        """

    def test_zrt_does_not_refer_to_the_core(self, builder: Any) -> None:
        done = builder.build_expression(self.zrt(cuda=False))
        assert done.returncode == 0, done.stderr
        path = done.stdout.strip()
        references = builder.plain("path-info", "--json", "--json-format", "1", path)
        assert "made-up-core" not in references

    def test_provider_libraries_are_beside_the_extension(self, builder: Any) -> None:
        done = builder.build_expression(self.zrt(cuda=True))
        assert done.returncode == 0, done.stderr
        path = done.stdout.strip()
        listed = builder.plain("store", "ls", "--long", "--recursive", path)
        for name in ("shared", "cuda"):
            assert re.search(
                rf"_native/libonnxruntime_providers_{name}\.so -> /nix/store/\S+-made-up-core/lib/", listed
            )


class TestRequiredOperators:
    """The official library stands in for the engines from source, the full one and the one of few kernels."""

    ENGINE = """
        engine = import (nix + /onnxruntime) { inherit pkgs; prebuilt = true; };
        digits = builtins.dirOf nix + "/zrt/models/digits.onnx";
        models = [ digits (pkgs.runCommand "copy" { } "mkdir $out; cp ${digits} $out/copy.onnx" + "/copy.onnx") ];
        preparedModels = import (nix + /onnxruntime/prepared-models.nix) {
          inherit pkgs models minimal;
          zrt = import (nix + /zrt) { inherit pkgs; doCheck = false; onnxruntime = engine; };
        };
        operators = "${preparedModels}/required-operators";
        zrt = requiredOperators: import (nix + /zrt) {
          inherit pkgs;
          onnxruntime = engine // { inherit models preparedModels requiredOperators minimal; };
        };
        minimal = false;
    """

    def test_operators_of_models_are_listed(self, builder: Any) -> None:
        expression = f"let {self.ENGINE} in preparedModels".replace("minimal = false", "minimal = true")
        for text, models in ((f"let {self.ENGINE} in preparedModels", set()), (expression, {"copy.ort", "digits.ort"})):
            done = builder.build_expression(text)
            assert done.returncode == 0, done.stderr
            path = done.stdout.strip()
            names = {name.removeprefix("./") for name in builder.plain("store", "ls", "--recursive", path).split()}
            assert {name for name in names if name.endswith(".ort")} == models
        listed = builder.plain("store", "cat", f"{path}/required-operators")
        assert "ai.onnx;17;Conv,Flatten,Gemm,MaxPool,Relu,Softmax\n" in listed
        assert len(re.findall("^# The operators", listed, re.MULTILINE)) == 2

    def test_package_loads_its_models_and_keeps_the_list(self, builder: Any) -> None:
        done = builder.build_expression(f"let {self.ENGINE} in zrt operators")
        assert done.returncode == 0, done.stderr
        listed = builder.plain("store", "ls", "--recursive", done.stdout.strip())
        assert "/zrt/_native/required-operators\n" in listed

    def test_models_are_run_for_their_counts(self, builder: Any) -> None:
        """The official library runs them and leaves no counts, which is an error."""
        done = builder.build_expression(f"""
          let
            {self.ENGINE}
            zrtOfAll = import (nix + /zrt) {{ inherit pkgs; doCheck = false; onnxruntime = engine; }};
          in
          import (nix + /onnxruntime/counts.nix) {{ inherit pkgs; models = [ digits ]; zrt = zrtOfAll; }}
        """)
        assert done.returncode != 0
        assert re.search(r"counts>  Session\.run .* 200 ", done.stderr), done.stderr
        assert "zrt: the engine left no counts" in done.stderr

    def test_template_of_a_program_runs(self, builder: Any) -> None:
        done = builder.build_expression(f"""
          let
            {self.ENGINE}
            template = (import (nix + /templates/app/flake.nix)).outputs {{
              self = template;
              nixpkgs = {{
                inherit (pkgs) lib;
                legacyPackages.x86_64-linux = pkgs;
              }};
              zrt = {{
                outPath = builtins.dirOf nix;
                lib.mkZrt = {{ pkgs, models }}: assert models == [ "${{builtins.dirOf nix}}/zrt/models/digits.onnx" ];
                  zrt operators;
              }};
            }};
          in template.checks.x86_64-linux.default
        """)
        assert done.returncode == 0, done.stderr
        classes = builder.plain("store", "cat", done.stdout.strip()).split()
        assert len(classes) == 360
        assert classes[:1] == ["3"]

    def test_package_for_a_minimal_engine_loads_its_models(self, builder: Any) -> None:
        expression = f"let {self.ENGINE} in zrt operators".replace("minimal = false", "minimal = true")
        done = builder.build_expression(expression)
        assert done.returncode == 0, done.stderr
        assert re.search(r"model +/nix/store/\w+-prepared-models/digits.ort", done.stderr)

    def test_list_that_lacks_an_operator_of_a_model_is_refused(self, builder: Any) -> None:
        done = builder.build_expression(
            f"""let {self.ENGINE} in zrt (builtins.toFile "operators" "ai.onnx;17;Conv\n")"""
        )
        assert done.returncode != 0
        assert "needed-by-all" in done.stderr


class TestChecks:
    def test_template_runs_one_inference(self, builder: Any) -> None:
        [path] = builder.build(f"{CHECKS}.template")
        assert builder.plain("store", "cat", path) == "read: 3, written: 3\n"

    def test_closure_has_no_cuda(self, builder: Any) -> None:
        assert builder.build(f"{CHECKS}.closure")

    def test_bundle_runs_without_a_store(self, builder: Any) -> None:
        [path] = builder.build(f"{CHECKS}.bundle")
        assert "353 of 360 right" in builder.plain("store", "cat", path)


class TestDropIn:
    def test_package_has_the_name_and_the_version_of_the_engine(self, builder: Any) -> None:
        [path] = builder.build(f"{CHECKS}.drop-in")
        version = builder.evaluate("packages.x86_64-linux.onnxruntime-bin", "package: package.version")
        listed = builder.plain("store", "ls", "--recursive", path)
        assert f"/site-packages/onnxruntime-{version}.dist-info/METADATA\n" in listed

    def test_program_that_requires_onnxruntime_runs_on_zrt(self, builder: Any) -> None:
        """A downstream flake with the overlay alone: no line of the program knows zrt."""
        folder = builder.scratch / "downstream"
        shutil.copytree(Path(__file__).parent / "downstream", folder)
        options = ("-L", "--no-link", "--print-out-paths", "--no-write-lock-file")
        checkout, stand_in = builder.inside(builder.checkout), builder.inside(builder.stand_in)
        printed = builder.plain(
            *("build", *options, f"path:{builder.inside(folder)}"),
            *("--override-input", "zrt", f"git+file://{checkout}"),
            *("--override-input", "zrt/nixpkgs", f"path:{stand_in}"),
        )
        version = builder.evaluate("packages.x86_64-linux.onnxruntime-bin", "package: package.version")
        assert builder.plain("store", "cat", printed.strip()) == f"[2.0, 4.0] {version} zrt.onnxruntime\n"


class TestLibrary:
    def test_prebuilt_library_has_the_layout_of_the_one_from_source(self, builder: Any) -> None:
        [path] = builder.build("packages.x86_64-linux.onnxruntime-bin")
        listed = set(builder.plain("store", "ls", "--recursive", path).split())
        assert {
            "./include/onnxruntime_c_api.h",
            "./lib/libonnxruntime.so",
            "./lib/pkgconfig/libonnxruntime.pc",
            "./share/doc/onnxruntime/LICENSE",
            "./share/doc/onnxruntime/ThirdPartyNotices.txt",
        } <= listed
        described = builder.plain("store", "cat", f"{path}/lib/pkgconfig/libonnxruntime.pc")
        assert f"prefix={path}\n" in described


class TestShell:
    def test_shell_builds_zrt_in_place(self, builder: Any) -> None:
        code = "import zrt; print(zrt.__file__); from zrt._native.library import library; print(library().source)"
        printed = builder.plain("develop", *builder.overrides(), "--command", "python", "-c", code)
        assert "zrt (cpu), built in place. Next: pytest" in printed
        assert f"{builder.inside(builder.checkout)}/zrt/__init__.py\nbuilt in\n" in printed
        assert list((builder.checkout / "zrt" / "_native").glob("_ort*.so"))


class TestApps:
    def test_zrt_app_prints_info(self, builder: Any) -> None:
        printed = builder.plain("run", ".#zrt", *builder.overrides(), "--", "info")
        assert "built in" in printed

    def test_gpu_bench_names_the_missing_part_before_it_builds(self, builder: Any) -> None:
        done = builder.run("run", ".#bench-cuda", *builder.overrides())
        if done.returncode == 0 or "bench-cuda: builds" in done.stderr:
            pytest.skip("this machine has a GPU and a driver that are good enough: nothing is missing")
        assert re.search("^bench-cuda: (no GPU|no driver|driver too old|GPU 0 has)", done.stderr, re.MULTILINE)
        assert "onnxruntime-cuda-hybrid" not in done.stderr

    def test_bench_from_source_prints_the_build_time_before_it_builds(self, builder: Any) -> None:
        done = builder.run("run", ".#bench-cpu", *builder.overrides())
        # The build fails: the stand-in cannot fetch the source.
        assert done.returncode != 0
        before, _, after = done.stderr.partition("bench-cpu: builds ONNX Runtime from source: an hour")
        assert "onnxruntime-cpu" not in before
        assert "onnxruntime-cpu" in after
