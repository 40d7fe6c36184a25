// Matching output tensors to roles and strides by name and shape.
#include "plugins/detections/heads.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "plugins/json_object.hpp"

namespace camd::plugins {
namespace {

constexpr int kAllLevels = -1;
constexpr std::int64_t kManyBoxes = 256;  // more than the rows of a map of four columns

using Shape = std::vector<std::int64_t>;

Shape shape_of(const camd_tensor_spec& spec) { return Shape(spec.shape, spec.shape + spec.ndim); }

std::int64_t anchors_of_all(const std::vector<Level>& levels) {
  std::int64_t sum = 0;
  for (const Level& level : levels) sum += level.cells() * level.anchors;
  return sum;
}

// Strips the batch of one: [1,a,b] -> [a,b]; a tensor without batch stays as it is. [1,N,1,4] are N boxes, as YOLOv4
// for PyTorch has them, which would do for all classes.
std::optional<std::array<std::int64_t, 2>> two_dims(const Shape& s) {
  if (s.size() == 2) return std::array{s[0], s[1]};
  if (s.size() == 3 && s[0] == 1) return std::array{s[1], s[2]};
  if (s.size() == 4 && s[0] == 1 && s[1] >= kManyBoxes && s[2] == 1 && s[3] == 4) return std::array{s[1], s[3]};
  return std::nullopt;
}

// `shape` as one level's values. Returns a head whose `channels` is the number of values per anchor.
std::optional<Head> fit_level(const Shape& s, const Level& level) {
  const std::int64_t h = level.height, w = level.width, a = level.anchors;
  Head head;
  if (s.size() == 4 && s[0] == 1 && s[2] == h && s[3] == w && s[1] % a == 0) {
    head.channels = static_cast<int>(s[1] / a);
    head.cell_step = 1;
    head.channel_step = h * w;
    head.anchor_step = head.channels * h * w;
    return head;
  }
  if (s.size() == 5 && s[0] == 1 && s[1] == a && s[2] == h && s[3] == w) {
    head.channels = static_cast<int>(s[4]);
    head.cell_step = s[4];
    head.anchor_step = h * w * s[4];
    head.channel_step = 1;
    return head;
  }
  std::int64_t n = 0, k = 0;
  if (s.size() == 5 && s[0] == 1 && s[1] == h && s[2] == w && s[3] == a) {
    n = h * w * a;
    k = s[4];
  } else if (s.size() == 4 && s[0] == 1 && s[1] == h && s[2] == w && s[3] % a == 0) {
    n = h * w * a;
    k = s[3] / a;
  } else if (const auto flat = two_dims(s); flat && (*flat)[0] == h * w * a) {
    n = (*flat)[0];
    k = (*flat)[1];
  } else if (flat && (*flat)[1] == h * w * a) {
    head.channels = static_cast<int>((*flat)[0]);
    head.cell_step = a;
    head.anchor_step = 1;
    head.channel_step = (*flat)[1];
    return head;
  }
  if (n == 0) return std::nullopt;
  head.channels = static_cast<int>(k);
  head.cell_step = a * k;
  head.anchor_step = k;
  head.channel_step = 1;
  return head;
}

// `shape` as all levels one after the other: one head per level.
std::optional<std::vector<Head>> fit_all(const Shape& s, const std::vector<Level>& levels) {
  const auto flat = two_dims(s);
  const std::int64_t sum = anchors_of_all(levels);
  if (!flat || ((*flat)[0] != sum && (*flat)[1] != sum)) return std::nullopt;
  const bool rows = (*flat)[0] == sum;  // [sum,k], else [k,sum]
  std::vector<Head> heads;
  std::int64_t before = 0;
  for (const Level& level : levels) {
    Head head;
    const std::int64_t k = rows ? (*flat)[1] : (*flat)[0];
    head.channels = static_cast<int>(k);
    head.first = rows ? before * k : before;
    head.anchor_step = rows ? k : 1;
    head.cell_step = head.anchor_step * level.anchors;
    head.channel_step = rows ? 1 : sum;
    heads.push_back(head);
    before += level.cells() * level.anchors;
  }
  return heads;
}

bool allowed(const RoleRule& rule, int channels) {
  if (channels < rule.least || channels % rule.multiple_of != 0) return false;
  return rule.channels.empty() ||
         std::find(rule.channels.begin(), rule.channels.end(), channels) != rule.channels.end();
}

// One way to read one output: `role` at `level` (or all levels), with its heads.
struct Reading {
  std::size_t rule = 0;
  int level = 0;  // or kAllLevels
  int output = 0;
  std::vector<Head> heads;  // one, or one per level
};

struct Attempt {
  std::vector<Level> levels;
  std::vector<std::string> problems;
};

std::vector<Level> make_levels(const camd_model& model, const std::vector<int>& strides, const HeadRules& rules,
                               bool round_up, bool fitted) {
  const std::int64_t height = model.input.shape[2], width = model.input.shape[3];
  std::vector<Level> levels;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::int64_t stride = strides[i], up = round_up ? stride - 1 : 0;
    Level level;
    level.stride = strides[i];
    level.width = static_cast<int>((width + up) / stride);
    level.height = static_cast<int>((height + up) / stride);
    level.step_x = fitted && level.width > 0 ? static_cast<int>(width / level.width) : level.stride;
    level.step_y = fitted && level.height > 0 ? static_cast<int>(height / level.height) : level.stride;
    level.anchors = rules.anchors.size() == 1 ? rules.anchors[0] : rules.anchors[i];
    levels.push_back(level);
  }
  return levels;
}

// All roles in one tensor, one per level or one for all.
bool bind_fused(const camd_model& model, const Options& options, const HeadRules& rules, Attempt& attempt) {
  if (rules.fused.empty()) return false;
  const auto rule_of = [&](Role role) -> const RoleRule& {
    return *std::find_if(rules.roles.begin(), rules.roles.end(), [&](const RoleRule& r) { return r.role == role; });
  };
  const auto named = [&](int i) {
    bool any = false;
    for (const auto& names : options.outputs) {
      if (std::find(names.begin(), names.end(), model.outputs[i].name) != names.end()) return true;
      any = any || !names.empty();
    }
    return !any;
  };
  const bool several_vary = std::count_if(rules.fused.begin(), rules.fused.end(),
                                          [&](Role role) { return rule_of(role).channels.size() != 1; }) > 1;
  // The channels of every role when a tensor holds `total`; the one role that may vary takes the rest.
  const auto split = [&](int total) -> std::optional<std::vector<int>> {
    std::vector<int> counts;
    std::optional<std::size_t> open;
    for (std::size_t i = 0; i < rules.fused.size(); ++i) {
      const RoleRule& rule = rule_of(rules.fused[i]);
      const bool usual = several_vary && !rule.usual.empty();
      counts.push_back(rule.channels.size() == 1 ? rule.channels[0] : usual ? rule.usual.front() : 0);
      if (rule.channels.size() == 1 || usual) continue;
      if (open) return std::nullopt;
      open = i;
    }
    const int rest = total - std::accumulate(counts.begin(), counts.end(), 0);
    if (!open) return rest == 0 ? std::optional(counts) : std::nullopt;
    if (!allowed(rule_of(rules.fused[*open]), rest)) return std::nullopt;
    counts[*open] = rest;
    return counts;
  };
  const auto place = [&](Level& level, Head head, int output, const std::vector<int>& counts) {
    head.output = output;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      head.channels = counts[i];
      level.head(rules.fused[i]) = head;
      head.first += counts[i] * head.channel_step;
    }
  };
  for (Level& level : attempt.levels) level.heads = {};
  std::vector<bool> done(attempt.levels.size(), false);
  for (int i = 0; i < model.output_count; ++i) {
    if (!named(i)) continue;
    const Shape shape = shape_of(model.outputs[i]);
    if (const auto heads = fit_all(shape, attempt.levels)) {
      if (const auto counts = split(heads->front().channels)) {
        for (std::size_t l = 0; l < attempt.levels.size(); ++l) place(attempt.levels[l], (*heads)[l], i, *counts);
        return true;
      }
    }
    for (std::size_t l = 0; l < attempt.levels.size(); ++l) {
      const auto head = fit_level(shape, attempt.levels[l]);
      if (!head) continue;
      const auto counts = split(head->channels);
      // Of two outputs with the same cells neither holds all roles.
      if (!counts || done[l]) return false;
      place(attempt.levels[l], *head, i, *counts);
      done[l] = true;
    }
  }
  return std::all_of(done.begin(), done.end(), [](bool d) { return d; });
}

