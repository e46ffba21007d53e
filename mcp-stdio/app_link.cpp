#include "mcp-stdio/app_link.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "core/log.h"
#include "mcp-stdio/app_requests.h"
#include "mcp-stdio/control_socket.h"
#include "mcp-stdio/line_writer.h"
#include "mcp-stdio/lines.h"
#include "mcp-stdio/rpc.h"
#include "mcp-stdio/services.h"
#include "ssh/saved_credentials.h"
#include "ssh/wire.h"

namespace termalin::mcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetry = 1s;            ///< How often an app that has started is looked for.
constexpr auto kGreeting = 5s;         ///< For the app's first answers.
constexpr auto kKeysPatience = 10s;    ///< For the list of keys.
constexpr auto kSigningPatience = 60s; ///< A person may be asked.

std::unexpected<Error> wentAway()
{
    return fail(Errc::AppNotRunning,
                "Termalin ended or closed the connection before it answered; what was asked for "
                "may have been done. Look before you repeat it.");
}

/// The Error in a failed answer of one of our own methods.
std::unexpected<Error> errorOf(Json const& error)
{
    auto const message = error.value("message", std::string());
    auto const data = error.value("data", Json::object());
    auto const name = data.is_object() ? data.value("code", std::string()) : std::string();
    for (int i = 0; i <= static_cast<int>(Errc::Internal); ++i)
        if (auto const code = static_cast<Errc>(i); toString(code) == name)
            return fail(code, message);
    return fail(Errc::Internal,
                "The running Termalin did not understand the request; it may be of another version: " +
                    message);
}

/// The link itself. Its thread connects, reads, and looks for an app that starts later; callers wait on
/// m_changed.
class Link : public std::enable_shared_from_this<Link> {
public:
    Link(std::filesystem::path socket, ClientInfo self)
        : m_path(std::move(socket)), m_self(std::move(self)), m_wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
    }
    ~Link() { shutdown(); }
    Link(Link const&) = delete;
    Link& operator=(Link const&) = delete;

    void start()
    {
        m_thread = std::jthread([this](std::stop_token const& stop) { run(stop); });
    }
    void shutdown()
    {
        m_thread.request_stop();
        wake();
        if (m_thread.joinable())
            m_thread.join();
    }

    Result<Json> request(std::string_view method, Json params, Deadline deadline, std::stop_token const& stop,
                         Progress* progress);

    void note(std::optional<Activity> activity, Activity::Kind kind, std::string const& id,
              ClientInfo const& client);

    [[nodiscard]] bool connected()
    {
        std::lock_guard const lock(m_mutex);
        return m_ready;
    }
    /// Without its socket there is no app, and nobody need wait for the link's thread to find that.
    [[nodiscard]] bool mayBeThere()
    {
        std::error_code ignored;
        return connected() || std::filesystem::exists(m_path, ignored) || ignored;
    }
    [[nodiscard]] bool grantsDataWrites() const { return m_grants.load(); }

    std::function<void()>
        grantsChanged; ///< Set before start() has found an app, or by the same thread as it.
    std::mutex grantsMutex;

private:
    struct Pending {
        std::optional<Result<Json>> answer;
        Progress* progress = nullptr;
    };

    void run(std::stop_token const& stop);
    void serveConnection(int fd, std::stop_token const& stop);
    bool pump(int fd, std::stop_token const& stop);
    void received(Line const& line);
    void answered(std::int64_t id, Json const& message);
    void toolsListed(Json const& result);
    void becomeReady();
    void wake() { (void)::eventfd_write(m_wake.get(), 1); }
    bool waitUntilReady(std::unique_lock<std::mutex>& lock, Deadline deadline, std::stop_token const& stop);

    std::filesystem::path m_path;
    ClientInfo m_self;
    UniqueFd m_wake;
    std::atomic<bool> m_grants = false;
    LineScanner m_scanner; ///< Of the link's own thread.

    std::mutex m_mutex;
    std::condition_variable_any m_changed;
    LineWriter* m_writer = nullptr; ///< While connected; guarded by m_mutex.
    bool m_ready = false;           ///< The app has answered `initialize` and `tools/list`.
    bool m_wanted = false;          ///< Somebody waits for a connection.
    std::int64_t m_begun = 0;       ///< Attempts to connect.
    std::int64_t m_ended = 0;       ///< The last of them that is over.
    std::optional<Error> m_problem; ///< Of the last attempt.
    std::int64_t m_lastId = 2;      ///< 1 and 2 are the greeting's.
    std::map<std::int64_t, std::shared_ptr<Pending>> m_pending;
    std::map<std::pair<Activity::Kind, std::string>, Json>
        m_activities; ///< What still goes on, as it is sent.
    Deadline m_greeting = Deadline::never();
    std::jthread m_thread;
};

