# mkDerivation with the phases, hooks and checks of nixpkgs that this flake uses; builder.sh runs them.
{
  lib,
  config,
  platform,
  runCommand,
}:
rec {
  hostPlatform = platform;

  mkDerivation =
    make:
    let
      attributes =
        if builtins.isFunction make then make (attributes // { finalPackage = package; }) else make;
      meta = attributes.meta or { };
      name = attributes.name or "${attributes.pname}-${attributes.version}";
      allowed = (config.allowUnfreePredicate or (_: false)) (attributes // { inherit name meta; });
      free = lib.optional (meta ? license && builtins.isAttrs meta.license) meta.license;
      derivation' = derivation (
        removeAttrs attributes [
          "env"
          "meta"
          "passthru"
        ]
        // attributes.env or { }
        // {
          inherit name;
          inherit (platform) system;
          outputs = attributes.outputs or [ "out" ];
          # The headers are what a build takes; they propagate the rest.
          buildInputs = map lib.getDev (attributes.buildInputs or [ ]);
          stdenv = ./environment;
          builder = "/bin/bash";
          args = [
            "-e"
            ./builder.sh
          ];
        }
      );
      package =
        if builtins.all (license: license.free) free || allowed then
          derivation'
          // {
            inherit name meta;
            attributes = attributes;
            passthru = attributes.passthru or { };
          }
          // lib.optionalAttrs (attributes ? pname) { inherit (attributes) pname version; }
          // attributes.passthru or { }
        else
          throw "Package ‘${name}’ has an unfree license, refusing to evaluate.";
    in
    package;

  cc = runCommand "cc" { passthru = { inherit cc libc; }; } ''
    mkdir -p "$out/nix-support"
    interpreter=$(readelf -lW /bin/sh | sed -n 's/.*program interpreter: \(.*\)]/\1/p')
    realpath "$interpreter" >"$out/nix-support/dynamic-linker"
  '';
  libc = runCommand "libc" { } ''
    mkdir -p "$out"
    ln -s "$(dirname "$(realpath "$(cat ${cc}/nix-support/dynamic-linker)")")" "$out/lib"
  '';
}
