#include "cuda_on_cpu/streams.h"

#include <algorithm>
#include <stdexcept>

#include "cuda_on_cpu/findings.h"
#include "cuda_on_cpu/graphs.h"

namespace trireme::cuda_on_cpu {
namespace {

struct Gpu {
  std::recursive_mutex mutex;
  std::vector<std::unique_ptr<Stream>> streams;
  Clock host;
};

Gpu& State() {
  static Gpu gpu;
  return gpu;
}

bool CanRun(const Stream& stream) {
  return !stream.items.empty() && (stream.items.front().wait == nullptr || stream.items.front().wait->reached);
}

// Runs the next item of a stream that can go on. False when none can.
bool RunOne() {
  std::vector<Stream*> able;
  for (const auto& stream : State().streams) {
    if (CanRun(*stream)) {
      able.push_back(stream.get());
    }
  }
  if (able.empty()) {
    return false;
  }
  const auto count = static_cast<std::uint32_t>(able.size());
  Stream* const stream = able[Seed() == 1 ? 0 : Seed() == 2 ? count - 1 : Draw(count)];
  Stream::Item item = std::move(stream->items.front());
  stream->items.pop_front();
  if (item.run) {
    item.run();
  }
  if (item.reach != nullptr) {
    item.reach->reached = true;
    item.reach->operations = CurrentOperationIndex();
  }
  return true;
}

}  // namespace

std::unique_lock<std::recursive_mutex> LockGpu() { return std::unique_lock(State().mutex); }

Clock& HostClock() { return State().host; }

Stream* NewStream() {
  auto& streams = State().streams;
  streams.push_back(std::make_unique<Stream>());
  streams.back()->place = TakeStreamPlace();
  return streams.back().get();
}

void EndStream(Stream* stream) {
  while (!stream->items.empty() && RunOne()) {
  }
  GiveBackStreamPlace(stream->place);
  std::erase_if(State().streams, [stream](const auto& each) { return each.get() == stream; });
}

void PutItem(Stream* stream, Stream::Item item) { stream->items.push_back(std::move(item)); }

void Put(Stream* stream, const std::string& name, Work work) {
  if (stream->capture != nullptr) {
    AddCaptured(stream, name, std::move(work));
    return;
  }
  Operation operation;
  operation.name = name;
  operation.stream = stream->place;
  operation.number = NextNumber(stream->place);
  stream->clock.Join(State().host);
  stream->clock.Set(stream->place, operation.number);
  operation.clock = stream->clock;
  PutItem(stream, {.run = [operation, run = std::move(work)] { run(operation); }, .reach = nullptr, .wait = nullptr});
  RunSome();
}

void RunSome() {
  for (std::uint32_t left = Seed() == 1 ? 0 : Draw(3); left > 0 && RunOne(); --left) {
  }
}

void RunAll() {
  while (RunOne()) {
  }
}

void WaitFor(Stream* stream) {
  const auto marker = std::make_shared<Marker>();
  marker->clock = stream->clock;
  PutItem(stream, {.run = nullptr, .reach = marker, .wait = nullptr});
  WaitFor(marker);
}

void WaitFor(const std::shared_ptr<Marker>& marker) {
  while (!marker->reached) {
    if (!RunOne()) {
      throw std::logic_error("streams wait for each other");
    }
  }
  State().host.Join(marker->clock);
}

}  // namespace trireme::cuda_on_cpu
