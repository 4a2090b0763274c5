{
  description = "One inference with zrt";

  inputs = {
    nixpkgs.follows = "zrt/nixpkgs";
    # A checkout, or wherever the repository is to be had.
    zrt.url = "git+file:///path/to/zrt";
  };

  outputs =
    {
      self,
      nixpkgs,
      zrt,
    }:
    let
      inherit (nixpkgs) lib;
      forSystems =
        make:
        lib.genAttrs [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ] (
          system: make system nixpkgs.legacyPackages.${system}
        );
    in
    {
      # An interpreter that has zrt. Leave `onnxruntime` out to build ONNX Runtime from source.
      packages = forSystems (
        system: pkgs: {
          default = pkgs.python3.withPackages (_: [
            (zrt.lib.mkZrt {
              inherit pkgs;
              onnxruntime = zrt.packages.${system}.onnxruntime-bin;
              doCheck = false;
            })
          ]);
        }
      );

      apps = forSystems (
        system: pkgs: {
          default = {
            type = "app";
            program = lib.getExe (
              pkgs.writeShellScriptBin "infer" ''
                exec ${lib.getExe self.packages.${system}.default} ${./infer.py} "$@"
              ''
            );
            meta.description = "Runs one inference on the model that zrt ships";
          };
        }
      );

      checks = forSystems (
        system: pkgs: {
          default = pkgs.runCommand "infer" { } ''
            ${self.apps.${system}.default.program} >"$out"
            cat "$out"
          '';
        }
      );
    };
}
