# EI_CPU_TARGET names the CPU a build is for instead of the one it is made on; empty: this machine's. Here the names are
# checked and ggml gets its flags. What the engine's own kernels may use of it is said in src/kernels/simd/cpu_target.cpp.
set(EI_CPU_TARGET "" CACHE STRING "armv8.2, armv8.4, armv8.6, x86-64-v2, x86-64-v3 or x86-64-v4; empty: this machine")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(EI_CPU_TARGETS armv8.2 armv8.4 armv8.6)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(EI_CPU_TARGETS x86-64-v2 x86-64-v3 x86-64-v4)
endif()
if(EI_CPU_TARGET AND NOT EI_CPU_TARGET IN_LIST EI_CPU_TARGETS)
  list(JOIN EI_CPU_TARGETS ", " names)
  message(FATAL_ERROR "EI_CPU_TARGET on ${CMAKE_SYSTEM_PROCESSOR} is one of ${names}, not '${EI_CPU_TARGET}'")
endif()

# To be called before ggml's own CMakeLists.txt is read.
macro(ei_ggml_for_target)
  set(GGML_NATIVE OFF CACHE BOOL "" FORCE)
  # What the first CPUs of each kind had: dot products and fp16 (Neoverse-N1, Raspberry Pi 5), fp16 products summed in
  # fp32 (Apple M1), bf16 and 8-bit matrix products (Neoverse-V1).
  if(EI_CPU_TARGET STREQUAL "armv8.2")
    set(GGML_CPU_ARM_ARCH armv8.2-a+dotprod+fp16 CACHE STRING "" FORCE)
  elseif(EI_CPU_TARGET STREQUAL "armv8.4")
    set(GGML_CPU_ARM_ARCH armv8.4-a+fp16 CACHE STRING "" FORCE)
  elseif(EI_CPU_TARGET STREQUAL "armv8.6")
    set(GGML_CPU_ARM_ARCH armv8.6-a+fp16 CACHE STRING "" FORCE)
  else()
    set(GGML_SSE42 ON CACHE BOOL "" FORCE)
    foreach(part AVX AVX2 BMI2 FMA F16C)
      string(COMPARE NOTEQUAL "${EI_CPU_TARGET}" x86-64-v2 has)
      set(GGML_${part} ${has} CACHE BOOL "" FORCE)
    endforeach()
    string(COMPARE EQUAL "${EI_CPU_TARGET}" x86-64-v4 has)
    set(GGML_AVX512 ${has} CACHE BOOL "" FORCE)
    foreach(part AVX_VNNI AVX512_VBMI AVX512_VNNI AVX512_BF16 AMX_TILE AMX_INT8 AMX_BF16)
      set(GGML_${part} OFF CACHE BOOL "" FORCE)
    endforeach()
  endif()
endmacro()
