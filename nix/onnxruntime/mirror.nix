# The folder that CMake takes third-party archives from: each URL of deps.txt as a path, without its scheme.
{
  lib,
  linkFarm,
  fetchurl,
  # A release of nix/pins.nix.
  release,
  # The parts to build, as in flags.nix: each needs archives of its own.
  cuda ? false,
  coreml ? false,
  arm ? false,
  darwin ? false,
}:
linkFarm "onnxruntime-${release.version}-mirror" (
  map
    (
      archive:
      let
        inherit (release.archives.${archive}) url sha1;
      in
      {
        name = lib.removePrefix "https://" url;
        path = fetchurl { inherit url sha1; };
      }
    )
    (
      import ./archives.nix {
        inherit
          cuda
          coreml
          arm
          darwin
          ;
      }
    )
)
