#include "base/control_groups.h"

#include <fstream>
#include <sstream>

namespace ei {

namespace {
bool names(const std::string& controllers, const std::string& wanted) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == wanted) return true;
  }
  return false;
}

void add_upwards(int version, const std::string& mount, std::string group, std::vector<ControlGroup>& groups) {
  while (!group.empty() && group != "/") {
    groups.push_back({version, mount + group});
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
  groups.push_back({version, mount});
}
}  // namespace

std::vector<ControlGroup> control_groups(const std::string& controller, const std::string& membership,
                                         const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:group
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      add_upwards(2, root, group, groups);
    } else if (names(controllers, controller)) {
      add_upwards(1, root + "/" + controllers, group, groups);
      if (controllers != controller) add_upwards(1, root + "/" + controller, group, groups);
    }
  }
  return groups;
}

}  // namespace ei