std::vector<Reading> possible_readings(const camd_model& model, const Options& options, const HeadRules& rules,
                                       const std::vector<Level>& levels) {
  std::vector<Reading> readings;
  for (int i = 0; i < model.output_count; ++i) {
    const Shape shape = shape_of(model.outputs[i]);
    const std::string name = model.outputs[i].name;
    std::vector<Reading> of_output;
    const auto consider = [&](int level, std::vector<Head> heads) {
      for (Head& head : heads) head.output = i;
      for (std::size_t r = 0; r < rules.roles.size(); ++r) {
        const auto& names = options.outputs[static_cast<std::size_t>(rules.roles[r].role)];
        if (!names.empty()) {
          const bool one = names.size() == 1;
          if (one ? names[0] != name : level == kAllLevels || names[static_cast<std::size_t>(level)] != name) {
            continue;
          }
        }
        if (allowed(rules.roles[r], heads.front().channels)) of_output.push_back({r, level, i, heads});
      }
    };
    if (const auto heads = fit_all(shape, levels)) consider(kAllLevels, *heads);
    for (std::size_t l = 0; levels.size() > 1 && l < levels.size(); ++l) {
      if (const auto head = fit_level(shape, levels[l])) consider(static_cast<int>(l), {*head});
    }
    // With one level, [1,C,h,w] is no flat tensor of all levels.
    if (levels.size() == 1 && of_output.empty()) {
      if (const auto head = fit_level(shape, levels[0])) consider(kAllLevels, {*head});
    }
    const auto hinted = [&](const Reading& r) { return hints_at(name, rules.roles[r.rule].role); };
    if (std::any_of(of_output.begin(), of_output.end(), hinted)) {
      of_output.erase(std::remove_if(of_output.begin(), of_output.end(), [&](const Reading& r) { return !hinted(r); }),
                      of_output.end());
    }
    readings.insert(readings.end(), of_output.begin(), of_output.end());
  }
  return readings;
}

