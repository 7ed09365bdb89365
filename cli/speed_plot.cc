#include "cli/speed_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <vector>

#include "cli/exit_code.h"
#include "engine/base/quote.h"

namespace baton::cli {
namespace {

constexpr int kWidth = 420, kHeight = 300, kLeft = 60, kTop = 40, kRight = 20, kBottom = 50;
constexpr const char* kColors[] = {"#1f77b4", "#d62728", "#2ca02c",
                                   "#9467bd", "#ff7f0e", "#17becf"};

struct Point {
  double x, y;
};
using Lines = std::map<std::string, std::vector<Point>>;  // by what the line is of

// Depths and batches double from point to point, 0 stands first.
double Place(double x) { return std::log2(x + 1); }

struct Chart {
  std::string title, x_name;
  Lines lines;
  int left;  // of the whole chart

  double largest_x() const { return Largest(&Point::x); }
  double largest_y() const { return Largest(&Point::y); }
  double Largest(double Point::*of) const {
    double largest = 1;
    for (const auto& [name, points] : lines) {
      for (const Point& p : points) largest = std::max(largest, p.*of);
    }
    return largest;
  }
  double X(double x) const {
    return left + kLeft + (kWidth - kLeft - kRight) * Place(x) / Place(largest_x());
  }
  double Y(double y) const {
    return kHeight - kBottom - (kHeight - kTop - kBottom) * y / largest_y();
  }

  std::string Text(double x, double y, std::string_view anchor, std::string_view text) const {
    return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                       anchor, text);
  }
  std::string Axes() const {
    const double bottom = Y(0), right = X(largest_x()), first = X(0);
    std::string svg = Text(left + kWidth / 2.0, kTop / 2.0, "middle", title) +
                      Text(left + kWidth / 2.0, kHeight - 10, "middle", x_name);
    for (int i = 0; i <= 4; ++i) {
      const double y = largest_y() * i / 4;
      svg += fmt::format(
          "<line x1=\"{:.0f}\" y1=\"{:.0f}\" x2=\"{:.0f}\" y2=\"{:.0f}\" stroke=\"#ddd\"/>\n",
          first, Y(y), right, Y(y));
      svg += Text(first - 6, Y(y) + 4, "end", fmt::format("{:.3g}", y));
    }
    std::map<double, bool> marks;
    for (const auto& [name, points] : lines) {
      for (const Point& p : points) marks[p.x] = true;
    }
    for (const auto& [x, unused] : marks)
      svg += Text(X(x), bottom + 16, "middle", fmt::format("{:.0f}", x));
    return svg;
  }
  std::string Draw() const {
    std::string svg = Axes();
    int index = 0;
    for (const auto& [name, points] : lines) {
      const char* color = kColors[index % std::size(kColors)];
      std::string path;
      for (const Point& p : points) {
        path += fmt::format("{:.1f},{:.1f} ", X(p.x), Y(p.y));
        svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", X(p.x),
                           Y(p.y), color);
      }
      svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\"/>\n", path, color);
      svg += fmt::format("<g fill=\"{}\">{}</g>\n", color,
                         Text(left + kWidth - kRight, kTop + 14 * index, "end", name));
      ++index;
    }
    return svg;
  }
};

bool IsDecode(const BenchResult& result) { return result.test.ends_with("decode"); }

}  // namespace

std::string DrawSpeedPlot(std::span<const BenchResult> results) {
  Chart by_depth{"decode, tokens/s", "depth (positions)", {}, 0};
  Chart by_batch{"decode, tokens/s", "sequences at once", {}, kWidth};
  for (const BenchResult& r : results) {
    if (!IsDecode(r)) continue;
    by_depth.lines[fmt::format("{} threads, batch {}", r.threads, r.batch)].push_back(
        {static_cast<double>(r.depth), r.median()});
    by_batch.lines[fmt::format("{} threads, depth {}", r.threads, r.depth)].push_back(
        {static_cast<double>(r.batch), r.median()});
  }
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" "
             "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
             "fill=\"white\"/>\n",
             2 * kWidth, kHeight) +
         by_depth.Draw() + by_batch.Draw() + "</svg>\n";
}

absl::Status WriteSpeedPlot(const std::string& path, std::span<const BenchResult> results) {
  std::ofstream file(path);
  file << DrawSpeedPlot(results);
  file.close();
  if (!file) return CannotWrite("{}: {}", engine::Named(path), std::strerror(errno));
  return absl::OkStatus();
}

}  // namespace baton::cli
