// How keys and values lie inside a page on a GPU: the contract of everything that writes or reads pages there.
//
// A page holds page_slots slots (a multiple of 8) as blocks of 8 keys. A block is contiguous: its K rows, then its V
// rows. Either half is a row of atoms: 8 rows x 128 bytes (64 or 32 where head_dim does not fill 128), one atom behind
// the other along head_dim, whose 16-byte pieces are swizzled as wgmma's descriptors expect, so that one copy brings a
// block into shared memory ready for the tensor cores. Blocks that follow each other in a page are one longer copy.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define EI_HOST_DEVICE __host__ __device__
#else
#define EI_HOST_DEVICE
#endif

namespace ei::kernels::cuda {

inline constexpr int32_t kBlockKeys = 8;

struct KvLayout {
  int32_t head_dim = 0;
  int32_t element_bytes = 2;  // 2: bf16 and f16, 1: fp8

  // Bytes of one row of an atom: the widest swizzle that divides a row.
  EI_HOST_DEVICE constexpr int32_t atom_row_bytes() const {
    const int32_t row = head_dim * element_bytes;
    return row % 128 == 0 ? 128 : row % 64 == 0 ? 64 : 32;
  }
  EI_HOST_DEVICE constexpr int32_t atom_bytes() const { return kBlockKeys * atom_row_bytes(); }
  EI_HOST_DEVICE constexpr int32_t half_bytes() const { return kBlockKeys * head_dim * element_bytes; }
  EI_HOST_DEVICE constexpr int32_t block_bytes() const { return 2 * half_bytes(); }
  EI_HOST_DEVICE constexpr int64_t page_bytes(int64_t page_slots) const {
    return page_slots / kBlockKeys * block_bytes();
  }
  EI_HOST_DEVICE constexpr bool valid() const {
    return (element_bytes == 1 || element_bytes == 2) && head_dim > 0 && head_dim * element_bytes % 32 == 0;
  }

  // Bytes from the beginning of a half block to the 16-byte piece `piece` of row `row`. A swizzle of 128 (64, 32) bytes
  // exchanges pieces by the address bits above the 128-byte lines: by the row, its half, its quarter.
  EI_HOST_DEVICE constexpr int32_t piece_offset(int32_t row, int32_t piece) const {
    const int32_t pieces = atom_row_bytes() / 16;
    const int32_t mix = row * atom_row_bytes() / 128 % pieces;
    return piece / pieces * atom_bytes() + row * atom_row_bytes() + ((piece % pieces) ^ mix) * 16;
  }
  // Bytes from the beginning of a page to the 16-byte piece that holds element `dim` of `slot` (counted in the page).
  EI_HOST_DEVICE constexpr int64_t piece_in_page(int64_t slot, int32_t dim, bool value) const {
    return slot / kBlockKeys * block_bytes() + (value ? half_bytes() : 0) +
           piece_offset(static_cast<int32_t>(slot % kBlockKeys), dim * element_bytes / 16);
  }
  // The same for one element, counted in elements. Elements of a piece (8 of 2 bytes) are neighbours.
  EI_HOST_DEVICE constexpr int64_t element_offset(int64_t slot, int32_t dim, bool value) const {
    return piece_in_page(slot, dim, value) / element_bytes + dim % (16 / element_bytes);
  }
};

}  // namespace ei::kernels::cuda
