// A file written in blocks of 2 MB, each at a multiple of its size. Linux then keeps it in memory
// in pages as large where the file system can, and a mapping of it needs few addresses translated
// (see MmapFile::PreferHugePages). One thread.
#pragma once

#include <memory>
#include <ostream>
#include <streambuf>
#include <string>

namespace baton::engine {

class BlockFile : public std::ostream {
 public:
  enum class Mode { kReplace, kAppend };

  BlockFile();
  ~BlockFile() override;

  // Replaces or goes on with the file; false: errno says why not. Closes what was open.
  bool Open(const std::string& path, Mode mode);
  // Writes what is left; false: of all that was written something was not, errno says why.
  bool Close();

 private:
  class Buffer;
  std::unique_ptr<Buffer> buffer_;
};

}  // namespace baton::engine
