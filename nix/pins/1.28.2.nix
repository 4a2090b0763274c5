{
  version = "1.28.2";
  # ORT_API_VERSION in the headers of that version.
  apiVersion = "28";
  source = {
    url = "https://github.com/microsoft/onnxruntime/archive/refs/tags/v1.28.2.tar.gz";
    sha256 = "a5003dfd85d66a4d45bd2757c7f813f9e835142e9a936ac04877c788d6afe938";
  };
  archives = {
    abseil_cpp = {
      url = "https://github.com/abseil/abseil-cpp/archive/refs/tags/20250814.0.zip";
      sha1 = "a9eb1d648cbca4d4d788737e971a6a7a63726b07";
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
      url = "https://github.com/onnx/onnx/archive/refs/tags/v1.22.0.zip";
      sha1 = "2b2cd58ac7a26df5371266149e0c76776330cdf1";
    };
    protobuf = {
      url = "https://github.com/protocolbuffers/protobuf/archive/refs/tags/v21.12.zip";
      sha1 = "7cf2733949036c7d52fda017badcab093fe73bfa";
    };
    pytorch_cpuinfo = {
      url = "https://github.com/pytorch/cpuinfo/archive/4628dc060ce4e82345dc166bbac875609db4ff69.zip";
      sha1 = "e58d4b47a16a982111c897e669ae4f1821a393d7";
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
}
