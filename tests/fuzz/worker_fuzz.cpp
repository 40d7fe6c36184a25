// libFuzzer's target for what a worker process answers: a malicious worker writes any bytes into the memory that it
// shares with camd. Any end but a list that passes its check, or a message, is a bug.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "pipeline/plugin/plugin_calls.hpp"
#include "pipeline/plugin_process/report.hpp"
#include "pipeline/plugin_process/untrusted_answer.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

// What it tells beside a result.
void read_report(const std::uint8_t* data, std::size_t size) {
  using namespace camd::pipeline;
  // Exactly as long, so that the address sanitizer sees what is read beyond.
  const std::vector<char> report(data, data + size);
  try {
    PluginQuestion question("{}", "{}", {});
    for (PluginAnswer& answer : wire::read_answers(report)) question.note(std::move(answer));
    if (question.answers().size() > 2 * PluginQuestion::kMostAnswers) std::abort();
  } catch (const camd::base::Error&) {
  }
  PluginOutlet outlet;
  try {
    wire::read_outlet(report, outlet);
  } catch (const camd::base::Error&) {
  }
  for (const OutletRow& row : outlet.rows()) {
    std::uint64_t sum = row.acknowledged + row.waiting + row.spooled;
    for (const auto& [reason, count] : row.dropped) sum += count;
    if (sum != row.taken) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace camd::pipeline;
  // Its long arrays are as they were: a worker need not write them.
  static auto& answers = *new wire::Answers;
  if (size < 4) return 0;
  if ((data[2] & 3U) == 3) read_report(data + 4, size - 4);
  const std::int32_t capacity = data[0] * 4;
  const std::int32_t events_before = data[1] % (CAMD_MAX_EVENTS + 1);
  // The rest goes over the numbers in front of the arrays, or over one of the arrays.
  auto* const whole = reinterpret_cast<std::uint8_t*>(&answers);
  std::size_t at = offsetof(wire::Answers, code);
  if ((data[2] & 3U) == 1) at = offsetof(wire::Answers, events) + std::size_t{data[3]} * 8;
  if ((data[2] & 3U) == 2) at = offsetof(wire::Answers, items) + std::size_t{data[3]} * 8;
  std::memcpy(whole + at, data + 4, std::min(size - 4, sizeof(answers) - at));
  if ((data[2] & 4U) != 0) {  // so that what lies behind these checks is reached
    answers.code = CAMD_OK;
    answers.moved = 0;
    answers.count = std::min<std::int32_t>(data[3], capacity);
    answers.event_count = std::min(events_before + data[3] % 4, CAMD_MAX_EVENTS);
  }

  // Exactly as long as the frame's room, so that the address sanitizer sees what is written beyond.
  std::vector<camd_detection> items(static_cast<std::size_t>(capacity));
  camd_results results{sizeof(results), capacity, 0, items.data()};
  FrameEvents events;
  camd_event event{};
  event.struct_size = sizeof(event);
  event.name[0] = 'e';
  for (std::int32_t i = 0; i < events_before; ++i) (void)events.add(&event);
  camd_error error = no_error();
  bool moved = false;
  const CallResult result = take_answer(answers, capacity, events_before, results, events, error, moved);
  if (results.capacity != capacity || results.items != items.data()) std::abort();
  if (events.count() < events_before || events.count() > CAMD_MAX_EVENTS) std::abort();
  if (result == CallResult::kFailed) {
    if (std::memchr(error.message, '\0', sizeof(error.message)) == nullptr) std::abort();
    (void)message_of(error);
    return 0;
  }
  if (!moved) (void)problem_of(results);
  return 0;
}
