# EI_CUDA: the CUDA language, where a toolkit is found; otherwise configuring says so and the build goes on without.
if(EI_CUDA)
  include(CheckLanguage)
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # every target names its own, as flags: 90a beside 80
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know how to ask nvcc 13 for it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
    find_package(CUDAToolkit REQUIRED)
  else()
    message(STATUS "no CUDA toolkit found: built without GPU kernels (EI_CUDA=ON was asked for)")
    set(EI_CUDA OFF)
  endif()
endif()
