# ei_kernels_cuda: every *.cu of the room. Files named *_sm90a.cu use wgmma and are compiled for Hopper alone, the others
# for every GPU from compute capability 8.0 on; which of them runs is decided at run time.
file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/kernels/*.cu)
set(cuda_hopper_sources ${cuda_sources})
list(FILTER cuda_hopper_sources INCLUDE REGEX "_sm90a\\.cu$")
list(FILTER cuda_sources EXCLUDE REGEX "_sm90a\\.cu$")

# ei_cuda_target(NAME GENCODE): the flags that all our CUDA code is compiled with.
function(ei_cuda_target name gencode)
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES OFF POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${gencode};--expt-relaxed-constexpr;-lineinfo;-Xcompiler=-Wall,-Wextra>)
  target_link_libraries(${name} PRIVATE ei_flags)
endfunction()

set(EI_CUDA_PORTABLE 80 90 CACHE STRING "compute capabilities that the portable kernels are compiled for, ascending")
foreach(capability ${EI_CUDA_PORTABLE})
  list(APPEND cuda_portable_gencode "SHELL:-gencode arch=compute_${capability},code=sm_${capability}")
endforeach()
list(GET EI_CUDA_PORTABLE -1 capability)  # newer GPUs make their own code of the last one's
list(APPEND cuda_portable_gencode "SHELL:-gencode arch=compute_${capability},code=compute_${capability}")
add_library(ei_kernels_cuda STATIC ${cuda_sources})
ei_cuda_target(ei_kernels_cuda "${cuda_portable_gencode}")
target_link_libraries(ei_kernels_cuda PUBLIC ei_kernels CUDA::cudart_static)
if(cuda_hopper_sources)
  add_library(ei_kernels_sm90a OBJECT ${cuda_hopper_sources})
  ei_cuda_target(ei_kernels_sm90a "SHELL:-gencode arch=compute_90a,code=sm_90a")
  target_link_libraries(ei_kernels_sm90a PRIVATE ei_kernels)
  target_sources(ei_kernels_cuda PRIVATE $<TARGET_OBJECTS:ei_kernels_sm90a>)
endif()
