// A method whose cases a test goes through. A test names it by making one of these, so that what is tested is known
// without a list of it.
#pragma once

#include <set>
#include <string>

namespace ei::golden {

class TestedMethod {
 public:
  explicit TestedMethod(const char* name) : name_(name) { all().insert(name_); }
  const std::string& name() const { return name_; }
  static std::set<std::string>& all() {
    static std::set<std::string> names;
    return names;
  }

 private:
  std::string name_;
};

}  // namespace ei::golden
