#include "data/tokenizer/tokenizer.h"

#include <random>
#include <thread>

#include "base/error.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe_trainer.h"
#include "data/tokenizer/byte_alphabet.h"
#include "data/tokenizer/pre_tokenizer.h"
#include "data/tokenizer/token_table.h"
#include "data/tokenizer/tokenizer_files.h"
#include "data/tokenizer/utf8.h"
#include "message_of.h"
#include "scratch_directory.h"

namespace trireme {
namespace {

using test::MessageOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Pieces(SplitPattern pattern, const std::string& text) {
  const UnicodeClasses& classes = UnicodeClasses::Get();
  std::vector<std::string> pieces;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* const next = PieceEnd(pattern, classes, at, end);
    pieces.emplace_back(at, next);
    at = next;
  }
  return pieces;
}

const std::string kText =
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, this "
    "truth is so well fixed in the minds of the surrounding families, that he is considered as the rightful property "
    "of some one or other of their daughters.\n\n\tnaïve café 東京 12345 don't WE'LL 👍🏽\n";

// A vocabulary learnt from the text above.
BpeDescription Learnt(SplitPattern pattern = SplitPattern::kGpt2, std::int64_t vocabulary = 400) {
  BpeTrainer trainer({.vocabulary = vocabulary, .pattern = pattern});
  trainer.Add(kText);
  return trainer.Train();
}

std::string RandomBytes(std::mt19937& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(random() % 3 == 0 ? random() : "abc '\n\t12é…"[random() % 12]);
  }
  return bytes;
}

