# The official library of a Python package, with the official headers, in the shape of the one from source.
{
  # The package set to build with.
  pkgs,
  # The release: a version that is pinned, or the path of a file that update-pins made. null: the newest one.
  version ? null,
  # The official build for CUDA 13 (x86_64-linux).
  cuda ? false,
  # The CUDA set whose libraries the provider is pointed at.
  cudaPackages ? pkgs.cudaPackages_13 or null,
}:
let
  inherit (pkgs) lib stdenv;
  inherit (stdenv.hostPlatform) isDarwin isLinux system;
  pins = import ../pins.nix;
  key = system + lib.optionalString cuda "-cuda";
  release = pins.prebuilt version key;
  toolkit = import ./cuda.nix { inherit lib cudaPackages release; };
  headers = pkgs.fetchurl { inherit (pins.headers) url sha256; };
in
stdenv.mkDerivation (finalAttrs: {
  pname = "onnxruntime-bin" + lib.optionalString cuda "-cuda";
  inherit (release) version;

  # The library is the same in the wheels of every Python.
  src = pkgs.fetchPypi {
    pname = if cuda then "onnxruntime_gpu" else "onnxruntime";
    inherit (release) version;
    format = "wheel";
    dist = "cp312";
    python = "cp312";
    abi = "cp312";
    inherit (release.wheels.${key}) platform sha256;
  };

  strictDeps = true;
  nativeBuildInputs = [
    pkgs.unzip
  ]
  ++ lib.optional isLinux pkgs.autoPatchelfHook
  ++ lib.optional cuda pkgs.autoAddDriverRunpath;
  buildInputs =
    lib.optional isLinux (lib.getLib stdenv.cc.cc) ++ lib.optionals cuda toolkit.buildInputs;
  # The provider opens some of them by their names alone.
  appendRunpaths = lib.optionals cuda (map (part: "${lib.getLib part}/lib") toolkit.buildInputs);
  # The driver is the host's.
  autoPatchelfIgnoreMissingDeps = lib.optional cuda "libcuda.so.1";

  unpackPhase = ''
    runHook preUnpack
    unzip -q "$src" 'onnxruntime/LICENSE' 'onnxruntime/ThirdPartyNotices.txt' 'onnxruntime/capi/libonnxruntime*'
    tar -xzf ${headers} --strip-components=1 --wildcards '*/include'
    runHook postUnpack
  '';
  dontConfigure = true;
  dontBuild = true;

  pkgConfig = import ./pkg-config.nix {
    inherit (release) version;
    linkage = "shared";
    darwin = isDarwin;
  };
  passAsFile = [ "pkgConfig" ];

  installPhase = ''
    runHook preInstall
    mkdir -p "$out/share/doc/onnxruntime" "$out/lib/pkgconfig"
    cp -r include "$out"
    # TensorRT's provider wants libraries that nothing here has.
    rm -f onnxruntime/capi/libonnxruntime_providers_tensorrt.so
    install -m 755 -t "$out/lib" onnxruntime/capi/*
    # The names by which programs load it, and by which they are linked to it.
    library=$(basename "$out"/lib/libonnxruntime.*[0-9]*)
    for name in ${if isDarwin then "1.dylib dylib" else "so.1 so"}; do
      ln -s "$library" "$out/lib/libonnxruntime.$name"
    done
    substitute "$pkgConfigPath" "$out/lib/pkgconfig/libonnxruntime.pc" --subst-var out
    install -m 644 -t "$out/share/doc/onnxruntime" onnxruntime/LICENSE onnxruntime/ThirdPartyNotices.txt
    runHook postInstall
  '';

  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    grep -qx '#define ORT_API_VERSION ${pins.headers.apiVersion}' "$out/include/onnxruntime_c_api.h"
    runHook postInstallCheck
  '';

  passthru =
    import ./passthru.nix {
      inherit lib cuda;
      linkage = "shared";
      package = finalAttrs.finalPackage;
      darwin = isDarwin;
    }
    // {
      inherit release;
    };

  meta = {
    description = "The official prebuilt ONNX Runtime with its headers";
    homepage = "https://onnxruntime.ai";
    license = lib.licenses.mit;
    sourceProvenance = [ lib.sourceTypes.binaryNativeCode ];
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
      "aarch64-darwin"
    ];
  };
})
