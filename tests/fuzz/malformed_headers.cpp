#include "malformed_groups.h"

namespace ei::fuzz {

Files malformed_headers() {
  const std::string valid = gguf::small_model();
  Files files = {{"empty", ""},
                 {"only-magic", "GGUF"},
                 {"wrong-magic", patched(valid, 0, 'X')},
                 {"old-magic", patched(valid, 0, uint32_t{0x67676a74})},
                 {"zeros", std::string(4096, '\0')},
                 {"ones", std::string(4096, '\xFF')},
                 {"text", "Hello, I am not a model.\nNeither am I.\n"}};
  for (const uint32_t version : {0u, 1u, 4u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x02000000u, 0x03000000u}) {
    files.push_back({"version-" + std::to_string(version), patched(valid, 4, version)});
  }
  for (const Lie& lie : kLies) {
    files.push_back({std::string("tensor-count-") + lie.name, patched(valid, 8, lie.value)});
    files.push_back({std::string("key-count-") + lie.name, patched(valid, 16, lie.value)});
  }
  files.push_back({"one-tensor-too-many", patched(valid, 8, uint64_t{3})});
  files.push_back({"one-key-too-many", patched(valid, 16, uint64_t{100})});
  files.push_back({"no-keys", patched(valid, 16, uint64_t{0})});
  return files;
}

}  // namespace ei::fuzz
