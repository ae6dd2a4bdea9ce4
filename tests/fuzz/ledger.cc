#include <cstring>

#include "comm/ledger_file.h"
#include "fuzz/fuzz_input.h"
#include "report/diagnose.h"

namespace {

using trireme::LedgerFileHeader;
using trireme::LedgerFileRecord;

// Makes the checks of all records fit, so that mutations reach what reads them.
void Seal(std::string& file) {
  for (std::size_t i = 0; sizeof(LedgerFileHeader) + (i + 1) * sizeof(LedgerFileRecord) <= file.size(); ++i) {
    char* const place = file.data() + sizeof(LedgerFileHeader) + i * sizeof(LedgerFileRecord);
    LedgerFileRecord record;
    std::memcpy(&record, place, sizeof record);
    record.number = i + 1;
    record.check = record.Check(record.number);
    std::memcpy(place, &record, sizeof record);
  }
}

}  // namespace

// A byte of choices, two for the length of the first ledger; the second follows.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace trireme;
  static const ScratchFolder folder;
  return Tolerate([&] {
    FuzzInput input(data, size);
    const bool sealed = input.Byte() % 2 == 0;
    const std::uint64_t first_bytes = input.Number(2);
    std::string first(input.Take(first_bytes));
    std::string second(input.Rest());
    if (sealed) {
      Seal(first);
      Seal(second);
    }
    folder.Write("rank-00000.ledger", first);
    folder.Write("rank-00001.ledger", second);
    Diagnose(folder.path());
  });
}
