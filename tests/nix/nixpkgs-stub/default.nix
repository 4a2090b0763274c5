# The package set: the packages of nixpkgs that this flake uses, as derivations over the tools of the machine.
{
  system,
  config ? { },
  overlays ? [ ],
}:
let
  lib = import ./lib.nix;

  platform = rec {
    inherit system;
    isDarwin = lib.hasSuffix "-darwin" system;
    isLinux = lib.hasSuffix "-linux" system;
    isAarch64 = lib.hasPrefix "aarch64-" system;
    isx86_64 = lib.hasPrefix "x86_64-" system;
  };

  base =
    final:
    let
      inherit (final) stdenv runCommand;

      # A package with programs of the machine.
      tool =
        name: programs:
        runCommand name { meta.mainProgram = builtins.head (programs ++ [ name ]); } ''
          mkdir -p "$out/bin"
          for program in ${lib.escapeShellArgs programs}; do
            ! path=$(command -v "$program") || ln -s "$path" "$out/bin/"
          done
        '';
      hook = name: tool name [ ];
    in
    {
      inherit lib config;

      stdenv = import ./stdenv {
        inherit
          lib
          config
          platform
          runCommand
          ;
      };

      runCommand =
        name: attributes: buildCommand:
        stdenv.mkDerivation (attributes // { inherit name buildCommand; });
      writeTextFile =
        {
          name,
          text,
          destination ? "",
          executable ? false,
        }:
        runCommand name
          {
            inherit text;
            passAsFile = [ "text" ];
            meta.mainProgram = name;
          }
          ''
            mkdir -p "$(dirname "$out${destination}")"
            cp "$textPath" "$out${destination}"
            ${lib.optionalString executable ''chmod +x "$out${destination}"''}
          '';
      writeShellScriptBin =
        name: text:
        final.writeTextFile {
          inherit name;
          text = "#!/bin/bash\n${text}";
          destination = "/bin/${name}";
          executable = true;
        };
      writeShellApplication = { name, text }: final.writeShellScriptBin name "set -euo pipefail\n${text}";
      linkFarm =
        name: entries:
        runCommand name { passthru = { inherit entries; }; } ''
          mkdir -p "$out"
          ${lib.concatMapStrings (entry: ''
            mkdir -p "$(dirname "$out/${entry.name}")"
            ln -s ${entry.path} "$out/${entry.name}"
          '') entries}
        '';
      closureInfo =
        { rootPaths }:
        runCommand "closure-info"
          {
            exportReferencesGraph = [
              "graph"
              (builtins.head rootPaths)
            ];
          }
          ''
            mkdir -p "$out"
            grep '^/nix/store/' graph | sort -u >"$out/store-paths"
          '';
      mkShell =
        attributes@{ packages, ... }:
        stdenv.mkDerivation (
          removeAttrs attributes [ "packages" ]
          // {
            nativeBuildInputs = packages;
            buildCommand = ''echo "$shellHook" >"$out"'';
          }
        );

      # The file of that name that a test put into sources/, else a fixed-output derivation that cannot fetch.
      fetchurl =
        {
          url,
          name ? baseNameOf url,
          sha1 ? "",
          sha256 ? "",
        }:
        let
          local = ./sources + "/${name}";
        in
        if builtins.pathExists local then
          "${local}"
        else
          stdenv.mkDerivation {
            inherit name url;
            outputHashAlgo = if sha1 != "" then "sha1" else "sha256";
            outputHash = sha1 + sha256;
            outputHashMode = "flat";
            buildCommand = ''
              echo "the stand-in for nixpkgs fetches nothing: $url" >&2
              exit 1
            '';
          };

      # As nixpkgs' own: the file's name is made of these, and its address is not of interest here.
      fetchPypi =
        {
          pname,
          version,
          format,
          dist,
          python,
          abi,
          platform,
          sha256,
        }:
        assert format == "wheel" && dist == python;
        final.fetchurl {
          url = "package:${pname}/${pname}-${version}-${python}-${abi}-${platform}.whl";
          inherit sha256;
        };

      autoAddDriverRunpath = runCommand "auto-add-driver-runpath-hook" { } ''
        install -D -m 644 ${./add-driver-runpath.sh} "$out/nix-support/setup-hook"
      '';
      autoPatchelfHook = hook "auto-patchelf-hook";
      bubblewrap = runCommand "bubblewrap" { } ''
        install -D -m 755 ${./bwrap.sh} "$out/bin/bwrap"
      '';
      cmake = tool "cmake" [ "cmake" ];
      ninja = tool "ninja" [ "ninja" ];
      nixfmt = tool "nixfmt" [ "nixfmt" ];
      nixfmt-tree = tool "nixfmt-tree" [ "nixfmt" ];
      nukeReferences = runCommand "nuke-references" { } ''
        install -D -m 755 ${./nuke-refs.sh} "$out/bin/nuke-refs"
      '';
      patchelf = tool "patchelf" [ "patchelf" ];
      pkg-config = tool "pkg-config" [ "pkg-config" ];
      pkgsStatic.busybox = tool "busybox" [ "busybox" ];
      removeReferencesTo = runCommand "remove-references-to" { } ''
        install -D -m 755 ${./remove-references-to.sh} "$out/bin/remove-references-to"
      '';
      ruff = tool "ruff" [ "ruff" ];
      shellcheck = tool "shellcheck" [ "shellcheck" ];
      unzip = tool "unzip" [ "unzip" ];

      pythonPackagesExtensions = [ ];
      python3 = import ./python.nix {
        inherit lib stdenv runCommand;
        extensions = final.pythonPackagesExtensions;
      };

      _cuda.lib.allowUnfreeCudaPredicate = package: (package.meta.license.free or true) == false;
    }
    // lib.optionalAttrs platform.isLinux {
      cudaPackages_13 = import ./cuda.nix {
        inherit lib stdenv;
        version = "13.0";
      };
      # The flake must refuse this one: it is too new for the pinned release.
      cudaPackages_13_3 = import ./cuda.nix {
        inherit lib stdenv;
        version = "13.3";
      };
    };

  final = builtins.foldl' (
    previous: overlay: previous // overlay final previous
  ) (base final) overlays;
in
final
