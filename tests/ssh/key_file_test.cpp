#include <gtest/gtest.h>
#include <sys/stat.h>

#include "ssh/key_file.h"
#include "ssh/public_key.h"
#include "ssh/wire.h"
#include "tests/support/program.h"
#include "tests/support/temp_dir.h"

namespace termalin::ssh {
namespace {

using Kind = KeyFileError::Kind;
using test::mustRun;
using test::readFile;
using test::TempDir;
using test::writeFile;

struct Form {
    std::string name;
    std::string type;
    std::string bits;
    std::vector<std::string> options; ///< how ssh-keygen writes it
};

std::vector<Form> forms()
{
    return {
        {"ed25519", "ed25519", "", {}},
        {"ecdsa256", "ecdsa", "256", {}},
        {"ecdsa384", "ecdsa", "384", {}},
        {"ecdsa521", "ecdsa", "521", {}},
        {"rsa", "rsa", "2048", {}},
        {"rsa-pem", "rsa", "2048", {"-m", "PEM"}},
        {"rsa-pkcs8", "rsa", "3072", {"-m", "PKCS8"}},
        {"ecdsa-pem", "ecdsa", "256", {"-m", "PEM"}},
        {"ecdsa-pkcs8", "ecdsa", "384", {"-m", "PKCS8"}},
    };
}

std::filesystem::path make(TempDir const& dir, Form const& form, std::string const& passphrase)
{
    auto const file = dir / form.name;
    std::vector<std::string> command{"ssh-keygen", "-q", "-t", form.type, "-N",
                                     passphrase,   "-C", "c",  "-f",      file.string()};
    if (!form.bits.empty())
        command.insert(command.end(), {"-b", form.bits});
    command.insert(command.end(), form.options.begin(), form.options.end());
    mustRun(command);
    return file;
}

std::string signatureAlgorithm(std::string_view type)
{
    return type == "ssh-rsa" ? "rsa-sha2-512" : std::string(type);
}

TEST(KeyFile, ReadsEveryFormThatSshKeygenWritesAndSignsWithIt)
{
    TempDir const dir;
    for (auto const& form : forms()) {
        auto const file = make(dir, form, "");
        auto const expected = readPublicKeyFile(file.string() + ".pub");
        auto const key = KeyFile::read(file);
        ASSERT_TRUE(key) << form.name << ": " << key.error().message;
        EXPECT_FALSE(key->encrypted()) << form.name;
        EXPECT_EQ(key->publicKey(), *expected) << form.name;
        auto const signer = key->open(nullptr);
        ASSERT_TRUE(signer) << form.name << ": " << signer.error().message;
        auto const algorithm = signatureAlgorithm(blobType(key->publicKey()));
        auto const signature = (*signer)->sign("some bytes", algorithm);
        ASSERT_TRUE(signature) << form.name;
        EXPECT_TRUE(verifySignature(*expected, *signature, "some bytes")) << form.name;
        EXPECT_FALSE(verifySignature(*expected, *signature, "other bytes")) << form.name;
    }
}

TEST(KeyFile, TellsRightWrongAndMissingPassphrasesApart)
{
    TempDir const dir;
    for (auto const& form : forms()) {
        auto const file = make(dir, form, "correct horse");
        auto const key = KeyFile::read(file);
        ASSERT_TRUE(key) << form.name << ": " << key.error().message;
        EXPECT_TRUE(key->encrypted()) << form.name;
        EXPECT_EQ(key->publicKey(), readPublicKeyFile(file.string() + ".pub").value()) << form.name;
        auto const missing = key->open(nullptr);
        ASSERT_FALSE(missing);
        EXPECT_EQ(missing.error().kind, Kind::NeedsPassphrase) << form.name;
        Secret const wrong(std::string_view("battery staple"));
        auto const refused = key->open(&wrong);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().kind, Kind::WrongPassphrase) << form.name << refused.error().message;
        EXPECT_FALSE(refused.error().message.contains("staple"));
        Secret const right(std::string_view("correct horse"));
        auto const opened = key->open(&right);
        ASSERT_TRUE(opened) << form.name << ": " << opened.error().message;
        EXPECT_EQ((*opened)->publicKey(), key->publicKey()) << form.name;
    }
}

TEST(KeyFile, ReadsEveryCipherThatSshKeygenUses)
{
    TempDir const dir;
    for (std::string const cipher :
         {"aes256-ctr", "aes256-cbc", "aes192-ctr", "aes128-ctr", "aes128-cbc", "aes256-gcm@openssh.com",
          "aes128-gcm@openssh.com", "3des-cbc", "chacha20-poly1305@openssh.com"}) {
        auto const file = make(dir, {cipher, "ed25519", "", {"-Z", cipher}}, "p");
        auto const key = KeyFile::read(file);
        ASSERT_TRUE(key) << cipher;
        Secret const right(std::string_view("p"));
        EXPECT_TRUE(key->open(&right)) << cipher;
        Secret const wrong(std::string_view("q"));
        auto const refused = key->open(&wrong);
        ASSERT_FALSE(refused) << cipher;
        EXPECT_EQ(refused.error().kind, Kind::WrongPassphrase) << cipher;
    }
}

TEST(KeyFile, SaysWhatToDoWithACipherThatItDoesNotKnow)
{
    TempDir const dir;
    auto const file = make(dir, {"odd", "ed25519", "", {}}, "p");
    auto const text = readFile(file);
    auto const begin = text.find('\n') + 1;
    auto const end = text.find("-----END");
    auto bytes = fromBase64(std::string_view(text).substr(begin, end - begin)).value();
    bytes.replace(bytes.find("aes256-ctr"), 10, "rot256-ctr");
    writeFile(file, text.substr(0, begin) + base64(bytes) + '\n' + text.substr(end));
    Secret const right(std::string_view("p"));
    auto const refused = KeyFile::read(file)->open(&right);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, Kind::Unsupported);
    EXPECT_TRUE(refused.error().message.contains("rot256-ctr")) << refused.error().message;
    EXPECT_TRUE(refused.error().message.contains("ssh-keygen -p")) << refused.error().message;
}

