# Each ISA variant is compiled with exactly the instructions it uses and is entered only after a run-time check. With
# sanitizers -O3 takes four times as long to compile as the -O2 of the room.
set(isa_level $<$<NOT:$<BOOL:${EI_SANITIZE}>>:-O3>)
function(ei_isa file flags)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/kernels/cpu/${file})
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/cpu/${file} TARGET_DIRECTORY ei_kernels
      PROPERTIES COMPILE_OPTIONS "${isa_level};${flags}")
  endif()
endfunction()
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  ei_isa(attention_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(attention_avx512.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c")
  ei_isa(attention_avx512bf16.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma;-mf16c")
  ei_isa(attention_amx.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mamx-tile;-mamx-bf16;-mfma;-mf16c")
  ei_isa(window_scores_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(row_peaks_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(row_peaks_avx512.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mfma;-mf16c")
  ei_isa(row_peaks_amx.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mamx-tile;-mamx-int8;-mfma;-mf16c")
  ei_isa(peak_avx2.cpp "-mavx2;-mfma;-mf16c")
  ei_isa(peak_avx512.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mf16c")
  ei_isa(peak_avx512bf16.cpp "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512bf16;-mfma;-mf16c")
  ei_isa(peak_amx.cpp "-mamx-tile;-mamx-bf16")
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  ei_isa(attention_neon.cpp "-march=armv8-a")
  ei_isa(attention_neonbf16.cpp "-march=armv8.2-a+bf16")
  ei_isa(window_scores_neon.cpp "-march=armv8-a")
  ei_isa(window_scores_neonbf16.cpp "-march=armv8.2-a+bf16")
  ei_isa(row_peaks_dotprod.cpp "-march=armv8.2-a+dotprod")
  ei_isa(row_peaks_i8mm.cpp "-march=armv8.2-a+i8mm")
  ei_isa(gemm_neonbf16.cpp "-march=armv8.2-a+bf16")
  ei_isa(peak_neonbf16.cpp "-march=armv8.2-a+bf16")
endif()

# Floating-point exceptions are never looked at; as long as they might be, a comparison keeps a loop from vectorising.
# Values do not change.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/kernels/rowwise.cpp TARGET_DIRECTORY ei_kernels
  PROPERTIES COMPILE_OPTIONS -fno-trapping-math)

# The other architecture's kernels: compiled with a cross compiler, run under qemu as far as it goes. Minutes; opt-in.
if(EI_TESTS)
  add_test(NAME cross_check COMMAND ${CMAKE_SOURCE_DIR}/tools/cross_check.sh ${CMAKE_BINARY_DIR}/cross)
  set_tests_properties(cross_check PROPERTIES LABELS "cross;slow" SKIP_RETURN_CODE 77 TIMEOUT 1800)
endif()
