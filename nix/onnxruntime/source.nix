# ONNX Runtime from source, offline, from the pinned archives.
{
  # The package set to build with; its own configuration decides about unfree packages.
  pkgs,
  # The release: a version that is pinned, or the path of a file that update-pins made. null: the newest of which all that
  # this build takes is pinned.
  version ? null,
  # Hybrid CUDA: besides the core, the provider that it loads at run time (x86_64-linux).
  cuda ? false,
  # The CUDA set to build it with.
  cudaPackages ? pkgs.cudaPackages_13 or null,
  # GPU architectures to compile for: numbers, the last one perhaps "…-virtual". Each adds minutes and megabytes.
  cudaArchitectures ? (import ../pins.nix).cuda.architectures,
  # Compiles the CoreML provider in (macOS). A minimal build cannot have it.
  coreml ? pkgs.stdenv.hostPlatform.isDarwin && !minimal,
  # "static": one archive to link into something; "shared": libonnxruntime as a library of its own.
  linkage ? "static",
  # Only the CPU's kernels of these operators: a file that `zrt compile --required-operators` writes. null: all.
  requiredOperators ? null,
  # The same for models, whose operators the full engine lists.
  models ? [ ],
  # Reads models in ONNX Runtime's own form alone, and knows no schemas of operators.
  minimal ? false,
  # Models whose runs the compiler optimizes what is around the kernels for: files that this engine reads, and whose
  # inputs `zrt bench` can make up.
  profile ? [ ],
  # An engine that leaves counts of what its runs execute.
  counting ? false,
  # Those counts: a folder.
  counts ?
    if profile == [ ] then
      null
    else
      import ./counts.nix {
        inherit pkgs;
        models = profile;
        zrt = import ../zrt {
          inherit pkgs;
          onnxruntime = import ./source.nix (removeAttrs arguments [ "profile" ] // { counting = true; });
          doCheck = false;
        };
      },
  # Link-time optimization; for "shared" alone, since an archive of bytecode suits one compiler only.
  lto ? false,
  # At most so many compilers at once: those of CUDA take 1 to 3 GiB each, for a few files 8. null leaves it to Nix.
  maxJobs ? if cuda then 8 else null,
  # Hardening that costs time in the kernels and that the official library goes without.
  hardeningDisable ? [ "zerocallusedregs" ],
  # More CMake options, as in flags.nix: names and values.
  extraFlags ? { },
}@arguments:
let
  inherit (pkgs) lib;
  inherit (pkgs.stdenv.hostPlatform) isDarwin isAarch64 isLinux;

  target = {
    inherit cuda coreml;
    arm = isAarch64 && isLinux;
    darwin = isDarwin;
  };
  release = (import ../pins.nix).fromSource version target;
  toolkit = import ./cuda.nix { inherit lib cudaPackages release; };
  stdenv = if cuda then toolkit.backendStdenv else pkgs.stdenv;

  preparedModels =
    if models == [ ] then
      null
    else
      import ./prepared-models.nix {
        inherit pkgs models minimal;
        # The newest for CUDA is another than that of the full engine, which is for the CPU.
        version = if version == null then release.version else version;
      };
  operators =
    if preparedModels == null then requiredOperators else "${preparedModels}/required-operators";
  reduced = operators != null;
  flags =
    import ./flags.nix (
      target
      // {
        inherit
          linkage
          cudaArchitectures
          lto
          minimal
          reduced
          counting
          ;
        counted = counts != null;
      }
    )
    // lib.optionalAttrs cuda { onnxruntime_CUDNN_HOME = "${lib.getDev cudaPackages.cudnn}"; }
    // extraFlags;
  mirror = import ./mirror.nix (
    target
    // {
      inherit lib release;
      inherit (pkgs) linkFarm fetchurl;
    }
  );
  static = linkage == "static";
  # Text such as "model.onnx" names no file in the build that reads it.
  isFiles = files: lib.isList files && lib.all (file: lib.hasPrefix "/" (toString file)) files;
  option =
    name: value: "-D${name}=${if lib.isBool value then (if value then "ON" else "OFF") else value}";
in
assert lib.assertOneOf "linkage" linkage [
  "static"
  "shared"
];
assert lib.assertMsg (
  cuda -> pkgs.stdenv.hostPlatform.system == "x86_64-linux"
) "zrt: CUDA is built on x86_64-linux only";
assert lib.assertMsg (
  isFiles models && isFiles profile
) "zrt: models and profile are lists of files, such as [ ./model.onnx ]";
assert lib.assertMsg (
  models == [ ] || requiredOperators == null
) "zrt: models and requiredOperators both say which kernels there are: give one";
assert lib.assertMsg (
  counting || counts != null -> static && isLinux && !cuda
) "zrt: profile goes with linkage = \"static\" on Linux, without CUDA";
assert lib.assertMsg (minimal -> !cuda && !coreml) "zrt: minimal goes without CUDA and CoreML";
assert lib.assertMsg (coreml -> isDarwin) "zrt: CoreML is there on macOS only";
assert lib.assertMsg (
  lto -> !static && !cuda
) "zrt: lto goes with linkage = \"shared\" and without CUDA";