void Link::run(std::stop_token const& stop)
{
    while (!stop.stop_requested()) {
        {
            std::lock_guard const lock(m_mutex);
            ++m_begun;
            m_wanted = false;
        }
        auto fd = connectTo(m_path);
        if (fd)
            serveConnection(fd->get(), stop);
        std::unique_lock lock(m_mutex);
        if (!fd)
            m_problem = fd.error();
        m_ended = m_begun;
        m_changed.notify_all();
        m_changed.wait_for(lock, stop, kRetry, [this] { return m_wanted; });
    }
    std::lock_guard const lock(m_mutex);
    m_ended = std::numeric_limits<std::int64_t>::max(); // nobody need wait for another one
    m_problem = wentAway().error();
    m_changed.notify_all();
}

void Link::serveConnection(int fd, std::stop_token const& stop)
{
    LineWriter writer(fd, 0, [this] { wake(); });
    m_scanner = LineScanner();
    {
        std::lock_guard const lock(m_mutex);
        m_writer = &writer;
        m_greeting = Deadline::in(kGreeting);
        m_problem =
            Error{Errc::AppNotRunning, "Termalin runs but did not answer; ask the person to look at it."};
    }
    writer.push(toLine({{"jsonrpc", "2.0"},
                        {"id", 1},
                        {"method", "initialize"},
                        {"params",
                         {{"protocolVersion", "2025-11-25"},
                          {"capabilities", Json::object()},
                          {"clientInfo", {{"name", "termalin-mcp"}, {"version", TERMALIN_VERSION}}}}}}));
    while (pump(fd, stop) && !writer.broken()) {
    }
    {
        std::lock_guard const lock(m_mutex);
        m_writer = nullptr;
        m_ready = false;
        for (auto& [id, pending] : m_pending)
            pending->answer = wentAway();
        m_pending.clear();
        m_changed.notify_all();
    }
    toolsListed(Json::object());
}

/// Waits for bytes once and takes them. False when the connection has ended.
bool Link::pump(int fd, std::stop_token const& stop)
{
    std::array<pollfd, 2> fds{{{m_wake.get(), POLLIN, 0}, {fd, POLLIN, 0}}};
    int timeout = -1;
    {
        std::lock_guard const lock(m_mutex);
        if (!m_ready)
            timeout = m_greeting.pollTimeout();
    }
    auto const ready = ::poll(fds.data(), fds.size(), timeout);
    eventfd_t ignored = 0;
    (void)::eventfd_read(m_wake.get(), &ignored);
    if (stop.stop_requested() || (ready == 0 && timeout >= 0))
        return false;
    if (ready < 0 || fds[1].revents == 0)
        return true;
    std::array<char, 16'384> buffer; // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
    auto const count = ::recv(fd, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0)
        m_scanner.feed(std::string_view(buffer.data(), static_cast<std::size_t>(count)),
                       [this](Line const& line) { received(line); });
    return count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
}

/// What is not as it must be is ignored: an app of another version may say more than is known here.
void Link::received(Line const& line)
try {
    if (line.problem != Line::Problem::None)
        return;
    auto const parsed = rpc::parse(line.text);
    auto const& message = parsed.value;
    if (parsed.problem != rpc::Message::Problem::None || !message.is_object())
        return;
    auto const method = message.value("method", Json());
    auto const id = message.value("id", Json());
    auto const params = message.value("params", Json::object());
    if (method.is_null() && id.is_number_integer())
        return answered(id.get<std::int64_t>(), message);
    if (method == "notifications/tools/list_changed") {
        std::lock_guard const lock(m_mutex);
        m_writer->push(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})");
    } else if (method == "notifications/progress" && params.is_object()) {
        auto const token = params.value("progressToken", Json());
        auto const text = params.value("message", Json());
        std::lock_guard const lock(m_mutex);
        auto const it =
            token.is_number_integer() ? m_pending.find(token.get<std::int64_t>()) : m_pending.end();
        if (it != m_pending.end() && it->second->progress != nullptr && text.is_string())
            it->second->progress->say(text.get_ref<std::string const&>());
    }
} catch (Json::exception const& e) {
    log(LogLevel::Warn, "app", "an answer of the running Termalin could not be read: {}", e.what());
}

