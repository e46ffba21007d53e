#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <libsecret/secret.h>
#include <memory>
#include <mutex>
#include <thread>

#include "core/keychain.h"

namespace termalin {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);

/// The functions of libsecret and GLib that we call. The libraries are loaded when they are first needed: a
/// start of the program that needs no Secret Service does not pay for them.
struct Library {
    decltype(&::g_bus_get_sync) busGet = nullptr;
    decltype(&::g_dbus_connection_set_exit_on_close) setExitOnClose = nullptr;
    decltype(&::g_cancellable_new) newCancellable = nullptr;
    decltype(&::g_cancellable_cancel) cancel = nullptr;
    decltype(&::g_object_unref) unref = nullptr;
    decltype(&::g_error_free) freeError = nullptr;
    decltype(&::g_list_free_full) freeList = nullptr;
    decltype(&::g_main_context_new) newContext = nullptr;
    decltype(&::g_main_context_unref) unrefContext = nullptr;
    decltype(&::g_main_context_push_thread_default) pushContext = nullptr;
    decltype(&::g_main_context_pop_thread_default) popContext = nullptr;
    decltype(&::g_main_context_iteration) iterate = nullptr;
    decltype(&::g_hash_table_new) newTable = nullptr;
    decltype(&::g_hash_table_insert) insert = nullptr;
    decltype(&::g_hash_table_unref) unrefTable = nullptr;
    decltype(&::g_str_hash) hash = nullptr;
    decltype(&::g_str_equal) equal = nullptr;
    decltype(&::secret_service_get_sync) getService = nullptr;
    decltype(&::secret_service_search_sync) search = nullptr;
    decltype(&::secret_service_store_sync) store = nullptr;
    decltype(&::secret_service_disconnect) disconnect = nullptr;
    decltype(&::secret_collection_for_alias_sync) collectionForAlias = nullptr;
    decltype(&::secret_collection_get_locked) isLocked = nullptr;
    decltype(&::secret_item_get_secret) itemSecret = nullptr;
    decltype(&::secret_value_new) newValue = nullptr;
    decltype(&::secret_value_get) valueBytes = nullptr;
    decltype(&::secret_value_unref) unrefValue = nullptr;
    std::string problem;
};

Library loadLibrary()
{
    Library library;
    // Never unloaded: GLib keeps threads and types that would be left without their code.
    auto* const handle = ::dlopen("libsecret-1.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
        library.problem = "libsecret-1.so.0 is not installed";
        return library;
    }
    auto const find = [&](auto& function, char const* name) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
        if (function == nullptr)
            library.problem = fmt::format("libsecret-1.so.0 has no {}", name);
    };
    find(library.busGet, "g_bus_get_sync");
    find(library.setExitOnClose, "g_dbus_connection_set_exit_on_close");
    find(library.newCancellable, "g_cancellable_new");
    find(library.cancel, "g_cancellable_cancel");
    find(library.unref, "g_object_unref");
    find(library.freeError, "g_error_free");
    find(library.freeList, "g_list_free_full");
    find(library.newContext, "g_main_context_new");
    find(library.unrefContext, "g_main_context_unref");
    find(library.pushContext, "g_main_context_push_thread_default");
    find(library.popContext, "g_main_context_pop_thread_default");
    find(library.iterate, "g_main_context_iteration");
    find(library.newTable, "g_hash_table_new");
    find(library.insert, "g_hash_table_insert");
    find(library.unrefTable, "g_hash_table_unref");
    find(library.hash, "g_str_hash");
    find(library.equal, "g_str_equal");
    find(library.getService, "secret_service_get_sync");
    find(library.search, "secret_service_search_sync");
    find(library.store, "secret_service_store_sync");
    find(library.disconnect, "secret_service_disconnect");
    find(library.collectionForAlias, "secret_collection_for_alias_sync");
    find(library.isLocked, "secret_collection_get_locked");
    find(library.itemSecret, "secret_item_get_secret");
    find(library.newValue, "secret_value_new");
    find(library.valueBytes, "secret_value_get");
    find(library.unrefValue, "secret_value_unref");
    return library;
}

