#include "engine/cache_types.h"

namespace ei {

CacheTypes cache_types(const Backend& backend, std::optional<DType> keys, std::optional<DType> values) {
  const bool quantised = keys == DType::kQ8_0 || values == DType::kQ8_0;
  const DType other = quantised ? DType::kF16 : backend.default_kv_type();
  return {.keys = keys.value_or(other), .values = values.value_or(other)};
}

Status check_cache_types(const Backend& backend, const model::Config& config, CacheTypes types) {
  EI_RETURN_IF_ERROR(backend.takes_cache(types.keys, types.values, config.head_dim));
  if (!types.quantised()) return {};
  if (!backend.holds_q8()) {
    return make_error(ErrorKind::kUsage, "the %s backend has no cache of q8_0: take f16 or bf16, or --device cpu",
                      std::string(backend.name()).c_str());
  }
  if (config.head_dim % kQ8Elements != 0) {
    return make_error(
        ErrorKind::kUsage,
        "a cache of q8_0 needs heads of a multiple of %d elements, this model's have %d; take f16 or bf16",
        static_cast<int>(kQ8Elements), config.head_dim);
  }
  return {};
}

}  // namespace ei
