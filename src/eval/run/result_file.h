// Results on disk: one line each, appended as they come, so that a run that was killed goes on where it stood.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "eval/run/result.h"

namespace ei::eval {

class ResultFile {
 public:
  // `folder` is made when it is missing. `conditions` is a line of JSON that says what results depend on beside their
  // item and method; kUsage, naming those that differ, when the file was begun under others. Of several results of an
  // item and method the last counts. A line that was not written to its end is dropped.
  static Result<ResultFile> open(const std::string& folder, const std::string& conditions);

  bool has(const std::string& item, const std::string& method) const { return known_.count({item, method}) > 0; }
  const ItemResult* find(const std::string& item, const std::string& method) const;  // null: none
  const std::vector<ItemResult>& results() const { return results_; }
  const std::string& path() const { return path_; }
  // On disk when it returns; in the place of an earlier one of the item and method.
  Status add(const ItemResult& result);
  // Rewrites the file without these, in one step: killed meanwhile, it is the old one.
  Status drop(const std::function<bool(const ItemResult&)>& outdated);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  ResultFile() = default;
  Status reopen();
  Status put(const std::string& line);
  void remember(ItemResult result);

  std::string path_;
  std::string conditions_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<ItemResult> results_;
  std::map<std::pair<std::string, std::string>, size_t> known_;  // item, method -> place in results_
};

}  // namespace ei::eval
