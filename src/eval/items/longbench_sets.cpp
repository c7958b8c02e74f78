#include "eval/items/files.h"

namespace ei::eval {
namespace {

constexpr std::string_view kAnswerBriefly = "Answer the question from the text above, in as few words as possible.";
constexpr std::string_view kSummarise = "Write a summary of the text above, about a page long.";
constexpr std::string_view kCompleteCode = "Complete the code above: write the next line only.";
constexpr std::string_view kBrieflyChinese = "请根据上文简短地回答问题。";

constexpr LongBenchSet kSets[] = {
    {"narrativeqa", "f1", 128, false, kAnswerBriefly},
    {"qasper", "f1", 128, false, kAnswerBriefly},
    {"multifieldqa_en", "f1", 64, false, kAnswerBriefly},
    {"multifieldqa_zh", "f1_zh", 64, false, kBrieflyChinese},
    {"hotpotqa", "f1", 32, false, kAnswerBriefly},
    {"2wikimqa", "f1", 32, false, kAnswerBriefly},
    {"musique", "f1", 32, false, kAnswerBriefly},
    {"dureader", "rouge_l_zh", 128, false, kBrieflyChinese},
    {"gov_report", "rouge_l", 512, false, kSummarise},
    {"qmsum", "rouge_l", 512, false, "Answer the query from the meeting above, in one or more sentences."},
    {"multi_news", "rouge_l", 512, false, kSummarise},
    {"vcsum", "rouge_l_zh", 512, false, "请总结上面的会议内容。"},
    {"trec", "class", 64, true, "Name the type of the last question, as in the examples above."},
    {"triviaqa", "f1_line", 32, true, "Answer the last question, as in the examples above."},
    {"samsum", "rouge_l_line", 128, true, "Summarise the last dialogue, as in the examples above."},
    {"lsht", "class", 64, true, "请像上面的例子那样给出最后一条新闻的类别。"},
    {"passage_count", "number", 32, false, "How many different paragraphs are there above? Give the number only."},
    {"passage_retrieval_en", "number", 32, false,
     "Which paragraph above is the abstract about? Answer as in \"Paragraph 1\"."},
    {"passage_retrieval_zh", "number", 32, false, "下面的摘要出自上面哪一段？请像\"段落1\"那样回答。"},
    {"lcc", "code", 64, true, kCompleteCode},
    {"repobench-p", "code", 64, true, kCompleteCode},
};

}  // namespace

std::span<const LongBenchSet> longbench_sets() { return kSets; }

}  // namespace ei::eval
