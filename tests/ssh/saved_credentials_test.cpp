#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/vault.h"
#include "ssh/saved_credentials.h"

namespace termalin::ssh {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Keeps secrets as they are, and counts how often it is opened.
class PlainVault final : public Vault {
public:
    State now = State::Locked;
    bool opensSilently = true;
    int opened = 0;
    std::map<std::string, std::string> secrets; ///< by "OWNER NAME"

    State state() override { return now; }
    Result<void> unlockSilently() override { return fail(Errc::Internal, "must not stay open"); }
    Result<std::optional<Secret>> secret(std::string_view, std::string_view) override
    {
        return fail(Errc::VaultLocked, "run vault unlock");
    }
    Result<std::optional<Secret>> secretSilently(std::string_view owner, std::string_view name) override
    {
        ++opened;
        if (!opensSilently)
            return fail(Errc::VaultLocked, "run vault unlock");
        auto const found = secrets.find(std::string(owner) + ' ' + std::string(name));
        return found == secrets.end() ? std::nullopt : std::optional(Secret(std::string_view(found->second)));
    }
    Result<bool> hasSecret(std::string_view owner, std::string_view name) override
    {
        return secrets.contains(std::string(owner) + ' ' + std::string(name));
    }

    Result<void> create(Secret const&) override { return {}; }
    Result<void> unlock(Secret const&) override { return {}; }
    void lock() override {}
    Result<void> changePassword(Secret const&, Secret const&) override { return {}; }
    Result<void> setSecret(std::string_view, std::string_view, Secret const&) override { return {}; }
    Result<void> removeSecret(std::string_view, std::string_view) override { return {}; }
    Result<void> startHolder(std::chrono::seconds) override { return {}; }
    Result<void> stopHolder() override { return {}; }
};

class SavedCredentialsTest : public ::testing::Test {
protected:
    static Target named(std::string name)
    {
        Target target;
        target.name = std::move(name);
        return target;
    }
    std::unique_ptr<SavedCredentials> make(Vault* vault, SignerFactory signers = {})
    {
        return std::make_unique<SavedCredentials>(
            vault, SavedRoute{.route = {{m_gate, m_web}}, .hostIds = {"h-gate", "h-web"}}, std::move(signers),
            [this](Secret const& secret) { m_revealed.emplace_back(secret.reveal()); });
    }
    /// The answers as text; "none" or "error" where there are none.
    static std::vector<std::string> answers(SavedCredentials& credentials, Target const& target,
                                            std::vector<Prompt> const& prompts)
    {
        auto const given = credentials.answers(target, "", prompts);
        if (!given)
            return {"error"};
        if (!*given)
            return {"none"};
        std::vector<std::string> texts;
        for (auto const& answer : **given)
            texts.emplace_back(answer.reveal());
        return texts;
    }

