#include "mcp-stdio/cli/context.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include "mcp-stdio/cli/console.h"

namespace termalin::cli {

namespace {

std::string nowAsText()
{
    auto const now = std::time(nullptr);
    std::tm utc{};
    (void)::gmtime_r(&now, &utc); // fails only where the year is no int
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", utc);
}

std::string programOf(pid_t pid)
{
    std::error_code ignored;
    auto const link = std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), ignored);
    return link.empty() ? std::string("unknown") : link.string();
}

std::string_view textOf(Consent consent)
{
    switch (consent) {
    case Consent::OnTerminal: return "answered yes on the terminal";
    case Consent::YesOption: return "--yes";
    case Consent::Fingerprint: return "--fingerprint";
    }
    return "";
}

std::string joined(std::vector<std::string> const& sentences)
{
    std::string all;
    for (auto const& sentence : sentences)
        all += (all.empty() ? "" : " ") + sentence;
    return all;
}

} // namespace

std::string thisProcess()
{
    return fmt::format("termalin-mcp ({})", ::getpid());
}

std::string parentProcess()
{
    return fmt::format("{} ({})", programOf(::getppid()), ::getppid());
}

Result<Store*> Context::store()
{
    if (!m_store) {
        TRY_LET(m_store, Store::open(m_paths.store));
    }
    return m_store.get();
}

Result<Audit*> Context::audit()
{
    if (!m_audit) {
        TRY_LET(auto* const opened, store());
        TRY_LET(m_audit, Audit::open(m_paths.audit, *opened));
    }
    return m_audit.get();
}

Result<Vault*> Context::vault()
{
    if (!m_vault) {
        TRY_LET(auto* const opened, store());
        TRY_LET(m_vault, Vault::attach(*opened, m_paths));
    }
    return m_vault.get();
}

Result<Vault*> Context::openVault()
{
    TRY_LET(auto* const attached, vault());
    if (attached->state() == Vault::State::Missing && !attached->create(Secret()))
        return fail(Errc::NotFound,
                    "There is no vault yet to keep a secret in, and no Secret Service that could hold "
                    "its key. Make one with a master password first: termalin-mcp vault init");
    if (attached->state() == Vault::State::Open)
        return attached;
    auto const silent = attached->unlockSilently();
    if (silent)
        return attached;
    if (!canAsk())
        return fail(Errc::VaultLocked, "The vault is locked. Open it first: termalin-mcp vault unlock",
                    silent.error().source);
    TRY_LET(auto const password, askSecret("Master password of the vault"));
    TRY(attached->unlock(password));
    return attached;
}

Result<Consent> askToWiden(WideningPlan const& plan, bool yes)
{
    for (auto const& effect : plan.effects)
        remark(effect);
    for (auto const& caution : plan.cautions)
        note("Warning: {}", caution);
    if (yes)
        return Consent::YesOption;
    if (!canAsk())
        return fail(Errc::InvalidArgument,
                    "This gives agents more than they had, and there is no terminal to ask on. "
                    "Nothing was changed. If it is what you want, give --yes.");
    if (!askYes("Do you want this?"))
        return fail(Errc::Cancelled, "Nothing was changed.");
    return Consent::OnTerminal;
}

Result<RecordedWidening> RecordedWidening::record(Context& context, WideningPlan const& plan, Consent consent)
{
    TRY_LET(auto* const store, context.store());
    TRY_LET(auto* const audit, context.audit());
    auto const what = joined(plan.effects);
    TRY(audit->note({.client = thisProcess(),
                     .clientProgram = parentProcess(),
                     .tool = plan.command,
                     .host = plan.host,
                     .subject = what,
                     .decision = "allowed",
                     .because = std::string(textOf(consent))}));
    Store::Widening entry{.id = 0,
                          .time = nowAsText(),
                          .program = fmt::format("{}, started by {}", thisProcess(), parentProcess()),
                          .what = what,
                          .before = plan.before.is_null() ? std::string() : toLine(plan.before)};
    TRY(store->addWidening(entry));
    return RecordedWidening(*store, std::move(entry));
}

void RecordedWidening::undo()
{
    auto const all = m_store->widenings();
    if (!all)
        return;
    // The newest that is ours: the process number is part of what is compared.
    auto const ours = std::find_if(all->rbegin(), all->rend(), [&](Store::Widening const& entry) {
        return entry.program == m_entry.program && entry.what == m_entry.what &&
               entry.before == m_entry.before;
    });
    if (ours != all->rend())
        static_cast<void>(m_store->removeWidening(ours->id)); // shown needlessly at worst
}

} // namespace termalin::cli