std::string LoadError(const std::string& path) {
  try {
    LoadTokenizer(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(PreTokenizer, Gpt2SplitsAsItsPattern) {
  EXPECT_THAT(Pieces(SplitPattern::kGpt2, "Hello world's  end\n\n x1 2!"),
              ElementsAre("Hello", " world", "'s", " ", " end", "\n\n", " x", "1", " 2", "!"));
  EXPECT_THAT(Pieces(SplitPattern::kGpt2, "we'll 'S   "), ElementsAre("we", "'ll", " '", "S", "   "));
  EXPECT_THAT(Pieces(SplitPattern::kGpt2, "a\u00a0\u3000b"), ElementsAre("a", "\u00a0", "\u3000", "b"));
}

TEST(PreTokenizer, Llama3SplitsAsItsPattern) {
  EXPECT_THAT(Pieces(SplitPattern::kLlama3, "I'LL (see) 12345\n\n  x;\r\n"),
              ElementsAre("I", "'LL", " (", "see", ")", " ", "123", "45", "\n\n", " ", " x", ";\r\n"));
  EXPECT_THAT(Pieces(SplitPattern::kLlama3, "a \n b\t c"), ElementsAre("a", " \n", " b", "\t", " c"));
  EXPECT_THAT(Pieces(SplitPattern::kQwen2, "2024"), ElementsAre("2", "0", "2", "4"));
}

TEST(PreTokenizer, BloomSplitsAsItsPattern) {
  EXPECT_THAT(Pieces(SplitPattern::kBloom, "Hello, it's (a) test...  ok|x\n"),
              ElementsAre("Hello", ",", " it's", " (", "a", ")", " test", "... ", " ok", "|", "x", "\n"));
}

// What a back-tracking engine (V8's) answers for the pattern.
TEST(PreTokenizer, TekkenSplitsAsItsPattern) {
  EXPECT_THAT(
      Pieces(SplitPattern::kTekken, "HTTPServer isCamelCase it's ABC 2024//\n/x"),
      ElementsAre("HTTPServer", " is", "Camel", "Case", " it", "'s", " ABC", " ", "2", "0", "2", "4", "//\n/", "x"));
  EXPECT_THAT(Pieces(SplitPattern::kTekken, "\u00aaAB\u00aaC d\u0301E \u0301\u0301\n\n  \u4e2dA\u6587!"),
              ElementsAre("\u00aaAB\u00aa", "C", " d\u0301", "E", " \u0301\u0301", "\n\n", " ", " \u4e2dA\u6587", "!"));
}

TEST(PreTokenizer, PatternsAreFoundByTextAndName) {
  for (const SplitPattern pattern : {SplitPattern::kGpt2, SplitPattern::kBloom, SplitPattern::kLlama3,
                                     SplitPattern::kQwen2, SplitPattern::kTekken}) {
    EXPECT_EQ(ParsePattern(PatternText(pattern)), pattern);
  }
  EXPECT_EQ(PatternByName("llama3"), SplitPattern::kLlama3);
  EXPECT_THROW(PatternByName("lama3"), Error);
  EXPECT_THROW(ParsePattern("\\w+"), Error);
}

TEST(Utf8, IllFormedStretchesBecomeOneReplacementEach) {
  EXPECT_EQ(ReplaceIllFormedUtf8("a\xff\xe2\x82z"), "a\uFFFD\uFFFDz");
  EXPECT_EQ(ReplaceIllFormedUtf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(ReplaceIllFormedUtf8("\xf0\x9f\x98"), "\uFFFD");
  EXPECT_EQ(ReplaceIllFormedUtf8("\xc0\x80"), "\uFFFD\uFFFD");
  EXPECT_TRUE(IsWellFormedUtf8(kText));
  EXPECT_FALSE(IsWellFormedUtf8("\xf4\x90\x80\x80"));
}

TEST(ByteAlphabet, EveryByteHasACharacterAndComesBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) {
    bytes += static_cast<char>(byte);
  }
  EXPECT_EQ(TextToBytes(BytesToText(bytes)), bytes);
  EXPECT_EQ(BytesToText(" \n"), "ĠĊ");
  EXPECT_EQ(TextToBytes("日"), "日");
}

TEST(BpeTokenizer, MergesByRankThenFromTheLeft) {
  BpeDescription description{.origin = "test"};
  std::int32_t id = 0;
  for (const char* token : {"a", "b", "c", "aa", "bc", "aab", "aabc"}) {
    description.vocabulary.tokens.emplace_back(token, id++);
  }
  description.vocabulary.merges = {{"a", "a"}, {"b", "c"}, {"aa", "b"}};
  const BpeTokenizer tokenizer(description, {});
  EXPECT_THAT(tokenizer.Encode("aaabc"), ElementsAre(3, 0, 4));
  EXPECT_THAT(tokenizer.Encode("aab"), ElementsAre(5));
  EXPECT_THROW(tokenizer.Encode("d"), Error);
}

TEST(BpeTokenizer, LongPiecesMergeAsShortOnesDo) {
  const BpeTokenizer tokenizer(Learnt(), {});
  // Both sides of the switch between the two merge algorithms, against merging one pair at a time by definition.
  const BpeDescription description = Learnt();
  std::unordered_map<std::string, std::size_t> ranks;
  for (const auto& [left, right] : description.vocabulary.merges) {
    ranks.emplace(left + " " + right, ranks.size());
  }
  std::mt19937 random(3);
  for (std::size_t length = 1; length < 120; ++length) {
    std::string word;
    for (std::size_t i = 0; i < length; ++i) {
      word += "theinorsafu"[random() % 11];
    }
    std::vector<std::string> symbols;
    for (const char c : word) {
      symbols.emplace_back(1, c);
    }
    while (true) {
      std::size_t best = symbols.size();
      std::size_t best_rank = ranks.size();
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ranks.find(symbols[i] + " " + symbols[i + 1]);
        if (found != ranks.end() && found->second < best_rank) {
          best = i;
          best_rank = found->second;
        }
      }
      if (best == symbols.size()) {
        break;
      }
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<std::int32_t> expected;
    for (const std::string& symbol : symbols) {
      expected.push_back(*tokenizer.FindToken(symbol));
    }
    EXPECT_EQ(tokenizer.Encode(word), expected) << word;
  }
}

TEST(BpeTokenizer, AnyBytesDecodeToThemselves) {
  std::mt19937 random(7);
  for (const SplitPattern pattern : {SplitPattern::kGpt2, SplitPattern::kBloom, SplitPattern::kLlama3}) {
    const BpeTokenizer tokenizer(Learnt(pattern), {});
    EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(kText)), kText);
    for (int round = 0; round < 500; ++round) {
      const std::string bytes = RandomBytes(random, random() % 200);
      EXPECT_EQ(tokenizer.Decode(tokenizer.Encode(bytes)), bytes);
    }
  }
}

TEST(BpeTokenizer, SpecialTokensAreFoundUnlessToldNotTo) {
  const BpeTokenizer parsing(Learnt(), {});
  const BpeTokenizer literal(Learnt(), {.parse_special = false});
  const std::string text = "end<|endoftext|>of";
  EXPECT_THAT(parsing.Encode(text), testing::Contains(0));
  EXPECT_THAT(literal.Encode(text), testing::Not(testing::Contains(0)));
  EXPECT_EQ(parsing.Decode(parsing.Encode(text)), text);
  EXPECT_EQ(literal.Decode(literal.Encode(text)), text);
  EXPECT_EQ(parsing.end_of_text(), 0);
  EXPECT_TRUE(parsing.IsSpecial(0));
  EXPECT_FALSE(parsing.IsSpecial(1));
}

TEST(BpeTokenizer, AddedTokensHonourTheirFlags) {
  BpeDescription description = Learnt();
  description.added_tokens = {{.id = 1000, .content = "[W]", .single_word = true},
                              {.id = 1001, .content = "<L>", .strip_left = true},
                              {.id = 1002, .content = "<R>", .strip_right = true},
                              {.id = 1003, .content = "<L>>"}};
  const BpeTokenizer tokenizer(description, {});
  const auto b = *tokenizer.FindToken("b");
  const auto x = *tokenizer.FindToken("x");
  EXPECT_EQ(tokenizer.vocabulary(), 1004);
  EXPECT_THAT(tokenizer.Encode("[W]"), ElementsAre(1000));
  EXPECT_THAT(tokenizer.Encode("b[W]"), testing::Not(testing::Contains(1000)));
  EXPECT_THAT(tokenizer.Encode("b \n<L>x"), ElementsAre(b, 1001, x));
  EXPECT_THAT(tokenizer.Encode("b<R>\t x"), ElementsAre(b, 1002, x));
  EXPECT_THAT(tokenizer.Encode("<L>>"), ElementsAre(1003));
}

TEST(BpeTokenizer, NormalFormsApplyBeforeSplitting) {
  BpeDescription description = Learnt();
  description.normal_forms = {NormalForm::kNfc};
  const BpeTokenizer tokenizer(description, {});
  EXPECT_EQ(tokenizer.Encode("cafe\u0301"), tokenizer.Encode("caf\u00e9"));
}

TEST(BpeTokenizer, ThreadsShareATokenizer) {
  const BpeTokenizer tokenizer(Learnt(), {});
  const auto expected = tokenizer.Encode(kText);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        wrong += tokenizer.Encode(kText) != expected ? 1 : 0;
      }
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST(BpeTokenizer, IdsOutsideTheVocabularyDoNotDecode) {
  const BpeTokenizer tokenizer(Learnt(), {});
  EXPECT_THROW(tokenizer.Decode(std::vector<std::int32_t>{-1}), Error);
  EXPECT_THROW(tokenizer.Decode(std::vector<std::int32_t>{static_cast<std::int32_t>(tokenizer.vocabulary())}), Error);
}

TEST(BpeTrainer, FrequentWordsBecomeTokens) {
  const BpeDescription description = Learnt();
  const BpeTokenizer tokenizer(description, {});
  EXPECT_GT(tokenizer.vocabulary(), 300);
  EXPECT_LE(tokenizer.vocabulary(), 400);
  EXPECT_EQ(tokenizer.Encode(" of").size(), 1U);
  EXPECT_LT(tokenizer.Encode(kText).size(), kText.size() * 2 / 3);
  EXPECT_EQ(WriteTokenizerJson(Learnt()), WriteTokenizerJson(description));
}

TEST(BpeTrainer, StopsWhenNothingIsFrequent) {
  BpeTrainer trainer({.vocabulary = 5000});
  trainer.Add("ab ab");
  EXPECT_EQ(trainer.Train().vocabulary.merges.size(), 1U);
  EXPECT_THROW(BpeTrainer({.vocabulary = 256}), Error);
}

TEST(TokenizerFiles, ATokenThatIsNotUtf8IsRefusedInsteadOfReplaced) {
  BpeDescription description = Learnt();
  description.added_tokens.push_back({.id = 1000, .content = "<\xff>"});
  EXPECT_ANY_THROW(WriteTokenizerJson(description));
}

TEST(TokenizerFiles, WrittenFilesReadBack) {
  const ScratchDirectory scratch;
  for (const SplitPattern pattern :
       {SplitPattern::kGpt2, SplitPattern::kBloom, SplitPattern::kLlama3, SplitPattern::kQwen2}) {
    const BpeDescription description = Learnt(pattern);
    WriteBytes(scratch / "tokenizer.json", WriteTokenizerJson(description));
    const auto read = LoadTokenizer(scratch.path().string());
    EXPECT_EQ(read->Encode(kText), BpeTokenizer(description, {}).Encode(kText));
    EXPECT_EQ(ReadTokenizerJson(scratch / "tokenizer.json").pattern, pattern);
  }
}

TEST(TokenizerFiles, VocabularyAndMergesReadAsGpt2) {
  const ScratchDirectory scratch;
  const BpeDescription description = Learnt();
  std::string vocabulary = "{";
  for (const auto& [text, id] : description.vocabulary.tokens) {
    const bool quote = text == "\"" || text == "\\";
    vocabulary += fmt::format("{}\"{}{}\":{}", id == 0 ? "" : ",", quote ? "\\" : "", text, id);
  }
  std::string merges = "#version: 0.2\n";
  for (const auto& [left, right] : description.vocabulary.merges) {
    merges += left + " " + right + "\n";
  }
  WriteBytes(scratch / "vocab.json", vocabulary + "}");
  WriteBytes(scratch / "merges.txt", merges);
  const auto read = LoadTokenizer(scratch.path().string());
  EXPECT_EQ(read->Encode(kText), BpeTokenizer(description, {}).Encode(kText));
  EXPECT_EQ(read->end_of_text(), 0);
}

TEST(TokenizerFiles, EachFaultIsOneClearError) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "tokenizer.json";
  const std::string good = R"({"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false}, "added_tokens": [{"id": 3, "content": "<s>"}]})";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    WriteBytes(path, text.replace(at, from.size(), to));
    return LoadError(path);
  };
  EXPECT_EQ(with("BPE", "BPE"), "");
  EXPECT_THAT(with("\"BPE\"", "\"Unigram\""), HasSubstr("is Unigram"));
  EXPECT_THAT(with("\"b\": 1", "\"b\": 0"), HasSubstr("has id 0, which another token has"));
  EXPECT_THAT(with("\"b\": 1", "\"b\": 9000000"), HasSubstr("tokens and an id of 9000000; ids below"));
  EXPECT_THAT(with("\"b\": 1", "\"b\": -1"), HasSubstr("token id -1"));
  EXPECT_THAT(with("\"b\": 1", "\"b\": 1.5"), HasSubstr("token id 1.5"));
  EXPECT_THAT(with("\"b\": 1", "\"b\": 2000000000"), HasSubstr("not in [0, 16777216)"));
  EXPECT_THAT(with("\"a b\"", "\"a c\""), HasSubstr("needs the token 'c'"));
  EXPECT_THAT(with("\"a b\"", "\"ab\""), HasSubstr("not two tokens"));
  EXPECT_THAT(with("\"a b\"", "[\"a\"]"), HasSubstr("not a pair"));
  EXPECT_THAT(with("\"a b\"", "7"), HasSubstr("not the tokenizer.json"));
  EXPECT_THAT(with("ByteLevel", "Whitespace"), HasSubstr("not ByteLevel"));
  EXPECT_THAT(with("\"pre_tokenizer\"", "\"other\""), HasSubstr("no pre-tokenizer"));
  EXPECT_THAT(with("\"model\"", "\"modell\""), HasSubstr("not the tokenizer.json"));
  EXPECT_THAT(with("\"added_tokens\"", "\"normalizer\": {\"type\": \"Lowercase\"}, \"added_tokens\""),
              HasSubstr("normaliser Lowercase"));
  EXPECT_THAT(with("\"id\": 3", "\"id\": \"x\""), HasSubstr("token id \"x\""));
  EXPECT_THAT(with("\"type\": \"BPE\"", "\"byte_fallback\": true"), HasSubstr("with byte_fallback"));
  EXPECT_THAT(with("}]}", "}]"), HasSubstr("is not JSON"));
  WriteBytes(path, std::string(100000, '['));
  EXPECT_THAT(LoadError(path), HasSubstr("nested deeper than 64"));
  WriteBytes(path, "");
  EXPECT_THAT(LoadError(path), HasSubstr("is not JSON"));
  EXPECT_THAT(LoadError(scratch / "absent.json"), HasSubstr("cannot open"));
  EXPECT_THAT(LoadError(scratch / "x.model"), HasSubstr("x.model"));
}

