// KV pages in the plain layout, and sums beside them, for backends that move neither in a way of their own.
#include <vector>

#include "backend/backend.h"

namespace ei {
namespace {

template <typename Byte, typename Page>
Byte* at(Page* page, size_t offset) {
  return static_cast<Byte*>(page) + offset;
}

}  // namespace

Status Backend::takes_cache(DType key_type, DType value_type, int32_t) const {
  if (key_type != DType::kF8 && value_type != DType::kF8) return {};
  return make_error(ErrorKind::kUsage, "the %s backend has no cache in fp8; take f32, f16 or bf16",
                    std::string(name()).c_str());
}

Status Backend::move_slots(const KvPageShape& shape, std::span<const KvMove> moves) const {
  const size_t values_at = plain_page(shape).values_at;
  for (const KvMove& move : moves) {
    const auto from = static_cast<size_t>(move.from_slot);
    const auto to = static_cast<size_t>(move.to_slot);
    const auto count = static_cast<size_t>(move.count);
    EI_RETURN_IF_ERROR(copy_within(at<std::byte>(move.to, to * shape.key_row()),
                                   at<const std::byte>(move.from, from * shape.key_row()), count * shape.key_row()));
    EI_RETURN_IF_ERROR(copy_within(at<std::byte>(move.to, values_at + to * shape.value_row()),
                                   at<const std::byte>(move.from, values_at + from * shape.value_row()),
                                   count * shape.value_row()));
  }
  return {};
}

Status Backend::keep_sums(const KeptSums& kept) const {
  if (kept.keep.empty()) return {};
  std::vector<double> row(static_cast<size_t>(kept.keep.back()) + 1);
  for (int64_t i = 0; i < kept.rows; ++i) {
    double* sums = kept.sums + i * kept.stride;
    EI_RETURN_IF_ERROR(copy_out(row.data(), sums, row.size() * sizeof(double)));
    for (size_t to = 0; to < kept.keep.size(); ++to) row[to] = row[static_cast<size_t>(kept.keep[to])];
    EI_RETURN_IF_ERROR(copy_in(sums, row.data(), kept.keep.size() * sizeof(double)));
  }
  return {};
}

Status Backend::read_slots(const KvPageShape& shape, const void* page, int64_t count, void* keys, void* values) const {
  const auto slots = static_cast<size_t>(count);
  if (keys != nullptr) EI_RETURN_IF_ERROR(copy_out(keys, page, slots * shape.key_row()));
  if (values == nullptr) return {};
  return copy_out(values, at<const std::byte>(page, plain_page(shape).values_at), slots * shape.value_row());
}

Status Backend::write_slots(const KvPageShape& shape, void* page, int64_t count, const void* keys,
                            const void* values) const {
  const auto slots = static_cast<size_t>(count);
  if (keys != nullptr) EI_RETURN_IF_ERROR(copy_in(page, keys, slots * shape.key_row()));
  if (values == nullptr) return {};
  return copy_in(at<std::byte>(page, plain_page(shape).values_at), values, slots * shape.value_row());
}

}  // namespace ei
