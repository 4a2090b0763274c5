{
  version = "1.30.0";
  wheels = {
    aarch64-darwin = {
      platform = "macosx_14_0_arm64";
      sha256 = "001ed726c9bd5e2bc92faade7d37d889e9606a350b7d5529f0227df2e3bb57fd";
    };
    aarch64-linux = {
      platform = "manylinux_2_28_aarch64";
      sha256 = "6c32a000d5139a38ba9349030b0032e3331acb559d596b22738d9d2b343a2b83";
    };
    x86_64-linux = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "fa688e7891a6aa206636fe7372e27ee75fd17713289f6b4fc7b190e0a7de9328";
    };
    x86_64-linux-cuda = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "6acc0f4b3d5ac5f2984432faa59dd8fcce6775f8b43a7140afa0f322c7a703b1";
    };
  };
}
