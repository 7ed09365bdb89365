# How baton's libraries and tests are declared: a folder is a library, its sources are the files in it.

add_library(baton_options INTERFACE)
target_include_directories(baton_options INTERFACE ${CMAKE_SOURCE_DIR})
# One arithmetic (kernels/ARITHMETIC.md): the compiler must not fuse or reorder floating point by itself.
target_compile_options(baton_options INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror -ffp-contract=off
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # GCC 12 raises it falsely inside std::string (GCC bug 105651)
# The compiler's own garbage collection, an eighth of its time, begins at so many KiB.
target_compile_options(baton_options INTERFACE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=524288>)
if(BATON_SANITIZE)
  target_compile_options(baton_options INTERFACE -fsanitize=${BATON_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(baton_options INTERFACE -fsanitize=${BATON_SANITIZE})
  if(BATON_SANITIZE MATCHES "undefined")
    target_compile_options(baton_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
  if(BATON_SANITIZE MATCHES "thread")
    # Boost.Asio has fences, which ThreadSanitizer does not see; its queues have locks besides.
    target_compile_options(baton_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

# Most of a file's compile time are the headers and templates of other projects, which its neighbours need too.
function(baton_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${BATON_UNITY} UNITY_BUILD_BATCH_SIZE 0)
endfunction()

# baton_library(NAME [DEPENDS targets...]): a static library of all .cc files of the current folder.
function(baton_library name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC baton_options ${ARG_DEPENDS})
    baton_unity(${name})
  else()  # headers only
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE baton_options ${ARG_DEPENDS})
  endif()
endfunction()

# baton_test(NAME [FOLDERS folders...] [DEPENDS targets...]): one program of all *_test.cc files of the current folder, or of
# those below it; ctest lists each case.
function(baton_test name)
  cmake_parse_arguments(ARG "" "" "FOLDERS;DEPENDS" ${ARGN})
  if(NOT ARG_FOLDERS)
    set(ARG_FOLDERS .)
  endif()
  list(TRANSFORM ARG_FOLDERS REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1/*_test.cc" OUTPUT_VARIABLE patterns)
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE baton_options ${ARG_DEPENDS} GTest::gmock_main)
  baton_unity(${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
endfunction()
