# The SSH library: libssh2 1.11.1 or later, static, with the patches of packaging/libssh2.
# See docs/decisions/001-libssh2.md for why an older one will not do.

option(TERMALIN_SYSTEM_LIBSSH2 "Use the system's libssh2 (1.11.1 or later) in place of the patched one" OFF)
set(TERMALIN_LIBSSH2_PREFIX "${PROJECT_SOURCE_DIR}/build/libssh2" CACHE PATH
    "Where packaging/libssh2/build.sh installs the patched libssh2")

add_library(termalin_libssh2 INTERFACE)
if(TERMALIN_SYSTEM_LIBSSH2)
    pkg_check_modules(libssh2 REQUIRED IMPORTED_TARGET libssh2>=1.11.1)
    target_link_libraries(termalin_libssh2 INTERFACE PkgConfig::libssh2)
else()
    execute_process(COMMAND "${PROJECT_SOURCE_DIR}/packaging/libssh2/build.sh" "${TERMALIN_LIBSSH2_PREFIX}"
        COMMAND_ERROR_IS_FATAL ANY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
        "${PROJECT_SOURCE_DIR}/packaging/libssh2/version" "${PROJECT_SOURCE_DIR}/packaging/libssh2/build.sh")
    find_package(ZLIB REQUIRED)
    target_include_directories(termalin_libssh2 SYSTEM INTERFACE "${TERMALIN_LIBSSH2_PREFIX}/include")
    target_link_libraries(termalin_libssh2 INTERFACE "${TERMALIN_LIBSSH2_PREFIX}/lib/libssh2.a" OpenSSL::Crypto
        ZLIB::ZLIB)
endif()
