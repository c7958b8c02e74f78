#include "gguf/mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_pages.h"

namespace ei::gguf {
namespace {

Status check_kind(const struct stat& info) {
  if (S_ISDIR(info.st_mode)) return make_error(ErrorKind::kModel, "is a directory; give the path of a .gguf file");
  if (!S_ISREG(info.st_mode)) return make_error(ErrorKind::kModel, "is not a regular file; copy the model to disk");
  if (info.st_size == 0) return make_error(ErrorKind::kModel, "is empty; fetch the model again");
  return {};
}

Error system_error(const char* action) {
  const ErrorKind kind = errno == ENOMEM ? ErrorKind::kMemory : ErrorKind::kModel;
  return make_error(kind, "cannot be %s: %s", action, std::strerror(errno));
}

Status fill(int descriptor, std::byte* data, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t count = ::read(descriptor, data + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error("read");
    if (count == 0) return make_error(ErrorKind::kModel, "was cut short while it was read; fetch the model again");
    done += static_cast<size_t>(count);
  }
  return {};
}

}  // namespace

Result<Mapping> Mapping::open(const std::string& path, bool copy) {
  if (path.empty()) return make_error(ErrorKind::kModel, "no model file was named");
  if (path.find('\0') != std::string::npos) return make_error(ErrorKind::kModel, "the path holds a NUL byte");
  // Looked at before it is opened, because opening a device can have effects and opening a pipe can block.
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return system_error("found");
  EI_RETURN_IF_ERROR(check_kind(info));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error("opened");
  Status kind = ::fstat(descriptor, &info) == 0 ? check_kind(info) : Status(system_error("read"));
  if (!kind.ok()) {
    ::close(descriptor);
    return kind.error();
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* data = copy ? ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                    : ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  const Error failure = system_error("mapped");
  Mapping mapping;
  if (data != MAP_FAILED) {
    mapping.data_ = static_cast<std::byte*>(data);
    mapping.size_ = size;
    mapping.copied_ = copy;
  }
  Status filled;
  if (data != MAP_FAILED && copy) filled = fill(descriptor, mapping.data_, size);
  ::close(descriptor);
  if (data == MAP_FAILED) return failure;
  if (!filled.ok()) return filled.error();
  return mapping;
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), copied_(other.copied_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(copied_, other.copied_);
  return *this;
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void Mapping::release(std::span<const std::byte> part) const {
  if (!copied_) release_file_pages(part, bytes());
}

}  // namespace ei::gguf
