#include "operate/stop_signals.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <utility>

namespace trireme {
namespace {

std::atomic<int> pending{0};  // a StopRequest
std::atomic<int> stops_asked{0};
constexpr std::array<int, 5> kSignals = {SIGTERM, SIGINT, SIGUSR1, SIGPIPE, SIGXFSZ};
constexpr std::size_t kRequests = 3;  // the first ones; the others are errors that the calls themselves report
std::array<struct sigaction, kSignals.size()> earlier;

void Remember(int signal) {
  const auto request = static_cast<int>(signal == SIGUSR1 ? StopRequest::kSave : StopRequest::kSaveAndStop);
  if (signal != SIGUSR1) {
    ++stops_asked;
  }
  int known = pending.load();
  while (known < request && !pending.compare_exchange_weak(known, request)) {
  }
}

}  // namespace

StopSignals::StopSignals() {
  pending = 0;
  stops_asked = 0;
  struct sigaction action {};
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    action.sa_handler = i < kRequests ? Remember : SIG_IGN;
    sigaction(kSignals[i], &action, &earlier[i]);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (i < kRequests && stops_asked > 0) {
      std::signal(kSignals[i], SIG_IGN);
    } else {
      sigaction(kSignals[i], &earlier[i], nullptr);
    }
  }
}

StopRequest StopSignals::Pending() const { return static_cast<StopRequest>(pending.load()); }

void StopSignals::Clear() { pending = 0; }

int StopSignals::stops() const { return stops_asked.load(); }

}  // namespace trireme
