#include "eval/run/result_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

namespace ei::eval {
namespace {

constexpr const char* kFileName = "items.jsonl";

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Result<ResultFile> ResultFile::open(const std::string& folder, const std::string& conditions) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    return make_error(ErrorKind::kUsage, "cannot make the folder %s: %s", one_line(folder).c_str(),
                      error.message().c_str());
  ResultFile results;
  results.path_ = (fs::path(folder) / kFileName).string();
  const std::string text = contents_of(results.path_);
  size_t good = 0;  // bytes of whole lines
  bool first = true;
  for (size_t at = 0, end = text.find('\n'); end != std::string::npos; at = end + 1, end = text.find('\n', at)) {
    const std::string line = text.substr(at, end - at);
    if (first) {
      if (line != conditions) {
        return make_error(ErrorKind::kUsage,
                          "%s was begun with another model, seed or kind of question: take another --out",
                          one_line(results.path_).c_str());
      }
    } else {
      Result<ItemResult> result = parse_result(line);
      if (!result.ok())
        return make_error(ErrorKind::kUsage, "%s is damaged at byte %zu: take another --out",
                          one_line(results.path_).c_str(), at);
      results.remember(std::move(*result));
    }
    first = false;
    good = end + 1;
  }
  if (good < text.size()) fs::resize_file(results.path_, good, error);
  results.file_.reset(std::fopen(results.path_.c_str(), "ab"));
  if (results.file_ == nullptr || error)
    return make_error(ErrorKind::kRuntime, "cannot write %s: %s", one_line(results.path_).c_str(),
                      std::strerror(errno));
  if (first) EI_RETURN_IF_ERROR(results.put(conditions + "\n"));
  return results;
}

void ResultFile::remember(ItemResult result) {
  if (known_.insert({result.item, result.method}).second) results_.push_back(std::move(result));
}

Status ResultFile::put(const std::string& line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size();
  if (written && std::fflush(file_.get()) == 0) return {};
  return make_error(ErrorKind::kRuntime, "cannot write %s: is the disk full?", one_line(path_).c_str());
}

Status ResultFile::add(const ItemResult& result) {
  EI_RETURN_IF_ERROR(put(result_line(result)));
  remember(result);
  return {};
}

}  // namespace ei::eval
