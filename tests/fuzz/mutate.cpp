#include "mutate.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace ei::fuzz {
namespace {

constexpr uint64_t kLargestField = 1 << 16;

template <typename T>
void overwrite(std::string& bytes, size_t offset, T value) {
  if (bytes.size() < sizeof(T) || offset > bytes.size() - sizeof(T)) return;
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

uint64_t lie(Random& random, size_t size) {
  const uint64_t lies[] = {~uint64_t{0},
                           (uint64_t{1} << 63) - 1,
                           uint64_t{1} << 63,
                           uint64_t{1} << 40,
                           uint64_t{1} << 61,
                           uint64_t{1} << 32,
                           0,
                           1,
                           size,
                           size - 1,
                           random.next()};
  return lies[random.below(std::ssize(lies))];
}

size_t place(Random& random, size_t size) { return static_cast<size_t>(random.below(static_cast<int64_t>(size) + 1)); }

}  // namespace

Mutator::Mutator(std::string base) : base_(std::move(base)) {
  for (size_t i = 0; i + sizeof(uint64_t) <= base_.size(); ++i) {
    uint64_t value = 0;
    std::memcpy(&value, base_.data() + i, sizeof(value));
    if (value > 0 && value < kLargestField) fields_.push_back(i);
  }
}

std::string Mutator::mutate(Random& random, const std::string& other) const {
  std::string bytes = base_;
  const int64_t rounds = random.below(2) == 0 ? 1 : random.between(2, 4);
  for (int64_t i = 0; i < rounds && !bytes.empty(); ++i) damage(bytes, random, other);
  return bytes;
}

void Mutator::damage(std::string& bytes, Random& random, const std::string& other) const {
  const size_t at = place(random, bytes.size() - 1);
  const size_t length = place(random, 64);
  switch (random.below(8)) {
    case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.below(8))); break;
    case 1: bytes[at] = static_cast<char>(random.next()); break;
    case 2: overwrite(bytes, fields_[place(random, fields_.size() - 1)], lie(random, bytes.size())); break;
    case 3: overwrite(bytes, at, lie(random, bytes.size())); break;
    case 4:
      overwrite(bytes, fields_[place(random, fields_.size() - 1)], static_cast<uint32_t>(random.below(16)));
      break;
    case 5: bytes.erase(at, length); break;
    case 6: bytes.insert(at, other, place(random, other.size()), length); break;
    default: bytes.replace(at, length, other, place(random, other.size()), length); break;
  }
}

}  // namespace ei::fuzz
