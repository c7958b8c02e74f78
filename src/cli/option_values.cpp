#include "cli/option_values.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>

namespace ei::cli {

namespace {
constexpr int64_t kMaxListLength = 10000;

Error bad_value(std::string_view value, const std::string& why) {
  return make_error(ErrorKind::kUsage, "'%s' %s", std::string(value).c_str(), why.c_str());
}

std::string show_real(double value) { return str_format("%g", value); }

std::string joined(const std::vector<std::string>& parts, const char* separator) {
  std::string all;
  for (const std::string& part : parts) {
    if (!all.empty()) all += separator;
    all += part;
  }
  return all;
}

Status check_choice(const std::string& value, const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  return bad_value(value, "is none of " + joined(choices, ", "));
}

struct Span {  // one item of a list: a number or a range
  int64_t first = 0;
  int64_t last = 0;
  int64_t step = 1;
  bool multiply = false;
};

Result<Span> parse_span(std::string_view item, int64_t low, int64_t high) {
  Span span;
  const size_t dash = item.find('-', 1);  // a sign may stand in front
  EI_ASSIGN_OR_RETURN(span.first, parse_whole(item.substr(0, dash), low, high));
  span.last = span.first;
  if (dash == std::string_view::npos) return span;
  const std::string_view rest = item.substr(dash + 1);
  const size_t sign = rest.find_first_of("+*");
  EI_ASSIGN_OR_RETURN(span.last, parse_whole(rest.substr(0, sign), low, high));
  if (sign != std::string_view::npos) {
    span.multiply = rest[sign] == '*';
    EI_ASSIGN_OR_RETURN(span.step, parse_whole(rest.substr(sign + 1), span.multiply ? 2 : 1, high));
  }
  if (span.last < span.first) return bad_value(item, "ends before it begins");
  if (span.multiply && span.first <= 0) return bad_value(item, "multiplies from zero; begin at 1 or more");
  return span;
}
}  // namespace

std::vector<std::string> split(std::string_view whole_text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  for (size_t end; (end = whole_text.find(separator, begin)) != std::string_view::npos; begin = end + 1) {
    parts.emplace_back(whole_text.substr(begin, end - begin));
  }
  parts.emplace_back(whole_text.substr(begin));
  return parts;
}

Result<std::vector<int64_t>> parse_list(std::string_view value, int64_t low, int64_t high) {
  std::vector<int64_t> numbers;
  for (const std::string& item : split(value, ',')) {
    EI_ASSIGN_OR_RETURN(const Span span, parse_span(item, low, high));
    for (int64_t number = span.first; number <= span.last;) {
      if (static_cast<int64_t>(numbers.size()) >= kMaxListLength) return bad_value(value, "names too many values");
      numbers.push_back(number);
      const int64_t next = span.multiply ? number * span.step : number + span.step;
      if (span.multiply && number > high / span.step) break;
      number = next;
    }
  }
  return numbers;
}

Binding whole(int64_t Settings::*field, int64_t low, int64_t high) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(settings.*field, parse_whole(value, low, high));
            return {};
          },
          .show = [=](const Settings& settings) { return std::to_string(settings.*field); }};
}

Binding whole_or_zero(int64_t Settings::*field, int64_t low, int64_t high) {
  Binding binding = whole(field, low, high);
  binding.set = [=, other = binding.set](Settings& settings, const std::string& value) -> Status {
    if (!parse_whole(value, 0, 0).ok()) return other(settings, value);
    settings.*field = 0;
    return {};
  };
  return binding;
}

Binding seed(int64_t Settings::*field, int64_t high) {
  Binding binding = whole(field, -1, high);
  binding.set = [=, given = binding.set](Settings& settings, const std::string& value) -> Status {
    EI_RETURN_IF_ERROR(given(settings, value));
    if (settings.*field < 0) settings.*field = std::random_device{}() & 0x7FFFFFFF;
    return {};
  };
  return binding;
}

Binding real(double Settings::*field, double low, double high) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(settings.*field, parse_real(value, low, high));
            return {};
          },
          .show = [=](const Settings& settings) { return show_real(settings.*field); }};
}

Binding text(std::string Settings::*field) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            settings.*field = value;
            return {};
          },
          .show = [=](const Settings& settings) { return settings.*field; }};
}

Binding filled(std::string Settings::*field) {
  Binding binding = text(field);
  binding.set = [=](Settings& settings, const std::string& value) -> Status {
    if (value.empty()) return make_error(ErrorKind::kUsage, "must not be empty");
    settings.*field = value;
    return {};
  };
  return binding;
}

Binding text(std::optional<std::string> Settings::*field) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            settings.*field = value;
            return {};
          },
          .show = [=](const Settings& settings) { return (settings.*field).value_or(""); }};
}

Binding toggle(bool Settings::*field) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(settings.*field, parse_switch(value));
            return {};
          },
          .show = [](const Settings&) { return std::string(); },
          .is_switch = true};
}

Binding texts(std::vector<std::string> Settings::*field) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            std::vector<std::string> parts = split(value, kUnitSeparator);
            for (const std::string& part : parts)
              if (part.empty()) return make_error(ErrorKind::kUsage, "must not be empty");
            settings.*field = std::move(parts);
            return {};
          },
          .show = [](const Settings&) { return std::string(); },
          .repeats = true,
          .joint = kUnitSeparator};
}

Binding without_effect(const char* name, const char* why) {
  return {.set = [=](Settings& settings, const std::string&) -> Status {
            settings.notes.push_back(str_format("%s changes nothing here: %s", name, why));
            return {};
          },
          .show = [](const Settings&) { return std::string(); },
          .is_switch = true};
}

Binding without_effect(const char* name, const char* why, const std::vector<std::string>& choices) {
  Binding binding = without_effect(name, why);
  binding.set = [=, note = binding.set](Settings& settings, const std::string& value) -> Status {
    if (!value.empty()) EI_RETURN_IF_ERROR(check_choice(value, choices));
    return note(settings, value);
  };
  binding.is_switch = false;
  binding.may_be_bare = true;
  return binding;
}

Binding choice(std::string Settings::*field, const std::vector<std::string>& choices) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            EI_RETURN_IF_ERROR(check_choice(value, choices));
            settings.*field = value;
            return {};
          },
          .show = [=](const Settings& settings) { return settings.*field; }};
}

Binding whole_list(std::vector<int64_t> Settings::*field, int64_t low, int64_t high) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            EI_ASSIGN_OR_RETURN(settings.*field, parse_list(value, low, high));
            return {};
          },
          .show =
              [=](const Settings& settings) {
                std::vector<std::string> parts;
                for (const int64_t number : settings.*field) parts.push_back(std::to_string(number));
                return joined(parts, ",");
              },
          .repeats = true};
}

Binding choice_list(std::vector<std::string> Settings::*field, const std::vector<std::string>& choices) {
  return {.set = [=](Settings& settings, const std::string& value) -> Status {
            std::vector<std::string> parts = split(value, ',');
            for (const std::string& part : parts) EI_RETURN_IF_ERROR(check_choice(part, choices));
            settings.*field = std::move(parts);
            return {};
          },
          .show = [=](const Settings& settings) { return joined(settings.*field, ","); },
          .repeats = true};
}

}  // namespace ei::cli