Library const& library()
{
    static Library const loaded = loadLibrary();
    return loaded;
}

/// Whether there is a session bus to ask. Without this look GLib would start one of its own accord.
bool hasSessionBus()
{
    auto const* const address =
        std::getenv("DBUS_SESSION_BUS_ADDRESS"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    if (address != nullptr && address[0] != '\0')
        return std::string_view(address) != "disabled:";
    auto const* const runtime =
        std::getenv("XDG_RUNTIME_DIR"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    std::error_code ignored;
    return runtime != nullptr && std::filesystem::is_socket(std::filesystem::path(runtime) / "bus", ignored);
}

struct Unref {
    void operator()(void* object) const { library().unref(object); }
};
template <class T>
using Ref = std::unique_ptr<T, Unref>;

/// Cancels the calls that it was given to when their time is up.
class Patience {
public:
    Patience()
        : m_cancellable(library().newCancellable())
        , m_timer([this](std::stop_token const& stop) { run(stop); })
    {
    }
    [[nodiscard]] GCancellable* get() const { return m_cancellable.get(); }

private:
    void run(std::stop_token const& stop)
    {
        std::unique_lock lock(m_mutex);
        m_wake.wait_for(lock, stop, kPatience, [] { return false; });
        if (!stop.stop_requested())
            library().cancel(m_cancellable.get());
    }

    Ref<GCancellable> m_cancellable;
    std::mutex m_mutex;
    std::condition_variable_any m_wake;
    std::jthread m_timer; // last: ends first
};

/// A loop for this thread's calls alone. What GLib puts off until a loop runs, such as letting go of a
/// connection, is done when this goes.
class Loop {
public:
    Loop() : m_context(library().newContext()) { library().pushContext(m_context); }
    ~Loop()
    {
        while (library().iterate(m_context, FALSE) != FALSE) {
        }
        library().popContext(m_context);
        library().unrefContext(m_context);
    }
    Loop(Loop const&) = delete;
    Loop& operator=(Loop const&) = delete;
    Loop(Loop&&) = delete;
    Loop& operator=(Loop&&) = delete;

private:
    GMainContext* m_context;
};

/// Takes an error's text and frees it.
std::string textOf(GError* error)
{
    if (error == nullptr)
        return "no reason was given";
    std::string text = error->message;
    library().freeError(error);
    return text;
}

SecretSchema const& schema()
{
    static SecretSchema const kSchema = [] {
        SecretSchema made{};
        made.name = "org.termalin.Vault";
        made.flags = SECRET_SCHEMA_NONE;
        made.attributes[0] = {.name = "vault", .type = SECRET_SCHEMA_ATTRIBUTE_STRING};
        return made;
    }();
    return kSchema;
}

/// One conversation with the Secret Service.
class Conversation {
public:
    /// Errors: Unsupported where nobody answers.
    static Result<std::unique_ptr<Conversation>> open(std::string_view vaultId)
    {
        if (!hasSessionBus())
            return fail(Errc::Unsupported, "there is no desktop session with a Secret Service");
        if (!library().problem.empty())
            return fail(Errc::Unsupported, library().problem);
        auto conversation = std::unique_ptr<Conversation>(new Conversation(vaultId));
        GError* error = nullptr;
        auto* const cancellable = conversation->m_patience.get();
        conversation->m_bus.reset(library().busGet(G_BUS_TYPE_SESSION, cancellable, &error));
        if (!conversation->m_bus)
            return fail(Errc::Unsupported, "the session bus did not answer: " + textOf(error));
        // GLib would end this process when the desktop session's bus goes.
        library().setExitOnClose(conversation->m_bus.get(), FALSE);
        conversation->m_service.reset(library().getService(SECRET_SERVICE_OPEN_SESSION, cancellable, &error));
        if (!conversation->m_service)
            return fail(Errc::Unsupported, "no Secret Service answered: " + textOf(error));
        return conversation;
    }
    ~Conversation()
    {
        library().unrefTable(m_attributes);
        m_service.reset();
        if (m_bus) // the library would keep the service, and so the connection
            library().disconnect();
    }
    Conversation(Conversation const&) = delete;
    Conversation& operator=(Conversation const&) = delete;
    Conversation(Conversation&&) = delete;
    Conversation& operator=(Conversation&&) = delete;

    KeychainAnswer read()
    {
        GError* error = nullptr;
        // Without SECRET_SEARCH_UNLOCK: a locked keyring is left locked and nobody is asked.
        auto* const items =
            library().search(m_service.get(), &schema(), m_attributes,
                             static_cast<SecretSearchFlags>(SECRET_SEARCH_ALL | SECRET_SEARCH_LOAD_SECRETS),
                             m_patience.get(), &error);
        if (error != nullptr)
            return {.key = std::nullopt, .why = "the Secret Service did not answer: " + textOf(error)};
        KeychainAnswer answer{.key = std::nullopt, .why = "the Secret Service does not know this vault"};
        for (auto const* item = items; item != nullptr && !answer.key; item = item->next) {
            answer.why = "the keyring of the Secret Service is locked";
            if (auto* const value = library().itemSecret(static_cast<SecretItem*>(item->data))) {
                gsize length = 0;
                auto const* const bytes = library().valueBytes(value, &length);
                answer.key = Secret(std::string_view(bytes, length));
                library().unrefValue(value);
            }
        }
        library().freeList(items, library().unref);
        return answer;
    }

    Result<void> write(Secret const& key)
    {
        GError* error = nullptr;
        Ref<SecretCollection> const collection(library().collectionForAlias(
            m_service.get(), SECRET_COLLECTION_DEFAULT, SECRET_COLLECTION_NONE, m_patience.get(), &error));
        if (error != nullptr)
            return fail(Errc::Unsupported, "the Secret Service did not answer: " + textOf(error));
        if (!collection)
            return fail(Errc::Unsupported, "the Secret Service has no default keyring");
        if (library().isLocked(collection.get()) != FALSE)
            return fail(Errc::VaultLocked, "the keyring of the Secret Service is locked");
        auto const bytes = key.reveal();
        auto* const value =
            library().newValue(bytes.data(), static_cast<gssize>(bytes.size()), "application/octet-stream");
        auto const stored =
            library().store(m_service.get(), &schema(), m_attributes, SECRET_COLLECTION_DEFAULT,
                            "Termalin vault", value, m_patience.get(), &error);
        library().unrefValue(value);
        if (stored == FALSE)
            return fail(Errc::Internal, "the Secret Service did not keep the key: " + textOf(error));
        return {};
    }

private:
    explicit Conversation(std::string_view vaultId)
        : m_vaultId(vaultId), m_attributes(library().newTable(library().hash, library().equal))
    {
        library().insert(m_attributes, m_name.data(), m_vaultId.data());
    }

    Loop m_loop; // first: ends last
    std::string m_vaultId;
    std::string m_name = "vault";
    GHashTable* m_attributes;
    Patience m_patience;
    Ref<GDBusConnection> m_bus;
    Ref<SecretService> m_service;
};

} // namespace

KeychainAnswer readKeychain(std::string_view vaultId)
{
    auto conversation = Conversation::open(vaultId);
    if (!conversation)
        return {.key = std::nullopt, .why = conversation.error().message};
    return (*conversation)->read();
}

Result<void> writeKeychain(std::string_view vaultId, Secret const& key)
{
    TRY_LET(auto const conversation, Conversation::open(vaultId));
    return conversation->write(key);
}

} // namespace termalin
