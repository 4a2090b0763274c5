{
  description = "A stand-in for nixpkgs: the functions and builders that this flake uses, on the tools of the machine";

  outputs =
    { self }:
    let
      lib = import ./lib.nix;
    in
    {
      inherit lib;
      legacyPackages = lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
        "aarch64-darwin"
      ] (system: import ./. { inherit system; });
    };
}
