// A named collection of broken model files: every way of lying that has broken a reader of this format.
#pragma once

#include <string>
#include <vector>

namespace ei::fuzz {

struct NamedFile {
  std::string name;
  std::string bytes;
};

std::vector<NamedFile> malformed_files();
// Valid files, one for each kind of vocabulary and version.
std::vector<NamedFile> valid_files();

}  // namespace ei::fuzz
