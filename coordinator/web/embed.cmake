# Writes OUTPUT, a source file that holds the bytes of INPUT.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
file(WRITE ${OUTPUT} "#include \"coordinator/web/web_page.h\"

namespace baton::coordinator {
namespace {
constexpr char kPage[] = {${bytes}};
}

std::string_view WebPage() { return {kPage, sizeof(kPage)}; }

}  // namespace baton::coordinator
")