// Of several outputs that could be a role, those with as many values as usual are likelier than others.
void prefer_usual(const HeadRules& rules, std::vector<Reading>& readings) {
  const auto usual = [&](const Reading& r) {
    const std::vector<int>& counts = rules.roles[r.rule].usual;
    return std::find(counts.begin(), counts.end(), r.heads.front().channels) != counts.end();
  };
  const std::vector<Reading> all = readings;
  const auto outdone = [&](const Reading& r) {
    return !usual(r) && std::any_of(all.begin(), all.end(), [&](const Reading& other) {
      return other.rule == r.rule && other.level == r.level && usual(other);
    });
  };
  readings.erase(std::remove_if(readings.begin(), readings.end(), outdone), readings.end());
}

// Where one output alone can be a role, it is no other role.
void settle(std::vector<Reading>& readings) {
  bool changed = true;
  while (changed) {
    changed = false;
    for (const Reading& sure : std::vector<Reading>(readings)) {
      const auto rivals = std::count_if(readings.begin(), readings.end(),
                                        [&](const Reading& r) { return r.rule == sure.rule && r.level == sure.level; });
      if (rivals != 1) continue;
      const std::size_t before = readings.size();
      readings.erase(std::remove_if(readings.begin(), readings.end(),
                                    [&](const Reading& r) {
                                      return r.output == sure.output && (r.rule != sure.rule || r.level != sure.level);
                                    }),
                     readings.end());
      changed = readings.size() != before;
      if (changed) break;
    }
  }
}

// What is left to a role that takes the most channels: fewer are something else, such as the sum of all.
void prefer_most(const HeadRules& rules, std::vector<Reading>& readings) {
  const std::vector<Reading> all = readings;
  const auto outdone = [&](const Reading& r) {
    return rules.roles[r.rule].most && std::any_of(all.begin(), all.end(), [&](const Reading& other) {
             return other.rule == r.rule && other.level == r.level &&
                    other.heads.front().channels > r.heads.front().channels;
           });
  };
  readings.erase(std::remove_if(readings.begin(), readings.end(), outdone), readings.end());
}