// Few letters, merges within and across words, bytes of one character, as converted SentencePiece models have them.
std::string CharacterTokenizer(const std::string& normalizer, const std::string& pre_tokenizer) {
  return R"({"model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
    "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "<0xC3>": 3, "<0xA9>": 4, "▁": 5, "a": 6, "b": 7, "▁a": 8, "ab": 9,
              "b▁a": 10, "▁ab": 11}, "merges": ["▁ a", "▁a b", "a b", "b ▁a"]},
    "added_tokens": [{"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "</s>", "special": true}],
    "normalizer": )" +
         normalizer + R"(, "pre_tokenizer": )" + pre_tokenizer + R"(,
    "decoder": {"type": "Sequence", "decoders": [{"type": "Replace"}, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})";
}

TEST(CharacterBpe, EncodesAsSentencePieceDoes) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "tokenizer.json";
  const std::string prepend = R"({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"},
    {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]})";
  WriteBytes(path, CharacterTokenizer(prepend, "null"));
  const auto tokenizer = LoadTokenizer(path);
  using Ids = std::vector<std::int32_t>;
  EXPECT_EQ(tokenizer->Encode("ab"), (Ids{11}));
  EXPECT_EQ(tokenizer->Encode("ab ab"), (Ids{11, 11}));
  EXPECT_EQ(tokenizer->Encode("é"), (Ids{5, 3, 4}));
  EXPECT_EQ(tokenizer->Encode("xya"), (Ids{5, 0, 6})) << "unknown characters are one token";
  EXPECT_EQ(tokenizer->Encode("<s>a</s>b"), (Ids{1, 8, 2, 5, 7})) << "each stretch has its space";
  EXPECT_EQ(tokenizer->Decode(Ids{11, 8, 3, 4}), "ab aé");
  EXPECT_EQ(tokenizer->end_of_text(), 2);
  EXPECT_TRUE(tokenizer->IsSpecial(1));

  const std::string metaspace = R"({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": )";
  WriteBytes(path, CharacterTokenizer("null", metaspace + "false}"));
  EXPECT_EQ(LoadTokenizer(path)->Encode("<s>b a"), (Ids{1, 10})) << "only the first stretch has a space";
  EXPECT_EQ(LoadTokenizer(path)->Encode(" b a"), (Ids{5, 10}));
  WriteBytes(path, CharacterTokenizer("null", metaspace + "true}"));
  EXPECT_EQ(LoadTokenizer(path)->Encode("<s>b a"), (Ids{1, 7, 8})) << "merges stay within words";
  WriteBytes(path, CharacterTokenizer(R"({"type": "Lowercase"})", "null"));
  EXPECT_THAT(LoadError(path), HasSubstr("normaliser Lowercase"));
  WriteBytes(path, CharacterTokenizer("null", R"({"type": "Whitespace"})"));
  EXPECT_THAT(LoadError(path), HasSubstr("Whitespace"));
}

