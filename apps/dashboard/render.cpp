#include "apps/dashboard/render.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "apps/dashboard/order.hpp"
#include "apps/dashboard/seen.hpp"

namespace camd::dashboard {
namespace {

constexpr int kLabel = 12;   // cells of a row's label
constexpr int kNumber = 8;   // cells of a number in the stage table
constexpr int kMinBar = 8;   // a shorter bar says nothing
constexpr int kMinName = 6;  // of a camera in the table
constexpr int kMostChanges = 8;
constexpr int kMostLogs = 8;

// Whose work a stage is: bytes on their way, the device's, the host's, or waiting.
constexpr std::array<Style, kStageCount> kStageStyles = {Style::kPlain,   Style::kHost,    Style::kWait, Style::kMove,
                                                         Style::kCompute, Style::kCompute, Style::kMove, Style::kHost};

Style state_style(std::string_view state) {
  if (state == "running") return Style::kGood;
  if (state == "starved" || state == "stalled" || state == "reconnecting") return Style::kWarn;
  if (state == "failed" || state == "lost") return Style::kBad;
  if (state == "ended" || state == "starting") return Style::kDim;
  return Style::kPlain;
}

// How many rows each part gets. Parts are granted in order of importance until the screen is full.
struct Plan {
  bool facts = false;
  int overview = 0;
  int devices = 0;
  bool table_head = false;
  int cameras = 0;
  bool totals = false;
  bool drops = false;
  bool seen = false;
  bool stages = false;
  bool history = false;
  bool process = false;
  int plugins = 0;
  bool footer = false;
  int changes = 0;
  int logs = 0;
  int gaps = 0;
};

class Painter {
 public:
  Painter(const Model& model, const View& view)
      : model_(model), view_(view), order_(cameras_in_order(model, view.filter)) {
    if (order_.empty()) return;
    if (view.selected) {
      const std::size_t wanted = std::min(*view.selected, model.cameras().size() - 1);
      const auto found = std::find(order_.begin(), order_.end(), wanted);
      if (found != order_.end()) place_ = static_cast<std::size_t>(found - order_.begin());
    }
    selected_ = order_[place_];
  }

  std::vector<Line> paint() {
    const Plan plan = make_plan();
    header();
    if (plan.facts) facts();
    if (plan.overview > 0) overview(plan.overview);
    devices(plan.devices);
    gap(plan.gaps > 0);
    if (plan.table_head) table_head(plan.cameras);
    table(plan.cameras);
    gap(plan.gaps > 1);
    if (plan.totals) totals();
    if (plan.drops) drops();
    if (plan.seen) seen();
    gap(plan.gaps > 3);
    if (plan.stages) stages();
    if (plan.history) history();
    gap(plan.gaps > 2);
    if (plan.process) process();
    plugins(plan.plugins);
    changes(plan.changes);
    logs(plan.logs);
    if (view_.rows > 0) {
      lines_.resize(static_cast<std::size_t>(view_.rows - (plan.footer ? 1 : 0)));
      if (plan.footer) footer();
    }
    for (Line& line : lines_) line.fit(view_.columns);
    return std::move(lines_);
  }

 private:
  const Camera& camera() const { return model_.cameras()[selected_]; }
  const char* dot() const { return view_.ascii ? " - " : " · "; }
  bool many() const { return model_.cameras().size() > kManyCameras; }
  bool several_devices() const { return model_.devices().size() > 1; }
  const char* arrow() const { return view_.ascii ? " -> " : " → "; }
  void gap(bool wanted) {
    if (wanted) lines_.emplace_back();
  }

