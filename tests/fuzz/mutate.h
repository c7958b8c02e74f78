// Seeded random damage to a model file: bit flips, lies in length fields, splices, cuts.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"

namespace ei::fuzz {

class Mutator {
 public:
  explicit Mutator(std::string base);

  // `other` lends pieces for splices.
  std::string mutate(Random& random, const std::string& other) const;

 private:
  void damage(std::string& bytes, Random& random, const std::string& other) const;

  std::string base_;
  std::vector<size_t> fields_;  // where a 64-bit number that may be a length or count begins
};

}  // namespace ei::fuzz
