#include "eval/run/result_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <utility>

namespace ei::eval {
namespace {

using Object = nlohmann::ordered_json;

constexpr const char* kFileName = "items.jsonl";

std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// "cache_keys: f16, now q8_0" of every one that differs.
std::string differences(const std::string& stored, const std::string& now) {
  const Object before = Object::parse(stored, nullptr, false);
  const Object after = Object::parse(now, nullptr, false);
  if (!before.is_object() || !after.is_object()) return "its first line names none";
  std::string text;
  const auto shown = [](const Object& object, const std::string& name) {
    if (!object.contains(name)) return std::string("not said");
    const Object& value = object[name];
    return value.is_string() && !value.get_ref<const std::string&>().empty() ? value.get<std::string>() : value.dump();
  };
  const auto compare = [&](const std::string& name) {
    const std::string was = shown(before, name);
    const std::string is = shown(after, name);
    if (was != is) text += (text.empty() ? "" : "; ") + name + ": " + was + ", now " + is;
  };
  for (const auto& one : after.items()) compare(one.key());
  for (const auto& one : before.items())
    if (!after.contains(one.key())) compare(one.key());
  return text;
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
  results.conditions_ = conditions;
  const std::string text = contents_of(results.path_);
  size_t good = 0;  // bytes of whole lines
  bool first = true;
  for (size_t at = 0, end = text.find('\n'); end != std::string::npos; at = end + 1, end = text.find('\n', at)) {
    const std::string line = text.substr(at, end - at);
    if (first) {
      if (line != conditions) {
        return make_error(ErrorKind::kUsage, "%s was begun under other conditions (%s): take another --out",
                          one_line(results.path_).c_str(), one_line(differences(line, conditions)).c_str());
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
  if (error)
    return make_error(ErrorKind::kRuntime, "cannot write %s: %s", one_line(results.path_).c_str(),
                      error.message().c_str());
  EI_RETURN_IF_ERROR(results.reopen());
  if (first) EI_RETURN_IF_ERROR(results.put(conditions + "\n"));
  return results;
}

const ItemResult* ResultFile::find(const std::string& item, const std::string& method) const {
  const auto known = known_.find({item, method});
  return known == known_.end() ? nullptr : &results_[known->second];
}

void ResultFile::remember(ItemResult result) {
  const auto [known, first] = known_.insert({{result.item, result.method}, results_.size()});
  if (first) {
    results_.push_back(std::move(result));
  } else {
    results_[known->second] = std::move(result);
  }
}

Status ResultFile::reopen() {
  file_.reset(std::fopen(path_.c_str(), "ab"));
  if (file_ != nullptr) return {};
  return make_error(ErrorKind::kRuntime, "cannot write %s: %s", one_line(path_).c_str(), std::strerror(errno));
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

Status ResultFile::drop(const std::function<bool(const ItemResult&)>& outdated) {
  const std::vector<ItemResult> all = std::exchange(results_, {});
  known_.clear();
  for (const ItemResult& result : all)
    if (!outdated(result)) remember(result);
  if (results_.size() == all.size()) return {};
  const std::string beside = path_ + ".new";
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  file << conditions_ << "\n";
  for (const ItemResult& result : results_) file << result_line(result);
  file.close();
  std::error_code error;
  if (file.good()) std::filesystem::rename(beside, path_, error);
  if (!file.good() || error)
    return make_error(ErrorKind::kRuntime, "cannot write %s: is the disk full?", one_line(path_).c_str());
  return reopen();
}

}  // namespace ei::eval
