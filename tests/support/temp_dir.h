#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace termalin::test {

/// A folder of its own for one test, 0700, gone with the object.
class TempDir {
public:
    TempDir()
    {
        std::string pattern = std::filesystem::temp_directory_path() / "termalin-XXXXXX";
        m_path = ::mkdtemp(pattern.data());
    }
    ~TempDir()
    {
        std::error_code ignored;
        std::filesystem::remove_all(m_path, ignored);
    }
    TempDir(TempDir const&) = delete;
    TempDir& operator=(TempDir const&) = delete;

    [[nodiscard]] std::filesystem::path const& path() const noexcept { return m_path; }
    [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return m_path / name; }

private:
    std::filesystem::path m_path;
};

inline std::string readFile(std::filesystem::path const& file)
{
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

inline void writeFile(std::filesystem::path const& file, std::string_view text)
{
    std::ofstream(file, std::ios::binary) << text;
}

} // namespace termalin::test
