#include "server/api/access_line.h"

#include <cmath>
#include <ctime>

#include "base/result.h"
#include "server/api/json.h"

namespace ei::server {

std::string access_line(const AccessRecord& record) {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char time[32] = {};
  std::strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%SZ", &utc);
  Json json = {{"time", time},
               {"id", record.id},
               {"method", one_line(record.method).substr(0, 20)},
               {"path", one_line(record.path).substr(0, 100)},
               {"status", record.status},
               {"bytes", record.bytes},
               {"ms", std::round(record.seconds * 1e4) / 10}};
  if (record.gone) json["gone"] = true;
  return dump(json);
}

}  // namespace ei::server
