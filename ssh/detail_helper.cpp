#include "ssh/detail_helper.h"

#include <array>
#include <random>
#include <sstream>

namespace termalin::ssh {
namespace {

/// What runs on the server, in a POSIX sh that came from `exec sh`, so that its parent is the server itself
/// whatever the login shell is. Before it come assignments: s (begins each line to us), m (the marker or
/// nothing), same, sole, unique (1 or 0), c (the command).
///
/// A process may be touched only if it
/// - has the marker in its environment, or
/// - is the command's own process: a child of the same sshd that carries the marker; or, where the server
///   takes no marker, the only child of this sshd when the connection carries no other channel, or the only
///   one whose arguments are exactly SHELL -c COMMAND when no other command had this text; or
/// - descends from one of these, or lives in the session that the own process leads.
/// Numbers are remembered with their start time, so that one that was given anew is left alone. Zombies are
/// gone. It goes on to its end when the line to us is lost meanwhile, as when we end. A process whose name
/// holds a line break takes two lines of the listing. With no /proc, ps(1) stands in; markers cannot be seen
/// then.
constexpr auto kScript = R"sh(
main() {
exec 2>/dev/null
trap '' HUP PIPE
me=$$ up=$PPID all= own=' ' know=' ' sids=' ' left= roots=0 marked=0 proc=0
nl="
"
[ -r /proc/$$/stat ] && proc=1
row() {
  r=$1
  while :; do case $r in *") "*) r=${r#*") "};; *) break;; esac; done
  IFS=" "
  set -- $r
  S=$1 P=$2 N=$4 T=${20}
}
list() {
  got=
  if [ $proc = 1 ]; then
    rows=$(cat $1) whole=
    set -f
    IFS=$nl
    for l in $rows; do
      whole=$whole$l
      case $whole in *") "[A-Za-z]" "[0-9]*) ;; *) continue;; esac
      p=${whole%% *}
      row "$whole"
      whole=
      case $S in [ZXx]) continue;; esac
      [ $p = $me ] || [ $P = $me ] || got="$got $p:$P:$N:$T"
    done
    unset IFS
    set +f
  else
    got=" $(echo $(ps -A -o pid= -o ppid= -o stat= | while read -r p P S; do
      case $S in Z*) continue;; esac
      [ $p = $me ] || [ $P = $me ] || echo $p:$P:0:0
    done))"
  fi
}
cut() { p=${1%%:*}; r=${1#*:}; P=${r%%:*}; r=${r#*:}; N=${r%%:*}; T=${r#*:}; }
carriers() {
  [ -n "$m" ] && [ $proc = 1 ] || return 0
  if command -v grep >/dev/null; then
    for d in $(grep -lsF LC_TERMALIN_RUN=$m /proc/[0-9]*/environ); do d=${d#/proc/}; echo ${d%/environ}; done
  else
    for d in /proc/[0-9]*; do
      while IFS= read -r x || [ -n "$x" ]; do
        case $x in *LC_TERMALIN_RUN=$m*) echo ${d#/proc/}; break;; esac
      done <$d/environ
    done
  fi
}
add() {
  case $1 in 1|$me|$up) return;; esac
  case $own in *" $1 "*) return;; esac
  own="$own$1 " know="$know$1:$2 " new=1
}
server() {
  if [ $proc = 1 ]; then read -r x </proc/$1/comm || return 1; else x=$(ps -o comm= -p $1); fi
  case ${x##*/} in sshd*|dropbear*) return 0;; esac
  return 1
}
look() {
  list "/proc/[0-9]*/stat"
  all=$got
  cs=" $(echo $(carriers)) "
}
grow() {
  for e in $all; do
    cut $e
    case $cs in *" $p "*) add $p $T; marked=1;; esac
  done
  new=1
  while [ $new = 1 ]; do
    new=0
    for e in $all; do
      cut $e
      case $own in *" $P "*) add $p $T; continue;; esac
      case $sids in *" $N "*) add $p $T;; esac
    done
  done
}
root() { roots=1; add $1 $2; [ $3 = $1 ] && sids="$sids$1 "; }
proof() {
  for e in $all; do
    cut $e
    case $cs in *" $p "*) ;; *) continue;; esac
    case $cs in *" $P "*) continue;; esac
    if [ $same = 1 ]; then [ $P = $up ] && root $p $T $N; else server $P && root $p $T $N; fi
  done
  [ $roots = 0 ] && [ $same = 1 ] && server $up || return 0
  kids=0 fits=0
  for e in $all; do
    cut $e
    [ $P = $up ] || continue
    kids=$((kids+1)) kid=$e
    [ $unique = 1 ] && [ $proc = 1 ] || continue
    printf "%s\0-c\0%s\0" "${SHELL##*/}" "$c" | cmp -s - /proc/$p/cmdline && fits=$((fits+1)) fit=$e
  done
  if [ $sole = 1 ] && [ $kids = 1 ]; then cut $kid; root $p $T $N
  elif [ $fits = 1 ]; then cut $fit; root $p $T $N; fi
}
live() {
  f=
  for e in $know; do f="$f /proc/${e%%:*}/stat"; done
  left=
  [ -n "$f" ] || return 0
  list "$f"
  for e in $got; do
    cut $e
    case $know in *" $p:$T "*) left="$left $p";; esac
  done
}
look
proof
grow
live
set -- $left
if [ $# = 0 ]; then
  if server $up; then echo "$s none"; else echo "$s parent"; fi
  return
fi
echo "$s seen $roots $marked $#"
for rung in INT:3 TERM:8 KILL:10 KILL:5; do
  [ -n "$left" ] || break
  kill -s ${rung%:*} $left
  [ $rung = TERM:8 ] && kill -s CONT $left
  sleep 0.02
  i=0
  while live; [ -n "$left" ] && [ $i -lt ${rung#*:} ]; do
    sleep 0.1 || sleep 1
    i=$((i+1))
  done
  look
  grow
  live
done
set -- $left
if [ $# = 0 ]; then echo "$s gone"; else echo "$s left $#"; fi
}
main </dev/null
)sh";

std::string singleQuoted(std::string_view text)
{
    std::string word = "'";
    for (auto const c : text) {
        if (c == '\'')
            word += "'\\''";
        else
            word.push_back(c);
    }
    return word + "'";
}

} // namespace

HelperTask::HelperTask(HelperOrder order) : m_order(std::move(order))
{
    std::random_device random;
    m_first = random() % 1'000'000'000U;
    m_second = random() % 1'000'000'000U;
    m_sign = "TERMALIN-" + std::to_string(m_first + m_second);
}

HelperTask::~HelperTask() = default;

HelperTask::State HelperTask::waitBeyond(Phase phase, Deadline deadline)
{
    std::unique_lock lock(m_mutex);
    m_changed.wait_until(lock, deadline.at(), [&] { return m_state.phase > phase; });
    return m_state;
}

void HelperTask::giveUp()
{
    std::lock_guard const lock(m_mutex);
    m_givenUp = true;
}

void HelperTask::set(Phase phase)
{
    std::lock_guard const lock(m_mutex);
    m_state.phase = phase;
    m_changed.notify_all();
}

void HelperTask::release()
{
    if (m_held != nullptr)
        std::exchange(m_held, nullptr)->holdOpenings(false);
}

bool HelperTask::finish(Phase phase)
{
    release();
    m_channel.reset();
    set(phase);
    return true;
}

void HelperTask::ended(Error const&)
{
    Phase phase{};
    {
        std::lock_guard const lock(m_mutex);
        phase = m_state.phase;
    }
    finish(phase == Phase::Acting ? Phase::Finished : Phase::Refused);
}

std::string HelperTask::script() const
{
    return "s=TERMALIN-$((" + std::to_string(m_first) + "+" + std::to_string(m_second) +
           ")) m=" + m_order.marker + " same=" + (m_order.sameConnection ? "1" : "0") +
           " sole=" + (m_alone ? "1" : "0") + " unique=" + (m_order.commandIsUnique ? "1" : "0") +
           " c=" + singleQuoted(m_order.command) + kScript;
}

bool HelperTask::step(Session& session)
{
    auto givenUp = false;
    {
        std::lock_guard const lock(m_mutex);
        givenUp = m_givenUp;
    }
    if (givenUp && (m_channel || Channel::abandon(session, this)))
        return finish(Phase::Finished);
    if (!m_channel) {
        if (m_order.sameConnection && m_held == nullptr) {
            session.holdOpenings(true);
            m_held = &session;
        }
        auto opened = Channel::openSession(session, this, Channel::Turn::AtOnce);
        if (!opened)
            return false;
        if (!*opened)
            return finish(Phase::Refused);
        m_channel = **std::move(opened);
        m_channel->mergeErrors();
        m_alone = session.openChannels() == 2;
        set(Phase::Asked);
    }
    if (!m_started) {
        // The sum is not in the text that is sent: a server that runs something else cannot print it by
        // echoing.
        auto const started = m_channel->exec("exec sh -c 'echo TERMALIN-$((" + std::to_string(m_first) + "+" +
                                             std::to_string(m_second) + ")); exec sh'");
        if (!started)
            return false;
        if (!*started)
            return finish(Phase::Foreign);
        m_started = true;
    }
    return talk();
}

/// Sends the script once its reader has shown that it is ours, and takes its answers. True at the end.
bool HelperTask::talk()
{
    std::array<char, 4096> buffer; // NOLINT(cppcoreguidelines-pro-type-member-init): filled by the read
    for (;;) {
        auto const got = m_channel->read(buffer.data(), buffer.size());
        if (got && (!*got || **got == 0)) {
            Phase phase{};
            {
                std::lock_guard const lock(m_mutex);
                phase = m_state.phase;
            }
            return finish(phase == Phase::Asked ? Phase::Foreign : Phase::Finished);
        }
        if (!got)
            break;
        m_unread.append(buffer.data(), **got);
        for (auto end = m_unread.find('\n'); end != std::string::npos; end = m_unread.find('\n')) {
            line(std::string_view(m_unread).substr(0, end));
            m_unread.erase(0, end + 1);
        }
        if (m_unread.size() > 64U * 1024U)
            return finish(Phase::Foreign);
    }
    while (m_sent < m_toSend.size()) {
        auto const put = m_channel->write(m_toSend.data() + m_sent, m_toSend.size() - m_sent);
        if (!put)
            return false;
        if (!*put)
            return finish(Phase::Foreign);
        m_sent += **put;
    }
    if (!m_toSend.empty() && !m_scriptEnded)
        m_scriptEnded = m_channel->sendEof().has_value();
    return false;
}

void HelperTask::line(std::string_view text)
{
    auto const at = text.find(m_sign);
    if (at == std::string_view::npos)
        return; // what the account's start-up files print
    std::istringstream words{std::string(text.substr(at + m_sign.size()))};
    std::string word;
    words >> word;
    std::lock_guard const lock(m_mutex);
    if (word.empty() && m_state.phase == Phase::Asked) {
        m_toSend = script();
        m_state.phase = Phase::Looking;
    } else if (word == "seen") {
        int roots = 0;
        int marked = 0;
        words >> roots >> marked >> m_state.left;
        m_state.ownSeen = roots != 0;
        m_state.marked = marked != 0;
        m_state.phase = Phase::Acting;
        release();
    } else if (word == "none" || word == "parent") {
        m_state.reason = word;
    } else if (word == "gone") {
        m_state.gone = true;
        m_state.left = 0;
    } else if (word == "left") {
        words >> m_state.left;
    }
    m_changed.notify_all();
}

} // namespace termalin::ssh
