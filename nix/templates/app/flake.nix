{
  description = "A program, its model, and an ONNX Runtime made for this model";

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
      # Your own: ./model.onnx
      model = "${zrt}/zrt/models/digits.onnx";
    in
    {
      # The program with all that it needs. ONNX Runtime has the kernels that the model needs, and no others: it is
      # compiled twice, with all kernels to find out which ones these are.
      packages = forSystems (
        system: pkgs: {
          default =
            let
              python = pkgs.python3.withPackages (_: [
                (zrt.lib.mkZrt {
                  inherit pkgs;
                  models = [ model ];
                })
              ]);
            in
            pkgs.writeShellScriptBin "classify" ''
              exec ${lib.getExe python} ${./classify.py} ${model} "$@"
            '';
        }
      );

      checks = forSystems (
        system: pkgs: {
          default = pkgs.runCommand "classified" { } ''
            ${lib.getExe self.packages.${system}.default} ${zrt}/zrt/models/digits.npz >"$out"
            cat "$out"
          '';
        }
      );
    };
}
