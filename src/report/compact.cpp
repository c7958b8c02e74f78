#include "report/compact.h"

#include <algorithm>
#include <string_view>

namespace ei::report {

namespace {
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr size_t kLongestRun = 16;

void put_number(int64_t number, std::vector<uint8_t>& out) {
  auto rest = static_cast<uint64_t>(number);
  for (; rest >= 0x80; rest >>= 7) out.push_back(static_cast<uint8_t>(rest | 0x80));
  out.push_back(static_cast<uint8_t>(rest));
}
}  // namespace

std::string base64(std::span<const uint8_t> bytes) {
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (j < count ? bytes[i + j] : 0u);
    for (size_t j = 0; j < 4; ++j) text += j <= count ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

std::vector<uint8_t> level_runs(std::span<const uint8_t> levels) {
  std::vector<uint8_t> runs;
  for (size_t i = 0; i < levels.size();) {
    size_t end = i + 1;
    while (end < levels.size() && end - i < kLongestRun && levels[end] == levels[i]) ++end;
    runs.push_back(static_cast<uint8_t>(levels[i] << 4 | (end - i - 1)));
    i = end;
  }
  return runs;
}

std::vector<uint8_t> position_runs(const KvHeadView& head) {
  std::vector<uint8_t> runs;
  int64_t behind = 0;  // the run before
  for (int64_t slot = 0; slot < head.length;) {
    const int64_t begin = head.position(slot);
    int64_t count = 1;
    if (slot >= head.listed) {
      count = head.length - slot;  // the rest is consecutive
    } else {
      while (slot + count < head.length && head.position(slot + count) == begin + count) ++count;
    }
    put_number(begin - behind, runs);
    put_number(count, runs);
    behind = begin + count;
    slot += count;
  }
  return runs;
}

}  // namespace ei::report
