"""The version, the build and the device of the engine, as the official package tells them."""

import re
import types

import pytest

import zrt.onnxruntime
from zrt.onnxruntime import engine


def test_version_is_that_of_the_library(ort) -> None:
    assert ort.__version__ == ort.version == ort.get_version_string()
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", ort.__version__)


@pytest.mark.official
def test_answers_are_those_of_the_official_package() -> None:
    import onnxruntime

    if zrt.onnxruntime.get_version_string() != onnxruntime.__version__:
        pytest.skip("the library is another one")
    for name in ("__version__", "version", "package_name", "cuda_version"):
        assert getattr(zrt.onnxruntime, name) == getattr(onnxruntime, name)
    for name in ("get_build_info", "get_device", "get_version_string", "has_collective_ops"):
        assert getattr(zrt.onnxruntime, name)() == getattr(onnxruntime, name)()


def test_build_info_names_the_build_type(ort) -> None:
    assert ort.get_build_info().startswith("ORT Build Info: ")
    assert "build type=" in ort.get_build_info()


def test_device_is_a_kind_of_processor(ort) -> None:
    assert ort.get_device() in ("CPU", "GPU")
    assert ort.has_collective_ops() is False


class TestPreload:
    def test_does_nothing_in_a_build_without_cuda(self, ort, capsys) -> None:
        if ort.cuda_version:
            pytest.skip("this build has CUDA")
        assert ort.preload_dlls() is None
        assert ort.preload_dlls(directory="/nowhere") is None
        assert capsys.readouterr().out == ""

    def test_missing_directory_raises(self, ort) -> None:
        with pytest.raises(
            RuntimeError, match=r"Invalid parameter of directory=/nowhere\. The directory does not exist!"
        ):
            ort.preload_dlls(cuda=False, cudnn=False, directory="/nowhere")

    @pytest.fixture
    def loaded(self, monkeypatch) -> list[str]:
        """The files that are loaded, in a build for CUDA 12; those of cuDNN cannot be."""
        files: list[str] = []

        def load(path: str) -> None:
            if "cudnn" in path:
                raise OSError("no cuDNN here")
            files.append(path)

        monkeypatch.setattr(engine, "package_info", lambda: {"package_name": "onnxruntime", "cuda_version": "12.8"})
        monkeypatch.setattr(engine, "ctypes", types.SimpleNamespace(CDLL=load))
        return files

    def test_loads_files_of_nvidias_packages_first(self, loaded, monkeypatch, tmp_path, capsys) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        (tmp_path / "nvidia" / "cublas" / "lib").mkdir(parents=True)
        library = tmp_path / "nvidia" / "cublas" / "lib" / "libcublasLt.so.12"
        library.touch()
        engine.preload_dlls(cudnn=False)
        assert loaded[0] == str(library)
        assert "libcufft.so.11" in loaded
        assert capsys.readouterr().out == ""

    def test_says_what_is_missing(self, loaded, tmp_path, capsys) -> None:
        (tmp_path / "libcudnn.so.9").touch()
        engine.preload_dlls(cuda=False, directory=str(tmp_path))
        says = capsys.readouterr().out
        assert f"Failed to load {tmp_path}/libcudnn.so.9: no cuDNN here" in says
        assert "Failed to load libcudnn.so.9: no cuDNN here" in says
        assert "Install CUDA and cuDNN" in says

    def test_refuses_old_versions_of_cuda(self, loaded, monkeypatch, capsys) -> None:
        monkeypatch.setattr(engine, "package_info", lambda: {"cuda_version": "11.8"})
        engine.preload_dlls()
        assert "built with CUDA 11.8" in capsys.readouterr().out
        assert loaded == []


def test_debug_info_names_versions_and_places(ort, capsys) -> None:
    ort.print_debug_info()
    says = capsys.readouterr().out
    assert says.startswith(f"{ort.package_name} version: {ort.__version__}\n")
    for words in ("platform:", "Python package, version and location:", "Environment variable:", "loaded DLLs"):
        assert words in says
