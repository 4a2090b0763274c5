# Every ONNX Runtime of the flake's packages as data, from which .ci/sbom.py makes their SBOMs: the archives, their
# hashes, licenses and patches, and the CMake options. It needs no nixpkgs: `nix eval --json --file nix/engines.nix`.
let
  pins = import ./pins.nix;

  built =
    target:
    let
      release = pins.fromSource null target;
    in
    {
      inherit (release) version;
      # The commit, whose folder of patches the SBOM refers to, or the tag where there is no record of it.
      revision = release.revision or "v${release.version}";
      archives = {
        onnxruntime = release.source // {
          inherit (release) version;
          license = release.licenses.onnxruntime;
          patches = [ ];
        };
      }
      // builtins.listToAttrs (
        map (name: {
          inherit name;
          value = release.archives.${name} // {
            license = release.licenses.${name};
            patches =
              (release.patches // (if target.darwin or false then { } else release.linuxPatches)).${name} or [ ];
          };
        }) (import ./onnxruntime/archives.nix target)
      );
      flags = import ./onnxruntime/flags.nix (
        target
        // (if target ? cuda then { cudaArchitectures = release.cuda.architectures; } else { })
      );
    };
  prebuilt =
    key:
    let
      release = pins.prebuilt null key;
    in
    {
      inherit (release) version;
      archives.onnxruntime = {
        inherit (release) version;
        inherit (release.wheels.${key}) sha256;
        license = release.licenses.onnxruntime;
        patches = [ ];
        package = if key == "x86_64-linux-cuda" then "onnxruntime-gpu" else "onnxruntime";
      };
      flags = { };
    };
in
{
  onnxruntime-cpu-x86_64-linux = built { };
  onnxruntime-cpu-aarch64-linux = built { arm = true; };
  onnxruntime-cpu-aarch64-darwin = built {
    coreml = true;
    darwin = true;
  };
  onnxruntime-cuda-hybrid-x86_64-linux = built { cuda = true; };
  onnxruntime-bin-x86_64-linux = prebuilt "x86_64-linux";
  onnxruntime-bin-aarch64-linux = prebuilt "aarch64-linux";
  onnxruntime-bin-aarch64-darwin = prebuilt "aarch64-darwin";
  onnxruntime-bin-cuda-x86_64-linux = prebuilt "x86_64-linux-cuda";
}
