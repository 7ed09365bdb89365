// The commands as a shell would call them.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "engine/gguf/gguf_file.h"
#include "engine/gguf/gguf_writer.h"
#include "engine/gguf/tensor_layer.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_data.h"

namespace baton::cli {
namespace {

// Runs a command; its output is dropped.
absl::Status RunCommand(CommandBody (*define)(CLI::App& app), std::vector<std::string> arguments) {
  CLI::App app;
  const CommandBody body = define(app);
  std::ranges::reverse(arguments);  // as CLI11 wants them
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return UsageError("{}", error.what());
  }
  ::testing::internal::CaptureStdout();
  const absl::Status status = body();
  ::testing::internal::GetCapturedStdout();
  return status;
}

void WriteSmallModel(const std::string& path) {
  engine::GgufWriter writer;
  writer.SetString("general.architecture", "test");
  for (const char* name : {"a.weight", "b.weight", "c.weight"}) {
    writer.AddTensor(name, std::vector<int64_t>{64, 2}, kernels::QuantType::kF32);
  }
  const auto zeros = [](size_t, std::ostream& out) {
    out << std::string(512, '\0');
    return absl::OkStatus();
  };
  ASSERT_TRUE(writer.WriteTo(path, zeros).ok());
}

TEST(SplitCommandTest, PartsAndBack) {
  const testing::TempDir dir;
  WriteSmallModel(dir.File("m.gguf"));
  ASSERT_TRUE(
      RunCommand(DefineSplit, {dir.File("m.gguf"), "--parts", "3", "-o", dir.File("new/parts")})
          .ok());
  const std::string first = dir.File("new/parts/m-00001-of-00003.gguf");
  const auto split = engine::GgufModel::Open(first);
  ASSERT_TRUE(split.ok()) << Message(split.status());
  EXPECT_EQ(split->parts().size(), 3u);

  ASSERT_TRUE(RunCommand(DefineMerge, {first, "-o", dir.File("merged.gguf")}).ok());
  const auto source = engine::GgufModel::Open(dir.File("m.gguf"));
  const auto merged = engine::GgufModel::Open(dir.File("merged.gguf"));
  ASSERT_TRUE(merged.ok()) << Message(merged.status());
  EXPECT_TRUE(source->mapping(0).view() == merged->mapping(0).view());

  // A split set split again.
  ASSERT_TRUE(
      RunCommand(DefineSplit, {first, "--part-size", "1000", "-o", dir.File("again")}).ok());
  EXPECT_TRUE(engine::GgufModel::Open(dir.File("again/m-00001-of-00003.gguf")).ok());
}

TEST(SplitCommandTest, WrongUse) {
  const testing::TempDir dir;
  WriteSmallModel(dir.File("m.gguf"));
  const std::string model = dir.File("m.gguf");
  const std::string out = dir.File("out");
  EXPECT_EQ(ExitCodeOf(RunCommand(DefineSplit, {model, "-o", out})), kUsage);
  EXPECT_EQ(ExitCodeOf(RunCommand(DefineSplit, {model, "--parts", "0", "-o", out})), kUsage);
  EXPECT_EQ(
      ExitCodeOf(RunCommand(DefineSplit, {model, "--parts", "2", "--part-size", "1MB", "-o", out})),
      kUsage);
  EXPECT_EQ(ExitCodeOf(RunCommand(DefineSplit, {model, "--part-size", "big", "-o", out})), kUsage);
  EXPECT_EQ(ExitCodeOf(RunCommand(DefineSplit, {dir.File("no.gguf"), "--parts", "2", "-o", out})),
            kNoSuchFile);
  EXPECT_EQ(ExitCodeOf(RunCommand(DefineMerge, {model, "-o", "/nonexistent/m.gguf"})),
            kCannotWrite);
  EXPECT_EQ(ExitCodeOf(RunCommand(DefineQuantize, {model, out, "Q99"})), kUsage);
}

TEST(SplitCommandTest, LayersGiveEachStageItsPart) {
  SKIP_WITHOUT_TEST_DATA();
  const testing::TempDir dir;
  const std::string models = testing::TestDataDir() + "/conformance/models/";
  const absl::Status wrong =
      RunCommand(DefineSplit, {models + "llama.gguf", "--layers", "0-0,1-2", "-o", dir.path()});
  EXPECT_EQ(ExitCodeOf(wrong), kUsage);
  const absl::Status done = RunCommand(
      DefineSplit, {models + "llama3-tied.gguf", "--layers", "0-1,2-3", "-o", dir.path()});
  ASSERT_TRUE(done.ok()) << Message(done);
  // Metadata; a part a stage; RoPE factors and the tied embedding that both need.
  const auto split = engine::GgufModel::Open(dir.File("llama3-tied-00001-of-00004.gguf"));
  ASSERT_TRUE(split.ok()) << Message(split.status());
  EXPECT_TRUE(split->header(0).tensors.empty());
  for (const engine::TensorInfo& tensor : split->tensors()) {
    const auto layer = engine::LayerOfTensor(tensor.name);
    const bool last_stage = tensor.name == "output_norm.weight" || layer.value_or(0) >= 2;
    const bool shared = !layer && tensor.name != "output_norm.weight";
    EXPECT_EQ(tensor.part, shared ? 3u : last_stage ? 2u : 1u) << tensor.name;
  }
}

TEST(QuantizeCommandTest, WritesTheType) {
  const testing::TempDir dir;
  WriteSmallModel(dir.File("m.gguf"));
  ASSERT_TRUE(
      RunCommand(DefineQuantize, {dir.File("m.gguf"), dir.File("q.gguf"), "q8_0", "-t", "1"}).ok());
  const auto model = engine::GgufModel::Open(dir.File("q.gguf"));
  ASSERT_TRUE(model.ok()) << Message(model.status());
  EXPECT_EQ(model->FindTensor("a.weight")->type, kernels::QuantType::kQ8_0);
}

}  // namespace
}  // namespace baton::cli
