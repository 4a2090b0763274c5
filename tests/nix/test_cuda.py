"""The CUDA set of the stand-in for nixpkgs, made of NVIDIA's Python packages."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.slow


def unfree(text: str) -> str:
    """Code in which `set` is the CUDA set, with its licence allowed."""
    return f"""
      let set = (stand-in {{ system = "x86_64-linux"; config.allowUnfreePredicate = _: true; }}).cudaPackages_13;
      in {text}
    """


class TestParts:
    @pytest.mark.parametrize(
        ("part", "files"),
        [
            ("cuda_nvcc", {"./bin/nvcc", "./bin/ptxas", "./nvvm/bin/cicc", "./nix-support/setup-hook"}),
            ("cuda_cudart.dev", {"./include/cuda_runtime.h", "./include/crt/host_config.h"}),
            ("cuda_cudart.lib", {"./lib/libcudart.so", "./lib/libcudart.so.13", "./lib/stubs/libcuda.so"}),
            ("cuda_cccl.dev", {"./include/cub/cub.cuh", "./include/cuda/std/type_traits", "./include/nv/target"}),
        ],
    )
    def test_part_has_its_files(self, cuda: Any, part: str, files: set[str]) -> None:
        done = cuda.build_expression(unfree(f"set.{part}"))
        assert done.returncode == 0, done.stderr
        path = next(line for line in done.stdout.split() if line.endswith(part.partition(".")[2] or "13.0"))
        assert files <= set(cuda.plain("store", "ls", "--recursive", path).split())

    def test_part_without_its_package_says_which_one(self, nix: Any) -> None:
        done = nix.build_expression("""
          (import (stand-in-folder + /cuda.nix) {
            inherit (pkgs) lib;
            inherit (stand-in { system = "x86_64-linux"; config.allowUnfreePredicate = _: true; }) stdenv;
            version = "13.0";
            installed = "/nowhere";
          }).cudnn
        """)
        assert done.returncode != 0
        assert "pip has not installed nvidia_cudnn_cu13 into /nowhere" in done.stderr


class TestCompiler:
    KERNEL = """
        #include <cub/block/block_reduce.cuh>
        __global__ void kernel(float *values) { values[threadIdx.x] += 1; }
    """

    def test_kernel_for_one_architecture_is_compiled(self, cuda: Any) -> None:
        """Compiles with the set's nvcc and headers, and with the newest compiler of the machine that nvcc agrees to."""
        done = cuda.build_expression(
            unfree(f"""
              pkgs.runCommand "kernel" {{ code = ''{self.KERNEL}''; }} ''
                echo "$code" >kernel.cu
                compiler=$(command -v g++-15 || command -v g++)
                headers="-I ${{set.cuda_cudart.dev}}/include -I ${{set.cuda_cccl.dev}}/include"
                ${{set.cuda_nvcc}}/bin/nvcc -ccbin "$compiler" -arch=sm_90 -cubin $headers -o kernel.cubin kernel.cu
                readelf -hW kernel.cubin >$out
              ''
            """)
        )
        assert done.returncode == 0, done.stderr
        header = cuda.plain("store", "cat", done.stdout.strip())
        assert "NVIDIA CUDA architecture" in header


class TestBundle:
    def test_bundle_has_a_library_with_its_parts(self, nix: Any) -> None:
        """The parts are loaded by name, so nothing lists them; NVRTC's second build is no part of the first."""
        done = nix.build_expression("""
          pkgs.runCommand "bundled" { nativeBuildInputs = [ pkgs.patchelf pkgs.python3 ]; } ''
            mkdir libraries
            touch empty.c
            for name in libnvrtc.so.13 libnvrtc.alt.so.13 libnvrtc-builtins.so.13.0 libother.so.1; do
              gcc -shared -nostdlib -Wl,-soname,$name -o libraries/$name empty.c
            done
            gcc -shared -nostdlib -Wl,--no-as-needed,-rpath,$PWD/libraries -o user.so empty.c libraries/libnvrtc.so.13
            PYTHONPATH=${nix}/bundle python3 -B -c '
            from pathlib import Path
            from collect import Bundle
            bundle = Bundle(Path("bundle"), Path("nowhere"))
            bundle.copy(Path("user.so"), bundle.lib / "python" / "user.so")
            '
            { ls bundle/lib; patchelf --print-rpath bundle/lib/python/user.so; } >$out
          ''
        """)
        assert done.returncode == 0, done.stderr
        listed = nix.plain("store", "cat", done.stdout.strip()).split()
        assert listed == ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13", "python", "$ORIGIN/.."]

    def test_bundle_has_what_cudnn_loads(self, nix: Any) -> None:
        """NVRTC is in cuDNN's run path, and nothing needs it. A library that has two names is there once."""
        done = nix.build_expression("""
          pkgs.runCommand "bundled" { nativeBuildInputs = [ pkgs.patchelf pkgs.python3 ]; } ''
            mkdir cudnn nvrtc
            touch empty.c
            for name in libnvrtc.so.13 libnvrtc.alt.so.13 libnvrtc-builtins.so.13.0; do
              gcc -shared -nostdlib -Wl,-soname,$name -o nvrtc/$name.88 empty.c
              ln -s $name.88 nvrtc/$name
            done
            for name in libcudnn.so.9 libcudnn_graph.so.9; do
              gcc -shared -nostdlib -Wl,-soname,$name,-rpath,'$ORIGIN/../nvrtc' -o cudnn/$name.19 empty.c
              ln -s $name.19 cudnn/$name
            done
            gcc -shared -nostdlib -Wl,--no-as-needed,-rpath,$PWD/cudnn -o user.so empty.c cudnn/libcudnn.so.9
            PYTHONPATH=${nix}/bundle python3 -B -c '
            from pathlib import Path
            from collect import Bundle
            bundle = Bundle(Path("bundle"), Path("nowhere"))
            bundle.copy(Path("user.so"), bundle.lib / "python" / "user.so")
            '
            ls bundle/lib >$out
          ''
        """)
        assert done.returncode == 0, done.stderr
        listed = nix.plain("store", "cat", done.stdout.strip()).split()
        assert listed == [
            "libcudnn.so.9",
            "libcudnn_graph.so.9",
            "libnvrtc-builtins.so.13.0",
            "libnvrtc.so.13",
            "python",
        ]
