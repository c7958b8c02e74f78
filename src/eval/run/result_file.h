// Results on disk: one line each, appended as they come, so that a run that was killed goes on where it stood.
#pragma once

#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "eval/run/result.h"

namespace ei::eval {

class ResultFile {
 public:
  // `folder` is made when it is missing. `conditions` is a line of JSON that says what results depend on beside their
  // item and method; kUsage when the file was begun under others. A line that was not written to its end is dropped.
  static Result<ResultFile> open(const std::string& folder, const std::string& conditions);

  bool has(const std::string& item, const std::string& method) const { return known_.count({item, method}) > 0; }
  const std::vector<ItemResult>& results() const { return results_; }
  const std::string& path() const { return path_; }
  // On disk when it returns.
  Status add(const ItemResult& result);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  ResultFile() = default;
  Status put(const std::string& line);
  void remember(ItemResult result);

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::vector<ItemResult> results_;
  std::set<std::pair<std::string, std::string>> known_;  // item, method
};

}  // namespace ei::eval
