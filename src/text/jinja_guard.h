// Puts a JinjaBudget under a parsed template: nodes that make or walk values are replaced by ones that ask first.
// Internal to the room.
#pragma once

#include "text/jinja_budget.h"

namespace ei::text {

// Refuses (TemplateRefused) trees nested too deeply and forms the guard does not know how to watch. The budget must
// outlive the program.
void guard_program(jinja::program& program, JinjaBudget& budget);

}  // namespace ei::text
