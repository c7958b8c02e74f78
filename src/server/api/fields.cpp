#include "server/api/fields.h"

#include <algorithm>
#include <cmath>

#include "text/json_schema.h"
#include "text/utf8.h"

namespace ei::server {

namespace {
constexpr int kMaxDepth = 64;
constexpr int64_t kMaxLookups = 100'000'000;  // a fraction of a second
constexpr size_t kMaxTextBytes = 4096;        // of each in a list of short texts

constexpr int64_t kMaxValues = int64_t{2} << 20;  // each takes up to 100 bytes, however short it is written

// What a text costs once it is read, if it is not nested too deeply.
struct Cost {
  // Members keep their order, so that to find one takes a walk along those before it: an object of n members is read in
  // n^2 / 2 steps. At most that many, of all objects together.
  int64_t lookups = 0;
  int64_t values = 1;  // at most so many: also those that a comma or a bracket only promises
};

Cost cost_of(std::string_view json) {
  Cost cost;
  int64_t members[kMaxDepth + 1] = {};  // so far, of the objects that are open
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      depth = std::min(depth + 1, kMaxDepth);
      members[depth] = 0;
      ++cost.values;
    } else if (c == ',') {
      ++cost.values;
    } else if (c == '}' || c == ']') {
      depth = std::max(depth - 1, 0);
    } else if (c == ':') {
      cost.lookups += members[depth]++;
    }
  }
  return cost;
}
}  // namespace

Json parse_inner(const std::string& text) {
  const Cost cost = cost_of(text);
  if (text::json_depth(text) > kMaxDepth || cost.lookups > kMaxLookups || cost.values > kMaxValues)
    return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Body parse_body(const std::string& text) {
  Body body;
  if (text::json_depth(text) > kMaxDepth) {
    body.error = ApiError{.message = str_format("the body is nested deeper than %d levels", kMaxDepth)};
    return body;
  }
  const Cost cost = cost_of(text);
  if (cost.values > kMaxValues) {
    body.error =
        ApiError{.message = str_format("the body has more than %lld JSON values: lists, their items, objects and "
                                       "their members are counted",
                                       static_cast<long long>(kMaxValues))};
    return body;
  }
  if (cost.lookups > kMaxLookups) {
    body.error = ApiError{.message = str_format("the body has objects of too many members: to find them all takes more "
                                                "than %lld steps, n^2 / 2 for one of n",
                                                static_cast<long long>(kMaxLookups))};
    return body;
  }
  if (size_t offset = 0; !text::valid_utf8(text, &offset)) {
    body.error = ApiError{.message = str_format("the body is not valid UTF-8 at byte %zu", offset)};
    return body;
  }
  body.json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (body.json.is_discarded()) {
    body.error = ApiError{.message = "the body is not valid JSON"};
  } else if (!body.json.is_object()) {
    body.error = ApiError{.message = "the body is not a JSON object"};
  }
  return body;
}

const Json* Fields::find(const std::string& name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

double Fields::number(const std::string& name, double fallback, double low, double high) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (number >= low && number <= high) return number;
  fail(name, value->is_number() ? str_format("must be between %g and %g", low, high) : "must be a number");
  return fallback;
}

int64_t Fields::whole(const std::string& name, int64_t fallback, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!value->is_number() || number != std::floor(number)) {
    fail(name, "must be a whole number");
    return fallback;
  }
  if (number < static_cast<double>(low) || number > static_cast<double>(high)) {
    fail(name, str_format("must be between %lld and %lld", static_cast<long long>(low), static_cast<long long>(high)));
    return fallback;
  }
  return value->is_number_integer() ? value->get<int64_t>() : static_cast<int64_t>(number);
}

bool Fields::flag(const std::string& name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, "must be true or false");
  return fallback;
}

std::string Fields::text(const std::string& name, const std::string& fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_string()) return value->get<std::string>();
  fail(name, "must be a string");
  return fallback;
}

std::vector<std::string> Fields::texts(const std::string& name, size_t most) {
  const Json* value = find(name);
  if (value == nullptr) return {};
  std::vector<std::string> list;
  const auto take = [&](const Json& item) {
    if (!item.is_string() || list.size() >= most) {
      fail(name, str_format("must be a string or a list of at most %zu strings", most));
      return false;
    }
    const auto& text = item.get_ref<const std::string&>();
    list.push_back(text);
    if (text.size() > kMaxTextBytes)
      fail(name, str_format("holds a string of %zu bytes: each may have %zu", text.size(), kMaxTextBytes));
    return text.size() <= kMaxTextBytes;
  };
  const bool good = value->is_array() ? std::all_of(value->begin(), value->end(), take) : take(*value);
  return good ? list : std::vector<std::string>{};
}

void Fields::fail(const std::string& name, const std::string& message) { fail(invalid_field(name, message)); }

void Fields::fail(ApiError error) {
  if (!error_) error_ = std::move(error);
}

}  // namespace ei::server
