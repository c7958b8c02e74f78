// Which build this is.
#pragma once

#include <string>

namespace ei::cli {

std::string version();       // "0.1.0"
std::string build_commit();  // "6669592", with "-dirty" when files differ; "unknown" outside a checkout
std::string version_text();  // "entropyinfer 0.1.0 (6669592)"
std::string cpu_name();      // "Neoverse-V1, 2 cores"

}  // namespace ei::cli
