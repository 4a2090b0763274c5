{
  version = "1.27.0";
  # The commit of that version's tag.
  revision = "8f0278c77bf44b0cc83c098c6c722b92a36ac4b5";
  # ORT_API_VERSION in the headers of that version.
  apiVersion = "27";
  source = {
    url = "https://github.com/microsoft/onnxruntime/archive/refs/tags/v1.27.0.tar.gz";
    sha256 = "b41d09905a3c2f3a25709d1dcce8ef3942a4c2799d1046f74be7b6bbebc45e6a";
  };
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
  wheels = {
    aarch64-darwin = {
      platform = "macosx_14_0_arm64";
      sha256 = "a14c2ce45312def86b77aea651f46565e45960cf5f0721bfdff449165086ab76";
    };
    aarch64-linux = {
      platform = "manylinux_2_27_aarch64.manylinux_2_28_aarch64";
      sha256 = "c6fddce0539a4898c7bef35b052ffd37935b2190e35488eab99ce91887743ea1";
    };
    x86_64-linux = {
      platform = "manylinux_2_27_x86_64.manylinux_2_28_x86_64";
      sha256 = "7c65a7438632d55dfbc8a02ee60bd6cf7dd9d1ba05a43d4b851452f32338e194";
    };
    x86_64-linux-cuda = {
      platform = "manylinux_2_27_x86_64.manylinux_2_28_x86_64";
      sha256 = "b2b8d6afabf3c23c2c698639a16388816dc7298f388a9ddddf504b283990ea01";
    };
  };
}
