#include "parity/permuted_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "gguf/file.h"

namespace ei::testing {
namespace {

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), std::ssize(bytes));
  EXPECT_TRUE(out.good()) << path;
}

// A tensor as rows of whole pieces, each a head's: [rows, pieces, bytes] in the file.
struct Pieces {
  size_t offset = 0;
  int64_t rows = 0;
  size_t bytes = 0;  // of a piece
};

using Names = std::span<const char* const>;
constexpr const char* kColumns[] = {"attn_output.weight"};          // have something of each kv_head in their columns,
constexpr const char* kRows[] = {"attn_q.", "attn_k.", "attn_v."};  // or in their rows
constexpr const char* kFirstQueries[] = {"blk.0.attn_q."};

// Of every tensor that has one of these in its name: its rows, or with `columns` each of them, cut for so many heads.
std::vector<Pieces> pieces_of(const std::string& bytes, Names names, int64_t heads, bool columns = false) {
  const auto parsed = gguf::File::parse(std::as_bytes(std::span(bytes)), "in memory");
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  std::vector<Pieces> all;
  for (const gguf::Tensor& tensor : parsed->tensors()) {
    const auto named = [&](const char* part) { return tensor.name.find(part) != std::string_view::npos; };
    if (std::none_of(names.begin(), names.end(), named)) continue;
    const int64_t rows = columns ? tensor.rows() : 1;
    const int64_t per_head = tensor.bytes / rows / heads;
    EXPECT_EQ(per_head * rows * heads, tensor.bytes) << tensor.name;
    EXPECT_EQ(per_head % tensor.type->block_bytes, 0) << "pieces of whole blocks";
    all.push_back({.offset = static_cast<size_t>(reinterpret_cast<const char*>(tensor.data) - bytes.data()),
                   .rows = rows,
                   .bytes = static_cast<size_t>(per_head)});
  }
  EXPECT_FALSE(all.empty());
  return all;
}

}  // namespace

void separate_kv_heads(const std::string& path, const HeadShape& shape) {
  std::string bytes = read_bytes(path);
  for (const Pieces& tensor : pieces_of(bytes, kColumns, shape.kv_heads, /*columns=*/true)) {
    for (int64_t row = 0; row < tensor.rows; ++row) {
      for (int64_t head = 0; head < shape.kv_heads; ++head) {
        if (row % shape.kv_heads == head) continue;
        const size_t piece = tensor.offset + static_cast<size_t>(row * shape.kv_heads + head) * tensor.bytes;
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(piece), tensor.bytes, '\0');
      }
    }
  }
  write_bytes(path, bytes);
}

void permute_kv_heads(const std::string& from, const std::string& to, const HeadShape& shape,
                      std::span<const int64_t> order) {
  const std::string old = read_bytes(from);
  std::string bytes = old;
  for (const bool columns : {false, true}) {
    for (const Pieces& tensor : pieces_of(old, columns ? Names(kColumns) : Names(kRows), shape.kv_heads, columns)) {
      for (int64_t row = 0; row < tensor.rows; ++row) {
        const size_t begin = tensor.offset + static_cast<size_t>(row * shape.kv_heads) * tensor.bytes;
        for (size_t head = 0; head < order.size(); ++head)
          bytes.replace(begin + head * tensor.bytes, tensor.bytes, old,
                        begin + static_cast<size_t>(order[head]) * tensor.bytes, tensor.bytes);
      }
    }
  }
  write_bytes(to, bytes);
}

void repeat_query_head(const std::string& from, const std::string& to, const HeadShape& shape, int64_t member) {
  const std::string old = read_bytes(from);
  std::string bytes = old;
  const int64_t heads = shape.kv_heads * shape.group;
  for (const Pieces& tensor : pieces_of(old, kFirstQueries, heads)) {
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t asks = head / shape.group * shape.group + member;
      bytes.replace(tensor.offset + static_cast<size_t>(head) * tensor.bytes, tensor.bytes, old,
                    tensor.offset + static_cast<size_t>(asks) * tensor.bytes, tensor.bytes);
    }
  }
  write_bytes(to, bytes);
}

}  // namespace ei::testing
