#include <cassert>

#include "topology/layout.h"

namespace trireme {
namespace {

int& Along(Coordinate& coordinate, Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return coordinate.tensor;
    case Axis::kContext:
      return coordinate.context;
    case Axis::kData:
      return coordinate.data;
    case Axis::kPipeline:
      break;
  }
  return coordinate.pipeline;
}

}  // namespace

int ProcessGrid::Degree(Axis axis) const {
  switch (axis) {
    case Axis::kTensor:
      return layout_.tensor;
    case Axis::kContext:
      return layout_.context;
    case Axis::kData:
      return layout_.data;
    case Axis::kPipeline:
      break;
  }
  return layout_.pipeline;
}

Coordinate ProcessGrid::CoordinateOf(int rank) const {
  assert(rank >= 0 && rank < ranks());
  Coordinate coordinate;
  for (int axis = 0; axis < kAxes; ++axis) {
    const int degree = Degree(static_cast<Axis>(axis));
    Along(coordinate, static_cast<Axis>(axis)) = rank % degree;
    rank /= degree;
  }
  return coordinate;
}

int ProcessGrid::RankOf(const Coordinate& coordinate) const {
  Coordinate copy = coordinate;
  int rank = 0;
  for (int axis = kAxes - 1; axis >= 0; --axis) {
    const int degree = Degree(static_cast<Axis>(axis));
    const int place = Along(copy, static_cast<Axis>(axis));
    assert(place >= 0 && place < degree);
    rank = rank * degree + place;
  }
  return rank;
}

std::vector<int> ProcessGrid::RanksAlong(Axis axis, int rank) const {
  Coordinate coordinate = CoordinateOf(rank);
  std::vector<int> ranks;
  for (int place = 0; place < Degree(axis); ++place) {
    Along(coordinate, axis) = place;
    ranks.push_back(RankOf(coordinate));
  }
  return ranks;
}

std::vector<int> ProcessGrid::Replicas(int rank) const {
  std::vector<int> ranks;
  for (const int along : RanksAlong(Axis::kData, rank - CoordinateOf(rank).context * layout_.tensor)) {
    for (const int replica : RanksAlong(Axis::kContext, along)) {
      ranks.push_back(replica);
    }
  }
  return ranks;
}

}  // namespace trireme
