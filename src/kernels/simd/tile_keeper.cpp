#if defined(__x86_64__)
#include "kernels/simd/tile_keeper.h"

#include <cstring>

#include "kernels/simd/tiles_amx.h"
#include "kernels/simd/x86_features.h"

namespace ei::kernels {

namespace {
bool has_tiles() {
  static const bool kHas = cpu_has_amx_bf16() || cpu_has_amx_int8();
  return kHas;
}
}  // namespace

TileKeeper::TileKeeper() {
  const TileConfig before = has_tiles() ? TilesAmx::current() : TileConfig{};
  std::memcpy(before_, &before, sizeof before);
}

TileKeeper::~TileKeeper() {
  if (!has_tiles()) return;
  TileConfig before;
  std::memcpy(&before, before_, sizeof before);
  TilesAmx::restore(before);
}

}  // namespace ei::kernels
#endif