std::string wanted_shape(const RoleRule& rule, const Level& level) {
  const std::string k = rule.channels.size() == 1 ? std::to_string(rule.channels[0] * level.anchors)
                        : level.anchors > 1       ? std::to_string(level.anchors) + "*k"
                                                  : "k";
  return "[1," + k + "," + std::to_string(level.height) + "," + std::to_string(level.width) + "]";
}

void bind_roles(const camd_model& model, const Options& options, const HeadRules& rules, Attempt& attempt) {
  std::vector<Reading> readings = possible_readings(model, options, rules, attempt.levels);
  prefer_usual(rules, readings);
  settle(readings);
  prefer_most(rules, readings);
  for (std::size_t r = 0; r < rules.roles.size(); ++r) {
    const RoleRule& rule = rules.roles[r];
    const std::string role(to_string(rule.role)), quoted = "'" + role + "'";
    const bool wanted = rule.required || !options.outputs[static_cast<std::size_t>(rule.role)].empty();
    const auto of = [&](int level) {
      std::vector<const Reading*> found;
      for (const Reading& reading : readings) {
        if (reading.rule == r && reading.level == level) found.push_back(&reading);
      }
      return found;
    };
    // Of several that could be it, the one whose name says so.
    const auto called_so = [&](const std::vector<const Reading*>& found) {
      std::vector<const Reading*> called;
      for (const Reading* reading : found) {
        if (hints_at(model.outputs[reading->output].name, rule.role)) called.push_back(reading);
      }
      return called.size() == 1 ? called : found;
    };
    const auto too_many = [&](const std::vector<const Reading*>& found, const std::string& where) {
      std::string text = quoted;
      text.append(where).append(" could be");
      for (const Reading* reading : found) {
        text += ' ';
        text += describe_output(model, reading->output);
      }
      text.append(": say which in `outputs: {").append(role).append(": ...}`");
      attempt.problems.push_back(std::move(text));
    };
    if (const auto found = called_so(of(kAllLevels)); found.size() == 1) {
      for (std::size_t l = 0; l < attempt.levels.size(); ++l) attempt.levels[l].head(rule.role) = found[0]->heads[l];
      continue;
    } else if (found.size() > 1) {
      too_many(found, "");
      continue;
    }
    std::size_t bound = 0;
    for (std::size_t l = 0; l < attempt.levels.size(); ++l) {
      const auto found = of(static_cast<int>(l));
      const std::string where = " at stride " + std::to_string(attempt.levels[l].stride);
      if (found.size() > 1) too_many(found, where);
      if (found.size() == 1) {
        attempt.levels[l].head(rule.role) = found[0]->heads[0];
        ++bound;
      } else if (found.empty() && wanted) {
        std::string text = "no output for ";
        text.append(quoted).append(where).append(", wanted ");
        text.append(wanted_shape(rule, attempt.levels[l])).append(" or the same flattened");
        attempt.problems.push_back(std::move(text));
      }
    }
    if (!wanted && bound < attempt.levels.size()) {
      for (Level& level : attempt.levels) level.head(rule.role) = Head{};
    }
  }
}

// Sets of strides that detectors of this kind use, largest first, so that no output is left out.
const std::vector<std::vector<int>>& usual_strides() {
  static const std::vector<std::vector<int>> sets = {{8, 16, 32, 64, 128},
                                                     {4, 8, 16, 32, 64},
                                                     {8, 16, 32, 64},
                                                     {4, 8, 16, 32},
                                                     {8, 16, 32},
                                                     {4, 8, 16},
                                                     {16, 32, 64},
                                                     {8, 16},
                                                     {16, 32},
                                                     {4},
                                                     {8},
                                                     {16},
                                                     {32}};
  return sets;
}

}  // namespace

std::string describe_output(const camd_model& model, int i) {
  const camd_tensor_spec& spec = model.outputs[i];
  return std::string(spec.name) + " " + camd::plugin::shape_text(spec.shape, spec.ndim);
}

std::string describe_outputs(const camd_model& model) {
  std::string text;
  for (int i = 0; i < model.output_count; ++i) {
    if (i > 0) text += ", ";
    text += describe_output(model, i);
  }
  return text;
}

