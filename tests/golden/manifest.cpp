#include "golden/manifest.h"

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>

namespace ei::golden {
namespace {

// The machines we run on are little-endian, as the files are.
template <typename T>
std::vector<T> reinterpret(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

std::vector<int32_t> Lists::list(size_t i) const {
  return {indices.begin() + offsets.at(i), indices.begin() + offsets.at(i + 1)};
}

Manifest Manifest::open() {
  Manifest manifest;
  const char* other = std::getenv("EI_GOLDEN_DIR");
  manifest.folder_ = other != nullptr && *other != '\0' ? other : EI_SOURCE_DIR "/tests/golden/data";
  std::ifstream file(manifest.folder_ + "/manifest.json");
  if (!file) throw std::runtime_error("cannot read " + manifest.folder_ + "/manifest.json; is EI_GOLDEN_DIR right?");
  manifest.json_ = Json::parse(file);
  if (manifest.json_.at("format").get<int>() != 1) throw std::runtime_error("manifest.json is not of format 1");
  return manifest;
}

std::string Manifest::bytes(const Json& array, std::string_view dtype) const {
  if (array.at("dtype").get<std::string>() != dtype) throw std::runtime_error("an array is not " + std::string(dtype));
  size_t size = 4;
  for (const Json& extent : array.at("shape")) size *= extent.get<size_t>();
  const std::string path = folder_ + "/" + array.at("file").get<std::string>();
  std::ifstream file(path, std::ios::binary);
  std::string out(size, '\0');
  file.seekg(array.at("offset").get<std::streamoff>());
  if (size > 0 && !file.read(out.data(), static_cast<std::streamsize>(size)))
    throw std::runtime_error(path + " is too short");
  return out;
}

std::vector<float> Manifest::floats(const Json& array) const { return reinterpret<float>(bytes(array, "f32")); }

std::vector<int32_t> Manifest::ints(const Json& array) const {
  if (array.is_array()) return array.get<std::vector<int32_t>>();
  return reinterpret<int32_t>(bytes(array, "i32"));
}

Lists Manifest::lists(const Json& lists) const { return {ints(lists.at("offsets")), ints(lists.at("indices"))}; }

}  // namespace ei::golden
