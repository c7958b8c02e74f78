// Leaves the matrix tiles of this thread as they were found. Other libraries configure them as they like, and ggml
// configures a thread's tiles once and relies on it ever after.
#pragma once

namespace ei::kernels {

#if defined(__x86_64__)
class TileKeeper {
 public:
  TileKeeper();
  ~TileKeeper();
  TileKeeper(const TileKeeper&) = delete;
  TileKeeper& operator=(const TileKeeper&) = delete;

 private:
  alignas(64) unsigned char before_[64];  // TileConfig of tiles_amx.h
};
#else
struct [[maybe_unused]] TileKeeper {};
#endif

}  // namespace ei::kernels
