#include "gguf/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "gguf/hyperparameters.h"
#include "support/small_model.h"

namespace ei::gguf {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

class FileOnDisk : public testing::Test {
 protected:
  FileOnDisk() { std::filesystem::create_directories(folder_); }
  ~FileOnDisk() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& bytes) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  static void expect_refused(const std::string& path, const std::string& reason) {
    const auto file = File::open(path);
    ASSERT_FALSE(file.ok()) << path;
    EXPECT_EQ(file.error().kind, ErrorKind::kModel);
    EXPECT_NE(file.error().message.find(reason), std::string::npos) << file.error().message;
    EXPECT_EQ(file.error().message.find('\n'), std::string::npos);
  }

  const std::string folder_ = testing::TempDir() + "ei_gguf_" + std::to_string(::getpid());
};

TEST_F(FileOnDisk, CopiedIntoMemoryHoldsTheSameAndNeedsTheFileNoMore) {
  const std::string bytes = small_model();
  const std::string path = write("copied.gguf", bytes);
  auto copied = File::open(path, {}, /*copy=*/true);
  ASSERT_TRUE(copied.ok());
  EXPECT_TRUE(copied->mapping().empty());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << "gone";
  const auto again = File::parse(bytes_of(bytes), "again");
  ASSERT_TRUE(again.ok());
  ASSERT_EQ(copied->tensors().size(), again->tensors().size());
  for (size_t i = 0; i < copied->tensors().size(); ++i) {
    const Tensor& tensor = copied->tensors()[i];
    copied->release_pages(tensor);  // there is nothing to read them from again
    EXPECT_EQ(std::memcmp(tensor.data, again->tensors()[i].data, static_cast<size_t>(tensor.bytes)), 0) << tensor.name;
  }
}

TEST_F(FileOnDisk, OpensAndKeepsTensorsInsideTheMapping) {
  for (const auto kind : {VocabularyKind::kByteLevel, VocabularyKind::kSentencePiece}) {
    const auto file = File::open(write("model.gguf", small_model(kind)));
    ASSERT_TRUE(file.ok()) << file.error().message;
    const Tensor* tensor = file->tensor("blk.0.attn_q.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->type->name, "Q8_0");
    EXPECT_EQ(tensor->cols(), 32);
    EXPECT_EQ(tensor->rows(), 2);
    EXPECT_EQ(tensor->bytes, 68);
    EXPECT_EQ(std::to_integer<int>(tensor->data[67]), 67);
    file->release_pages(*tensor);
    EXPECT_EQ(std::to_integer<int>(tensor->data[67]), 67);
    EXPECT_EQ(file->tensor("absent"), nullptr);
  }
}

TEST_F(FileOnDisk, RefusesWhatIsNoFileWithOneLine) {
  expect_refused(folder_, "is a directory");
  expect_refused(folder_ + "/missing.gguf", "No such file");
  expect_refused(write("empty.gguf", ""), "is empty");
  expect_refused("/dev/zero", "not a regular file");
  expect_refused("", "no model file");
  const std::string pipe = folder_ + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_refused(pipe, "not a regular file");
  expect_refused(write("line\nbreak.gguf", "text"), "not a GGUF file");
  if (::geteuid() == 0) return;  // root reads everything
  const std::string locked = write("locked.gguf", small_model());
  ASSERT_EQ(::chmod(locked.c_str(), 0), 0);
  expect_refused(locked, "Permission denied");
}

TEST(File, ReadsBothVersions) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string bytes = small_model(VocabularyKind::kByteLevel, version);
    const auto file = File::parse(bytes_of(bytes), "small");
    ASSERT_TRUE(file.ok()) << file.error().message;
    EXPECT_EQ(file->version(), version);
  }
}

TEST(File, NamesBigEndianFiles) {
  const std::string bytes = small_model(VocabularyKind::kByteLevel, 0x03000000);
  EXPECT_NE(File::parse(bytes_of(bytes), "big").error().message.find("big-endian"), std::string::npos);
}

TEST(File, LooksValuesUpByType) {
  Writer writer = small_metadata(VocabularyKind::kByteLevel);
  writer.raw("x.i8", static_cast<uint32_t>(ValueType::kI8), encode<int8_t>(-3));
  writer.raw("x.u64", static_cast<uint32_t>(ValueType::kU64), encode<uint64_t>(~uint64_t{0}));
  writer.raw("x.f64", static_cast<uint32_t>(ValueType::kF64), encode(2.5));
  writer.boolean("x.bool", true);
  writer.i32s("x.ids", std::vector<int32_t>{5, -6});
  const std::string bytes = writer.head();
  const auto file = File::parse(bytes_of(bytes), "small");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(file->integer("x.i8"), -3);
  EXPECT_EQ(file->integer("x.u64"), std::nullopt);  // does not fit
  EXPECT_EQ(file->integer("x.f64"), std::nullopt);
  EXPECT_EQ(file->number("x.f64"), 2.5);
  EXPECT_EQ(file->number("llama.block_count"), 1.0);
  EXPECT_EQ(file->boolean("x.bool"), true);
  EXPECT_EQ(file->boolean("x.i8"), std::nullopt);
  EXPECT_EQ(file->string("general.name"), "small");
  EXPECT_EQ(file->string("x.bool"), std::nullopt);
  const Array* ids = file->array("x.ids");
  ASSERT_NE(ids, nullptr);
  EXPECT_EQ(File::integer_at(*ids, 1), -6);
  EXPECT_EQ(File::integer_at(*ids, 2), std::nullopt);
  const Array* merges = file->array("tokenizer.ggml.merges");
  ASSERT_NE(merges, nullptr);
  EXPECT_EQ(merges->strings[1], "th e");
  EXPECT_EQ(File::integer_at(*merges, 0), std::nullopt);
  EXPECT_EQ(file->array("absent"), nullptr);
}

TEST(File, NamesUnsupportedArchitecturesAndTheSupportedOnes) {
  Writer writer = small_metadata(VocabularyKind::kByteLevel);
  writer.erase("general.architecture");
  writer.text("general.architecture", "rwkv7");
  const std::string bytes = writer.head();
  const std::string message = File::parse(bytes_of(bytes), "x").error().message;
  EXPECT_NE(message.find("'rwkv7'"), std::string::npos) << message;
  for (const std::string_view name : supported_architectures()) EXPECT_NE(message.find(name), std::string::npos);
}

TEST(File, NamesUnsupportedTensorTypesAndTheSupportedOnes) {
  Writer writer = small_metadata(VocabularyKind::kByteLevel);
  writer.raw_tensor("odd", std::vector<uint64_t>{32}, find_tensor_type("I32")->id, 0);
  const std::string bytes = writer.head() + std::string(128, '\0');
  const std::string message = File::parse(bytes_of(bytes), "x").error().message;
  EXPECT_NE(message.find("I32"), std::string::npos) << message;
  EXPECT_NE(message.find(supported_tensor_types()), std::string::npos) << message;
}

TEST(File, AcceptsHeadCountsForEachLayer) {
  Writer writer = small_metadata(VocabularyKind::kByteLevel);
  writer.erase("llama.attention.head_count");
  writer.i32s("llama.attention.head_count", std::vector<int32_t>{8});
  const std::string bytes = writer.head();
  const auto file = File::parse(bytes_of(bytes), "x");
  EXPECT_TRUE(file.ok()) << file.error().message;
}

}  // namespace
}  // namespace ei::gguf
