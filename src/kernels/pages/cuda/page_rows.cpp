#include <cstring>

#include "kernels/pages/cuda/device_pages.h"

namespace ei::kernels::cuda {
namespace {

constexpr int32_t kPiece = 16;  // bytes that stay together in the blocked layout

template <typename Copy>
void each_piece(const KvLayout& layout, int64_t count, bool values, Copy copy) {
  const int32_t row_bytes = layout.head_dim * layout.element_bytes;
  for (int64_t slot = 0; slot < count; ++slot) {
    for (int32_t at = 0; at < row_bytes; at += kPiece) {
      copy(layout.piece_in_page(slot, at / layout.element_bytes, values), slot * row_bytes + at);
    }
  }
}

}  // namespace

void gather_rows(const KvLayout& layout, const void* page, int64_t count, bool values, void* rows) {
  const auto* from = static_cast<const std::byte*>(page);
  auto* to = static_cast<std::byte*>(rows);
  each_piece(layout, count, values,
             [&](int64_t in_page, int64_t in_rows) { std::memcpy(to + in_rows, from + in_page, kPiece); });
}

void scatter_rows(const KvLayout& layout, const void* rows, int64_t count, bool values, void* page) {
  const auto* from = static_cast<const std::byte*>(rows);
  auto* to = static_cast<std::byte*>(page);
  each_piece(layout, count, values,
             [&](int64_t in_page, int64_t in_rows) { std::memcpy(to + in_page, from + in_rows, kPiece); });
}

}  // namespace ei::kernels::cuda
