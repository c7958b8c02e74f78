// Model files that are not as they should be.
#pragma once

#include <cstdint>
#include <string>

namespace ei::e2e {

// The model that ships with the program, with one u32 or f32 of its metadata replaced; the path.
std::string model_with_number(const std::string& name, const std::string& key, uint32_t bits);
// The same with this chat template, which must not be longer than its own.
std::string model_with_template(const std::string& name, std::string source);
// A well-formed model of several TiB that takes no room on the disk; empty where the file system cannot do that.
std::string huge_model();

}  // namespace ei::e2e
