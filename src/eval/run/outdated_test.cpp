// What a folder of results holds under the names of a run without being of that run.
#include "eval/run/outdated.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "eval/items/item_hash.h"
#include "support/embedded_engine.h"

namespace ei::eval {
namespace {

class OutdatedResults : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("ei_outdated_" + std::to_string(::getpid()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  ItemSource source_with(const std::string& words, int count) const {
    const std::string path = (folder_ / "file.jsonl").string();
    std::ofstream file(path);
    for (int i = 0; i < count; ++i) {
      const nlohmann::json object = {
          {"context", words + std::to_string(i)}, {"question", "q"}, {"answers", {"a"}}, {"task", "t"}};
      file << object.dump() << "\n";
    }
    file.close();
    SourceOptions options;
    options.tasks = {"jsonl:" + path};
    options.lengths = {512};
    options.tokenizer = &embedded_engine().tokenizer();
    const auto chat =
        text::ChatTemplate::parse(embedded_engine().tokenizer().chat_template(), embedded_engine().tokenizer());
    options.frame = *make_chat_frame(embedded_engine().tokenizer(), *chat);
    return std::move(*ItemSource::open(std::move(options)));
  }
  Result<ResultFile> file() const { return ResultFile::open((folder_ / "out").string(), "{}"); }
  static void fill(ResultFile& results, const ItemSource& source, const std::vector<MethodSpec>& methods) {
    for (const ItemRef& ref : source.refs()) {
      const Item item = *source.make(ref);
      for (const MethodSpec& method : methods) {
        ItemResult result;
        result.item = ref.id;
        result.task = ref.task;
        result.length = ref.length;
        result.index = ref.index;
        result.method = method.label;
        result.options = method.options;
        result.item_hash = item_hash(item, *source.prompt(item));
        ASSERT_TRUE(results.add(result).ok());
      }
    }
  }
  static std::vector<MethodSpec> specs(const std::string& options) {
    std::vector<MethodSpec> all(2);
    all[0].label = "full";
    all[0].options = "plain";
    all[1].label = "snapkv";
    all[1].options = options;
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(OutdatedResults, AreNoneWhereItemsAndOptionsAreTheSame) {
  auto results = file();
  const ItemSource source = source_with("text ", 3);
  fill(*results, source, specs("kv-budget=9"));
  const auto outdated = drop_outdated(*results, source, specs("kv-budget=9"));
  ASSERT_TRUE(outdated.ok());
  EXPECT_EQ(outdated->all(), 0);
  EXPECT_EQ(results->results().size(), 6u);
}

TEST_F(OutdatedResults, OfAnotherFileGoEvenBeyondItsLength) {
  auto results = file();
  fill(*results, source_with("text ", 3), specs("kv-budget=9"));
  ItemResult other;  // of a task that is not asked for
  other.item = "vt/512/0";
  other.task = "vt";
  other.length = 512;
  other.method = "full";
  other.options = "plain";
  ASSERT_TRUE(results->add(other).ok());
  const auto outdated = drop_outdated(*results, source_with("words ", 2), specs("kv-budget=9"));
  EXPECT_EQ(outdated->of_other_items, 6);
  EXPECT_EQ(outdated->of_other_options, 0);
  ASSERT_EQ(results->results().size(), 1u);
  EXPECT_EQ(results->results()[0].item, "vt/512/0");
  EXPECT_EQ(file()->results().size(), 1u) << "on disk as well";
}

TEST_F(OutdatedResults, OfALongerFileStay) {
  auto results = file();
  fill(*results, source_with("text ", 3), specs("kv-budget=9"));
  EXPECT_EQ(drop_outdated(*results, source_with("text ", 2), specs("kv-budget=9"))->all(), 0);
  EXPECT_EQ(results->results().size(), 6u);
}

TEST_F(OutdatedResults, OfAMethodWhoseDefaultsChangedAreAnsweredAnew) {
  auto results = file();
  fill(*results, source_with("text ", 3), specs("kv-budget=9"));
  const auto outdated = drop_outdated(*results, source_with("text ", 3), specs("kv-budget=10"));
  EXPECT_EQ(outdated->of_other_options, 3);
  EXPECT_EQ(outdated->of_other_items, 0);
  EXPECT_TRUE(results->has("t/512/0", "full"));
  EXPECT_FALSE(results->has("t/512/0", "snapkv"));
}

}  // namespace
}  // namespace ei::eval
