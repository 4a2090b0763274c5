# The pinned releases of ONNX Runtime: for each a file in pins/, as `nix run .#update-pins -- VERSION` makes it.
#
# Such a file has what there is a record of: `source` and `archives` (ONNX Runtime's own source, and the third-party
# archives by their names in upstream's cmake/deps.txt, with upstream's own URLs and hashes), and `wheels` (those of the
# Python packages onnxruntime and, for CUDA, onnxruntime-gpu, for CPython 3.12).
let
  # What holds for every release, as far as its file says nothing else. Read it again by hand for another release.
  shared = {
    # The SPDX expressions of licenses, and the files of ONNX Runtime's own cmake/patches that its build applies to the
    # archives: on Linux and macOS, and on Linux alone.
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
  };

  releases = builtins.listToAttrs (
    map (
      file:
      let
        release = shared // import (./pins + "/${file}");
      in
      {
        name = release.version;
        value = release;
      }
    ) (builtins.attrNames (builtins.readDir ./pins))
  );
  newestFirst = builtins.sort (one: other: builtins.compareVersions one other > 0) (
    builtins.attrNames releases
  );

  # The release that `version` names: a pinned version, the path of a file like those in pins/, or null for the newest
  # one from which nothing is missing. `missing` lists what a release has no record of for `purpose`.
  choose =
    purpose: missing: version:
    let
      named =
        # A path joined to a flake's own, such as self + "/onnxruntime.nix", is text.
        if builtins.isPath version || builtins.match "/.*" version != null then
          shared // import version
        else
          releases.${version} or (throw "zrt: ONNX Runtime ${version} is not pinned: ${remedy version}");
      complete = builtins.filter (it: missing releases.${it} == [ ]) newestFirst;
      remedy = it: "nix run .#update-pins -- ${it} makes its pins where there is a network";
    in
    if version == null && complete == [ ] then
      throw "zrt: no pinned release of ONNX Runtime has all that it takes for ${purpose}"
    else if version == null then
      releases.${builtins.head complete}
    else if missing named != [ ] then
      throw "zrt: the pins of ONNX Runtime ${named.version} have no ${toString (missing named)} for ${purpose}: ${remedy named.version}"
    else
      named;
in
{
  inherit releases;
  inherit (shared) cuda;

  # The official headers, which go with the official libraries: those of later releases have all of these functions.
  headers = {
    url = "https://github.com/microsoft/onnxruntime/releases/download/v1.27.0/onnxruntime-linux-x64-1.27.0.tgz";
    sha256 = "547e40a48f1fe73e3f812d7c88a948612c23f896b91e4e2ee1e232d7b468246f";
    apiVersion = "27";
  };

  # The release to build from source for `target`, the parts to build as in onnxruntime/flags.nix.
  fromSource =
    version: target:
    choose "a build from source" (
      release:
      builtins.filter (name: !(release.archives or { } ? ${name})) (import ./onnxruntime/archives.nix target)
      ++ (if release ? source then [ ] else [ "source" ])
    ) version;

  # The release whose official library is taken for `key`: a system, perhaps with "-cuda" behind it.
  prebuilt =
    version: key:
    choose key (release: if release.wheels or { } ? ${key} then [ ] else [ "wheel" ]) version;
}
