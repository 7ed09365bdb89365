#include "coordinator/topology_change.h"

#include <gtest/gtest.h>

namespace baton::coordinator {
namespace {

constexpr std::string_view kBefore =
    "model: /m.gguf\n"
    "context: 512\n"
    "workers:\n"
    "  - {name: a, address: 'h:1'}\n"
    "  - {name: b, address: 'h:2', threads: 2}\n"
    "spares:\n"
    "  - {name: s, address: 'h:3'}\n";

std::string Edited(std::string_view what, std::string_view with) {
  std::string text(kBefore);
  return text.replace(text.find(what), what.size(), with);
}

absl::StatusOr<TopologyChange> CompareWith(const std::string& yaml) {
  const auto now = ParseTopology(kBefore, "t.yaml"), wanted = ParseTopology(yaml, "t.yaml");
  EXPECT_TRUE(now.ok() && wanted.ok()) << wanted.status();
  return CompareTopologies(*now, *wanted);
}

TEST(TopologyChange, WhatChangesWhileItRuns) {
  const struct {
    std::string yaml;
    std::string_view says;
    bool replan;
  } cases[] = {
      {std::string(kBefore), "nothing new", false},
      {"# a word\n" + std::string(kBefore), "nothing new", false},
      {Edited("spares:\n", "spares:\n  - {name: t, address: 'h:4'}\n"), "t joined", false},
      {Edited("spares:\n", "  - {name: c, address: 'h:4'}\nspares:\n"), "c joined", true},
      {Edited("  - {name: a, address: 'h:1'}\n", ""), "a left", true},
      {Edited("a, address: 'h:1'", "c, address: 'h:5'"), "c joined, a left", true},
      {Edited("spares:\n", ""), "layers are divided anew", true},
      {Edited("'h:1'}", "'h:1', weight: 3}"), "layers are divided anew", true},
      {"order: any\n" + std::string(kBefore), "layers are divided anew", true},
      {"links: [{from: a, to: b, latency: 5ms}]\n" + std::string(kBefore),
       "layers are divided anew", true},
  };
  for (const auto& c : cases) {
    const auto change = CompareWith(c.yaml);
    ASSERT_TRUE(change.ok()) << c.yaml << change.status();
    EXPECT_EQ(Describe(*change), c.says) << c.yaml;
    EXPECT_EQ(change->replan, c.replan) << c.yaml;
  }
}

TEST(TopologyChange, WhatNeedsARestartIsNamed) {
  const struct {
    std::string yaml;
    std::string_view names;
  } cases[] = {
      {Edited("512", "1024"), "t.yaml: context: "},
      {Edited("/m.gguf", "/n.gguf"), "t.yaml: model: "},
      {"limits: {step: 30s}\n" + std::string(kBefore), "t.yaml: limits: "},
      {"insecure: true\n" + std::string(kBefore), "t.yaml: insecure: "},
      {Edited("threads: 2", "threads: 1"), "t.yaml:5: threads of worker b: "},
      {Edited("'h:3'", "'h:9'"), "t.yaml:7: address of worker s: "},
  };
  for (const auto& c : cases) {
    const auto change = CompareWith(c.yaml);
    EXPECT_TRUE(absl::IsFailedPrecondition(change.status())) << c.yaml;
    EXPECT_NE(Message(change.status()).find(c.names), std::string_view::npos) << change.status();
    EXPECT_NE(Message(change.status()).find("nothing was changed"), std::string_view::npos);
  }
}

}  // namespace
}  // namespace baton::coordinator