  Plan make_plan() const {
    Plan plan;
    const bool unlimited = view_.rows <= 0;
    int left = (unlimited ? 100'000 : view_.rows) - 1;  // the header's row
    const auto take = [&](int rows) {
      if (rows <= 0 || left < rows) return false;
      left -= rows;
      return true;
    };
    const auto take_up_to = [&](int rows) {
      const int granted = std::clamp(rows, 0, left);
      left -= granted;
      return granted;
    };
    const int cameras = static_cast<int>(order_.size());
    const bool any = cameras > 0;
    plan.cameras = take_up_to(any ? 1 : 0);
    if (!notice().empty()) plan.facts = take(1);
    if (many()) {
      plan.overview = take_up_to(2);
      if (view_.keys && !unlimited) plan.footer = take(1);
      if (several_devices()) plan.devices = take_up_to(std::min(static_cast<int>(model_.devices().size()), 4));
      plan.table_head = take(1);
      plan.cameras += take_up_to(std::min(cameras - 1, 7));
    }
    plan.totals = any && take(1);
    plan.drops = any && take(1);
    plan.seen = any && camera().seen && take(1);
    if (many()) plan.process = take(1);
    // The table of many matters more than one camera's stages.
    if (many()) plan.cameras += take_up_to(std::min(cameras - plan.cameras, 4));
    plan.stages = any && take(1 + static_cast<int>(kStageCount));
    const int more = std::min(cameras - 1, 4);
    if (!many()) {
      if (more > 0 && left > more) plan.table_head = take(1);
      plan.cameras += take_up_to(more);
      plan.process = take(1);
    }
    plan.history = any && plan.stages && take(1);
    if (!plan.facts) plan.facts = take(1);
    if (view_.keys && !unlimited && !plan.footer) plan.footer = take(1);
    if (several_devices() && plan.devices == 0) {
      plan.devices = take_up_to(std::min(static_cast<int>(model_.devices().size()), 4));
    }
    const int change_count = std::min(static_cast<int>(model_.changes().size()), kMostChanges);
    const int log_count = std::min(static_cast<int>(model_.logs().size()), kMostLogs);
    if (!plan.table_head) plan.table_head = any && take(1);
    plan.plugins =
        take_up_to(static_cast<int>(std::count_if(model_.plugins().begin(), model_.plugins().end(), has_numbers)));
    plan.gaps = take_up_to(1);
    plan.logs = take_up_to(std::min(1, log_count));
    plan.changes = take_up_to(std::min(1, change_count));
    plan.gaps += take_up_to(any ? 2 : 0);
    plan.cameras += take_up_to(cameras - plan.cameras);
    if (any && left > 1) plan.gaps += take_up_to(1);
    while (left > 0 && (plan.logs < log_count || plan.changes < change_count)) {
      if (plan.changes < change_count) plan.changes += take_up_to(1);
      if (plan.logs < log_count) plan.logs += take_up_to(1);
    }
    return plan;
  }

  // Left and right text in one row; the left one gives way.
  void split(const Line& left_text, Line right_text) {
    Line line = left_text;
    const int room = view_.columns - right_text.width() - (right_text.width() > 0 ? 2 : 0);
    if (room < kMinBar) {
      lines_.push_back(std::move(line));
      return;
    }
    line.fit(room);
    line.add(std::string(static_cast<std::size_t>(view_.columns - right_text.width() - line.width()), ' '));
    for (const Span& span : right_text.spans()) line.add(span.text, span.style);
    lines_.push_back(std::move(line));
  }

  void header() {
    Line left;
    left.add(model_.version().empty() ? "camd" : "camd " + model_.version(), Style::kBold);
    for (const std::string* part : {&model_.device(), &model_.engine(), &model_.model()}) {
      if (!part->empty()) left.add(dot(), Style::kDim).add(*part);
    }
    Line right;
    if (model_.stopped()) {
      const int code = model_.exit_code().value_or(0);
      right.add(model_.exit_code() ? fmt::format("stopped, exit code {}", code) : "stopped",
                code == 0 ? Style::kBold : Style::kBad);
      right.add("  ");
    }
    if (model_.lines() == 0) {
      right.add("waiting for metrics", Style::kDim);
    } else {
      right.add(model_.stopped() ? format_elapsed(model_.uptime_ns()) : "up " + format_elapsed(model_.uptime_ns()));
    }
    split(left, right);
  }

  // What the user must know about the input itself.
  std::string notice() const {
    std::string out;
    if (view_.silent_s > 0 && !model_.stopped() && model_.lines() > 0) {
      out = fmt::format("no metrics for {} s", view_.silent_s);
    }
    const std::string problem = model_.problem();
    return out.empty() || problem.empty() ? out + problem : out + dot() + problem;
  }

  void facts() {
    std::string left;
    if (!model_.transfer().empty()) left = "transfer " + model_.transfer();
    if (!model_.streams().empty()) left += (left.empty() ? "" : dot()) + ("streams " + model_.streams());
    const std::string right = notice();
    if (!right.empty() && text_width(right) + kMinBar + 2 > view_.columns) {
      lines_.emplace_back(right, Style::kWarn);  // too narrow for both: the warning stays
      return;
    }
    split(Line(left, Style::kDim), Line(right, Style::kWarn));
  }

  // All cameras in two rows: how many are how, and what they do together.
  void overview(int rows) {
    std::map<int, std::pair<std::string, int>> states;  // worst first
    double captured = 0, delivered = 0, dropping = 0;
    std::uint64_t dropped = 0;
    const Camera* slowest = nullptr;
    for (const Camera& cam : model_.cameras()) {
      auto& [state, count] = states[condition_of(cam).state];
      state = cam.state;
      ++count;
      captured += std::max(0.0, cam.fps_captured);
      delivered += std::max(0.0, cam.fps_delivered);
      dropped += cam.totals.dropped_sum();
      if (cam.period_s > 0) dropping += static_cast<double>(cam.newly_dropped) / cam.period_s;
      const Latency& total = cam.latency[kTotal];
      if (total.count > 0 && (slowest == nullptr || total.p99 > slowest->latency[kTotal].p99)) slowest = &cam;
    }
    Line line(fmt::format("{} cameras", model_.cameras().size()), Style::kBold);
    for (const auto& [rank, told] : states) {
      line.add(dot(), Style::kDim).add(fmt::format("{} {}", told.second, told.first), state_style(told.first));
    }
    lines_.push_back(std::move(line));
    if (rows < 2) return;
    Line sums(fmt::format("{} in/s", format_rate(captured)));
    sums.add(dot(), Style::kDim).add(fmt::format("{} out/s", format_rate(delivered)));
    sums.add(dot(), Style::kDim);
    sums.add(fmt::format("dropped {}/s", format_rate(dropping)), dropping > 0 ? Style::kWarn : Style::kGood);
    sums.add(fmt::format(", {} in all", dropped), Style::kDim);
    if (slowest != nullptr) {
      sums.add(dot(), Style::kDim);
      sums.add(fmt::format("worst p99 {} ms ({})", format_ms(slowest->latency[kTotal].p99), slowest->name));
    }
    lines_.push_back(std::move(sums));
  }

  void devices(int shown) {
    for (const Device& device : model_.devices()) {
      if (shown-- <= 0) return;
      Line line(pad_right(device.name, kLabel - 1) + " ", Style::kDim);
      if (device.state == "lost") {
        line.add("lost", state_style(device.state));
      } else {
        line.add(fmt::format("{:.0f} cameras", std::max(0.0, device.cameras)));
        line.add(dot(), Style::kDim).add(fmt::format("{} frames/s", format_rate(device.fps)));
        const Style load = device.load_percent > 90 ? Style::kWarn : Style::kPlain;
        line.add(dot(), Style::kDim).add(fmt::format("busy {:.0f} %", std::max(0.0, device.busy_percent)));
        line.add(dot(), Style::kDim).add(fmt::format("load {:.0f} %", std::max(0.0, device.load_percent)), load);
        if (device.memory_bytes > 0) line.add(dot(), Style::kDim).add(format_bytes(device.memory_bytes));
      }
      line.add(dot() + device.product, Style::kDim);
      lines_.push_back(std::move(line));
    }
  }

  // The columns of the camera table, most important first; the table ends at the first that does not fit.
  struct Columns {
    int name = 0;
    int state = 0;
    bool out = false;
    bool dropped = false;
    bool in = false;
    bool p50 = false;
    bool p99 = false;
    bool p999 = false;
    int device = 0;
    int spark = 0;
  };

  Columns columns() const {
    Columns c;
    int longest = kMinName;
    for (const Camera& cam : model_.cameras()) longest = std::max(longest, text_width(cam.name));
    int left = view_.columns - 2 - 3 - kMinName;  // marker, state's dot, shortest name
    bool fits = true;
    const auto take = [&](int cells) {
      fits = fits && left >= cells;
      if (fits) left -= cells;
      return fits;
    };
    c.p99 = take(8);
    c.out = take(7);
    c.state = take(12) ? 12 : 0;
    c.dropped = take(9);
    c.in = take(8);
    c.p50 = take(8);
    c.p999 = take(10);
    if (several_devices()) c.device = take(9) ? 9 : 0;
    c.name = kMinName + std::clamp(longest - kMinName, 0, std::max(0, left));
    left -= c.name - kMinName;
    c.spark = left >= 12 ? std::min(left - 2, 60) : 0;
    return c;
  }

  void table_head(int shown) {
    const Columns c = columns();
    const auto count = static_cast<int>(order_.size());
    const auto [first, last] = window(shown);
    Line line;
    const std::string title = shown < count ? fmt::format("{}-{}/{}", first + 1, last, count) : "camera";
    line.add("  " + pad_right(title, c.name + 3) + pad_right("state", c.state) + (c.in ? pad_left("fps in", 8) : "") +
                 (c.out ? pad_left(c.in ? "out" : "fps", 7) : "") + (c.dropped ? pad_left("dropped", 9) : "") +
                 (c.p50 ? pad_left("p50 ms", 8) : "") + (c.p99 ? pad_left("p99 ms", 8) : "") +
                 (c.p999 ? pad_left("p99.9 ms", 10) : "") + (c.device > 0 ? pad_left("device", c.device) : "") +
                 (c.spark > 0 ? "  p99" : ""),
             Style::kDim);
    lines_.push_back(std::move(line));
  }

  // The cameras on the screen: the selected one is always among them.
  std::pair<std::size_t, std::size_t> window(int shown) const {
    const std::size_t count = order_.size();
    const std::size_t rows = std::min(count, static_cast<std::size_t>(shown));
    const std::size_t first = std::min(place_ - std::min(place_, rows / 2), count - rows);
    return {first, first + rows};
  }

  void table(int shown) {
    const auto [first, last] = window(shown);
    const Columns c = columns();
    for (std::size_t i = first; i < last; ++i) {
      const Camera& cam = model_.cameras()[order_[i]];
      const bool selected = i == place_ && model_.cameras().size() > 1;
      const Style state = state_style(cam.state);
      const Latency& total = cam.latency[kTotal];
      const auto ms = [&](double us) { return format_ms(total.count > 0 ? us : -1); };
      Line line;
      line.add(selected ? (view_.ascii ? "> " : "▸ ") : "  ", Style::kSelected);
      line.add(pad_right(cam.name, c.name), selected ? Style::kSelected : Style::kPlain);
      line.add(view_.ascii ? " * " : " ● ", state);
      line.add(pad_right(cam.state, c.state), state);
      if (c.in) line.add(pad_left(format_rate(cam.fps_captured), 8));
      if (c.out) line.add(pad_left(format_rate(cam.fps_delivered), 7));
      if (c.dropped) {
        line.add(pad_left(fmt::format("{}", cam.totals.dropped_sum()), 9),
                 cam.newly_dropped > 0 ? Style::kWarn : Style::kPlain);
      }
      if (c.p50) line.add(pad_left(ms(total.p50), 8));
      if (c.p99) line.add(pad_left(ms(total.p99), 8));
      if (c.p999) line.add(pad_left(ms(total.p999), 10));
      if (c.device > 0) line.add(pad_left(cam.device, c.device), Style::kDim);
      if (c.spark > 0)
        line.add("  " + sparkline(cam.p99_history, history_top(cam), c.spark, view_.ascii), Style::kMove);
      lines_.push_back(std::move(line));
    }
  }

  static double history_top(const Camera& cam) {
    return cam.p99_history.empty() ? -1 : *std::max_element(cam.p99_history.begin(), cam.p99_history.end());
  }

  void totals() {
    const Totals& t = camera().totals;
    Line line;
    const std::string captured = fmt::format("captured {}", t.captured);
    const std::string rest =
        fmt::format(" = delivered {} + dropped {} + in flight {}", t.delivered, t.dropped_sum(), t.in_flight);
    line.add(captured, Style::kBold);
    if (text_width(captured) + text_width(rest) <= view_.columns) {
      line.add(rest);
    } else {  // the bare numbers, in the same order
      line = Line(fmt::format("{} = {} + {} + {}", t.captured, t.delivered, t.dropped_sum(), t.in_flight));
    }
    if (!t.balanced()) line.add("  does not balance", Style::kBad);
    lines_.push_back(std::move(line));
  }

  void drops() {
    const Camera& cam = camera();
    Line left;
    left.add(pad_right("dropped", kLabel), Style::kDim);
    bool first = true;
    for (std::size_t i = 0; i < kDropReasons; ++i) {
      if (cam.totals.dropped[i] == 0) continue;
      left.add(first ? "" : dot(), Style::kDim);
      left.add(fmt::format("{} {}", drop_reason(i), cam.totals.dropped[i]), is_loss(i) ? Style::kWarn : Style::kPlain);
      first = false;
    }
    if (first) left.add("none", Style::kGood);
    Line right;
    if (cam.h2d_bytes_per_frame >= 0 || cam.d2h_bytes_per_frame >= 0) {
      right.add(
          "a frame: h2d " + format_bytes(cam.h2d_bytes_per_frame) + ", d2h " + format_bytes(cam.d2h_bytes_per_frame),
          Style::kDim);
    }
    if (left.width() + 2 + right.width() > view_.columns) right = {};
    split(left, right);
  }

  void seen() {
    Line line(pad_right("seen", kLabel), Style::kDim);
    const Line shown = seen_line(*camera().seen, dot());
    for (const Span& span : shown.spans()) line.add(span.text, span.style);
    lines_.push_back(std::move(line));
  }

  struct StageColumns {
    int bar = 0;
    bool p50 = false;
    bool p99 = false;
    bool p999 = false;
    bool max = false;
  };

  StageColumns stage_columns() const {
    StageColumns c;
    int left = view_.columns - kLabel;
    const auto take = [&](int cells) {
      if (left < cells) return false;
      left -= cells;
      return true;
    };
    c.p99 = take(kNumber);
    c.p50 = c.p99 && take(kNumber);
    c.bar = c.p50 && take(kMinBar) ? kMinBar : 0;
    c.p999 = c.bar > 0 && take(kNumber);
    c.max = c.p999 && left >= kNumber + kMinBar && take(kNumber);
    if (c.bar > 0) c.bar += std::max(0, left);
    return c;
  }

  void stages() {
    const Camera& cam = camera();
    const StageColumns c = stage_columns();
    Line head;
    head.add(pad_right(cam.name, kLabel + c.bar - (c.bar > 0 ? 3 : 0)), Style::kBold);
    if (c.bar > 0) head.add(" ms", Style::kDim);
    const auto head_column = [&](bool wanted, const char* title) {
      if (wanted) head.add(pad_left(title, kNumber), Style::kDim);
    };
    head_column(c.p50, "p50");
    head_column(c.p99, "p99");
    head_column(c.p999, "p99.9");
    head_column(c.max, "max");
    lines_.push_back(std::move(head));

    // Every stage begins where the typical (p50) stage before it ended, so the bars read as a frame's life:
    // solid to its p50, light to its p99. One outlier must not squeeze the rest: at most three lives wide.
    double sum = 0;
    double widest = cam.latency[kTotal].p99;
    for (std::size_t i = kCapture; i < kStageCount; ++i) {
      widest = std::max(widest, sum + cam.latency[i].p99);
      sum += cam.latency[i].p50;
    }
    const double typical = std::max(sum, cam.latency[kTotal].p50);
    const double scale = std::max({typical, std::min(widest, 3 * typical), 1e-9});
    double begin = 0;
    for (std::size_t i = kTotal; i < kStageCount; ++i) {
      const Latency& l = cam.latency[i];
      Line line(pad_right(stage_name(i), kLabel), i == kTotal ? Style::kBold : Style::kPlain);
      if (c.bar > 0) {
        if (l.count > 0) {
          const Line b =
              bar(begin / scale, (begin + l.p50) / scale, (begin + l.p99) / scale, c.bar, kStageStyles[i], view_.ascii);
          for (const Span& span : b.spans()) line.add(span.text, span.style);
        } else {
          line.add(std::string(static_cast<std::size_t>(c.bar), ' '));
        }
      }
      const auto number = [&](bool wanted, double us) {
        if (wanted) line.add(pad_left(format_ms(l.count > 0 ? us : -1), kNumber));
      };
      number(c.p50, l.p50);
      number(c.p99, l.p99);
      number(c.p999, l.p999);
      number(c.max, l.max);
      lines_.push_back(std::move(line));
      if (i != kTotal) begin += l.p50;
    }
  }

  void history() {
    const Camera& cam = camera();
    const double top = history_top(cam);
    Line right(top >= 0 ? fmt::format("highest {} ms", format_ms(top)) : "", Style::kDim);
    if (view_.columns < kLabel + kMinBar + right.width() + 2) right = {};
    const int cells = view_.columns - kLabel - right.width() - 2;
    Line left(pad_right("total p99", kLabel));
    left.add(sparkline(cam.p99_history, top, cells, view_.ascii), Style::kMove);
    split(left, right);
  }

  void process() {
    const Process& p = model_.process();
    Line line(pad_right("process", kLabel), Style::kDim);
    bool first = true;
    const auto add = [&](bool known, const std::string& text) {
      if (!known) return;
      line.add(first ? "" : dot(), Style::kDim).add(text);
      first = false;
    };
    add(p.cpu_percent >= 0, fmt::format("cpu {:.0f} %", p.cpu_percent));
    add(p.rss_bytes >= 0, "rss " + format_bytes(p.rss_bytes));
    add(p.gpu_memory_bytes > 0, "gpu " + format_bytes(p.gpu_memory_bytes));
    add(p.threads >= 0, fmt::format("threads {:.0f}", p.threads));
    add(p.allocations_per_frame >= 0, fmt::format("allocations {:.3g} a frame", p.allocations_per_frame));
    lines_.push_back(first ? Line() : std::move(line));
  }

  static bool has_numbers(const Plugin& plugin) { return !plugin.numbers.empty(); }

  // The plug-ins' own numbers, a row each.
  void plugins(int shown) {
    for (const Plugin& plugin : model_.plugins()) {
      if (!has_numbers(plugin) || shown-- <= 0) continue;
      Line line(pad_right(plugin.name, kLabel - 1) + " ", Style::kDim);
      bool first = true;
      for (const Plugin::Number& number : plugin.numbers) {
        line.add(first ? "" : dot(), Style::kDim).add(number.name + " " + format_number(number.value));
        first = false;
      }
      lines_.push_back(std::move(line));
    }
  }

  void changes(int shown) {
    const auto& all = model_.changes();
    for (std::size_t i = all.size() - static_cast<std::size_t>(shown); i < all.size(); ++i) {
      const Change& change = all[i];
      Line line(pad_right(change.clock, 10), Style::kDim);
      line.add(change.who + "  ");
      if (!change.from.empty()) line.add(change.from + arrow(), Style::kDim);
      line.add(change.to, state_style(change.to));
      if (!change.reason.empty()) line.add("  " + change.reason, Style::kDim);
      lines_.push_back(std::move(line));
    }
  }

  void logs(int shown) {
    const auto& all = model_.logs();
    for (std::size_t i = all.size() - static_cast<std::size_t>(shown); i < all.size(); ++i) {
      lines_.push_back(Line(view_.ascii ? "| " : "│ ", Style::kDim).add(all[i]));
    }
  }

  void footer() {
    if (view_.typing || !view_.filter.empty()) {
      Line line("/" + view_.filter + (view_.typing ? "_" : ""), Style::kBold);
      line.add(fmt::format("  {} of {} cameras", order_.size(), model_.cameras().size()));
      line.add(view_.typing ? "   Enter keeps, Esc clears" : "   / other text, Esc clears", Style::kDim);
      lines_.push_back(std::move(line));
      return;
    }
    std::string keys = model_.cameras().size() > 1 ? (view_.ascii ? "up/down camera   " : "↑↓ camera   ") : "";
    if (many()) keys += "/ filter   ";
    if (view_.quit_key) keys += "q quit";
    lines_.emplace_back(keys, Style::kDim);
  }

  const Model& model_;
  const View& view_;
  const std::vector<std::size_t> order_;  // cameras that are shown
  std::size_t place_ = 0;                 // of the selected one in order_
  std::size_t selected_ = 0;
  std::vector<Line> lines_;
};

}  // namespace

std::vector<Line> render(const Model& model, const View& view) {
  View bounded = view;
  bounded.columns = std::clamp(view.columns, 1, 1000);
  bounded.rows = std::clamp(view.rows, 0, 1000);
  return Painter(model, bounded).paint();
}

}  // namespace camd::dashboard
