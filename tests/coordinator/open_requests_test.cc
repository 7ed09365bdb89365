#include "coordinator/open_requests.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/support/temp_dir.h"

namespace baton::coordinator {
namespace {

OpenRequest Request(engine::TokenId first) {
  OpenRequest request;
  request.prompt = {first, 2, 3};
  request.sampling.temperature = 0.1f;
  request.sampling.seed = 0xFFFFFFFFFFFFFFF1u;
  request.sampling.logit_bias = {{7, -0.3f}};
  request.stop = {"\n\"end\""};
  request.max_tokens = 50;
  request.ignore_eos = true;
  return request;
}

class OpenRequestsTest : public ::testing::Test {
 protected:
  std::unique_ptr<OpenRequests> Open(const std::string& fingerprint = "model") {
    OpenRequests::Options options;
    options.folder = temp_.File("journal");
    options.fingerprint = fingerprint;
    options.max_abandoned = 2;
    auto requests = OpenRequests::Open(options);
    EXPECT_TRUE(requests.ok()) << requests.status();
    return requests.ok() ? *std::move(requests) : nullptr;
  }
  std::string path() const { return temp_.File("journal") + "/requests.jsonl"; }

  testing::TempDir temp_;
};

TEST_F(OpenRequestsTest, WhatIsOpenSurvives) {
  {
    const auto requests = Open();
    requests->Opened("a", Request(1));
    requests->Opened("b", Request(9));
    for (const int token : {10, 11, 12}) requests->Answered("a", token);
    requests->Ended("b");
    EXPECT_FALSE(requests->Take("a").has_value());  // its client is there
  }
  const auto requests = Open();
  EXPECT_FALSE(requests->Take("b").has_value());
  const auto a = requests->Take("a");
  ASSERT_TRUE(a.has_value());
  const OpenRequest want = Request(1);
  EXPECT_EQ(a->prompt, want.prompt);
  EXPECT_EQ(a->answer, (std::vector<engine::TokenId>{10, 11, 12}));
  EXPECT_EQ(a->sampling.temperature, want.sampling.temperature);
  EXPECT_EQ(a->sampling.seed, want.sampling.seed);
  EXPECT_EQ(a->sampling.logit_bias, want.sampling.logit_bias);
  EXPECT_EQ(a->stop, want.stop);
  EXPECT_EQ(a->max_tokens, 50);
  EXPECT_TRUE(a->ignore_eos);
  EXPECT_FALSE(requests->Take("a").has_value());
}

TEST_F(OpenRequestsTest, AbandonedOnesAreKeptForAWhile) {
  const auto requests = Open();
  for (const char* id : {"a", "b", "c"}) {
    requests->Opened(id, Request(1));
    requests->Abandoned(id);
  }
  EXPECT_FALSE(requests->Take("a").has_value());  // the oldest had to go
  EXPECT_TRUE(requests->Take("b").has_value());
  EXPECT_TRUE(requests->Take("c").has_value());
}

TEST_F(OpenRequestsTest, DamagedJournalsAreReadAsFarAsTheyGo) {
  const std::string whole = JournalOpenLine("a", Request(1));
  const std::string model = "{\"model\":\"model\"}\n";
  const std::string deep = std::string(200'000, '[') + std::string(200'000, ']');
  struct Case {
    std::string text;
    bool found;
  };
  const Case cases[] = {
      {model + whole, true},
      {model + whole + whole.substr(0, 20), true},
      {model + whole.substr(0, whole.size() - 1), false},  // cut off
      {model + "nonsense\n" + whole, true},
      {model + "{\"open\":5}\n[1]\n{\"of\":\"zz\",\"token\":1}\n{\"end\":7}\n" + whole, true},
      {model + whole + "{\"of\":\"a\",\"token\":\"x\"}\n", true},
      {whole, false},
      {"{\"model\":\"other\"}\n" + whole, false},
      {"{\"model\":" + deep + "}\n" + whole, false},
      {model + "{\"open\":\"a\",\"prompt\":" + deep + "}\n" + whole, true},
      {std::string("\0\xff\n", 3) + whole, false},
      {"", false},
  };
  for (const Case& test : cases) {
    std::filesystem::create_directories(temp_.File("journal"));
    std::ofstream(path(), std::ios::binary) << test.text;
    const auto requests = Open();
    ASSERT_NE(requests, nullptr);
    EXPECT_EQ(requests->Take("a").has_value(), test.found) << test.text.substr(0, 200);
    requests->Ended("a");
  }
}

TEST_F(OpenRequestsTest, OneCoordinatorAFolder) {
  const auto first = Open();
  OpenRequests::Options options;
  options.folder = temp_.File("journal");
  EXPECT_TRUE(absl::IsAlreadyExists(OpenRequests::Open(options).status()));
}

TEST_F(OpenRequestsTest, NothingIsLeftWhereNothingIsOpen) {
  {
    const auto requests = Open();
    requests->Opened("a", Request(1));
    requests->Ended("a");
    EXPECT_TRUE(std::filesystem::exists(path()));
  }
  EXPECT_FALSE(std::filesystem::exists(temp_.File("journal")));
}

// A file that may not grow, as on a full disk.
TEST_F(OpenRequestsTest, AFullDiskCostsTheJournalAndNoMore) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &usual), 0);
  {
    const auto requests = Open();
    requests->Opened("a", Request(1));
    const auto whole_size = [&] {
      std::error_code error;
      const auto size = std::filesystem::file_size(path(), error);
      return error ? 0 : size;
    };
    for (int i = 0; i < 200 && whole_size() < 100; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const rlimit full{whole_size() + 20, usual.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
    for (int token = 10; token < 20; ++token) requests->Answered("a", token);  // more than 20 bytes
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &usual), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // it has tried again
    requests->Answered("a", 20);
  }
  const auto a = Open()->Take("a");
  ASSERT_TRUE(a.has_value());
  EXPECT_EQ(a->answer, (std::vector<engine::TokenId>{10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}));
}

TEST(OpenRequestsMemoryTest, WorksWithoutAFolder) {
  const auto requests = OpenRequests::Open({});
  ASSERT_TRUE(requests.ok());
  (*requests)->Opened("a", Request(1));
  (*requests)->Abandoned("a");
  EXPECT_TRUE((*requests)->Take("a").has_value());
}

TEST(OpenRequestsMemoryTest, FolderThatCannotBeWritten) {
  OpenRequests::Options options;
  options.folder = "/proc/no/such/folder";
  EXPECT_FALSE(OpenRequests::Open(options).ok());
}

}  // namespace
}  // namespace baton::coordinator
