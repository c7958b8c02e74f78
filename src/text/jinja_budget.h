// JinjaBudget: what one render of an untrusted template may use. Every check that fails throws TemplateRefused.
// Internal to the room (includes llama.cpp's Jinja headers).
#pragma once

// The engine's headers assert on what a template says; input must never abort, in any build type.
#ifndef NDEBUG
#define NDEBUG 1
#endif
#include <jinja/runtime.h>
#include <jinja/value.h>

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace ei::text {

// Not a std::exception: the engine catches those at every node to add its own context, this one passes through.
struct TemplateRefused {
  std::string why;
};

class JinjaBudget {
 public:
  JinjaBudget(size_t input_bytes, size_t num_messages);
  // Empties every container of the render one by one: nested ones would be destroyed recursively, cyclic ones never.
  ~JinjaBudget();
  JinjaBudget(const JinjaBudget&) = delete;
  JinjaBudget& operator=(const JinjaBudget&) = delete;

  // One step: CPU time and stack.
  void tick();
  // Bytes about to be made.
  void charge(size_t bytes);
  // Steps times bytes of one library call, which cannot be interrupted.
  void charge_work(size_t steps, size_t bytes_each);
  // The loop copies all variables once per item.
  void charge_loop(size_t items);
  void keep(const jinja::value& value);
  // The value with everything inside it, written out: its bytes. Refuses nesting deeper than 64 (so cycles too) and
  // what would not fit the budget; the engine can then walk the value recursively.
  size_t weigh(const jinja::value& value) const;
  // Bytes of the value itself.
  static size_t size_of(const jinja::value& value);

  size_t num_variables = 0;  // names the template can define, at most

 private:
  void check_clock() const;

  struct Extent {
    size_t bytes = 0;
    int height = 0;
  };
  static Extent weigh(const jinja::value& value, int depth, std::unordered_map<const void*, Extent>& seen);

  const char* stack_base_;
  double cpu_limit_s_;
  size_t bytes_left_;
  size_t loop_limit_;
  unsigned ticks_ = 0;
  std::vector<jinja::value> containers_;
};

bool is_container(const jinja::value& value);
// Whether some byte of it came from a message.
bool is_tainted(const jinja::value& value);
// Marks a string, or the strings of a list, as coming from a message.
void mark_tainted(const jinja::value& value);

// Before and after a filter, method or function of the engine: refuses what would run away, and keeps the marks of
// message text where the engine drops them (split, join, tojson, ...). args[0] is the value it is applied to.
void before_call(JinjaBudget& budget, const std::string& name, std::span<const jinja::value> args);
void after_call(JinjaBudget& budget, const std::string& name, std::span<const jinja::value> args,
                const jinja::value& result);
// `needle in haystack` and the operators on strings.
void before_operator(JinjaBudget& budget, const std::string& op, const jinja::value& left, const jinja::value& right);

}  // namespace ei::text