void Link::answered(std::int64_t id, Json const& message)
{
    auto const result = message.find("result");
    if (id == 1) {
        std::lock_guard const lock(m_mutex);
        m_writer->push(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
        m_writer->push(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})");
        return;
    }
    if (id == 2) {
        toolsListed(result == message.end() ? Json::object() : *result);
        becomeReady();
        return;
    }
    std::lock_guard const lock(m_mutex);
    auto const node = m_pending.extract(id);
    if (node.empty())
        return;
    node.mapped()->answer =
        result != message.end() ? Result<Json>(*result) : errorOf(message.value("error", Json::object()));
    m_changed.notify_all();
}

/// Learns from the app's own list whether data_query may write at the moment.
void Link::toolsListed(Json const& result)
{
    auto writes = false;
    for (auto const& tool : result.value("tools", Json::array()))
        if (tool.is_object() && tool.value("name", Json()) == "data_query")
            writes = tool.value("annotations", Json::object()).value("readOnlyHint", Json()) == false;
    if (m_grants.exchange(writes) == writes)
        return;
    std::function<void()> callback;
    {
        std::lock_guard const lock(grantsMutex);
        callback = grantsChanged;
    }
    if (callback)
        callback();
}

void Link::becomeReady()
{
    std::lock_guard const lock(m_mutex);
    if (m_ready)
        return;
    m_ready = true;
    for (auto const& [key, params] : m_activities)
        m_writer->push(rpc::notificationLine(kBeganMethod, params));
    m_changed.notify_all();
}

/// Waits for a connection that is ready, or for the end of an attempt that began after this was called.
bool Link::waitUntilReady(std::unique_lock<std::mutex>& lock, Deadline deadline, std::stop_token const& stop)
{
    auto const mine = m_begun + 1;
    m_wanted = true;
    m_changed.notify_all();
    m_changed.wait_until(lock, stop, deadline.at(), [&] { return m_ready || m_ended >= mine; });
    return m_ready;
}

Result<Json> Link::request(std::string_view method, Json params, Deadline deadline,
                           std::stop_token const& stop, Progress* progress)
{
    std::unique_lock lock(m_mutex);
    if (!m_ready && !waitUntilReady(lock, deadline, stop)) {
        if (stop.stop_requested())
            return fail(Errc::Cancelled, "The call was stopped before Termalin was reached.");
        if (deadline.passed())
            return fail(Errc::Timeout,
                        "The running Termalin could not be reached in time; ask the person to look at it.");
        return std::unexpected(m_problem.value_or(wentAway().error()));
    }
    auto const id = ++m_lastId;
    if (progress != nullptr)
        params["_meta"]["progressToken"] = id;
    auto const pending = std::make_shared<Pending>(Pending{std::nullopt, progress});
    m_pending.emplace(id, pending);
    m_writer->push(
        toLine({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}}));
    m_changed.wait_until(lock, stop, deadline.at(), [&] { return pending->answer.has_value(); });
    if (pending->answer)
        return *std::move(pending->answer);
    m_pending.erase(id);
    if (m_writer != nullptr)
        m_writer->push(rpc::notificationLine("notifications/cancelled", {{"requestId", id}}));
    if (stop.stop_requested())
        return fail(Errc::Cancelled, "The call was stopped; Termalin was told to end it.");
    return fail(Errc::Timeout, "The running Termalin did not answer in time; ask the person to look at it.");
}

void Link::note(std::optional<Activity> activity, Activity::Kind kind, std::string const& id,
                ClientInfo const& client)
{
    std::lock_guard const lock(m_mutex);
    Json params;
    if (activity) {
        params = {
            {"client", {{"name", client.name}, {"version", client.version}, {"program", client.program}}},
            {"activity", toJson(*activity)}};
        m_activities[{kind, id}] = params;
    } else {
        m_activities.erase({kind, id});
        params = {{"kind", toString(kind)}, {"id", id}};
    }
    if (m_ready)
        m_writer->push(rpc::notificationLine(activity ? kBeganMethod : kEndedMethod, params));
}

