# Every version, revision and hash, as data. `nix run .#update-pins -- VERSION` rewrites it for another release.
{
  version = "1.27.0";
  # The commit of that version's tag.
  revision = "8f0278c77bf44b0cc83c098c6c722b92a36ac4b5";
  # ORT_API_VERSION in the headers of that version.
  apiVersion = "27";

  # ONNX Runtime's own source.
  source = {
    url = "https://github.com/microsoft/onnxruntime/archive/refs/tags/v1.27.0.tar.gz";
    sha256 = "b41d09905a3c2f3a25709d1dcce8ef3942a4c2799d1046f74be7b6bbebc45e6a";
  };

  # The official libraries and headers.
  prebuilt = {
    x86_64-linux = {
      url = "https://github.com/microsoft/onnxruntime/releases/download/v1.27.0/onnxruntime-linux-x64-1.27.0.tgz";
      sha256 = "547e40a48f1fe73e3f812d7c88a948612c23f896b91e4e2ee1e232d7b468246f";
    };
    aarch64-linux = {
      url = "https://github.com/microsoft/onnxruntime/releases/download/v1.27.0/onnxruntime-linux-aarch64-1.27.0.tgz";
      sha256 = "3e4d83ac06924a32a07b6d7f91ce6f852876153fc0bbdf931bf517a140bfbe48";
    };
    aarch64-darwin = {
      url = "https://github.com/microsoft/onnxruntime/releases/download/v1.27.0/onnxruntime-osx-arm64-1.27.0.tgz";
      sha256 = "545e81c58152353acb0d1e8bd6ce4b62f830c0961f5b3acfedc790ffd76e477a";
    };
    x86_64-linux-cuda = {
      url = "https://github.com/microsoft/onnxruntime/releases/download/v1.27.0/onnxruntime-linux-x64-gpu_cuda13-1.27.0.tgz";
      sha256 = "1a3227e1dc2f53d9f877c93278af500b15e26d99aa5ade877692138b3ab7d351";
    };
  };

  # Third-party archives by their names in upstream's cmake/deps.txt, with upstream's own URLs and hashes.
  archives = {
    abseil_cpp = {
      url = "https://github.com/abseil/abseil-cpp/archive/refs/tags/20250814.0.zip";
      sha1 = "a9eb1d648cbca4d4d788737e971a6a7a63726b07";
    };
    coremltools = {
      url = "https://github.com/apple/coremltools/archive/refs/tags/7.1.zip";
      sha1 = "f1bab0f30966f2e217d8e01207d518f230a1641a";
    };
    cudnn_frontend = {
      url = "https://github.com/NVIDIA/cudnn-frontend/archive/refs/tags/v1.12.0.zip";
      sha1 = "7e733cfdc410d777b76122d64232499205589a96";
    };
    cutlass = {
      url = "https://github.com/NVIDIA/cutlass/archive/refs/tags/v4.4.2.zip";
      sha1 = "4b0bae4428b84370407c0a71778b13dc2eee5be1";
    };
    date = {
      url = "https://github.com/HowardHinnant/date/archive/refs/tags/v3.0.1.zip";
      sha1 = "2dac0c81dc54ebdd8f8d073a75c053b04b56e159";
    };
    eigen = {
      url = "https://github.com/eigen-mirror/eigen/archive/1d8b82b0740839c0de7f1242a3585e3390ff5f33/eigen-1d8b82b0740839c0de7f1242a3585e3390ff5f33.zip";
      sha1 = "05b19b49e6fbb91246be711d801160528c135e34";
    };
    flatbuffers = {
      url = "https://github.com/google/flatbuffers/archive/refs/tags/v23.5.26.zip";
      sha1 = "59422c3b5e573dd192fead2834d25951f1c1670c";
    };
    fp16 = {
      url = "https://github.com/Maratyszcza/FP16/archive/0a92994d729ff76a58f692d3028ca1b64b145d91.zip";
      sha1 = "b985f6985a05a1c03ff1bb71190f66d8f98a1494";
    };
    json = {
      url = "https://github.com/nlohmann/json/archive/refs/tags/v3.11.3.zip";
      sha1 = "5e88795165cc8590138d1f47ce94ee567b85b4d6";
    };
    kleidiai = {
      url = "https://github.com/ARM-software/kleidiai/archive/refs/tags/v1.20.0.tar.gz";
      sha1 = "6895e72b3d5cf1173358164cb3d64c9d7d33cc84";
    };
    microsoft_gsl = {
      url = "https://github.com/microsoft/GSL/archive/refs/tags/v4.2.1.zip";
      sha1 = "1094e3bb7a8af763dcb136ccd676e6e75e614eec";
    };
    mp11 = {
      url = "https://github.com/boostorg/mp11/archive/refs/tags/boost-1.82.0.zip";
      sha1 = "9bc9e01dffb64d9e0773b2e44d2f22c51aace063";
    };
    onnx = {
      url = "https://github.com/onnx/onnx/archive/refs/tags/v1.21.0.zip";
      sha1 = "321d4acc807c8e0fb0bbcc0424a143dffde1e846";
    };
    protobuf = {
      url = "https://github.com/protocolbuffers/protobuf/archive/refs/tags/v21.12.zip";
      sha1 = "7cf2733949036c7d52fda017badcab093fe73bfa";
    };
    protoc_mac_universal = {
      url = "https://github.com/protocolbuffers/protobuf/releases/download/v21.12/protoc-21.12-osx-universal_binary.zip";
      sha1 = "23710c3d1c2036d8d65a6a22234372fa2d7af9ef";
    };
    psimd = {
      url = "https://github.com/Maratyszcza/psimd/archive/072586a71b55b7f8c584153d223e95687148a900.zip";
      sha1 = "1f5454b01f06f9656b77e4a5e2e31d7422487013";
    };
    pytorch_cpuinfo = {
      url = "https://github.com/pytorch/cpuinfo/archive/403d652dca4c1046e8145950b1c0997a9f748b57.zip";
      sha1 = "30b2a07fe4bae8574f89176e56274cacdd6d135b";
    };
    re2 = {
      url = "https://github.com/google/re2/archive/refs/tags/2024-07-02.zip";
      sha1 = "646e1728269cde7fcef990bf4a8e87b047882e88";
    };
    safeint = {
      url = "https://github.com/dcleblanc/SafeInt/archive/refs/tags/3.0.28.zip";
      sha1 = "23f252040ff6cb9f1fd18575b32fa8fb5928daac";
    };
  };

  # The SPDX expressions of their licenses, and the files of ONNX Runtime's own cmake/patches that its build applies to
  # them: on Linux and macOS, and on Linux alone. `update-pins` keeps them: read them again for another release.
  licenses = {
    abseil_cpp = "Apache-2.0";
    coremltools = "BSD-3-Clause";
    cudnn_frontend = "MIT";
    cutlass = "BSD-3-Clause";
    date = "MIT";
    eigen = "MPL-2.0";
    flatbuffers = "Apache-2.0";
    fp16 = "MIT";
    json = "MIT";
    kleidiai = "Apache-2.0 AND BSD-3-Clause";
    microsoft_gsl = "MIT";
    mp11 = "BSL-1.0";
    onnx = "Apache-2.0";
    onnxruntime = "MIT";
    protobuf = "BSD-3-Clause";
    protoc_mac_universal = "BSD-3-Clause";
    psimd = "MIT";
    pytorch_cpuinfo = "BSD-2-Clause";
    re2 = "BSD-3-Clause";
    safeint = "MIT";
  };
  patches = {
    abseil_cpp = [ "abseil/absl_cuda_warnings.patch" ];
    coremltools = [ "coremltools/crossplatformbuild.patch" ];
    cutlass = [ "cutlass/cutlass_4.4.2.patch" ];
    date = [ "date/date.patch" ];
    eigen = [
      "eigen/s390x-build.patch"
      "eigen/s390x-build-werror.patch"
    ];
    flatbuffers = [ "flatbuffers/flatbuffers.patch" ];
    microsoft_gsl = [ "gsl/1213.patch" ];
    onnx = [ "onnx/onnx.patch" ];
    protobuf = [
      "protobuf/protobuf_cmake.patch"
      "protobuf/protobuf_android_log.patch"
      "protobuf/protobuf_s390x.patch"
    ];
  };
  linuxPatches.pytorch_cpuinfo = [ "cpuinfo/fix_missing_sysfs_fallback.patch" ];

  cuda = {
    # The toolkits that this release supports: version `from` and later, but before version `before`.
    from = "13.0";
    before = "13.3";
    # The oldest driver for CUDA 13: its release, and the version that cuDriverGetVersion returns.
    driver = "580";
    driverApi = 13000;
    # Machine code for Turing to Blackwell; PTX of the last one for later architectures.
    architectures = [
      "75"
      "80"
      "86"
      "89"
      "90"
      "100"
      "120"
      "120-virtual"
    ];
  };
}
