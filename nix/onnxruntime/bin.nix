# The official prebuilt library with its headers, in the shape of the one from source.
{
  # The package set to build with.
  pkgs,
  # The official build for CUDA 13 (x86_64-linux).
  cuda ? false,
  # The CUDA set whose libraries the provider is pointed at.
  cudaPackages ? pkgs.cudaPackages_13 or null,
  # Versions, URLs and hashes.
  pins ? import ../pins.nix,
}:
let
  inherit (pkgs) lib stdenv;
  inherit (stdenv.hostPlatform) isDarwin isLinux system;
  key = system + lib.optionalString cuda "-cuda";
  archive = pins.prebuilt.${key} or (throw "zrt: there is no official ONNX Runtime for ${key}");
  toolkit = import ./cuda.nix { inherit lib cudaPackages pins; };
in
stdenv.mkDerivation (finalAttrs: {
  pname = "onnxruntime-bin" + lib.optionalString cuda "-cuda";
  inherit (pins) version;

  src = pkgs.fetchurl { inherit (archive) url sha256; };

  strictDeps = true;
  nativeBuildInputs =
    lib.optional isLinux pkgs.autoPatchelfHook ++ lib.optional cuda pkgs.autoAddDriverRunpath;
  buildInputs =
    lib.optional isLinux (lib.getLib stdenv.cc.cc) ++ lib.optionals cuda toolkit.buildInputs;
  # The driver is the host's.
  autoPatchelfIgnoreMissingDeps = lib.optional cuda "libcuda.so.1";

  dontConfigure = true;
  dontBuild = true;

  pkgConfig = import ./pkg-config.nix {
    inherit (pins) version;
    linkage = "shared";
    darwin = isDarwin;
  };
  passAsFile = [ "pkgConfig" ];

  installPhase = ''
    runHook preInstall
    mkdir -p "$out/share/doc/onnxruntime"
    cp -r include lib "$out"
    # TensorRT's provider wants libraries that nothing here has.
    rm -rf "$out"/lib/cmake "$out"/lib/pkgconfig "$out"/lib/libonnxruntime_providers_tensorrt.so
    mkdir -p "$out/lib/pkgconfig"
    substitute "$pkgConfigPath" "$out/lib/pkgconfig/libonnxruntime.pc" --subst-var out
    install -m 644 -t "$out/share/doc/onnxruntime" LICENSE ThirdPartyNotices.txt
    runHook postInstall
  '';

  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    grep -qx '#define ORT_API_VERSION ${pins.apiVersion}' "$out/include/onnxruntime_c_api.h"
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
      inherit pins;
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
