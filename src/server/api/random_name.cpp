#include "server/api/random_name.h"

#include <random>

namespace ei::server {

std::string random_name() {
  static constexpr char kLetters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::random_device device;
  std::string name(24, '0');
  for (char& letter : name) letter = kLetters[device() % (sizeof kLetters - 1)];
  return name;
}

}  // namespace ei::server
