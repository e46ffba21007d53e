#include "ssh/sftp_codec.h"

#include <algorithm>

namespace termalin::ssh::sftp {

namespace {

constexpr std::uint32_t kHasSize = 1, kHasOwner = 2, kHasMode = 4, kHasTimes = 8, kHasExtended = 0x80000000U;

/// Reads from the front of a message. After the first thing that was not there everything reads as empty, and
/// ok() is false: so a whole structure is read first and judged once.
class Decoder {
public:
    explicit Decoder(std::string_view bytes) : m_rest(bytes) {}

    std::string_view take(std::size_t size)
    {
        if (size > m_rest.size()) {
            m_ok = false;
            m_rest = {};
            return {};
        }
        auto const taken = m_rest.substr(0, size);
        m_rest.remove_prefix(size);
        return taken;
    }
    std::uint32_t number()
    {
        std::uint32_t value = 0;
        for (char const c : take(4))
            value = value << 8U | static_cast<unsigned char>(c);
        return value;
    }
    std::uint64_t number64()
    {
        auto const high = number();
        return std::uint64_t{high} << 32U | number();
    }
    std::string_view text() { return take(number()); }

    Attributes attributes()
    {
        Attributes a;
        auto const flags = number();
        if ((flags & kHasSize) != 0)
            a.size = number64();
        if ((flags & kHasOwner) != 0) {
            auto const uid = number();
            a.owner = {uid, number()};
        }
        if ((flags & kHasMode) != 0)
            a.mode = number();
        if ((flags & kHasTimes) != 0) {
            auto const access = number();
            a.times = {access, number()};
        }
        if ((flags & kHasExtended) != 0)
            for (auto left = number(); left > 0 && m_ok; --left) {
                text();
                text();
            }
        return a;
    }

    [[nodiscard]] std::string_view rest() const { return m_rest; }
    [[nodiscard]] bool ok() const { return m_ok; }

private:
    std::string_view m_rest;
    bool m_ok = true;
};

NameReply names(Decoder& in)
{
    NameReply all;
    auto const count = in.number();
    // An entry has at least 12 bytes, so a count beyond that is a lie, and nothing is reserved for it.
    all.reserve(std::min<std::size_t>(count, in.rest().size() / 12));
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
        NameEntry entry;
        entry.name = in.text();
        entry.longName = in.text();
        entry.attributes = in.attributes();
        all.push_back(std::move(entry));
    }
    return all;
}

std::unexpected<Error> malformed(std::string_view what)
{
    return fail(Errc::Unsupported, "The server's SFTP answer could not be read (" + std::string(what) + ").");
}

std::vector<std::string_view> words(std::string_view line)
{
    std::vector<std::string_view> all;
    while (all.size() < 6) {
        auto const start = line.find_first_not_of(' ');
        if (start == std::string_view::npos)
            break;
        line.remove_prefix(start);
        auto const end = std::min(line.find(' '), line.size());
        all.push_back(line.substr(0, end));
        line.remove_prefix(end);
    }
    return all;
}

bool isNumber(std::string_view word)
{
    return !word.empty() && std::ranges::all_of(word, [](char c) { return c >= '0' && c <= '9'; });
}

} // namespace

std::string_view Attributes::kind() const
{
    switch (mode.value_or(0) & 0170000U) {
    case 0040000: return "a folder";
    case 0120000: return "a symbolic link";
    case 0020000:
    case 0060000: return "a device";
    case 0010000: return "a named pipe";
    case 0140000: return "a socket";
    default: return "a file";
    }
}

Encoder::Encoder(Type type, std::uint32_t id) : m_id(id)
{
    m_bytes.assign(4, '\0');
    m_bytes.push_back(static_cast<char>(type));
    number(id);
}

Encoder& Encoder::number(std::uint32_t value)
{
    for (auto const shift : {24U, 16U, 8U, 0U})
        m_bytes.push_back(static_cast<char>(value >> shift & 0xffU));
    return *this;
}

Encoder& Encoder::number64(std::uint64_t value)
{
    return number(static_cast<std::uint32_t>(value >> 32U)).number(static_cast<std::uint32_t>(value));
}

Encoder& Encoder::text(std::string_view value)
{
    number(static_cast<std::uint32_t>(value.size()));
    m_bytes.append(value);
    return *this;
}

Encoder& Encoder::attributes(Attributes const& value)
{
    number((value.size ? kHasSize : 0U) | (value.owner ? kHasOwner : 0U) | (value.mode ? kHasMode : 0U) |
           (value.times ? kHasTimes : 0U));
    if (value.size)
        number64(*value.size);
    if (value.owner)
        number(value.owner->first).number(value.owner->second);
    if (value.mode)
        number(*value.mode);
    if (value.times)
        number(value.times->first).number(value.times->second);
    return *this;
}

