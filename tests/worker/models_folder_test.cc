#include "worker/models_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "tests/support/temp_dir.h"

namespace baton::worker {
namespace {

using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

void Write(const std::string& path, std::string_view text) { std::ofstream(path) << text; }

TEST(ModelsFolder, ListsModelsAndSeesNewOnes) {
  const testing::TempDir dir;
  Write(dir.File("a.gguf"), "12345");
  Write(dir.File("notes.txt"), "not a model");
  const ModelsFolder folder(dir.path());
  const auto files = folder.Files();
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].file_name, "a.gguf");
  EXPECT_EQ(files[0].bytes, 5u);

  Write(dir.File("b.gguf"), "");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (folder.Files().size() < 2 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_THAT(folder.Files(), UnorderedElementsAre(Field(&engine::PartFile::file_name, "a.gguf"),
                                                   Field(&engine::PartFile::file_name, "b.gguf")));
}

TEST(ModelsFolder, AFolderThatIsNotThere) {
  EXPECT_THAT(ModelsFolder("/no/such/folder").Files(), IsEmpty());
}

}  // namespace
}  // namespace baton::worker
