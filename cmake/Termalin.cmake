# What every target of the project has in common. Targets say only what is their own.

option(TERMALIN_WERROR "Treat warnings as errors" OFF)
option(TERMALIN_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(TERMALIN_SANITIZE "" CACHE STRING "Sanitizers for every target, such as address,undefined or thread")

# Two link jobs at once would need more memory than a small machine has; compiling is not limited.
set_property(GLOBAL PROPERTY JOB_POOLS link_pool=1)
set(CMAKE_JOB_POOL_LINK link_pool)

find_program(TERMALIN_CCACHE ccache)
if(TERMALIN_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${TERMALIN_CCACHE}")
endif()

add_library(termalin_options INTERFACE)
target_compile_features(termalin_options INTERFACE cxx_std_23)
target_include_directories(termalin_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_options(termalin_options INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi
    $<$<CXX_COMPILER_ID:GNU>:-Wduplicated-cond -Wlogical-op>
    $<$<CXX_COMPILER_ID:Clang>:-Wunreachable-code>
    $<$<BOOL:${TERMALIN_WERROR}>:-Werror>)
target_compile_definitions(termalin_options INTERFACE
    $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS> TERMALIN_VERSION="${PROJECT_VERSION}")
target_link_libraries(termalin_options INTERFACE Threads::Threads)
if(TERMALIN_SANITIZE)
    target_compile_options(termalin_options INTERFACE -fsanitize=${TERMALIN_SANITIZE} -fno-omit-frame-pointer
        $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>) # GCC 12 sees ghosts in std::variant when sanitizing
    target_link_options(termalin_options INTERFACE -fsanitize=${TERMALIN_SANITIZE})
    if(TERMALIN_SANITIZE MATCHES "thread") # each access is a call, so that the fewer there are the better
        target_compile_options(termalin_options INTERFACE
            $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TERMALIN_UNOPTIMISED>>>:-O1>)
    endif()
endif()
if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    target_compile_options(termalin_options INTERFACE -fstack-protector-strong -fstack-clash-protection
        -fcf-protection)
    if(NOT TERMALIN_SANITIZE) # it needs optimisation, which the tests' own code goes without
        target_compile_options(termalin_options INTERFACE
            $<$<NOT:$<BOOL:$<TARGET_PROPERTY:TERMALIN_UNOPTIMISED>>>:-D_FORTIFY_SOURCE=2>)
    endif()
    target_link_options(termalin_options INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# termalin_library(<name> SOURCES ... USES ... LINKS ...): one layer, one static library. USES are public
# (other layers of ours), LINKS are private (third-party libraries, which no header of the layer may show).
function(termalin_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES;LINKS")
    add_library(termalin_${name} STATIC ${arg_SOURCES})
    target_link_libraries(termalin_${name} PUBLIC termalin_options ${arg_USES} PRIVATE ${arg_LINKS})
endfunction()

# termalin_test(<name> SOURCES ... USES ... LABELS ...): one GoogleTest program. OWN_MAIN: it has a main() itself.
# ALONE: nothing else runs beside its tests, since what they look at has a time limit of the product's own.
function(termalin_test name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "OWN_MAIN;ALONE" "TIMEOUT" "SOURCES;USES;LABELS")
    add_executable(${name}_test ${arg_SOURCES})
    target_link_libraries(${name}_test PRIVATE ${arg_USES} GTest::gtest GTest::gmock)
    if(NOT arg_OWN_MAIN)
        target_link_libraries(${name}_test PRIVATE GTest::gtest_main)
    endif()
    # What is tested is optimised; the tests would only take longer to build.
    if(CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo" OR TERMALIN_SANITIZE MATCHES "thread")
        set_target_properties(${name}_test PROPERTIES TERMALIN_UNOPTIMISED ON)
        target_compile_options(${name}_test PRIVATE -O0 -g1)
    endif()
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 120)
    endif()
    if(TERMALIN_SANITIZE MATCHES "thread") # what handles hundreds of mebibytes takes minutes in it
        math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 5")
    endif()
    gtest_discover_tests(${name}_test TEST_PREFIX "${name}." DISCOVERY_TIMEOUT 120
        PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT} RUN_SERIAL ${arg_ALONE})
endfunction()

# termalin_fuzzer(<name> SOURCES ... USES ...): one libFuzzer target, fuzz_<name>, which the target fuzzers builds with the others.
function(termalin_fuzzer name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;USES")
    add_executable(fuzz_${name} ${arg_SOURCES})
    target_link_libraries(fuzz_${name} PRIVATE ${arg_USES})
    target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    add_dependencies(fuzzers fuzz_${name})
endfunction()
