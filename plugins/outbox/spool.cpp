// A record on disk, little endian: "cms1", bytes of camera (u16), retain (u8), 0 (u8), bytes of topic (u32), bytes of
// payload (u32), FNV-1a of all that follows the sum and of what stands before it (u64), camera, topic, payload.
// The file `confirmed` holds "NAME OFFSET": where the first record stands that is still needed.
#include "plugins/outbox/spool.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "plugins/paths.hpp"

namespace camd::plugins {
namespace {

constexpr std::uint64_t kFileBytes = std::uint64_t{4} << 20U;
constexpr std::size_t kHeaderBytes = 24;
constexpr std::size_t kSumAt = 16;
constexpr std::uint32_t kMagic = 0x31736D63;  // "cms1"
constexpr std::uint32_t kMostBytes = std::uint32_t{1} << 28U;

std::uint64_t fnv1a(std::string_view bytes, std::uint64_t sum) noexcept {
  for (const char c : bytes) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  return sum;
}
// Of a record, whole in `bytes`.
std::uint64_t sum_of(std::string_view bytes) noexcept {
  return fnv1a(bytes.substr(kHeaderBytes), fnv1a(bytes.substr(0, kSumAt), 0xCBF29CE484222325U));
}

template <class T>
void put_number(char* at, T value) noexcept {
  for (std::size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
}
template <class T>
T number_at(const char* at) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= std::uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
  return static_cast<T>(value);
}

struct Header {
  std::uint16_t camera = 0;
  bool retain = false;
  std::uint32_t topic = 0;
  std::uint32_t payload = 0;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return kHeaderBytes + std::uint64_t{camera} + topic + payload; }
};
// Whether `bytes` begins with a header that can be one.
bool read_header(std::string_view bytes, Header& header) noexcept {
  if (bytes.size() < kHeaderBytes || number_at<std::uint32_t>(bytes.data()) != kMagic) return false;
  header = {number_at<std::uint16_t>(bytes.data() + 4), bytes[6] != 0, number_at<std::uint32_t>(bytes.data() + 8),
            number_at<std::uint32_t>(bytes.data() + 12)};
  return header.bytes() <= kMostBytes;
}

std::uint64_t bytes_of(const SpoolRecord& record) noexcept {
  return kHeaderBytes + record.camera.size() + record.message.topic.size() + record.message.payload.size();
}

std::runtime_error problem_with(const std::string& path, int error_number) {
  return std::runtime_error(io_message(path, error_number));
}

// All of the file. Throws std::runtime_error.
std::string whole_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw problem_with(path, errno);
  std::string bytes;
  struct stat known {};
  if (::fstat(file, &known) == 0) bytes.resize(static_cast<std::size_t>(known.st_size));
  std::size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t n = ::pread(file, bytes.data() + got, bytes.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  ::close(file);
  bytes.resize(got);
  return bytes;
}

}  // namespace

Spool::Spool(std::string folder, std::uint64_t max_bytes, const std::function<std::uint32_t(const std::string&)>& found)
    : folder_(std::move(folder)), max_bytes_(max_bytes) {
  std::error_code problem;
  std::filesystem::create_directories(folder_, problem);
  if (problem) throw std::runtime_error(folder_ + ": " + problem.message());
  const std::string lock = folder_ + "/lock";
  lock_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock_ < 0) throw problem_with(lock, errno);
  try {
    if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) throw std::runtime_error(folder_ + ": another camd spools there");
    open_folder(found);
  } catch (const std::exception&) {
    ::close(lock_);
    throw;
  }
}

Spool::~Spool() {
  save();
  if (writer_ >= 0) ::close(writer_);
  if (reader_ >= 0) ::close(reader_);
  ::close(lock_);
}

