# Every ONNX Runtime of the flake as data, from which .ci/sbom.py makes their SBOMs: the archives, their hashes, licenses
# and patches, and the CMake options. It needs no nixpkgs: `nix eval --json --file nix/engines.nix`.
let
  pins = import ./pins.nix;
  onnxruntime =
    source:
    source
    // {
      inherit (pins) version;
      license = pins.licenses.onnxruntime;
      patches = [ ];
    };

  built = target: {
    archives = {
      onnxruntime = onnxruntime pins.source;
    }
    // builtins.listToAttrs (
      map (name: {
        inherit name;
        value = pins.archives.${name} // {
          license = pins.licenses.${name};
          patches = (pins.patches // (if target.darwin or false then { } else pins.linuxPatches)).${name} or [ ];
        };
      }) (import ./onnxruntime/archives.nix target)
    );
    flags = import ./onnxruntime/flags.nix (
      target
      // (if target ? cuda then { cudaArchitectures = pins.cuda.architectures; } else { })
    );
  };
  prebuilt = key: {
    archives.onnxruntime = onnxruntime pins.prebuilt.${key};
    flags = { };
  };
in
{
  inherit (pins) version revision;
  engines = {
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
  };
}