TEST(KeyFile, AChaChaFileWhoseTextWasChangedDoesNotOpen)
{
    TempDir const dir;
    auto const file = make(dir, {"chacha", "ed25519", "", {"-Z", "chacha20-poly1305@openssh.com"}}, "p");
    auto const text = readFile(file);
    auto const begin = text.find('\n') + 1;
    auto const end = text.find("-----END");
    auto bytes = fromBase64(std::string_view(text).substr(begin, end - begin)).value();
    bytes[bytes.size() - 20] = static_cast<char>(bytes[bytes.size() - 20] ^ 1); // before the tag of 16 bytes
    writeFile(file, text.substr(0, begin) + base64(bytes) + '\n' + text.substr(end));
    Secret const right(std::string_view("p"));
    EXPECT_FALSE(KeyFile::read(file)->open(&right));
}

TEST(KeyFile, AnEncryptedPemFileWithoutItsPublicHalfTellsItsKeyOnceItIsOpen)
{
    TempDir const dir;
    auto const file = make(dir, {"rsa", "rsa", "2048", {"-m", "PEM"}}, "secret");
    auto const expected = readPublicKeyFile(file.string() + ".pub").value();
    std::filesystem::remove(file.string() + ".pub");
    auto const key = KeyFile::read(file);
    ASSERT_TRUE(key);
    EXPECT_TRUE(key->publicKey().empty());
    Secret const right(std::string_view("secret"));
    EXPECT_EQ((*key->open(&right))->publicKey(), expected);
}

TEST(KeyFile, RefusesAFileThatOthersCanRead)
{
    TempDir const dir;
    auto const file = make(dir, {"k", "ed25519", "", {}}, "");
    std::filesystem::remove(file.string() + ".pub");
    for (unsigned const mode : {0640U, 0604U, 0620U, 0610U, 0644U}) {
        ::chmod(file.c_str(), mode);
        auto const key = KeyFile::read(file);
        ASSERT_FALSE(key) << mode;
        EXPECT_EQ(key.error().kind, Kind::TooOpen);
        EXPECT_TRUE(key.error().message.contains("chmod 600")) << key.error().message;
        // ssh-keygen -y is the judge of what OpenSSH would use.
        EXPECT_FALSE(test::run({"ssh-keygen", "-y", "-f", file.string()}).ok()) << mode;
    }
    for (unsigned const mode : {0600U, 0400U, 0700U}) {
        ::chmod(file.c_str(), mode);
        EXPECT_TRUE(KeyFile::read(file)) << mode;
        EXPECT_TRUE(test::run({"ssh-keygen", "-y", "-f", file.string()}).ok()) << mode;
    }
}

