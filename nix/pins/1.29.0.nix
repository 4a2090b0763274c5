{
  version = "1.29.0";
  wheels = {
    aarch64-darwin = {
      platform = "macosx_14_0_arm64";
      sha256 = "3a3814c041251d6a77fdf513fb282056538ee826d2f1178a0df3c549d3fff6ba";
    };
    aarch64-linux = {
      platform = "manylinux_2_28_aarch64";
      sha256 = "d2fb19e848f7c33ed8d3182b52504aaa11c5e8da438bbb47296f85b133cbcf6b";
    };
    x86_64-linux = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "2b80d8c7ec2cc7438e4da3760b88c24568cba72c9ace96d668800a6c79419acb";
    };
    x86_64-linux-cuda = {
      platform = "manylinux_2_28_x86_64";
      sha256 = "8ccd052ca4de21b2a335f3503a283126163b6fab9dba29d1d9cbf3fa55c51d28";
    };
  };
}
