#pragma once

namespace trireme::cuda_on_cpu {

// Cuts two sequences of documents into segments on the simulated GPU and compares with what the definition gives.
void ExpectSegmentsCutWhereDocumentsBegin();

}  // namespace trireme::cuda_on_cpu
