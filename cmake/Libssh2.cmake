# The SSH library: libssh2 1.11.1 or later, static, with the patches of packaging/libssh2.
# See docs/decisions/001-libssh2.md for why an older one will not do.

option(TERMALIN_SYSTEM_LIBSSH2 "Use the system's libssh2, which must carry the patches of packaging/libssh2" OFF)
# Shared by the presets that have no sanitizer; a sanitized build has a sanitized libssh2 of its own, since the patches are ours.
set(libssh2_flags "")
set(libssh2_prefix "${PROJECT_SOURCE_DIR}/build/libssh2")
if(TERMALIN_SANITIZE)
    set(libssh2_flags "-g -O1 -fno-omit-frame-pointer -fsanitize=${TERMALIN_SANITIZE}")
    set(libssh2_prefix "${PROJECT_BINARY_DIR}/libssh2")
endif()
set(TERMALIN_LIBSSH2_PREFIX "${libssh2_prefix}" CACHE PATH
    "Where packaging/libssh2/build.sh installs the patched libssh2")

add_library(termalin_libssh2 INTERFACE)
if(TERMALIN_SYSTEM_LIBSSH2)
    pkg_check_modules(libssh2 REQUIRED IMPORTED_TARGET libssh2>=1.11.1)
    target_link_libraries(termalin_libssh2 INTERFACE PkgConfig::libssh2)
else()
    execute_process(COMMAND "${CMAKE_COMMAND}" -E env "CC=${CMAKE_C_COMPILER}"
        "${PROJECT_SOURCE_DIR}/packaging/libssh2/build.sh" "${TERMALIN_LIBSSH2_PREFIX}" "${libssh2_flags}"
        COMMAND_ERROR_IS_FATAL ANY)
    file(GLOB patches CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/packaging/libssh2/patches/*.patch")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/packaging/libssh2/version"
        "${PROJECT_SOURCE_DIR}/packaging/libssh2/build.sh" ${patches})
    find_package(ZLIB REQUIRED)
    target_include_directories(termalin_libssh2 SYSTEM INTERFACE "${TERMALIN_LIBSSH2_PREFIX}/include")
    target_link_libraries(termalin_libssh2 INTERFACE "${TERMALIN_LIBSSH2_PREFIX}/lib/libssh2.a" OpenSSL::Crypto
        ZLIB::ZLIB)
endif()
