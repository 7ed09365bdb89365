# Whether the CUDA kernels are built: BATON_CUDA is ON, or AUTO and this machine has nvcc and a driver of NVIDIA's. (They
# take minutes to compile for all architectures, which a machine that cannot run them need not spend: their tests run
# them in emulation anyway.) Sets BATON_HAS_CUDA.
set_property(CACHE BATON_CUDA PROPERTY STRINGS AUTO ON OFF)
set(BATON_HAS_CUDA FALSE)
if(NOT BATON_CUDA)
  return()
endif()

if(BATON_CUDA STREQUAL "AUTO" AND NOT EXISTS /proc/driver/nvidia/version)
  message(STATUS "CUDA: no NVIDIA driver here, built without (-DBATON_CUDA=ON builds it all the same)")
  return()
endif()

include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  if(NOT BATON_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "BATON_CUDA=${BATON_CUDA}: no nvcc on PATH. scripts/setup_cuda.sh installs one; -DBATON_CUDA=OFF builds without CUDA.")
  endif()
  message(STATUS "CUDA: no nvcc on PATH, built without")
  return()
endif()

# Real code for each, and for the last also the intermediate language that later devices translate.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120
    CACHE STRING "Compute capabilities that the CUDA kernels are built for")
endif()
enable_language(CUDA)
# CMake 3.25 does not know nvcc's flag for C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
find_package(CUDAToolkit REQUIRED)
set(BATON_HAS_CUDA TRUE)
message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} for ${CMAKE_CUDA_ARCHITECTURES}")