char* Encoder::room(std::uint32_t size)
{
    m_bytes.reserve(m_bytes.size() + 4 + size);
    m_room = m_bytes.size();
    number(size);
    m_bytes.resize(m_room + 4 + size);
    return m_bytes.data() + m_room + 4;
}

void Encoder::shorten(std::uint32_t filled)
{
    setNumber(m_room, filled);
    m_bytes.resize(m_room + 4 + filled);
}

void Encoder::setNumber(std::size_t at, std::uint32_t value)
{
    for (std::size_t i = 0; i < 4; ++i)
        m_bytes[at + i] = static_cast<char>(value >> (24 - 8 * i) & 0xffU);
}

std::string Encoder::finish() &&
{
    setNumber(0, static_cast<std::uint32_t>(m_bytes.size() - 4));
    return std::move(m_bytes);
}

Result<Reply> parseReply(std::string_view message)
{
    Decoder in(message);
    auto const type = in.take(1);
    Reply reply;
    reply.id = in.number();
    if (!in.ok())
        return malformed("it is cut short");
    switch (static_cast<Type>(static_cast<unsigned char>(type[0]))) {
    case Type::Status: {
        Status status;
        status.code = static_cast<Code>(in.number());
        if (!in.rest().empty()) // some servers of the first drafts end here
            status.message = in.text();
        reply.body = std::move(status);
        break;
    }
    case Type::Handle: {
        auto const handle = in.text();
        if (handle.size() > 256) // filexfer-02, section 6.3
            return malformed("a handle longer than 256 bytes");
        reply.body = HandleReply(handle);
        break;
    }
    case Type::Data: reply.body = DataReply{in.text()}; break;
    case Type::Name: reply.body = names(in); break;
    case Type::Attrs: reply.body = in.attributes(); break;
    case Type::ExtendedReply: reply.body = ExtendedReply{in.rest()}; break;
    default: return malformed("a type that is no answer");
    }
    if (!in.ok())
        return malformed("it is cut short");
    return reply;
}

bool ServerVersion::has(std::string_view name, std::string_view value) const
{
    return std::ranges::any_of(extensions,
                               [&](auto const& e) { return e.first == name && e.second == value; });
}

Result<ServerVersion> parseVersion(std::string_view message)
{
    Decoder in(message);
    auto const type = in.take(1);
    ServerVersion server;
    server.version = in.number();
    if (!in.ok() || static_cast<Type>(static_cast<unsigned char>(type[0])) != Type::Version)
        return malformed("it does not begin with its version");
    while (in.ok() && !in.rest().empty()) {
        std::string name(in.text());
        server.extensions.emplace_back(std::move(name), in.text());
    }
    if (!in.ok())
        return malformed("its list of extensions is cut short");
    return server;
}

std::optional<Limits> parseLimits(std::string_view body)
{
    Decoder in(body);
    Limits limits;
    for (auto* const field : {&limits.packet, &limits.read, &limits.write, &limits.handles})
        *field = in.number64();
    return in.ok() ? std::optional(limits) : std::nullopt;
}

std::optional<Space> parseSpace(std::string_view body)
{
    Decoder in(body);
    in.number64(); // f_bsize
    auto const unit = in.number64();
    in.number64(); // f_blocks
    in.number64(); // f_bfree
    auto const blocks = in.number64();
    in.number64(); // f_files
    in.number64(); // f_ffree
    Space space;
    space.filesFree = in.number64();
    in.number64(); // f_fsid
    space.readOnly = (in.number64() & 1U) != 0;
    if (!in.ok())
        return std::nullopt;
    if (__builtin_mul_overflow(unit, blocks, &space.bytesFree))
        space.bytesFree = UINT64_MAX;
    return space;
}

std::pair<std::string, std::string> ownerAndGroup(std::string_view longName)
{
    auto const field = words(longName);
    // "-rw-r--r--  1 user group 348911 Mar 25 14:29 name": with a space in a name, the fifth is no size.
    if (field.size() < 6 || field[0].size() < 10 ||
        field[0].substr(1, 9).find_first_not_of("-rwxsStTlL") != std::string_view::npos ||
        (!isNumber(field[1]) && field[1] != "?") || !isNumber(field[4]))
        return {};
    return {std::string(field[2]), std::string(field[3])};
}

} // namespace termalin::ssh::sftp