TEST(TokenizerFiles, RandomDamageNeverCrashes) {
  const ScratchDirectory scratch;
  const std::string good = WriteTokenizerJson(Learnt(SplitPattern::kLlama3, 270));
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::string text = good;
    for (int change = 0; change < 1 + round % 4; ++change) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    WriteBytes(scratch / "tokenizer.json", text);
    try {
      const auto tokenizer = LoadTokenizer(scratch / "tokenizer.json");
      tokenizer->Decode(tokenizer->Encode(kText));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(ByteTokenizer, IsTheIdentity) {
  const auto tokenizer = LoadTokenizer("bytes");
  EXPECT_THAT(tokenizer->Encode("a\xff"), ElementsAre('a', 255));
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(kText)), kText);
  EXPECT_THROW(tokenizer->Decode(std::vector<std::int32_t>{256}), Error);
}

// A reserve for each text copied all earlier tokens: minutes for as many lines.
TEST(ByteTokenizer, AppendsManyShortTextsInOnePass) {
  const auto tokenizer = LoadTokenizer("bytes");
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 300'000; ++i) {
    tokenizer->Encode(std::string_view("a line of text"), ids);
  }
  EXPECT_EQ(ids.size(), 300'000U * 14);
}

// Each space looked through all the others.
TEST(AddedTokens, AStrippedSpaceIsSplitInOnePass) {
  for (const bool left : {true, false}) {
    AddedToken space{.id = 7, .content = " "};
    space.strip_left = left;
    space.strip_right = !left;
    const AddedTokenMatcher matcher({space}, UnicodeClasses::Get());
    const std::string text = "a" + std::string(1'000'000, ' ') + "b";
    const std::vector<TextSpan> spans = matcher.Split(text);
    EXPECT_EQ(spans.front().text, "a");
    EXPECT_EQ(spans.back().text, "b");
    std::size_t covered = 0;
    for (const TextSpan& span : spans) {
      covered += span.id == 7 ? span.text.size() : 0;
    }
    EXPECT_EQ(covered, 1'000'000U);
  }
}

TEST(TokenTable, AnIdBeyondTheVocabularyIsRefusedBeforeTheTableGrows) {
  const ScratchDirectory scratch;
  for (const char* id : {"1000", "2147483647"}) {
    WriteBytes(scratch / "vocab.json", fmt::format(R"({{"a": 0, "b": {}}})", id));
    WriteBytes(scratch / "merges.txt", "");
    EXPECT_THAT(MessageOf([&] { ReadTokenTable(scratch / "vocab.json", 1000); }),
                HasSubstr(fmt::format("has id {}, beyond the model's vocabulary of 1000", id)));
  }
}

}  // namespace
}  // namespace trireme
