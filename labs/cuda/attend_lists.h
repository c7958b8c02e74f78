// Lists of blocks for attend_bench: drawn, or as a model made them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace bench {

constexpr int kHeads = 32;
constexpr int kKvHeads = 8;
constexpr int kSegment = 512;

// The lists of a plan while it is made: of every segment of one kv_head, then of the next.
struct Lists {
  std::vector<int64_t> offsets = {0};
  std::vector<int32_t> blocks;
  double listed = 0;  // pairs of a query of one head with a key of a list
  double before = 0;  // with any key in front of its segment
  double own = 0;     // with those of its own segment up to itself

  // `chosen`: of the blocks in front of the segment, which.
  void add(const std::vector<uint8_t>& chosen, int block) {
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (chosen[i] != 0) blocks.push_back(static_cast<int32_t>(i));
    }
    listed += static_cast<double>(static_cast<int64_t>(blocks.size()) - offsets.back()) * block * kSegment;
    before += static_cast<double>(chosen.size()) * block * kSegment;
    own += kSegment * (kSegment + 1) / 2.0;
    offsets.push_back(static_cast<int64_t>(blocks.size()));
  }
  double pairs() const { return (listed + own) * (kHeads / kKvHeads); }
  double density() const { return listed / before; }
};

// Drawn: heavy-tailed counts around `density` of what lies before, in runs of mixed length.
inline Lists drawn_lists(int tokens, int block, double density) {
  std::mt19937 random(11);
  std::lognormal_distribution<double> tail(-0.5, 1.0);  // of mean one
  std::geometric_distribution<int> runs(0.4);
  Lists lists;
  for (int head = 0; head < kKvHeads; ++head) {
    for (int segment = 0; segment < tokens / kSegment; ++segment) {
      const int before = segment * (kSegment / block);
      const int wanted = std::min(before, static_cast<int>(before * density * tail(random)) + (before > 0 ? 1 : 0));
      std::vector<uint8_t> chosen(static_cast<size_t>(before), 0);
      for (int count = 0; count < wanted;) {
        const int first = static_cast<int>(random() % static_cast<unsigned>(before));
        const int run = 1 + runs(random);
        for (int i = first; i < std::min(before, first + run) && count < wanted; ++i) {
          count += chosen[static_cast<size_t>(i)] == 0 ? 1 : 0;
          chosen[static_cast<size_t>(i)] = 1;
        }
      }
      lists.add(chosen, block);
    }
  }
  return lists;
}

// What lists.py wrote: 32-bit words 'EILS', tokens of a block, lists of kv_heads, segments of each; [heads][segments]
// how many blocks (-1: all in front of the segment); then all blocks, 16 bits each.
struct RecordedLists {
  int block = 0;
  int heads = 0;
  int segments = 0;
  std::vector<std::vector<uint16_t>> blocks;  // [heads][segments]
  std::vector<uint8_t> all;

  static RecordedLists read(const std::string& path) {
    RecordedLists lists;
    std::ifstream file(path, std::ios::binary);
    int32_t head[4] = {};
    file.read(reinterpret_cast<char*>(head), sizeof head);
    constexpr int32_t kMagic = 0x534c4945;
    const bool whole = file && head[0] == kMagic && head[1] > 0 && kSegment % head[1] == 0 && head[2] > 0 &&
                       head[3] > 0 && head[3] <= 256;
    if (!whole) {
      std::printf("%s: not what lists.py writes for segments of %d and at most 131072 tokens\n", path.c_str(),
                  kSegment);
      std::exit(1);
    }
    lists.block = head[1];
    lists.heads = head[2];
    lists.segments = head[3];
    std::vector<int32_t> counts(static_cast<size_t>(lists.heads) * static_cast<size_t>(lists.segments));
    file.read(reinterpret_cast<char*>(counts.data()), static_cast<std::streamsize>(counts.size() * sizeof(int32_t)));
    for (const int32_t count : counts) {
      std::vector<uint16_t>& list = lists.blocks.emplace_back(static_cast<size_t>(std::max(count, 0)));
      file.read(reinterpret_cast<char*>(list.data()), static_cast<std::streamsize>(list.size() * sizeof(uint16_t)));
      lists.all.push_back(count < 0 ? 1 : 0);
    }
    if (!file) {
      std::printf("%s ends too early\n", path.c_str());
      std::exit(1);
    }
    return lists;
  }

  // The same keys in blocks of another size; a larger one is read where any of its keys was. Its kv_heads stand for
  // the bench's, evenly over the layers.
  Lists in_blocks_of(int size) const {
    Lists lists;
    for (int head = 0; head < kKvHeads; ++head) {
      const size_t source = static_cast<size_t>(head * heads / kKvHeads);
      for (int segment = 0; segment < segments; ++segment) {
        const size_t at = source * static_cast<size_t>(segments) + static_cast<size_t>(segment);
        std::vector<uint8_t> chosen(static_cast<size_t>(segment * (kSegment / size)), all[at]);
        for (const uint16_t listed : blocks[at]) {
          const size_t end =
              std::min<size_t>(chosen.size(), static_cast<size_t>(((listed + 1) * block - 1) / size + 1));
          for (size_t i = static_cast<size_t>(listed * block / size); i < end; ++i) chosen[i] = 1;
        }
        lists.add(chosen, size);
      }
    }
    return lists;
  }
};

}  // namespace bench