void Spool::open_folder(const std::function<std::uint32_t(const std::string&)>& found) {
  std::uint64_t name = 0, offset = 0;
  if (const std::string path = folder_ + "/confirmed"; is_there(path)) {
    const std::string text = whole_file(path);
    if (std::sscanf(text.c_str(), "%lu %lu", &name, &offset) != 2) name = offset = 0;  // NOLINT(cert-err34-c)
  }
  std::vector<std::uint64_t> names;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, problem)) {
    const std::string file = entry.path().filename();
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(file.data(), file.data() + file.size(), number);
    if (error == std::errc() && std::string_view(end) == ".spool") names.push_back(number);
  }
  if (problem) throw std::runtime_error(folder_ + ": " + problem.message());
  std::sort(names.begin(), names.end());
  for (const std::uint64_t one : names) {
    next_name_ = one + 1;
    if (one < name) {
      static_cast<void>(::unlink(path_of(one).c_str()));
    } else {
      scan(one, one == name ? offset : 0, found);
    }
  }
}

std::string Spool::path_of(std::uint64_t name) const { return fmt::format("{}/{:010}.spool", folder_, name); }

// Reads an earlier run's file from `begin` on, up to the first record that is torn or damaged, and cuts it there.
void Spool::scan(std::uint64_t name, std::uint64_t begin,
                 const std::function<std::uint32_t(const std::string&)>& found) {
  const std::string path = path_of(name);
  const std::string bytes = whole_file(path);
  File file{name, end_, std::min<std::uint64_t>(begin, bytes.size()), 0, {}};
  std::uint64_t at = file.begin;
  for (;;) {
    const std::string_view rest = std::string_view(bytes).substr(at);
    Header header;
    if (!read_header(rest, header) || rest.size() < header.bytes() || end_ == head_ + kMostRecords) break;
    const std::string_view record = rest.substr(0, header.bytes());
    if (number_at<std::uint64_t>(record.data() + kSumAt) != sum_of(record)) break;
    const std::uint32_t tag = found(std::string(record.substr(kHeaderBytes, header.camera)));
    file.entries.push_back({tag, static_cast<std::uint32_t>(record.size()), false});
    at += record.size();
    ++end_;
  }
  if (file.entries.empty()) {
    static_cast<void>(::unlink(path.c_str()));
    return;
  }
  if (at < bytes.size() && ::truncate(path.c_str(), static_cast<off_t>(at)) != 0) throw problem_with(path, errno);
  file.bytes = at;
  bytes_ += at;
  files_.push_back(std::move(file));
}

bool Spool::fits(const SpoolRecord& record) const noexcept {
  return bytes_ + bytes_of(record) <= max_bytes_ && end_ - head_ < kMostRecords && record.camera.size() <= 0xFFFFU;
}

void Spool::begin_file() {
  if (writer_ >= 0) ::close(std::exchange(writer_, -1));
  const std::string path = path_of(next_name_);
  writer_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (writer_ < 0) throw problem_with(path, errno);
  files_.push_back({next_name_++, end_, 0, 0, {}});
}

std::uint64_t Spool::append(const SpoolRecord& record, std::uint32_t tag, bool on_its_way) {
  const Message& message = record.message;
  const std::uint64_t size = bytes_of(record);
  if (size > kMostBytes) throw std::runtime_error(folder_ + ": a message is too big for the spool");
  if (writer_ < 0 || files_.back().bytes + size > kFileBytes) begin_file();
  buffer_.assign(kHeaderBytes, '\0');
  put_number(buffer_.data(), kMagic);
  put_number(buffer_.data() + 4, static_cast<std::uint16_t>(record.camera.size()));
  buffer_[6] = message.retain ? '\1' : '\0';
  put_number(buffer_.data() + 8, static_cast<std::uint32_t>(message.topic.size()));
  put_number(buffer_.data() + 12, static_cast<std::uint32_t>(message.payload.size()));
  buffer_ += record.camera;
  buffer_ += message.topic;
  buffer_ += message.payload;
  put_number(buffer_.data() + kSumAt, sum_of(buffer_));
  File& file = files_.back();
  std::size_t written = 0;
  while (written < buffer_.size()) {
    const ssize_t n =
        ::pwrite(writer_, buffer_.data() + written, buffer_.size() - written, static_cast<off_t>(file.bytes + written));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const int why = n < 0 ? errno : ENOSPC;
      static_cast<void>(::ftruncate(writer_, static_cast<off_t>(file.bytes)) == 0);
      throw problem_with(path_of(file.name), why);
    }
    written += static_cast<std::size_t>(n);
  }
  file.entries.push_back({tag, static_cast<std::uint32_t>(size), false});
  file.bytes += size;
  bytes_ += size;
  if (on_its_way) next_ = end_ + 1;
  return end_++;
}

