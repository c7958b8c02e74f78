#include "backend/slabs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "backend/ggml_device.h"
#include "backend/host_memory.h"
#include "base/random.h"

namespace ei {
namespace {

// Hands out slabs from the heap and counts what lives, with a limit.
struct Heap {
  int64_t live = 0;
  int64_t limit = INT64_MAX;

  Slabs::Slab make(size_t bytes) {
    if (live + static_cast<int64_t>(bytes) > limit) return {};
    live += static_cast<int64_t>(bytes);
    auto* data = new std::byte[bytes];
    return {std::shared_ptr<void>(data,
                                  [this, bytes](void* memory) {
                                    live -= static_cast<int64_t>(bytes);
                                    delete[] static_cast<std::byte*>(memory);
                                  }),
            data};
  }
  Slabs slabs() {
    return Slabs([this](size_t bytes) { return make(bytes); });
  }
};

struct Piece {
  Slabs::Slab place;
  size_t bytes = 0;
  int mark = 0;
};

void write(const Piece& piece) { std::memset(piece.place.data, piece.mark, piece.bytes); }
bool intact(const Piece& piece) {
  return std::all_of(piece.place.data, piece.place.data + piece.bytes,
                     [&](std::byte value) { return std::to_integer<int>(value) == piece.mark; });
}

TEST(Slabs, PiecesAreAlignedAndApartAndLastAsLongAsTheyAreHeld) {
  Heap heap;
  Slabs slabs = heap.slabs();
  Random random(7);
  std::vector<Piece> held;
  for (int step = 0; step < 600; ++step) {
    if (held.size() > 20) {
      const size_t gone = random.next() % held.size();
      ASSERT_TRUE(intact(held[gone]));
      std::swap(held[gone], held.back());
      held.pop_back();
    }
    const size_t bytes = 1 + random.next() % (Slabs::kLargestShared / 8);
    Piece piece{.place = slabs.place(bytes, 64), .bytes = bytes, .mark = step % 251};
    ASSERT_NE(piece.place.owner, nullptr);
    const auto* first = static_cast<const std::byte*>(piece.place.owner.get());
    ASSERT_EQ((piece.place.data - first) % 64, 0);
    ASSERT_LE(static_cast<size_t>(piece.place.data - first) + piece.bytes, Slabs::kSlabBytes);
    write(piece);
    held.push_back(std::move(piece));
  }
  for (const Piece& piece : held) ASSERT_TRUE(intact(piece));
  EXPECT_LE(heap.live, static_cast<int64_t>(22 * Slabs::kSlabBytes)) << "slabs without pieces are gone";
  held.clear();
  EXPECT_EQ(heap.live, 0);
}

TEST(Slabs, SmallPiecesShareAndLargeOnesDoNot) {
  Heap heap;
  Slabs slabs = heap.slabs();
  const Slabs::Slab one = slabs.place(1000, 64);
  const Slabs::Slab large = slabs.place(Slabs::kLargestShared + 1, 64);
  const Slabs::Slab two = slabs.place(1000, 64);
  EXPECT_EQ(one.owner, two.owner);
  EXPECT_EQ(two.data - one.data, 1024);
  EXPECT_NE(large.owner, one.owner);
  EXPECT_EQ(heap.live, static_cast<int64_t>(Slabs::kSlabBytes + Slabs::kLargestShared + 1));
}

TEST(Slabs, WhereNoSlabFitsAPieceMayStillFit) {
  Heap heap;
  heap.limit = 4096;
  Slabs slabs = heap.slabs();
  const Slabs::Slab one = slabs.place(1000, 64);
  ASSERT_NE(one.owner, nullptr);
  EXPECT_EQ(heap.live, 1000);
  EXPECT_EQ(slabs.place(4000, 64).owner, nullptr);
  EXPECT_EQ(heap.live, 1000);
}

TEST(Slabs, OfRepackedWeightsBeginOnHugePages) {
  auto device = GgmlDevice::create(1);
  ASSERT_TRUE(device.ok()) << device.error().message;
  ggml_backend_buffer_type_t type = (*device)->repacked_type(GGML_TYPE_Q8_0, 512, 512);
  if (type == nullptr) GTEST_SKIP() << "ggml repacks no Q8_0 on this CPU";
  const GgmlDevice::Place one = (*device)->place(type, 100'000);
  const GgmlDevice::Place two = (*device)->place(type, 100'000);
  ASSERT_NE(one.buffer, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one.data) % kHugePage, 0);
  EXPECT_EQ(one.buffer, two.buffer);
  EXPECT_GE(static_cast<std::byte*>(two.data), static_cast<std::byte*>(one.data) + 100'000);
}

}  // namespace
}  // namespace ei
