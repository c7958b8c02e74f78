# Each ISA variant is compiled with exactly the instructions it uses and is entered only after a run-time check. With
# sanitizers -O3 takes four times as long to compile as the -O2 of the room.
set(isa_level $<$<NOT:$<BOOL:${EI_SANITIZE}>>:-O3>)
function(ei_isa file flags)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/kernels/${file})
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/${file} TARGET_DIRECTORY ei_kernels
      PROPERTIES COMPILE_OPTIONS "${isa_level};${flags}")
  endif()
endfunction()
# The one file that knows what the build is for (simd/cpu_target.h).
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/simd/cpu_target.cpp TARGET_DIRECTORY ei_kernels
  PROPERTIES COMPILE_DEFINITIONS "EI_CPU_TARGET=\"${EI_CPU_TARGET}\"")
# Floating-point exceptions are never looked at; as long as they might be, a comparison keeps a loop from vectorising.
# Values do not change.
ei_isa(rowwise/cpu/rowwise_plain.cpp "-fno-trapping-math")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  ei_isa(rowwise/cpu/rowwise_avx2.cpp "-fno-trapping-math;-mavx2;-mfma;-mf16c")
  ei_isa(rowwise/cpu/rowwise_avx512.cpp "-fno-trapping-math;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c")
  ei_isa(attention/cpu/attention_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(attention/cpu/attention_avx512.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c")
  ei_isa(attention/cpu/attention_avx512bf16.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma;-mf16c")
  ei_isa(attention/cpu/attention_amx.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mamx-tile;-mamx-bf16;-mfma;-mf16c")
  ei_isa(window_scores/cpu/window_scores_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(block_scores/cpu/row_peaks_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(block_scores/cpu/row_peaks_avx512.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mfma;-mf16c")
  ei_isa(block_scores/cpu/row_peaks_amx.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mamx-tile;-mamx-int8;-mfma;-mf16c")
  ei_isa(products/cpu/gemm_amx.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mamx-tile;-mamx-bf16;-mfma;-mf16c")
  ei_isa(products/cpu/gemm_avx512bf16.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma;-mf16c")
  ei_isa(meter/cpu/roofline_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(meter/cpu/roofline_avx512.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c")
  ei_isa(meter/cpu/roofline_avx512bf16.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma;-mf16c")
  ei_isa(meter/cpu/roofline_amx.cpp "-mamx-tile;-mamx-bf16")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  ei_isa(attention/cpu/attention_neon.cpp "-march=armv8-a")
  ei_isa(attention/cpu/attention_neonbf16.cpp "-march=armv8.2-a+bf16")
  ei_isa(window_scores/cpu/window_scores_neon.cpp "-march=armv8-a")
  ei_isa(window_scores/cpu/window_scores_neonbf16.cpp "-march=armv8.2-a+bf16")
  ei_isa(block_scores/cpu/row_peaks_dotprod.cpp "-march=armv8.2-a+dotprod")
  ei_isa(block_scores/cpu/row_peaks_i8mm.cpp "-march=armv8.2-a+i8mm")
  ei_isa(products/cpu/gemm_neonbf16.cpp "-march=armv8.2-a+bf16")
  ei_isa(meter/cpu/roofline_neonbf16.cpp "-march=armv8.2-a+bf16")
endif()

# The other architecture's kernels: compiled with a cross compiler, run under qemu as far as it goes. Minutes; opt-in.
if(EI_TESTS)
  add_test(NAME cross_check COMMAND ${CMAKE_SOURCE_DIR}/tools/cross_check.sh ${CMAKE_BINARY_DIR}/cross)
  set_tests_properties(cross_check PROPERTIES LABELS "cross;slow" SKIP_RETURN_CODE 77 TIMEOUT 1800)
endif()