/// A key that the app holds.
class AppKey : public ssh::Signer {
public:
    AppKey(std::shared_ptr<Link> link, ssh::SignerWish wish, std::string publicKey, std::string name)
        : m_link(std::move(link))
        , m_wish(std::move(wish))
        , m_publicKey(std::move(publicKey))
        , m_name(std::move(name))
    {
    }
    [[nodiscard]] std::string_view publicKey() const override { return m_publicKey; }
    Result<std::string> sign(std::string_view data, std::string_view algorithm) override
    {
        TRY_LET(auto const answer,
                m_link->request(kSignMethod,
                                {{"hostId", m_wish.hostId},
                                 {"leadsTo", m_wish.leadsTo},
                                 {"publicKey", ssh::base64(m_publicKey)},
                                 {"algorithm", algorithm},
                                 {"data", ssh::base64(data)}},
                                Deadline::earlier(m_wish.deadline, Deadline::in(kSigningPatience)),
                                m_wish.stop, nullptr));
        auto const text = answer.is_object() ? answer.value("signature", Json()) : Json();
        auto signature = text.is_string() ? ssh::fromBase64(text.get<std::string>()) : std::nullopt;
        if (!signature || signature->empty())
            return fail(Errc::Internal, "The running Termalin answered without a signature.");
        return *std::move(signature);
    }
    [[nodiscard]] std::string describe() const override
    {
        return fmt::format("key '{}' in Termalin", m_name);
    }

private:
    std::shared_ptr<Link> m_link;
    ssh::SignerWish m_wish;
    std::string m_publicKey, m_name;
};

class SocketAppLink : public AppLink {
public:
    SocketAppLink(std::filesystem::path socket, ClientInfo self, Masked masked)
        : m_self(self)
        , m_masked(std::move(masked))
        , m_link(std::make_shared<Link>(std::move(socket), std::move(self)))
    {
        m_link->start();
    }
    SocketAppLink(SocketAppLink const&) = delete;
    SocketAppLink& operator=(SocketAppLink const&) = delete;
    ~SocketAppLink() override { m_link->shutdown(); }

    Result<Json> call(Tool const& tool, Args const& args, Call const& call) override
    {
        Json params{{"name", tool.name},
                    {"arguments", args.all()},
                    {"_meta",
                     {{"termalin/client", {{"name", call.client.name}, {"version", call.client.version}}},
                      {"termalin/shownDestructive", call.shownDestructive}}}};
        TRY_LET(auto result, m_link->request("tools/call", std::move(params), Deadline::never(), call.stop,
                                             &call.progress));
        if (!result.is_object() || !result.contains("content") || !result["content"].is_array())
            return fail(Errc::Internal,
                        "The running Termalin gave an answer that is no tool's result; it may be of "
                        "another version.");
        return result;
    }
    [[nodiscard]] bool grantsDataWrites() const override { return m_link->grantsDataWrites(); }
    void onGrantsChanged(std::function<void()> callback) override
    {
        std::lock_guard const lock(m_link->grantsMutex);
        m_link->grantsChanged = std::move(callback);
    }
    void began(Activity const& activity) override
    {
        auto shown = activity;
        shown.detail = m_masked(activity.detail);
        m_link->note(std::move(shown), activity.kind, activity.id, m_self);
    }
    void ended(Activity::Kind kind, std::string_view id) override
    {
        m_link->note(std::nullopt, kind, std::string(id), m_self);
    }
    Result<std::vector<std::shared_ptr<ssh::Signer>>> signers(ssh::SignerWish const& wish) override
    {
        if (!m_link->mayBeThere()) // every login asks
            return std::vector<std::shared_ptr<ssh::Signer>>{};
        auto const answer = m_link->request(kKeysMethod, {{"hostId", wish.hostId}, {"leadsTo", wish.leadsTo}},
                                            Deadline::earlier(wish.deadline, Deadline::in(kKeysPatience)),
                                            wish.stop, nullptr);
        if (!answer && answer.error().code == Errc::AppNotRunning)
            return std::vector<std::shared_ptr<ssh::Signer>>{};
        if (!answer)
            return std::unexpected(answer.error());
        std::vector<std::shared_ptr<ssh::Signer>> signers;
        for (auto const& key : answer->value("keys", Json::array())) {
            auto const text = key.is_object() ? key.value("publicKey", Json()) : Json();
            auto blob = text.is_string() ? ssh::fromBase64(text.get<std::string>()) : std::nullopt;
            auto const name = key.is_object() ? key.value("name", Json()) : Json();
            if (blob && !blob->empty())
                signers.push_back(
                    std::make_shared<AppKey>(m_link, wish, *std::move(blob),
                                             name.is_string() ? name.get<std::string>() : std::string()));
        }
        return signers;
    }
    [[nodiscard]] bool connected() const override { return m_link->connected(); }

private:
    ClientInfo m_self;
    Masked m_masked;
    std::shared_ptr<Link> m_link;
};

} // namespace

std::unique_ptr<AppLink> AppLink::make(std::filesystem::path socket, ClientInfo self, Masked masked)
{
    return std::make_unique<SocketAppLink>(std::move(socket), std::move(self), std::move(masked));
}

} // namespace termalin::mcp
