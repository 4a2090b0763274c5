# Adds the compiler's options in ZRT_COUNTED to what is around the kernels. The kernels go without: with counts, gcc makes
# the loops of Clip and Mul up to twice as slow.
function(add_to_counted_parts)
  foreach(part common framework graph session)
    target_compile_options(onnxruntime_${part} PRIVATE ${ZRT_COUNTED})
  endforeach()
endfunction()
# At the end of the folder, when the parts are known.
cmake_language(DEFER CALL add_to_counted_parts)
