// wgmma: 64 rows of A by N columns of B, 16 deep, accumulated in N / 2 registers a thread; bf16 or f16 operands.
// A comes from registers or from shared memory; B from shared memory, as [N, 16] rows or, transposed, as [16, N].
// And 32 deep with operands of 8 bits, sums in integers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace ei::kernels::cuda {

// clang-format off
#define EI_PLACES_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define EI_PLACES_32 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define EI_PLACES_48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define EI_PLACES_56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define EI_PLACES_64 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define EI_PLACES_96 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define EI_FLOATS_8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define EI_FLOATS_16(i) EI_FLOATS_8(i), EI_FLOATS_8(i + 8)
#define EI_FLOATS_32(i) EI_FLOATS_16(i), EI_FLOATS_16(i + 16)
#define EI_ALL_64() EI_FLOATS_32(0)
#define EI_ALL_96() EI_FLOATS_32(0), EI_FLOATS_16(32)
#define EI_ALL_112() EI_FLOATS_32(0), EI_FLOATS_16(32), EI_FLOATS_8(48)
#define EI_ALL_128() EI_FLOATS_32(0), EI_FLOATS_32(32)
#define EI_ALL_256() EI_FLOATS_32(0), EI_FLOATS_32(32), EI_FLOATS_32(64), EI_FLOATS_32(96)
#define EI_WGMMA_SS(N, TYPE, PLACES, FLOATS, A, B, P)                                                        \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE \
               " {" PLACES "}, " A ", " B ", p, 1, 1, 0, 0;\n}\n" : FLOATS() : "l"(a), "l"(b), "r"(add))
#define EI_WGMMA_RS(N, TYPE, PLACES, FLOATS, A, B, P, TRANSPOSED)                                            \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " P ", 0;\nwgmma.mma_async.sync.aligned.m64n" N "k16.f32." TYPE "." TYPE \
               " {" PLACES "}, {" A "}, " B ", p, 1, 1, " TRANSPOSED ";\n}\n"                                    \
               : FLOATS() : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add))
#define EI_WGMMA(N, PLACES, FLOATS, SA, SB, SP, RA, RB, RP)                                                  \
  template <typename T>                                                                                       \
  __device__ __forceinline__ void wgmma_ss(float (&d)[N / 2], uint64_t a, uint64_t b, int add) {              \
    if constexpr (std::is_same_v<T, __half>) EI_WGMMA_SS(#N, "f16", PLACES, FLOATS, SA, SB, SP);              \
    else EI_WGMMA_SS(#N, "bf16", PLACES, FLOATS, SA, SB, SP);                                                 \
  }                                                                                                           \
  template <typename T, bool kTransposed>                                                                     \
  __device__ __forceinline__ void wgmma_rs(float (&d)[N / 2], const uint32_t* a, uint64_t b, int add) {       \
    if constexpr (std::is_same_v<T, __half> && kTransposed) EI_WGMMA_RS(#N, "f16", PLACES, FLOATS, RA, RB, RP, "1"); \
    else if constexpr (std::is_same_v<T, __half>) EI_WGMMA_RS(#N, "f16", PLACES, FLOATS, RA, RB, RP, "0");    \
    else if constexpr (kTransposed) EI_WGMMA_RS(#N, "bf16", PLACES, FLOATS, RA, RB, RP, "1");                 \
    else EI_WGMMA_RS(#N, "bf16", PLACES, FLOATS, RA, RB, RP, "0");                                            \
  }
EI_WGMMA(64, EI_PLACES_0, EI_ALL_64, "%32", "%33", "%34", "%32, %33, %34, %35", "%36", "%37")
EI_WGMMA(96, EI_PLACES_0 ", " EI_PLACES_32, EI_ALL_96, "%48", "%49", "%50", "%48, %49, %50, %51", "%52", "%53")
EI_WGMMA(112, EI_PLACES_0 ", " EI_PLACES_32 ", " EI_PLACES_48, EI_ALL_112, "%56", "%57", "%58", "%56, %57, %58, %59", "%60", "%61")
EI_WGMMA(128, EI_PLACES_0 ", " EI_PLACES_32 ", " EI_PLACES_48 ", " EI_PLACES_56, EI_ALL_128, "%64", "%65", "%66", "%64, %65, %66, %67", "%68", "%69")
EI_WGMMA(256, EI_PLACES_0 ", " EI_PLACES_32 ", " EI_PLACES_48 ", " EI_PLACES_56 ", " EI_PLACES_64 ", " EI_PLACES_96, EI_ALL_256, "%128", "%129", "%130", "%128, %129, %130, %131", "%132", "%133")
// The same fragments with 32 bytes of A a row: words of four neighbouring bytes.
#define EI_INTS_8(i) "+r"(d[i]), "+r"(d[i + 1]), "+r"(d[i + 2]), "+r"(d[i + 3]), "+r"(d[i + 4]), "+r"(d[i + 5]), "+r"(d[i + 6]), "+r"(d[i + 7])
__device__ __forceinline__ void wgmma_rs(int32_t (&d)[64], const uint32_t* a, uint64_t b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\nwgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8 {" EI_PLACES_0 ", "
               EI_PLACES_32 ", " EI_PLACES_48 ", " EI_PLACES_56 "}, {%64, %65, %66, %67}, %68, p;\n}\n"
               : EI_INTS_8(0), EI_INTS_8(8), EI_INTS_8(16), EI_INTS_8(24), EI_INTS_8(32), EI_INTS_8(40), EI_INTS_8(48), EI_INTS_8(56)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
#undef EI_INTS_8
#undef EI_WGMMA
#undef EI_WGMMA_RS
#undef EI_WGMMA_SS
#undef EI_ALL_64
#undef EI_ALL_96
#undef EI_ALL_112
#undef EI_ALL_128
#undef EI_ALL_256
#undef EI_FLOATS_32
#undef EI_FLOATS_16
#undef EI_FLOATS_8
#undef EI_PLACES_96
#undef EI_PLACES_64
#undef EI_PLACES_56
#undef EI_PLACES_48
#undef EI_PLACES_32
#undef EI_PLACES_0
// clang-format on

}  // namespace ei::kernels::cuda
