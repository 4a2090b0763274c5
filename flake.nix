{
  description = "zrt: ONNX models from Python through ONNX Runtime's C API, with ONNX Runtime built from source";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      inherit (nixpkgs) lib;
      systems = [
        "x86_64-linux"
        "aarch64-linux"
        "aarch64-darwin"
      ];
      # Calls a file of nix/ for each system, with what it takes of these.
      perSystem =
        file:
        lib.genAttrs systems (
          system:
          let
            pkgs = nixpkgs.legacyPackages.${system};
          in
          import file (
            builtins.intersectAttrs (builtins.functionArgs (import file)) {
              inherit self nixpkgs pkgs;
              packages = self.packages.${system};
              # CUDA is unfree: allowed by the set's own predicate, and used for the CUDA outputs alone.
              cudaPkgs = import nixpkgs {
                inherit system;
                config.allowUnfreePredicate = pkgs._cuda.lib.allowUnfreeCudaPredicate;
              };
            }
          )
        );
    in
    {
      lib = {
        mkOnnxruntime = import ./nix/onnxruntime;
        mkZrt = import ./nix/zrt;
        mkZrtEnv = import ./nix/zrt/env.nix;
      };
      packages = perSystem ./nix/packages.nix;
      apps = perSystem ./nix/apps;
      devShells = perSystem ./nix/shells;
      checks = perSystem ./nix/checks;
      formatter = perSystem ./nix/formatter.nix;
      overlays = {
        default = import ./nix/overlay.nix;
        onnxruntime = import ./nix/overlay-onnxruntime.nix;
      };
      templates = {
        default = {
          path = ./nix/templates/inference;
          description = "A flake that imports lib.mkZrt and runs one inference";
        };
        app = {
          path = ./nix/templates/app;
          description = "A program, its model, and an ONNX Runtime made for this model";
        };
      };
    };
}
