// Turns SIGTERM, SIGINT and SIGUSR1 into requests that the training loop reads between steps, and keeps a reader of the
// log that goes away (SIGPIPE) or a limit on file sizes (SIGXFSZ) from ending the run. A signal handler needs
// process-wide memory: it is here and nowhere else.
#pragma once

namespace trireme {

enum class StopRequest {
  kNone,
  kSave,         // SIGUSR1: save and go on
  kSaveAndStop,  // SIGTERM, SIGINT: save and end
};

// While it lives the signals are caught; afterwards the earlier handlers are back, except when the run was asked to
// end: requests are ignored then, so that one which comes late does not change how the process ends. At most one lives
// at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The strongest request since the last Clear. Any thread.
  StopRequest Pending() const;
  void Clear();
  // How often the process was asked to end since this was made. Any thread.
  int stops() const;
};

}  // namespace trireme