Spool::File& Spool::file_of(std::uint64_t number) noexcept {
  const auto after = std::upper_bound(files_.begin(), files_.end(), number,
                                      [](std::uint64_t one, const File& file) { return one < file.first; });
  return *std::prev(after);
}

std::uint64_t Spool::offset_of(std::uint64_t number) noexcept {
  const File& file = file_of(number);
  std::uint64_t at = file.begin;
  for (std::uint64_t i = file.first; i < number; ++i) at += file.entries[i - file.first].bytes;
  return at;
}

Spool::Read Spool::read(SpoolRecord& record, std::uint64_t& number, std::uint32_t& tag) {
  while (next_ < end_ && file_of(next_).entries[next_ - file_of(next_).first].confirmed) ++next_;
  if (next_ == end_) return Read::kNothing;
  const File& file = file_of(next_);
  const Entry entry = file.entries[next_ - file.first];
  number = next_;
  tag = entry.tag;
  if (reader_ < 0 || reader_name_ != file.name) {
    if (reader_ >= 0) ::close(reader_);
    reader_ = ::open(path_of(file.name).c_str(), O_RDONLY | O_CLOEXEC);
    reader_name_ = file.name;
    next_offset_ = offset_of(next_);
    next_known_ = next_;
  }
  if (next_known_ != next_) next_offset_ = offset_of(next_);
  const std::uint64_t at = next_offset_;
  next_offset_ += entry.bytes;
  next_known_ = ++next_;
  buffer_.resize(entry.bytes);
  const ssize_t got = reader_ < 0 ? -1 : ::pread(reader_, buffer_.data(), buffer_.size(), static_cast<off_t>(at));
  Header header;
  if (got != static_cast<ssize_t>(entry.bytes) || !read_header(buffer_, header) || header.bytes() != entry.bytes ||
      number_at<std::uint64_t>(buffer_.data() + kSumAt) != sum_of(buffer_)) {
    return Read::kDamaged;
  }
  record.camera.assign(buffer_, kHeaderBytes, header.camera);
  record.message.topic.assign(buffer_, kHeaderBytes + header.camera, header.topic);
  record.message.payload.assign(buffer_, kHeaderBytes + header.camera + header.topic, header.payload);
  record.message.retain = header.retain;
  return Read::kRecord;
}

void Spool::confirm(std::uint64_t number) {
  if (number < head_ || number >= end_) return;
  File& file = file_of(number);
  file.entries[number - file.first].confirmed = true;
  while (head_ < end_) {
    const File& front = files_.front();
    if (!front.entries[head_ - front.first].confirmed) break;
    ++head_;
    if (head_ == front.first + front.entries.size()) remove_front();
  }
  next_ = std::max(next_, head_);
}

// The oldest file is not needed any more.
void Spool::remove_front() noexcept {
  const File& front = files_.front();
  if (files_.size() == 1 && writer_ >= 0) ::close(std::exchange(writer_, -1));
  if (reader_ >= 0 && reader_name_ == front.name) ::close(std::exchange(reader_, -1));
  static_cast<void>(::unlink(path_of(front.name).c_str()));
  bytes_ -= front.bytes;
  head_ = front.first + front.entries.size();
  next_ = std::max(next_, head_);
  files_.pop_front();
}

void Spool::rewind() noexcept { next_ = head_; }

bool Spool::drop_oldest(const std::function<void(std::uint32_t)>& dropped) {
  if (files_.size() < 2 || next_ != head_) return false;  // what was read may be on its way
  for (const Entry& entry : files_.front().entries) {
    if (!entry.confirmed) dropped(entry.tag);
  }
  remove_front();
  return true;
}

void Spool::save() noexcept {
  if (saved_ == head_) return;
  const std::string path = folder_ + "/confirmed";
  const std::string text =
      head_ < end_ ? fmt::format("{} {}\n", files_.front().name, offset_of(head_)) : fmt::format("{} 0\n", next_name_);
  try {
    write_whole_file(path, text.data(), text.size());
    saved_ = head_;
  } catch (const std::exception&) {
    return;  // some are sent again then: at least once
  }
}

}  // namespace camd::plugins
