# A folder and a tarball with zrt, its Python, libc and loader: they run on a plain Linux with no Nix store.
{
  # The package set to build with.
  pkgs,
  # The package to carry, made by mkZrt.
  zrt,
}:
let
  inherit (pkgs) lib stdenv;
  python = zrt.pythonModule;
  environment = python.withPackages (_: [ zrt ]);
  name = "zrt-${if zrt.cuda then "cuda" else "cpu"}-${zrt.version}-${stdenv.hostPlatform.system}";
in
pkgs.runCommand "bundle-${name}"
  {
    nativeBuildInputs = [
      pkgs.nukeReferences
      pkgs.patchelf
      pkgs.python3
    ];

    passthru = {
      inherit zrt python;
    };

    # Nothing of the store is needed, so nothing is kept alive.
    allowedReferences = [ ];

    meta = {
      description =
        "zrt for a plain Linux without Nix (${if zrt.cuda then "CUDA" else "CPU"}): a folder and a tarball"
        + lib.optionalString zrt.cuda "; carries the CUDA runtime and cuDNN under NVIDIA's terms for whoever builds it";
      license = [ lib.licenses.asl20 ] ++ lib.optional zrt.cuda lib.licenses.unfreeRedistributable;
      platforms = [
        "x86_64-linux"
        "aarch64-linux"
      ];
    };
  }
  ''
    bundle=$out/${name}
    mkdir -p "$bundle/bin"
    python3 ${./collect.py} \
      --python ${python.interpreter} \
      --site-packages ${environment}/${python.sitePackages} \
      --loader "$(cat ${stdenv.cc}/nix-support/dynamic-linker)" \
      --libraries ${lib.getLib stdenv.cc.libc}/lib \
      "$bundle"

    install -m 755 ${./launcher.sh} "$bundle/bin/python3"
    install -m 755 ${./zrt.sh} "$bundle/bin/zrt"
    install -m 755 ${../apps/driver-folder.sh} "$bundle/bin/driver-folder"
    cp ${./README} "$bundle/README"
    ${lib.optionalString zrt.cuda ''cat ${./NVIDIA} >>"$bundle/README"''}

    find "$bundle" -type f -exec nuke-refs {} +
    bash ${./check-bundle.sh} "$bundle"
    tar --sort=name --mtime=@1 --owner=0 --group=0 --numeric-owner -C "$out" -czf "$out/${name}.tar.gz" ${name}
  ''
