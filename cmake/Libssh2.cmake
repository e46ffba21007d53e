# The SSH library: libssh2 1.11.1 or later, static, with the patches of packaging/libssh2.
# See docs/decisions/001-libssh2.md for why an older one will not do.

include(CheckCXXSourceCompiles)
option(TERMALIN_SYSTEM_LIBSSH2 "Use the system's libssh2, which must carry the patches of packaging/libssh2" OFF)

# Fails unless the system has a libssh2 with our patches: no distribution's own has them.
function(require_patched_libssh2)
    set(advice "Configure with -DTERMALIN_SYSTEM_LIBSSH2=OFF, and packaging/libssh2/build.sh builds one that has them.")
    pkg_check_modules(libssh2 IMPORTED_TARGET GLOBAL libssh2>=1.11.1)
    if(NOT libssh2_FOUND)
        message(FATAL_ERROR "TERMALIN_SYSTEM_LIBSSH2 is on, but pkg-config finds no libssh2 1.11.1 or later. It would "
            "also have to carry every patch of packaging/libssh2/patches. ${advice}")
    endif()
    # What the patches declare; 0002 and 0004 declare nothing, and are taken to be there with the others.
    set(names termalin_libssh2_channel_exit_status_received termalin_libssh2_session_read
        termalin_libssh2_session_rekeying termalin_libssh2_channel_setenv termalin_libssh2_userauth_send
        termalin_libssh2_bcrypt_pbkdf termalin_libssh2_session_queued)
    set(CMAKE_REQUIRED_LIBRARIES PkgConfig::libssh2)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # the header tells; what a static one must be linked with does not matter
    foreach(name IN LISTS names)
        unset(has_${name} CACHE) # another library may be found the next time
        check_cxx_source_compiles("#include <libssh2.h>\nauto* const address = &${name};" has_${name})
        if(NOT has_${name})
            message(FATAL_ERROR "TERMALIN_SYSTEM_LIBSSH2 is on, but the system's libssh2 ${libssh2_VERSION} has no ${name}(): "
                "it must carry every patch of packaging/libssh2/patches, and no distribution's own does. ${advice}")
        endif()
    endforeach()
endfunction()

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
    require_patched_libssh2()
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