    Target m_gate = named("gate"), m_web = named("web");
    PlainVault m_vault;
    std::vector<std::string> m_revealed;
};

TEST_F(SavedCredentialsTest, EachServerGetsItsOwnSecretsAndNoOther)
{
    m_vault.secrets = {{"h-gate password", "of the gate"}, {"h-web passphrase:/k", "of the key"}};
    auto const credentials = make(&m_vault);
    EXPECT_EQ(credentials->password(m_gate).value()->reveal(), "of the gate");
    EXPECT_FALSE(credentials->password(m_web).value());
    EXPECT_EQ(credentials->passphrase(m_web, "/k").value()->reveal(), "of the key");
    EXPECT_FALSE(credentials->passphrase(m_web, "/other").value());
    EXPECT_FALSE(credentials->passphrase(m_gate, "/k").value());
    EXPECT_FALSE(credentials->password(named("a stranger")).value());
    EXPECT_THAT(m_revealed, ElementsAre("of the gate", "of the key"));
}

TEST_F(SavedCredentialsTest, TheVaultIsOpenedOnlyForASecretThatIsThere)
{
    m_vault.secrets = {{"h-web password", "p"}};
    auto const credentials = make(&m_vault);
    EXPECT_FALSE(credentials->password(m_gate).value());
    EXPECT_EQ(m_vault.opened, 0);
    EXPECT_TRUE(credentials->password(m_web).value());
    EXPECT_EQ(m_vault.opened, 1);
}

TEST_F(SavedCredentialsTest, AVaultThatIsLockedAgainGivesNothingMore)
{
    m_vault.secrets = {{"h-web password", "p"}};
    auto const credentials = make(&m_vault);
    EXPECT_TRUE(credentials->password(m_web).value());
    m_vault.opensSilently = false;
    EXPECT_EQ(credentials->password(m_web).error().code, Errc::VaultLocked);
}

TEST_F(SavedCredentialsTest, ALockedVaultIsAnErrorAndNoVaultIsNoSecret)
{
    m_vault.secrets = {{"h-web password", "p"}};
    m_vault.opensSilently = false;
    EXPECT_EQ(make(&m_vault)->password(m_web).error().code, Errc::VaultLocked);
    EXPECT_THAT(answers(*make(&m_vault), m_web, {{"Password: ", false}}), ElementsAre("error"));
    m_vault.now = Vault::State::Missing;
    EXPECT_FALSE(make(&m_vault)->password(m_web).value());
    EXPECT_FALSE(make(nullptr)->password(m_web).value());
    EXPECT_THAT(m_revealed, IsEmpty());
}

TEST_F(SavedCredentialsTest, OneHiddenQuestionOfEachServerIsAnsweredWithThePasswordOnce)
{
    m_vault.secrets = {{"h-gate password", "g"}, {"h-web password", "w"}};
    auto const credentials = make(&m_vault);
    EXPECT_THAT(answers(*credentials, m_web, {}), IsEmpty());
    EXPECT_THAT(answers(*credentials, m_web, {{"Password: ", false}}), ElementsAre("w"));
    EXPECT_THAT(answers(*credentials, m_web, {{"Password: ", false}}), ElementsAre("none"));
    EXPECT_THAT(answers(*credentials, m_gate, {{"(ann@gate) Password: ", false}}), ElementsAre("g"));
}

TEST_F(SavedCredentialsTest, WhatAsksForSomethingElseNeverGetsThePassword)
{
    m_vault.secrets = {{"h-web password", "w"}};
    for (auto const* const text :
         {"Verification code: ", "One-time password: ", "OTP: ", "Enter token: ", "Passcode or option: ",
          "Google Authenticator: ", "Duo two-factor login", "Challenge 1234: ", "CODE: "})
        EXPECT_THAT(answers(*make(&m_vault), m_web, {{text, false}}), ElementsAre("none")) << text;
    EXPECT_THAT(answers(*make(&m_vault), m_web, {{"Password: ", true}}), ElementsAre("none"));
    EXPECT_THAT(answers(*make(&m_vault), m_web, {{"Password: ", false}, {"Password again: ", false}}),
                ElementsAre("none"));
    EXPECT_THAT(m_revealed, IsEmpty());
}

TEST_F(SavedCredentialsTest, SignersAreAskedForByTheIdOfTheHost)
{
    std::vector<std::string> asked;
    auto const credentials = make(&m_vault, [&](SignerWish const& wish) {
        asked.push_back(wish.hostId + ' ' + wish.leadsTo);
        return std::vector<std::shared_ptr<Signer>>();
    });
    EXPECT_THAT(credentials->signers(m_web, Deadline::in(std::chrono::seconds(1)), {}), IsEmpty());
    EXPECT_THAT(credentials->signers(named("a stranger"), Deadline::in(std::chrono::seconds(1)), {}),
                IsEmpty());
    EXPECT_THAT(asked, ElementsAre("h-web h-web"));
}

} // namespace
} // namespace termalin::ssh
