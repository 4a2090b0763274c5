{
  description = "A program that requires and imports onnxruntime, on the engine of zrt";

  inputs = {
    nixpkgs.follows = "zrt/nixpkgs";
    zrt.url = "git+file:///path/to/zrt";
  };

  outputs =
    { nixpkgs, zrt, ... }:
    let
      pkgs = import nixpkgs {
        system = "x86_64-linux";
        overlays = [
          zrt.overlays.onnxruntime
          quick
        ];
      };
      # Without this overlay the engine is compiled, and zrt runs its tests.
      quick = final: prev: {
        zrt-onnxruntime = zrt.packages.x86_64-linux.onnxruntime-bin;
        pythonPackagesExtensions = prev.pythonPackagesExtensions ++ [
          (python: _: {
            zrt-onnx = zrt.lib.mkZrt {
              pkgs = final;
              inherit (python) python;
              onnxruntime = final.zrt-onnxruntime;
              doCheck = false;
            };
          })
        ];
      };
      program =
        {
          buildPythonPackage,
          hatchling,
          onnxruntime,
          ...
        }:
        buildPythonPackage {
          pname = "program";
          version = "1.0";
          pyproject = true;
          src = ./program;
          build-system = [ hatchling ];
          dependencies = [ onnxruntime ];
        };
      python = pkgs.python3.withPackages (packages: [ (program packages) ]);
    in
    {
      packages.x86_64-linux.default = pkgs.runCommand "run" { } ''
        ${python}/bin/python3 -m program >"$out"
      '';
    };
}
