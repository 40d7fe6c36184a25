#include "pipeline/plugin_process/report.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "pipeline/plugin_process/blob.hpp"

namespace camd::pipeline::wire {
namespace {

constexpr std::size_t kMostItems = CAMD_MAX_OUTLET_ROWS;

// Writes a count and so many items as there is room for.
template <class Items, class Put>
void put_items(const Items& items, Answers& answers, Put&& put) {
  std::vector<char> bytes;
  std::uint32_t count = 0;
  for (const auto& item : items) {
    BlobWriter writer;
    put(writer, item);
    if (sizeof(count) + bytes.size() + writer.bytes().size() > sizeof(answers.report)) break;
    bytes.insert(bytes.end(), writer.bytes().begin(), writer.bytes().end());
    ++count;
  }
  std::memcpy(answers.report, &count, sizeof(count));
  std::copy(bytes.begin(), bytes.end(), answers.report + sizeof(count));
  answers.report_bytes = static_cast<std::uint32_t>(sizeof(count) + bytes.size());
}

std::uint32_t count_of(BlobReader& reader, std::size_t most) {
  const auto count = reader.get<std::uint32_t>();
  if (count > most) throw base::Error(base::ErrorKind::kPlugin, "its process reports more than there can be");
  return count;
}

}  // namespace

void put_answers(const std::vector<PluginAnswer>& said, Answers& answers) {
  put_items(said, answers, [](BlobWriter& writer, const PluginAnswer& answer) {
    writer.put(static_cast<std::uint8_t>(answer.kind));
    writer.text(answer.key);
    writer.text(answer.text);
    writer.put(static_cast<std::uint32_t>(answer.known.size()));
    for (const std::string& known : answer.known) writer.text(known);
  });
}

void put_outlet(const std::vector<OutletRow>& rows, Answers& answers) {
  put_items(rows, answers, [](BlobWriter& writer, const OutletRow& row) {
    writer.text(row.camera);
    for (const std::uint64_t number : {row.taken, row.acknowledged, row.waiting, row.spooled}) writer.put(number);
    writer.put(static_cast<std::uint32_t>(row.dropped.size()));
    for (const auto& [reason, count] : row.dropped) {
      writer.text(reason);
      writer.put(count);
    }
  });
}

std::vector<char> copy_report(const Answers& answers) {
  const volatile std::uint32_t& field = answers.report_bytes;
  const std::uint32_t bytes = field;  // the compiler must not read it a second time
  const std::size_t size = std::min<std::size_t>(bytes, sizeof(answers.report));
  return {answers.report, answers.report + size};
}

std::vector<PluginAnswer> read_answers(std::span<const char> report) {
  BlobReader reader(report);
  std::vector<PluginAnswer> said;
  for (auto left = count_of(reader, 2 * PluginQuestion::kMostAnswers); left > 0; --left) {
    PluginAnswer answer;
    const auto kind = reader.get<std::uint8_t>();
    if (kind > static_cast<std::uint8_t>(PluginAnswer::Kind::kClaim)) {
      throw base::Error(base::ErrorKind::kPlugin, "its process reports an answer of no kind");
    }
    answer.kind = static_cast<PluginAnswer::Kind>(kind);
    answer.key = reader.text();
    answer.text = reader.text();
    for (auto known = count_of(reader, PluginQuestion::kMostAnswers); known > 0; --known) {
      answer.known.push_back(reader.text());
    }
    said.push_back(std::move(answer));
  }
  return said;
}

void read_outlet(std::span<const char> report, PluginOutlet& to) {
  BlobReader reader(report);
  std::vector<OutletRow> rows(count_of(reader, kMostItems));
  for (OutletRow& row : rows) {
    row.camera = reader.text();
    for (std::uint64_t* number : {&row.taken, &row.acknowledged, &row.waiting, &row.spooled}) {
      *number = reader.get<std::uint64_t>();
    }
    row.dropped.resize(count_of(reader, CAMD_MAX_OUTLET_DROPS));
    for (auto& [reason, count] : row.dropped) {
      reason = reader.text();
      count = reader.get<std::uint64_t>();
    }
  }
  std::vector<camd_outlet_row> plain;
  std::vector<std::vector<camd_outlet_drop>> drops;  // plain rows point into them
  for (const OutletRow& row : rows) {
    std::vector<camd_outlet_drop>& dropped = drops.emplace_back();
    for (const auto& [reason, count] : row.dropped) dropped.push_back({reason.c_str(), count});
    plain.push_back({row.camera.c_str(), row.taken, row.acknowledged, row.waiting, row.spooled,
                     static_cast<std::int32_t>(dropped.size()), 0, dropped.data()});
  }
  (void)to.report(plain.data(), static_cast<std::int32_t>(plain.size()), nullptr);
}

}  // namespace camd::pipeline::wire
