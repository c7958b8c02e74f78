// Chat templates that go by llama.cpp's names, for models whose file lacks theirs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace ei::text {

struct NamedTemplate {
  std::string_view name;
  std::string_view source;  // Jinja
};
std::span<const NamedTemplate> named_templates();
// Empty where no template has this name.
std::optional<std::string> named_template(std::string_view name);
// "chatml, command-r, ..."
std::string template_names();

}  // namespace ei::text
