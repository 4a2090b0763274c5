{
  version = "1.28.0";
  wheels = {
    aarch64-darwin = {
      platform = "macosx_14_0_arm64";
      sha256 = "26ff0fdd06efb6c155bae95387a09db1a2be89c7a03e4d0bffd5a171cc2826da";
    };
    aarch64-linux = {
      platform = "manylinux_2_27_aarch64.manylinux_2_28_aarch64";
      sha256 = "4e81a23df16e7acb9d51b06d30cc098e49315ef9180f97bc2221d167b4b04d9c";
    };
    x86_64-linux = {
      platform = "manylinux_2_27_x86_64.manylinux_2_28_x86_64";
      sha256 = "0a83bdb70d143cede762b677789bf2a7acca54b3fb82565601d5c30695aa933c";
    };
    x86_64-linux-cuda = {
      platform = "manylinux_2_27_x86_64.manylinux_2_28_x86_64";
      sha256 = "3b3a63cecd239d72432cd44569d047de8f4d69e471cd5f60f7ac7fc8769be5ec";
    };
  };
}