TEST(KeyFile, NamesADamagedFileAndNeverCrashesOnOne)
{
    TempDir const dir;
    for (auto const& form : forms()) {
        auto const file = make(dir, form, "");
        auto const whole = test::readFile(file);
        std::filesystem::remove(file.string() + ".pub");
        auto const cut = dir / "cut";
        for (std::size_t size = 0; size + 1 < whole.size(); size += 37) {
            test::writeFile(cut, whole.substr(0, size));
            ::chmod(cut.c_str(), 0600);
            auto const key = KeyFile::read(cut);
            if (key) { // only the last line's end may be missing
                EXPECT_GT(size, whole.size() - 40) << form.name;
                continue;
            }
            EXPECT_EQ(key.error().kind, Kind::Damaged) << form.name << " at " << size;
            EXPECT_TRUE(key.error().message.contains(cut.string()));
        }
        for (std::size_t at = 40; at + 40 < whole.size(); at += 13) {
            auto changed = whole;
            changed[at] = changed[at] == 'A' ? 'B' : 'A';
            test::writeFile(cut, changed);
            auto const key = KeyFile::read(cut);
            if (!key)
                continue;
            auto const signer = key->open(nullptr);
            if (signer) { // a changed comment, or padding
                EXPECT_EQ((*signer)->publicKey(), key->publicKey()) << form.name << " at " << at;
            }
        }
    }
    test::writeFile(dir / "text", "hello\n");
    ::chmod((dir / "text").c_str(), 0600);
    EXPECT_EQ(KeyFile::read(dir / "text").error().kind, Kind::Damaged);
    EXPECT_EQ(KeyFile::read(dir / "none").error().kind, Kind::Missing);
    EXPECT_EQ(KeyFile::read(dir.path()).error().kind, Kind::Unreadable);
}

TEST(KeyFile, APublicHalfAloneIsForAnAgent)
{
    TempDir const dir;
    auto const file = make(dir, {"k", "ed25519", "", {}}, "");
    auto const expected = readPublicKeyFile(file.string() + ".pub").value();
    auto const named = KeyFile::read(file.string() + ".pub");
    ASSERT_TRUE(named) << named.error().message;
    EXPECT_EQ(named->publicKey(), expected);
    EXPECT_FALSE(named->hasPrivate());
    std::filesystem::remove(file);
    auto const gone = KeyFile::read(file);
    ASSERT_TRUE(gone) << gone.error().message;
    EXPECT_EQ(gone->publicKey(), expected);
    EXPECT_FALSE(gone->open(nullptr));
}

TEST(Wire, ReadsAndWritesTheExamplesOfTheRfc)
{
    // RFC 4251 section 5, "mpint".
    EXPECT_EQ(WireWriter().mpint("").bytes(), std::string("\0\0\0\0", 4));
    EXPECT_EQ(WireWriter().mpint("\x09\xa3\x78\xf9\xb2\xe3\x32\xa7").bytes(),
              std::string("\0\0\0\x08\x09\xa3\x78\xf9\xb2\xe3\x32\xa7", 12));
    EXPECT_EQ(WireWriter().mpint("\x80").bytes(), std::string("\0\0\0\x02\0\x80", 6));
    EXPECT_EQ(WireReader(std::string_view("\0\0\0\x02\0\x80", 6)).mpint(), "\x80");
    EXPECT_FALSE(WireReader(std::string_view("\0\0\0\x02\xed\xcc", 6)).mpint()); // -1234
    EXPECT_EQ(WireWriter().string("testing").bytes(), std::string("\0\0\0\x07testing", 11));
    EXPECT_FALSE(WireReader(std::string_view("\0\0\0\x08testing", 11)).string());
    EXPECT_FALSE(WireReader(std::string_view("\xff\xff\xff\xffx", 5)).string());
}

TEST(Base64, ReadsTheVectorsOfTheRfcAndNothingElse)
{
    // RFC 4648 section 10.
    for (auto const& [bytes, text] :
         std::vector<std::pair<std::string, std::string>>{{"", ""},
                                                          {"f", "Zg=="},
                                                          {"fo", "Zm8="},
                                                          {"foo", "Zm9v"},
                                                          {"foob", "Zm9vYg=="},
                                                          {"fooba", "Zm9vYmE="},
                                                          {"foobar", "Zm9vYmFy"}}) {
        EXPECT_EQ(base64(bytes), text);
        EXPECT_EQ(fromBase64(text), bytes);
    }
    for (std::string const bad : {"Z", "Zg", "Zg=", "Zg===", "Zh==", "Zm9=", "Zg==Zg==", "Z-8=", "===="})
        EXPECT_FALSE(fromBase64(bad)) << bad;
}

} // namespace
} // namespace termalin::ssh