int find_output(const camd_model& model, const std::string& name) {
  std::vector<std::string> known;
  for (int i = 0; i < model.output_count; ++i) {
    if (name == model.outputs[i].name) return i;
    known.emplace_back(model.outputs[i].name);
  }
  const auto near = nearest(name, known);
  throw std::invalid_argument("undeclared output '" + name + "'" + (near ? " (did you mean '" + *near + "'?)" : "") +
                              ": the model's outputs are " + describe_outputs(model));
}

std::optional<Head> head_of_level(const camd_model& model, int output, const Level& level) {
  std::optional<Head> head = fit_level(shape_of(model.outputs[output]), level);
  if (head) head->output = output;
  return head;
}

bool hints_at(const std::string& name, Role role) {
  static const std::array<std::vector<std::string>, kRoleCount> parts = {
      std::vector<std::string>{"cls", "class", "label", "score", "conf", "prob", "logit"},
      std::vector<std::string>{"obj", "centerness", "ctrness", "centre-ness"},
      std::vector<std::string>{"box", "reg", "loc", "dis_pred", "dist", "delta"},
      std::vector<std::string>{"kps", "land", "ldmk", "lmk", "point", "pts"},
      std::vector<std::string>{"offset"},
      std::vector<std::string>{"angle", "theta"}};
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto& words = parts[static_cast<std::size_t>(role)];
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& part) { return lower.find(part) != std::string::npos; });
}

namespace {

// Classes, bins and keypoints are as many at every stride: what is read of one level holds for all.
void require_equal_levels(const camd_model& model, const Options& options, Attempt& attempt) {
  for (std::size_t r = 0; r < options.outputs.size(); ++r) {
    const auto role = static_cast<Role>(r);
    const Level& first = attempt.levels.front();
    for (const Level& level : attempt.levels) {
      const Head &one = first.head(role), &other = level.head(role);
      if (!one.bound() || !other.bound() || one.channels == other.channels) continue;
      attempt.problems.push_back("'" + std::string(to_string(role)) + "' has " + std::to_string(one.channels) +
                                 " values a cell in " + describe_output(model, one.output) + " and " +
                                 std::to_string(other.channels) + " in " + describe_output(model, other.output) +
                                 ", wanted as many at every stride");
      return;
    }
  }
}

}  // namespace

std::vector<Level> bind_heads(const camd_model& model, const Options& options, const HeadRules& rules) {
  if (model.input.ndim != 4) {
    throw std::invalid_argument("the model's input " + std::string(model.input.name) + " is " +
                                camd::plugin::shape_text(model.input.shape, model.input.ndim) + ", wanted [1,3,H,W]");
  }
  std::size_t named = 0;  // strides according to `outputs:`
  for (const auto& names : options.outputs) {
    for (const std::string& name : names) static_cast<void>(find_output(model, name));
    if (names.size() > 1) {
      if (named != 0 && named != names.size()) {
        throw std::invalid_argument("config.outputs: every role needs one name or one name per stride");
      }
      named = names.size();
    }
  }
  const auto sets = options.strides.empty() ? usual_strides() : std::vector<std::vector<int>>{options.strides};
  std::optional<Attempt> best;
  for (const auto& strides : sets) {
    if (rules.anchors.size() != 1 && rules.anchors.size() != strides.size()) continue;
    if (named != 0 && named != strides.size()) continue;
    for (const bool round_up : {true, false}) {
      Attempt attempt{make_levels(model, strides, rules, round_up, options.fitted_strides), {}};
      // A tensor of classes alone would do for all roles as well, with fewer classes: so roles of their own come first.
      bind_roles(model, options, rules, attempt);
      if (!attempt.problems.empty() && bind_fused(model, options, rules, attempt)) attempt.problems.clear();
      if (attempt.problems.empty()) require_equal_levels(model, options, attempt);
      if (attempt.problems.empty()) return attempt.levels;
      if (!best || attempt.problems.size() < best->problems.size()) best = std::move(attempt);
    }
  }
  if (!best) {
    throw std::invalid_argument("config: " + std::to_string(rules.anchors.size()) + " lists of anchors, but " +
                                std::to_string(options.strides.empty() ? named : options.strides.size()) +
                                " strides: one list per stride is needed");
  }
  throw std::invalid_argument(best->problems.front() + "; the model's outputs are " + describe_outputs(model));
}

}  // namespace camd::plugins