stdenv.mkDerivation (finalAttrs: {
  pname = if cuda then "onnxruntime-cuda-hybrid" else "onnxruntime-cpu";
  inherit (release) version;

  src = pkgs.fetchurl {
    name = "onnxruntime-${release.version}.tar.gz";
    inherit (release.source) url sha256;
  };

  strictDeps = true;
  nativeBuildInputs = [
    pkgs.cmake
    pkgs.ninja
    # The configure step runs it even without the Python package; the choice of kernels needs that module.
    (if reduced then pkgs.python3.withPackages (packages: [ packages.flatbuffers ]) else pkgs.python3)
  ]
  ++ lib.optionals cuda [
    toolkit.cuda_nvcc
    pkgs.autoAddDriverRunpath
    pkgs.removeReferencesTo
  ];
  buildInputs = lib.optionals cuda toolkit.buildInputs;

  inherit hardeningDisable;
  enableParallelBuilding = true;
  requiredSystemFeatures = [ "big-parallel" ];

  postPatch = ''
    bash ${./check-mirror.sh} cmake/deps.txt ${mirror}
  ''
  # Upstream's minimal build leaves the kernels for AVX-512 out.
  + lib.optionalString minimal ''
    sed -i 's/!defined(ORT_MINIMAL_BUILD)/1/' onnxruntime/core/mlas/lib/{platform,convsym}.cpp
  '';

  # Upstream's own script leaves the other kernels out of the lists of those that are registered.
  preConfigure = lib.optionalString reduced ''
    python3 tools/ci_build/reduce_op_kernels.py --cmake_build_dir build ${operators}
  '';
  cmakeDir = "../cmake";
  cmakeFlags = lib.mapAttrsToList option flags ++ [
    (option "onnxruntime_CMAKE_DEPS_MIRROR_DIR" "${mirror}")
    "--compile-no-warning-as-error"
  ];

  preBuild =
    lib.optionalString (counts != null) ''
      cp -r --no-preserve=mode ${counts}/. .
    ''
    + lib.optionalString (maxJobs != null) ''
      if [ "$NIX_BUILD_CORES" -gt ${toString maxJobs} ]; then
        export NIX_BUILD_CORES=${toString maxJobs}
      fi
    '';

  # Nothing that `all` makes needs re2 where no shared library is linked; ninjaFlags would reach the install too.
  postBuild =
    lib.optionalString static ''
      ninja -j "$NIX_BUILD_CORES" re2
    ''
    # The compiler passes in silence over counts that lie elsewhere than the object.
    + lib.optionalString (counts != null) ''
      find . -name '*.gcda' | while read -r file; do
        if ! [ -e "''${file%.gcda}.o" ]; then
          echo "zrt: $file: no object beside it; it is from another source or folder" >&2
          exit 1
        fi
      done
    '';

  pkgConfig = import ./pkg-config.nix {
    inherit (release) version;
    inherit linkage coreml;
    darwin = isDarwin;
  };
  passAsFile = [ "pkgConfig" ];

  postInstall = ''
    # Only the public ones: a core/common/endian.h beside them would hide the system's <endian.h>.
    mv "$out"/include/onnxruntime/*.h "$out/include/"
    rm -r "$out/include/onnxruntime"

    rm -rf "$out"/lib/cmake "$out"/lib/pkgconfig "$out"/lib/*.a
    ${lib.optionalString static ''bash ${../merge-archives.sh} "$out/lib/libonnxruntime.a" .''}

    mkdir -p "$out/lib/pkgconfig" "$out/share/doc/onnxruntime"
    substitute "$pkgConfigPath" "$out/lib/pkgconfig/libonnxruntime.pc" --subst-var out
    install -m 644 -t "$out/share/doc/onnxruntime" ../LICENSE ../ThirdPartyNotices.txt
  ''
  + lib.optionalString cuda ''
    remove-references-to -t ${toolkit.cuda_nvcc} "$out"/lib/*.so
  '';

  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    grep -qx '#define ORT_API_VERSION ${release.apiVersion}' "$out/include/onnxruntime_c_api.h"
    bash ${../check-silent.sh} "$out"/lib/lib*
    ${
      if cuda then
        ''bash ${./check-cuda.sh} "$out/lib" ${toolkit.cuda_nvcc}''
      else
        ''bash ${../check-no-cuda.sh} "$out"''
    }
    runHook postInstallCheck
  '';

  # Programs that link the core would inherit these.
  disallowedReferences = [
    mirror
    finalAttrs.src
  ]
  ++ lib.optional cuda toolkit.cuda_nvcc;

  passthru =
    import ./passthru.nix {
      inherit
        lib
        linkage
        cuda
        coreml
        counting
        ;
      package = finalAttrs.finalPackage;
      darwin = isDarwin;
    }
    // {
      inherit
        release
        mirror
        flags
        cudaArchitectures
        models
        minimal
        preparedModels
        ;
      # The file with the operators that have kernels; null: all.
      requiredOperators = operators;
    };

  meta = {
    description =
      if cuda then
        "ONNX Runtime from source: a ${linkage} core and the CUDA provider that it loads"
      else
        "ONNX Runtime from source: a ${linkage} core";
    homepage = "https://onnxruntime.ai";
    license = lib.licenses.mit;
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
      "aarch64-darwin"
    ];
  };
})
