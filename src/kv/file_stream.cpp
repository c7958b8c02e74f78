#include "kv/file_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace ei::kv {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

FileWriter::~FileWriter() {
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Error FileWriter::failure(const char* what) const {
  const int code = errno;
  return make_error(ErrorKind::kRuntime, "cannot save '%s': %s: %s", path_.c_str(), what, std::strerror(code));
}

Status FileWriter::open() {
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {  // never rename over a device or a folder
    return make_error(ErrorKind::kRuntime, "cannot save '%s': it exists and is not a regular file", path_.c_str());
  }
  // Without a name nothing can stay behind, not even when the process is killed. File systems that cannot do that get a
  // name of ours.
  if (::access("/proc/self/fd", X_OK) == 0)
    file_ = ::open(folder_of(path_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode_);
  if (file_ < 0) {
    EI_RETURN_IF_ERROR(take_name([&](const std::string& name) {
      file_ = ::open(name.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode_);
      return file_ >= 0;
    }));
  }
  buffer_.reserve(kBufferBytes);
  return {};
}

template <typename Take>
Status FileWriter::take_name(Take take) {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const std::string name = path_ + "." + std::to_string(::getpid()) + "-" + std::to_string(attempt) + ".part";
    if (take(name)) {
      temporary_ = name;
      return {};
    }
    if (errno != EEXIST) break;
  }
  return failure("cannot create a temporary file beside it");
}

Status FileWriter::put(const void* data, size_t bytes) {
  checksum_.update(data, bytes);
  const auto* at = static_cast<const unsigned char*>(data);
  while (bytes > 0) {
    const size_t taken = std::min(bytes, kBufferBytes - buffer_.size());
    buffer_.insert(buffer_.end(), at, at + taken);
    at += taken;
    bytes -= taken;
    if (buffer_.size() == kBufferBytes) EI_RETURN_IF_ERROR(flush());
  }
  return {};
}

Status FileWriter::flush() {
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t written = ::write(file_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure("write failed");
    done += static_cast<size_t>(written);
  }
  buffer_.clear();
  return {};
}

Status FileWriter::commit() {
  EI_RETURN_IF_ERROR(flush());
  if (::fsync(file_) != 0) return failure("fsync failed");
  if (temporary_.empty()) {
    const std::string open_file = "/proc/self/fd/" + std::to_string(file_);
    EI_RETURN_IF_ERROR(take_name([&](const std::string& name) {
      return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    }));
  }
  if (::close(std::exchange(file_, -1)) != 0) return failure("close failed");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return failure("rename failed");
  temporary_.clear();
  // The name itself becomes durable with its folder. Some file systems refuse to sync folders; the file is whole
  // either way, so that is no failure.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    ::fsync(folder);
    ::close(folder);
  }
  return {};
}

FileReader::~FileReader() {
  if (file_ >= 0) ::close(file_);
}

Error FileReader::failure(const std::string& why) const {
  return make_error(ErrorKind::kRuntime, "cannot load '%s': %s", path_.c_str(), why.c_str());
}

Status FileReader::open() {
  file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not block us
  if (file_ < 0) return failure(std::strerror(errno));
  struct stat info {};
  if (::fstat(file_, &info) != 0) return failure(std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return failure("it is not a regular file");
  remaining_ = static_cast<uint64_t>(info.st_size);
  return {};
}

Status FileReader::get(void* data, size_t bytes) {
  if (bytes > remaining_) return failure("the file is cut short");
  auto* to = static_cast<unsigned char*>(data);
  for (size_t left = bytes; left > 0;) {
    if (begin_ == buffer_.size()) {
      buffer_.resize(std::min<uint64_t>(kBufferBytes, remaining_));
      begin_ = 0;
      const ssize_t got = ::read(file_, buffer_.data(), buffer_.size());
      buffer_.resize(got > 0 ? static_cast<size_t>(got) : 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failure(std::strerror(errno));
      if (got == 0) return failure("the file became shorter while it was read");
    }
    const size_t taken = std::min(left, buffer_.size() - begin_);
    std::memcpy(to, buffer_.data() + begin_, taken);
    begin_ += taken;
    to += taken;
    left -= taken;
    remaining_ -= taken;
  }
  checksum_.update(data, bytes);
  return {};
}

Status FileReader::check_checksum() {
  const uint64_t expected = checksum_.value();
  uint64_t stored = 0;
  EI_RETURN_IF_ERROR(get(stored));
  if (stored != expected) return failure("the file is damaged (its checksum differs)");
  return {};
}

}  // namespace ei::kv
