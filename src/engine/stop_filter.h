// StopFilter: lets text through except what may still become a stop string, and ends in front of one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ei {

class StopFilter {
 public:
  explicit StopFilter(std::vector<std::string> stops);

  // Text that is safe to show now.
  std::string push(std::string_view text);
  // What was held back, when generation ends without a stop string.
  std::string finish();
  bool stopped() const { return stopped_; }
  const std::string& stopped_by() const { return stopped_by_; }  // which; empty before

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string stopped_by_;
  bool stopped_ = false;
};

}  // namespace ei
