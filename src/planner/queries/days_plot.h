// Days of a training against the number of devices, a curve a system, with measured points on top: a table's rows drawn
// as an SVG picture, or as a page with the picture and the figures behind it.
#pragma once

#include <string>
#include <vector>

namespace trireme {

struct DaysPoint {
  double devices = 0;
  double days = 0;
  std::string about;  // for whoever points at it: the layout, the run
};

struct DaysCurve {
  std::string name;
  std::vector<DaysPoint> points;  // ascending devices
};

struct DaysPlot {
  std::string title;
  double tokens = 0;
  std::vector<DaysCurve> predicted;
  std::vector<DaysCurve> measured;
};

// Both axes are logarithmic; dotted lines show a perfect scaling from each curve's first point. An Error where there is
// no point.
std::string DaysSvg(const DaysPlot& plot);
// A page that needs nothing else.
std::string DaysPage(const DaysPlot& plot);

}  // namespace trireme
