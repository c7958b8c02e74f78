#include "cli/sides.h"

#include "cli/setup.h"

namespace ei::cli {

namespace {
bool same_engine(const Settings& a, const Settings& b) {
  return a.model == b.model && a.device == b.device && a.threads == b.threads;
}
}  // namespace

Result<Sides> load_sides(const Settings& base, const std::optional<Settings>& other, const Console& console) {
  Sides sides;
  EI_ASSIGN_OR_RETURN(sides.engine, load_engine(base, console));
  sides.base = {base, sides.engine.get()};
  if (!other) return sides;
  if (!same_engine(base, *other)) {
    EI_ASSIGN_OR_RETURN(sides.second, load_engine(*other, console));
    if (sides.second->config().vocab != sides.engine->config().vocab) {
      return Error{ErrorKind::kUsage, "--vs: the two models have different vocabularies"};
    }
  }
  sides.other = Side{*other, sides.second ? sides.second.get() : sides.engine.get()};
  return sides;
}

}  // namespace ei::cli
