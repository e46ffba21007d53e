#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/audit.h"
#include "core/json.h"
#include "core/paths.h"
#include "core/result.h"
#include "core/store.h"
#include "core/vault.h"

namespace termalin::cli {

/// How a person has agreed to something that gives agents more.
enum class Consent : std::uint8_t {
    OnTerminal,  ///< Asked, and answered yes.
    YesOption,   ///< --yes
    Fingerprint, ///< A matching --fingerprint
};

/// What one run of the command line works on. Everything is opened when it is first needed, so that a
/// command that needs no store makes none. Used from one thread.
class Context {
public:
    explicit Context(Paths paths) : m_paths(std::move(paths)) {}

    [[nodiscard]] Paths const& paths() const { return m_paths; }
    Result<Store*> store();
    Result<Audit*> audit();
    Result<Vault*> vault();

    /// The vault, open: made if there is none and the Secret Service can hold its key, opened without a
    /// person where that works, else with the master password, asked for on the terminal.
    /// Errors: VaultLocked or NotFound say which command to use.
    Result<Vault*> openVault();

private:
    Paths m_paths;
    std::unique_ptr<Store> m_store;
    std::unique_ptr<Vault> m_vault;
    std::unique_ptr<Audit> m_audit;
};

/// Something that gives agents more than they had.
struct WideningPlan {
    std::string command;               ///< What is being done, such as "host set".
    std::string host;                  ///< The host's name; empty where there is none.
    std::vector<std::string> effects;  ///< One sentence each: what agents can do then. Empty: not a widening.
    std::vector<std::string> cautions; ///< One sentence each: what to think of before saying yes.
    Json before;                       ///< Enough to take it back.
};

/// Shows what a widening does and gets a person's yes: on the terminal, or from --yes.
/// Errors: InvalidArgument where there is nobody to ask and no --yes; Cancelled for a no.
Result<Consent> askToWiden(WideningPlan const& plan, bool yes);

/// Writes the widening to the audit and to the store's list, which the app shows; to be called before it is
/// made, so that none is ever made unseen. `undo()` takes the entry of the list back when it then failed.
class RecordedWidening {
public:
    static Result<RecordedWidening> record(Context& context, WideningPlan const& plan, Consent consent);
    void undo();

private:
    RecordedWidening(Store& store, Store::Widening entry) : m_store(&store), m_entry(std::move(entry)) {}
    Store* m_store;
    Store::Widening m_entry;
};

/// Asks, records, then makes it; only makes it if it is not a widening.
template <class F>
auto widen(Context& context, WideningPlan const& plan, bool yes, F&& make) -> decltype(make())
{
    if (plan.effects.empty())
        return make();
    TRY_LET(auto const consent, askToWiden(plan, yes));
    TRY_LET(auto recorded, RecordedWidening::record(context, plan, consent));
    auto done = make();
    if (!done)
        recorded.undo();
    return done;
}

/// This program and its process number, such as "termalin-mcp (4711)".
[[nodiscard]] std::string thisProcess();
/// The program that started us and its process number, such as "/usr/bin/bash (4710)".
[[nodiscard]] std::string parentProcess();

} // namespace termalin::cli
